//! Sends a recurring command when its time has come.
//!
//! No process owns that work. All that declare a recurring command look at its cell, which says up to when its times
//! are dealt with; whoever finds one that is due sends the command under an id that only the time decides, and then
//! moves the cell. Two that do it at once, or one that dies in between, send the same command again, which is decided
//! once. A lease would save a put now and then, and would delay the command by its expiry whenever its owner dies.

use crate::core::{Core, back_off};
use crate::guard::guard;
use crate::handler::{ErrorClass, HandlerError};
use crate::recurring::{Declared, Missed, Planned};
use crate::send::{SendError, constant, put};
use crate::settle::Step;
use crate::status::{Failure, RecurringStatus};
use highwater_core::{
    CellError, CellKey, CellWrite, CommandId, ETag, EngineError, Expect, FailureKind, Json, Timestamp,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, watch};
use uuid::Uuid;

/// How often a cell that others write at the same time is looked at again.
const TRIES: u32 = 16;

/// What lies further back than this was missed.
const GRACE: Duration = Duration::from_secs(60);

/// The longest pause between two looks at the clock, which may have been set or have slept.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How many plans a cell keeps.
const PLANS: usize = 4;

/// What the cell of a recurring command says.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Record {
    /// The plan of the program that was started last.
    current: String,
    /// For each expression and time zone, up to when its times are dealt with. While one release replaces another,
    /// both run, and neither may move the other's place.
    plans: BTreeMap<String, Timestamp>,
    /// The time that it was last sent for.
    last: Option<Timestamp>,
}

/// What this process knows.
#[derive(Debug, Default)]
struct Seen {
    /// When it comes next; unknown before the first look.
    next: Option<Timestamp>,
    attempt: u32,
    /// By monotonic time.
    retry_at: Duration,
    failure: Option<Failure>,
}

pub(crate) struct Schedule {
    core: Arc<Core>,
    declared: Declared,
    plan: String,
    seen: Mutex<Seen>,
}

impl Schedule {
    pub(crate) fn new(core: Arc<Core>, declared: Declared) -> Self {
        let plan = format!("{} {}", declared.expression, declared.time_zone);
        Self { core, declared, plan, seen: Mutex::default() }
    }

    fn cell(&self) -> Result<CellKey, EngineError> {
        Ok(CellKey::new(constant("recurring")?, &*self.declared.name))
    }

    async fn read(&self) -> Result<Option<(Record, ETag)>, HandlerError> {
        let Some(cell) = self.core.backend.cells.read(&self.cell()?).await? else { return Ok(None) };
        let record = cell.value.decode().map_err(|error| {
            let text = format!("the cell {} cannot be read: {error}", cell.key);
            HandlerError::from(EngineError::new(FailureKind::Corrupt, text))
        })?;
        Ok(Some((record, cell.etag)))
    }

