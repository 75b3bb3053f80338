//! One change: a row of its partition's log, and what it leaves in `head`.

use crate::{
    checksum::Fixed,
    fault::{int, unreadable},
    frame,
    log::{self, LogSql},
    moment::later,
};
use highwater_core::{Body, CommandMark, Event, Found, Op, Timestamp, Verdict, Version, Write};
use rusqlite::{Connection, OptionalExtension, ToSql};
use std::time::Duration;

/// The row of an item in `head`.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(crate) version: Version,
    pub(crate) live: bool,
    pub(crate) position: Option<i64>,
    pub(crate) body_position: Option<i64>,
    pub(crate) expires_at: Option<i64>,
}

impl Head {
    pub(crate) fn read(
        connection: &Connection,
        container: i64,
        partition_key: &str,
        id: &str,
    ) -> rusqlite::Result<Option<Self>> {
        connection
            .prepare_cached(
                "SELECT version, live, position, body_position, expires_at FROM head
                 WHERE container = ?1 AND partition_key = ?2 AND id = ?3",
            )?
            .query_row((container, partition_key, stored_id(partition_key, id)), |row| {
                Ok(Self {
                    version: log::version(row.get(0)?)?,
                    live: row.get(1)?,
                    position: row.get(2)?,
                    body_position: row.get(3)?,
                    expires_at: row.get(4)?,
                })
            })
            .optional()
    }

    /// Whether the item's time to live has passed although no change says so yet.
    pub(crate) fn is_expired(&self, now: i64) -> bool {
        self.live && self.expires_at.is_some_and(|at| at <= now)
    }

    /// The version that an item has whose time to live has passed: the one that its expiry will have. Whoever decides on
    /// it need not mind when the expiry is written.
    pub(crate) fn expired_version(&self) -> rusqlite::Result<Version> {
        next_version(Some(*self))
    }

    /// What a condition finds.
    pub(crate) fn found(
        head: Option<Self>,
        now: i64,
        etag: impl Fn(Version) -> highwater_core::ETag,
    ) -> rusqlite::Result<Found> {
        Ok(match head {
            None => Found::Nothing,
            Some(head) if head.is_expired(now) => Found::Gone(etag(head.expired_version()?)),
            Some(head) if head.live => Found::Item(etag(head.version)),
            Some(head) => Found::Gone(etag(head.version)),
        })
    }
}

/// The id as a column holds it: many items are alone under their partition key and have its name, and that is not
/// stored twice.
fn stored_id<'a>(partition_key: &str, id: &'a str) -> &'a str {
    if id == partition_key { "" } else { id }
}

fn next_version(head: Option<Head>) -> rusqlite::Result<Version> {
    let number = head.map_or(1, |head| head.version.get() + 1);
    Version::new(number).ok_or_else(|| unreadable("a version is zero"))
}

/// The item that changes.
#[derive(Clone, Copy)]
pub(crate) struct Item<'a> {
    pub(crate) container: i64,
    pub(crate) name: &'a str,
    pub(crate) partition_key: &'a str,
    pub(crate) id: &'a str,
}

/// Where a change goes in its log and in its commit.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) ordinal: usize,
    pub(crate) count: usize,
    pub(crate) position: i64,
    pub(crate) at: Timestamp,
}

/// What happens to the item.
pub(crate) struct Entry<'a> {
    op: i64,
    body: Option<&'a Body>,
    events: &'a [Event],
    time_to_live: Option<Duration>,
    mark: Option<&'a CommandMark>,
}

impl<'a> Entry<'a> {
    pub(crate) fn new(write: &'a Write, mark: Option<&'a CommandMark>) -> rusqlite::Result<Self> {
        let (op, body) = match &write.op {
            Op::Put(body) => (log::PUT, Some(body)),
            Op::Keep => (log::KEEP, None),
            Op::Delete => (log::DELETE, None),
            _ => return Err(unreadable("an operation of the batch is unknown")),
        };
        Ok(Self { op, body, events: &write.events, time_to_live: write.time_to_live, mark })
    }

    /// The time to live is over.
    pub(crate) fn expiry() -> Self {
        Self { op: log::EXPIRE, body: None, events: &[], time_to_live: None, mark: None }
    }
}

