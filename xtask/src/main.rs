//! `cargo xtask test`: everything a change has to pass, on any machine with Rust and a C compiler.
//!
//! What the tests need is installed through the system's package manager, every step is announced and timed, and
//! the first one that fails ends the run. Nothing is downloaded but what cargo and that package manager fetch.

mod checks;
mod context;
mod demo;
mod files;
mod markdown;
mod readme;
mod runner;
mod steps;
mod tally;
mod tools;

use clap::{Parser, Subcommand};
use context::Context;
use std::process::ExitCode;
use steps::Step;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "The tasks of this workspace")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Installs what the tests need, then checks and tests everything
    Test {
        /// Runs the long campaigns too (the tests marked `#[ignore]`)
        #[arg(long)]
        full: bool,
        /// Runs only these steps, in their usual order
        #[arg(long, value_name = "STEP", num_args = 1.., value_delimiter = ',')]
        only: Vec<Step>,
    },
}

fn main() -> ExitCode {
    let Task::Test { full, only } = Arguments::parse().task;
    let run = Context::new(full).and_then(|mut context| steps::run(&mut context, &only));
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}
