//! What a store forgets in time: items, cells and messages whose time to live has passed, and what is older than the
//! horizon: ids of messages with the cells put with them, and commands.
//!
//! Everything is found through an index and removed in small pieces, in transactions of their own between the groups
//! of the writer. Nobody has to wait for it: whatever is due counts as gone before it is swept.

use crate::{
    append::{Entry, Head, Item, Place, append},
    cells::{self, Written},
    engine::StoreEngine,
    fault::unreadable,
    log::{self, LogSql},
    moment::earlier,
    operation::{Operation, Task, Wakes},
    poison,
    writer::Chore,
};
use highwater_core::{EngineError, MessageId, Partition, PartitionKey};
use rusqlite::{Connection, OptionalExtension};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;
use uuid::Uuid;

/// Rows that one step looks at.
const STEP: i64 = 32;

/// No step begins later than this after the first: with the last one, a transaction holds the lock for less than 5 ms.
const SHARE: Duration = Duration::from_millis(2);

/// After this time the sweeper looks again, in microseconds of the store's time: another process may have written what
/// expires and may be gone.
const LOOK_AGAIN: i64 = 60 * 1_000_000;

/// After this time the ids of messages are looked at from the beginning again: those whose messages were still there
/// are forgotten later than others, by this much at most.
const ROUND: i64 = 24 * 60 * 60 * 1_000_000;

/// What a writer knows of what is due.
pub(crate) struct Sweeps {
    /// Nothing is due before this moment, as far as this process knows.
    next: i64,
    /// The last row of `remembered` that was looked at, and when this round through the table began.
    seq: i64,
    began: Option<i64>,
    /// The partition whose commands are looked at first.
    partition: u16,
}

impl Default for Sweeps {
    fn default() -> Self {
        Self { next: i64::MIN, seq: 0, began: None, partition: 0 }
    }
}

impl Sweeps {
    /// Something will be due at this moment.
    pub(crate) fn note(&mut self, at: Option<i64>) {
        self.next = at.map_or(self.next, |at| self.next.min(at));
    }
}

/// A sweep, if anything is due. Looks only when something may be, and outside of any transaction.
pub(crate) fn chore(
    connection: &Connection,
    engine: &mut StoreEngine,
) -> rusqlite::Result<Option<Chore<StoreEngine>>> {
    let now = engine.clock_now();
    if now < engine.sweeps.next {
        return Ok(None);
    }
    let due = due(connection, engine)?;
    engine.sweeps.next = due.min(now.saturating_add(LOOK_AGAIN));
    if due > now {
        return Ok(None);
    }
    let (reply, mut answer) = oneshot::channel::<Result<Swept, EngineError>>();
    let done = move || {
        let swept = answer.try_recv().ok()?.ok()?;
        swept.record();
        Some(swept.more)
    };
    Ok(Some(Chore { member: Box::new(Task::new(Sweep::default(), reply)), done: Box::new(done) }))
}

/// The first moment at which something is due.
fn due(connection: &Connection, engine: &StoreEngine) -> rusqlite::Result<i64> {
    let mut first = i64::MAX;
    for sql in [
        "SELECT min(expires_at) FROM head WHERE expires_at IS NOT NULL",
        "SELECT min(expires_at) FROM cell WHERE expires_at IS NOT NULL",
        "SELECT min(expires_at) FROM message WHERE expires_at IS NOT NULL",
    ] {
        let at: Option<i64> = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        first = first.min(at.unwrap_or(i64::MAX));
    }
    let Some(horizon) = engine.horizon else { return Ok(first) };
    let horizon = i64::try_from(horizon.as_micros()).unwrap_or(i64::MAX);
    first = first.min(ids_due(connection, &engine.sweeps, horizon)?);
    for partition in Partition::all(engine.layout.info.partitions) {
        let next = next_mark(connection, engine.layout.log(partition)?)?;
        first = first.min(next.map_or(i64::MAX, |at| at.saturating_add(horizon)));
    }
    Ok(first)
}

/// When the next id of a message may be forgotten.
fn ids_due(connection: &Connection, sweeps: &Sweeps, horizon: i64) -> rusqlite::Result<i64> {
    // The newest row stays, so that its number is not given again behind the sweeper's back.
    let put_at: Option<i64> = connection
        .prepare_cached(
            "SELECT put_at FROM remembered WHERE seq > ?1 AND seq < (SELECT max(seq) FROM remembered)
             ORDER BY seq LIMIT 1",
        )?
        .query_row([sweeps.seq], |row| row.get(0))
        .optional()?;
    let next = put_at.map_or(i64::MAX, |put_at| put_at.saturating_add(horizon));
    let round = sweeps.began.filter(|_| sweeps.seq > 0).map_or(i64::MAX, |began| began.saturating_add(ROUND));
    Ok(next.min(round))
}

/// When the first change was committed whose command was not looked at yet.
fn next_mark(connection: &Connection, sql: &LogSql) -> rusqlite::Result<Option<i64>> {
    let mut statement = connection.prepare_cached(&sql.marks)?;
    statement.query_row([forgotten(connection, sql)?, 1], |row| row.get(1)).optional()
}

