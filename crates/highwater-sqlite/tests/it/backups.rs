//! Backups made while others write, and what a restore makes of them.

use crate::support::{HandClock, body, key, mark, open, options, put};
use highwater_core::{
    ChangeRequest, ETag, Expect, Name, NewMessage, Partition, Position, Queue, ReceiptError, Store, Version,
};
use highwater_sqlite::{BackupError, OpenError, RestoreError, Sqlite, backup, restore, verify_backup};
use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

fn clock() -> Arc<HandClock> {
    HandClock::at(2_000_000)
}

fn back_up(from: &Path, to: &Path) -> highwater_sqlite::Manifest {
    backup(from, to, &*clock(), &mut |_| {}).unwrap()
}

fn put_back(from: &Path, to: &Path, replace: bool) -> Result<highwater_sqlite::Restored, RestoreError> {
    restore(from, to, replace, &*clock(), &mut |_| {})
}

/// Position, item and version of every change of a partition.
async fn log(store: &Sqlite, partition: u16, until: Option<Position>) -> Vec<(Position, String, Version)> {
    let page = store.changes(&ChangeRequest::new(Partition(partition), None, usize::MAX)).await.unwrap();
    let changes =
        page.changes.into_iter().filter(|change| until.is_none_or(|until| change.position <= until));
    changes.map(|change| (change.position, change.key.to_string(), change.version)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_made_while_eight_tasks_commit_is_a_prefix_with_all_that_was_acknowledged_before() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("store.db"), folder.path().join("copy.backup"));
    let store = open(&path);
    for n in 0..200 {
        store.commit(put(&format!("early {n}"), "1", Expect::Absent)).await.unwrap();
    }
    let acknowledged = store.head().await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let (store, stop) = (Arc::clone(&store), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut n = 0;
                while !stop.load(SeqCst) {
                    store.commit(put(&format!("{task} {n}"), "1", Expect::Absent)).await.unwrap();
                    n += 1;
                }
                n
            })
        })
        .collect();
    while store.head().await.unwrap() == acknowledged {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let manifest = store.backup(&copy).await.unwrap();
    stop.store(true, SeqCst);
    for task in tasks {
        assert!(task.await.unwrap() > 0);
    }
    assert_eq!(verify_backup(&copy, &mut |_| {}).unwrap(), manifest);
    let info = store.info();
    let elsewhere = folder.path().join("elsewhere.db");
    let restored = put_back(&copy, &elsewhere, false).unwrap();
    let copied = open(&elsewhere);
    assert!(copied.info().epoch > info.epoch && copied.info().id == info.id);
    let reached = acknowledged.of(info.id).unwrap();
    for partition in 0..4 {
        let end = manifest.heads.get(&Partition(partition)).copied();
        assert!(end >= reached.positions.get(&Partition(partition)).copied());
        assert_eq!(log(&copied, partition, None).await, log(&store, partition, end).await);
    }
    // The lives share what was copied and nothing more.
    let lineage = copied.lineage();
    assert_eq!(lineage.epoch(), restored.epoch);
    for (partition, end) in &manifest.heads {
        assert!(lineage.check(info.epoch, *partition, Some(*end)).is_ok());
        let beyond = Position::new(end.get() + 1);
        assert!(lineage.check(info.epoch, *partition, beyond).is_err());
    }
}

#[tokio::test]
async fn etags_and_receipts_of_the_earlier_life_are_refused_and_commands_stay_decided() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("store.db"), folder.path().join("copy.backup"));
    let (store, queue) = (open(&path), Name::new("work").unwrap());
    let mark = mark();
    let batch = put("a", "1", Expect::Absent).command(mark.clone());
    let etag: ETag = store.commit(batch).await.unwrap().etags[0];
    Queue::put(&*store, &queue, NewMessage::new("x")).await.unwrap();
    let taken = Queue::get(&*store, &queue, 1, Duration::from_secs(30)).await.unwrap().remove(0);
    back_up(&path, &copy);
    store.commit(put("a", "2", Expect::ETag(etag))).await.unwrap();
    store.close().await;

    let restored = put_back(&copy, &path, true).unwrap();
    let store = open(&path);
    assert_eq!(body(&store, "a").await.unwrap(), "1");
    assert!(store.commit(put("a", "3", Expect::ETag(etag))).await.is_err());
    let decided = store.decided(&key("a").partition_key, mark.id).await.unwrap().unwrap();
    assert_eq!(decided.etags[0].epoch, restored.epoch);
    let deleted = Queue::delete(&*store, &taken.receipt).await;
    assert!(matches!(deleted, Err(ReceiptError::ReceiptMismatch { .. })), "{deleted:?}");
    // What was replaced lies beside it, whole.
    let old = open(&restored.replaced.unwrap());
    assert_eq!(body(&old, "a").await.unwrap(), "2");
}

