use crate::{Body, CommandMark, CommitError, ETag, Event, ItemKey, Json, Limits, PartitionKey, Token};
use crate::{ItemId, Name};
use std::{collections::HashSet, time::Duration};

/// The condition of a write. "The item" also means "the cell" where a cell is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expect {
    /// Write in any case.
    #[default]
    Any,
    /// There is no item: it was never put, or it was deleted.
    Absent,
    /// There is an item.
    Exists,
    /// The item's state is exactly this one. Also fits an item that does not exist but was written before: its
    /// last change has an ETag too. That is wider than HTTP's `If-Match` (RFC 9110, 13.1.1), which fits only what
    /// exists: here a deletion and a rejection are states to decide on like any other, and a decision made on one
    /// must fail if another came in between.
    ETag(ETag),
}

/// What a write does to the document. An engine refuses what it does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Op {
    /// Replace the document.
    Put(Body),
    /// Leave it. With events, an item that did not exist begins to: event-sourced items live that way. Without
    /// events nothing but the version changes: that is how a rejection is recorded.
    Keep,
    /// Delete the item. Deleting what does not exist is allowed and recorded.
    Delete,
}

/// One write of a [`Batch`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Write {
    /// The container of the item.
    pub container: Name,
    /// The id of the item within the batch's partition key.
    pub id: ItemId,
    /// The condition; if it fails, the whole batch fails.
    pub expect: Expect,
    /// What happens to the document.
    pub op: Op,
    /// The events that explain it.
    pub events: Vec<Event>,
    /// After how long, from the commit on, the item expires; at least 1 s and at most
    /// [`Limits::longest_life`](crate::Limits). A put without it lets the item live for ever, also one that would
    /// have expired; a kept document without it stays timed as it was. A deletion has no use for it.
    pub time_to_live: Option<Duration>,
}

impl Write {
    /// Replaces the document, with schema version 1 and no condition.
    pub fn put(container: Name, id: ItemId, body: Json) -> Self {
        Self::new(container, id, Op::Put(Body::new(body)))
    }

    /// Leaves the document as it is.
    pub fn keep(container: Name, id: ItemId) -> Self {
        Self::new(container, id, Op::Keep)
    }

    /// Deletes the item.
    pub fn delete(container: Name, id: ItemId) -> Self {
        Self::new(container, id, Op::Delete)
    }

    /// A write without condition and events.
    pub fn new(container: Name, id: ItemId, op: Op) -> Self {
        Self { container, id, expect: Expect::Any, op, events: Vec::new(), time_to_live: None }
    }

    /// Sets the condition.
    pub fn expect(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }

    /// Sets the events.
    pub fn events(mut self, events: Vec<Event>) -> Self {
        self.events = events;
        self
    }

    /// Lets the item expire after this time; on a kept document, sets its time anew.
    pub fn time_to_live(mut self, span: Duration) -> Self {
        self.time_to_live = Some(span);
        self
    }

    /// The size that counts against the limits: body and events, in bytes.
    pub fn size(&self) -> usize {
        let body = if let Op::Put(body) = &self.op { body.json.as_bytes().len() } else { 0 };
        let events = self.events.iter().map(|event| event.name.len() + event.data.as_bytes().len());
        body + events.sum::<usize>()
    }
}

/// One conditional, atomic write of one or more items of one partition key: all of it happens or nothing.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Batch {
    /// The partition key of every item in the batch.
    pub partition_key: PartitionKey,
    /// The command that the batch decides. A command decides once: see [`Store::commit`](crate::Store::commit).
    pub command: Option<CommandMark>,
    /// The writes, each item at most once, in the order of their positions.
    pub writes: Vec<Write>,
}

impl Batch {
    /// A batch without a command.
    pub fn new(partition_key: PartitionKey, writes: Vec<Write>) -> Self {
        Self { partition_key, command: None, writes }
    }

    /// Records the command that the batch decides.
    pub fn command(mut self, mark: CommandMark) -> Self {
        self.command = Some(mark);
        self
    }

    /// The address of the item that `write` writes.
    pub fn key(&self, write: &Write) -> ItemKey {
        let (container, id) = (write.container.clone(), write.id.clone());
        ItemKey { container, partition_key: self.partition_key.clone(), id }
    }

    /// Checks the batch against the limits; every engine does so before anything else. The reason of a rejection
    /// counts as a part of the first change.
    ///
    /// # Errors
    /// [`CommitError::Empty`], [`CommitError::TooLarge`], [`CommitError::OutOfRange`] or
    /// [`CommitError::ItemTwice`].
    pub fn check(&self, limits: &Limits) -> Result<(), CommitError> {
        if self.writes.is_empty() {
            return Err(CommitError::Empty);
        }
        let too_large = |what: &'static str, size, limit| {
            let what = what.into();
            Err(CommitError::TooLarge { what, size, limit })
        };
        if self.writes.len() > limits.writes_per_batch {
            return too_large("writes of a batch", self.writes.len(), limits.writes_per_batch);
        }
        let mut seen = HashSet::new();
        // The command's mark stands on the first change.
        let (mut total, mut mark) = (0, self.command.as_ref().map_or(0, CommandMark::size));
        for write in &self.writes {
            if !seen.insert((&write.container, &write.id)) {
                return Err(CommitError::ItemTwice { key: self.key(write) });
            }
            if let Some(range) = limits.life_out_of_range(write.time_to_live) {
                return Err(CommitError::OutOfRange { what: "the time to live of an item".into(), range });
            }
            if write.events.len() > limits.events_per_change {
                return too_large("events of a change", write.events.len(), limits.events_per_change);
            }
            let longest = write.events.iter().map(|event| event.name.len()).max().unwrap_or(0);
            if longest > Event::NAME {
                return too_large("bytes of an event's name", longest, Event::NAME);
            }
            let size = write.size() + std::mem::take(&mut mark);
            if size > limits.change_bytes {
                return too_large("bytes of a change", size, limits.change_bytes);
            }
            total += size;
        }
        if total > limits.batch_bytes {
            return too_large("bytes of a batch", total, limits.batch_bytes);
        }
        Ok(())
    }
}

/// What a commit returns once it is durable.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Committed {
    /// Reached by whoever has seen this commit.
    pub token: Token,
    /// The new ETag of each item, in the order of the writes.
    pub etags: Vec<ETag>,
    /// The verdict of the command, if the batch had one: the *first* one, when the command was decided before.
    pub verdict: Option<crate::Verdict>,
    /// True if the command had been decided before: nothing was written, and token and ETags are those of the
    /// first commit.
    pub replayed: bool,
}

impl Committed {
    /// The result of a commit that wrote something.
    pub fn new(token: Token, etags: Vec<ETag>, verdict: Option<crate::Verdict>) -> Self {
        Self { token, etags, verdict, replayed: false }
    }

    /// The result of a commit whose command had been decided before.
    pub fn replayed(decided: crate::Decided) -> Self {
        let verdict = Some(decided.mark.verdict);
        Self { token: decided.token, etags: decided.etags, verdict, replayed: true }
    }
}
