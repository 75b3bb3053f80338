//! One item, read back from the log: its newest body, then the changes with events after it.

use crate::{append::Head, known::Known, layout::Layout, moment};
use highwater_core::{Change, ChangeOp, ETag, Item, ItemKey, Timestamp, Version};
use rusqlite::Connection;

/// The row of the item in `head`.
fn head(connection: &Connection, key: &ItemKey) -> rusqlite::Result<Option<Head>> {
    let Some(container) = Known::container_id(connection, &key.container)? else { return Ok(None) };
    Head::read(connection, container, key.partition_key.as_str(), key.id.as_str())
}

pub(crate) fn item(
    connection: &Connection,
    known: &mut Known,
    layout: &Layout,
    key: &ItemKey,
    clock: Timestamp,
) -> rusqlite::Result<Option<Item>> {
    let Some(head) = head(connection, key)? else { return Ok(None) };
    let etag = |version| ETag { epoch: layout.info.epoch, version };
    if head.expires_at.is_some() && head.is_expired(moment::seen(connection, clock)?) {
        return Ok(Some(Item::new(etag(head.expired_version()?), false, None, Vec::new())));
    }
    let etag = etag(head.version);
    let log = layout.log_of(&key.partition_key)?;
    let mut later = Vec::new();
    let mut next = head.position.filter(|_| head.live);
    let mut body = None;
    while let Some(position) = next {
        let (change, previous) = log.row_at(connection, known, position)?;
        next = previous;
        match change.op {
            ChangeOp::Put(newest) => {
                body = Some((change.version, newest));
                break;
            }
            // What came before a deletion is another life of the item.
            ChangeOp::Delete { .. } => break,
            _ if change.events.is_empty() => {}
            _ => later.push(change),
        }
    }
    later.reverse();
    let mut item = Item::new(etag, head.live, body, later);
    item.expires_at = head.expires_at.map(Timestamp::from_micros);
    Ok(Some(item))
}

pub(crate) fn history(
    connection: &Connection,
    known: &mut Known,
    layout: &Layout,
    key: &ItemKey,
    before: Option<Version>,
    max: usize,
) -> rusqlite::Result<Vec<Change>> {
    let log = layout.log_of(&key.partition_key)?;
    let mut changes = Vec::new();
    let mut next = head(connection, key)?.and_then(|head| head.position);
    while let Some(position) = next.filter(|_| changes.len() < max) {
        let (change, previous) = log.row_at(connection, known, position)?;
        next = previous;
        if before.is_none_or(|before| change.version < before) {
            changes.push(change);
        }
    }
    Ok(changes)
}
