//! The booking site from its pages to its letters.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod browser;
#[cfg(feature = "failpoints")]
mod campaign;
mod capacity;
mod chromium;
mod colours;
#[cfg(feature = "failpoints")]
mod crashes;
mod evidence;
mod input;
mod letters;
mod links;
mod looks;
mod month;
mod owner;
mod pages;
mod processes;
mod queue;
mod race;
mod receipts;
mod schema;
mod site;
mod smtp;
