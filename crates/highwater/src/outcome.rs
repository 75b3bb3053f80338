use crate::core::{Core, Patience};
use crate::engine::Engine;
use crate::send::Pending;
use crate::session::Session;
use crate::timer::{TimerError, finish_cancelling};
use highwater_core::{
    CommandId, EngineError, FailureKind, GetError, MessageId, Name, PartitionKey, ReadError, Token, Verdict,
    failpoint,
};
use std::pin::Pin;
use std::time::Duration;

/// What has become of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Not decided yet.
    Pending,
    /// Carried out.
    Accepted {
        /// Reached by whoever has seen it.
        token: Token,
    },
    /// Refused, for good.
    Rejected {
        /// Why, for people.
        reason: String,
        /// Reached by whoever has seen the refusal.
        token: Token,
    },
    /// Taken back before anybody decided it; it will never be decided.
    Cancelled,
    /// Undecided, and its message is in no queue: somebody discarded it, or cleared the queue. It will not be decided
    /// unless it is sent again, which may be under the same id.
    Discarded,
    /// Set aside because it could not be decided; somebody has to look at it.
    Parked {
        /// Why, for people.
        reason: String,
    },
}

impl Outcome {
    pub(crate) fn of(verdict: Option<Verdict>, token: Token) -> Self {
        match verdict {
            Some(Verdict::Rejected { reason }) => Self::Rejected { reason, token },
            Some(Verdict::Accepted) | None => Self::Accepted { token },
        }
    }

    /// The token of a decided command.
    pub fn token(&self) -> Option<&Token> {
        match self {
            Self::Accepted { token } | Self::Rejected { token, .. } => Some(token),
            Self::Pending | Self::Cancelled | Self::Discarded | Self::Parked { .. } => None,
        }
    }
}

/// Why an outcome could not be told.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OutcomeError {
    /// No command with this id was sent. One that was executed went through no queue: its caller has the outcome.
    #[error("no command {id} was sent through a queue of this store")]
    Unknown {
        /// The id.
        id: CommandId,
    },
    /// The engine failed.
    #[error("{0}")]
    Engine(#[from] EngineError),
}

impl From<TimerError> for OutcomeError {
    fn from(error: TimerError) -> Self {
        match error {
            TimerError::Engine(error) => Self::Engine(error),
            other => Self::Engine(EngineError::new(FailureKind::Other, other.to_string())),
        }
    }
}

impl From<ReadError> for OutcomeError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Engine(error) => Self::Engine(error),
            other => Self::Engine(EngineError::new(FailureKind::Other, other.to_string())),
        }
    }
}

impl From<GetError> for OutcomeError {
    fn from(error: GetError) -> Self {
        match error {
            GetError::Engine(error) => Self::Engine(error),
            other => Self::Engine(EngineError::new(FailureKind::Other, other.to_string())),
        }
    }
}

/// Asks what has become of a command; await it.
#[must_use = "nothing is asked until this is awaited"]
#[derive(Debug)]
pub struct OutcomeRequest<'a> {
    engine: &'a Engine,
    id: CommandId,
    limit: Duration,
}

impl<'a> OutcomeRequest<'a> {
    pub(crate) fn new(engine: &'a Engine, id: CommandId) -> Self {
        Self { engine, id, limit: Duration::ZERO }
    }

    /// Waits until the command is decided or parked, at most this long; then the answer may still be
    /// [`Outcome::Pending`]. An engine that a test drives does not wait.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    async fn ask(self) -> Result<Outcome, OutcomeError> {
        let core = self.engine.core();
        let wakes = vec![core.backend.store.wake(), core.backend.queue.wake()];
        let mut patience = Patience::new(core, self.limit, wakes);
        let cell = core.backend.cells.read(&Pending::cell(self.id)?).await?;
        let Some(cell) = cell else { return Err(OutcomeError::Unknown { id: self.id }) };
        let damaged = |error: &dyn std::fmt::Display| {
            let message = format!("the record of command {} cannot be read: {error}", self.id);
            EngineError::new(FailureKind::Corrupt, message)
        };
        let pending: Pending = cell.value.decode().map_err(|error| damaged(&error))?;
        let key = PartitionKey::new(&pending.partition_key).map_err(|error| damaged(&error))?;
        let queue = Name::new(&pending.queue).map_err(|error| damaged(&error))?;
        loop {
            // The log's word comes first: a message may be parked although its command was decided.
            if let Some(decided) = core.backend.store.decided(&key, self.id).await? {
                Session::told(&decided.token);
                return Ok(Outcome::of(Some(decided.mark.verdict), decided.token));
            }
            // Only a delayed command can be taken back.
            let cell = match pending.cancelled || pending.due.is_some() {
                true => core.backend.cells.read(&Pending::cell(self.id)?).await?,
                false => None,
            };
            if let Some(cell) = cell {
                let pending = Pending::read(&cell)?;
                let begun = match &pending.cancelling {
                    Some(proof) => finish_cancelling(core, &cell, proof).await?,
                    None => false,
                };
                if pending.cancelled || begun {
                    return Ok(Outcome::Cancelled);
                }
            }
            let (queues, message) = (&core.backend.queue, MessageId::from(self.id));
            if let Some(parked) = queues.parked_message(&queue, message).await? {
                return Ok(Outcome::Parked { reason: parked.parking.reason });
            }
            if queues.message(&queue, message).await?.is_none() {
                if moved_on(core, self.id, &queue, &key).await? {
                    continue;
                }
                return Ok(Outcome::Discarded);
            }
            if failpoint::sabotaged("outcome-invented") {
                return Ok(Outcome::of(Some(Verdict::Accepted), Token::default()));
            }
            if !patience.again().await {
                return Ok(Outcome::Pending);
            }
        }
    }
}

/// Whether a command whose message is not in its queue can be found elsewhere. It may have moved since it was looked for
/// there: to the poison queue, back, to its decision, or to whoever takes it back.
async fn moved_on(
    core: &Core,
    id: CommandId,
    queue: &Name,
    key: &PartitionKey,
) -> Result<bool, OutcomeError> {
    let (queues, message) = (&core.backend.queue, MessageId::from(id));
    if queues.parked_message(queue, message).await?.is_some()
        || queues.message(queue, message).await?.is_some()
        || core.backend.store.decided(key, id).await?.is_some()
    {
        return Ok(true);
    }
    let Some(cell) = core.backend.cells.read(&Pending::cell(id)?).await? else { return Ok(false) };
    let pending = Pending::read(&cell)?;
    Ok(pending.cancelled || (pending.due.is_some() && pending.cancelling.is_some()))
}

impl<'a> IntoFuture for OutcomeRequest<'a> {
    type Output = Result<Outcome, OutcomeError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.ask())
    }
}
