//! Values that one command at a time may hold, across partition keys: one open booking per guest and day, one account
//! per e-mail address.
//!
//! A value is held by a cell that names the command it was reserved for. The cell alone decides nothing about that
//! command: whether a reservation that was not confirmed may go to somebody else is asked of the log, and of a
//! command that was never sent nobody can be sure until it is withdrawn, so that it cannot be sent any more. A clock
//! only says when it is time to ask.

use crate::core::Core;
use crate::send::Pending;
use highwater_core::{
    Cell, CellError, CellKey, CellWrite, CommandId, EngineError, Expect, FailureKind, InvalidJson,
    InvalidKey, InvalidName, Json, Name, PartitionKey, ReadError, Timestamp, Verdict, failpoint,
};
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The space of the cells that hold values.
const SPACE: &str = "unique";

/// After this time it is asked what became of a command that a value was reserved for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a cell that others write at the same time is looked at again.
const TRIES: u32 = 32;

/// How many cells each reservation looks at in passing, to remove what is not needed any more.
const TIDIED: usize = 4;

/// The values of one scope, each held by one command at a time; from [`Engine::unique`](crate::Engine::unique).
///
/// *Reserve* a value for a command, then send the command under that id; *confirm* the value once the command is
/// accepted, *release* it once that is undone. [`Subscriber::unique`](crate::Subscriber::unique) confirms and
/// releases from the log, at least once. A crash in between leaves nothing behind that would need mending:
///
/// * after reserving, before sending: the same command can go on; after a minute any other that wants the value gets
///   it, and the first one can no longer be sent ([`SendError::Cancelled`](crate::SendError::Cancelled)).
/// * after sending, before or after the decision: the value is held for as long as the command waits, is parked or
///   was accepted, and free as soon as it was rejected, confirmed or not.
///
/// The command must be sent, not executed: only a queue can refuse one that comes too late.
#[derive(Debug)]
pub struct Unique<'a> {
    core: &'a Core,
    scope: String,
    patience: Duration,
}

/// What came of asking for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reservation {
    /// The command has the value: send it.
    Held,
    /// Another command has it.
    Taken {
        /// Which one.
        by: CommandId,
    },
    /// The command was decided before, so it needs no reservation. Sending it again does no harm.
    Decided,
}

/// Who holds a value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The command that the value was reserved for.
    pub command: CommandId,
    /// The partition key that the command goes to.
    pub partition_key: String,
    /// Whether the value was confirmed.
    pub confirmed: bool,
}

/// What an event says about a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    value: String,
    command: CommandId,
    kind: ClaimKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaimKind {
    Confirm { until: Option<Timestamp> },
    Release,
}

impl Claim {
    /// The value belongs to what this command made.
    pub fn confirm(value: impl Into<String>, command: CommandId) -> Self {
        Self { value: value.into(), command, kind: ClaimKind::Confirm { until: None } }
    }

    /// What this command made, or would have made, needs the value no longer.
    pub fn release(value: impl Into<String>, command: CommandId) -> Self {
        Self { value: value.into(), command, kind: ClaimKind::Release }
    }

    /// Lets a confirmed value be free from then on without being released, so that its cell need not be kept: a
    /// booking of a day that has passed.
    pub fn until(mut self, end: Timestamp) -> Self {
        if let ClaimKind::Confirm { until } = &mut self.kind {
            *until = Some(end);
        }
        self
    }
}

/// Why a value was not reserved, confirmed or released.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum UniqueError {
    /// The scope is not a name.
    #[error("the scope of unique values: {0}")]
    Scope(#[from] InvalidName),
    /// The partition key is not a key.
    #[error(transparent)]
    Key(#[from] InvalidKey),
    /// The value is too long.
    #[error("a unique value has {size} bytes with its scope, the limit is {limit}; use a digest of it")]
    TooLong {
        /// How long its cell's key is, in bytes.
        size: usize,
        /// How long it may be.
        limit: usize,
    },
    /// The engine failed.
    #[error("{0}")]
    Engine(#[from] EngineError),
}

impl From<ReadError> for UniqueError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Engine(error) => Self::Engine(error),
            other => Self::Engine(EngineError::new(FailureKind::Other, other.to_string())),
        }
    }
}

impl From<CellError> for UniqueError {
    fn from(error: CellError) -> Self {
        match error {
            CellError::Engine(error) => Self::Engine(error),
            other => Self::Engine(EngineError::new(FailureKind::Other, other.to_string())),
        }
    }
}

/// What the cell of a value says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Record {
    command: CommandId,
    partition_key: String,
    #[serde(flatten)]
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
enum State {
    /// Until `ask_at` nobody asks what became of the command.
    Reserved { ask_at: Timestamp },
    /// Held until it is released, or until then.
    Confirmed { until: Option<Timestamp> },
}

