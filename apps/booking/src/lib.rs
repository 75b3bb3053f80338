//! A restaurant's booking site on Highwater, after the article "CQRS on Windows Azure" (MSDN Magazine, 2011).
//!
//! A browser posts a booking; the web part sends it as a command and shows a receipt. A worker lets the day's
//! [`Capacity`] decide. One commit carries the decision, the events and the verdict; the change feed brings them
//! to the calendar ([`MonthView`]), to the receipts ([`ReceiptView`]) and to the mail ([`mail`]).
//!
//! | module | what it does |
//! | --- | --- |
//! | [`day`] | days and months that exist, in words nobody misreads |
//! | [`guest`] | which names and addresses can be written to |
//! | [`restaurant`] | what the decisions need to know |
//! | [`capacity`] | decides |
//! | [`month`], [`receipt`] | what pages read |
//! | [`mail`], [`mailbox`] | writes letters, and keeps them |
//! | [`web`] | pages; sends commands and reads views, nothing else |
//! | [`host`] | starts and stops a program that serves all this |

pub mod capacity;
pub mod day;
pub mod guest;
pub mod host;
pub mod mail;
pub mod mailbox;
pub mod month;
pub mod receipt;
pub mod restaurant;
pub mod web;

pub use capacity::{Capacity, CapacityCommand, CapacityEvent, Reservation};
pub use day::{Day, Month};
pub use mailbox::Mailbox;
pub use month::MonthView;
pub use receipt::ReceiptView;
pub use restaurant::Restaurant;
pub use web::routes;

use highwater::EngineBuilder;

/// What a booking site is set up with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The restaurant.
    pub restaurant: Restaurant,
    /// Where letters are put.
    pub mailbox: Mailbox,
}

/// Teaches an engine to decide bookings, to keep the views and to write the letters.
pub fn install(builder: EngineBuilder, settings: &Settings) -> EngineBuilder {
    builder
        .aggregate::<Capacity>(settings.restaurant.clone())
        .view(MonthView)
        .view(ReceiptView)
        .processor(mail::subscriber(settings.mailbox.clone()))
}
