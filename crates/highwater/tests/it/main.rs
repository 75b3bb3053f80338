//! The runtime on the in-memory engine, driven by hand unless a test says otherwise.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod commands;
mod domain;
mod dying;
mod feeds;
mod large;
mod leases;
mod loading;
mod mistakes;
mod poison;
mod processors;
mod recurring;
mod restoring;
mod running;
mod stretches;
mod timers;
mod unique;
mod views;
