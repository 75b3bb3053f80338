use std::time::Duration;

/// What a store accepts. Sizes are in bytes and a value at the limit is still accepted.
///
/// Key parts (255 bytes, no control characters) and names (`[a-z0-9-]{1,48}`) are limited by their types.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Writes in one batch.
    pub writes_per_batch: usize,
    /// One change: its body and its events.
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
    /// The key of a cell or of a document of a view.
    pub key_bytes: usize,
    /// Messages taken by one get.
    pub messages_per_get: usize,
    /// The longest visibility time-out or delay of a message.
    pub longest_delay: Duration,
}

impl Limits {
    /// The limits that every engine can keep, enforced by default everywhere so that an application can move:
    /// 32 writes a batch, 256 KiB a change, 1 MiB a batch, 256 events a change, 48 KiB a message, 512 KiB a cell,
    /// 1 MiB a document of a view, 512 bytes the key of either, 32 messages a get, 7 days of delay.
    pub const fn portable() -> Self {
        Self {
            writes_per_batch: 32,
            change_bytes: 256 * 1024,
            batch_bytes: 1024 * 1024,
            events_per_change: 256,
            message_bytes: 48 * 1024,
            cell_bytes: 512 * 1024,
            document_bytes: 1024 * 1024,
            key_bytes: 512,
            messages_per_get: 32,
            longest_delay: Duration::from_secs(7 * 24 * 60 * 60),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::portable()
    }
}
