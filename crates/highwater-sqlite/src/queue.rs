//! Queues: what happens to messages, inside a transaction of the writer.

use crate::{cells, engine::StoreEngine, fault::int, moment::later};
use bytes::Bytes;
use highwater_core::{
    Attempt, CellError, CellWrite, Delivery, Expect, GetError, Limits, Message, MessageId, Name, NewMessage,
    Put, PutError, Receipt, ReceiptError, Timestamp, Update,
};
use rusqlite::{Connection, OptionalExtension, Row, types::Type};
use std::{borrow::Cow, time::Duration};
use uuid::Uuid;

/// Columns of a message, in `message` and in `parked`.
pub(crate) const COLUMNS: &str = "id, body, put_at, visible_at, dequeue_count, history";

/// The shortest visibility and the shortest life.
const SHORTEST: Duration = Duration::from_secs(1);

const BODY: &str = "bytes of a message";
const VISIBILITY: &str = "the visibility time-out";

/// From the shortest to the longest time, in words.
fn range(shortest: &str, longest: Duration) -> Cow<'static, str> {
    let seconds = longest.as_secs();
    let longest = if seconds.is_multiple_of(86_400) {
        format!("{} days", seconds / 86_400)
    } else {
        format!("{seconds} seconds")
    };
    format!("between {shortest} and {longest}").into()
}

pub(crate) fn check_put(message: &NewMessage, limits: &Limits) -> Result<(), PutError> {
    let (size, limit) = (message.body.len(), limits.message_bytes);
    if size > limit {
        return Err(PutError::TooLarge { what: BODY.into(), size, limit });
    }
    if message.delay > limits.longest_delay {
        let range = range("0 seconds", limits.longest_delay);
        return Err(PutError::OutOfRange { what: "the delay of a message".into(), range });
    }
    if message.time_to_live.is_some_and(|span| span < SHORTEST) {
        let (what, range) = ("the time to live of a message".into(), "at least 1 second".into());
        return Err(PutError::OutOfRange { what, range });
    }
    match message.cell.as_ref().map(|(key, value)| cells::check(key, value, limits)) {
        Some(Err(CellError::TooLarge { what, size, limit })) => Err(PutError::TooLarge { what, size, limit }),
        _ => Ok(()),
    }
}

pub(crate) fn check_get(max: usize, visibility: Option<Duration>, limits: &Limits) -> Result<(), GetError> {
    if max == 0 || max > limits.messages_per_get {
        let range = format!("between 1 and {}", limits.messages_per_get).into();
        return Err(GetError::OutOfRange { what: "the number of messages".into(), range });
    }
    let longest = limits.longest_delay;
    if visibility.is_some_and(|span| span < SHORTEST || span > longest) {
        return Err(GetError::OutOfRange { what: VISIBILITY.into(), range: range("1 second", longest) });
    }
    Ok(())
}

pub(crate) fn check_update(update: &Update, limits: &Limits) -> Result<(), ReceiptError> {
    if update.visible_in > limits.longest_delay {
        let range = range("0 seconds", limits.longest_delay);
        return Err(ReceiptError::OutOfRange { what: VISIBILITY.into(), range });
    }
    let limit = limits.message_bytes;
    match update.body.as_ref().map(Bytes::len).filter(|size| *size > limit) {
        Some(size) => Err(ReceiptError::TooLarge { what: BODY.into(), size, limit }),
        None => Ok(()),
    }
}

fn message_id(row: &Row<'_>, column: usize) -> rusqlite::Result<MessageId> {
    let bytes: [u8; 16] = row.get(column)?;
    Ok(MessageId(Uuid::from_bytes(bytes)))
}

/// The message whose columns begin at `first`.
pub(crate) fn message(row: &Row<'_>, first: usize) -> rusqlite::Result<Message> {
    let moment = |column| Ok::<_, rusqlite::Error>(Timestamp::from_micros(row.get(column)?));
    let body = Bytes::from(row.get::<_, Vec<u8>>(first + 1)?);
    let mut message = Message::new(message_id(row, first)?, body, moment(first + 2)?, moment(first + 3)?);
    message.dequeue_count = row.get(first + 4)?;
    if let Some(history) = row.get::<_, Option<String>>(first + 5)? {
        message.history = decode(&history)?;
    }
    Ok(message)
}

pub(crate) fn decode<T: serde::de::DeserializeOwned>(text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error)))
}

