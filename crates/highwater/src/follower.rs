//! Runs one processor in one process: reads pages of the partitions it holds, hands them on, keeps checkpoints.
//! `tend.rs` takes and gives back the partitions.

use crate::core::{Core, back_off};
use crate::feed::Start;
use crate::guard::guard_async;
use crate::handler::{ErrorClass, HandlerError};
use crate::instance::{Instance, Observer};
use crate::lease::{Lease, LeaseTimes, key};
use crate::processor::{BatchContext, Changes, Handler};
use crate::settle::Step;
use crate::status::{Failure, PartitionStatus, ProcessorStatus};
use crate::view_sink::{NotApplied, ViewSink};
use highwater_core::{
    CellError, CellWrite, Cells, ChangeRequest, Claim, ETag, Expect, Json, Name, Partition, Position, Token,
    failpoint,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::Instrument;

/// The pauses after a failed batch: the first, and the longest.
pub(crate) const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// How long handlers may go on when the engine stops.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// Who gets the batches.
pub(crate) enum Sink {
    /// A function; the checkpoint is kept in the lease.
    Handler(Handler),
    /// A view; its own row in the view store says how far it is.
    View(Arc<dyn ViewSink>),
}

pub(crate) struct Follower {
    pub(crate) core: Arc<Core>,
    pub(crate) cells: Arc<dyn Cells>,
    pub(crate) instance: Arc<Instance>,
    pub(crate) name: Arc<str>,
    pub(crate) containers: Vec<Name>,
    pub(crate) times: LeaseTimes,
    pub(crate) poll_interval: Duration,
    pub(crate) max_items: usize,
    pub(crate) start: Start,
    pub(crate) sink: Sink,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) observer: Observer,
    pub(crate) status: Mutex<BTreeMap<Partition, PartitionStatus>>,
    pub(crate) held: tokio::sync::Mutex<Held>,
}

/// The partitions that this process holds.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) slots: BTreeMap<Partition, Slot>,
    /// Partitions that could not be taken: how often in a row, and when to try again.
    pub(crate) refused: BTreeMap<Partition, (u32, Duration)>,
    /// Partitions with a batch at work. One that was lost and taken again waits for the old batch to end.
    running: BTreeSet<Partition>,
    tasks: JoinSet<Ended>,
}

/// A batch that came to its end.
struct Ended {
    partition: Partition,
    /// The owner epoch under which it was begun.
    owner_epoch: u64,
    result: Result<Done, HandlerError>,
}

/// One held partition.
#[derive(Clone)]
pub(crate) struct Slot {
    pub(crate) lease: Lease,
    pub(crate) etag: ETag,
    /// Everything up to here was handled; may be ahead of the lease's checkpoint while nothing happens.
    pub(crate) position: Option<Position>,
    pub(crate) claim: Option<Claim>,
    pub(crate) retry_at: Duration,
    pub(crate) saved_at: Duration,
    /// Tells a running handler that the partition is no longer this process's.
    pub(crate) revoked: watch::Sender<bool>,
}

/// What became of one batch.
struct Done {
    slot: Slot,
    changes: usize,
    lost: bool,
    error: Option<HandlerError>,
}

