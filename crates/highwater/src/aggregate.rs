use crate::schema::Old;
use crate::tagged::Tagged;
use highwater_core::{
    CommandId, InvalidJson, InvalidKey, InvalidName, ItemId, ItemKey, Json, Name, Op, Timestamp, Write,
};
use serde::{Serialize, de::DeserializeOwned};

/// How an aggregate is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Storage {
    /// Every commit puts the whole state. Loading reads one body.
    State,
    /// Commits carry events only, and the state as a snapshot whenever `snapshot_every` commits have gone by
    /// since the last one. Loading reads the snapshot and applies the events after it.
    Events {
        /// How many commits lie between snapshots, at least 1. Raise it for large states, lower it for long
        /// histories.
        snapshot_every: u32,
    },
}

/// The state that decides. Commands come in, events (or a rejection) come out; applying the events makes the next
/// state. Both steps are pure: all time and settings come from the [`Context`].
///
/// ```
/// use highwater::{Aggregate, Context, Decision};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// enum AccountCommand { Withdraw { cents: u64 }, Deposit { cents: u64 } }
///
/// #[derive(Serialize, Deserialize)]
/// enum AccountEvent { Withdrawn { cents: u64 }, Deposited { cents: u64 } }
///
/// #[derive(Default, Serialize, Deserialize)]
/// struct Account { cents: u64 }
///
/// impl Aggregate for Account {
///     const CONTAINER: &'static str = "accounts";
///     type Command = AccountCommand;
///     type Event = AccountEvent;
///     type Settings = ();
///
///     fn decide(&self, command: AccountCommand, _: &Context<Self>) -> Decision<Self> {
///         match command {
///             AccountCommand::Withdraw { cents } if cents > self.cents => Decision::reject("not enough money"),
///             AccountCommand::Withdraw { cents } => Decision::accept([AccountEvent::Withdrawn { cents }]),
///             AccountCommand::Deposit { cents } => Decision::accept([AccountEvent::Deposited { cents }]),
///         }
///     }
///
///     fn apply(&mut self, event: &AccountEvent) {
///         match event {
///             AccountEvent::Withdrawn { cents } => self.cents -= cents,
///             AccountEvent::Deposited { cents } => self.cents += cents,
///         }
///     }
/// }
/// ```
#[doc(alias("decider", "entity", "write model"))]
pub trait Aggregate: Default + Serialize + DeserializeOwned + Send + Sync + Sized + 'static {
    /// The container that holds these aggregates: 1 to 48 characters of a-z, 0-9 and `-`.
    const CONTAINER: &'static str;

    /// How the state is kept. Can be changed between releases: both kinds can read what the other wrote.
    const STORAGE: Storage = Storage::State;

    /// The schema version of the state, the commands and the events that this program writes. Raise it with every
    /// change that an older program could not read, adding a variant included, and extend
    /// [`upcast`](Self::upcast).
    const SCHEMA: u32 = 1;

    /// What can be asked of it.
    type Command: Tagged;
    /// What can happen to it.
    type Event: Tagged;
    /// What deciding needs to know besides the state; `()` if nothing.
    type Settings: Send + Sync + 'static;

    /// Decides one command on the present state.
    fn decide(&self, command: Self::Command, context: &Context<'_, Self>) -> Decision<Self>;

    /// Makes the next state. Must accept every event that was ever committed.
    fn apply(&mut self, event: &Self::Event);

    /// Computes derived fields; called whenever a state is about to be put.
    fn derive(&mut self) {}

    /// Takes something that an older program wrote one schema version further, in place.
    ///
    /// # Errors
    /// A sentence saying why it cannot be done. What cannot be read is parked or retried, never dropped.
    fn upcast(old: &mut Old) -> Result<(), String> {
        Err(format!("{}::upcast is not implemented for {:?}", std::any::type_name::<Self>(), old.kind))
    }
}

/// What a decision may know besides the state and the command.
#[derive(Debug)]
#[non_exhaustive]
pub struct Context<'a, A: Aggregate> {
    /// The time of the decision, from the engine's clock.
    pub now: Timestamp,
    /// The command's id.
    pub command: CommandId,
    /// The address of the aggregate.
    pub key: &'a ItemKey,
    /// What was given when the aggregate was registered.
    pub settings: &'a A::Settings,
}

impl<'a, A: Aggregate> Context<'a, A> {
    /// A context of your own making, for tests of `decide`.
    pub fn new(now: Timestamp, command: CommandId, key: &'a ItemKey, settings: &'a A::Settings) -> Self {
        Self { now, command, key, settings }
    }
}

/// The answer to a command.
pub struct Decision<A: Aggregate> {
    pub(crate) rejected: Option<String>,
    pub(crate) events: Vec<A::Event>,
    pub(crate) items: Vec<Result<Write, ItemWriteError>>,
}

/// Why an item that a decision wants to write cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ItemWriteError {
    #[error(transparent)]
    Name(#[from] InvalidName),
    #[error(transparent)]
    Key(#[from] InvalidKey),
    #[error(transparent)]
    Json(#[from] InvalidJson),
}

impl<A: Aggregate> Decision<A> {
    /// Carries the command out. No events at all is fine: the command is done and nothing changed.
    pub fn accept(events: impl IntoIterator<Item = A::Event>) -> Self {
        Self { rejected: None, events: events.into_iter().collect(), items: Vec::new() }
    }

    /// Refuses the command. The reason reaches its sender; the refusal is final, also when the command is
    /// delivered again later.
    pub fn reject(reason: impl Into<String>) -> Self {
        Self { rejected: Some(reason.into()), events: Vec::new(), items: Vec::new() }
    }

    /// Adds events. A rejection may record events too, for those who must be told: they are committed with the
    /// verdict, applied to the state and seen by whoever follows the aggregate, like those of any decision.
    pub fn with_events(mut self, events: impl IntoIterator<Item = A::Event>) -> Self {
        self.events.extend(events);
        self
    }

    /// Puts another item of the same partition key in the same commit; a rejection leaves other items alone.
    pub fn put_item(self, container: &str, id: &str, body: &impl Serialize) -> Self {
        self.item(container, id, || Ok(Op::Put(highwater_core::Body::new(Json::encode(body)?))))
    }

    /// Deletes another item of the same partition key in the same commit; a rejection leaves other items alone.
    pub fn delete_item(self, container: &str, id: &str) -> Self {
        self.item(container, id, || Ok(Op::Delete))
    }

    fn item(mut self, container: &str, id: &str, op: impl FnOnce() -> Result<Op, ItemWriteError>) -> Self {
        if self.rejected.is_none() {
            let write = || Ok(Write::new(Name::new(container)?, ItemId::new(id)?, op()?));
            self.items.push(write());
        }
        self
    }

    /// The events, if the command was accepted; the reason, if it was rejected.
    pub fn verdict(&self) -> Result<&[A::Event], &str> {
        self.rejected.as_deref().map_or(Ok(&*self.events), Err)
    }

    /// The events, whatever the verdict.
    pub fn events(&self) -> &[A::Event] {
        &self.events
    }
}

impl<A: Aggregate> std::fmt::Debug for Decision<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let events = self.events.len();
        match &self.rejected {
            None => write!(f, "accepted with {events} events"),
            Some(reason) if events == 0 => write!(f, "rejected: {reason}"),
            Some(reason) => write!(f, "rejected with {events} events: {reason}"),
        }
    }
}
