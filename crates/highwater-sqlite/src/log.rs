//! One partition's log: its statements, and a row of it as a change.

use crate::{
    checksum::Fixed,
    fault::{damaged, int, uint, unreadable},
    frame,
    known::Known,
    schema::log_table,
};
use bytes::{Bytes, BytesMut};
use highwater_core::{
    Body, Change, ChangeOp, CommandId, CommandMark, Fingerprint, ItemId, ItemKey, Json, Name, Partition,
    PartitionKey, Position, Timestamp, Verdict, Version,
};
use rusqlite::{Connection, OptionalExtension, Row, types::ValueRef};
use uuid::Uuid;

/// The numbers of operations in a log.
pub(crate) const KEEP: i64 = 0;
pub(crate) const PUT: i64 = 1;
pub(crate) const DELETE: i64 = 2;
pub(crate) const EXPIRE: i64 = 3;

/// The statements of one partition's log.
pub(crate) struct LogSql {
    pub(crate) partition: Partition,
    pub(crate) insert: String,
    pub(crate) mark: String,
    pub(crate) by_command: String,
    pub(crate) versions: String,
    pub(crate) after: String,
    pub(crate) at: String,
    pub(crate) moment: String,
    pub(crate) marks: String,
}

impl LogSql {
    pub(crate) fn new(partition: u16) -> Self {
        let log = log_table(partition);
        let columns =
            "position, ordinal, count, at, container, partition_key, id, version, op, command, fingerprint,
            verdict, schema, body, events, checksum, expires_at, previous";
        Self {
            partition: Partition(partition),
            insert: format!(
                "INSERT INTO {log} ({columns})
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)"
            ),
            mark: format!("INSERT INTO mark (command, partition, position) VALUES (?1, {partition}, ?2)"),
            by_command: format!(
                "SELECT log.position, log.count, log.fingerprint, log.verdict
                 FROM mark CROSS JOIN {log} AS log ON log.position = mark.position
                 WHERE mark.command = ?1 AND mark.partition = {partition} AND log.partition_key = ?2"
            ),
            versions: format!(
                "SELECT version FROM {log} WHERE position >= ?1 AND position < ?1 + ?2 ORDER BY position"
            ),
            after: format!("SELECT {columns} FROM {log} WHERE position > ?1 ORDER BY position"),
            at: format!("SELECT {columns} FROM {log} WHERE position = ?1"),
            marks: format!(
                "SELECT position, at, command FROM {log} WHERE position > ?1 ORDER BY position LIMIT ?2"
            ),
            moment: format!("SELECT position, at FROM {log} WHERE position >= ?1 ORDER BY position LIMIT 1"),
        }
    }

    /// The row at a position, and where the item's previous change stands.
    pub(crate) fn row_at(
        &self,
        connection: &Connection,
        known: &mut Known,
        position: i64,
    ) -> rusqlite::Result<(Change, Option<i64>)> {
        let mut statement = connection.prepare_cached(&self.at)?;
        let row = statement.query_row([position], |row| {
            let container = known.container(connection, row.get(4)?)?;
            let change = change(row, self.partition, container, known, &mut Memory::new(0))?;
            Ok((change, row.get(17)?))
        });
        row.optional()?.ok_or_else(|| unreadable("an item names a change that is not in the log"))
    }

    /// The body of the item as of the change at a position, which may have kept the one of an earlier change.
    pub(crate) fn body_as_of(
        &self,
        connection: &Connection,
        known: &mut Known,
        position: i64,
        memory: &mut Memory,
    ) -> rusqlite::Result<Option<Body>> {
        let mut next = Some(position);
        while let Some(position) = next {
            let (change, previous) = self.row_at(connection, known, position)?;
            match change.op {
                ChangeOp::Put(body) => {
                    memory.used += body.json.as_bytes().len();
                    return Ok(Some(body));
                }
                ChangeOp::Keep => next = previous,
                _ => break,
            }
        }
        Ok(None)
    }
}

/// Where the bodies and events of a page lie: pieces of memory that its changes share, so that a page costs a few
/// allocations. Whoever keeps one change keeps its piece, therefore pieces are small.
pub(crate) struct Memory {
    piece: BytesMut,
    size: usize,
    used: usize,
}

impl Memory {
    /// Takes memory in pieces of at least this size.
    pub(crate) fn new(size: usize) -> Self {
        Self { piece: BytesMut::new(), size, used: 0 }
    }

    /// How many bytes were copied into it.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    fn copy(&mut self, bytes: &[u8]) -> Bytes {
        if bytes.is_empty() {
            return Bytes::new();
        }
        if self.piece.capacity() < bytes.len() {
            self.piece = BytesMut::with_capacity(bytes.len().max(self.size));
        }
        self.used += bytes.len();
        self.piece.extend_from_slice(bytes);
        self.piece.split().freeze()
    }
}

