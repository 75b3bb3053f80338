use crate::{CommandId, ETag, Expect, ItemKey, Position};
use std::{borrow::Cow, error::Error, fmt, sync::Arc};

/// What kind of failure an engine met; decides what a caller may do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// Somebody else holds what is needed; try again soon.
    Busy,
    /// The engine cannot be reached, or the outcome of the operation is not known; try again.
    Unavailable,
    /// Out of disk space or over a quota; nothing was written.
    OutOfSpace,
    /// What was read is not what was written.
    Corrupt,
    /// The store was closed, or is not the one it was.
    Closed,
    /// Anything else: a defect of the engine or of its set-up.
    Other,
}

impl FailureKind {
    /// True when going on makes no sense: the role that met it stops, acknowledging nothing.
    pub fn is_fatal(self) -> bool {
        matches!(self, Self::OutOfSpace | Self::Corrupt | Self::Closed)
    }
}

/// A failure of the engine itself, as opposed to a condition of the caller's that did not hold.
#[derive(Clone)]
pub struct EngineError {
    kind: FailureKind,
    message: Arc<str>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl EngineError {
    /// A failure with a message that names the thing and the way out.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into().into(), source: None }
    }

    /// Adds what caused it.
    pub fn caused_by(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.message)?;
        self.source.as_ref().map_or(Ok(()), |source| write!(f, ": {source}"))
    }
}

impl Error for EngineError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn Error + 'static))
    }
}

/// What a failed condition found instead of what it expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// No item, and none was ever written.
    Nothing,
    /// No item, but one was written before; this is the ETag of its last change.
    Gone(ETag),
    /// An item in this state.
    Item(ETag),
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Gone(etag) => write!(f, "nothing (last change {etag})"),
            Self::Item(etag) => write!(f, "{etag}"),
        }
    }
}

impl Found {
    /// Whether `expect` holds for what was found: the one rule that every engine's items and cells follow.
    pub fn fits(self, expect: Expect) -> bool {
        match (expect, self) {
            (Expect::Any, _) | (Expect::Exists, Self::Item(_)) => true,
            (Expect::Absent, Self::Nothing | Self::Gone(_)) => true,
            (Expect::ETag(wanted), Self::Item(etag) | Self::Gone(etag)) => wanted == etag,
            (Expect::Absent | Expect::Exists | Expect::ETag(_), _) => false,
        }
    }
}

/// Why a commit was refused. Nothing of the batch was written, except under [`CommitError::Engine`] with
/// [`FailureKind::Unavailable`], where the outcome is not known: a batch with a command may simply be committed
/// again.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// A condition did not hold. The other writes of the batch were not attempted.
    #[error("conflict on {key}: expected {expected:?}, found {found}; read the item again and decide again")]
    Conflict {
        /// The item whose condition failed.
        key: ItemKey,
        /// The condition.
        expected: Expect,
        /// What was there.
        found: Found,
    },
    /// [`Expect::Exists`] on an item that does not.
    #[error("{key} does not exist")]
    NotFound {
        /// The missing item.
        key: ItemKey,
    },
    /// The command id was used before, for a command with other content.
    #[error("command id {id} was used before with other content; give the new command an id of its own")]
    CommandIdReused {
        /// The id.
        id: CommandId,
    },
    /// A limit of the store is exceeded.
    #[error("{what}: {size} is over the limit of {limit}")]
    TooLarge {
        /// What is too large.
        what: Cow<'static, str>,
        /// How large it is.
        size: usize,
        /// How large it may be.
        limit: usize,
    },
    /// A time to live is out of its range.
    #[error("{what} must be {range}")]
    OutOfRange {
        /// Which time.
        what: Cow<'static, str>,
        /// What is allowed.
        range: Cow<'static, str>,
    },
    /// The batch has no write.
    #[error("the batch has no write")]
    Empty,
    /// The batch writes the same item twice.
    #[error("the batch writes {key} twice; a batch writes each item once")]
    ItemTwice {
        /// The item.
        key: ItemKey,
    },
    /// The engine failed.
    #[error("{0}")]
    Engine(#[from] EngineError),
}

/// Why a read failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The engine failed.
    #[error("{0}")]
    Engine(#[from] EngineError),
}

/// Why a page of the change feed could not be read.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FeedError {
    /// The place to go on from is before what the log still holds.
    #[error(
        "the log was pruned: the first change it holds stands at {first}; start again from the beginning or from an archive"
    )]
    Gone {
        /// The first position still there.
        first: Position,
    },
    /// The place to go on from lies beyond the end of the log: it belongs to another life of the store.
    #[error(
        "position {after} is beyond the end of the log ({head}); it comes from another epoch of the store"
    )]
    Diverged {
        /// The place asked for.
        after: Position,
        /// The end of the log, 0 if it is empty.
        head: u64,
    },
    /// The store has no such partition.
    #[error("partition {asked} does not exist; the store has {partitions}, numbered from 0")]
    NoPartition {
        /// The partition asked for.
        asked: u16,
        /// How many there are.
        partitions: u16,
    },
    /// The engine failed.
    #[error("{0}")]
    Engine(#[from] EngineError),
}