    /// Writes the cell; `None` if somebody else was quicker.
    async fn write(&self, record: &Record, expect: Expect) -> Result<Option<ETag>, HandlerError> {
        let write = CellWrite::new(self.cell()?, expect, Json::encode(record)?);
        match self.core.backend.cells.write(write).await {
            Ok(etag) => Ok(Some(etag)),
            Err(CellError::Conflict { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Goes on where the programs before this one have stopped, if they had the same plan; else begins here.
    pub(crate) async fn take_up(&self) -> Result<(), HandlerError> {
        for _ in 0..TRIES {
            let (mut record, expect) = match self.read().await? {
                Some((record, etag)) => (record, Expect::ETag(etag)),
                None => (Record::default(), Expect::Absent),
            };
            let known = record.plans.get(&self.plan).copied();
            let through = match known {
                Some(through) if record.current == self.plan => through,
                _ => {
                    let now = self.core.now();
                    let through = known.map_or(now, |through| through.max(now));
                    record.plans.insert(self.plan.clone(), through);
                    record.current.clone_from(&self.plan);
                    forget(&mut record, &self.plan);
                    if self.write(&record, expect).await?.is_none() {
                        continue;
                    }
                    tracing::info!(recurring = self.declared.name, plan = self.plan, "begins");
                    through
                }
            };
            self.seen.lock().await.next = self.declared.cron.next(through);
            return Ok(());
        }
        Err(HandlerError::transient(format!("too many write {} at once", self.cell()?)))
    }

    /// Sends what is due. Fails only if going on would do harm; anything else is tried again later.
    pub(crate) async fn look(&self) -> Result<Vec<Step>, HandlerError> {
        let mut seen = self.seen.lock().await;
        let (now, mut steps) = (self.core.now(), Vec::new());
        let due = seen.next.is_some_and(|next| next <= now);
        if !due || self.core.clock.monotonic() < seen.retry_at {
            return Ok(steps);
        }
        match self.fire(&mut seen, now, &mut steps).await {
            Ok(()) => (seen.attempt, seen.failure) = (0, None),
            Err(error) if error.class() == ErrorClass::Fatal => return Err(error),
            Err(error) => {
                tracing::warn!(recurring = self.declared.name, %error, "not sent, trying again");
                metrics::counter!("highwater_recurring_failures_total", "recurring" => self.declared.name.clone())
                    .increment(1);
                seen.attempt = seen.attempt.saturating_add(1);
                let pause = back_off(seen.attempt, Duration::from_secs(1), GRACE);
                seen.retry_at = self.core.clock.monotonic().saturating_add(pause);
                seen.failure = Some(Failure {
                    at: now,
                    attempt: seen.attempt,
                    position: None,
                    error: error.to_string(),
                });
                steps.push(Step::NotFired { recurring: self.declared.name.clone(), error });
            }
        }
        Ok(steps)
    }

    async fn fire(&self, seen: &mut Seen, now: Timestamp, steps: &mut Vec<Step>) -> Result<(), HandlerError> {
        let found = self.read().await?;
        let Some((mut record, mut etag)) = found else { return Err(self.lost()) };
        let Some(through) = record.plans.get(&self.plan).copied() else { return Err(self.lost()) };
        seen.next = self.declared.cron.next(through);
        let Some(latest) = self.declared.cron.latest(now).filter(|latest| *latest > through) else {
            return Ok(());
        };
        for planned in self.times(through, latest, now) {
            let command = self.send(planned).await?;
            let recurring = self.declared.name.clone();
            steps.push(Step::Fired { recurring, planned, command });
            record.last = record.last.max(Some(planned));
            match self.passed(&mut record, planned, etag, seen).await? {
                Some(moved) => etag = moved,
                None => return Ok(()),
            }
        }
        if record.plans.get(&self.plan).is_some_and(|through| *through < latest) {
            tracing::info!(recurring = self.declared.name, planned = %latest, "missed, not sent");
            self.passed(&mut record, latest, etag, seen).await?;
        }
        Ok(())
    }

    /// Somebody has removed what the cell said of this plan.
    fn lost(&self) -> HandlerError {
        let (name, plan) = (&self.declared.name, &self.plan);
        let text =
            format!("the cell of the recurring command `{name}` has lost `{plan}`: start this process again");
        HandlerError::transient(text)
    }

    /// For which of the times after `through` up to `latest` a command is sent, oldest first.
    fn times(&self, through: Timestamp, latest: Timestamp, now: Timestamp) -> Vec<Timestamp> {
        let at_most = match self.declared.missed {
            Missed::Once => 1,
            Missed::Skip => u32::from(now.since(latest) <= GRACE),
            Missed::All { at_most } => at_most,
        };
        let mut times = Vec::new();
        let mut time = Some(latest);
        while let Some(planned) = time.filter(|time| *time > through && times.len() < at_most as usize) {
            times.push(planned);
            time = self.declared.cron.latest(Timestamp::from_micros(planned.as_micros() - 1));
        }
        times.reverse();
        times
    }

    async fn send(&self, planned: Timestamp) -> Result<CommandId, HandlerError> {
        let store = self.core.backend.store.info().id;
        let name = format!("recurring/{}/{}", self.declared.name, planned.as_micros());
        let id = CommandId(Uuid::new_v5(&store.0, name.as_bytes()));
        let planned = Planned { at: planned, local: self.declared.cron.written(planned) };
        let command = guard(|| (self.declared.make)(&self.core, &planned, id))??;
        match put(&self.core, &command, Duration::ZERO).await {
            Ok(sent) if sent.repeated => tracing::debug!(command = %id, "was sent before"),
            Ok(_) => {
                let recurring = self.declared.name.clone();
                metrics::counter!("highwater_recurring_sent_total", "recurring" => recurring).increment(1);
            }
            // By another release, which makes another command of it: there is one for this time.
            Err(SendError::CommandIdReused { .. } | SendError::Cancelled { .. }) => {
                tracing::warn!(command = %id, recurring = self.declared.name, "was sent before, otherwise");
            }
            Err(error) => return Err(error.into()),
        }
        Ok(id)
    }

    /// Says that the times up to `planned` are dealt with; `None` if somebody else has written the cell.
    async fn passed(
        &self,
        record: &mut Record,
        planned: Timestamp,
        etag: ETag,
        seen: &mut Seen,
    ) -> Result<Option<ETag>, HandlerError> {
        record.plans.insert(self.plan.clone(), planned);
        let moved = self.write(record, Expect::ETag(etag)).await?;
        if moved.is_some() {
            seen.next = self.declared.cron.next(planned);
        }
        Ok(moved)
    }

    /// Sends whenever something is due, until told to stop.
    pub(crate) async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) -> Result<(), HandlerError> {
        while !*stop.borrow() {
            self.look().await?;
            let pause = self.pause().await;
            tokio::select! {
                changed = stop.changed() => if changed.is_err() { break },
                () = self.core.clock.sleep(pause) => {}
            }
        }
        Ok(())
    }

    async fn pause(&self) -> Duration {
        let seen = self.seen.lock().await;
        let next = seen.next.map_or(LONGEST_PAUSE, |next| next.since(self.core.now()));
        let retry = seen.retry_at.saturating_sub(self.core.clock.monotonic());
        next.max(retry).clamp(Duration::from_millis(10), LONGEST_PAUSE)
    }

    pub(crate) async fn status(&self, running: bool) -> Result<RecurringStatus, HandlerError> {
        let record = self.read().await?.map(|(record, _)| record).unwrap_or_default();
        let through = record.plans.get(&self.plan).copied().unwrap_or_else(|| self.core.now());
        Ok(RecurringStatus {
            name: self.declared.name.clone(),
            expression: self.declared.expression.clone(),
            time_zone: self.declared.time_zone.clone(),
            running,
            next: self.declared.cron.next(through),
            last: record.last,
            failure: self.seen.lock().await.failure.clone(),
        })
    }
}

/// Leaves out the plans that have not been used for longest.
fn forget(record: &mut Record, keep: &str) {
    while record.plans.len() > PLANS {
        let others = record.plans.iter().filter(|(plan, _)| *plan != keep);
        let Some(oldest) = others.min_by_key(|(_, through)| **through).map(|(plan, _)| plan.clone()) else {
            return;
        };
        record.plans.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::cron::Cron;
    use crate::decide::RawCommand;
    use crate::worker::WorkerOptions;
    use highwater_core::{ItemId, ItemKey, Name, PartitionKey};
    use std::collections::HashMap;

    fn report(name: &str) -> Declared {
        let make = |_: &Core, planned: &Planned, id| {
            let key = ItemKey {
                container: Name::new("reports").unwrap(),
                partition_key: PartitionKey::new(planned.day()).unwrap(),
                id: ItemId::new("all").unwrap(),
            };
            let data = Json::encode(&planned.local).unwrap();
            Ok(RawCommand { id, key, name: "Write".into(), schema: 1, data })
        };
        Declared {
            name: name.into(),
            expression: "*/5 * * * *".into(),
            time_zone: "UTC".into(),
            cron: Cron::new("*/5 * * * *", "UTC").unwrap(),
            missed: Missed::Once,
            container: "reports",
            make: Box::new(make),
        }
    }

    /// Advances until so many commands lie in the queue; the minutes that took.
    async fn wait_for(core: &Core, clock: &ManualClock, commands: u64) -> u64 {
        for step in 0..10_000 {
            if core.backend.queue.depth(&core.queue).await.unwrap().visible >= commands {
                return step / 60;
            }
            clock.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
        panic!("not sent");
    }

    #[tokio::test]
    async fn a_process_sends_by_itself_until_it_is_stopped() {
        let clock = ManualClock::starting_at(Timestamp::from_micros(0));
        let shared: Arc<dyn highwater_core::Clock> = Arc::new(clock.clone());
        let backend = crate::open::open("sqlite::memory:", shared.clone()).await.unwrap();
        let queue = Name::new("commands").unwrap();
        let core = Core::new(backend, shared, false, HashMap::new(), queue, None, WorkerOptions::default());
        let core = Arc::new(core);
        let schedule = Arc::new(Schedule::new(core.clone(), report("report")));
        schedule.take_up().await.unwrap();
        let (stop, stopped) = watch::channel(false);
        let running = tokio::spawn(schedule.run(stopped));
        assert!(wait_for(&core, &clock, 1).await >= 5);
        wait_for(&core, &clock, 2).await;
        stop.send_replace(true);
        running.await.unwrap().unwrap();
    }
}
