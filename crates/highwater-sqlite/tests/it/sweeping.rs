//! What a store forgets in time.

use crate::support::{HandClock, event, json, key, name, options, put};
use highwater_core::{
    Batch, CellKey, CellWrite, Cells, ChangeRequest, CommandId, CommandMark, Expect, Fingerprint, MessageId,
    NewMessage, Parking, Queue, Store, Verdict, Write,
};
use highwater_sqlite::Sqlite;
use std::{path::Path, sync::Arc, time::Duration};

const DAY: i64 = 24 * 60 * 60 * 1_000_000;
const MONTH: Duration = Duration::from_secs(30 * 86_400);

fn count(path: &Path, table: &str) -> i64 {
    let raw = rusqlite::Connection::open(path).unwrap();
    raw.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

/// Has the writer sweep: it does so after a group, and this one writes nothing.
async fn nudge(store: &Arc<Sqlite>) {
    Cells::delete(&**store, &CellKey::new(name("none"), "none"), Expect::Any).await.unwrap();
}

/// Waits until a table has this many rows, and fails if that does not happen.
async fn swept(store: &Arc<Sqlite>, path: &Path, table: &str, rows: i64) {
    for _ in 0..500 {
        if count(path, table) == rows {
            return;
        }
        nudge(store).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(count(path, table), rows, "rows of {table}");
}

/// Whether a put of this id is a new message.
async fn is_new(store: &Arc<Sqlite>, id: MessageId) -> bool {
    store.put(&name("work"), NewMessage::new("x").id(id)).await.unwrap().receipt.is_some()
}

#[tokio::test]
async fn an_id_is_forgotten_after_the_horizon_also_when_its_message_lived_longer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let clock = HandClock::at(0);
    let store = Sqlite::open(&path, options().horizon(MONTH), clock.clone()).unwrap();
    let (short, long) = (MessageId::random(), MessageId::random());
    assert!(is_new(&store, short).await && is_new(&store, long).await);
    for _ in 0..2 {
        let taken = store.get(&name("work"), 1, Duration::from_secs(7 * 86_400)).await.unwrap().remove(0);
        if taken.message.id == short {
            Queue::delete(&*store, &taken.receipt).await.unwrap();
        }
    }
    clock.set(29 * DAY);
    nudge(&store).await;
    assert!(!is_new(&store, short).await, "remembered for 30 days");
    // The newest row always stays.
    assert!(is_new(&store, MessageId::random()).await);
    clock.set(31 * DAY);
    swept(&store, &path, "remembered", 2).await;
    assert!(is_new(&store, short).await, "forgotten");
    // The sweeper has passed the other one, whose message is still there.
    let taken = store.get(&name("work"), 32, Duration::from_secs(60)).await.unwrap();
    let taken = taken.into_iter().find(|taken| taken.message.id == long).unwrap();
    assert!(!is_new(&store, long).await);
    Queue::delete(&*store, &taken.receipt).await.unwrap();
    clock.set(33 * DAY);
    swept(&store, &path, "remembered", 2).await;
    assert!(is_new(&store, long).await, "forgotten in the next round");
}

#[tokio::test]
async fn without_a_horizon_ids_and_commands_are_remembered_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let clock = HandClock::at(0);
    let store = Sqlite::open(&path, options(), clock.clone()).unwrap();
    let id = MessageId::random();
    assert!(is_new(&store, id).await);
    let mark = CommandMark::new(CommandId::random(), Fingerprint::of(&[b"x"]), Verdict::Accepted);
    store.commit(put("a", "1", Expect::Any).command(mark.clone())).await.unwrap();
    clock.set(100_000 * DAY);
    for _ in 0..3 {
        nudge(&store).await;
    }
    assert!(!is_new(&store, id).await);
    assert!(store.commit(put("a", "1", Expect::Any).command(mark)).await.unwrap().replayed);
}

#[tokio::test]
async fn a_command_is_forgotten_after_the_horizon_unless_its_message_is_still_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let clock = HandClock::at(0);
    let store = Sqlite::open(&path, options().horizon(MONTH), clock.clone()).unwrap();
    let (gone, queued, parked) = (CommandId::random(), CommandId::random(), CommandId::random());
    let queue = name("work");
    for id in [parked, queued] {
        let cell = CellKey::new(name("commands"), id.to_string());
        store.put(&queue, NewMessage::new("x").id(id.into()).cell(cell, json("1"))).await.unwrap();
        if id == parked {
            let taken = store.get(&queue, 1, Duration::from_secs(60)).await.unwrap().remove(0);
            Queue::park(&*store, &taken.receipt, Parking::new("broken", "broken", "me")).await.unwrap();
        }
    }
    let commit = async |id| {
        let mark = CommandMark::new(id, Fingerprint::of(&[b"x"]), Verdict::Accepted);
        store.commit(put("a", "1", Expect::Any).command(mark)).await.unwrap().replayed
    };
    for id in [gone, queued, parked] {
        assert!(!commit(id).await);
    }
    clock.set(29 * DAY);
    nudge(&store).await;
    assert_eq!(count(&path, "mark"), 3, "remembered for 30 days");
    clock.set(31 * DAY);
    swept(&store, &path, "mark", 2).await;
    assert!(commit(queued).await && commit(parked).await, "their messages may come again");
    assert!(!commit(gone).await, "forgotten");

    Queue::clear(&*store, &queue).await.unwrap();
    assert!(is_new(&store, MessageId::random()).await);
    clock.set(70 * DAY);
    swept(&store, &path, "mark", 1).await;
    assert!(commit(parked).await);
    assert_eq!(count(&path, "cell"), 1, "the cell of a command is forgotten with it");
    store.discard(&queue, parked.into()).await.unwrap();
    assert_eq!(count(&path, "mark"), 0);
    clock.set(101 * DAY);
    swept(&store, &path, "cell", 0).await;
    // What the feed shows stays.
    let partition = store.info().partition_of(&key("a").partition_key);
    let log = store.changes(&ChangeRequest::new(partition, None, 100)).await.unwrap().changes;
    assert_eq!(log.iter().filter(|change| change.command.is_some()).count(), 4);
}

#[tokio::test]
async fn many_expired_items_are_swept_piece_by_piece_and_leave_their_versions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let clock = HandClock::at(0);
    let store = Sqlite::open(&path, options(), clock.clone()).unwrap();
    for number in 0..500 {
        let key = key(&number.to_string());
        let write = Write::put(key.container, key.id, json("1"))
            .events(vec![event("Opened")])
            .time_to_live(Duration::from_secs(60));
        store.commit(Batch::new(key.partition_key, vec![write])).await.unwrap();
        let cell = CellKey::new(name("sessions"), number.to_string());
        let write = CellWrite::new(cell, Expect::Absent, json("1")).time_to_live(Duration::from_secs(60));
        store.write(write).await.unwrap();
    }
    clock.set(59_000_000);
    nudge(&store).await;
    assert_eq!((count(&path, "head WHERE live"), count(&path, "cell")), (500, 500));
    clock.set(60_000_000);
    swept(&store, &path, "head WHERE live", 0).await;
    swept(&store, &path, "cell", 0).await;
    assert_eq!(count(&path, "head WHERE version = 2 AND expires_at IS NULL"), 500);
    assert_eq!(count(&path, "log WHERE op = 'expire'"), 500);
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