#[tokio::test]
async fn two_restores_of_one_backup_are_two_lives_that_share_what_was_copied() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("store.db"), folder.path().join("copy.backup"));
    let store = open(&path);
    let first = store.info().epoch;
    store.commit(put("a", "1", Expect::Any)).await.unwrap();
    store.close().await;
    let end = back_up(&path, &copy).heads.into_iter().next().unwrap();
    let one = put_back(&copy, &path, true).unwrap().epoch;
    let store = open(&path);
    store.commit(put("a", "2", Expect::Any)).await.unwrap();
    store.close().await;
    let two = put_back(&copy, &path, true).unwrap().epoch;
    assert!(first < one && one < two);
    let lineage = open(&path).lineage();
    for life in [first, one] {
        assert!(lineage.check(life, end.0, Some(end.1)).is_ok(), "{life}");
        assert!(lineage.check(life, end.0, Position::new(end.1.get() + 1)).is_err(), "{life}");
    }
}

#[tokio::test]
async fn a_store_that_is_open_or_in_the_way_is_not_replaced_and_a_backup_overwrites_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("store.db"), folder.path().join("copy.backup"));
    let store = open(&path);
    store.commit(put("a", "1", Expect::Any)).await.unwrap();
    back_up(&path, &copy);
    let again = backup(&path, &copy, &*clock(), &mut |_| {});
    assert!(matches!(again, Err(BackupError::Exists { .. })), "{again:?}");
    assert!(matches!(put_back(&copy, &path, false), Err(RestoreError::Exists { .. })));
    let in_use = put_back(&copy, &path, true);
    assert!(matches!(in_use, Err(RestoreError::InUse { .. })), "{in_use:?}");
    assert!(store.commit(put("a", "2", Expect::Any)).await.is_ok());
    store.close().await;
    let as_store = Sqlite::open(&copy, options(), clock());
    assert!(matches!(as_store, Err(OpenError::Foreign { .. })), "{as_store:?}");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("partial")), "{left:?}");
}

#[tokio::test]
async fn a_backup_with_a_byte_changed_in_a_row_is_refused_and_the_store_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("store.db"), folder.path().join("copy.backup"));
    let store = open(&path);
    store.commit(put("a", "\"needle\"", Expect::Any)).await.unwrap();
    store.close().await;
    back_up(&path, &copy);
    let mut bytes = fs::read(&copy).unwrap();
    let at = bytes.windows(6).position(|window| window == b"needle").unwrap();
    bytes[at] ^= 1;
    fs::write(&copy, bytes).unwrap();
    let error = verify_backup(&copy, &mut |_| {}).unwrap_err();
    assert!(matches!(error, BackupError::Damaged { .. }), "{error}");
    assert!(put_back(&copy, &path, true).is_err());
    assert_eq!(body(&open(&path), "a").await.unwrap(), "\"needle\"");
}

#[tokio::test]
async fn a_damaged_store_gives_no_backup() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("store.db"), folder.path().join("copy.backup"));
    let store = open(&path);
    store.commit(put("a", "1", Expect::Any)).await.unwrap();
    let log = format!("log_{:04}", store.info().partition_of(&key("a").partition_key).0);
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute(&format!("UPDATE {log} SET at = at + 1"), []).unwrap();
    let error = backup(&path, &copy, &*clock(), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("position 1") && !copy.exists(), "{error}");
}
