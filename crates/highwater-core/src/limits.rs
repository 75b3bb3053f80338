use std::{borrow::Cow, time::Duration};

/// What an engine accepts. Sizes are in bytes and a value at the limit is still accepted.
///
/// Each of the four traits answers for its own operations and says which fields those are: a backend may be put
/// together from several engines. Key parts (255 bytes, no control characters) and names (`[a-z0-9-]{1,48}`) are
/// limited by their types, names of events by [`Event::NAME`](crate::Event::NAME), notes and reasons by
/// [`Attempt::NOTE`](crate::Attempt::NOTE) and [`Parking::TEXT`](crate::Parking::TEXT).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Writes in one batch.
    pub writes_per_batch: usize,
    /// One change: its body and its events, and on the first of a commit the reason of a rejection.
    pub change_bytes: usize,
    /// One batch: the sum of its changes.
    pub batch_bytes: usize,
    /// Events in one change.
    pub events_per_change: usize,
    /// The body of one message.
    pub message_bytes: usize,
    /// The value of one cell.
    pub cell_bytes: usize,
    /// The body of one document of a view.
    pub document_bytes: usize,
    /// Documents of a view written in one batch. Whoever makes batches cuts them between two commits.
    pub documents_per_batch: usize,
    /// The key of a cell or of a document of a view.
    pub key_bytes: usize,
    /// Messages taken by one get.
    pub messages_per_get: usize,
    /// The longest visibility time-out or delay of a message.
    pub longest_delay: Duration,
    /// The longest time to live of an item or a cell. The shortest is [`Limits::SHORTEST_LIFE`].
    pub longest_life: Duration,
    /// How long a decided command, and the id of a message that is gone, are remembered at least; `None` for as long
    /// as the log is kept. A command whose message still lies in a queue or a poison queue is always remembered.
    pub horizon: Option<Duration>,
}

impl Limits {
    /// The shortest time to live.
    pub const SHORTEST_LIFE: Duration = Duration::from_secs(1);

    /// The limits that every engine can keep, enforced by default everywhere so that an application can move:
    /// 32 writes a batch, 256 KiB a change, 1 MiB a batch, 256 events a change, 48 KiB a message, 256 KiB a cell or a
    /// document of a view, 512 bytes the key of either, 99 documents a batch, 32 messages a get, 7 days of delay, 3,650 days of life.
    ///
    /// What sets them: an item of DynamoDB has at most 400 KB and a message of NATS 1 MiB by default; transactions of
    /// DynamoDB and of Azure Tables have at most 100 writes, one of which moves the view's position.
    pub const fn portable() -> Self {
        Self {
            writes_per_batch: 32,
            change_bytes: 256 * 1024,
            batch_bytes: 1024 * 1024,
            events_per_change: 256,
            message_bytes: 48 * 1024,
            cell_bytes: 256 * 1024,
            document_bytes: 256 * 1024,
            documents_per_batch: 99,
            key_bytes: 512,
            messages_per_get: 32,
            longest_delay: Duration::from_secs(7 * 24 * 60 * 60),
            longest_life: Duration::from_secs(3_650 * 24 * 60 * 60),
            horizon: None,
        }
    }

    /// What is allowed, if a time to live is not; `None` if it is, or if there is none.
    pub fn life_out_of_range(&self, span: Option<Duration>) -> Option<Cow<'static, str>> {
        let span = span?;
        let days = self.longest_life.as_secs() / (24 * 60 * 60);
        let allowed = (Self::SHORTEST_LIFE..=self.longest_life).contains(&span);
        (!allowed).then(|| format!("between 1 second and {days} days").into())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::portable()
    }
}
