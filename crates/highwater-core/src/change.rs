use crate::{Body, CommandMark, ItemKey, Json, Partition, Position, Timestamp, Version, key::unescape};
use std::{fmt, str::FromStr, sync::Arc};

/// A domain fact inside a change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Its type, `Reserved`; at most [`Event::NAME`] bytes.
    pub name: Arc<str>,
    /// The schema version of its data, from 1.
    pub schema: u32,
    /// What happened, in detail.
    pub data: Json,
}

impl Event {
    /// The longest name, in bytes. A name of this length is still allowed.
    pub const NAME: usize = 255;

    /// A fact of this type, in this schema version.
    pub fn new(name: impl Into<Arc<str>>, schema: u32, data: Json) -> Self {
        Self { name: name.into(), schema, data }
    }
}

/// What a change did to the item's document.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeOp {
    /// The document became this body.
    Put(Body),
    /// The document stayed as it was: the change carries events, or a command's verdict, or both.
    Keep,
    /// The item is gone.
    Delete {
        /// True if nobody deleted it: its time to live had passed.
        expired: bool,
    },
}

impl ChangeOp {
    /// Somebody deleted the item.
    pub const DELETE: Self = Self::Delete { expired: false };
    /// The item's time to live had passed.
    pub const EXPIRE: Self = Self::Delete { expired: true };
}

/// One entry of a partition's log: what happened to one item, the events that explain it and the verdict of the
/// command that caused it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Change {
    /// The log it stands in.
    pub partition: Partition,
    /// Where it stands in that log.
    pub position: Position,
    /// Its place among the changes of its commit, from 0.
    pub ordinal: u16,
    /// How many changes its commit has; they stand at consecutive positions.
    pub count: u16,
    /// When it was committed, by the store's clock, which never runs backwards.
    pub at: Timestamp,
    /// The item.
    pub key: ItemKey,
    /// The item's version after the change.
    pub version: Version,
    /// What happened to the document.
    pub op: ChangeOp,
    /// The events, in order.
    pub events: Vec<Event>,
    /// The command decided by the commit; on its first change only.
    pub command: Option<CommandMark>,
    /// When the item expires, as of this change; `None` if it lives for ever or is gone. On an expiry: when its time
    /// was over, which may be a while before the expiry was written.
    pub expires_at: Option<Timestamp>,
    /// The body that the item had before the change, where [`ChangeRequest::previous`](crate::ChangeRequest) asks
    /// for it; `None` for an item that had none, and on a rejection, which leaves the item as it is.
    pub previous: Option<Body>,
}

impl Change {
    /// A change as an engine read it, alone in its commit; set the other fields afterwards.
    pub fn new(
        partition: Partition,
        position: Position,
        at: Timestamp,
        key: ItemKey,
        version: Version,
    ) -> Self {
        let (op, events, command) = (ChangeOp::Keep, Vec::new(), None);
        let (ordinal, count, expires_at, previous) = (0, 1, None, None);
        Self {
            partition,
            position,
            ordinal,
            count,
            at,
            key,
            version,
            op,
            events,
            command,
            expires_at,
            previous,
        }
    }

    /// The id of the event at `index` of this change.
    pub fn event_id(&self, index: usize) -> EventId {
        EventId { key: self.key.clone(), version: self.version, index: index as u16 }
    }

    /// The position of the last change of the commit that this change belongs to.
    pub fn commit_end(&self) -> Position {
        let rest = u64::from(self.count.saturating_sub(self.ordinal).saturating_sub(1));
        Position::new(self.position.get() + rest).unwrap_or(self.position)
    }
}

/// Names one event for ever: the item, the item's version, the place among the events of that version. The same
/// after a replay, in an archive and in another store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    /// The item that changed.
    pub key: ItemKey,
    /// Its version after the change.
    pub version: Version,
    /// The place among the events of the change, from 0.
    pub index: u16,
}

/// Writes `container/partition key/id/version/index`, with `%` and `/` inside the keys as `%25` and `%2F`.
impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.key, self.version, self.index)
    }
}

impl FromStr for EventId {
    type Err = InvalidEventId;
    fn from_str(text: &str) -> Result<Self, InvalidEventId> {
        let parse = || {
            let mut parts = text.split('/');
            let container = crate::Name::new(parts.next()?).ok()?;
            let partition_key = crate::PartitionKey::new(unescape(parts.next()?)).ok()?;
            let id = crate::ItemId::new(unescape(parts.next()?)).ok()?;
            let version = Version::new(parts.next()?.parse().ok()?)?;
            let index = parts.next()?.parse().ok()?;
            let key = ItemKey { container, partition_key, id };
            parts.next().is_none().then_some(Self { key, version, index })
        };
        parse().ok_or(InvalidEventId)
    }
}

/// A text that is not an event id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an event id: expected container/partition key/id/version/index")]
pub struct InvalidEventId;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_id_survives_being_written_and_read() {
        for text in ["days/2026-12-24/2026-12-24/3/0", "a/x%2Fy%25z/%252F/18446744073709551615/65535"] {
            assert_eq!(text.parse::<EventId>().unwrap().to_string(), text);
        }
        assert_eq!("days/a/b/0/0".parse::<EventId>(), Err(InvalidEventId));
        assert_eq!("days/a/b/1/0/x".parse::<EventId>(), Err(InvalidEventId));
    }
}
