//! The store's time: the clock's, but never before the latest moment that was given out.

use highwater_core::Timestamp;
use rusqlite::Connection;
use std::time::Duration;

/// The latest moment the store gave out.
pub(crate) fn stored(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("SELECT last FROM moment")?.query_row([], |row| row.get(0))
}

/// The store's time as a reader sees it.
pub(crate) fn seen(connection: &Connection, clock: Timestamp) -> rusqlite::Result<i64> {
    Ok(stored(connection)?.max(clock.as_micros()))
}

/// Gives out this moment; the stored one never goes back.
pub(crate) fn store(connection: &Connection, now: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("UPDATE moment SET last = max(last, ?1)")?.execute([now]).map(|_| ())
}

/// A moment for SQLite.
pub(crate) fn later(moment: Timestamp, span: Duration) -> i64 {
    moment.plus(span).as_micros()
}
