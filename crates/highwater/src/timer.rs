//! Taking a delayed command back, or giving it another time, before anybody took it.
//!
//! The receipt that the queue gave for the put decides: it is good until somebody takes the message. The command's
//! cell says what was meant, so that a cancellation that dies half-way is finished by whoever asks for the outcome.

use crate::core::Core;
use crate::decide::RawCommand;
use crate::engine::Engine;
use crate::outcome::Outcome;
use crate::send::{LONGEST_DELAY, Pending};
use highwater_core::{
    Cell, CellError, CellWrite, CommandId, EngineError, Expect, FailureKind, GetError, InvalidKey,
    InvalidName, MessageId, Name, PartitionKey, ReadError, Receipt, ReceiptError, Update, failpoint,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How often a cell that others write at the same time is looked at again.
const TRIES: u32 = 16;

/// A delayed command on its way. As JSON it can be kept anywhere and used by another process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    command: CommandId,
    queue: String,
    partition_key: String,
    proof: String,
}

impl Timer {
    pub(crate) fn new(command: &RawCommand, receipt: &Receipt) -> Self {
        Self {
            command: command.id,
            queue: receipt.queue.to_string(),
            partition_key: command.key.partition_key.to_string(),
            proof: receipt.proof.to_string(),
        }
    }

    /// The command.
    pub fn command(&self) -> CommandId {
        self.command
    }
}

/// What came of cancelling a delayed command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cancelling {
    /// It will never be decided, and its outcome says so.
    Cancelled,
    /// It was taken, or given another time with another timer: this is what has become of it so far.
    TooLate(Outcome),
}

/// What came of giving a delayed command another time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retiming {
    /// It has another time. The timer that was used is dead; this one goes on.
    Retimed(Timer),
    /// It was taken, cancelled, or given another time with another timer: this is what has become of it so far.
    TooLate(Outcome),
}

/// Why a delayed command could be neither cancelled nor given another time.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TimerError {
    /// The timer is not one of this store, or the store has forgotten its command.
    #[error("the timer of command {command} is not known here")]
    Unknown {
        /// The command.
        command: CommandId,
    },
    /// The time is out of its range.
    #[error("the delay of a command must be at most 100 years")]
    OutOfRange,
    /// The engine failed. Try again with the same timer.
    #[error("{0}")]
    Engine(#[from] EngineError),
}

impl From<InvalidName> for TimerError {
    fn from(error: InvalidName) -> Self {
        EngineError::new(FailureKind::Other, error.to_string()).into()
    }
}

impl From<InvalidKey> for TimerError {
    fn from(error: InvalidKey) -> Self {
        EngineError::new(FailureKind::Other, error.to_string()).into()
    }
}

impl From<ReadError> for TimerError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Engine(error) => error.into(),
            other => EngineError::new(FailureKind::Other, other.to_string()).into(),
        }
    }
}

impl From<GetError> for TimerError {
    fn from(error: GetError) -> Self {
        match error {
            GetError::Engine(error) => error.into(),
            other => EngineError::new(FailureKind::Other, other.to_string()).into(),
        }
    }
}

/// What became of a deletion or an update with the sender's receipt.
enum Settled<T> {
    Done(T),
    /// Somebody has taken it, or re-timed it.
    Taken,
    Gone,
}

fn settled<T>(result: Result<T, ReceiptError>) -> Result<Settled<T>, EngineError> {
    match result {
        Ok(done) => Ok(Settled::Done(done)),
        Err(ReceiptError::ReceiptMismatch { .. }) => Ok(Settled::Taken),
        Err(ReceiptError::MessageNotFound { .. }) => Ok(Settled::Gone),
        Err(ReceiptError::Engine(error)) => Err(error),
        Err(other) => Err(EngineError::new(FailureKind::Other, other.to_string())),
    }
}

/// Changes a command's cell; the last look of it, or `None` if it is not there.
async fn rewrite(
    core: &Core,
    command: CommandId,
    change: impl Fn(&mut Pending),
) -> Result<Option<Pending>, TimerError> {
    let key = Pending::cell(command)?;
    for _ in 0..TRIES {
        let Some(cell) = core.backend.cells.read(&key).await? else { return Ok(None) };
        let mut pending = Pending::read(&cell)?;
        if pending.cancelled {
            return Ok(Some(pending));
        }
        change(&mut pending);
        let write = CellWrite::new(key.clone(), Expect::ETag(cell.etag), pending.json()?);
        match core.backend.cells.write(write).await {
            Ok(_) => return Ok(Some(pending)),
            Err(CellError::Conflict { .. }) => {}
            Err(CellError::Engine(error)) => return Err(error.into()),
            Err(other) => return Err(EngineError::new(FailureKind::Other, other.to_string()).into()),
        }
    }
    Err(EngineError::new(FailureKind::Busy, format!("too many write {key} at once; try again")).into())
}

