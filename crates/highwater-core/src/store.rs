use crate::*;
use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

/// Names one store for ever, wherever it is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoreId(pub Uuid);

impl StoreId {
    /// A fresh id, for a store that is being created.
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What is fixed when a store is created, and its epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreInfo {
    /// The store's id.
    pub id: StoreId,
    /// How many partitions it has.
    pub partitions: u16,
    /// Which of its lives this is.
    pub epoch: Epoch,
}

impl StoreInfo {
    /// A store as its engine opened it.
    pub fn new(id: StoreId, partitions: u16, epoch: Epoch) -> Self {
        Self { id, partitions, epoch }
    }

    /// The partition of a key.
    pub fn partition_of(&self, key: &PartitionKey) -> Partition {
        Partition::of(key, self.partitions)
    }

    /// A token for one position of this store.
    pub fn token(&self, partition: Partition, position: Position) -> Token {
        let mut token = Token::default();
        token.raise(self.id, self.epoch, partition, position);
        token
    }
}

/// The durable home of containers: conditional commits, and the feed of all of them.
#[doc(alias("event store", "event stream", "outbox", "inbox"))]
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// What is fixed when the store is created, and its epoch.
    fn info(&self) -> StoreInfo;

    /// Which earlier lives the store goes on from, and up to where: what tells whether a position that was given in
    /// one of them still means the same.
    fn lineage(&self) -> Lineage;

    /// What the store accepts: `writes_per_batch`, `change_bytes`, `batch_bytes`, `events_per_change`,
    /// `longest_life` and `horizon`. The other fields say nothing here; [`Queue`], [`Cells`] and [`ViewStore`] have
    /// limits of their own.
    fn limits(&self) -> &Limits;

    /// Writes a batch: all of it, durably, or nothing. Its changes get consecutive positions at the end of the
    /// partition of its key; nobody who has read past them can have missed them.
    ///
    /// An item whose time to live has passed counts as absent from that moment on, for reads and conditions alike,
    /// and has the ETag of its expiry. The expiry itself is written a while later as a change of its own, or right
    /// before the batch, in one with it, when that writes the item. It takes a version like any change.
    ///
    /// A command decides once. If the batch carries a command whose id was already decided under this partition
    /// key, nothing is written and no condition is looked at: with the same fingerprint the first result comes
    /// back as [`Committed::replayed`], with another one [`CommitError::CommandIdReused`].
    ///
    /// If the future is dropped before it is ready, nobody knows whether the batch is written, now or a little
    /// later: the same as [`FailureKind::Unavailable`]. A batch with a command may be committed again and is still
    /// written once; whoever commits one without a command reads its items first.
    async fn commit(&self, batch: Batch) -> Result<Committed, CommitError>;

    /// Reads one item; `None` if it was never written.
    async fn item(&self, key: &ItemKey) -> Result<Option<Item>, ReadError>;

    /// Reads the changes of one item that carry a body, events, another time to live or a deletion, newest first, at
    /// most `max`, below the version `before` if one is given. Rejections are not among them.
    async fn history(
        &self,
        key: &ItemKey,
        before: Option<Version>,
        max: usize,
    ) -> Result<Vec<Change>, ReadError>;

    /// Reads how a command was decided; `None` while it is not.
    async fn decided(&self, key: &PartitionKey, command: CommandId) -> Result<Option<Decided>, ReadError>;

    /// Reads a page of one partition's log. A change below a position once returned as
    /// [`ChangePage::scanned`] never appears later.
    async fn changes(&self, request: &ChangeRequest) -> Result<ChangePage, FeedError>;

    /// The last position whose change was committed before `at`; `None` if there is none.
    async fn position_before(
        &self,
        partition: Partition,
        at: Timestamp,
    ) -> Result<Option<Position>, FeedError>;

    /// The end of every partition that has changes.
    async fn head(&self) -> Result<Token, ReadError>;

    /// Hints that something was committed. Hints may be lost; whoever waits also polls.
    fn wake(&self) -> Wake;
}
