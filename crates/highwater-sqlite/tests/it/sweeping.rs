//! What a store forgets in time.

use crate::support::{HandClock, json, name, options};
use highwater_core::{CellKey, CellWrite, Cells, Expect, MessageId, NewMessage, Queue};
use highwater_sqlite::Sqlite;
use std::{path::Path, sync::Arc, time::Duration};

const DAY: i64 = 24 * 60 * 60 * 1_000_000;

fn count(path: &Path, table: &str) -> i64 {
    let raw = rusqlite::Connection::open(path).unwrap();
    raw.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

/// Whether a put of this id is a new message.
async fn is_new(store: &Arc<Sqlite>, id: MessageId) -> bool {
    store.put(&name("work"), NewMessage::new("x").id(id)).await.unwrap().receipt.is_some()
}

#[tokio::test]
async fn an_id_is_forgotten_after_its_time_also_when_its_message_lived_longer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let clock = HandClock::at(0);
    let store = Sqlite::open(&path, options(), clock.clone()).unwrap();
    let (short, long) = (MessageId::random(), MessageId::random());
    assert!(is_new(&store, short).await && is_new(&store, long).await);
    for _ in 0..2 {
        let taken = store.get(&name("work"), 1, Duration::from_secs(7 * 86_400)).await.unwrap().remove(0);
        if taken.message.id == short {
            Queue::delete(&*store, &taken.receipt).await.unwrap();
        }
    }
    clock.set(29 * DAY);
    assert!(!is_new(&store, short).await, "remembered for 30 days");
    clock.set(31 * DAY);
    assert!(is_new(&store, short).await, "forgotten");
    // The sweeper has passed the other one, whose message is still there.
    let taken = store.get(&name("work"), 32, Duration::from_secs(60)).await.unwrap();
    let taken = taken.into_iter().find(|taken| taken.message.id == long).unwrap();
    assert!(!is_new(&store, long).await);
    Queue::delete(&*store, &taken.receipt).await.unwrap();
    for day in 32..34 {
        clock.set(day * DAY);
        assert!(is_new(&store, MessageId::random()).await);
    }
    assert!(is_new(&store, long).await, "forgotten in the next round");
}

#[tokio::test]
async fn deleted_cells_leave_nothing_and_go_on_counting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = Sqlite::open(&path, options(), HandClock::at(0)).unwrap();
    let mut last = 0;
    for number in 0..50 {
        let key = CellKey::new(name("instances"), (number % 7).to_string());
        let etag = store.write(CellWrite::new(key.clone(), Expect::Absent, json("1"))).await.unwrap();
        assert!(etag.version.get() > last);
        last = etag.version.get();
        Cells::delete(&*store, &key, Expect::ETag(etag)).await.unwrap();
    }
    assert_eq!(count(&path, "cell"), 0);
}