fn forgotten(connection: &Connection, sql: &LogSql) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT forgotten FROM partition WHERE partition = ?1")?
        .query_row([sql.partition.0], |row| row.get(0))
}

/// How many rows of each kind were swept.
#[derive(Default, Clone, Copy)]
pub(crate) struct Swept {
    items: usize,
    cells: usize,
    messages: usize,
    ids: usize,
    commands: usize,
    /// True if more is due.
    more: bool,
}

impl Swept {
    fn record(self) {
        let Self { items, cells, messages, ids, commands, .. } = self;
        for (what, rows) in
            [("items", items), ("cells", cells), ("messages", messages), ("ids", ids), ("commands", commands)]
        {
            if rows > 0 {
                metrics::counter!("highwater_sqlite_swept_total", "what" => what).increment(rows as u64);
            }
        }
    }
}

/// One transaction's worth of sweeping.
#[derive(Default)]
struct Sweep {
    expired: bool,
}

impl Operation<StoreEngine> for Sweep {
    type Output = Swept;
    type Error = EngineError;

    fn kind(&self) -> &'static str {
        "sweep"
    }

    fn wakes(&self) -> Wakes {
        if self.expired { Wakes::STORE } else { Wakes::NOBODY }
    }

    fn run(
        &mut self,
        connection: &Connection,
        engine: &mut StoreEngine,
    ) -> rusqlite::Result<Result<Swept, EngineError>> {
        let (started, now) = (Instant::now(), engine.now().as_micros());
        let horizon = engine.horizon.map(|horizon| earlier(now, horizon));
        let mut swept = Swept::default();
        loop {
            let items = items(connection, engine, now)?;
            let cells = cells::sweep(connection, now, STEP)?;
            let messages = messages(connection, engine, now)?;
            swept.items += items;
            swept.cells += cells;
            swept.messages += messages;
            swept.more = [items, cells, messages].into_iter().any(is_full);
            if let Some(horizon) = horizon {
                let (looked, gone) = ids(connection, engine, now, horizon)?;
                swept.ids += gone;
                swept.more |= is_full(looked);
                let (looked, gone) = commands(connection, engine, horizon)?;
                swept.commands += gone;
                swept.more |= looked > 0;
            }
            if !swept.more || started.elapsed() > SHARE {
                self.expired = swept.items > 0;
                return Ok(Ok(swept));
            }
        }
    }
}

fn is_full(rows: usize) -> bool {
    i64::try_from(rows).is_ok_and(|rows| rows >= STEP)
}

/// Writes the expiries of some items.
fn items(connection: &Connection, engine: &mut StoreEngine, now: i64) -> rusqlite::Result<usize> {
    let mut statement = connection.prepare_cached(
        "SELECT container, partition_key, id FROM head WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2",
    )?;
    let due = statement
        .query_map([now, STEP], |row| {
            let (partition_key, id): (String, String) = (row.get(1)?, row.get(2)?);
            let id = if id.is_empty() { partition_key.clone() } else { id };
            Ok((row.get::<_, i64>(0)?, partition_key, id))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let layout = Arc::clone(&engine.layout);
    for (container, partition_key, id) in &due {
        let key = PartitionKey::new(partition_key);
        let key = key.map_err(|_| unreadable("a partition key of an item is not one"))?;
        let sql = layout.log_of(&key)?;
        let name = engine.known.container(connection, *container)?;
        let item = Item { container: *container, name: name.as_str(), partition_key, id };
        let head = Head::read(connection, *container, partition_key, id)?;
        let end = engine.end(connection, sql.partition.0)? + 1;
        let place = Place { ordinal: 0, count: 1, position: end, at: engine.now() };
        append(connection, sql, &mut engine.known.memory, item, head, &Entry::expiry(), place)?;
        engine.advance(sql.partition.0, end);
    }
    Ok(due.len())
}

fn messages(connection: &Connection, engine: &mut StoreEngine, now: i64) -> rusqlite::Result<usize> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM message WHERE seq IN
            (SELECT seq FROM message WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2) RETURNING queue",
    )?;
    let mut queues = statement.query([now, STEP])?;
    let mut swept = 0;
    while let Some(row) = queues.next()? {
        engine.depths.add(connection, row.get(0)?, -1)?;
        swept += 1;
    }
    Ok(swept)
}

