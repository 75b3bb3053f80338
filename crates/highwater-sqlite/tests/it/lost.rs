//! A file that is moved away, or swapped, under a running store.

use crate::support::{body, open, put};
use highwater_core::{CommitError, Expect, FailureKind, Store};
use highwater_sqlite::Sqlite;
use std::{fs, path::Path};

/// Makes every COMMIT of a group that puts `fatal` fail, so that the writer opens its file anew.
fn sabotage(path: &Path) {
    let raw = rusqlite::Connection::open(path).unwrap();
    raw.execute_batch(
        "CREATE TABLE parent (id INTEGER PRIMARY KEY);
         CREATE TABLE orphan (id REFERENCES parent DEFERRABLE INITIALLY DEFERRED);",
    )
    .unwrap();
    for partition in 0..4 {
        raw.execute_batch(&format!(
            "CREATE TRIGGER orphan_{partition} AFTER INSERT ON log_{partition:04} WHEN new.partition_key = 'fatal'
             BEGIN INSERT INTO orphan VALUES (1); END"
        ))
        .unwrap();
    }
}

fn rename(from: &Path, to: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let named = |path: &Path| format!("{}{suffix}", path.display());
        if Path::new(&named(from)).exists() {
            fs::rename(named(from), named(to)).unwrap();
        }
    }
}

async fn failure(store: &Sqlite, id: &str) -> FailureKind {
    let outcome = store.commit(put(id, "1", Expect::Any)).await;
    let Err(CommitError::Engine(error)) = outcome else { unreachable!("{outcome:?}") };
    error.kind()
}

#[tokio::test]
async fn a_file_that_was_moved_away_is_not_made_anew_and_another_store_in_its_place_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, aside) = (folder.path().join("store.db"), folder.path().join("aside.db"));
    open(&path).close().await;
    sabotage(&path);
    let store = open(&path);
    store.commit(put("a", "1", Expect::Any)).await.unwrap();
    rename(&path, &aside);
    assert_eq!(failure(&store, "fatal").await, FailureKind::Unavailable);
    assert_eq!(failure(&store, "b").await, FailureKind::Unavailable);
    assert!(!path.exists());

    open(&path).close().await;
    assert_eq!(failure(&store, "b").await, FailureKind::Closed);
    fs::write(&path, "").unwrap();
    assert_eq!(failure(&store, "b").await, FailureKind::Closed);
    assert_eq!(fs::read(&path).unwrap(), b"");

    fs::remove_file(&path).unwrap();
    rename(&aside, &path);
    store.commit(put("b", "2", Expect::Absent)).await.unwrap();
    assert_eq!(body(&store, "b").await.as_deref(), Some("2"));
    assert!(store.item(&crate::support::key("fatal")).await.unwrap().is_none());
}
