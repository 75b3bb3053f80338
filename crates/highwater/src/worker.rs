//! Takes commands from the queue, has them decided and removes them: in that order.

use crate::core::{Core, back_off};
use crate::decide::{RawCommand, Undecided};
use crate::handler::{ErrorClass, HandlerError};
use crate::send::{Carried, Pending, from_message};
use crate::settle::Step;
use highwater_core::{
    Attempt, AttemptKind, CellWrite, CommandId, Delivery, Expect, GetError, Json, Message, Parking, Receipt,
    ReceiptError, Update, Verdict, failpoint,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::Instrument;

/// How a worker behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerOptions {
    /// How many commands are decided at a time; 64 by default. Raise it when the store is far away, lower it to
    /// spare a small machine.
    pub concurrency: usize,
    /// How long a command is invisible to other workers once taken; 30 s by default, renewed at half time. Lower
    /// it to hand the work of a crashed worker over sooner, raise it if renewing fails under load.
    pub visibility: Duration,
    /// How often a command may be taken before it is parked; 10 by default.
    pub dequeue_limit: u32,
    /// When a decision that does not end is given up, to be tried again; 5 min by default.
    pub hard_limit: Duration,
    /// The pause after a first failure; doubled with every further one. 1 s by default.
    pub first_pause: Duration,
    /// The longest pause after a failure; 5 min by default.
    pub longest_pause: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            concurrency: 64,
            visibility: Duration::from_secs(30),
            dequeue_limit: 10,
            hard_limit: Duration::from_secs(300),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(300),
        }
    }
}

impl WorkerOptions {
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.concurrency == 0 {
            faults.push("worker concurrency must be at least 1".into());
        }
        if self.dequeue_limit == 0 {
            faults.push("worker dequeue limit must be at least 1".into());
        }
        if self.visibility < Duration::from_secs(1) || self.visibility > Duration::from_secs(7 * 86_400) {
            faults.push("worker visibility must be 1 s to 7 days".into());
        }
        faults
    }
}

/// How long a command of a newer program waits for that program.
const NEWER_PAUSE: Duration = Duration::from_secs(60);

/// How many deliveries count against the limit: those since the message last waited for a newer program, or came
/// back from the poison queue, which starts its count anew.
fn spent(message: &Message) -> u32 {
    let anew = |attempt: &&Attempt| matches!(attempt.kind, AttemptKind::Waited | AttemptKind::Replayed);
    let before = match message.history.iter().rev().find(anew) {
        Some(attempt) if attempt.kind == AttemptKind::Waited => attempt.dequeue_count,
        _ => 0,
    };
    message.dequeue_count.saturating_sub(before)
}

/// The pause between two looks at an empty queue grows from the first to the second.
const IDLE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

pub(crate) struct Worker {
    core: Arc<Core>,
    name: String,
    pub(crate) running: AtomicUsize,
    pub(crate) decided: AtomicU64,
    pub(crate) failed: AtomicU64,
}

impl Worker {
    pub(crate) fn new(core: Arc<Core>, name: String) -> Self {
        Self { core, name, running: 0.into(), decided: 0.into(), failed: 0.into() }
    }

    async fn take(&self, free: usize) -> Result<Vec<Delivery>, GetError> {
        let most = self.core.backend.queue.limits().messages_per_get;
        let visibility = self.core.worker.visibility;
        self.core.backend.queue.get(&self.core.queue, free.min(most), visibility).await
    }

