//! What a receipt says besides the verdict.

use crate::capacity::{Capacity, CapacityEvent};
use highwater::{CommandId, Folded, Follow, Recorded, Sources, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What was decided about each reservation: one document per reservation, under its id.
#[derive(Debug, Clone, Copy)]
pub struct ReceiptView;

/// What a receipt says about a booking that was decided.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Booking {
    /// The day, `2026-12-24`.
    pub day: String,
    /// Who asked.
    pub name: String,
    /// For how many people.
    pub quantity: u32,
    /// Whether the seats were given back.
    pub cancelled: bool,
}

/// The id of the one command that cancels a reservation, the same however often somebody asks for it.
pub fn cancellation(reservation: CommandId) -> CommandId {
    CommandId(Uuid::new_v5(&reservation.0, b"cancel"))
}

impl View for ReceiptView {
    const NAME: &'static str = "receipts";
    type Document = Booking;

    fn sources(sources: Sources<Self>) -> Sources<Self> {
        sources.follow::<Capacity>()
    }
}

impl Follow<Capacity> for ReceiptView {
    fn keys(&self, event: &Recorded<CapacityEvent>) -> Vec<String> {
        match &event.event {
            CapacityEvent::Reserved { reservation, .. }
            | CapacityEvent::Declined { reservation, .. }
            | CapacityEvent::Cancelled { reservation, .. } => vec![reservation.to_string()],
            _ => Vec::new(),
        }
    }

    fn fold(&self, _: &str, booking: Booking, event: &Recorded<CapacityEvent>) -> Folded<Booking> {
        match &event.event {
            CapacityEvent::Reserved { name, quantity, .. }
            | CapacityEvent::Declined { name, quantity, .. } => {
                let (day, name) = (event.key().id.to_string(), name.clone());
                Folded::Put(Booking { day, name, quantity: *quantity, cancelled: false })
            }
            CapacityEvent::Cancelled { .. } => Folded::Put(Booking { cancelled: true, ..booking }),
            _ => Folded::Put(booking),
        }
    }
}
