//! How far a view is behind: the time from the moment a commit is known to its sender until the view answers with it.

use crate::{
    Outcome, median,
    note::{Board, Command, Note},
};
use highwater::Engine;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many aggregates the commands are spread over.
const KEYS: u32 = 20_000;

/// Whoever waits longer has found a defect.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn run(folder: &Path, per_second: u32, seconds: u64, rounds: usize) -> Outcome {
    println!(
        "{:>10} {:>10} {:>12} {:>12} {:>12}   view behind its commits, one process",
        "asked for", "commands/s", "median ms", "99 % ms", "longest ms"
    );
    let mut figures = [vec![], vec![], vec![], vec![]];
    for round in 0..rounds {
        let path = folder.join(format!("view-{round}.db"));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let (rate, mut lags) = runtime.block_on(lags(&path, per_second, Duration::from_secs(seconds)))?;
        lags.sort_unstable();
        let at = |part: usize| lags.get(lags.len() * part / 100).or(lags.last()).copied().unwrap_or_default();
        let milliseconds = |lag: Duration| lag.as_secs_f64() * 1e3;
        let found = [rate, milliseconds(at(50)), milliseconds(at(99)), milliseconds(at(100))];
        figures.iter_mut().zip(found).for_each(|(figures, figure)| figures.push(figure));
    }
    let [rate, middle, tail, longest] = figures.map(median);
    println!("{per_second:>10} {rate:>10.0} {middle:>12.2} {tail:>12.2} {longest:>12.2}");
    println!();
    Ok(())
}

/// Sends commands at a steady pace and asks the view for each of them.
async fn lags(path: &Path, per_second: u32, span: Duration) -> Outcome<(f64, Vec<Duration>)> {
    let engine =
        Engine::open(format!("sqlite:{}", path.display())).aggregate::<Note>(()).view(Board).start().await?;
    let engine = Arc::new(engine);
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    let mut pace = tokio::time::interval(Duration::from_millis(1));
    let mut sent = 0_u32;
    while started.elapsed() < span {
        pace.tick().await;
        let due = (started.elapsed().as_secs_f64() * f64::from(per_second)) as u32;
        while sent < due {
            tasks.spawn(lag(engine.clone(), format!("note {}", sent % KEYS)));
            sent += 1;
        }
    }
    let mut lags = Vec::new();
    while let Some(result) = tasks.join_next().await {
        lags.push(result??);
    }
    let rate = lags.len() as f64 / started.elapsed().as_secs_f64();
    engine.stop().await;
    Ok((rate, lags))
}

/// From the outcome of a command until the view has it.
async fn lag(engine: Arc<Engine>, key: String) -> Outcome<Duration> {
    let outcome = engine.execute::<Note>(key.as_str(), Command::write()).await?;
    let token = outcome.token().ok_or("a command without a verdict")?;
    let committed = Instant::now();
    let read = engine.view::<Board>().get(key).at_least(token).wait(PATIENCE).await?;
    if read.is_fresh() { Ok(committed.elapsed()) } else { Err("the view did not come".into()) }
}