    /// Works until told to stop; then finishes what runs. Returns the reason if it cannot go on.
    pub(crate) async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) -> Result<(), HandlerError> {
        let mut wake = self.core.backend.queue.wake();
        let mut tasks: JoinSet<Step> = JoinSet::new();
        let mut idle = IDLE.0;
        let result = loop {
            if *stop.borrow() {
                break Ok(());
            }
            let free = self.core.worker.concurrency.saturating_sub(tasks.len());
            let taken = if free == 0 { Ok(Vec::new()) } else { self.take(free).await };
            match taken {
                Ok(deliveries) if !deliveries.is_empty() => {
                    idle = IDLE.0;
                    for delivery in deliveries {
                        let worker = self.clone();
                        tasks.spawn(async move { worker.handle(delivery).await });
                    }
                }
                Ok(_) if free == 0 => {}
                Ok(_) => idle = (idle * 2).min(IDLE.1),
                Err(error) => {
                    let error = HandlerError::from(error);
                    if error.class() == ErrorClass::Fatal {
                        break Err(error);
                    }
                    tracing::warn!(queue = %self.core.queue, %error, "cannot take commands, trying again");
                    idle = IDLE.1;
                }
            }
            let full = tasks.len() >= self.core.worker.concurrency;
            // Hints may all be lost; whoever does not poll then waits for ever.
            let polls = !failpoint::sabotaged("no-polling");
            let mut done = tokio::select! {
                biased;
                Some(done) = tasks.join_next(), if !tasks.is_empty() => Some(done),
                _ = stop.changed() => None,
                () = wake.hint(), if !full && polls => None,
                () = self.core.clock.sleep(idle), if !full && polls => None,
            };
            let mut fatal = None;
            while let Some(finished) = done {
                match finished {
                    Ok(Step::Fatal { error }) => fatal = Some(error),
                    Ok(_) => {}
                    Err(error) => tracing::error!(%error, "a command's task ended early, it comes again"),
                }
                done = tasks.try_join_next();
            }
            if let Some(error) = fatal {
                break Err(error);
            }
        };
        while tasks.join_next().await.is_some() {}
        result
    }

    /// Handles one batch to its end; for engines that a test drives.
    pub(crate) async fn step(self: &Arc<Self>) -> Result<Vec<Step>, HandlerError> {
        let mut steps = Vec::new();
        for delivery in self.take(usize::MAX).await? {
            steps.push(self.handle(delivery).await);
        }
        Ok(steps)
    }

    async fn handle(&self, delivery: Delivery) -> Step {
        let started = self.core.clock.monotonic();
        let span = tracing::info_span!("command", message = %delivery.message.id);
        let step = {
            let _running = Running::new(&self.running);
            self.handle_counted(delivery).instrument(span).await
        };
        let seconds = self.core.clock.monotonic().saturating_sub(started).as_secs_f64();
        let (outcome, counter) = match &step {
            Step::Decided { verdict: Verdict::Accepted, .. } => ("accepted", &self.decided),
            Step::Decided { .. } => ("rejected", &self.decided),
            Step::Parked { .. } => ("parked", &self.failed),
            Step::PutOff { .. } => return step,
            _ => ("failed", &self.failed),
        };
        counter.fetch_add(1, Relaxed);
        metrics::counter!("highwater_commands_total", "outcome" => outcome).increment(1);
        metrics::histogram!("highwater_command_seconds").record(seconds);
        step
    }

    async fn handle_counted(&self, delivery: Delivery) -> Step {
        let Delivery { message, mut receipt, .. } = delivery;
        let command = match self.read(&message).await {
            Ok(Read::Command { command, by_pointer }) => Ok((command, by_pointer)),
            Ok(Read::Early { left }) => return self.put_off(&message, &receipt, left).await,
            Ok(Read::Decided { name, verdict }) => {
                self.remove(&message, &receipt).await;
                return Step::Decided { message: message.id, name, verdict };
            }
            Err(error) => Err(error),
        };
        let by_pointer = matches!(command, Ok((_, true)));
        let command = command.map(|(command, _)| command);
        if failpoint::sabotaged("deleted-first") {
            self.remove(&message, &receipt).await;
        }
        match self.decide_while_renewing(&message, &command, &mut receipt).await {
            None => Step::Lost { message: message.id },
            Some(Ok((verdict, name))) => {
                failpoint::hit("worker.committed");
                // Before the message: afterwards nobody would.
                let cleared = if by_pointer { self.clear_data(&message).await } else { Ok(()) };
                match cleared {
                    Ok(()) => self.remove(&message, &receipt).await,
                    Err(error) => {
                        tracing::warn!(message = %message.id, %error, "cannot clear its data, it will come again");
                    }
                }
                failpoint::hit("worker.deleted");
                Step::Decided { message: message.id, name, verdict }
            }
            Some(Err(error)) => self.failed(&message, &receipt, command.ok().as_ref(), error).await,
        }
    }

    /// Decides, keeping the message invisible meanwhile. `None` if somebody else has taken it over.
    async fn decide_while_renewing(
        &self,
        message: &Message,
        command: &Result<RawCommand, HandlerError>,
        receipt: &mut Receipt,
    ) -> Option<Result<(Verdict, String), HandlerError>> {
        let clock = &self.core.clock;
        let mut work = std::pin::pin!(self.decide(message, command));
        let mut limit = std::pin::pin!(clock.sleep(self.core.worker.hard_limit));
        loop {
            tokio::select! {
                biased;
                result = &mut work => return Some(result),
                () = &mut limit => {
                    let text = format!("not decided after {:?}, given up for this time", self.core.worker.hard_limit);
                    return Some(Err(HandlerError::transient(text)));
                }
                () = clock.sleep(self.core.worker.visibility / 2) => {
                    let update = Update::visible_in(self.core.worker.visibility);
                    match self.core.backend.queue.update(receipt, update).await {
                        Ok(renewed) => *receipt = renewed,
                        Err(ReceiptError::ReceiptMismatch { .. } | ReceiptError::MessageNotFound { .. }) => return None,
                        Err(error) => tracing::warn!(message = %message.id, %error, "cannot renew, going on"),
                    }
                }
            }
        }
    }

    async fn decide(
        &self,
        message: &Message,
        command: &Result<RawCommand, HandlerError>,
    ) -> Result<(Verdict, String), HandlerError> {
        let command = command.as_ref().map_err(HandlerError::clone)?;
        let container = &command.key.container;
        let decider = self.core.deciders.get(container);
        // Another program that shares the queue, or the next release of this one, may know it: worth some tries.
        let unknown = || HandlerError::transient(format!("no aggregate `{container}` is known here"));
        let decider = decider.ok_or_else(unknown)?;
        if command.schema > decider.schema() {
            let text = format!("schema {} of `{}` needs a newer program", command.schema, command.name);
            return Err(HandlerError::new(ErrorClass::Newer, text));
        }
        let limit = self.core.worker.dequeue_limit;
        if spent(message) > limit {
            // Whoever took it before did not live to say what happened.
            return Err(HandlerError::permanent(format!("taken {limit} times and never finished")));
        }
        let committed = decider.decide(&self.core, command).await.map_err(Undecided::into_error)?;
        Ok((committed.verdict.unwrap_or(Verdict::Accepted), command.name.clone()))
    }

    /// What a message asks for. The data of a large command, and the time of a delayed one, are in its cell.
    async fn read(&self, message: &Message) -> Result<Read, HandlerError> {
        let undecodable = |why: String| HandlerError::permanent(format!("cannot be decoded: {why}"));
        let Carried { mut command, by_pointer, timer } = from_message(&message.body).map_err(undecodable)?;
        if !by_pointer && !timer {
            return Ok(Read::Command { command, by_pointer });
        }
        let cell = self.core.backend.cells.read(&Pending::cell(command.id)?).await?;
        let pending = cell.as_ref().map(Pending::read).transpose()?;
        let due = pending.as_ref().and_then(|pending| pending.due);
        let left = due.map(|due| due.since(self.core.now())).filter(|left| timer && !left.is_zero());
        if let Some(left) = left {
            return Ok(Read::Early { left });
        }
        if !by_pointer {
            return Ok(Read::Command { command, by_pointer });
        }
        if let Some(data) = pending.and_then(|pending| pending.data) {
            command.data = Json::from_stored(data.get().to_owned().into());
            return Ok(Read::Command { command, by_pointer });
        }
        // It is cleared once the command is decided; whoever did so died before the message was gone.
        let decided = self.core.backend.store.decided(&command.key.partition_key, command.id).await?;
        match decided {
            Some(decided) => Ok(Read::Decided { name: command.name, verdict: decided.mark.verdict }),
            None => Err(HandlerError::permanent(format!(
                "the cell {} does not hold its data any more: discard it and send the command anew",
                Pending::cell(command.id)?
            ))),
        }
    }

    /// Puts a message off that came before its time: it was re-timed, or one wait was not long enough for it.
    async fn put_off(&self, message: &Message, receipt: &Receipt, left: Duration) -> Step {
        let pause = left.min(self.core.backend.queue.limits().longest_delay);
        let update = Update::visible_in(pause).note(AttemptKind::Waited, "its time has not come");
        match self.core.backend.queue.update(receipt, update).await {
            Ok(_) => {}
            Err(ReceiptError::ReceiptMismatch { .. } | ReceiptError::MessageNotFound { .. }) => {
                return Step::Lost { message: message.id };
            }
            Err(error) => {
                tracing::warn!(message = %message.id, %error, "cannot put off, it comes back by itself")
            }
        }
        Step::PutOff { message: message.id }
    }

    /// Removes the data of a decided command from its cell.
    async fn clear_data(&self, message: &Message) -> Result<(), HandlerError> {
        let key = Pending::cell(CommandId(message.id.0))?;
        let Some(cell) = self.core.backend.cells.read(&key).await? else { return Ok(()) };
        let mut pending = Pending::read(&cell)?;
        if pending.data.take().is_some() {
            let write = CellWrite::new(key, Expect::ETag(cell.etag), pending.json()?);
            self.core.backend.cells.write(write).await?;
            failpoint::hit("worker.cleared");
        }
        Ok(())
    }

    async fn remove(&self, message: &Message, receipt: &Receipt) {
        match self.core.backend.queue.delete(receipt).await {
            Ok(()) => {}
            // Whoever has it finds the command decided and removes it.
            Err(ReceiptError::ReceiptMismatch { .. } | ReceiptError::MessageNotFound { .. }) => {}
            Err(error) => tracing::warn!(message = %message.id, %error, "cannot remove, it will come again"),
        }
    }

    async fn failed(
        &self,
        message: &Message,
        receipt: &Receipt,
        command: Option<&RawCommand>,
        error: HandlerError,
    ) -> Step {
        let options = &self.core.worker;
        let exhausted = spent(message) >= options.dequeue_limit;
        let (pause, kind, note) = match error.class() {
            ErrorClass::Fatal => return Step::Fatal { error },
            ErrorClass::Newer => {
                (NEWER_PAUSE, AttemptKind::Waited, format!("waits for a newer program: {error}"))
            }
            ErrorClass::Permanent => {
                return self.park(message, receipt, command, error.to_string(), error).await;
            }
            ErrorClass::Transient if exhausted => {
                let reason = format!("failed {} times", spent(message));
                return self.park(message, receipt, command, reason, error).await;
            }
            ErrorClass::Transient => {
                let pause = back_off(spent(message), options.first_pause, options.longest_pause);
                (pause, AttemptKind::Failed, error.to_string())
            }
        };
        tracing::warn!(message = %message.id, count = message.dequeue_count, %error, ?pause, "command failed");
        let update = Update::visible_in(pause).note(kind, note);
        if let Err(error) = self.core.backend.queue.update(receipt, update).await {
            tracing::warn!(message = %message.id, %error, "cannot defer, it comes back by itself");
        }
        Step::Failed { message: message.id, error }
    }

    /// Moves a message to the poison queue, unless its command was decided after all.
    async fn park(
        &self,
        message: &Message,
        receipt: &Receipt,
        command: Option<&RawCommand>,
        reason: String,
        error: HandlerError,
    ) -> Step {
        if let Some(command) = command {
            let store = &self.core.backend.store;
            match store.decided(&command.key.partition_key, command.id).await {
                Ok(Some(decided)) if decided.mark.fingerprint == command.fingerprint() => {
                    self.remove(message, receipt).await;
                    let (name, verdict) = (command.name.clone(), decided.mark.verdict);
                    return Step::Decided { message: message.id, name, verdict };
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(message = %message.id, %error, "cannot ask the log, not parking");
                    return Step::Failed { message: message.id, error: error.into() };
                }
            }
        }
        tracing::warn!(message = %message.id, reason, %error, "parked");
        let parking = Parking::new(reason.clone(), error.to_string(), self.name.clone());
        match self.core.backend.queue.park(receipt, parking).await {
            Ok(()) => Step::Parked { message: message.id, reason },
            Err(ReceiptError::ReceiptMismatch { .. } | ReceiptError::MessageNotFound { .. }) => {
                Step::Lost { message: message.id }
            }
            Err(error) => {
                tracing::error!(message = %message.id, %error, "cannot park, it stays in its queue");
                Step::Failed { message: message.id, error: HandlerError::from(error) }
            }
        }
    }
}

