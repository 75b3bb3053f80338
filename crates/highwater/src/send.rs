use crate::address::Address;
use crate::aggregate::Aggregate;
use crate::core::Core;
use crate::decide::RawCommand;
use crate::engine::Engine;
use crate::tagged::{self, TagError};
use crate::timer::Timer;
use highwater_core::{
    Cell, CellKey, CloudEvent, CommandId, EngineError, FailureKind, InvalidJson, InvalidKey, ItemId, ItemKey,
    Json, Name, NewMessage, PartitionKey, PutError, Timestamp,
};
use serde::{Deserialize, Serialize};
use std::pin::Pin;
use std::time::Duration;

/// The space of the cells that say where a command was sent.
pub(crate) const COMMANDS: &str = "commands";

/// The longest delay of a command: 100 years. A message waits 7 days at a time; the worker that takes it before its
/// time puts it off again.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_secs(100 * 366 * 86_400);

/// A command to be sent; await it.
#[must_use = "a command is sent when this is awaited"]
#[derive(Debug)]
pub struct Send<'a, A: Aggregate> {
    engine: &'a Engine,
    to: Address,
    command: A::Command,
    id: Option<CommandId>,
    delay: Duration,
}

/// A command that is durably on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sent {
    /// Its id, for [`Engine::outcome`].
    pub id: CommandId,
    /// True if the same command with the same id had been sent before; it is still decided once.
    pub repeated: bool,
    /// Cancels or re-times a delayed command before anybody took it; `None` for one that was not delayed or is
    /// repeated.
    pub timer: Option<Timer>,
}

