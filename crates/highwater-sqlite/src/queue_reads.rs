//! Queues: what can be looked at without taking anything.

use crate::{
    fault::{int, uint},
    queue::message,
};
use highwater_core::{Depth, Message, Timestamp};
use rusqlite::Connection;

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

pub(crate) fn depth(connection: &Connection, queue: i64, now: i64) -> rusqlite::Result<Depth> {
    let mut depth = Depth::default();
    let mut statement = connection.prepare_cached(
        "SELECT count(*) FILTER (WHERE visible_at <= ?2),
                count(*) FILTER (WHERE visible_at > ?2 AND dequeue_count > 0),
                count(*) FILTER (WHERE visible_at > ?2 AND dequeue_count = 0),
                min(visible_at) FILTER (WHERE visible_at <= ?2)
         FROM message WHERE queue = ?1 AND (expires_at IS NULL OR expires_at > ?2)",
    )?;
    let (visible, in_flight, delayed, oldest): (i64, i64, i64, Option<i64>) =
        statement.query_row((queue, now), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
    let parked: i64 = connection
        .prepare_cached("SELECT count(*) FROM parked WHERE queue = ?1")?
        .query_row([queue], |row| row.get(0))?;
    (depth.visible, depth.in_flight) = (uint(visible)?, uint(in_flight)?);
    (depth.delayed, depth.parked) = (uint(delayed)?, uint(parked)?);
    depth.oldest_visible = oldest.map(Timestamp::from_micros);
    Ok(depth)
}
