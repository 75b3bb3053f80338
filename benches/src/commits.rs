//! Conditional commits, with so many in flight.

use crate::{Outcome, floor, median, recorder::Groups, workload};
use highwater_core::{Batch, CommandId, CommandMark, Expect, Fingerprint, Name, Store, Verdict, Write};
use highwater_sqlite::Sqlite;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

pub(crate) fn run(
    folder: &Path,
    in_flight: &[usize],
    events: usize,
    seconds: u64,
    rounds: usize,
    groups: &Groups,
) -> Outcome {
    let span = Duration::from_secs(seconds);
    let mut files = Files { folder: folder.to_owned(), count: 0 };
    println!("commits with {events} events each");
    println!(
        "{:>9} {:>10} {:>10} {:>8} {:>14} {:>14} {:>9} {:>9}",
        "in flight", "engine/s", "floor/s", "of floor", "one by one/s", "× one by one", "mean grp", "99 % ms"
    );
    for &clients in in_flight {
        let (mut engine, mut floors, mut singles, mut sizes, mut tails) =
            (vec![], vec![], vec![], vec![], vec![]);
        for _ in 0..rounds {
            let (rate, size, tail) = engine_rate(&files.fresh(), clients, events, span, groups)?;
            engine.push(rate);
            sizes.push(size);
            tails.push(tail);
            floors.push(floor::commits(&files.fresh(), clients, clients, events, span)?);
            singles.push(floor::commits(&files.fresh(), clients, 1, events, span)?);
            files.remove()?;
        }
        let (engine, floor, single) = (median(engine), median(floors), median(singles));
        println!(
            "{clients:>9} {engine:>10.0} {floor:>10.0} {:>7.0}% {single:>14.0} {:>14.1} {:>9.1} {:>9.2}",
            100.0 * engine / floor,
            engine / single,
            median(sizes),
            median(tails)
        );
    }
    println!();
    println!(
        "floor: plain rusqlite, the same rows, one thread, transactions of as many commits as are in flight"
    );
    println!("one by one: the same, a transaction for each commit");
    println!();
    Ok(())
}

/// Names of files that nobody used before.
struct Files {
    folder: PathBuf,
    count: usize,
}

impl Files {
    fn fresh(&mut self) -> PathBuf {
        self.count += 1;
        self.folder.join(format!("commits-{}.db", self.count))
    }

    /// Makes room: each measurement fills hundreds of megabytes.
    fn remove(&self) -> Outcome {
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("commits-")) {
                std::fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

/// Commits per second, the mean group, and the 99th percentile of what a caller waited, in milliseconds.
fn engine_rate(
    path: &Path,
    clients: usize,
    events: usize,
    span: Duration,
    groups: &Groups,
) -> Outcome<(f64, f64, f64)> {
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    let store = workload::open(path)?;
    groups.take_mean();
    let outcome = runtime.block_on(async {
        let started = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for client in 0..clients {
            tasks.spawn(client_loop(store.clone(), client, events, span));
        }
        let (mut done, mut waits) = (0, Vec::new());
        while let Some(result) = tasks.join_next().await {
            let (count, took) = result??;
            done += count;
            waits.extend(took);
        }
        let rate = done as f64 / started.elapsed().as_secs_f64();
        waits.sort_unstable();
        let tail = waits.get(waits.len() * 99 / 100).copied().unwrap_or_default();
        store.close().await;
        Outcome::Ok((rate, tail.as_secs_f64() * 1e3))
    });
    let (rate, tail) = outcome?;
    Ok((rate, groups.take_mean(), tail))
}

async fn client_loop(
    store: Arc<Sqlite>,
    client: usize,
    events: usize,
    span: Duration,
) -> Outcome<(u64, Vec<Duration>)> {
    let (container, body) = (Name::new("items")?, workload::body()?);
    let events = vec![workload::event()?; events];
    let keys = workload::keys(client)?;
    let mut states = vec![Expect::Absent; keys.len()];
    let (started, mut done, mut waits) = (Instant::now(), 0, Vec::new());
    while started.elapsed() < span {
        for ((partition_key, id), state) in keys.iter().zip(&mut states) {
            let write =
                Write::put(container.clone(), id.clone(), body.clone()).expect(*state).events(events.clone());
            let mark = CommandMark::new(CommandId::random(), Fingerprint([7; 16]), Verdict::Accepted);
            let sent = Instant::now();
            let committed =
                store.commit(Batch::new(partition_key.clone(), vec![write]).command(mark)).await?;
            waits.push(sent.elapsed());
            *state = Expect::ETag(*committed.etags.first().ok_or("a commit without an ETag")?);
            done += 1;
            if started.elapsed() >= span {
                break;
            }
        }
    }
    Ok((done, waits))
}

/// Fills a store with this many changes.
pub(crate) async fn fill(store: &Arc<Sqlite>, changes: usize) -> Outcome {
    let mut tasks = tokio::task::JoinSet::new();
    const CLIENTS: usize = 1_000;
    for client in 0..CLIENTS {
        let store = store.clone();
        tasks.spawn(async move {
            let (container, body, event) = (Name::new("items")?, workload::body()?, workload::event()?);
            let keys = workload::keys(client)?;
            for (partition_key, id) in keys.iter().cycle().take(changes / CLIENTS) {
                let write =
                    Write::put(container.clone(), id.clone(), body.clone()).events(vec![event.clone()]);
                let mark = CommandMark::new(CommandId::random(), Fingerprint([7; 16]), Verdict::Accepted);
                store.commit(Batch::new(partition_key.clone(), vec![write]).command(mark)).await?;
            }
            Outcome::Ok(())
        });
    }
    while let Some(result) = tasks.join_next().await {
        result??;
    }
    Ok(())
}
