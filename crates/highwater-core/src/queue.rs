use crate::{
    Attempt, AttemptKind, Cell, CellKey, EngineError, Json, Limits, Name, Parked, Parking, Timestamp, Wake,
};
use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, fmt, sync::Arc, time::Duration};
use uuid::Uuid;

/// The id of a message, unique within its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageId(pub Uuid);

impl MessageId {
    /// A fresh id (UUID version 7).
    pub fn random() -> Self {
        Self(Uuid::now_v7())
    }
}

/// A command travels in a message of its own id.
impl From<crate::CommandId> for MessageId {
    fn from(command: crate::CommandId) -> Self {
        Self(command.0)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Proves ownership of one delivery of one message. Dead as soon as the message is taken or updated again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Receipt {
    /// The queue.
    pub queue: Name,
    /// The message.
    pub message: MessageId,
    /// What the engine gave out for this delivery, in its own words: a number, a pop receipt. Only the engine looks
    /// inside.
    pub proof: Arc<str>,
}

impl Receipt {
    /// A receipt as an engine gave it out.
    pub fn new(queue: Name, message: MessageId, proof: impl Into<Arc<str>>) -> Self {
        Self { queue, message, proof: proof.into() }
    }
}

/// A message to put.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct NewMessage {
    /// Its id. A second put of the same id, as long as it is remembered ([`Limits::horizon`]), is the same message.
    pub id: MessageId,
    /// What it says; any bytes.
    pub body: Bytes,
    /// For how long it stays invisible at first, 0 s to 7 days.
    pub delay: Duration,
    /// After how long it disappears; at least 1 s; `None` for never. A message that was taken once stays: somebody
    /// may be working on it.
    pub time_to_live: Option<Duration>,
    /// A cell to write first, if there is none under its key. Engines with transactions write both in one; the others
    /// write the cell, then put the message. If the cell is there already, no message is put. The cell comes first
    /// even when the id of the message is remembered, and it is forgotten with that id.
    pub cell: Option<(CellKey, Json)>,
    /// Refuses the message as [`PutError::Full`] if so many lie in the queue already, visible or not, parked ones not
    /// counted; neither message nor cell is written then. An id that is remembered is never refused: it adds
    /// nothing. `None` for no limit.
    pub depth_limit: Option<u64>,
}

impl NewMessage {
    /// A message with a fresh id, visible at once, for ever.
    pub fn new(body: impl Into<Bytes>) -> Self {
        let (id, body) = (MessageId::random(), body.into());
        Self { id, body, delay: Duration::ZERO, time_to_live: None, cell: None, depth_limit: None }
    }

    /// Sets the id.
    pub fn id(mut self, id: MessageId) -> Self {
        self.id = id;
        self
    }

    /// Keeps it invisible at first.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Lets it disappear after this time unless it was taken.
    pub fn time_to_live(mut self, span: Duration) -> Self {
        self.time_to_live = Some(span);
        self
    }

    /// Writes a cell first, if there is none under its key.
    pub fn cell(mut self, key: CellKey, value: Json) -> Self {
        self.cell = Some((key, value));
        self
    }

    /// Refuses it if so many messages lie in the queue already.
    pub fn depth_limit(mut self, limit: u64) -> Self {
        self.depth_limit = Some(limit);
        self
    }
}

/// What a put returns once it is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Put {
    /// Can delete or re-time the message before anyone took it. `None` if the id was put before.
    pub receipt: Option<Receipt>,
    /// When the message becomes visible; for an id that was put before, when that message does or did, as far as
    /// the engine still knows.
    pub visible_at: Timestamp,
}

impl Put {
    /// The result of a put as an engine made it.
    pub fn new(receipt: Option<Receipt>, visible_at: Timestamp) -> Self {
        Self { receipt, visible_at }
    }
}

/// A message as it lies in its queue.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// What it says.
    pub body: Bytes,
    /// When it was first put.
    pub put_at: Timestamp,
    /// When it becomes visible, or became so.
    pub visible_at: Timestamp,
    /// How often it was taken.
    pub dequeue_count: u32,
    /// What happened to it so far, oldest first; bounded, the oldest entries go first.
    pub history: Vec<Attempt>,
}

impl Message {
    /// How many entries of its history a message keeps.
    pub const HISTORY: usize = 32;

