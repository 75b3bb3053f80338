use crate::support::{body, open, put};
use highwater_core::{CommitError, EngineError, Expect, FailureKind, Store};

#[tokio::test]
async fn two_stores_on_one_file_see_each_others_commits_and_conflict() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let (one, two) = (open(&path), open(&path));
    let first = one.commit(put("a", "1", Expect::Absent)).await.unwrap();
    assert_eq!(body(&two, "a").await.as_deref(), Some("1"));
    let second = two.commit(put("a", "2", Expect::ETag(first.etags[0]))).await.unwrap();
    let late = one.commit(put("a", "3", Expect::ETag(first.etags[0]))).await;
    assert!(matches!(late, Err(CommitError::Conflict { .. })), "{late:?}");
    one.commit(put("a", "3", Expect::ETag(second.etags[0]))).await.unwrap();
    assert_eq!(body(&two, "a").await.as_deref(), Some("3"));
}

#[test]
fn of_many_who_open_a_new_file_at_once_one_creates_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/store.db");
    let start = std::sync::Barrier::new(8);
    let ids: Vec<_> = std::thread::scope(|scope| {
        let openers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    open(&path).info().id
                })
            })
            .collect();
        openers.into_iter().map(|opener| opener.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_on_one_file_take_turns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let stores = [open(&path), open(&path)];
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..40 {
        let store = stores[number % 2].clone();
        tasks.spawn(async move { store.commit(put(&format!("k{number}"), "1", Expect::Absent)).await });
    }
    while let Some(outcome) = tasks.join_next().await {
        outcome.unwrap().unwrap();
    }
    let head = stores[0].head().await.unwrap();
    let positions: u64 = head.of(stores[0].info().id).unwrap().positions.values().map(|p| p.get()).sum();
    assert_eq!(positions, 40);
}

#[tokio::test]
async fn a_writer_that_never_ends_makes_the_store_busy_not_stuck() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = open(&path);
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = store.commit(put("a", "1", Expect::Any)).await;
    let Err(CommitError::Engine(error)) = refused else { unreachable!("{refused:?}") };
    let kind = |error: &EngineError| error.kind();
    assert_eq!(kind(&error), FailureKind::Busy);
    other.execute_batch("ROLLBACK").unwrap();
    store.commit(put("a", "1", Expect::Any)).await.unwrap();
}
