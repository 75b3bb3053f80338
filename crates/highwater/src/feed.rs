use crate::engine::Engine;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use highwater_core::{
    Change, ChangeRequest, Diverged, EngineError, Epoch, FailureKind, FeedError, FeedMode, InvalidName, Name,
    Partition, Position, ReadError, Store, StoreId, Timestamp,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Where reading begins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Start {
    /// At the first change that the log holds.
    #[default]
    Beginning,
    /// After the last change that is there when the reading begins.
    Now,
    /// At the first change committed at this time or later.
    At(Timestamp),
}

impl Start {
    /// The position after which to read in one partition.
    pub(crate) async fn position(
        &self,
        store: &dyn Store,
        partition: Partition,
    ) -> Result<Option<Position>, FeedError> {
        match self {
            Self::Beginning => Ok(None),
            Self::At(at) => store.position_before(partition, *at).await,
            Self::Now => {
                let head = store.head().await.map_err(|error| match error {
                    ReadError::Engine(error) => FeedError::Engine(error),
                    other => EngineError::new(FailureKind::Other, other.to_string()).into(),
                })?;
                Ok(head.of(store.info().id).and_then(|reached| reached.positions.get(&partition).copied()))
            }
        }
    }
}

/// A place in one feed from which reading can go on: as text it can be kept anywhere.
///
/// It knows the store, the containers and the mode it belongs to and is refused elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    format: u8,
    store: StoreId,
    epoch: Epoch,
    containers: Vec<String>,
    /// Of a feed in the latest mode.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    latest: bool,
    positions: BTreeMap<Partition, Position>,
    /// The partition that the next page begins with, so that a busy one does not keep the others waiting.
    next: Partition,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = serde_json::to_vec(self).map_err(|_| fmt::Error)?;
        f.write_str(&URL_SAFE_NO_PAD.encode(json))
    }
}

/// The longest cursor that is looked at, in bytes.
const MAX_CURSOR: usize = 64 * 1024;

impl FromStr for Cursor {
    type Err = InvalidCursor;
    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        if text.len() > MAX_CURSOR {
            return Err(InvalidCursor);
        }
        let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| InvalidCursor)?;
        let cursor: Self = serde_json::from_slice(&json).map_err(|_| InvalidCursor)?;
        if cursor.format == 1 { Ok(cursor) } else { Err(InvalidCursor) }
    }
}

/// A text that is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor: send back exactly what the last page returned")]
pub struct InvalidCursor;

/// Why a page was not read.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PullError {
    /// A container's name is not a name.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The page size is zero.
    #[error("a page needs room for at least 1 change")]
    EmptyPage,
    /// The cursor belongs to another feed.
    #[error("the cursor belongs to another feed: it is of {found}, this feed reads {expected}")]
    OtherFeed {
        /// What the cursor is of.
        found: String,
        /// What this feed reads.
        expected: String,
    },
    /// The cursor stands beyond what the store shares with the life in which it was given: begin again.
    #[error("the cursor has diverged: {0}")]
    Diverged(#[from] Diverged),
    /// The feed failed.
    #[error(transparent)]
    Feed(#[from] FeedError),
}

/// The changes of some containers, read by pulling pages.
#[derive(Debug)]
pub struct Feed<'a> {
    engine: &'a Engine,
    containers: Vec<Name>,
    start: Start,
    mode: FeedMode,
    previous: bool,
    cursor: Option<Cursor>,
}

/// A page of a feed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FeedPage {
    /// The changes; in order within each partition, whole commits.
    pub changes: Vec<Change>,
    /// Where to go on: also after an empty page.
    pub cursor: Cursor,
    /// True when nothing more was there at the moment of reading.
    pub at_end: bool,
}

impl<'a> Feed<'a> {
    pub(crate) fn new(engine: &'a Engine, containers: &[&str]) -> Result<Self, PullError> {
        let mut containers = containers.iter().map(Name::new).collect::<Result<Vec<_>, _>>()?;
        containers.sort_unstable();
        containers.dedup();
        let (start, mode) = (Start::Beginning, FeedMode::AllVersions);
        Ok(Self { engine, containers, start, mode, previous: false, cursor: None })
    }

