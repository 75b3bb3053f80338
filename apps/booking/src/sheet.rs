//! Who comes on a day: what the restaurant prints in the afternoon.

use crate::capacity::{Capacity, CapacityEvent};
use highwater::{CommandId, Folded, Follow, Recorded, Sources, Timestamp, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The day sheets: one document per day, `2026-12-24`.
#[derive(Debug, Clone, Copy)]
pub struct SheetView;

/// What is known of a day.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sheet {
    /// Who has seats.
    pub parties: BTreeMap<CommandId, Party>,
    /// Seats of this day's own, if it has other than every day.
    pub seats: Option<u32>,
    /// Why it is closed, if it is.
    pub closed: Option<String>,
}

/// A party on the sheet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Party {
    /// Who comes.
    pub name: String,
    /// With how many people, the guest included.
    pub quantity: u32,
    /// When it was booked.
    pub booked: Timestamp,
}

impl Sheet {
    /// How many seats are taken.
    pub fn taken(&self) -> u32 {
        self.parties.values().fold(0, |taken, party| taken.saturating_add(party.quantity))
    }
}

impl View for SheetView {
    const NAME: &'static str = "sheets";
    type Document = Sheet;

    fn sources(sources: Sources<Self>) -> Sources<Self> {
        sources.follow::<Capacity>()
    }
}

impl Follow<Capacity> for SheetView {
    fn keys(&self, event: &Recorded<CapacityEvent>) -> Vec<String> {
        match event.event {
            CapacityEvent::Declined { .. } | CapacityEvent::SoldOut | CapacityEvent::Reopened => Vec::new(),
            _ => vec![event.key().id.to_string()],
        }
    }

    fn fold(&self, _: &str, mut sheet: Sheet, event: &Recorded<CapacityEvent>) -> Folded<Sheet> {
        match &event.event {
            CapacityEvent::Reserved { reservation, name, quantity, .. } => {
                let party = Party { name: name.clone(), quantity: *quantity, booked: event.at };
                sheet.parties.insert(*reservation, party);
            }
            CapacityEvent::Cancelled { reservation, .. } => drop(sheet.parties.remove(reservation)),
            CapacityEvent::SeatsSet { seats } => sheet.seats = *seats,
            CapacityEvent::Closed { reason } => sheet.closed = Some(reason.clone()),
            CapacityEvent::Opened => sheet.closed = None,
            CapacityEvent::Declined { .. } | CapacityEvent::SoldOut | CapacityEvent::Reopened => {}
        }
        Folded::Put(sheet)
    }
}
