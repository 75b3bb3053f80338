use crate::support::{HandClock, body, event, json, keep, key, mark, name, open, options, put};
use highwater_core::{
    Batch, Body, CellKey, CellWrite, Cells, ChangeOp, ChangeRequest, DocumentWrite, Epoch, Expect,
    NewMessage, Partition, Position, Queue, Store, Timestamp, Token, ViewBatch, ViewName, ViewSlot,
    ViewStore, Write,
};
use highwater_sqlite::{Sqlite, SqliteViews};
use std::{collections::BTreeMap, time::Duration};

#[tokio::test]
async fn reopening_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/er/store.db");
    let store = open(&path);
    let info = store.info();
    let command = mark();
    let committed =
        store.commit(put("a", r#"{"n":1}"#, Expect::Absent).command(command.clone())).await.unwrap();
    store.commit(keep("a", &["Moved", "Shaken"])).await.unwrap();
    let put_message = store.put(&name("work"), NewMessage::new("hello")).await.unwrap();
    let cell = CellKey::new(name("leases"), "one");
    let etag = store.write(CellWrite::new(cell.clone(), Expect::Absent, json("7"))).await.unwrap();
    store.close().await;
    assert!(!path.with_extension("db-wal").exists(), "the log was moved into the file");
    drop(store);

    let store = open(&path);
    assert_eq!(store.info(), info);
    let item = store.item(&key("a")).await.unwrap().unwrap();
    assert_eq!(item.body.unwrap().1.json, json(r#"{"n":1}"#));
    assert_eq!(item.later.len(), 1);
    assert_eq!(item.later[0].events, [event("Moved"), event("Shaken")]);
    let decided = store.decided(&key("a").partition_key, command.id).await.unwrap().unwrap();
    assert_eq!((decided.token, decided.etags), (committed.token, committed.etags));
    let delivery = store.get(&name("work"), 1, Duration::from_secs(30)).await.unwrap().remove(0);
    assert_eq!(&delivery.message.body[..], b"hello");
    assert_ne!(Some(delivery.receipt), put_message.receipt);
    assert_eq!(Cells::read(&*store, &cell).await.unwrap().unwrap().etag, etag);
}

#[tokio::test]
async fn what_is_asked_of_a_closed_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store.db"));
    store.close().await;
    store.close().await;
    assert!(store.commit(put("a", "1", Expect::Any)).await.is_err());
    assert!(store.item(&key("a")).await.is_err());
    assert!(store.put(&name("work"), NewMessage::new("x")).await.is_err());
}

#[tokio::test]
async fn positions_are_not_used_again_after_the_last_rows_were_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = open(&path);
    let partition = store.info().partition_of(&key("a").partition_key);
    store.commit(put("a", "1", Expect::Any)).await.unwrap();
    let before = store.commit(put("a", "2", Expect::Any)).await.unwrap().token;
    store.close().await;
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute_batch(&format!("DELETE FROM log_{:04}; DELETE FROM head;", partition.0)).unwrap();
    drop(raw);

    let store = open(&path);
    let page = store.changes(&ChangeRequest::new(partition, Position::new(2), 10)).await.unwrap();
    assert_eq!((page.changes.len(), page.scanned, page.at_end), (0, Position::new(2), true));
    let after = store.commit(put("a", "3", Expect::Absent)).await.unwrap().token;
    let position = |token: &Token| token.of(store.info().id).unwrap().positions[&partition].get();
    assert_eq!((position(&before), position(&after)), (2, 3));
}

#[tokio::test]
async fn a_clock_set_back_does_not_turn_the_stores_time_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let clock = HandClock::at(5_000_000);
    let store = Sqlite::open(&path, options(), clock.clone()).unwrap();
    store.commit(put("a", "1", Expect::Any)).await.unwrap();
    clock.set(1_000_000);
    store.commit(put("a", "2", Expect::Any)).await.unwrap();
    store.close().await;
    let store = Sqlite::open(&path, options(), HandClock::at(2_000_000)).unwrap();
    store.commit(put("a", "3", Expect::Any)).await.unwrap();
    let message = NewMessage::new("x").delay(Duration::from_secs(1));
    assert_eq!(
        store.put(&name("work"), message).await.unwrap().visible_at,
        Timestamp::from_micros(6_000_000)
    );
    let history = store.history(&key("a"), None, 10).await.unwrap();
    assert_eq!(history.iter().map(|change| change.at.as_micros()).collect::<Vec<_>>(), [5_000_000; 3]);
}