impl Follower {
    pub(crate) fn set_status(&self, partition: Partition, change: impl FnOnce(&mut PartitionStatus)) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        change(status.entry(partition).or_insert_with(|| PartitionStatus {
            partition,
            owner: None,
            owner_epoch: 0,
            since: None,
            position: None,
            behind: None,
            last_progress: None,
            failure: None,
        }));
    }

    /// Somebody else has the partition: a normal event.
    pub(crate) fn lose(&self, held: &mut Held, partition: Partition) {
        tracing::info!(processor = %self.name, %partition, "lease lost");
        if let Some(slot) = held.slots.remove(&partition) {
            slot.revoked.send_replace(true);
        }
        self.set_status(partition, |status| {
            (status.position, status.last_progress, status.failure) = (None, None, None);
        });
    }

    /// What this process knows of the processor.
    pub(crate) fn status(&self, head: &Token) -> ProcessorStatus {
        let head = head.of(self.core.backend.store.info().id);
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        let partitions = status.values().map(|status| {
            let end = head.and_then(|head| head.positions.get(&status.partition)).copied();
            let behind = status.position.map(|position| Position::number(end).saturating_sub(position));
            PartitionStatus { behind, ..status.clone() }
        });
        ProcessorStatus { name: self.name.to_string(), healing: None, partitions: partitions.collect() }
    }

    /// Why the view is being built again, while it is.
    pub(crate) async fn healing(&self) -> Result<Option<String>, HandlerError> {
        let Sink::View(view) = &self.sink else { return Ok(None) };
        let backend = &self.core.backend;
        let reached = backend.views.reached(view.view(), backend.store.info().id).await?;
        Ok(reached.and_then(|reached| reached.healing).map(|healing| healing.reason))
    }

    /// Works until told to stop. Returns the reason if it cannot go on.
    pub(crate) async fn run(self: Arc<Self>) -> Result<(), HandlerError> {
        let (clock, store) = (self.core.clock.clone(), self.core.backend.store.clone());
        let (mut stop, mut wake) = (self.stop.clone(), store.wake());
        let mut held = self.held.lock().await;
        let mut next_tick = Duration::ZERO;
        let result = loop {
            let now = clock.monotonic();
            if now >= next_tick {
                next_tick = now + self.times.acquire;
                let refused = match self.tend(&mut held).await {
                    Ok(refused) => refused.into_iter().map(|(_, error)| error).find(is_fatal),
                    Err(error) => {
                        tracing::warn!(processor = %self.name, %error, "cannot tend the leases, trying again");
                        Some(error).filter(is_fatal)
                    }
                };
                if let Some(error) = refused {
                    break Err(error);
                }
            }
            match store.head().await {
                Ok(head) => self.launch(&mut held, &head),
                Err(error) => {
                    let error = HandlerError::from(error);
                    if error.class() == ErrorClass::Fatal {
                        break Err(error);
                    }
                    tracing::warn!(processor = %self.name, %error, "cannot read the end of the log, trying again");
                }
            }
            let retry = held.slots.values().filter(|slot| slot.retry_at > now);
            let next = retry.map(|slot| slot.retry_at).chain([next_tick, now + self.poll_interval]).min();
            let pause = next.unwrap_or(next_tick).saturating_sub(now);
            let done = tokio::select! {
                biased;
                _ = stop.changed() => break Ok(()),
                Some(done) = held.tasks.join_next(), if !held.tasks.is_empty() => Some(done),
                () = wake.hint() => None,
                () = clock.sleep(pause) => None,
            };
            if let Some(Ok(ended)) = done
                && let Step::ProcessorFailed { error, .. } = self.finish(&mut held, ended)
                && error.class() == ErrorClass::Fatal
            {
                break Err(error);
            }
        };
        let mut limit = std::pin::pin!(clock.sleep(STOP_LIMIT));
        loop {
            tokio::select! {
                () = &mut limit => {
                    tracing::warn!(processor = %self.name, "handlers still run after {STOP_LIMIT:?}, abandoned");
                    held.tasks.abort_all();
                    break;
                }
                done = held.tasks.join_next() => match done {
                    Some(Ok(ended)) => drop(self.finish(&mut held, ended)),
                    Some(Err(_)) => {}
                    None => break,
                },
            }
        }
        self.release(&mut held).await;
        result
    }

    /// Deals with one batch of every partition that is behind; for engines that a test drives.
    pub(crate) async fn step(self: &Arc<Self>) -> Result<Vec<Step>, HandlerError> {
        let mut held = self.held.lock().await;
        let processor = || self.name.to_string();
        let refused = self.tend(&mut held).await?.into_iter();
        let mut steps: Vec<_> = refused
            .map(|(partition, error)| Step::ProcessorFailed { processor: processor(), partition, error })
            .collect();
        let head = self.core.backend.store.head().await?;
        self.launch(&mut held, &head);
        while let Some(done) = held.tasks.join_next().await {
            if let Ok(ended) = done {
                steps.push(self.finish(&mut held, ended));
            }
        }
        Ok(steps)
    }

    /// Starts a batch for every held partition that is behind and not at work.
    fn launch(self: &Arc<Self>, held: &mut Held, head: &Token) {
        let Some(head) = head.of(self.core.backend.store.info().id) else { return };
        let now = self.core.clock.monotonic();
        for (partition, slot) in &mut held.slots {
            let end = head.positions.get(partition).copied();
            // A place beyond the end is looked at too: reading there says that the store is not what it was.
            if slot.retry_at > now || end == slot.position || !held.running.insert(*partition) {
                continue;
            }
            let (follower, slot, partition) = (self.clone(), slot.clone(), *partition);
            held.tasks.spawn(async move {
                let owner_epoch = slot.lease.owner_epoch;
                let span = tracing::info_span!("batch", processor = %follower.name, %partition);
                let batch = follower.batch(partition, slot, Position::number(end)).instrument(span);
                let result = guard_async(batch).await.and_then(|done| done);
                Ended { partition, owner_epoch, result }
            });
        }
    }

    /// Reads one page and deals with it.
    async fn batch(&self, partition: Partition, mut slot: Slot, end: u64) -> Result<Done, HandlerError> {
        let (store, before) = (&self.core.backend.store, slot.position);
        let request =
            ChangeRequest::new(partition, slot.position, self.max_items).containers(self.containers.clone());
        let page = store.changes(&request).await?;
        let changes = page.changes.len();
        let scanned = page.scanned;
        let (mut lost, mut error) = (false, None);
        match &self.sink {
            Sink::View(view) => {
                let Some(mut claim) = slot.claim else {
                    return Err(HandlerError::transient("the view has no claim"));
                };
                let applied = view.apply(&self.core, partition, &mut claim, &page).await;
                (slot.claim, slot.position) = (Some(claim), claim.position);
                match applied {
                    Ok(()) => {}
                    Err(NotApplied::Fenced) => lost = true,
                    Err(NotApplied::Failed(failed)) => error = Some(failed),
                }
            }
            Sink::Handler(_) if changes == 0 => slot.position = scanned.max(slot.position),
            Sink::Handler(handler) => {
                let context = self.context(partition, &slot, scanned, end);
                let done = context.done.clone();
                if failpoint::sabotaged("checkpoint-first") {
                    slot.position = scanned.max(slot.position);
                    self.save(partition, &mut slot, true).await?;
                }
                failpoint::hit("processor.read");
                let handled = guard_async(handler(context.clone(), Changes(page.changes.into()))).await;
                failpoint::hit("processor.handled");
                match handled.and_then(|result| result) {
                    Ok(()) => slot.position = scanned.max(slot.position),
                    Err(failed) => {
                        drop(done);
                        slot.position = context.done().max(slot.position);
                        error = Some(failed);
                    }
                }
            }
        }
        if let Some(error) = &error {
            // Whoever gets on, if slowly, need not wait longer and longer.
            let moved = slot.position != before;
            slot.lease.attempt = if moved { 1 } else { slot.lease.attempt + 1 };
            slot.lease.last_failure = Some(error.to_string());
        } else if !lost {
            slot.lease.attempt = 0;
            slot.lease.last_failure = None;
        }
        if !lost {
            lost = !self.save(partition, &mut slot, changes > 0).await?;
        }
        Ok(Done { slot, changes, lost, error })
    }

    fn context(
        &self,
        partition: Partition,
        slot: &Slot,
        scanned: Option<Position>,
        end: u64,
    ) -> BatchContext {
        let info = self.core.backend.store.info();
        BatchContext {
            processor: self.name.clone(),
            instance: self.instance.incarnation.as_str().into(),
            partition,
            owner_epoch: slot.lease.owner_epoch,
            attempt: slot.lease.attempt,
            behind: end.saturating_sub(Position::number(scanned)),
            token: scanned.map(|position| info.token(partition, position)).unwrap_or_default(),
            core: self.core.clone(),
            done: Arc::default(),
            stop: self.stop.clone(),
            revoked: slot.revoked.subscribe(),
        }
    }

    /// Writes what has changed in the lease; false if it was lost. A checkpoint that moved although nothing was
    /// handled is written at most once per renewal.
    async fn save(&self, partition: Partition, slot: &mut Slot, handled: bool) -> Result<bool, HandlerError> {
        let is_view = slot.claim.is_some();
        let now = self.core.clock.monotonic();
        let moved = !is_view && slot.position != slot.lease.position();
        let due = handled || now.saturating_sub(slot.saved_at) >= self.times.renew;
        let failing = slot.lease.attempt > 0;
        // A view's progress is in its own row; its lease is only written to tell of failures.
        let write = failing || (moved && due);
        if !write {
            return Ok(true);
        }
        if !is_view {
            slot.lease.checkpoint = slot.position;
        }
        let value = Json::encode(&slot.lease)?;
        let unfenced = failpoint::sabotaged("lease-not-compared");
        let expect = if unfenced { Expect::Any } else { Expect::ETag(slot.etag) };
        match self.cells.write(CellWrite::new(key(&self.name, partition)?, expect, value)).await {
            Ok(etag) => (slot.etag, slot.saved_at) = (etag, now),
            Err(CellError::Conflict { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }

    pub(crate) fn record_failure(
        &self,
        partition: Partition,
        attempt: u32,
        position: Option<Position>,
        error: &HandlerError,
    ) {
        let at = self.core.now();
        let position = position.map(Position::get);
        let failure = Failure { at, attempt, position, error: error.to_string() };
        self.set_status(partition, |status| status.failure = Some(failure));
        metrics::counter!("highwater_processor_failures_total", "processor" => self.name.to_string())
            .increment(1);
        tracing::warn!(processor = %self.name, %partition, attempt, position, %error, "batch failed, trying again");
    }

    fn finish(&self, held: &mut Held, ended: Ended) -> Step {
        let Ended { partition, owner_epoch, result } = ended;
        let processor = self.name.to_string();
        held.running.remove(&partition);
        let mine = |slot: &&mut Slot| slot.lease.owner_epoch == owner_epoch;
        let Some(slot) = held.slots.get_mut(&partition).filter(mine) else {
            // Begun under a lease that is gone: whoever has the partition does it again.
            return Step::Processed { processor, partition, changes: 0 };
        };
        let (changes, error) = match result {
            Ok(Done { slot: after, changes, lost, error }) => {
                let progress = after.position != slot.position;
                *slot = after;
                if progress {
                    let (at, position) = (self.core.now(), Position::number(slot.position));
                    self.set_status(partition, |status| {
                        (status.last_progress, status.position) = (Some(at), Some(position));
                        if error.is_none() {
                            status.failure = None;
                        }
                    });
                }
                if lost {
                    self.lose(held, partition);
                    return Step::Processed { processor, partition, changes: 0 };
                }
                (changes, error)
            }
            Err(error) => {
                slot.lease.attempt += 1;
                (0, Some(error))
            }
        };
        metrics::counter!("highwater_processor_changes_total", "processor" => processor.clone())
            .increment(changes as u64);
        let Some(error) = error else { return Step::Processed { processor, partition, changes } };
        let attempt = slot.lease.attempt;
        slot.retry_at = self.core.clock.monotonic() + back_off(attempt, PAUSE.0, PAUSE.1);
        let next = Position::new(Position::number(slot.position) + 1);
        self.record_failure(partition, attempt, next, &error);
        Step::ProcessorFailed { processor, partition, error }
    }
}

fn is_fatal(error: &HandlerError) -> bool {
    error.class() == ErrorClass::Fatal
}
