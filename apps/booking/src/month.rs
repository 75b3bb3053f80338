//! Which days of a month are sold out.

use crate::capacity::{Capacity, CapacityEvent};
use crate::day::Day;
use highwater::{Folded, Follow, Recorded, Sources, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The calendar: one document per month, `2026-12`, fed by all of its days.
#[derive(Debug, Clone, Copy)]
pub struct MonthView;

/// A month of the calendar.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoldOutDays {
    /// The numbers of the days that are sold out.
    pub days: BTreeSet<u8>,
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
            CapacityEvent::SoldOut | CapacityEvent::Reopened => {
                Day::parse(event.key().id.as_str()).map(|day| day.month().to_string()).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn fold(&self, _: &str, mut month: SoldOutDays, event: &Recorded<CapacityEvent>) -> Folded<SoldOutDays> {
        if let Some(day) = Day::parse(event.key().id.as_str()) {
            match event.event {
                CapacityEvent::SoldOut => month.days.insert(day.number()),
                CapacityEvent::Reopened => month.days.remove(&day.number()),
                _ => false,
            };
        }
        Folded::Put(month)
    }
}
