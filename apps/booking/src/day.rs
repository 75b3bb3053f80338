//! Days and months that exist, in a form for machines and in words that nobody misreads.

use jiff::civil::Date;
use std::fmt;

/// A day that exists, in the years 1 to 9999. Shown as `2026-12-24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(Date);

impl Day {
    /// Reads `2026-12-24`, exactly so. `None` for anything else and for days that do not exist.
    pub fn parse(text: &str) -> Option<Self> {
        let (year, rest) = text.split_at_checked(4)?;
        let (month, day) = rest.strip_prefix('-')?.split_once('-')?;
        let date = Date::new(number(year, 4)?, number(month, 2)?, number(day, 2)?).ok()?;
        (date.year() >= 1).then_some(Self(date))
    }

    /// The day of a date of the calendar.
    pub fn of(date: Date) -> Self {
        Self(date)
    }

    /// `Thursday 24 December 2026`.
    pub fn words(self) -> String {
        self.0.strftime("%A %-d %B %Y").to_string()
    }

    /// `2026.12.24`.
    pub fn dotted(self) -> String {
        self.0.strftime("%Y.%m.%d").to_string()
    }

    /// The day of the month, from 1.
    pub fn number(self) -> u8 {
        self.0.day().unsigned_abs()
    }

    /// The day after; `None` after the last.
    pub fn next(self) -> Option<Self> {
        self.0.tomorrow().ok().map(Self)
    }

    /// How many days lie between this one and the Monday before it, 0 for a Monday.
    pub fn days_since_monday(self) -> u8 {
        self.0.weekday().to_monday_zero_offset().unsigned_abs()
    }

    /// The month that it lies in.
    pub fn month(self) -> Month {
        Month(self.0.first_of_month())
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.strftime("%Y-%m-%d").fmt(f)
    }
}

/// A month that exists, in the years 1 to 9999. Shown as `2026-12`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Month(Date);

impl Month {
    /// The month of this year (1 to 9999) and number (1 to 12).
    pub fn new(year: i16, month: i8) -> Option<Self> {
        let first = Date::new(year, month, 1).ok()?;
        (1..=9999).contains(&year).then_some(Self(first))
    }

    /// Reads a year and a month of up to four and two digits.
    pub fn parse(year: &str, month: &str) -> Option<Self> {
        Self::new(number(year, 4)?, number(month, 2)?)
    }

    /// `December 2026`.
    pub fn words(self) -> String {
        self.0.strftime("%B %Y").to_string()
    }

    /// The year.
    pub fn year(self) -> i16 {
        self.0.year()
    }

    /// The number of the month, from 1.
    pub fn number(self) -> i8 {
        self.0.month()
    }

    /// Its days, in order.
    pub fn days(self) -> impl Iterator<Item = Day> {
        (1..=self.0.days_in_month()).filter_map(move |day| self.day(day))
    }

    /// Its day of this number.
    pub fn day(self, number: i8) -> Option<Day> {
        Date::new(self.year(), self.number(), number).ok().map(Day)
    }

    /// The month before; `None` before the first.
    pub fn previous(self) -> Option<Self> {
        if self.number() == 1 {
            Self::new(self.year() - 1, 12)
        } else {
            Self::new(self.year(), self.number() - 1)
        }
    }

    /// The month after; `None` after the last.
    pub fn next(self) -> Option<Self> {
        if self.number() == 12 {
            Self::new(self.year() + 1, 1)
        } else {
            Self::new(self.year(), self.number() + 1)
        }
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.strftime("%Y-%m").fmt(f)
    }
}

/// A number of 1 to `most` ASCII digits, without sign or space.
fn number<N: std::str::FromStr>(text: &str, most: usize) -> Option<N> {
    let digits = (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_said_unmistakably() {
        let day = Day::parse("2026-12-24").unwrap();
        assert_eq!(day.words(), "Thursday 24 December 2026");
        assert_eq!((day.to_string(), day.dotted()), ("2026-12-24".into(), "2026.12.24".into()));
        assert_eq!((day.number(), day.days_since_monday()), (24, 3));
        assert_eq!(
            (day.month().to_string(), day.month().words()),
            ("2026-12".into(), "December 2026".into())
        );
        assert_eq!(Day::parse("0987-06-05").unwrap().to_string(), "0987-06-05");
    }

    #[test]
    fn days_that_do_not_exist_are_refused() {
        let unreal = [
            "",
            "2026",
            "2026-02-30",
            "2026-13-01",
            "2026-00-10",
            "0000-01-01",
            "2027-02-29",
            "2026-12-32",
            "2026-12-24 ",
            "+026-12-24",
            "26-12-24",
            "24.12.2026",
            "2026-12-24T00:00",
            "２０２６-12-24",
            "-001-01-01",
        ];
        for text in unreal {
            assert_eq!(Day::parse(text), None, "{text}");
        }
        assert!(Day::parse("2028-02-29").is_some());
    }

    #[test]
    fn months_follow_each_other_and_end_where_the_calendar_ends() {
        let december = Month::new(2026, 12).unwrap();
        assert_eq!(december.next().unwrap().to_string(), "2027-01");
        assert_eq!(december.previous().unwrap().to_string(), "2026-11");
        assert_eq!(december.days().count(), 31);
        assert_eq!(Month::new(2028, 2).unwrap().days().count(), 29);
        assert_eq!(
            (Month::new(1, 1).unwrap().previous(), Month::new(9999, 12).unwrap().next()),
            (None, None)
        );
        assert_eq!((Month::new(0, 1), Month::new(2026, 13), Month::parse("2026", "-1")), (None, None, None));
        assert_eq!(Month::parse("2026", "9"), Month::parse("2026", "09"));
    }
}
