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
/// also while nothing is written.
pub(crate) struct Forward {
    clock: Arc<dyn Clock>,
    latest: AtomicI64,
}

impl Forward {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, latest: AtomicI64::new(i64::MIN) }
    }
}

#[async_trait]
impl Clock for Forward {
    fn now(&self) -> Timestamp {
        let now = self.clock.now().as_micros();
        Timestamp::from_micros(self.latest.fetch_max(now, Relaxed).max(now))
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