    /// Begins here instead of at the beginning.
    pub fn from(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// Sets which changes to show; every version by default. Set it before [`resume`](Self::resume).
    pub fn mode(mut self, mode: FeedMode) -> Self {
        self.mode = mode;
        self
    }

    /// Asks for the body that each item had before the change as well; without effect in the latest mode.
    pub fn with_previous(mut self) -> Self {
        self.previous = true;
        self
    }

    /// Goes on after a page.
    ///
    /// # Errors
    /// [`PullError::OtherFeed`] when the cursor is of another store, other containers or another mode,
    /// [`PullError::Diverged`] when it stands beyond what the store shares with the life in which the cursor was given.
    pub fn resume(mut self, cursor: Cursor) -> Result<Self, PullError> {
        let info = self.engine.backend().store.info();
        self.check(&cursor)?;
        let lineage = self.engine.backend().store.lineage();
        for (partition, position) in &cursor.positions {
            lineage.check(cursor.epoch, *partition, Some(*position))?;
        }
        let cursor = Cursor { epoch: info.epoch, ..cursor };
        self.cursor = Some(cursor);
        Ok(self)
    }

    /// Whether a cursor is one of this feed.
    fn check(&self, cursor: &Cursor) -> Result<(), PullError> {
        let (store, names) = (self.engine.backend().store.info().id, self.names());
        let latest = self.mode == FeedMode::Latest;
        if (cursor.store, &cursor.containers, cursor.latest) == (store, &names, latest) {
            return Ok(());
        }
        let mode = if cursor.latest { FeedMode::Latest } else { FeedMode::AllVersions };
        let found = format!("store {}, containers {:?}, mode {mode}", cursor.store, cursor.containers);
        let expected = format!("store {store}, containers {names:?}, mode {}", self.mode);
        Err(PullError::OtherFeed { found, expected })
    }

    fn names(&self) -> Vec<String> {
        self.containers.iter().map(Name::to_string).collect()
    }

    async fn begin(&self) -> Result<Cursor, PullError> {
        let store = &*self.engine.backend().store;
        let info = store.info();
        let mut positions = BTreeMap::new();
        for partition in Partition::all(info.partitions) {
            if let Some(position) = self.start.position(store, partition).await? {
                positions.insert(partition, position);
            }
        }
        let (containers, next) = (self.names(), Partition(0));
        let latest = self.mode == FeedMode::Latest;
        Ok(Cursor { format: 1, store: info.id, epoch: info.epoch, containers, latest, positions, next })
    }

    /// Reads the next page: about `max` changes, more if the last commit is larger. An empty page means that
    /// nothing more is there yet.
    ///
    /// # Errors
    /// [`PullError`]; nothing is skipped, and the last cursor stays good.
    pub async fn page(&mut self, max: usize) -> Result<FeedPage, PullError> {
        if max == 0 {
            return Err(PullError::EmptyPage);
        }
        let mut cursor = match self.cursor.take() {
            Some(cursor) => cursor,
            None => self.begin().await?,
        };
        self.check(&cursor)?;
        self.cursor = Some(cursor.clone());
        let store = &self.engine.backend().store;
        let (mut changes, mut at_end) = (Vec::new(), true);
        let partitions = store.info().partitions;
        let first = cursor.next.0 % partitions.max(1);
        for step in 0..partitions {
            let partition = Partition(first.wrapping_add(step) % partitions.max(1));
            let room = max.saturating_sub(changes.len());
            if room == 0 {
                (at_end, cursor.next) = (false, partition);
                break;
            }
            let after = cursor.positions.get(&partition).copied();
            let mut request = ChangeRequest::new(partition, after, room).mode(self.mode);
            (request.containers, request.previous) = (self.containers.clone(), self.previous);
            let page = store.changes(&request).await?;
            at_end &= page.at_end;
            changes.extend(page.changes);
            if let Some(scanned) = page.scanned {
                cursor.positions.insert(partition, scanned);
            }
        }
        self.cursor = Some(cursor.clone());
        Ok(FeedPage { changes, cursor, at_end })
    }
}
