//! The `highwater` command.

mod copies;
mod demo;
mod metrics;
mod start_page;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Durable commands, a change feed without late arrivals, rebuildable read models
#[derive(Debug, Parser)]
#[command(name = "highwater", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Copies a store into one file while programs use it, or checks such a copy
    Backup(copies::Backup),
    /// Makes a store of a backup
    Restore(copies::Restore),
    /// Runs the example applications on one embedded store
    Demo(demo::Demo),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Backup(backup) => backup.run(),
        Command::Restore(restore) => restore.run(),
        Command::Demo(demo) => demo.run(),
    }
}
