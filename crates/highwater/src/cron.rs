//! When a cron expression comes round in a time zone. The fields are matched by `croner`, which also says what becomes
//! of times that a time zone leaves out or repeats; `jiff` knows the time zones.

use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use croner::time::{CivilDate, CivilDateTime, CivilTime, CronDateTime, Resolution, Weekday};
use highwater_core::Timestamp;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, ZonedDateTime};
use std::cmp::Ordering;

/// A cron expression of five fields in a time zone.
pub(crate) struct Cron {
    pattern: croner::Cron,
    zone: TimeZone,
}

impl Cron {
    /// Reads an expression and finds its time zone; what is wrong with them, otherwise.
    pub(crate) fn new(expression: &str, time_zone: &str) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let pattern = parse(expression).map_err(|fault| faults.push(fault)).ok();
        let zone = TimeZone::get(time_zone).map_err(|_| {
            faults.push(format!(
                "the time zone `{time_zone}` is not known: use a name like `Europe/Zurich`, or `UTC`"
            ));
        });
        let (Some(pattern), Ok(zone)) = (pattern, zone) else { return Err(faults) };
        let cron = Self { pattern, zone };
        // From a leap day on, so that one that comes on leap days only is found.
        match cron.next(Timestamp::from_micros(951_782_400_000_000)) {
            Some(_) => Ok(cron),
            None => Err(vec![format!("the cron expression `{expression}` names a day that never comes")]),
        }
    }

    /// The first time after this moment.
    pub(crate) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let from = self.local(after)?;
        let next = from.moment(self.pattern.find_next_occurrence(&from, false))?;
        (next > after).then_some(next)
    }

    /// The last time at or before this moment.
    pub(crate) fn latest(&self, until: Timestamp) -> Option<Timestamp> {
        let from = self.local(until)?;
        let latest = from.moment(self.pattern.find_previous_occurrence(&from, true))?;
        (latest <= until).then_some(latest)
    }

    /// This moment in the time zone, RFC 3339 with its offset.
    pub(crate) fn written(&self, moment: Timestamp) -> String {
        self.local(moment)
            .map_or_else(|| moment.to_string(), |local| local.0.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string())
    }

    fn local(&self, moment: Timestamp) -> Option<Local> {
        let seconds = moment.as_micros().div_euclid(1_000_000);
        let moment = jiff::Timestamp::from_second(seconds).ok()?;
        Some(Local(moment.to_zoned_datetime(self.zone.clone())))
    }
}

fn parse(expression: &str) -> Result<croner::Cron, String> {
    let fields = expression.split_whitespace().count();
    if fields != 5 {
        return Err(format!(
            "a cron expression has 5 fields (minute, hour, day of month, month, day of week), `{expression}` has {fields}"
        ));
    }
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    parser
        .parse(expression)
        .map_err(|error| format!("the cron expression `{expression}` cannot be read: {error}"))
}

/// A moment in a time zone, as `croner` asks for it.
#[derive(Clone)]
struct Local(ZonedDateTime);

impl Local {
    fn moment(&self, found: Result<Self, CronError>) -> Option<Timestamp> {
        found.ok().map(|found| Timestamp::from_micros(found.0.timestamp().as_microsecond()))
    }
}

fn date_time(civil: CivilDateTime) -> Option<jiff::civil::DateTime> {
    let part = |part: u32| i8::try_from(part).ok();
    let year = i16::try_from(civil.year()).ok()?;
    let (month, day) = (part(civil.month())?, part(civil.day())?);
    let (hour, minute, second) = (part(civil.hour())?, part(civil.minute())?, part(civil.second())?);
    jiff::civil::DateTime::new(year, month, day, hour, minute, second, 0).ok()
}

impl CronDateTime for Local {
    fn to_civil(&self) -> CivilDateTime {
        let (date, time) = (self.0.date(), self.0.time());
        let part = |part: i8| u32::from(part.unsigned_abs());
        // `jiff` hands out no part that is out of range.
        CivilDateTime::new(
            CivilDate::from_parts_unchecked(date.year().into(), part(date.month()), part(date.day())),
            CivilTime::from_parts_unchecked(part(time.hour()), part(time.minute()), part(time.second())),
        )
    }

    fn civil_weekday(&self) -> Weekday {
        let days = self.0.weekday().to_sunday_zero_offset();
        Weekday::from_days_from_sunday(u32::from(days.unsigned_abs()))
    }

