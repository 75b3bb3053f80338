//! What is proven with a transaction held open, alone in its process: failpoints are the process's.

#![allow(clippy::unwrap_used, reason = "a helper of a test may fail as the test itself may")]

#[path = "it/support.rs"]
#[allow(dead_code, reason = "shared with the other tests, which need more of it")]
mod support;

use highwater_core::{
    Backend, ChangeRequest, CommitError, Expect, NewMessage, Partition, Queue, Store, async_trait, failpoint,
};
use highwater_sqlite::{Options, Sqlite};
use highwater_testkit::{Factory, Features, Held, Problem, Report, TestClock, check};
use std::{path::Path, pin::Pin, sync::Arc, task::Poll};
use support::{body, key, mark, name, open, put};
use tempfile::TempDir;
use tokio::sync::Mutex;

/// One test at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

struct OnDisk(TempDir);

#[async_trait]
impl Factory for OnDisk {
    async fn fresh(&self, clock: Arc<TestClock>) -> Result<Backend, Problem> {
        let path = self.0.path().join("store.db");
        Ok(highwater_sqlite::open(&path.to_string_lossy(), Options::default(), clock)?)
    }

    fn features(&self) -> Features {
        let mut features = Features::default();
        features.hold = true;
        features
    }

    async fn hold_next_commit(&self, _: &Backend) -> Result<Box<dyn Held>, Problem> {
        Ok(Box::new(HeldCommit(Arc::new(failpoint::hold("sqlite.commit.before")))))
    }
}

struct HeldCommit(Arc<failpoint::Hold>);

#[async_trait]
impl Held for HeldCommit {
    async fn reached(&mut self) {
        let hold = self.0.clone();
        tokio::task::spawn_blocking(move || hold.wait_until_held()).await.unwrap();
    }
}

#[test]
fn a_commit_held_open_is_not_passed_by_readers() -> Result<(), Report> {
    let _alone = ALONE.blocking_lock();
    check(OnDisk(tempfile::tempdir().unwrap()), "a_commit_held_open_is_not_passed_by_readers")
}

/// Something that was handed over to the writer.
type Waiting<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Hands work over without waiting for its outcome.
async fn hand_over<T>(work: impl Future<Output = T> + Send + 'static) -> Waiting<T> {
    let mut work: Waiting<T> = Box::pin(work);
    let waits = std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context).is_pending())).await;
    assert!(waits, "nobody is answered while the group before is held");
    work
}

fn commit(
    store: &Arc<Sqlite>,
    batch: highwater_core::Batch,
) -> impl Future<Output = Result<highwater_core::Committed, CommitError>> + Send + 'static {
    let store = store.clone();
    async move { store.commit(batch).await }
}

/// Puts a message, whose group is held before its COMMIT until what is returned is dropped.
async fn hold_a_group(store: &Arc<Sqlite>) -> (failpoint::Hold, Waiting<()>) {
    let hold = failpoint::hold("sqlite.commit.before");
    let store = store.clone();
    let first = async move { drop(store.put(&name("work"), NewMessage::new("x")).await.unwrap()) };
    let first = hand_over(first).await;
    hold.wait_until_held();
    (hold, first)
}

/// Makes every log refuse the item `poison`, ending the whole transaction or only the statement.
fn sabotage(path: &Path, how: &str) {
    let raw = rusqlite::Connection::open(path).unwrap();
    for partition in 0..4 {
        raw.execute_batch(&format!(
            "CREATE TRIGGER refuse_{partition} AFTER INSERT ON log_{partition:04} WHEN new.partition_key = 'poison'
             BEGIN SELECT RAISE({how}, 'sabotage'); END"
        ))
        .unwrap();
    }
}

#[tokio::test]
async fn an_error_inside_a_group_leaves_no_fragment_and_fails_nobody_else() {
    let _alone = ALONE.lock().await;
    for how in ["ROLLBACK", "ABORT", "FAIL"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        open(&path).close().await;
        sabotage(&path, how);
        let store = open(&path);
        // All wait for the held group, so they are one group after it, the poisoned one in its midst.
        let (hold, first) = hold_a_group(&store).await;
        let mut waiting = Vec::new();
        for number in 0..60 {
            let id = if number == 30 { "poison".into() } else { format!("item-{number}") };
            let work = commit(&store, put(&id, "1", Expect::Absent));
            waiting.push((id, hand_over(work).await));
        }
        drop(hold);
        first.await;
        for (id, outcome) in waiting {
            let outcome = outcome.await;
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

#[tokio::test]
async fn a_commit_held_open_is_invisible_and_nothing_overtakes_it() {
    let _alone = ALONE.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store.db"));
    let partition = store.info().partition_of(&key("a").partition_key);
    let hold = failpoint::hold("sqlite.commit.before");
    let first = hand_over(commit(&store, put("a", "1", Expect::Any))).await;
    hold.wait_until_held();
    let second = hand_over(commit(&store, put("a", "2", Expect::Any))).await;
    let page = store.changes(&ChangeRequest::new(partition, None, 10)).await.unwrap();
    assert_eq!((page.changes.len(), page.scanned, page.at_end), (0, None, true));
    assert!(store.item(&key("a")).await.unwrap().is_none());
    drop(hold);
    first.await.unwrap();
    second.await.unwrap();
    let page = store.changes(&ChangeRequest::new(partition, None, 10)).await.unwrap();
    let versions: Vec<_> = page.changes.iter().map(|change| change.version.get()).collect();
    assert_eq!(versions, [1, 2]);
}

#[tokio::test]
async fn nobody_is_answered_before_commit_and_one_group_takes_all_that_wait() {
    let _alone = ALONE.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store.db"));
    let (hold, first) = hold_a_group(&store).await;
    // Both wait for the held group, so they are in one group after it, in this order.
    let one = hand_over(commit(&store, put("a", "1", Expect::Absent).command(mark()))).await;
    let two = hand_over(commit(&store, put("a", "2", Expect::Absent))).await;
    drop(hold);
    first.await;
    assert!(one.await.is_ok());
    let two = two.await;
    assert!(matches!(two, Err(CommitError::Conflict { .. })), "{two:?}");
}