/// What a message turned out to be.
enum Read {
    /// A command to decide.
    Command { command: RawCommand, by_pointer: bool },
    /// A command whose time has not come.
    Early { left: Duration },
    /// A command that was decided before.
    Decided { name: String, verdict: Verdict },
}

/// Counts a command for as long as it lives.
struct Running<'a>(&'a AtomicUsize);

impl<'a> Running<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_core::{MessageId, Timestamp};

    #[test]
    fn only_deliveries_since_the_last_wait_or_replay_count() {
        let at = Timestamp::from_micros(0);
        let mut message = Message::new(MessageId::random(), "x".into(), at, at);
        let mut deliver = |times, kind| {
            message.dequeue_count += times;
            let counted = spent(&message);
            message.note(at, kind, "");
            if kind == AttemptKind::Replayed {
                message.dequeue_count = 0;
            }
            counted
        };
        assert_eq!(deliver(5, AttemptKind::Waited), 5);
        assert_eq!(deliver(2, AttemptKind::Failed), 2);
        assert_eq!(deliver(1, AttemptKind::Replayed), 3);
        assert_eq!(deliver(2, AttemptKind::Failed), 2, "the wait before the replay is of another count");
        assert_eq!(deliver(1, AttemptKind::Waited), 3);
        assert_eq!(deliver(1, AttemptKind::Failed), 1);
    }
}
