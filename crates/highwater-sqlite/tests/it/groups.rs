use crate::support::{body, key, open, put};
use highwater_core::{ChangeRequest, CommitError, Expect, Partition, Store};
use highwater_sqlite::Sqlite;
use std::{path::Path, sync::Arc};

/// Makes every log refuse the item `poison`, ending the whole transaction or only the statement.
fn sabotage(path: &Path, how: &str) {
    let raw = rusqlite::Connection::open(path).unwrap();
    for partition in 0..4 {
        raw.execute_batch(&format!(
            "CREATE TRIGGER refuse_{partition} AFTER INSERT ON log_{partition:04} WHEN new.id = 'poison'
             BEGIN SELECT RAISE({how}, 'sabotage'); END"
        ))
        .unwrap();
    }
}

/// Commits a crowd at once, so that it forms groups, with the poisoned one in its midst.
async fn crowd(store: &Arc<Sqlite>) -> Vec<(String, Result<highwater_core::Committed, CommitError>)> {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..60 {
        let (store, id) =
            (store.clone(), if number == 30 { "poison".into() } else { format!("item-{number}") });
        tasks.spawn(async move {
            let outcome = store.commit(put(&id, "1", Expect::Absent)).await;
            (id, outcome)
        });
    }
    tasks.join_all().await
}

#[tokio::test]
async fn an_error_inside_a_group_leaves_no_fragment_and_fails_nobody_else() {
    for how in ["ROLLBACK", "ABORT", "FAIL"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        open(&path).close().await;
        sabotage(&path, how);
        let store = open(&path);
        for (id, outcome) in crowd(&store).await {
            assert_eq!(outcome.is_err(), id == "poison", "{how}: {id}: {outcome:?}");
        }
        assert_eq!(body(&store, "poison").await, None);
        assert!(store.item(&key("poison")).await.unwrap().is_none(), "{how}");
        let mut seen = 0;
        for partition in Partition::all(4) {
            let page = store.changes(&ChangeRequest::new(partition, None, 100)).await.unwrap();
            let positions: Vec<_> = page.changes.iter().map(|change| change.position.get()).collect();
            assert_eq!(positions, (1..=positions.len() as u64).collect::<Vec<_>>(), "{how}");
            seen += page.changes.len();
        }
        assert_eq!(seen, 59, "{how}");
    }
}

#[cfg(feature = "failpoints")]
mod held {
    use super::*;
    use crate::support::{mark, name};
    use highwater_core::{NewMessage, Queue, failpoint};
    use tokio::sync::Mutex;

    /// Failpoints are the process's: one test at a time.
    static ONE: Mutex<()> = Mutex::const_new(());

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_commit_held_open_is_invisible_and_nothing_overtakes_it() {
        let _one = ONE.lock().await;
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder.path().join("store.db"));
        let partition = store.info().partition_of(&key("a").partition_key);
        let hold = failpoint::hold("sqlite.commit.before");
        let first = tokio::spawn({
            let store = store.clone();
            async move { store.commit(put("a", "1", Expect::Any)).await }
        });
        tokio::task::block_in_place(|| hold.wait_until_held());
        let second = tokio::spawn({
            let store = store.clone();
            async move { store.commit(put("a", "2", Expect::Any)).await }
        });
        let page = store.changes(&ChangeRequest::new(partition, None, 10)).await.unwrap();
        assert_eq!((page.changes.len(), page.scanned, page.at_end), (0, None, true));
        assert!(store.item(&key("a")).await.unwrap().is_none());
        assert!(!first.is_finished() && !second.is_finished());
        drop(hold);
        first.await.unwrap().unwrap();
        second.await.unwrap().unwrap();
        let page = store.changes(&ChangeRequest::new(partition, None, 10)).await.unwrap();
        let bodies: Vec<_> = page.changes.iter().map(|change| change.version.get()).collect();
        assert_eq!(bodies, [1, 2]);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nobody_is_answered_before_commit_and_one_group_takes_all_that_wait() {
        let _one = ONE.lock().await;
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder.path().join("store.db"));
        let hold = failpoint::hold("sqlite.commit.before");
        let first = tokio::spawn({
            let store = store.clone();
            async move { store.put(&name("work"), NewMessage::new("x")).await }
        });
        tokio::task::block_in_place(|| hold.wait_until_held());
        // Both wait for the held group, so they are in one group after it, in this order.
        let absent = put("a", "1", Expect::Absent).command(mark());
        let writes = [absent, put("a", "2", Expect::Absent)].map(|batch| {
            let store = store.clone();
            Box::pin(async move { store.commit(batch).await })
        });
        let mut outcomes = Vec::new();
        let [mut one, mut two] = writes;
        for write in [&mut one, &mut two] {
            // Polled once: the work is handed over.
            assert!(futures_poll(write).await.is_none());
        }
        assert!(!first.is_finished());
        drop(hold);
        outcomes.push(one.await);
        outcomes.push(two.await);
        assert!(outcomes[0].is_ok());
        assert!(matches!(outcomes[1], Err(CommitError::Conflict { .. })), "{outcomes:?}");
        first.await.unwrap().unwrap();
    }

    async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        let mut future = std::pin::Pin::new(future);
        std::future::poll_fn(|context| match future.as_mut().poll(context) {
            std::task::Poll::Ready(value) => std::task::Poll::Ready(Some(value)),
            std::task::Poll::Pending => std::task::Poll::Ready(None),
        })
        .await
    }
}
