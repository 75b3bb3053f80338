use crate::{Change, Epoch, InvalidKey, ItemId, Json, Name, PartitionKey, Timestamp, key::escape};
use std::{fmt, num::NonZeroU64, str::FromStr};

/// The address of an item: container, partition key, id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemKey {
    /// The container that holds the item.
    pub container: Name,
    /// What the item is grouped by.
    pub partition_key: PartitionKey,
    /// The item's id within its partition key.
    pub id: ItemId,
}

impl ItemKey {
    /// The address of an item whose id is its partition key: the usual case of an aggregate that is alone under
    /// its key.
    ///
    /// # Errors
    /// [`InvalidKey`] when the text is not a key.
    pub fn alone(container: Name, key: &str) -> Result<Self, InvalidKey> {
        Ok(Self { container, partition_key: PartitionKey::new(key)?, id: ItemId::new(key)? })
    }
}

/// Writes `container/partition key/id`, with `%` and `/` inside the keys as `%25` and `%2F`: different items are
/// written differently.
impl fmt::Display for ItemKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (partition_key, id) = (escape(self.partition_key.as_str()), escape(self.id.as_str()));
        write!(f, "{}/{partition_key}/{id}", self.container)
    }
}

/// Counts the changes of one item, from 1. Never starts again, not even after the item was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Version(NonZeroU64);

impl Version {
    /// The version of this number; `None` for 0, which no item has.
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// The number, at least 1.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Identifies one state of an item or a cell. Users compare and send it back, nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ETag {
    /// The epoch of the store that gave it.
    pub epoch: Epoch,
    /// The version it stands for.
    pub version: Version,
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.epoch.0, self.version.get())
    }
}

impl FromStr for ETag {
    type Err = InvalidETag;
    fn from_str(text: &str) -> Result<Self, InvalidETag> {
        let parse = || {
            let (epoch, version) = text.split_once('-')?;
            let epoch = Epoch(u64::from_str_radix(epoch, 16).ok()?);
            let version = Version::new(u64::from_str_radix(version, 16).ok()?)?;
            Some(Self { epoch, version })
        };
        parse().ok_or(InvalidETag)
    }
}

/// A text that no store gave out as an ETag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an ETag of this store: send back exactly what a read or a commit returned")]
pub struct InvalidETag;

/// A document together with the schema version of the program that wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// The schema version, from 1.
    pub schema: u32,
    /// The document.
    pub json: Json,
}

impl Body {
    /// A body of schema version 1.
    pub fn new(json: Json) -> Self {
        Self { schema: 1, json }
    }
}

/// What a store knows of one item that was written at least once.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Item {
    /// Identifies this state, for [`Expect::ETag`](crate::Expect::ETag).
    pub etag: ETag,
    /// False after a deletion, once the time to live has passed, or when the only writes so far were a
    /// [`Keep`](crate::Op::Keep) without events.
    pub exists: bool,
    /// The newest body and the version at which it was put; absent for an item that only has events.
    pub body: Option<(Version, Body)>,
    /// The changes with events after that body (after the last deletion, if there is no body), oldest first.
    pub later: Vec<Change>,
    /// When it expires; `None` if it lives for ever or does not exist.
    pub expires_at: Option<Timestamp>,
}

impl Item {
    /// What a store found at an address, without an expiry; set that afterwards.
    pub fn new(etag: ETag, exists: bool, body: Option<(Version, Body)>, later: Vec<Change>) -> Self {
        Self { etag, exists, body, later, expires_at: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_items_are_written_differently() {
        let key = |partition_key, id| {
            let (partition_key, id) = (PartitionKey::new(partition_key).unwrap(), ItemId::new(id).unwrap());
            ItemKey { container: Name::new("days").unwrap(), partition_key, id }.to_string()
        };
        assert_eq!(key("2026-12-24", "Zürich"), "days/2026-12-24/Zürich");
        assert_eq!([key("a/b", "c"), key("a", "b/c")], ["days/a%2Fb/c", "days/a/b%2Fc"]);
        assert_eq!([key("a%2Fb", "c"), key("a%", "2Fb/c")], ["days/a%252Fb/c", "days/a%25/2Fb%2Fc"]);
    }
}
