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
//! | [`month`], [`receipt`], [`sheet`] | what pages read |
//! | [`mail`], [`mailbox`] | writes letters, and keeps them |
//! | [`smtp`] | hands letters to a mail server |
//! | [`links`] | what a letter lets its reader do without a password |
//! | [`owner`] | who may see the day sheets and change the days |
//! | [`web`] | pages; sends commands and reads views, nothing else |
//! | [`host`] | starts and stops a program that serves all this |

pub mod capacity;
pub mod day;
pub mod guest;
pub mod host;
pub mod links;
pub mod mail;
pub mod mailbox;
pub mod month;
pub mod owner;
pub mod receipt;
pub mod restaurant;
pub mod sheet;
pub mod smtp;
pub mod web;

pub use capacity::{Capacity, CapacityCommand, CapacityEvent, Reservation};
pub use day::{Day, Month};
pub use links::Links;
pub use mailbox::Mailbox;
pub use month::MonthView;
pub use owner::Password;
pub use receipt::ReceiptView;
pub use restaurant::Restaurant;
pub use sheet::SheetView;
pub use smtp::{AfterCrash, Smtp};
pub use web::routes;

use highwater::EngineBuilder;

/// What a booking site is set up with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The restaurant.
    pub restaurant: Restaurant,
    /// Where letters are put.
    pub mailbox: Mailbox,
    /// What letters link to.
    pub links: Links,
    /// The mail server that letters are handed to; without one they lie in the folder only.
    pub smtp: Option<Smtp>,
    /// Who signs the letters.
    pub sender: lettre::message::Mailbox,
    /// What opens the owner's page; without one it stays closed.
    pub owner: Option<Password>,
}

/// Teaches an engine to decide bookings, to keep the views and to write the letters.
pub fn install(builder: EngineBuilder, settings: &Settings) -> EngineBuilder {
    builder
        .aggregate::<Capacity>(settings.restaurant.clone())
        .view(MonthView)
        .view(ReceiptView)
        .view(SheetView)
        .processor(mail::subscriber(settings))
}
