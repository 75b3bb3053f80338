//! What the decisions need to know besides the commands.

use crate::day::Day;
use highwater::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::ops::RangeInclusive;

/// A restaurant: where it is and how much room it has.
#[derive(Debug, Clone)]
pub struct Restaurant {
    zone: TimeZone,
    seats_per_day: u32,
}

impl Restaurant {
    /// How many seats a day can have. A day's state lists its reservations; with more of them it could outgrow
    /// what a store takes as one change (256 KiB).
    pub const SEATS: RangeInclusive<u32> = 1..=200;

    /// The seats a day unless set otherwise.
    pub const DEFAULT_SEATS: u32 = 10;

    /// The time zone unless set otherwise.
    pub const DEFAULT_ZONE: &'static str = "Europe/Zurich";

    /// A restaurant in a time zone of the IANA database.
    ///
    /// # Errors
    /// [`InvalidRestaurant`].
    pub fn new(zone: &str, seats_per_day: u32) -> Result<Self, InvalidRestaurant> {
        if !Self::SEATS.contains(&seats_per_day) {
            return Err(InvalidRestaurant::Seats { seats: seats_per_day });
        }
        let unknown = |_| InvalidRestaurant::Zone { zone: zone.chars().take(64).collect() };
        Ok(Self { zone: TimeZone::get(zone).map_err(unknown)?, seats_per_day })
    }

    /// How many people it can seat on one day.
    pub fn seats_per_day(&self) -> u32 {
        self.seats_per_day
    }

    /// Which day it is there at a moment.
    pub fn today(&self, now: Timestamp) -> Day {
        Day::of(self.local(now).date())
    }

    /// A moment as its clock on the wall shows it: `Thursday 24 December 2026, 18:30`.
    pub fn wall_clock(&self, at: Timestamp) -> String {
        self.local(at).strftime("%A %-d %B %Y, %H:%M").to_string()
    }

    fn local(&self, at: Timestamp) -> DateTime {
        // A moment beyond the year 9999 is beyond every booking; the last one that can be shown will do.
        let moment = jiff::Timestamp::from_microsecond(at.as_micros()).unwrap_or(jiff::Timestamp::MAX);
        self.zone.to_datetime(moment)
    }
}

/// Why there cannot be such a restaurant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRestaurant {
    /// The time zone is unknown.
    #[error("`{zone}` is not a time zone; use a name like Europe/Zurich")]
    Zone {
        /// What was given, up to 64 characters.
        zone: String,
    },
    /// The number of seats is out of range.
    #[error("{seats} seats a day are not possible; use 1 to 200")]
    Seats {
        /// What was given.
        seats: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_day_begins_at_midnight_in_the_restaurants_zone() {
        // 2026-12-23T23:30:00Z is already the 24th in Zürich, and still the 23rd in New York.
        let moment = Timestamp::from_micros(1_798_068_600_000_000);
        let today = |zone| Restaurant::new(zone, 10).unwrap().today(moment).to_string();
        assert_eq!(today("Europe/Zurich"), "2026-12-24");
        assert_eq!(today("America/New_York"), "2026-12-23");
    }

    #[test]
    fn an_unknown_zone_and_an_impossible_number_of_seats_are_refused() {
        assert!(matches!(Restaurant::new("Europe/Atlantis", 10), Err(InvalidRestaurant::Zone { .. })));
        for seats in [0, 201] {
            assert_eq!(Restaurant::new("UTC", seats).unwrap_err(), InvalidRestaurant::Seats { seats });
        }
    }
}
