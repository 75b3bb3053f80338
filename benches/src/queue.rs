//! Messages put, taken and deleted, each step durable before it is answered.

use crate::{Outcome, median, recorder::Groups, workload};
use highwater_core::{Name, NewMessage, Queue};
use highwater_sqlite::Sqlite;
use std::{
    path::Path,
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// How many messages one get takes: as many as it may.
const TAKEN: usize = 32;

/// How many takers there are. Each deletes what it took, all at once.
const TAKERS: usize = 4;

pub(crate) fn run(
    folder: &Path,
    in_flight: &[usize],
    seconds: u64,
    rounds: usize,
    groups: &Groups,
) -> Outcome {
    println!(
        "{:>9} {:>12} {:>9}   put + get + delete, {TAKERS} takers of {TAKEN} at a time",
        "putters", "messages/s", "mean grp"
    );
    for &putters in in_flight {
        let (mut rates, mut sizes) = (vec![], vec![]);
        for round in 0..rounds {
            let path = folder.join(format!("queue-{putters}-{round}.db"));
            groups.take_mean();
            rates.push(rate(&path, putters, Duration::from_secs(seconds))?);
            sizes.push(groups.take_mean());
        }
        println!("{putters:>9} {:>12.0} {:>9.1}", median(rates), median(sizes));
    }
    println!();
    Ok(())
}

/// Messages per second, counted from the first put until the queue is empty again.
fn rate(path: &Path, putters: usize, span: Duration) -> Outcome<f64> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = workload::open(path)?;
        let (queue, put, deleted) =
            (Name::new("work")?, Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let ended = Arc::new(AtomicBool::new(false));
        let started = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..putters {
            let (store, queue, put) = (store.clone(), queue.clone(), put.clone());
            tasks.spawn(async move {
                let body = vec![b'x'; 250];
                while started.elapsed() < span {
                    store.put(&queue, NewMessage::new(body.clone())).await?;
                    put.fetch_add(1, Ordering::Relaxed);
                }
                Outcome::Ok(())
            });
        }
        let mut takers = tokio::task::JoinSet::new();
        for _ in 0..TAKERS {
            takers.spawn(take(store.clone(), queue.clone(), deleted.clone(), ended.clone()));
        }
        while let Some(result) = tasks.join_next().await {
            result??;
        }
        while deleted.load(Ordering::Relaxed) < put.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let rate = put.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64();
        ended.store(true, Ordering::Relaxed);
        while let Some(result) = takers.join_next().await {
            result??;
        }
        store.close().await;
        Ok(rate)
    })
}

/// Takes messages and deletes them, until told to end.
async fn take(store: Arc<Sqlite>, queue: Name, deleted: Arc<AtomicU64>, ended: Arc<AtomicBool>) -> Outcome {
    while !ended.load(Ordering::Relaxed) {
        let taken = store.get(&queue, TAKEN, Duration::from_secs(30)).await?;
        if taken.is_empty() {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        let mut deletions = tokio::task::JoinSet::new();
        for delivery in taken {
            let store = store.clone();
            deletions.spawn(async move { store.delete(&delivery.receipt).await });
        }
        while let Some(result) = deletions.join_next().await {
            result??;
            deleted.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}