    fn resolve_civil(&self, civil: CivilDateTime) -> Result<Resolution<Self>, CronError> {
        let ambiguous =
            self.0.time_zone().to_ambiguous_zoned_datetime(date_time(civil).ok_or(CronError::InvalidDate)?);
        let invalid = |_| CronError::InvalidTime;
        Ok(match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { .. } => {
                Resolution::Single(Self(ambiguous.unambiguous().map_err(invalid)?))
            }
            AmbiguousOffset::Fold { .. } => Resolution::Ambiguous(
                Self(ambiguous.clone().earlier().map_err(invalid)?),
                Self(ambiguous.later().map_err(invalid)?),
            ),
            AmbiguousOffset::Gap { .. } => Resolution::Gap,
        })
    }

    fn checked_add_seconds(&self, seconds: i64) -> Option<Self> {
        self.0.checked_add(SignedDuration::from_secs(seconds)).ok().map(Self)
    }

    fn cmp_instant(&self, other: &Self) -> Ordering {
        self.0.timestamp().cmp(&other.0.timestamp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        let moment: jiff::Timestamp = text.parse().unwrap();
        Timestamp::from_micros(moment.as_microsecond())
    }

    /// The times from a moment on, written in the time zone.
    fn times(expression: &str, from: &str, count: usize) -> Vec<String> {
        let cron = Cron::new(expression, "Europe/Zurich").unwrap();
        let mut moment = at(from);
        let mut next = || {
            moment = cron.next(moment).unwrap();
            cron.written(moment)
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn a_time_that_the_clocks_leave_out_comes_when_they_have_jumped() {
        assert_eq!(
            times("30 2 * * *", "2026-03-28T00:00:00Z", 3),
            ["2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]
        );
        assert_eq!(
            times("30 * * * *", "2026-03-29T00:00:00Z", 3),
            ["2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00", "2026-03-29T04:30:00+02:00"]
        );
    }

    #[test]
    fn a_time_that_the_clocks_repeat_comes_once_unless_it_comes_every_hour() {
        assert_eq!(
            times("30 2 * * *", "2026-10-24T12:00:00Z", 2),
            ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]
        );
        assert_eq!(
            times("30 * * * *", "2026-10-25T00:00:00Z", 3),
            ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:30:00+01:00"]
        );
    }

    #[test]
    fn going_back_finds_the_times_that_going_on_finds() {
        let expressions =
            ["30 2 * * *", "0 2,3 * * *", "0 3 * * *", "45 */2 * * *", "15 1-3 * * SUN", "0 0 L * *"];
        for zone in ["Europe/Zurich", "Australia/Lord_Howe"] {
            for expression in expressions {
                let cron = Cron::new(expression, zone).unwrap();
                let end = at("2027-01-01T00:00:00Z");
                let (mut on, mut moment) = (Vec::new(), at("2026-01-01T00:00:00Z"));
                while let Some(next) = cron.next(moment).filter(|next| *next <= end) {
                    assert_eq!(cron.latest(next), Some(next), "{expression} {zone}");
                    on.push(next);
                    moment = next;
                }
                let (mut back, mut moment) = (Vec::new(), end);
                while let Some(found) =
                    cron.latest(moment).filter(|found| *found > at("2026-01-01T00:00:00Z"))
                {
                    back.push(found);
                    moment = Timestamp::from_micros(found.as_micros() - 1);
                }
                back.reverse();
                assert!(on.len() >= 12, "{expression} {zone}");
                assert_eq!(on, back, "{expression} {zone}");
            }
        }
    }

    #[test]
    fn what_cannot_be_read_is_said_at_once() {
        let fault = |expression, zone| Cron::new(expression, zone).err().unwrap().join("; ");
        assert!(fault("0 3 * *", "UTC").contains("has 4"));
        assert!(fault("0 0 3 * * *", "UTC").contains("has 6"));
        assert!(fault("61 3 * * *", "UTC").contains("`61 3 * * *` cannot be read"));
        assert!(fault("0 0 30 2 *", "UTC").contains("never comes"));
        assert!(fault("0 3 * * *", "Europe/Atlantis").contains("`Europe/Atlantis` is not known"));
        assert_eq!(fault("x", "nowhere").matches(';').count(), 1, "both faults");
        assert!(Cron::new("0 0 29 2 *", "UTC").is_ok());
    }
}
