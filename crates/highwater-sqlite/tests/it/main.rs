//! What is particular to this engine; the rules that every engine keeps are in the conformance suite.

#![allow(clippy::unwrap_used, reason = "a helper of a test may fail as the test itself may")]

mod backups;
mod conformance;
mod damage;
mod depths;
mod expiring;
mod faults;
mod kept;
mod lost;
mod opening;
mod processes;
mod reopening;
mod support;
mod sweeping;
