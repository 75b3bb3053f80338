//! Taking turns with other processes: who may write next, and when a writer steps back.
//!
//! SQLite's lock is not fair: a writer that begins again at once starves the others, who only ask now and then.
//! So whoever has seen another process at work lets some time pass between two groups, longer than the others
//! wait between two attempts. Busy processes then take turns.

use crate::fault::engine_error;
use highwater_core::EngineError;
use rusqlite::{Connection, ErrorCode};
use std::{
    ops::Range,
    thread,
    time::{Duration, Instant},
};

/// How long a group waits for other processes that are writing.
pub(crate) const BUSY_PATIENCE: Duration = Duration::from_secs(5);

/// The time between two attempts, in microseconds, while others take short turns and step back after each …
const EAGER: Range<u64> = 500..1_500;

/// … and when somebody does not step back: a backup, a stopped process, another program.
const PATIENT: Range<u64> = 500..5_000;

/// How long attempts stay eager.
const EAGER_FOR: Duration = Duration::from_millis(100);

/// How long a writer steps back: longer than an eager waiter sleeps, with time for it to wake up.
const STEP_BACK: Duration = Duration::from_millis(2);

/// A writer that has seen nobody cannot know whether somebody waits who has not had a turn yet. After this time
/// without a gap it steps back once. (After each full group would cost a quarter of the throughput of a process
/// that is alone: a full group takes a few milliseconds.)
const ALONE_FOR: Duration = Duration::from_millis(50);

/// The turns of one writing connection.
#[derive(Default)]
pub(crate) struct Turns {
    /// The next turn does not begin before.
    not_before: Option<Instant>,
    /// When the turns began that followed one another without a gap, and when the last one ended.
    run_began: Option<Instant>,
    ended: Option<Instant>,
    /// SQLite's count of the commits of other connections, as of the last turn.
    data_version: Option<i64>,
    /// Another process was seen writing, in this turn.
    contested: bool,
}

impl Turns {
    /// Begins a transaction that writes, when it is this connection's turn.
    pub(crate) fn take(&mut self, connection: &Connection) -> Result<(), EngineError> {
        let asked = Instant::now();
        if let Some(wait) = self.not_before.take().and_then(|until| until.checked_duration_since(asked)) {
            thread::sleep(wait);
        }
        let gap = self.ended.is_none_or(|ended| ended.elapsed() >= STEP_BACK);
        self.contested = false;
        let mut begin = connection.prepare_cached("BEGIN IMMEDIATE").map_err(engine_error)?;
        loop {
            let error = match begin.execute([]) {
                Ok(_) => break,
                Err(error) => error,
            };
            let waited = asked.elapsed();
            if error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) || waited >= BUSY_PATIENCE {
                return Err(engine_error(error));
            }
            self.contested = true;
            let micros = if waited < EAGER_FOR { EAGER } else { PATIENT };
            thread::sleep(Duration::from_micros(fastrand::u64(micros)));
        }
        if gap || self.contested || self.run_began.is_none() {
            self.run_began = Some(Instant::now());
        }
        Ok(())
    }

    /// In the transaction: SQLite's `data_version`, which moves when another connection has committed.
    pub(crate) fn look(&mut self, connection: &Connection) -> rusqlite::Result<i64> {
        let version = data_version(connection)?;
        self.contested |= self.data_version.replace(version).is_some_and(|last| last != version);
        Ok(version)
    }

    /// The turn is over.
    pub(crate) fn end(&mut self) {
        let now = Instant::now();
        self.ended = Some(now);
        let long = self.run_began.is_some_and(|began| now.duration_since(began) >= ALONE_FOR);
        if self.contested || long {
            self.not_before = Some(now + STEP_BACK);
        }
    }

    /// The connection is another one: its counts begin anew.
    pub(crate) fn forget(&mut self) {
        self.data_version = None;
    }
}

/// Moves when another connection has committed, of this process or another.
pub(crate) fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}