/// Forgets some ids whose messages are neither in their queue nor in its poison queue. Returns how many were looked at
/// and how many were forgotten.
fn ids(
    connection: &Connection,
    engine: &mut StoreEngine,
    now: i64,
    horizon: i64,
) -> rusqlite::Result<(usize, usize)> {
    let sweeps = &mut engine.sweeps;
    let began = *sweeps.began.get_or_insert(now);
    if sweeps.seq > 0 && now.saturating_sub(began) >= ROUND {
        (sweeps.seq, sweeps.began) = (0, Some(now));
    }
    let mut statement = connection.prepare_cached(
        "SELECT seq, queue, id, put_at, EXISTS (SELECT 1 FROM message WHERE message.seq = remembered.seq)
         FROM remembered WHERE seq > ?1 AND seq < (SELECT max(seq) FROM remembered) ORDER BY seq LIMIT ?2",
    )?;
    let mut rows = statement.query([engine.sweeps.seq, STEP])?;
    let (mut looked, mut gone) = (0, Vec::new());
    while let Some(row) = rows.next()? {
        let (seq, queue, id): (i64, i64, [u8; 16]) = (row.get(0)?, row.get(1)?, row.get(2)?);
        // Rows stand in the order of their putting.
        if row.get::<_, i64>(3)? >= horizon {
            break;
        }
        (looked, engine.sweeps.seq) = (looked + 1, seq);
        let id = MessageId(Uuid::from_bytes(id));
        if !row.get::<_, bool>(4)? && poison::parked_row(connection, queue, id)?.is_none() {
            gone.push((seq, id));
        }
    }
    for (seq, id) in &gone {
        forget_id(connection, *seq)?;
        forget_command(connection, engine, *id, horizon)?;
    }
    Ok((looked, gone.len()))
}

/// Forgets the id of a message, and the cell that was put with it.
fn forget_id(connection: &Connection, seq: i64) -> rusqlite::Result<()> {
    let cell: (Option<i64>, Option<i64>) = connection
        .prepare_cached("DELETE FROM remembered WHERE seq = ?1 RETURNING cell, cell_first")?
        .query_row([seq], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if let (Some(seq), Some(first)) = cell {
        cells::remove(connection, Written { seq, first })?;
    }
    Ok(())
}

/// Forgets a command that is older than the horizon and was passed because its message was still there.
pub(crate) fn forget_command(
    connection: &Connection,
    engine: &StoreEngine,
    id: MessageId,
    horizon: i64,
) -> rusqlite::Result<()> {
    let mut statement =
        connection.prepare_cached("SELECT partition, position FROM mark WHERE command = ?1")?;
    let found = statement
        .query_map([id.0.into_bytes()], |row| Ok((Partition(row.get(0)?), row.get::<_, i64>(1)?)))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    for (partition, position) in found {
        let at: Option<i64> = connection
            .prepare_cached(&engine.layout.log(partition)?.moment)?
            .query_row([position], |row| row.get(1))
            .optional()?;
        if at.is_none_or(|at| at < horizon) {
            remove_command(connection, &id.0.into_bytes(), partition, position)?;
        }
    }
    Ok(())
}

fn remove_command(
    connection: &Connection,
    id: &[u8],
    partition: Partition,
    position: i64,
) -> rusqlite::Result<usize> {
    connection
        .prepare_cached("DELETE FROM mark WHERE command = ?1 AND partition = ?2 AND position = ?3")?
        .execute((id, partition.0, position))
}

/// Forgets some commands of one partition. Returns how many changes were looked at and how many commands forgotten.
fn commands(
    connection: &Connection,
    engine: &mut StoreEngine,
    horizon: i64,
) -> rusqlite::Result<(usize, usize)> {
    let partitions = engine.layout.info.partitions.max(1);
    let layout = Arc::clone(&engine.layout);
    for step in 0..partitions {
        let partition = Partition(engine.sweeps.partition.wrapping_add(step) % partitions);
        let (looked, gone) = commands_of(connection, layout.log(partition)?, horizon)?;
        if looked > 0 {
            engine.sweeps.partition = partition.0.wrapping_add(1) % partitions;
            return Ok((looked, gone));
        }
    }
    Ok((0, 0))
}

fn commands_of(connection: &Connection, sql: &LogSql, horizon: i64) -> rusqlite::Result<(usize, usize)> {
    let mut statement = connection.prepare_cached(&sql.marks)?;
    let mut rows = statement.query([forgotten(connection, sql)?, STEP])?;
    let (mut looked, mut last, mut gone) = (0, 0, 0);
    while let Some(row) = rows.next()? {
        // Times rise with positions.
        if row.get::<_, i64>(1)? >= horizon {
            break;
        }
        (looked, last) = (looked + 1, row.get(0)?);
        let Some(id) = log::blob(row, 2)? else { continue };
        if !has_message(connection, id)? {
            gone += remove_command(connection, id, sql.partition, last)?;
        }
    }
    if looked > 0 {
        connection
            .prepare_cached("UPDATE partition SET forgotten = ?2 WHERE partition = ?1")?
            .execute((sql.partition.0, last))?;
    }
    Ok((looked, gone))
}

/// Whether a command's message lies in a queue or a poison queue: it may be taken once more and must then find its
/// verdict.
fn has_message(connection: &Connection, id: &[u8]) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM queue CROSS JOIN remembered AS r ON r.queue = queue.id AND r.id = ?1
                            CROSS JOIN message AS m ON m.seq = r.seq)
                 OR EXISTS (SELECT 1 FROM queue CROSS JOIN parked AS p ON p.queue = queue.id AND p.id = ?1)",
        )?
        .query_row([id], |row| row.get(0))
}