pub(crate) fn encode(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

pub(crate) fn history(attempts: &[Attempt]) -> rusqlite::Result<Option<String>> {
    if attempts.is_empty() { Ok(None) } else { encode(&attempts).map(Some) }
}

/// The number of a delivery that comes after `last`. It is never below the time, so that a message whose id was
/// forgotten and put again does not accept receipts of its former life.
pub(crate) fn next_delivery(last: i64, now: Timestamp) -> i64 {
    now.as_micros().max(last + 1)
}

/// The receipt for a delivery: its number, as text.
fn receipt(queue: &Name, message: MessageId, delivery: i64) -> Receipt {
    Receipt::new(queue.clone(), message, delivery.to_string())
}

pub(crate) fn put(
    connection: &Connection,
    engine: &mut StoreEngine,
    queue: &Name,
    new: &NewMessage,
) -> rusqlite::Result<Result<Put, PutError>> {
    let mut cell = None;
    if let Some((key, _)) = &new.cell
        && let Some(found) = cells::read(connection, &engine.layout.info, key, engine.now())?
    {
        return Ok(Err(PutError::CellConflict { found: Box::new(found) }));
    }
    // Before anything is written.
    if let Some(limit) = new.depth_limit
        && is_full(connection, engine, queue, new.id, limit)?
    {
        return Ok(Err(PutError::Full { queue: queue.clone(), limit }));
    }
    if let Some((key, value)) = &new.cell {
        let write = CellWrite::new(key.clone(), Expect::Absent, value.clone());
        cell = cells::write_row(connection, engine, &write)?.ok().map(|(cell, _)| cell);
    }
    let number = match engine.queue(connection, queue)? {
        Some(number) => number,
        None => engine.add_queue(connection, queue)?,
    };
    let (id, now) = (new.id.0.into_bytes(), engine.now());
    if let Some(visible_at) = remembered_visibility(connection, number, new.id)? {
        if let Some(cell) = cell {
            connection
                .prepare_cached(
                    "UPDATE remembered SET cell = ?3, cell_first = ?4 WHERE queue = ?1 AND id = ?2",
                )?
                .execute((number, id, cell.seq, cell.first))?;
        }
        return Ok(Ok(Put::new(None, Timestamp::from_micros(visible_at))));
    }
    let visible_at = later(now, new.delay);
    connection
        .prepare_cached(
            "INSERT INTO remembered (queue, id, put_at, visible_at, cell, cell_first)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute((
            number,
            id,
            now.as_micros(),
            visible_at,
            cell.as_ref().map(|cell| cell.seq),
            cell.as_ref().map(|cell| cell.first),
        ))?;
    let seq = connection.last_insert_rowid();
    engine.note_remembered();
    let expires_at = new.time_to_live.map(|span| later(now, span));
    engine.sweeps.note(expires_at);
    let delivery = next_delivery(0, now);
    connection
        .prepare_cached(
            "INSERT INTO message
                (seq, queue, id, body, put_at, visible_at, expires_at, dequeue_count, delivery, history)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, NULL)",
        )?
        .execute((seq, number, id, &new.body[..], now.as_micros(), visible_at, expires_at, delivery))?;
    engine.depths.add(connection, number, 1)?;
    let receipt = receipt(queue, new.id, delivery);
    Ok(Ok(Put::new(Some(receipt), Timestamp::from_micros(visible_at))))
}

/// Whether a message of this id would be one too many.
fn is_full(
    connection: &Connection,
    engine: &mut StoreEngine,
    queue: &Name,
    id: MessageId,
    limit: u64,
) -> rusqlite::Result<bool> {
    let Some(number) = engine.queue(connection, queue)? else { return Ok(limit == 0) };
    let (depth, limit) = (engine.depths.of(connection, number)?, int(limit));
    if depth < limit || remembered_visibility(connection, number, id)?.is_some() {
        return Ok(false);
    }
    // What has expired and waits for the sweeper is not there any more.
    Ok(depth - expired(connection, number, engine.now().as_micros())? >= limit)
}

/// How many messages of a queue have expired and are not swept.
pub(crate) fn expired(connection: &Connection, queue: i64, now: i64) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT count(*) FROM message WHERE expires_at <= ?2 AND queue = ?1")?
        .query_row([queue, now], |row| row.get(0))
}

/// When a message of this id becomes, or became, visible; `None` if the id is not remembered.
fn remembered_visibility(
    connection: &Connection,
    queue: i64,
    id: MessageId,
) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached(
            "SELECT coalesce(message.visible_at, remembered.visible_at)
             FROM remembered LEFT JOIN message ON message.seq = remembered.seq
             WHERE remembered.queue = ?1 AND remembered.id = ?2",
        )?
        .query_row((queue, id.0.into_bytes()), |row| row.get(0))
        .optional()
}

