//! A commit: conditions first, then one log row and one head row for each write.

use crate::{
    checksum::Fixed,
    engine::StoreEngine,
    fault::{int, unreadable},
    frame,
    log::{self, LogSql},
    operation::{Operation, Wakes},
};
use highwater_core::{
    Batch, CommandId, CommandMark, CommitError, Committed, Decided, ETag, Expect, Found, Op, Partition,
    PartitionKey, StoreInfo, Token, Version, Write, failpoint,
};
use rusqlite::{Connection, OptionalExtension, ToSql};
use std::sync::Arc;

pub(crate) struct Commit {
    batch: Batch,
    partition: Partition,
    weight: usize,
}

impl Commit {
    /// A batch that was checked against the limits.
    pub(crate) fn new(batch: Batch, info: &StoreInfo) -> Self {
        let weight = batch.writes.iter().map(|write| write.size() + 256).sum::<usize>();
        let weight = weight + batch.command.as_ref().map_or(0, |mark| mark.size());
        Self { partition: info.partition_of(&batch.partition_key), batch, weight }
    }

    fn conflict(&self, write: &Write, found: Found) -> CommitError {
        let key = self.batch.key(write);
        match write.expect {
            Expect::Exists => CommitError::NotFound { key },
            expected => CommitError::Conflict { key, expected, found },
        }
    }
}

/// The row of an item in `head`.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(crate) version: Version,
    pub(crate) live: bool,
    pub(crate) position: Option<i64>,
    pub(crate) body_position: Option<i64>,
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
                "SELECT version, live, position, body_position FROM head
                 WHERE container = ?1 AND partition_key = ?2 AND id = ?3",
            )?
            .query_row((container, partition_key, stored_id(partition_key, id)), |row| {
                Ok(Self {
                    version: log::version(row.get(0)?)?,
                    live: row.get(1)?,
                    position: row.get(2)?,
                    body_position: row.get(3)?,
                })
            })
            .optional()
    }

    fn found(head: Option<Self>, etag: impl Fn(Version) -> ETag) -> Found {
        match head {
            None => Found::Nothing,
            Some(head) if head.live => Found::Item(etag(head.version)),
            Some(head) => Found::Gone(etag(head.version)),
        }
    }
}

impl Operation<StoreEngine> for Commit {
    type Output = Committed;
    type Error = CommitError;

    fn kind(&self) -> &'static str {
        "commit"
    }

    fn wakes(&self) -> Wakes {
        Wakes::STORE
    }

    fn run(
        &mut self,
        connection: &Connection,
        engine: &mut StoreEngine,
    ) -> rusqlite::Result<Result<Committed, CommitError>> {
        let partition_key = self.batch.partition_key.as_str();
        let layout = Arc::clone(&engine.layout);
        let sql = layout.log(self.partition)?;
        if let Some(mark) = &self.batch.command
            && !failpoint::sabotaged("mark-not-compared")
            && let Some(decided) = decided(connection, sql, &layout.info, &self.batch.partition_key, mark.id)?
        {
            let same = decided.mark.fingerprint == mark.fingerprint;
            return Ok(if same {
                Ok(Committed::replayed(decided))
            } else {
                Err(CommitError::CommandIdReused { id: mark.id })
            });
        }
        let mut found = Vec::with_capacity(self.batch.writes.len());
        for write in &self.batch.writes {
            let container = engine.container(connection, &write.container)?;
            let head = match container {
                Some(container) => Head::read(connection, container, partition_key, write.id.as_str())?,
                None => None,
            };
            let state = Head::found(head, |version| engine.etag(version));
            if !state.fits(write.expect) && !failpoint::sabotaged("etag-not-compared") {
                return Ok(Err(self.conflict(write, state)));
            }
            found.push(head);
        }
        let count = self.batch.writes.len();
        let end = engine.end(connection, self.partition.0)?;
        let (start, end) = place(connection, sql, end, count)?;
        let mut etags = Vec::with_capacity(count);
        for (ordinal, (write, head)) in self.batch.writes.iter().zip(found).enumerate() {
            let container = match engine.container(connection, &write.container)? {
                Some(container) => container,
                None => engine.add_container(connection, &write.container)?,
            };
            let place =
                Place { ordinal, count, position: start + 1 + ordinal as i64, at: engine.now().as_micros() };
            let mark = self.batch.command.as_ref().filter(|_| ordinal == 0);
            let memory = &mut engine.known.memory;
            let version =
                append(connection, sql, memory, container, partition_key, write, head, place, mark)?;
            etags.push(engine.etag(version));
        }
        engine.advance(self.partition.0, end);
        let last = log::position(start + count as i64)?;
        let token = layout.info.token(self.partition, last);
        let verdict = self.batch.command.as_ref().map(|mark| mark.verdict.clone());
        Ok(Ok(Committed::new(token, etags, verdict)))
    }

    fn resolve(
        &mut self,
        connection: &Connection,
        engine: &mut StoreEngine,
    ) -> rusqlite::Result<Option<Committed>> {
        let Some(mark) = &self.batch.command else { return Ok(None) };
        let layout = &engine.layout;
        let sql = layout.log(self.partition)?;
        let found = decided(connection, sql, &layout.info, &self.batch.partition_key, mark.id)?;
        let ours = found.filter(|decided| decided.mark.fingerprint == mark.fingerprint);
        Ok(ours.map(|decided| Committed::new(decided.token, decided.etags, Some(decided.mark.verdict))))
    }

    fn weight(&self) -> usize {
        self.weight
    }
}

/// The id as a column holds it: many items are alone under their partition key and have its name, and that is not
/// stored twice.
fn stored_id<'a>(partition_key: &str, id: &'a str) -> &'a str {
    if id == partition_key { "" } else { id }
}

