use crate::{Body, EngineError, Epoch, Name, Partition, Position, ReadError, StoreId, Wake};
use async_trait::async_trait;
use std::{collections::BTreeMap, fmt};

/// The key of a document within its view: any text of at most 512 bytes.
pub type DocumentKey = String;

/// The highest version applied from each source item, by the item's address as text.
pub type Marks = BTreeMap<String, u64>;

/// One generation of a view.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewName {
    /// The view.
    pub name: Name,
    /// Its generation, from 1: a rebuild makes the next one.
    pub generation: u32,
}

impl fmt::Display for ViewName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (generation {})", self.name, self.generation)
    }
}

/// The row that says how far a view has come in one partition of one store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewSlot {
    /// The view.
    pub view: ViewName,
    /// The store it follows.
    pub store: StoreId,
    /// The partition of that store.
    pub partition: Partition,
}

/// The right to write a view's slot, until somebody else claims it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The owner's epoch: higher than every earlier one of this slot.
    pub owner_epoch: u64,
    /// The epoch of the store in which the position was given.
    pub store_epoch: Epoch,
    /// How far the view has come.
    pub position: Option<Position>,
}

/// A document of a view.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Document {
    /// Its key.
    pub key: DocumentKey,
    /// Counts its writes, from 1; goes on after a deletion.
    pub version: u64,
    /// What it says; `None` for a tombstone, which keeps the marks of a deleted document.
    pub body: Option<Body>,
    /// What was applied to it, per source item.
    pub marks: Marks,
}

impl Document {
    /// A document as a view store read it.
    pub fn new(key: DocumentKey, version: u64, body: Option<Body>, marks: Marks) -> Self {
        Self { key, version, body, marks }
    }
}

/// A conditional write of one document.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentWrite {
    /// Its key.
    pub key: DocumentKey,
    /// The version that was read; 0 for a document that was not there.
    pub expected: u64,
    /// The new body; `None` leaves a tombstone.
    pub body: Option<Body>,
    /// The new marks.
    pub marks: Marks,
}

/// Documents and progress, written in one transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewBatch {
    /// The slot that makes progress.
    pub slot: ViewSlot,
    /// The claim under which the batch was made: the batch is conditional on its owner epoch *and* its position.
    pub claim: Claim,
    /// The epoch of the store in which `position` was given.
    pub store_epoch: Epoch,
    /// How far the view has come once this is written.
    pub position: Position,
    /// The documents to write, each key once.
    pub documents: Vec<DocumentWrite>,
}

/// How far a view has come in every partition of one store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewReached {
    /// The epoch of the store in which the positions were given; that of the lowest slot.
    pub epoch: Epoch,
    /// The position in each partition that has one.
    pub positions: BTreeMap<Partition, Position>,
}

/// Why a batch was not written. Nothing of it was.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ViewWriteError {
    /// Somebody else has claimed the slot, or it has moved on.
    #[error("view {}, partition {}: another owner has taken over", .slot.view, .slot.partition)]
    Fenced {
        /// The slot.
        slot: Box<ViewSlot>,
    },
    /// A document was written by another partition since it was read: read it again and fold again.
    #[error("document {key} was changed meanwhile")]
    Conflict {
        /// The document.
        key: DocumentKey,
    },
    /// A document or its key is too large.
    #[error("{what} of document {key}: {size} is over the limit of {limit}")]
    TooLarge {
        /// The document's key, cut after 64 characters.
        key: String,
        /// What is too large.
        what: &'static str,
        /// How large it is, in bytes.
        size: usize,
        /// How large it may be.
        limit: usize,
    },
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Where the documents of views live. Its slots are the authority on who may write a view and how far it is.
#[doc(alias("projection", "read model"))]
#[async_trait]
pub trait ViewStore: Send + Sync + 'static {
    /// Takes a slot over: raises its owner epoch, durably, and then reads its position. Whoever held it before is
    /// refused from here on. `store_epoch` is recorded for a slot that is claimed for the first time.
    async fn claim(&self, slot: &ViewSlot, store_epoch: Epoch) -> Result<Claim, ViewWriteError>;

    /// Writes documents and progress together, if the claim still holds and every document is as expected;
    /// returns once that is durable.
    async fn write(&self, batch: ViewBatch) -> Result<(), ViewWriteError>;

    /// Reads documents, tombstones included, in the order of `keys`; `None` for one that was never written. All
    /// are read at one moment.
    async fn documents(
        &self,
        view: &ViewName,
        keys: &[DocumentKey],
    ) -> Result<Vec<Option<Document>>, ReadError>;

    /// Reads one document and, at the same moment or before it, how far the view has come: the document is at
    /// least as new as that.
    async fn document(
        &self,
        view: &ViewName,
        store: StoreId,
        key: &str,
    ) -> Result<(Option<Document>, Option<ViewReached>), ReadError>;

    /// Reads documents, without tombstones, in the order of their keys, after `after` if given, at most `max`.
    async fn list(
        &self,
        view: &ViewName,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<Document>, ReadError>;

    /// How far the view has come; `None` if no slot of it was ever claimed.
    async fn reached(&self, view: &ViewName, store: StoreId) -> Result<Option<ViewReached>, ReadError>;

    /// Hints that a view made progress. Hints may be lost; whoever waits also polls.
    fn wake(&self) -> Wake;
}
