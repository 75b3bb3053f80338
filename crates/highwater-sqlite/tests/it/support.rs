use highwater_core::{
    Batch, Clock, CommandId, CommandMark, Event, Expect, Fingerprint, ItemKey, Json, Name, Store, Timestamp,
    Verdict, Write, async_trait,
};
use highwater_sqlite::{Options, Sqlite};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

/// A clock that stands still until it is set.
#[derive(Default)]
pub(crate) struct HandClock(AtomicI64);

impl HandClock {
    pub(crate) fn at(micros: i64) -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(micros)))
    }

    pub(crate) fn set(&self, micros: i64) {
        self.0.store(micros, Ordering::SeqCst);
    }
}

#[async_trait]
impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    async fn sleep(&self, _: Duration) {}
}

/// The machine's clock, for tests with several processes.
pub(crate) struct WallClock(std::time::Instant);

impl WallClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(std::time::Instant::now()))
    }
}

#[async_trait]
impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(0).plus(std::time::UNIX_EPOCH.elapsed().unwrap())
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    async fn sleep(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

pub(crate) fn options() -> Options {
    Options::default().partitions(4)
}

pub(crate) fn open(path: &Path) -> Arc<Sqlite> {
    Sqlite::open(path, options(), HandClock::at(1_000)).unwrap()
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

pub(crate) fn key(id: &str) -> ItemKey {
    ItemKey::alone(name("days"), id).unwrap()
}

pub(crate) fn event(event: &str) -> Event {
    Event::new(event, 1, json("{}"))
}

pub(crate) fn mark() -> CommandMark {
    CommandMark::new(CommandId::random(), Fingerprint::of(&[b"x"]), Verdict::Accepted)
}

/// A batch that puts one item.
pub(crate) fn put(id: &str, body: &str, expect: Expect) -> Batch {
    let key = key(id);
    Batch::new(key.partition_key, vec![Write::put(key.container, key.id, json(body)).expect(expect)])
}

/// A batch that does something else to one item.
pub(crate) fn keep(id: &str, events: &[&str]) -> Batch {
    let key = key(id);
    let events = events.iter().map(|name| event(name)).collect();
    Batch::new(key.partition_key, vec![Write::keep(key.container, key.id).events(events)])
}

/// The body of an item as text.
pub(crate) async fn body(store: &Sqlite, id: &str) -> Option<String> {
    let item = store.item(&key(id)).await.unwrap()?;
    item.body.map(|(_, body)| body.json.to_string())
}
