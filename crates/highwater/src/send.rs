use crate::address::Address;
use crate::aggregate::Aggregate;
use crate::decide::RawCommand;
use crate::engine::Engine;
use crate::tagged::{self, TagError};
use highwater_core::{
    CellKey, CloudEvent, CommandId, EngineError, InvalidJson, InvalidKey, ItemId, ItemKey, Json, Name,
    NewMessage, PartitionKey, PutError,
};
use serde::{Deserialize, Serialize};
use std::pin::Pin;
use std::time::Duration;

/// The space of the cells that say where a command was sent.
pub(crate) const COMMANDS: &str = "commands";

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
    /// The command is too large for a message.
    #[error("the command is too large: {size} bytes with its envelope, the limit is {limit}")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The limit.
        limit: usize,
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
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled
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

    /// Lets the command be decided only after this time (at most 7 days).
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    async fn send(self) -> Result<Sent, SendError> {
        let core = self.engine.core();
        let id = self.id.unwrap_or_else(CommandId::random);
        let command = raw::<A>(self.engine, &self.to, &self.command, id)?;
        let pending = Pending::of(&command, &core.queue);
        let body = to_message(&command)?;
        let limit = core.backend.queue.limits().message_bytes;
        if body.as_bytes().len() > limit {
            return Err(SendError::TooLarge { size: body.as_bytes().len(), limit });
        }
        let message = NewMessage::new(body.bytes()).id(id.into()).delay(self.delay);
        let value = Json::encode(&pending).map_err(unwritable)?;
        let first_time = message.clone().cell(Pending::cell(id)?, value);
        let repeated = match core.backend.queue.put(&core.queue, first_time).await {
            Ok(_) => false,
            Err(PutError::CellConflict { found }) => {
                let first: Pending = found.value.decode().map_err(unwritable)?;
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
        Ok(Sent { id, repeated })
    }
}

fn unwritable(error: InvalidJson) -> SendError {
    EngineError::new(highwater_core::FailureKind::Other, error.to_string()).into()
}

fn refused(error: PutError) -> SendError {
    match error {
        PutError::Engine(error) => error.into(),
        PutError::TooLarge { size, limit, .. } => SendError::TooLarge { size, limit },
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
    engine: &Engine,
    to: &Address,
    command: &A::Command,
    id: CommandId,
) -> Result<RawCommand, SendError> {
    let unknown = SendError::NotRegistered { container: A::CONTAINER };
    let Some(container) = engine.core().deciders.keys().find(|name| name.as_str() == A::CONTAINER) else {
        return Err(unknown);
    };
    let key = to.within(container)?;
    let (name, data) = tagged::encode(command)?;
    Ok(RawCommand { id, key, name, schema: A::SCHEMA, data })
}

/// The message that carries a command: a CloudEvents envelope whose id is the command's.
fn to_message(command: &RawCommand) -> Result<Json, SendError> {
    let ItemKey { container, partition_key, id } = &command.key;
    let mut envelope = CloudEvent::new(command.id.to_string(), "/highwater", &*command.name, &command.data)
        .with("container", container.as_str())
        .with("partitionkey", partition_key.as_str())
        .with("schemaversion", command.schema);
    envelope.subject = Some(id.to_string());
    Json::encode(&envelope).map_err(unwritable)
}

/// Reads the message that carries a command.
pub(crate) fn from_message(bytes: &[u8]) -> Result<RawCommand, String> {
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
    Ok(RawCommand { id, key, name: envelope.kind.clone(), schema, data: envelope.data() })
}