/// Why a command was not sent.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// No aggregate of this type was registered with the engine.
    #[error("no aggregate `{container}` is registered: add `.aggregate::<…>(…)` before `start`")]
    NotRegistered {
        /// Its container.
        container: &'static str,
    },
    /// The address is not a key.
    #[error(transparent)]
    Key(#[from] InvalidKey),
    /// The command cannot be written as JSON.
    #[error(transparent)]
    Command(#[from] TagError),
    /// The id was used for a command with other content.
    #[error("command id {id} was used before with other content; give the new command an id of its own")]
    CommandIdReused {
        /// The id.
        id: CommandId,
    },
    /// The command was taken back: cancelled, or not sent before others might have what was reserved for it.
    #[error("command {id} was cancelled and will not be decided; give a new command an id of its own")]
    Cancelled {
        /// The id.
        id: CommandId,
    },
    /// The command is too large, for a message and for the cell that holds the data of a large one.
    #[error("the command is too large: {size} bytes with its envelope, the limit is {limit}")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// So many commands wait in the queue that this one may not be added; see
    /// [`EngineBuilder::queue_limit`](crate::EngineBuilder::queue_limit). It was not sent: send it again later, under
    /// the same id.
    #[error("{limit} commands are waiting already; try again later")]
    Full {
        /// The limit.
        limit: u64,
    },
    /// The queue did not take it.
    #[error(transparent)]
    Queue(PutError),
    /// The engine failed.
    #[error("{0}")]
    Engine(#[from] EngineError),
}

/// What a cell of the space [`COMMANDS`] says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) queue: String,
    pub(crate) container: String,
    pub(crate) partition_key: String,
    pub(crate) id: String,
    pub(crate) fingerprint: String,
    /// The command will never be decided: it was taken back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) cancelled: bool,
    /// Somebody began to take it back, with the receipt of this proof, and may have died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cancelling: Option<String>,
    /// A delayed command is not decided before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) due: Option<Timestamp>,
    /// The data of a command that is too large for a message, until the command is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Box<serde_json::value::RawValue>>,
}

impl Pending {
    fn of(command: &RawCommand, queue: &Name) -> Self {
        Self {
            queue: queue.to_string(),
            container: command.key.container.to_string(),
            partition_key: command.key.partition_key.to_string(),
            id: command.key.id.to_string(),
            fingerprint: command.fingerprint().0.iter().map(|byte| format!("{byte:02x}")).collect(),
            cancelled: false,
            cancelling: None,
            due: None,
            data: None,
        }
    }

    /// Stands where the record of a command would, which therefore cannot be sent any more.
    pub(crate) fn withdrawn(partition_key: &PartitionKey, queue: &Name) -> Self {
        Self {
            queue: queue.to_string(),
            container: String::new(),
            partition_key: partition_key.to_string(),
            id: String::new(),
            fingerprint: String::new(),
            cancelled: true,
            cancelling: None,
            due: None,
            data: None,
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// Reads the record of a command.
    pub(crate) fn read(cell: &Cell) -> Result<Self, EngineError> {
        cell.value.decode().map_err(|error| {
            let text = format!("the record of command {} cannot be read: {error}", cell.key.key);
            EngineError::new(FailureKind::Corrupt, text)
        })
    }

    pub(crate) fn json(&self) -> Result<Json, EngineError> {
        Json::encode(self).map_err(|error| EngineError::new(FailureKind::Other, error.to_string()))
    }

    pub(crate) fn cell(id: CommandId) -> Result<CellKey, EngineError> {
        Ok(CellKey::new(constant(COMMANDS)?, id.to_string()))
    }
}

/// A name that is written in this program.
pub(crate) fn constant(name: &'static str) -> Result<Name, EngineError> {
    let other = highwater_core::FailureKind::Other;
    Name::new(name).map_err(|error| EngineError::new(other, error.to_string()))
}

impl<'a, A: Aggregate> Send<'a, A> {
    pub(crate) fn new(engine: &'a Engine, to: Address, command: A::Command) -> Self {
        Self { engine, to, command, id: None, delay: Duration::ZERO }
    }

    /// Gives the command an id of the sender's making, so that sending it again is harmless. Without this it gets a
    /// fresh one.
    ///
    /// "The same command" means the same JSON text: what it holds must be written in a fixed order, so a `BTreeMap`
    /// and not a `HashMap`.
    pub fn id(mut self, id: CommandId) -> Self {
        self.id = Some(id);
        self
    }

    /// Lets the command be decided only after this time, at most 100 years. [`Sent::timer`] cancels it until then.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Lets the command be decided only from this moment on, by the engine's clock.
    pub fn at(mut self, moment: Timestamp) -> Self {
        self.delay = moment.since(self.engine.now());
        self
    }

    async fn send(self) -> Result<Sent, SendError> {
        let core = self.engine.core();
        let id = self.id.unwrap_or_else(CommandId::random);
        let command = raw::<A>(core, &self.to, &self.command, id)?;
        put(core, &command, self.delay).await
    }
}

/// Puts a command into the queue, to be decided after `delay`.
pub(crate) async fn put(core: &Core, command: &RawCommand, delay: Duration) -> Result<Sent, SendError> {
    let id = command.id;
    let mut pending = Pending::of(command, &core.queue);
    if delay > LONGEST_DELAY {
        let (what, range) = ("the delay of a command".into(), "at most 100 years".into());
        return Err(SendError::Queue(PutError::OutOfRange { what, range }));
    }
    let delayed = !delay.is_zero();
    pending.due = delayed.then(|| core.now().plus(delay));
    let limits = core.backend.queue.limits();
    let mut body = to_message(command, delayed, false)?;
    if body.as_bytes().len() > limits.message_bytes {
        pending.data = serde_json::from_slice(command.data.as_bytes()).ok();
        body = to_message(command, delayed, true)?;
    }
    let value = pending.json()?;
    if value.as_bytes().len() > limits.cell_bytes {
        return Err(SendError::TooLarge { size: value.as_bytes().len(), limit: limits.cell_bytes });
    }
    let mut message = NewMessage::new(body.bytes()).id(id.into()).delay(delay.min(limits.longest_delay));
    message.depth_limit = core.queue_limit;
    let first_time = message.clone().cell(Pending::cell(id)?, value);
    let mut timer = None;
    let repeated = match core.backend.queue.put(&core.queue, first_time).await {
        Ok(put) => {
            timer = put.receipt.filter(|_| delayed).map(|receipt| Timer::new(command, &receipt));
            false
        }
        Err(PutError::CellConflict { found }) => {
            let first = Pending::read(&found)?;
            if first.cancelled {
                return Err(SendError::Cancelled { id });
            }
            if first.fingerprint != pending.fingerprint {
                return Err(SendError::CommandIdReused { id });
            }
            // Whoever wrote the cell may have died before the message was put.
            core.backend.queue.put(&core.queue, message).await.map_err(refused)?;
            true
        }
        Err(error) => return Err(refused(error)),
    };
    metrics::counter!("highwater_commands_sent_total").increment(1);
    tracing::debug!(command = %id, name = command.name, key = %command.key, repeated, "sent");
    Ok(Sent { id, repeated, timer })
}

fn unwritable(error: InvalidJson) -> SendError {
    EngineError::new(highwater_core::FailureKind::Other, error.to_string()).into()
}

fn refused(error: PutError) -> SendError {
    match error {
        PutError::Engine(error) => error.into(),
        PutError::TooLarge { size, limit, .. } => SendError::TooLarge { size, limit },
        PutError::Full { limit, .. } => SendError::Full { limit },
        other => SendError::Queue(other),
    }
}

impl<'a, A: Aggregate> IntoFuture for Send<'a, A> {
    type Output = Result<Sent, SendError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + core::marker::Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// A typed command as its target, name and data.
pub(crate) fn raw<A: Aggregate>(
    core: &Core,
    to: &Address,
    command: &A::Command,
    id: CommandId,
) -> Result<RawCommand, SendError> {
    let unknown = SendError::NotRegistered { container: A::CONTAINER };
    let Some(container) = core.deciders.keys().find(|name| name.as_str() == A::CONTAINER) else {
        return Err(unknown);
    };
    let key = to.within(container)?;
    let (name, data) = tagged::encode(command)?;
    Ok(RawCommand { id, key, name, schema: A::SCHEMA, data })
}

/// The message that carries a command: a CloudEvents envelope whose id is the command's. One that is too large has a
/// `dataref` instead of its data (CloudEvents, *Dataref (Claim Check Pattern)*): the cell that holds it.
fn to_message(command: &RawCommand, delayed: bool, by_pointer: bool) -> Result<Json, SendError> {
    let ItemKey { container, partition_key, id } = &command.key;
    let mut envelope = CloudEvent::new(command.id.to_string(), "/highwater", &*command.name, &command.data)
        .with("container", container.as_str())
        .with("partitionkey", partition_key.as_str())
        .with("schemaversion", command.schema);
    envelope.subject = Some(id.to_string());
    if delayed {
        envelope = envelope.with("timer", true);
    }
    if by_pointer {
        envelope = envelope.with("dataref", format!("cell:{}", Pending::cell(command.id)?));
        envelope.data = None;
    }
    Json::encode(&envelope).map_err(unwritable)
}

/// A command as its message carries it.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) command: RawCommand,
    /// The data lies in the command's cell.
    pub(crate) by_pointer: bool,
    /// The command's cell says when it is due.
    pub(crate) timer: bool,
}

/// Reads the message that carries a command.
pub(crate) fn from_message(bytes: &[u8]) -> Result<Carried, String> {
    let envelope = CloudEvent::parse(bytes).map_err(|error| error.to_string())?;
    let text = |name: &str| envelope.text(name).ok_or_else(|| format!("the attribute `{name}` is missing"));
    let subject = envelope.subject.as_deref().ok_or("the attribute `subject` is missing")?;
    let key = ItemKey {
        container: Name::new(text("container")?).map_err(|error| error.to_string())?,
        partition_key: PartitionKey::new(text("partitionkey")?).map_err(|error| error.to_string())?,
        id: ItemId::new(subject).map_err(|error| error.to_string())?,
    };
    let id = envelope.id.parse().map_err(|_| format!("the id `{}` is not a UUID", envelope.id))?;
    let schema = envelope.number("schemaversion").and_then(|number| u32::try_from(number).ok());
    let schema = schema.ok_or("the attribute `schemaversion` is missing or not a small number")?;
    let by_pointer = envelope.data.is_none() && envelope.text("dataref").is_some();
    let timer = envelope.extensions.get("timer").and_then(serde_json::Value::as_bool).unwrap_or(false);
    let command = RawCommand { id, key, name: envelope.kind.clone(), schema, data: envelope.data() };
    Ok(Carried { command, by_pointer, timer })
}
