//! The booking site from its pages to its letters.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod capacity;
mod input;
mod letters;
mod month;
mod pages;
mod queue;
mod race;
mod receipts;
mod site;