#[tokio::test]
async fn rejections_raise_the_version_and_are_passed_over_by_the_history() {
    let store = Sqlite::in_memory(options(), HandClock::at(0)).unwrap();
    store.commit(keep("a", &[])).await.unwrap();
    let item = store.item(&key("a")).await.unwrap().unwrap();
    assert_eq!((item.exists, item.etag.version.get(), item.later.len()), (false, 1, 0));
    store.commit(keep("a", &["Began"])).await.unwrap();
    store.commit(keep("a", &[]).command(mark())).await.unwrap();
    store.commit(put("a", "1", Expect::Exists)).await.unwrap();
    store.commit(keep("a", &[])).await.unwrap();
    store.commit(keep("a", &["Went"])).await.unwrap();
    let item = store.item(&key("a")).await.unwrap().unwrap();
    assert_eq!((item.exists, item.etag.version.get()), (true, 6));
    assert_eq!(item.body.unwrap().0.get(), 4);
    let versions = |changes: Vec<highwater_core::Change>| {
        changes.iter().map(|change| change.version.get()).collect::<Vec<_>>()
    };
    assert_eq!(versions(item.later), [6]);
    assert_eq!(versions(store.history(&key("a"), None, 10).await.unwrap()), [6, 4, 2]);
    assert_eq!(versions(store.history(&key("a"), item.etag.version.into(), 1).await.unwrap()), [4]);

    let key = key("a");
    let delete = Write::delete(key.container.clone(), key.id.clone());
    store.commit(Batch::new(key.partition_key.clone(), vec![delete])).await.unwrap();
    store.commit(keep("a", &[])).await.unwrap();
    let item = store.item(&key).await.unwrap().unwrap();
    assert_eq!((item.exists, item.etag.version.get(), item.body, item.later), (false, 8, None, vec![]));
    store.commit(keep("a", &["Again"])).await.unwrap();
    let item = store.item(&key).await.unwrap().unwrap();
    assert_eq!((item.exists, item.body, versions(item.later)), (true, None, vec![9]));
    let request = ChangeRequest::new(store.info().partition_of(&key.partition_key), None, 99);
    let page = store.changes(&request).await.unwrap();
    assert_eq!(page.changes.len(), 9);
    assert_eq!(page.changes[6].op, ChangeOp::DELETE);
}

#[tokio::test]
async fn view_slots_and_documents_survive_and_an_old_claim_is_fenced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.views.db");
    let store = highwater_core::StoreId::random();
    let view = ViewName { name: name("months"), generation: 1 };
    let slot = ViewSlot { view: view.clone(), store, partition: Partition(3) };
    let batch = |claim, position, expected| {
        let marks = BTreeMap::from([("days/a/a".to_owned(), position)]);
        let write = DocumentWrite::new("2026-12", expected, Some(Body::new(json("[]"))), marks);
        ViewBatch::new(slot.clone(), claim, Position::new(position).unwrap(), vec![write])
    };
    let views = SqliteViews::open(&path, options()).unwrap();
    let old = views.claim(&slot, Epoch(1)).await.unwrap();
    views.write(batch(old, 5, 0)).await.unwrap();
    views.close().await;
    let views = SqliteViews::open(&path, options()).unwrap();
    let claim = views.claim(&slot, Epoch(1)).await.unwrap();
    assert_eq!((claim.owner_epoch, claim.position), (2, Position::new(5)));
    let mut stale = old;
    stale.position = claim.position;
    assert!(matches!(
        views.write(batch(stale, 6, 1)).await,
        Err(highwater_core::ViewWriteError::Fenced { .. })
    ));
    assert!(matches!(
        views.write(batch(claim, 6, 0)).await,
        Err(highwater_core::ViewWriteError::Conflict { .. })
    ));
    views.write(batch(claim, 6, 1)).await.unwrap();
    let (document, reached) = views.document(&view, store, "2026-12").await.unwrap();
    assert_eq!(document.unwrap().version, 2);
    assert_eq!(reached.unwrap().positions, BTreeMap::from([(Partition(3), Position::new(6).unwrap())]));
}

#[tokio::test]
async fn dropping_the_last_reference_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = open(&path);
    store.commit(put("a", "1", Expect::Any)).await.unwrap();
    drop(store);
    assert_eq!(body(&open(&path), "a").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn the_write_ahead_log_is_moved_into_the_file_before_it_grows_long() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = open(&path);
    let large = format!("\"{}\"", "x".repeat(250_000));
    for _ in 0..160 {
        store.commit(put("a", &large, Expect::Any)).await.unwrap();
    }
    // 40 MB were written; the log is moved at 16 MB, and one group more may be in it.
    let log = std::fs::metadata(path.with_extension("db-wal")).unwrap().len();
    assert!(log < 24_000_000, "{log}");
}

#[tokio::test]
async fn a_get_that_finds_nothing_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = open(&path);
    store.put(&name("work"), NewMessage::new("x")).await.unwrap();
    assert_eq!(store.get(&name("work"), 1, Duration::from_secs(30)).await.unwrap().len(), 1);
    let log = || std::fs::metadata(path.with_extension("db-wal")).unwrap().modified().unwrap();
    let before = log();
    for queue in ["work", "never-used"] {
        assert!(store.get(&name(queue), 32, Duration::from_secs(30)).await.unwrap().is_empty());
    }
    assert_eq!(log(), before);
}

#[tokio::test]
async fn a_reader_that_never_ends_holds_up_nobody_and_the_log_is_cut_once_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = open(&path);
    store.commit(put("a", "1", Expect::Any)).await.unwrap();
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM head").unwrap();
    let large = format!("\"{}\"", "x".repeat(250_000));
    let length = || std::fs::metadata(path.with_extension("db-wal")).unwrap().len();
    while length() < 72_000_000 {
        store.commit(put("a", &large, Expect::Any)).await.unwrap();
    }
    reader.execute_batch("COMMIT").unwrap();
    let began = std::time::Instant::now();
    while length() > 24_000_000 {
        store.commit(put("a", "2", Expect::Any)).await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(30), "{}", length());
    }
    assert_eq!(body(&store, "a").await.as_deref(), Some("2"));
}
