//! Queues: what can be looked at without taking anything.

use crate::{
    depths::stored,
    fault::{int, uint},
    queue::{expired, message},
};
use highwater_core::{Depth, Message, MessageId, Timestamp};
use rusqlite::{Connection, OptionalExtension};

pub(crate) fn peek(
    connection: &Connection,
    queue: i64,
    now: i64,
    max: usize,
) -> rusqlite::Result<Vec<Message>> {
    let mut statement = connection.prepare_cached(
        "SELECT id, body, put_at, visible_at, dequeue_count, history FROM message
         WHERE queue = ?1 AND visible_at <= ?2 AND (expires_at IS NULL OR expires_at > ?2)
         ORDER BY visible_at, seq LIMIT ?3",
    )?;
    statement.query_map((queue, now, int(max as u64)), |row| message(row, 0))?.collect()
}

/// One message, visible or not.
pub(crate) fn one(
    connection: &Connection,
    queue: i64,
    id: MessageId,
    now: i64,
) -> rusqlite::Result<Option<Message>> {
    connection
        .prepare_cached(
            "SELECT m.id, m.body, m.put_at, m.visible_at, m.dequeue_count, m.history
             FROM remembered AS r JOIN message AS m ON m.seq = r.seq
             WHERE r.queue = ?1 AND r.id = ?2 AND (m.expires_at IS NULL OR m.expires_at > ?3)",
        )?
        .query_row((queue, id.0.into_bytes(), now), |row| message(row, 0))
        .optional()
}

/// Counts a queue. What is visible is what is left of the stored count, so the time it takes grows with what is
/// invisible and with what waits for the sweeper, not with a backlog.
pub(crate) fn depth(connection: &Connection, queue: i64, now: i64) -> rusqlite::Result<Depth> {
    let mut depth = Depth::default();
    let mut statement = connection.prepare_cached(
        "SELECT count(*) FILTER (WHERE dequeue_count > 0), count(*) FILTER (WHERE dequeue_count = 0)
         FROM message WHERE queue = ?1 AND visible_at > ?2",
    )?;
    let (in_flight, delayed): (i64, i64) =
        statement.query_row((queue, now), |row| Ok((row.get(0)?, row.get(1)?)))?;
    // A message that was taken never expires.
    let expired_delayed: i64 = connection
        .prepare_cached(
            "SELECT count(*) FROM message WHERE expires_at <= ?2 AND queue = ?1 AND visible_at > ?2",
        )?
        .query_row((queue, now), |row| row.get(0))?;
    let expired = expired(connection, queue, now)?;
    let oldest: Option<i64> = connection
        .prepare_cached(
            "SELECT visible_at FROM message
             WHERE queue = ?1 AND visible_at <= ?2 AND (expires_at IS NULL OR expires_at > ?2)
             ORDER BY visible_at LIMIT 1",
        )?
        .query_row((queue, now), |row| row.get(0))
        .optional()?;
    let parked: i64 = connection
        .prepare_cached("SELECT count(*) FROM parked WHERE queue = ?1")?
        .query_row([queue], |row| row.get(0))?;
    let visible = stored(connection, queue)? - in_flight - delayed - (expired - expired_delayed);
    (depth.visible, depth.in_flight) = (uint(visible)?, uint(in_flight)?);
    (depth.delayed, depth.parked) = (uint(delayed - expired_delayed)?, uint(parked)?);
    depth.oldest_visible = oldest.map(Timestamp::from_micros);
    Ok(depth)
}