/// Writes a change and returns the row of its item in `head`.
pub(crate) fn append(
    connection: &Connection,
    sql: &LogSql,
    memory: &mut Vec<u8>,
    item: Item<'_>,
    head: Option<Head>,
    entry: &Entry<'_>,
    place: Place,
) -> rusqlite::Result<Head> {
    let next = next_head(head, entry, place)?;
    // A rejection leaves the item as it is; nothing but its version moves.
    let means_something = next.position == Some(place.position);
    let previous = head.and_then(|head| head.position).filter(|_| means_something);
    let expires_at =
        if entry.op == log::EXPIRE { head.and_then(|head| head.expires_at) } else { next.expires_at };
    let events = if entry.events.is_empty() {
        None
    } else {
        Some(frame::encode(entry.events).ok_or_else(|| unreadable("an event has a name that is too long"))?)
    };
    let Entry { op, body, mark, .. } = entry;
    let command = mark.map(|mark| mark.id.0.into_bytes());
    let fingerprint = mark.map(|mark| mark.fingerprint.0);
    let verdict = mark.and_then(|mark| match &mark.verdict {
        Verdict::Accepted => None,
        Verdict::Rejected { reason } => Some(reason.as_str()),
    });
    let (schema, json) = (body.map(|body| body.schema), body.map(|body| body.json.as_bytes()));
    let fixed = Fixed {
        position: place.position,
        ordinal: place.ordinal as i64,
        count: place.count as i64,
        at: place.at.as_micros(),
        container: item.name,
        partition_key: item.partition_key,
        id: stored_id(item.partition_key, item.id),
        version: int(next.version.get()),
        op: *op,
        command: command.as_ref().map(<[u8; 16]>::as_slice),
        fingerprint: fingerprint.as_ref().map(<[u8; 16]>::as_slice),
        verdict: verdict.map(str::as_bytes),
        schema: schema.map(i64::from),
        body: json,
        events: events.as_deref(),
        expires_at,
    };
    let checksum = fixed.checksum(memory);
    let parameters: [&dyn ToSql; 18] = [
        &fixed.position,
        &fixed.ordinal,
        &fixed.count,
        &fixed.at,
        &item.container,
        &fixed.partition_key,
        &fixed.id,
        &fixed.version,
        &fixed.op,
        &command,
        &fingerprint,
        &verdict,
        &schema,
        &json,
        &events,
        &checksum,
        &expires_at,
        &previous,
    ];
    connection.prepare_cached(&sql.insert)?.execute(parameters)?;
    if let Some(mark) = mark {
        connection.prepare_cached(&sql.mark)?.execute((mark.id.0.into_bytes(), place.position))?;
    }
    write_head(connection, item, head.is_some(), next)?;
    Ok(next)
}

/// What the item is after the change.
fn next_head(head: Option<Head>, entry: &Entry<'_>, place: Place) -> rusqlite::Result<Head> {
    let version = next_version(head)?;
    let asked = entry.time_to_live.map(|span| later(place.at, span));
    let at = Some(place.position);
    let gone = Head { version, live: false, position: at, body_position: None, expires_at: None };
    let was = head.unwrap_or(Head { position: None, ..gone });
    Ok(match entry.op {
        log::PUT => Head { live: true, body_position: at, expires_at: asked, ..gone },
        log::DELETE | log::EXPIRE => gone,
        _ => {
            let live = was.live || !entry.events.is_empty();
            let asked = asked.filter(|_| live);
            let position = if asked.is_some() || !entry.events.is_empty() { at } else { was.position };
            let expires_at = asked.or(was.expires_at);
            Head { version, live, position, body_position: was.body_position, expires_at }
        }
    })
}

fn write_head(connection: &Connection, item: Item<'_>, exists: bool, head: Head) -> rusqlite::Result<()> {
    let sql = if exists {
        "UPDATE head SET version = ?4, live = ?5, position = ?6, body_position = ?7, expires_at = ?8
         WHERE container = ?1 AND partition_key = ?2 AND id = ?3"
    } else {
        "INSERT INTO head (container, partition_key, id, version, live, position, body_position, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
    };
    connection.prepare_cached(sql)?.execute((
        item.container,
        item.partition_key,
        stored_id(item.partition_key, item.id),
        int(head.version.get()),
        head.live,
        head.position,
        head.body_position,
        head.expires_at,
    ))?;
    Ok(())
}