/// What the log and the poison queue say of a command, if anything.
async fn known(
    core: &Core,
    queue: &Name,
    key: &PartitionKey,
    command: CommandId,
) -> Result<Option<Outcome>, TimerError> {
    if let Some(decided) = core.backend.store.decided(key, command).await? {
        return Ok(Some(Outcome::of(Some(decided.mark.verdict), decided.token)));
    }
    let parked = core.backend.queue.parked_message(queue, MessageId::from(command)).await?;
    Ok(parked.map(|parked| Outcome::Parked { reason: parked.parking.reason }))
}

/// Deletes the message with the sender's receipt and says so in the cell; again after a crash does no harm.
async fn take_back(
    core: &Core,
    queue: &Name,
    key: &PartitionKey,
    command: CommandId,
    proof: &str,
) -> Result<Cancelling, TimerError> {
    let receipt = Receipt::new(queue.clone(), command.into(), proof);
    let deleted = settled(core.backend.queue.delete(&receipt).await)?;
    failpoint::hit("timer.deleted");
    let found = match deleted {
        Settled::Done(()) => None,
        Settled::Taken => Some(known(core, queue, key, command).await?.unwrap_or(Outcome::Pending)),
        // By whoever decided it, or by a cancellation that died.
        Settled::Gone => known(core, queue, key, command).await?,
    };
    if let Some(outcome) = found {
        return Ok(Cancelling::TooLate(outcome));
    }
    rewrite(core, command, |pending| {
        (pending.cancelled, pending.cancelling, pending.data) = (true, None, None);
    })
    .await?;
    Ok(Cancelling::Cancelled)
}

/// Goes on with a cancellation that may have died; true if the command is cancelled.
pub(crate) async fn finish_cancelling(core: &Core, cell: &Cell, proof: &str) -> Result<bool, TimerError> {
    let pending = Pending::read(cell)?;
    let command: CommandId = cell.key.key.parse().map_err(|_| {
        EngineError::new(FailureKind::Corrupt, format!("the cell {} is not named after a command", cell.key))
    })?;
    let (queue, key) = (Name::new(&pending.queue)?, PartitionKey::new(&pending.partition_key)?);
    Ok(take_back(core, &queue, &key, command, proof).await? == Cancelling::Cancelled)
}

impl Engine {
    /// Takes a delayed command back, unless somebody took it before. Whatever dies meanwhile, the answer is the truth:
    /// ask again with the same timer.
    ///
    /// # Errors
    /// [`TimerError`].
    pub async fn cancel(&self, timer: &Timer) -> Result<Cancelling, TimerError> {
        let core = self.core();
        let (queue, key) = (Name::new(&timer.queue)?, PartitionKey::new(&timer.partition_key)?);
        let proof = timer.proof.clone();
        let meant = rewrite(core, timer.command, |pending| pending.cancelling = Some(proof.clone())).await?;
        failpoint::hit("timer.cancelling");
        match meant {
            Some(pending) if pending.cancelled => Ok(Cancelling::Cancelled),
            Some(_) => take_back(core, &queue, &key, timer.command, &timer.proof).await,
            None => match known(core, &queue, &key, timer.command).await? {
                Some(outcome) => Ok(Cancelling::TooLate(outcome)),
                None => Err(TimerError::Unknown { command: timer.command }),
            },
        }
    }

    /// Lets a delayed command be decided after this time from now instead, unless somebody took it before.
    ///
    /// # Errors
    /// [`TimerError`].
    pub async fn retime(&self, timer: &Timer, delay: Duration) -> Result<Retiming, TimerError> {
        if delay > LONGEST_DELAY {
            return Err(TimerError::OutOfRange);
        }
        let core = self.core();
        let (queue, key) = (Name::new(&timer.queue)?, PartitionKey::new(&timer.partition_key)?);
        let due = core.now().plus(delay);
        // First the cell: a message that comes too early is put off by what the cell says.
        let meant = rewrite(core, timer.command, |pending| pending.due = Some(due)).await?;
        failpoint::hit("timer.retiming");
        let too_late = match meant {
            Some(pending) if pending.cancelled => Outcome::Cancelled,
            Some(_) => {
                let receipt = Receipt::new(queue.clone(), timer.command.into(), &*timer.proof);
                let update = Update::visible_in(delay.min(core.backend.queue.limits().longest_delay));
                match settled(core.backend.queue.update(&receipt, update).await)? {
                    Settled::Done(receipt) => {
                        return Ok(Retiming::Retimed(Timer {
                            proof: receipt.proof.to_string(),
                            ..timer.clone()
                        }));
                    }
                    Settled::Taken | Settled::Gone => {
                        known(core, &queue, &key, timer.command).await?.unwrap_or(Outcome::Pending)
                    }
                }
            }
            None => match known(core, &queue, &key, timer.command).await? {
                Some(outcome) => outcome,
                None => return Err(TimerError::Unknown { command: timer.command }),
            },
        };
        Ok(Retiming::TooLate(too_late))
    }
}
