//! The seats of one day, and who has them: decides every booking.

use crate::day::Day;
use crate::guest::{check_email, check_name};
use crate::restaurant::Restaurant;
use highwater::{Aggregate, CommandId, Context, Decision};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The container of the reservations, one item each beside the day's capacity.
pub const RESERVATIONS: &str = "reservations";

/// What can be asked of a day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CapacityCommand {
    /// Seats for a party. The command's id becomes the reservation's.
    Reserve {
        /// Who asks.
        name: String,
        /// Where the answer goes.
        email: String,
        /// For how many people.
        quantity: u32,
    },
    /// Gives the seats of a reservation back.
    Cancel {
        /// The reservation.
        reservation: CommandId,
    },
}

/// What can happen to a day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CapacityEvent {
    /// A party has its seats.
    Reserved {
        /// The reservation.
        reservation: CommandId,
        /// Who has them.
        name: String,
        /// Where the answer goes.
        email: String,
        /// How many.
        quantity: u32,
        /// How many seats are left.
        remaining: u32,
    },
    /// Nothing remains.
    SoldOut,
    /// A party was refused, and must be told.
    Declined {
        /// The reservation that it would have been.
        reservation: CommandId,
        /// Who asked.
        name: String,
        /// Where the answer goes.
        email: String,
        /// For how many people.
        quantity: u32,
        /// Why not.
        reason: String,
    },
    /// A party gave its seats back.
    Cancelled {
        /// The reservation.
        reservation: CommandId,
        /// Who had them.
        name: String,
        /// Where the confirmation goes.
        email: String,
        /// How many.
        quantity: u32,
    },
    /// A day that was sold out has seats again.
    Reopened,
}

/// A party and its seats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Who has them.
    pub name: String,
    /// Where letters go.
    pub email: String,
    /// How many.
    pub quantity: u32,
}

/// The seats of one day. Its key, as partition key and as id, is the day: `2026-12-24`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// Whether `SoldOut` was the last word about the day.
    sold_out: bool,
    reservations: BTreeMap<CommandId, Reservation>,
}

impl Capacity {
    /// How many seats are taken.
    pub fn taken(&self) -> u32 {
        self.reservations.values().fold(0, |taken, party| taken.saturating_add(party.quantity))
    }

    fn free(&self, restaurant: &Restaurant) -> u32 {
        restaurant.seats_per_day().saturating_sub(self.taken())
    }

    /// The event that is due when this many seats are free: one `SoldOut` and one `Reopened` per sold-out period.
    fn turn(&self, free: u32) -> Option<CapacityEvent> {
        match (self.sold_out, free) {
            (false, 0) => Some(CapacityEvent::SoldOut),
            (true, 1..) => Some(CapacityEvent::Reopened),
            _ => None,
        }
    }

    fn reserve(&self, party: Reservation, day: Day, context: &Context<'_, Self>) -> Decision<Self> {
        let Reservation { name, email, quantity } = party.clone();
        // Nobody can be told: only the sender of the command learns of it.
        if let Err(fault) = check_name(&name).and_then(|()| check_email(&email)) {
            return Decision::reject(fault.trim_end_matches('.'));
        }
        let reservation = context.command;
        let decline = |reason: String, turn: Option<CapacityEvent>| {
            let declined =
                CapacityEvent::Declined { reservation, name, email, quantity, reason: reason.clone() };
            Decision::reject(reason).with_events([declined]).with_events(turn)
        };
        let (seats, free) = (context.settings.seats_per_day(), self.free(context.settings));
        if day < context.settings.today(context.now) {
            return decline(format!("{} has passed", day.words()), None);
        }
        if !(1..=seats).contains(&quantity) {
            return decline(format!("a booking is for 1 to {seats} people, not for {quantity}"), None);
        }
        if free == 0 {
            return decline(format!("no seats are left on {}", day.words()), self.turn(free));
        }
        if quantity > free {
            let seats = if free == 1 { "1 seat is".into() } else { format!("{free} seats are") };
            return decline(format!("only {seats} left on {}", day.words()), self.turn(free));
        }
        let remaining = free - quantity;
        let Reservation { name, email, quantity } = party.clone();
        Decision::accept([CapacityEvent::Reserved { reservation, name, email, quantity, remaining }])
            .with_events(self.turn(remaining))
            .put_item(RESERVATIONS, &reservation.to_string(), &party)
    }

    fn cancel(&self, reservation: CommandId, day: Day, context: &Context<'_, Self>) -> Decision<Self> {
        let Some(party) = self.reservations.get(&reservation) else {
            return Decision::reject(format!("there is no such reservation on {}", day.words()));
        };
        if day < context.settings.today(context.now) {
            return Decision::reject(format!("{} has passed", day.words()));
        }
        let Reservation { name, email, quantity } = party.clone();
        let taken = self.taken().saturating_sub(quantity);
        let turn = self.turn(context.settings.seats_per_day().saturating_sub(taken));
        Decision::accept([CapacityEvent::Cancelled { reservation, name, email, quantity }])
            .with_events(turn)
            .delete_item(RESERVATIONS, &reservation.to_string())
    }
}

impl Aggregate for Capacity {
    const CONTAINER: &'static str = "capacity";
    type Command = CapacityCommand;
    type Event = CapacityEvent;
    type Settings = Restaurant;

    fn decide(&self, command: CapacityCommand, context: &Context<'_, Self>) -> Decision<Self> {
        // Two capacities of one day would sell its seats twice, so there is one address for it.
        let (key, id) = (context.key.partition_key.as_str(), context.key.id.as_str());
        let Some(day) = Day::parse(id).filter(|_| key == id) else {
            return Decision::reject(format!("there is no day `{id}`; days are written like 2026-12-24"));
        };
        match command {
            CapacityCommand::Reserve { name, email, quantity } => {
                self.reserve(Reservation { name, email, quantity }, day, context)
            }
            CapacityCommand::Cancel { reservation } => self.cancel(reservation, day, context),
        }
    }

    fn apply(&mut self, event: &CapacityEvent) {
        match event {
            CapacityEvent::Reserved { reservation, name, email, quantity, .. } => {
                let party = Reservation { name: name.clone(), email: email.clone(), quantity: *quantity };
                self.reservations.insert(*reservation, party);
            }
            CapacityEvent::Cancelled { reservation, .. } => {
                self.reservations.remove(reservation);
            }
            CapacityEvent::SoldOut => self.sold_out = true,
            CapacityEvent::Reopened => self.sold_out = false,
            CapacityEvent::Declined { .. } => {}
        }
    }
}
