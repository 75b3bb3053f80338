//! Reading the feed from its beginning, bodies and events included.

use crate::{Outcome, commits, floor, median, workload};
use highwater_core::{ChangeOp, ChangeRequest, Partition, Store};
use highwater_sqlite::Sqlite;
use std::{path::Path, sync::Arc, time::Instant};

const PAGE: usize = 1_000;

pub(crate) fn run(folder: &Path, changes: usize, rounds: usize) -> Outcome {
    let path = folder.join("feed.db");
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    let store = workload::open(&path)?;
    runtime.block_on(commits::fill(&store, changes))?;
    runtime.block_on(store.close());
    drop(store);
    let store = workload::open(&path)?;
    let partitions = store.info().partitions;
    println!("{:>18} {:>12} {:>12} {:>9}", "readers at a time", "engine/s", "raw scan/s", "of raw");
    for readers in [1, 2] {
        let (mut engine, mut raw) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            engine.push(runtime.block_on(read_all(&store, readers))?);
            raw.push(floor::scan(&path, partitions)?);
        }
        let (engine, raw) = (median(engine), median(raw));
        println!("{readers:>18} {engine:>12.0} {raw:>12.0} {:>8.0}%", 100.0 * engine / raw);
    }
    println!();
    println!(
        "engine: changes through Store::changes in pages of {PAGE}; raw scan: one thread, plain rusqlite, rows"
    );
    println!();
    runtime.block_on(store.close());
    Ok(())
}

/// Changes per second.
async fn read_all(store: &Arc<Sqlite>, readers: u16) -> Outcome<f64> {
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for reader in 0..readers {
        let store = store.clone();
        tasks.spawn(async move {
            let (mut read, mut bytes) = (0, 0);
            for partition in Partition::all(store.info().partitions).filter(|p| p.0 % readers == reader) {
                let mut request = ChangeRequest::new(partition, None, PAGE);
                loop {
                    let page = store.changes(&request).await?;
                    for change in &page.changes {
                        read += 1;
                        if let ChangeOp::Put(body) = &change.op {
                            bytes += body.json.as_bytes().len();
                        }
                        bytes += change.events.iter().map(|event| event.data.as_bytes().len()).sum::<usize>();
                    }
                    if page.at_end {
                        break;
                    }
                    request.after = page.scanned;
                }
            }
            if bytes != read * 500 { Err("the feed lost something".into()) } else { Outcome::Ok(read) }
        });
    }
    let mut read = 0;
    while let Some(result) = tasks.join_next().await {
        read += result??;
    }
    Ok(read as f64 / started.elapsed().as_secs_f64())
}