    /// A message that was just put.
    pub fn new(id: MessageId, body: Bytes, put_at: Timestamp, visible_at: Timestamp) -> Self {
        Self { id, body, put_at, visible_at, dequeue_count: 0, history: Vec::new() }
    }

    /// Adds to the history, dropping the oldest entry when it is full.
    pub fn note(&mut self, at: Timestamp, kind: AttemptKind, note: impl Into<String>) {
        if self.history.len() >= Self::HISTORY {
            self.history.remove(0);
        }
        self.history.push(Attempt::new(at, self.dequeue_count, kind, note));
    }
}

/// A message taken from a queue, with the proof that it was taken.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Delivery {
    /// The message; its dequeue count includes this delivery.
    pub message: Message,
    /// Needed to update, delete or park it.
    pub receipt: Receipt,
}

impl Delivery {
    /// A message as an engine handed it out.
    pub fn new(message: Message, receipt: Receipt) -> Self {
        Self { message, receipt }
    }
}

/// A change to a taken message.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Update {
    /// It becomes visible again after this time, 0 s to 7 days.
    pub visible_in: Duration,
    /// Its new body, if it gets one.
    pub body: Option<Bytes>,
    /// What to add to its history.
    pub note: Option<(AttemptKind, String)>,
}

impl Update {
    /// Makes the message visible again after this time.
    pub fn visible_in(span: Duration) -> Self {
        Self { visible_in: span, body: None, note: None }
    }

    /// Replaces the body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Adds to the history; a note is cut to [`Attempt::NOTE`] bytes.
    pub fn note(mut self, kind: AttemptKind, note: impl Into<String>) -> Self {
        self.note = Some((kind, note.into()));
        self
    }
}

/// How much lies in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Depth {
    /// Can be taken at once.
    pub visible: u64,
    /// Taken at least once and invisible until their time-out or the end of a pause.
    pub in_flight: u64,
    /// Not taken yet and invisible until their time comes.
    pub delayed: u64,
    /// In the poison queue.
    pub parked: u64,
    /// Since when the longest waiting visible message has been visible.
    pub oldest_visible: Option<Timestamp>,
}

/// Why a message was not put.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PutError {
    /// The body is too large.
    #[error("{what}: {size} is over the limit of {limit}")]
    TooLarge {
        /// What is too large.
        what: Cow<'static, str>,
        /// How large it is, in bytes.
        size: usize,
        /// How large it may be.
        limit: usize,
    },
    /// A time is out of its range.
    #[error("{what} must be {range}")]
    OutOfRange {
        /// Which time.
        what: Cow<'static, str>,
        /// What is allowed.
        range: Cow<'static, str>,
    },
    /// There is a cell where the message's own was to be written; no message was put.
    #[error("cell {} is already there", .found.key)]
    CellConflict {
        /// The cell that is there.
        found: Box<Cell>,
    },
    /// So many messages lie in the queue that this one may not be added; takings and deletions go on.
    #[error("queue {queue} is full: its limit is {limit} messages; try again when some are done")]
    Full {
        /// The queue.
        queue: Name,
        /// The limit.
        limit: u64,
    },
    /// The engine failed.
    #[error("{0}")]
    Engine(#[from] EngineError),
}

/// Why no messages could be taken or looked at.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum GetError {
    /// A number or time is out of its range.
    #[error("{what} must be {range}")]
    OutOfRange {
        /// Which number or time.
        what: Cow<'static, str>,
        /// What is allowed.
        range: Cow<'static, str>,
    },
    /// The engine failed.
    #[error("{0}")]
    Engine(#[from] EngineError),
}

/// Why an operation with a receipt was refused. [`ReceiptError::ReceiptMismatch`] and
/// [`ReceiptError::MessageNotFound`] both mean that ownership was lost.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiptError {
    /// The message was taken or updated since.
    #[error("message {message} is no longer yours: it was taken or updated since")]
    ReceiptMismatch {
        /// The message.
        message: MessageId,
    },
    /// The message is gone.
    #[error("message {message} is gone: it was deleted, parked or it expired")]
    MessageNotFound {
        /// The message.
        message: MessageId,
    },
    /// The new body is too large.
    #[error("{what}: {size} is over the limit of {limit}")]
    TooLarge {
        /// What is too large.
        what: Cow<'static, str>,
        /// How large it is, in bytes.
        size: usize,
        /// How large it may be.
        limit: usize,
    },
    /// A time is out of its range.
    #[error("{what} must be {range}")]
    OutOfRange {
        /// Which time.
        what: Cow<'static, str>,
        /// What is allowed.
        range: Cow<'static, str>,
    },
    /// The engine failed.
    #[error("{0}")]
    Engine(#[from] EngineError),
}