impl Record {
    fn read(cell: &Cell) -> Result<Self, EngineError> {
        cell.value.decode().map_err(|error: InvalidJson| {
            let text = format!("the cell {} does not say who holds the value: {error}; delete it", cell.key);
            EngineError::new(FailureKind::Corrupt, text)
        })
    }

    fn key(&self) -> Result<PartitionKey, InvalidKey> {
        PartitionKey::new(&self.partition_key)
    }

    fn json(&self) -> Result<Json, EngineError> {
        Json::encode(self).map_err(|error| EngineError::new(FailureKind::Other, error.to_string()))
    }
}

/// How far the cells were looked at in passing; shared by the whole process.
#[derive(Debug, Default)]
pub(crate) struct Tidying(Mutex<Option<String>>);

impl<'a> Unique<'a> {
    pub(crate) fn new(core: &'a Core, scope: impl Into<String>) -> Self {
        Self { core, scope: scope.into(), patience: PATIENCE }
    }

    /// Sets after which time it is asked whether a command that a value was reserved for was ever sent; 1 min by
    /// default. Lower it to free values of crashed senders sooner. A slow sender never does harm: it is refused.
    pub fn patience(mut self, span: Duration) -> Self {
        self.patience = span;
        self
    }

    fn cell(&self, value: &str) -> Result<CellKey, UniqueError> {
        let scope = Name::new(&self.scope)?;
        let key = CellKey::new(crate::send::constant(SPACE)?, format!("{scope}/{value}"));
        let (size, limit) = (key.key.len(), self.core.backend.cells.limits().key_bytes);
        if size > limit { Err(UniqueError::TooLong { size, limit }) } else { Ok(key) }
    }

