//! The crate from a browser's side.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod keys;
mod problems;
mod tally;
mod tokens;
