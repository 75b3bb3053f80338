//! Which days of a month cannot be booked.

use crate::capacity::{Capacity, CapacityEvent};
use crate::day::Day;
use highwater::{Folded, Follow, Recorded, Sources, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The calendar: one document per month, `2026-12`, fed by all of its days.
#[derive(Debug, Clone, Copy)]
pub struct MonthView;

/// A month of the calendar.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SoldOutDays {
    /// The numbers of the days that are sold out.
    pub days: BTreeSet<u8>,
    /// The numbers of the days that are closed, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub closed: BTreeMap<u8, String>,
}

impl SoldOutDays {
    /// Whether a day of this number takes no bookings, full or closed.
    pub fn is_disabled(&self, day: u8) -> bool {
        self.days.contains(&day) || self.closed.contains_key(&day)
    }
}

impl View for MonthView {
    const NAME: &'static str = "month";
    type Document = SoldOutDays;

    fn sources(sources: Sources<Self>) -> Sources<Self> {
        sources.follow::<Capacity>()
    }
}

impl Follow<Capacity> for MonthView {
    fn keys(&self, event: &Recorded<CapacityEvent>) -> Vec<String> {
        match event.event {
            CapacityEvent::SoldOut
            | CapacityEvent::Reopened
            | CapacityEvent::Closed { .. }
            | CapacityEvent::Opened => {
                Day::parse(event.key().id.as_str()).map(|day| day.month().to_string()).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn fold(&self, _: &str, mut month: SoldOutDays, event: &Recorded<CapacityEvent>) -> Folded<SoldOutDays> {
        if let Some(day) = Day::parse(event.key().id.as_str()) {
            let number = day.number();
            match &event.event {
                CapacityEvent::SoldOut => drop(month.days.insert(number)),
                CapacityEvent::Reopened => drop(month.days.remove(&number)),
                CapacityEvent::Closed { reason } => drop(month.closed.insert(number, reason.clone())),
                CapacityEvent::Opened => drop(month.closed.remove(&number)),
                _ => {}
            }
        }
        Folded::Put(month)
    }
}
