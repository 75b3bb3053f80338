use crate::{
    Body, Diverged, EngineError, Epoch, Limits, Lineage, Name, Partition, Position, Reached, ReadError,
    StoreId, Wake,
};
use async_trait::async_trait;
use std::{borrow::Cow, collections::BTreeMap, fmt};

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
#[non_exhaustive]
pub struct Claim {
    /// The owner's epoch: higher than every earlier one of this slot.
    pub owner_epoch: u64,
    /// The epoch of the store in which the position was given.
    pub store_epoch: Epoch,
    /// How far the view has come.
    pub position: Option<Position>,
}

impl Claim {
    /// A claim as a view store granted it.
    pub fn new(owner_epoch: u64, store_epoch: Epoch, position: Option<Position>) -> Self {
        Self { owner_epoch, store_epoch, position }
    }

    /// The same right once the view has come to this position.
    pub fn at(self, position: Position) -> Self {
        Self { position: Some(position), ..self }
    }
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
#[non_exhaustive]
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

impl DocumentWrite {
    /// A write of the document that was read at the version `expected`; without a body it leaves a tombstone.
    pub fn new(key: impl Into<DocumentKey>, expected: u64, body: Option<Body>, marks: Marks) -> Self {
        Self { key: key.into(), expected, body, marks }
    }
}

/// Documents and progress, written in one transaction.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ViewBatch {
    /// The slot that makes progress.
    pub slot: ViewSlot,
    /// The claim under which the batch was made: the batch is conditional on its owner epoch *and* its position.
    pub claim: Claim,
    /// How far the view has come once this is written, in the epoch of the claim.
    pub position: Position,
    /// The documents to write, each key once.
    pub documents: Vec<DocumentWrite>,
}

impl ViewBatch {
    /// Progress up to `position`, with the documents that it changed.
    pub fn new(slot: ViewSlot, claim: Claim, position: Position, documents: Vec<DocumentWrite>) -> Self {
        Self { slot, claim, position, documents }
    }

    /// Checks the batch against the limits; every view store does so before anything else.
    ///
    /// # Errors
    /// [`ViewWriteError::TooLarge`].
    pub fn check(&self, limits: &Limits) -> Result<(), ViewWriteError> {
        let fits = |size, limit, what: &dyn Fn() -> Cow<'static, str>| {
            if size > limit { Err(ViewWriteError::TooLarge { what: what(), size, limit }) } else { Ok(()) }
        };
        fits(self.documents.len(), limits.documents_per_batch, &|| "documents of a batch".into())?;
        for DocumentWrite { key, body, .. } in &self.documents {
            let start = || key.chars().take(64).collect::<String>();
            let what = || format!("bytes of the key of document {}", start()).into();
            fits(key.len(), limits.key_bytes, &what)?;
            let size = body.as_ref().map_or(0, |body| body.json.as_bytes().len());
            fits(size, limits.document_bytes, &|| format!("bytes of document {}", start()).into())?;
        }
        Ok(())
    }
}

/// How far a view has come in every partition of one store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewReached {
    /// The epoch of the store in which the positions were given; that of the lowest slot.
    pub epoch: Epoch,
    /// The position in each partition that has one.
    pub positions: BTreeMap<Partition, Position>,
    /// Present while a view that was cleared has not come as far again as it must.
    pub healing: Option<Healing>,
}

/// A view that was cleared and is being built again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Healing {
    /// Why it was cleared.
    pub reason: String,
    /// Where it has yet to come to, in each partition that is not there yet.
    pub until: BTreeMap<Partition, Position>,
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
    /// Another store feeds this generation of the view: its positions mean nothing in the store that asks.
    #[error(
        "view {view} was built from store {found}, not from {asked}: raise GENERATION or delete the views file"
    )]
    OtherStore {
        /// The view.
        view: ViewName,
        /// The store it was built from.
        found: StoreId,
        /// The store that asked for a slot.
        asked: StoreId,
    },
    /// The view lies beyond what the store shares with the life in which the view was built.
    #[error("view {view}: {diverged}")]
    Diverged {
        /// The view.
        view: ViewName,
        /// The first slot beyond.
        diverged: Diverged,
    },
    /// A document or its key is too large, or the batch has too many documents.
    #[error("{what}: {size} is over the limit of {limit}")]
    TooLarge {
        /// What is too large: of a document, with the start of its key.
        what: Cow<'static, str>,
        /// How large it is, in bytes or documents.
        size: usize,
        /// How large it may be.
        limit: usize,
    },
    /// The engine failed.
    #[error("{0}")]
    Engine(#[from] EngineError),
}

/// Where the documents of views live. Its slots are the authority on who may write a view and how far it is.
#[doc(alias("projection", "read model"))]
#[async_trait]
pub trait ViewStore: Send + Sync + 'static {
    /// What the view store accepts: `document_bytes`, `documents_per_batch` and `key_bytes`. The other fields say
    /// nothing here.
    fn limits(&self) -> &Limits;

    /// Takes a slot over: raises its owner epoch, durably, and then reads its position. Whoever held it before is
    /// refused from here on. `store_epoch` is recorded for a slot that is claimed for the first time.
    ///
    /// A generation of a view belongs to the store that first claimed a slot of it; for any other it is
    /// [`ViewWriteError::OtherStore`]: its documents carry marks of items of that store, and items of two stores can
    /// have the same address. A view over several stores has to declare them, which nothing here can do yet.
    async fn claim(&self, slot: &ViewSlot, store_epoch: Epoch) -> Result<Claim, ViewWriteError>;

    /// Carries a whole generation over into the life that its store is in: if no slot lies beyond what the lives share,
    /// all slots are of [`Lineage::epoch`] from here on and keep their positions; else nothing changes and the error is
    /// [`ViewWriteError::Diverged`]. Claims of the earlier life are refused afterwards.
    async fn adopt(&self, slot: &ViewSlot, claim: Claim, lineage: &Lineage) -> Result<Claim, ViewWriteError>;

    /// Empties a whole generation, if the claim still holds: every document and tombstone goes, every slot is in the life
    /// `until.epoch` and before the first position. All other claims of the generation are refused afterwards. Until
    /// it has come to `until` again, [`ViewReached::healing`] says so, with the reason.
    async fn clear(
        &self,
        slot: &ViewSlot,
        claim: Claim,
        until: &Reached,
        reason: &str,
    ) -> Result<Claim, ViewWriteError>;

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
