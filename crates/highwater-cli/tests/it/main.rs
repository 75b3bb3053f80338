//! The `highwater` command as its user meets it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod copies;
mod demo;
mod failures;
mod program;