/// The position before the first of a commit, and the log's last one afterwards, if it was `end` so far.
fn place(connection: &Connection, sql: &LogSql, end: i64, count: usize) -> rusqlite::Result<(i64, i64)> {
    let count = count as i64;
    if failpoint::sabotaged("late-arrival") && count <= 2 && end > 0 {
        // Room for two is left before every commit, and taken by the next.
        let mut at = connection.prepare_cached(&sql.at)?;
        let ordinal: i64 = at.query_row([end], |row| row.get(1))?;
        let room = end - ordinal - 3;
        let taken = room < 0 || at.exists([room + 1])? || at.exists([room + 2])?;
        return Ok(if taken { (end + 2, end + 2 + count) } else { (room, end) });
    }
    Ok((end, end + count))
}

/// Where a row goes in its log and in its commit.
#[derive(Clone, Copy)]
struct Place {
    ordinal: usize,
    count: usize,
    position: i64,
    at: i64,
}

/// Writes the log row and the head row of one write.
#[allow(clippy::too_many_arguments)]
fn append(
    connection: &Connection,
    sql: &LogSql,
    memory: &mut Vec<u8>,
    container: i64,
    partition_key: &str,
    write: &Write,
    head: Option<Head>,
    place: Place,
    mark: Option<&CommandMark>,
) -> rusqlite::Result<Version> {
    let id = stored_id(partition_key, write.id.as_str());
    let number = head.map_or(1, |head| head.version.get() + 1);
    let version = Version::new(number).ok_or_else(|| unreadable("a version is zero"))?;
    let (op, body) = match &write.op {
        Op::Put(body) => (log::PUT, Some(body)),
        Op::Keep => (log::KEEP, None),
        Op::Delete => (log::DELETE, None),
        _ => return Err(unreadable("an operation of the batch is unknown")),
    };
    let events = if write.events.is_empty() {
        None
    } else {
        Some(frame::encode(&write.events).ok_or_else(|| unreadable("an event has a name that is too long"))?)
    };
    // A rejection leaves the item as it is; nothing but its version moves.
    let means_something = op != log::KEEP || events.is_some();
    let latest = head.and_then(|head| head.position);
    let previous = if means_something { latest } else { None };
    let (command, fingerprint) =
        (mark.map(|mark| mark.id.0.into_bytes()), mark.map(|mark| mark.fingerprint.0));
    let verdict = mark.and_then(|mark| match &mark.verdict {
        highwater_core::Verdict::Accepted => None,
        highwater_core::Verdict::Rejected { reason } => Some(reason.as_str()),
    });
    let (schema, json) = (body.map(|body| body.schema), body.map(|body| body.json.as_bytes()));
    let fixed = Fixed {
        position: place.position,
        ordinal: place.ordinal as i64,
        count: place.count as i64,
        at: place.at,
        container: write.container.as_str(),
        partition_key,
        id,
        version: int(number),
        op,
        command: command.as_ref().map(<[u8; 16]>::as_slice),
        fingerprint: fingerprint.as_ref().map(<[u8; 16]>::as_slice),
        verdict: verdict.map(str::as_bytes),
        schema: schema.map(i64::from),
        body: json,
        events: events.as_deref(),
    };
    let checksum = fixed.checksum(memory);
    let parameters: [&dyn ToSql; 17] = [
        &place.position,
        &(place.ordinal as i64),
        &(place.count as i64),
        &place.at,
        &container,
        &partition_key,
        &id,
        &int(number),
        &op,
        &command,
        &fingerprint,
        &verdict,
        &schema,
        &json,
        &events,
        &checksum,
        &previous,
    ];
    connection.prepare_cached(&sql.insert)?.execute(parameters)?;
    if let Some(mark) = mark {
        connection.prepare_cached(&sql.mark)?.execute((mark.id.0.into_bytes(), place.position))?;
    }
    let (live, body_position) = match op {
        log::PUT => (true, Some(place.position)),
        log::DELETE => (false, None),
        _ => {
            (head.is_some_and(|head| head.live) || means_something, head.and_then(|head| head.body_position))
        }
    };
    let position = if means_something { Some(place.position) } else { latest };
    let sql = if head.is_some() {
        "UPDATE head SET version = ?4, live = ?5, position = ?6, body_position = ?7
         WHERE container = ?1 AND partition_key = ?2 AND id = ?3"
    } else {
        "INSERT INTO head (container, partition_key, id, version, live, position, body_position)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"
    };
    connection.prepare_cached(sql)?.execute((
        container,
        partition_key,
        id,
        int(number),
        live,
        position,
        body_position,
    ))?;
    Ok(version)
}

/// How a command was decided.
pub(crate) fn decided(
    connection: &Connection,
    sql: &LogSql,
    info: &StoreInfo,
    key: &PartitionKey,
    command: CommandId,
) -> rusqlite::Result<Option<Decided>> {
    let row = connection
        .prepare_cached(&sql.by_command)?
        .query_row((command.0.into_bytes(), key.as_str()), |row| {
            let fingerprint = log::fingerprint(log::blob(row, 2)?)?;
            let mark = CommandMark::new(command, fingerprint, log::verdict(row.get(3)?));
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, mark))
        })
        .optional()?;
    let Some((first, count, mark)) = row else { return Ok(None) };
    let mut statement = connection.prepare_cached(&sql.versions)?;
    let etags = statement
        .query_map([first, count], |row| Ok(ETag { epoch: info.epoch, version: log::version(row.get(0)?)? }))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let token: Token = info.token(sql.partition, log::position(first + count - 1)?);
    Ok(Some(Decided::new(mark, log::position(first)?, token, etags)))
}
