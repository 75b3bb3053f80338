//! The seats of one day, and who has them: decides every booking.

use crate::day::Day;
use crate::guest::{check_email, check_name};
use crate::restaurant::Restaurant;
use highwater::{Aggregate, CommandId, Context, Decision};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The container of the reservations, one item each beside the day's capacity.
pub const RESERVATIONS: &str = "reservations";

/// What can be asked of a day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// Gives the day seats of its own, or with `None` as many as every day has. Fewer than are taken is possible: who
    /// has seats keeps them, and nobody gets more.
    SetSeats {
        /// How many.
        seats: Option<u32>,
    },
    /// Takes no more bookings for the day. Who has seats keeps them until somebody has talked to them.
    Close {
        /// Why, for guests; may be empty.
        reason: String,
    },
    /// Takes bookings for a closed day again.
    Open,
}

/// What can happen to a day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// The day has seats of its own, or none of its own any more.
    SeatsSet {
        /// How many.
        seats: Option<u32>,
    },
    /// No more bookings are taken.
    Closed {
        /// Why, for guests; may be empty.
        reason: String,
    },
    /// Bookings are taken again.
    Opened,
}

/// A party and its seats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reservation {
    /// Who has them.
    pub name: String,
    /// Where letters go.
    pub email: String,
    /// How many.
    pub quantity: u32,
}

/// The seats of one day. Its key, as partition key and as id, is the day: `2026-12-24`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capacity {
    /// Whether `SoldOut` was the last word about the day.
    sold_out: bool,
    reservations: BTreeMap<CommandId, Reservation>,
    /// Seats of this day's own, if it has other than every day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seats: Option<u32>,
    /// Why no bookings are taken, if none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    closed: Option<String>,
}

/// The longest reason for closing a day, in characters.
pub const REASON_CHARS: usize = 200;

impl Capacity {
    /// How many seats are taken.
    pub fn taken(&self) -> u32 {
        self.reservations.values().fold(0, |taken, party| taken.saturating_add(party.quantity))
    }

    /// How many seats the day has.
    fn seats(&self, restaurant: &Restaurant) -> u32 {
        self.seats.unwrap_or(restaurant.seats_per_day())
    }

    fn free(&self, restaurant: &Restaurant) -> u32 {
        self.seats(restaurant).saturating_sub(self.taken())
    }

    /// Whether somebody has a table under this address, however it is spelled in capitals.
    fn has(&self, email: &str) -> bool {
        self.reservations.values().any(|party| party.email.eq_ignore_ascii_case(email))
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
        let (seats, free) = (self.seats(context.settings), self.free(context.settings));
        if day < context.settings.today(context.now) {
            return decline(format!("{} has passed", day.words()), None);
        }
        if let Some(why) = &self.closed {
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            return decline(format!("the restaurant is closed on {}{why}", day.words()), None);
        }
        if self.has(&party.email) {
            let day = day.words();
            return decline(
                format!(
                    "there is a booking under this e-mail address on {day} already; the letter about it has a link to cancel it"
                ),
                None,
            );
        }
        if seats > 0 && !(1..=seats).contains(&quantity) {
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
        let turn = self.turn(self.seats(context.settings).saturating_sub(taken));
        Decision::accept([CapacityEvent::Cancelled { reservation, name, email, quantity }])
            .with_events(turn)
            .delete_item(RESERVATIONS, &reservation.to_string())
    }

    fn set_seats(&self, seats: Option<u32>, context: &Context<'_, Self>) -> Decision<Self> {
        let most = *Restaurant::SEATS.end();
        if seats.is_some_and(|seats| seats > most) {
            return Decision::reject(format!("a day can have {most} seats at most"));
        }
        if seats == self.seats {
            return Decision::accept([]);
        }
        let free = seats.unwrap_or(context.settings.seats_per_day()).saturating_sub(self.taken());
        Decision::accept([CapacityEvent::SeatsSet { seats }]).with_events(self.turn(free))
    }

    fn close(&self, reason: String) -> Decision<Self> {
        if reason.chars().count() > REASON_CHARS || reason.chars().any(char::is_control) {
            let wanted = format!("a reason has {REASON_CHARS} characters at most, and no line breaks");
            return Decision::reject(wanted);
        }
        if self.closed.as_ref() == Some(&reason) {
            return Decision::accept([]);
        }
        Decision::accept([CapacityEvent::Closed { reason }])
    }

    fn open(&self) -> Decision<Self> {
        Decision::accept(self.closed.is_some().then_some(CapacityEvent::Opened))
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
            CapacityCommand::SetSeats { seats } => self.set_seats(seats, context),
            CapacityCommand::Close { reason } => self.close(reason),
            CapacityCommand::Open => self.open(),
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
            CapacityEvent::SeatsSet { seats } => self.seats = *seats,
            CapacityEvent::Closed { reason } => self.closed = Some(reason.clone()),
            CapacityEvent::Opened => self.closed = None,
            CapacityEvent::Declined { .. } => {}
        }
    }
}
