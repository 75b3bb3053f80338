//! What is written, the same for the engine and for the floor.

use crate::Outcome;
use highwater_core::{Clock, Event, ItemId, Json, PartitionKey, Timestamp, async_trait};
use highwater_sqlite::{Options, Sqlite};
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Items that each client writes in turn.
pub(crate) const ITEMS: usize = 200;

/// The system's clock.
pub(crate) struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    fn monotonic(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    async fn sleep(&self, span: Duration) {
        let _ = span;
    }
}

pub(crate) fn open(path: &Path) -> Outcome<Arc<Sqlite>> {
    Ok(Sqlite::open(path, Options::default(), Arc::new(SystemClock))?)
}

/// JSON of exactly 250 bytes.
pub(crate) fn body() -> Outcome<Json> {
    Ok(Json::parse(format!(r#"{{"text":"{}"}}"#, "x".repeat(239)))?)
}

/// An event whose data are exactly 250 bytes.
pub(crate) fn event() -> Outcome<Event> {
    Ok(Event::new("Reserved", 1, body()?))
}

/// The keys of the items of one client.
pub(crate) fn keys(client: usize) -> Outcome<Vec<(PartitionKey, ItemId)>> {
    (0..ITEMS)
        .map(|item| {
            let text = format!("client-{client:04}-item-{item:04}");
            Ok((PartitionKey::new(&text)?, ItemId::new(&text)?))
        })
        .collect()
}
