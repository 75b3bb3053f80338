use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::{fmt, time::Duration};

/// A moment in microseconds since 1970-01-01T00:00:00Z, leap seconds not counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The moment this many microseconds after the start of 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the start of 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The moment `span` later; the last representable one if that is too far.
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }

    /// The time from `earlier` to this moment, zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes the moment as RFC 3339 in UTC with microseconds, `2026-12-24T18:30:00.000000Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, micros) = (self.0.div_euclid(86_400_000_000), self.0.rem_euclid(86_400_000_000));
        // Days to a proleptic Gregorian date, counted in 400-year eras that start on 1 March of year 0
        // (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days).
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

/// Where all time comes from. Tests drive it by hand.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// The time of day. It may jump; a store guards itself with the last time it stored.
    fn now(&self) -> Timestamp;

    /// Time since some fixed moment of this process. Never runs backwards.
    fn monotonic(&self) -> Duration;

    /// Returns once `span` has passed on this clock.
    async fn sleep(&self, span: Duration);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_written_as_rfc_3339() {
        let written = |micros| Timestamp::from_micros(micros).to_string();
        assert_eq!(written(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(written(-1), "1969-12-31T23:59:59.999999Z");
        assert_eq!(written(951_782_400_000_000), "2000-02-29T00:00:00.000000Z");
        assert_eq!(written(1_798_741_799_000_001), "2026-12-31T18:29:59.000001Z");
    }
}
