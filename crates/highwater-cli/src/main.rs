//! The `highwater` command.

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
    /// Runs the example applications on one embedded store
    Demo(demo::Demo),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Demo(demo) => demo.run(),
    }
}
