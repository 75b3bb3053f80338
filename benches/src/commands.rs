//! The whole way of a command: sent, taken, decided, committed, removed.

use crate::note::{Command, Note};
use crate::{Outcome, median, recorder::Groups};
use highwater::Engine;
use highwater_core::Name;
use std::path::Path;
use std::time::{Duration, Instant};

/// How many aggregates the commands are spread over.
const KEYS: usize = 20_000;

pub(crate) fn run(
    folder: &Path,
    in_flight: &[usize],
    seconds: u64,
    rounds: usize,
    groups: &Groups,
) -> Outcome {
    println!(
        "{:>9} {:>12} {:>9}   send → decide → commit → delete, one process",
        "senders", "commands/s", "mean grp"
    );
    for &senders in in_flight {
        let (mut rates, mut sizes) = (vec![], vec![]);
        for round in 0..rounds {
            let path = folder.join(format!("commands-{senders}-{round}.db"));
            groups.take_mean();
            rates.push(rate(&path, senders, Duration::from_secs(seconds))?);
            sizes.push(groups.take_mean());
        }
        println!("{senders:>9} {:>12.0} {:>9.1}", median(rates), median(sizes));
    }
    println!();
    Ok(())
}

/// Commands per second, counted from the first send until the queue is empty again.
fn rate(path: &Path, senders: usize, span: Duration) -> Outcome<f64> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let engine = Engine::open(format!("sqlite:{}", path.display())).aggregate::<Note>(()).start().await?;
        let started = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for sender in 0..senders {
            let engine = engine.clone();
            tasks.spawn(async move {
                let mut sent = 0_usize;
                while started.elapsed() < span {
                    let key = format!("note {}", (sender + sent * senders) % KEYS);
                    engine.send::<Note>(key, Command::write()).await?;
                    sent += 1;
                }
                Outcome::Ok(sent)
            });
        }
        let mut sent = 0;
        while let Some(result) = tasks.join_next().await {
            sent += result??;
        }
        let queue = Name::new("commands")?;
        loop {
            let depth = engine.backend().queue.depth(&queue).await?;
            if depth.parked > 0 {
                return Err("a command was parked".into());
            }
            if depth.visible + depth.in_flight + depth.delayed == 0 {
                break;
            }
            // Counting a long queue is work too, so not too often.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let rate = sent as f64 / started.elapsed().as_secs_f64();
        engine.stop().await;
        Ok(rate)
    })
}
