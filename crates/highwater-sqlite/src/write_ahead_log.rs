//! When SQLite's write-ahead log is moved into the file.
//!
//! The thread that writes does it between two groups. SQLite begins the log anew only when all of it was moved and
//! nobody reads its end, so whoever moves it while groups are added never gets to that point.

use rusqlite::Connection;
use std::time::{Duration, Instant};

/// The log is moved when it has this many pages (16 MiB): less often costs disk and makes starting after a crash
/// slower, more often writes the same pages again and again.
const LONG: i64 = 4_000;

/// With this many (64 MiB), because readers always keep it in use, the writer waits for them …
const VERY_LONG: i64 = 4 * LONG;

/// … for this long, and then lets them be for a while.
const READER_PATIENCE: Duration = Duration::from_millis(100);
const LET_BE: Duration = Duration::from_secs(5);

/// Bytes that a page takes in the log, with its header (SQLite's file format, section 4).
const FRAME: i64 = 4_096 + 24;

/// The log of one database, as its writer sees it.
pub(crate) struct WriteAheadLog {
    database: &'static str,
    /// When readers last kept it from being begun anew.
    held_back: Option<Instant>,
}

impl WriteAheadLog {
    pub(crate) fn of(database: &'static str) -> Self {
        Self { database, held_back: None }
    }

    /// Moves it if it is long, or if space `is_short`.
    ///
    /// While readers use its end it grows. When it is very long the writer waits a moment for them, during which no
    /// new ones come to its end; they end within 50 ms if they are ours.
    pub(crate) fn tend(&mut self, connection: &Connection, is_short: bool) -> rusqlite::Result<()> {
        let pages: i64 =
            connection.prepare_cached("PRAGMA wal_checkpoint(NOOP)")?.query_row([], |row| row.get(1))?;
        metrics::gauge!("highwater_sqlite_wal_bytes", "database" => self.database)
            .set(pages.saturating_mul(FRAME) as f64);
        if pages > 0 && is_short {
            // Not cut but written over by the next group: its space is all there is.
            return checkpoint(connection, "PRAGMA wal_checkpoint(RESTART)", READER_PATIENCE).map(|_| ());
        }
        let is_very_long = pages >= VERY_LONG;
        let let_be = is_very_long && self.held_back.is_some_and(|since| since.elapsed() < LET_BE);
        if pages < LONG || let_be {
            return Ok(());
        }
        let started = Instant::now();
        let blocked = if is_very_long {
            cut(connection, READER_PATIENCE)?
        } else {
            checkpoint(connection, "PRAGMA wal_checkpoint(PASSIVE)", Duration::ZERO)?
        };
        metrics::histogram!("highwater_sqlite_checkpoint_seconds", "database" => self.database)
            .record(started.elapsed());
        self.held_back = (blocked && is_very_long).then(Instant::now);
        if self.held_back.is_some() {
            tracing::warn!(
                database = self.database,
                mebibytes = pages.saturating_mul(FRAME) / 1024 / 1024,
                "readers keep the write-ahead log in use and it grows: end the program that reads for so long, such \
                 as a backup or an open SQLite client"
            );
        }
        Ok(())
    }
}

/// Moves all of the log into the file and cuts it, waiting a while for readers; true if they did not let go.
pub(crate) fn cut(connection: &Connection, patience: Duration) -> rusqlite::Result<bool> {
    checkpoint(connection, "PRAGMA wal_checkpoint(TRUNCATE)", patience)
}

fn checkpoint(connection: &Connection, how: &str, patience: Duration) -> rusqlite::Result<bool> {
    connection.busy_timeout(patience)?;
    let blocked = connection.query_row(how, [], |row| row.get::<_, i64>(0));
    connection.busy_timeout(Duration::ZERO)?;
    blocked.map(|blocked| blocked != 0)
}
