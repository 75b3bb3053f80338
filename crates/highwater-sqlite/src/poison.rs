//! Poison queues: messages that somebody has to look at.

use crate::{
    engine::StoreEngine,
    fault::{int, unreadable},
    moment::{earlier, later},
    queue::{COLUMNS, Held, decode, encode, held, history, message, next_delivery, remove},
    sweep,
};
use highwater_core::{MessageId, Name, Parked, Parking, Receipt, ReceiptError, ReplayError, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row};

pub(crate) fn park(
    connection: &Connection,
    engine: &mut StoreEngine,
    receipt: &Receipt,
    parking: &Parking,
) -> rusqlite::Result<Result<(), ReceiptError>> {
    let Held { seq, queue, delivery, message } = match held(connection, engine, receipt)? {
        Ok(held) => held,
        Err(error) => return Ok(Err(error)),
    };
    connection
        .prepare_cached(
            "INSERT INTO parked (queue, id, body, put_at, visible_at, dequeue_count, delivery, history, parking,
                parked_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute((
            queue,
            message.id.0.into_bytes(),
            &message.body[..],
            message.put_at.as_micros(),
            message.visible_at.as_micros(),
            message.dequeue_count,
            delivery,
            history(&message.history)?,
            encode(&parking.clone().bounded())?,
            engine.now().as_micros(),
        ))?;
    remove(connection, engine, queue, seq).map(Ok)
}

fn parked_from(row: &Row<'_>) -> rusqlite::Result<Parked> {
    let parking: String = row.get(6)?;
    Ok(Parked::new(message(row, 0)?, decode(&parking)?, Timestamp::from_micros(row.get(7)?)))
}

/// A parked message and its last delivery.
pub(crate) fn parked_row(
    connection: &Connection,
    queue: i64,
    id: MessageId,
) -> rusqlite::Result<Option<(Parked, i64)>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS}, parking, parked_at, delivery FROM parked WHERE queue = ?1 AND id = ?2"
        ))?
        .query_row((queue, id.0.into_bytes()), |row| Ok((parked_from(row)?, row.get(8)?)))
        .optional()
}

pub(crate) fn parked_after(
    connection: &Connection,
    queue: i64,
    after: Option<MessageId>,
    max: usize,
) -> rusqlite::Result<Vec<Parked>> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS}, parking, parked_at FROM parked WHERE queue = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
    ))?;
    // An empty blob is before every id.
    let after = after.map_or(Vec::new(), |id| id.0.as_bytes().to_vec());
    statement.query_map((queue, after, int(max as u64)), parked_from)?.collect()
}

pub(crate) fn replay(
    connection: &Connection,
    engine: &mut StoreEngine,
    queue: &Name,
    id: MessageId,
) -> rusqlite::Result<Result<(), ReplayError>> {
    let number = engine.queue(connection, queue)?;
    let found = match number {
        Some(number) => parked_row(connection, number, id)?.map(|found| (number, found)),
        None => None,
    };
    let Some((number, (parked, delivery))) = found else {
        return Ok(Err(ReplayError::NotParked { queue: queue.clone(), message: id }));
    };
    let now = engine.now();
    let message = parked.replayed(now);
    let seq: i64 = connection
        .prepare_cached("SELECT seq FROM remembered WHERE queue = ?1 AND id = ?2")?
        .query_row((number, id.0.into_bytes()), |row| row.get(0))
        .optional()?
        .ok_or_else(|| unreadable("a parked message is not remembered"))?;
    connection
        .prepare_cached(
            "INSERT INTO message
                (seq, queue, id, body, put_at, visible_at, expires_at, dequeue_count, delivery, history)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, NULL, ?7, ?8, ?9)",
        )?
        .execute((
            seq,
            number,
            id.0.into_bytes(),
            &message.body[..],
            message.put_at.as_micros(),
            message.visible_at.as_micros(),
            message.dequeue_count,
            next_delivery(delivery, now),
            history(&message.history)?,
        ))?;
    engine.depths.add(connection, number, 1)?;
    unpark(connection, number, id)?;
    Ok(Ok(()))
}

fn unpark(connection: &Connection, queue: i64, id: MessageId) -> rusqlite::Result<usize> {
    connection
        .prepare_cached("DELETE FROM parked WHERE queue = ?1 AND id = ?2")?
        .execute((queue, id.0.into_bytes()))
}

pub(crate) fn discard(
    connection: &Connection,
    engine: &mut StoreEngine,
    queue: &Name,
    id: MessageId,
) -> rusqlite::Result<Result<(), ReplayError>> {
    let number = engine.queue(connection, queue)?;
    let removed = match number {
        Some(number) => unpark(connection, number, id)?,
        None => 0,
    };
    if let Some(number) = number.filter(|_| removed > 0) {
        let cell: Option<(Option<i64>, Option<i64>)> = connection
            .prepare_cached("DELETE FROM remembered WHERE queue = ?1 AND id = ?2 RETURNING cell, cell_first")?
            .query_row((number, id.0.into_bytes()), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some(horizon) = engine.horizon {
            // Nothing is left that they could be forgotten with later.
            let expires_at = later(engine.now(), horizon);
            let (seq, first) = cell.unwrap_or_default();
            connection
                .prepare_cached(
                    "UPDATE cell SET expires_at = coalesce(expires_at, ?3) WHERE seq = ?1 AND first = ?2",
                )?
                .execute((seq, first, expires_at))?;
            engine.sweeps.note(Some(expires_at));
            sweep::forget_command(connection, engine, id, earlier(engine.now().as_micros(), horizon))?;
        }
    }
    let not_parked = || ReplayError::NotParked { queue: queue.clone(), message: id };
    Ok(if removed == 0 { Err(not_parked()) } else { Ok(()) })
}