    /// Reserves a value for a command that will be sent to this partition key, before it is sent. Asking again for the
    /// same command does no harm.
    ///
    /// # Errors
    /// [`UniqueError`]. The value may be reserved all the same: ask again.
    pub async fn reserve(
        &self,
        value: &str,
        command: CommandId,
        partition_key: &str,
    ) -> Result<Reservation, UniqueError> {
        let key = self.cell(value)?;
        PartitionKey::new(partition_key)?;
        self.tidy().await;
        let cells = &self.core.backend.cells;
        for _ in 0..TRIES {
            let found = cells.read(&key).await?;
            let holder = found.as_ref().map(Record::read).transpose()?;
            let ours = holder.as_ref().is_some_and(|holder| holder.command == command);
            match &holder {
                Some(Record { state: State::Confirmed { .. }, .. }) if ours => return Ok(Reservation::Held),
                Some(holder) if !ours && !self.is_free(holder).await? => {
                    return Ok(Reservation::Taken { by: holder.command });
                }
                _ => {}
            }
            failpoint::hit("unique.free");
            let state = State::Reserved { ask_at: self.core.now().plus(self.patience) };
            let record = Record { command, partition_key: partition_key.into(), state };
            let expect = found.map_or(Expect::Absent, |cell| Expect::ETag(cell.etag));
            match cells.write(CellWrite::new(key.clone(), expect, record.json()?)).await {
                Ok(_) if ours => return Ok(Reservation::Held),
                Ok(etag) => {
                    failpoint::hit("unique.reserved");
                    // A command that was decided has released what it held, or will: nobody would release this.
                    if self.decided(&record).await?.is_none() {
                        return Ok(Reservation::Held);
                    }
                    match cells.delete(&key, Expect::ETag(etag)).await {
                        Ok(()) | Err(CellError::Conflict { .. }) => return Ok(Reservation::Decided),
                        Err(error) => return Err(error.into()),
                    }
                }
                // Somebody else came first: look again.
                Err(CellError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(contended(&key).into())
    }

    /// Makes the value the command's until it is released, or until then. False, and nothing is changed, if the
    /// command does not hold it: it was released since, which a repeated delivery of an old event meets.
    ///
    /// # Errors
    /// [`UniqueError`]; confirm again.
    pub async fn confirm(
        &self,
        value: &str,
        command: CommandId,
        until: Option<Timestamp>,
    ) -> Result<bool, UniqueError> {
        let key = self.cell(value)?;
        for _ in 0..TRIES {
            let Some((cell, mut record)) = self.held_by(&key, command).await? else { return Ok(false) };
            let state = State::Confirmed { until };
            if record.state == state {
                return Ok(true);
            }
            record.state = state;
            let write = CellWrite::new(key.clone(), Expect::ETag(cell.etag), record.json()?);
            match self.core.backend.cells.write(write).await {
                Ok(_) => return Ok(true),
                Err(CellError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(contended(&key).into())
    }

    /// Frees the value if the command holds it: what it made is gone, or it will never be sent. False if it does not
    /// hold the value; then nothing is changed.
    ///
    /// # Errors
    /// [`UniqueError`]; release again.
    pub async fn release(&self, value: &str, command: CommandId) -> Result<bool, UniqueError> {
        let key = self.cell(value)?;
        for _ in 0..TRIES {
            let Some((cell, _)) = self.held_by(&key, command).await? else { return Ok(false) };
            match self.core.backend.cells.delete(&key, Expect::ETag(cell.etag)).await {
                Ok(()) => return Ok(true),
                Err(CellError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(contended(&key).into())
    }

    /// Who holds a value: as its cell says, without asking what became of the command.
    ///
    /// # Errors
    /// [`UniqueError`].
    pub async fn holder(&self, value: &str) -> Result<Option<Holder>, UniqueError> {
        let Some(cell) = self.core.backend.cells.read(&self.cell(value)?).await? else { return Ok(None) };
        let Record { command, partition_key, state } = Record::read(&cell)?;
        let confirmed = matches!(state, State::Confirmed { .. });
        Ok(Some(Holder { command, partition_key, confirmed }))
    }

    /// Does what an event says.
    pub(crate) async fn settle(&self, claim: &Claim) -> Result<(), UniqueError> {
        let Claim { value, command, kind } = claim;
        let done = match kind {
            ClaimKind::Confirm { until } => self.confirm(value, *command, *until).await?,
            ClaimKind::Release => self.release(value, *command).await?,
        };
        tracing::debug!(scope = self.scope, %command, ?kind, done, "unique value");
        Ok(())
    }

    async fn held_by(
        &self,
        key: &CellKey,
        command: CommandId,
    ) -> Result<Option<(Cell, Record)>, UniqueError> {
        let Some(cell) = self.core.backend.cells.read(key).await? else { return Ok(None) };
        let record = Record::read(&cell)?;
        Ok((record.command == command).then_some((cell, record)))
    }

    async fn decided(&self, record: &Record) -> Result<Option<Verdict>, UniqueError> {
        let decided = self.core.backend.store.decided(&record.key()?, record.command).await?;
        Ok(decided.map(|decided| decided.mark.verdict))
    }

    /// Whether a value may go to another command than the one of this record.
    async fn is_free(&self, record: &Record) -> Result<bool, UniqueError> {
        let now = self.core.now();
        let ask_at = match record.state {
            State::Confirmed { until } => return Ok(until.is_some_and(|until| until <= now)),
            State::Reserved { ask_at } => ask_at,
        };
        match self.decided(record).await? {
            Some(Verdict::Rejected { .. }) => Ok(true),
            Some(Verdict::Accepted) => Ok(false),
            None if now < ask_at => Ok(false),
            None => self.withdraw(record).await,
        }
    }

    /// Keeps a command that was not sent from ever being sent. False if it was sent.
    async fn withdraw(&self, record: &Record) -> Result<bool, UniqueError> {
        let cells = &self.core.backend.cells;
        let key = Pending::cell(record.command)?;
        if let Some(cell) = cells.read(&key).await? {
            return Ok(Pending::read(&cell)?.is_cancelled());
        }
        let withdrawn = Pending::withdrawn(&record.key()?, &self.core.queue);
        match cells.write(CellWrite::new(key, Expect::Absent, withdrawn.json()?)).await {
            Ok(_) => {}
            Err(CellError::Conflict { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        failpoint::hit("unique.withdrawn");
        // It may have been sent, decided and cleared away since the log was asked; from here on it cannot be.
        Ok(!matches!(self.decided(record).await?, Some(Verdict::Accepted)))
    }

    /// Looks at a few cells and removes those that hold nothing any more. Each reservation looks at more cells than it
    /// makes, so what crashed senders left behind does not add up.
    async fn tidy(&self) {
        if let Err(error) = self.tidy_some().await {
            tracing::debug!(%error, "unique values were not tidied");
        }
    }

    async fn tidy_some(&self) -> Result<(), UniqueError> {
        let place = &self.core.tidying.0;
        let after = place.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let cells = &self.core.backend.cells;
        let found = cells.list(&crate::send::constant(SPACE)?, after.as_deref(), TIDIED).await?;
        let next = found.last().filter(|_| found.len() == TIDIED).map(|cell| cell.key.key.clone());
        *place.lock().unwrap_or_else(PoisonError::into_inner) = next;
        for cell in found {
            let now = self.core.now();
            let record = Record::read(&cell)?;
            let due = match record.state {
                State::Reserved { ask_at } => ask_at <= now,
                State::Confirmed { until } => until.is_some_and(|until| until <= now),
            };
            if due && self.is_free(&record).await? {
                match cells.delete(&cell.key, Expect::ETag(cell.etag)).await {
                    Ok(()) | Err(CellError::Conflict { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
}

fn contended(key: &CellKey) -> EngineError {
    EngineError::new(FailureKind::Busy, format!("too many ask for {key} at once; try again"))
}
