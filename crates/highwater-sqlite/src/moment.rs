//! The store's time: the clock's, but never before the latest moment that was given out.

use highwater_core::{Clock, Timestamp, async_trait};
use rusqlite::Connection;
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::Duration,
};

/// A clock whose time of day never goes back, so that what was once seen as expired stays so within this process,
/// also while nothing is written. While the machine's is set back, it goes on by the steady clock.
pub(crate) struct Forward {
    clock: Arc<dyn Clock>,
    /// The furthest that the time of day was ahead of the steady clock.
    ahead: AtomicI64,
}

impl Forward {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, ahead: AtomicI64::new(i64::MIN) }
    }
}

#[async_trait]
impl Clock for Forward {
    fn now(&self) -> Timestamp {
        let (now, steady) = (self.clock.now().as_micros(), self.clock.monotonic().as_micros());
        let steady = i64::try_from(steady).unwrap_or(i64::MAX);
        let ahead = now.saturating_sub(steady);
        Timestamp::from_micros(self.ahead.fetch_max(ahead, Relaxed).max(ahead).saturating_add(steady))
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    async fn sleep(&self, span: Duration) {
        self.clock.sleep(span).await;
    }
}

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

/// The moment that far back.
pub(crate) fn earlier(now: i64, span: Duration) -> i64 {
    now.saturating_sub(i64::try_from(span.as_micros()).unwrap_or(i64::MAX))
}

/// A moment for SQLite.
pub(crate) fn later(moment: Timestamp, span: Duration) -> i64 {
    moment.plus(span).as_micros()
}
