//! How fast Highwater is on this machine, and how fast the machine could be: beside every number stands what
//! the same rows cost in a program of plain rusqlite (the *floor*), measured in the same run.
//!
//! `cargo run --release -p benches -- commits|feed|queue|commands|view|pages|all [--dir FOLDER] [--seconds N] [--rounds N]`

mod commands;
mod commits;
mod disk;
mod feed;
mod floor;
mod note;
mod pages;
mod queue;
mod recorder;
mod view;
mod workload;

use clap::{Parser, ValueEnum};
use std::{error::Error, path::PathBuf, process::ExitCode};

/// What can go wrong in a bench ends it.
pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Parser)]
#[command(about = "Measures Highwater beside plain SQLite, on this disk")]
struct Arguments {
    /// What to measure.
    #[arg(value_enum, default_value = "all")]
    bench: Bench,
    /// The folder for the data; must not be in memory. Default: a fresh folder under `target`.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// How long each measurement of commits runs.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// How often each measurement is repeated; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How many commits are in flight.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 256, 1024])]
    in_flight: Vec<usize>,
    /// How many commands a second are sent while the view's lag is measured.
    #[arg(long, default_value_t = 2_000)]
    commands_per_second: u32,
    /// How many changes the feed has.
    #[arg(long, default_value_t = 400_000)]
    changes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Bench {
    Commits,
    Feed,
    Queue,
    Commands,
    View,
    Pages,
    All,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Outcome {
    let parent = arguments.dir.clone().unwrap_or_else(|| PathBuf::from("target"));
    std::fs::create_dir_all(&parent)?;
    disk::refuse_memory(&parent)?;
    let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(&parent)?;
    let sync = disk::sync_latency(folder.path())?;
    println!("payload       250-byte bodies, events and messages; a unique command id for each commit");
    println!("conditions    every commit: Absent at first, then the ETag of the commit before");
    println!("sync          synchronous=FULL, write-ahead log, nobody answered before fsync");
    println!("fdatasync     median {:.0} µs, 99 % {:.0} µs (4 KiB appended)", sync.median, sync.high);
    println!("cores         {}", std::thread::available_parallelism()?);
    // Whoever compares numbers must know whether the machine was doing something else.
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load before   {}", load.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("unknown"));
    println!();
    let Arguments { bench, seconds, rounds, .. } = *arguments;
    let (folder, groups, in_flight) = (folder.path(), recorder::install(), &arguments.in_flight);
    if matches!(bench, Bench::Commits | Bench::All) {
        for events in [0, 1] {
            commits::run(folder, in_flight, events, seconds, rounds, &groups)?;
        }
    }
    if matches!(bench, Bench::Feed | Bench::All) {
        feed::run(folder, arguments.changes, rounds)?;
    }
    if matches!(bench, Bench::Queue | Bench::All) {
        queue::run(folder, in_flight, seconds, rounds, &groups)?;
    }
    if matches!(bench, Bench::Commands | Bench::All) {
        commands::run(folder, in_flight, seconds, rounds, &groups)?;
    }
    if matches!(bench, Bench::View | Bench::All) {
        view::run(folder, arguments.commands_per_second, seconds, rounds)?;
    }
    if matches!(bench, Bench::Pages | Bench::All) {
        pages::run(folder, seconds, rounds)?;
    }
    Ok(())
}

/// The middle value.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
