use crate::{Change, Name, Partition, PartitionKey, Position};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which changes a feed shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FeedMode {
    /// Every change, with rejections, deletions and expiries. Whoever folds events needs this one.
    #[default]
    AllVersions,
    /// Each item that exists once: at its last change, rejections left out, as a [`Put`](crate::ChangeOp::Put) of its
    /// present body, also if the last change kept that; as a [`Keep`](crate::ChangeOp::Keep) if it has none. Neither
    /// deletions nor expiries nor items that are gone are shown: to tell readers of a deletion, put a marker with a
    /// time to live. An item is shown again only when it has changed again.
    Latest,
}

impl fmt::Display for FeedMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AllVersions => "all versions",
            Self::Latest => "latest",
        })
    }
}

/// Asks for the changes of one partition after a position.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangeRequest {
    /// The log to read.
    pub partition: Partition,
    /// Read what stands after this position; `None` reads from the beginning. Any position up to the end of the log
    /// will do, a hole as well; one in the middle of a commit gives the rest of that commit.
    pub after: Option<Position>,
    /// Only changes of these containers; empty means all.
    pub containers: Vec<Name>,
    /// Only changes of this partition key.
    pub partition_key: Option<PartitionKey>,
    /// How many changes to return at most. A hint: a commit is returned whole even when that exceeds it.
    pub max: usize,
    /// Which changes to show.
    pub mode: FeedMode,
    /// Whether each change comes with the body that the item had before; without effect in the latest mode.
    pub previous: bool,
}

impl ChangeRequest {
    /// Asks for at most `max` changes of any container after a position.
    pub fn new(partition: Partition, after: Option<Position>, max: usize) -> Self {
        let (mode, previous) = (FeedMode::AllVersions, false);
        Self { partition, after, containers: Vec::new(), partition_key: None, max, mode, previous }
    }

    /// Narrows to these containers.
    pub fn containers(mut self, containers: Vec<Name>) -> Self {
        self.containers = containers;
        self
    }

    /// Sets which changes to show; every version by default.
    pub fn mode(mut self, mode: FeedMode) -> Self {
        self.mode = mode;
        self
    }

    /// Asks for the bodies before the changes as well. Where a change kept the document its body is looked for in
    /// the item's earlier changes.
    pub fn with_previous(mut self) -> Self {
        self.previous = true;
        self
    }

    /// Narrows to one partition key.
    pub fn partition_key(mut self, key: PartitionKey) -> Self {
        self.partition_key = Some(key);
        self
    }
}

/// A page of one partition's changes, in order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ChangePage {
    /// The changes that were asked for; whole commits.
    pub changes: Vec<Change>,
    /// Everything up to here was looked at: the place to go on from. Moves even when no change fits, and never
    /// past what was looked at. `None` only while the log is empty.
    pub scanned: Option<Position>,
    /// True when nothing stood after `scanned` at the moment of reading.
    pub at_end: bool,
}

impl ChangePage {
    /// A page as an engine read it.
    pub fn new(changes: Vec<Change>, scanned: Option<Position>, at_end: bool) -> Self {
        Self { changes, scanned, at_end }
    }
}