pub(crate) fn get(
    connection: &Connection,
    engine: &mut StoreEngine,
    queue: &Name,
    max: usize,
    visibility: Duration,
) -> rusqlite::Result<Vec<Delivery>> {
    let Some(number) = engine.queue(connection, queue)? else { return Ok(Vec::new()) };
    let now = engine.now();
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS}, seq, delivery FROM message
         WHERE queue = ?1 AND visible_at <= ?2 AND (expires_at IS NULL OR expires_at > ?2)
         ORDER BY visible_at, seq LIMIT ?3"
    ))?;
    let found = statement
        .query_map((number, now.as_micros(), int(max as u64)), |row| {
            Ok((message(row, 0)?, row.get::<_, i64>(6)?, row.get::<_, i64>(7)?))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let visible_at = later(now, visibility);
    // A message that was taken never expires: somebody may be working on it.
    let mut update = connection.prepare_cached(
        "UPDATE message
         SET visible_at = ?2, dequeue_count = ?3, delivery = ?4, expires_at = NULL WHERE seq = ?1",
    )?;
    let mut deliveries = Vec::with_capacity(found.len());
    for (mut message, seq, last) in found {
        let delivery = next_delivery(last, now);
        message.dequeue_count = message.dequeue_count.saturating_add(1);
        message.visible_at = Timestamp::from_micros(visible_at);
        update.execute((seq, visible_at, message.dequeue_count, delivery))?;
        let receipt = receipt(queue, message.id, delivery);
        deliveries.push(Delivery::new(message, receipt));
    }
    Ok(deliveries)
}

/// A message that is in its queue, found through its id.
pub(crate) struct Held {
    pub(crate) seq: i64,
    pub(crate) queue: i64,
    pub(crate) delivery: i64,
    pub(crate) message: Message,
}

/// The message of a receipt, if the receipt is good.
pub(crate) fn held(
    connection: &Connection,
    engine: &mut StoreEngine,
    receipt: &Receipt,
) -> rusqlite::Result<Result<Held, ReceiptError>> {
    let message_id = receipt.message;
    let not_found = Ok(Err(ReceiptError::MessageNotFound { message: message_id }));
    let Some(queue) = engine.queue(connection, &receipt.queue)? else { return not_found };
    let mut statement = connection.prepare_cached(
        "SELECT m.id, m.body, m.put_at, m.visible_at, m.dequeue_count, m.history, m.seq, m.delivery
         FROM remembered AS r JOIN message AS m ON m.seq = r.seq
         WHERE r.queue = ?1 AND r.id = ?2 AND (m.expires_at IS NULL OR m.expires_at > ?3)",
    )?;
    let found = statement
        .query_row((queue, message_id.0.into_bytes(), engine.now().as_micros()), |row| {
            Ok(Held { seq: row.get(6)?, queue, delivery: row.get(7)?, message: message(row, 0)? })
        })
        .optional()?;
    let Some(held) = found else { return not_found };
    if receipt.proof.parse() != Ok(held.delivery) {
        return Ok(Err(ReceiptError::ReceiptMismatch { message: message_id }));
    }
    Ok(Ok(held))
}

pub(crate) fn update(
    connection: &Connection,
    engine: &mut StoreEngine,
    receipt: &Receipt,
    update: &Update,
) -> rusqlite::Result<Result<Receipt, ReceiptError>> {
    let mut held = match held(connection, engine, receipt)? {
        Ok(held) => held,
        Err(error) => return Ok(Err(error)),
    };
    let now = engine.now();
    if let Some((kind, note)) = &update.note {
        held.message.note(now, *kind, note.as_str());
    }
    let delivery = next_delivery(held.delivery, now);
    let body = update.body.as_ref().map(|body| &body[..]);
    connection
        .prepare_cached(
            "UPDATE message SET visible_at = ?2, delivery = ?3, body = coalesce(?4, body), history = ?5
             WHERE seq = ?1",
        )?
        .execute((
            held.seq,
            later(now, update.visible_in),
            delivery,
            body,
            history(&held.message.history)?,
        ))?;
    Ok(Ok(self::receipt(&receipt.queue, receipt.message, delivery)))
}

pub(crate) fn remove(
    connection: &Connection,
    engine: &mut StoreEngine,
    queue: i64,
    seq: i64,
) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM message WHERE seq = ?1")?.execute([seq])?;
    engine.depths.add(connection, queue, -1)
}

pub(crate) fn delete(
    connection: &Connection,
    engine: &mut StoreEngine,
    receipt: &Receipt,
) -> rusqlite::Result<Result<(), ReceiptError>> {
    match held(connection, engine, receipt)? {
        Ok(held) => remove(connection, engine, held.queue, held.seq).map(Ok),
        Err(error) => Ok(Err(error)),
    }
}

pub(crate) fn clear(
    connection: &Connection,
    engine: &mut StoreEngine,
    queue: &Name,
) -> rusqlite::Result<u64> {
    let Some(number) = engine.queue(connection, queue)? else { return Ok(0) };
    let now = engine.now().as_micros();
    // What has expired is not there any more, so it does not count.
    let expired = connection
        .prepare_cached("DELETE FROM message WHERE queue = ?1 AND expires_at <= ?2")?
        .execute([number, now])?;
    let removed = connection.prepare_cached("DELETE FROM message WHERE queue = ?1")?.execute([number])?;
    engine.depths.add(connection, number, -int((expired + removed) as u64))?;
    Ok(removed as u64)
}