/// A row of `after` or `at` as a change; one that is not what was committed is named.
pub(crate) fn change(
    row: &Row<'_>,
    partition: Partition,
    container: Name,
    known: &mut Known,
    memory: &mut Memory,
) -> rusqlite::Result<Change> {
    let position = row.get_ref(0)?.as_i64().unwrap_or(0);
    if !is_sound(row, &container, &mut known.memory) {
        return Err(damaged(partition, position, "its checksum does not fit"));
    }
    read(row, partition, container, known, memory)
        .map_err(|error| damaged(partition, position, error.to_string()))
}

/// Whether a row of `after` or `at` has the checksum of what it says.
pub(crate) fn is_sound(row: &Row<'_>, container: &Name, memory: &mut Vec<u8>) -> bool {
    fixed(row, container)
        .and_then(|fixed| Ok(fixed.checksum(memory) == row.get_ref(15)?.as_i64()?))
        .unwrap_or(false)
}

/// What a row's checksum is made of.
fn fixed<'a>(row: &'a Row<'_>, container: &'a Name) -> rusqlite::Result<Fixed<'a>> {
    let number = |column| Ok::<_, rusqlite::Error>(row.get_ref(column)?.as_i64()?);
    let schema = row.get_ref(12)?;
    Ok(Fixed {
        position: number(0)?,
        ordinal: number(1)?,
        count: number(2)?,
        at: number(3)?,
        container: container.as_str(),
        partition_key: text(row, 5)?,
        id: text(row, 6)?,
        version: number(7)?,
        op: number(8)?,
        command: blob(row, 9)?,
        fingerprint: blob(row, 10)?,
        verdict: blob(row, 11)?,
        schema: schema.as_i64_or_null()?,
        body: blob(row, 13)?,
        events: blob(row, 14)?,
        expires_at: row.get_ref(16)?.as_i64_or_null()?,
    })
}

fn read(
    row: &Row<'_>,
    partition: Partition,
    container: Name,
    known: &mut Known,
    memory: &mut Memory,
) -> rusqlite::Result<Change> {
    let partition_key =
        PartitionKey::new(text(row, 5)?).map_err(|_| unreadable("a partition key in the log is not one"))?;
    let id = match text(row, 6)? {
        "" => ItemId::from(&partition_key),
        id => ItemId::new(id).map_err(|_| unreadable("an item id in the log is not one"))?,
    };
    let key = ItemKey { container, partition_key, id };
    let at = Timestamp::from_micros(row.get(3)?);
    let mut change = Change::new(partition, position(row.get(0)?)?, at, key, version(row.get(7)?)?);
    (change.ordinal, change.count) = (row.get(1)?, row.get(2)?);
    change.command = mark(row)?;
    change.op = match row.get(8)? {
        KEEP => ChangeOp::Keep,
        PUT => {
            let json = Json::from_stored(memory.copy(blob(row, 13)?.unwrap_or_default()));
            ChangeOp::Put(Body { schema: row.get(12)?, json })
        }
        DELETE => ChangeOp::DELETE,
        EXPIRE => ChangeOp::EXPIRE,
        _ => return Err(unreadable("an operation in the log is unknown")),
    };
    if let Some(frame) = blob(row, 14)? {
        change.events = frame::decode(memory.copy(frame), |name| known.text(name))
            .ok_or_else(|| unreadable("the events of a change are not readable"))?;
    }
    change.expires_at = row.get::<_, Option<i64>>(16)?.map(Timestamp::from_micros);
    Ok(change)
}

/// The command of a row.
fn mark(row: &Row<'_>) -> rusqlite::Result<Option<CommandMark>> {
    let Some(id) = blob(row, 9)? else { return Ok(None) };
    let id = Uuid::from_slice(id).map_err(|_| unreadable("a command id in the log is not one"))?;
    let fingerprint = fingerprint(blob(row, 10)?)?;
    Ok(Some(CommandMark::new(CommandId(id), fingerprint, verdict(row.get(11)?))))
}

pub(crate) fn fingerprint(bytes: Option<&[u8]>) -> rusqlite::Result<Fingerprint> {
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.map(Fingerprint).ok_or_else(|| unreadable("a fingerprint in the log is not one"))
}

pub(crate) fn verdict(reason: Option<String>) -> Verdict {
    reason.map_or(Verdict::Accepted, |reason| Verdict::Rejected { reason })
}

pub(crate) fn text<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<&'a str> {
    row.get_ref(column)?.as_str().map_err(|_| unreadable("a text is not text"))
}

pub(crate) fn blob<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<Option<&'a [u8]>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        ValueRef::Blob(bytes) | ValueRef::Text(bytes) => Ok(Some(bytes)),
        _ => Err(unreadable("a blob is a number")),
    }
}

pub(crate) fn position(number: i64) -> rusqlite::Result<Position> {
    Position::new(uint(number)?).ok_or_else(|| unreadable("a position is zero"))
}

pub(crate) fn version(number: i64) -> rusqlite::Result<Version> {
    Version::new(uint(number)?).ok_or_else(|| unreadable("a version is zero"))
}

/// The number of an optional position, 0 for "before the first".
pub(crate) fn number(position: Option<Position>) -> i64 {
    int(Position::number(position))
}