/// Why a parked message was not replayed or discarded.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// It is not in the poison queue, or no longer.
    #[error("message {message} is not in the poison queue of {queue}")]
    NotParked {
        /// The queue.
        queue: Name,
        /// The message.
        message: MessageId,
    },
    /// The engine failed.
    #[error("{0}")]
    Engine(#[from] EngineError),
}

/// Work lists with at-least-once delivery. A queue exists, with its poison queue, as soon as it is named.
///
/// The rules are those of Azure Queue Storage except where a method says otherwise. All times are the store's.
#[doc(alias("broker", "bus"))]
#[async_trait]
pub trait Queue: Send + Sync + 'static {
    /// What the queue accepts: `message_bytes`, `messages_per_get` and `longest_delay`, and for a cell that comes
    /// with a message `cell_bytes` and `key_bytes`. The other fields say nothing here.
    fn limits(&self) -> &Limits;

    /// Puts a message and returns once that is durable. A put of an id that is remembered changes nothing, even
    /// if the message was deleted meanwhile.
    async fn put(&self, queue: &Name, message: NewMessage) -> Result<Put, PutError>;

    /// Takes up to `max` (1 to 32) visible messages, in the order of the time they became visible, and makes them
    /// invisible for `visibility` (1 s to 7 days). Each gets a new receipt and a dequeue count one higher, durable
    /// before this returns.
    async fn get(&self, queue: &Name, max: usize, visibility: Duration) -> Result<Vec<Delivery>, GetError>;

    /// Looks at up to `max` (1 to 32) visible messages without taking them.
    async fn peek(&self, queue: &Name, max: usize) -> Result<Vec<Message>, GetError>;

    /// Sets when a message becomes visible again, and its body if one is given. The returned receipt replaces the
    /// one used, which is dead at once. A receipt whose time-out has lapsed is good until somebody else took the
    /// message.
    async fn update(&self, receipt: &Receipt, update: Update) -> Result<Receipt, ReceiptError>;

    /// Removes a message that was dealt with.
    async fn delete(&self, receipt: &Receipt) -> Result<(), ReceiptError>;

    /// Moves a message to the poison queue, where it never expires. If the move fails the message stays where it
    /// was. The texts of the parking are cut to [`Parking::TEXT`] bytes each.
    async fn park(&self, receipt: &Receipt, parking: Parking) -> Result<(), ReceiptError>;

    /// Reads one message that lies in the queue, visible or not, without taking it. `None` if it was deleted, parked or
    /// cleared, if it expired, or if it was never put.
    async fn message(&self, queue: &Name, message: MessageId) -> Result<Option<Message>, GetError>;

    /// Reads the poison queue in the order of message ids, after `after` if given, at most `max`.
    async fn parked(
        &self,
        queue: &Name,
        after: Option<MessageId>,
        max: usize,
    ) -> Result<Vec<Parked>, GetError>;

    /// Reads one message of the poison queue.
    async fn parked_message(&self, queue: &Name, message: MessageId) -> Result<Option<Parked>, GetError>;

    /// Puts a parked message back as [`Parked::replayed`] says: same id, visible at once, dequeue count 0. Its
    /// history is kept and gets an entry of the kind [`AttemptKind::Replayed`] that says why, when and by whom it
    /// was parked, and with which error.
    async fn replay(&self, queue: &Name, message: MessageId) -> Result<(), ReplayError>;

    /// Removes a parked message for good and forgets its id, so that it may be put again.
    async fn discard(&self, queue: &Name, message: MessageId) -> Result<(), ReplayError>;

    /// Removes every message of the queue, visible or not, and returns how many. The poison queue is left alone.
    async fn clear(&self, queue: &Name) -> Result<u64, GetError>;

    /// Counts what lies in the queue.
    async fn depth(&self, queue: &Name) -> Result<Depth, GetError>;

    /// Hints that a message may have become visible. Hints may be lost; whoever waits also polls.
    fn wake(&self) -> Wake;
}
