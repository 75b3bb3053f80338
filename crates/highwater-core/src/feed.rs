use crate::{Change, Name, Partition, PartitionKey, Position};

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
}

impl ChangeRequest {
    /// Asks for at most `max` changes of any container after a position.
    pub fn new(partition: Partition, after: Option<Position>, max: usize) -> Self {
        Self { partition, after, containers: Vec::new(), partition_key: None, max }
    }

    /// Narrows to these containers.
    pub fn containers(mut self, containers: Vec<Name>) -> Self {
        self.containers = containers;
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
