use crate::support::{WallClock, body, name, open, options, put};
use highwater_core::{
    Change, ChangeRequest, CommitError, EngineError, Expect, FailureKind, NewMessage, Partition, Queue, Store,
};
use highwater_sqlite::Sqlite;
use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

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

/// What the children of `two_busy_processes_…` run, each by itself: commits with 16 in flight until a time is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by another test, as a process of its own"]
async fn a_busy_process() {
    let Ok(given) = std::env::var("HIGHWATER_TEST_BUSY") else { return };
    let (who, path) = given.split_once('=').unwrap();
    let store = Sqlite::open(path, options(), WallClock::new()).unwrap();
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for lane in 0..16 {
        let (store, who) = (store.clone(), who.to_owned());
        tasks.spawn(async move {
            while began.elapsed() < Duration::from_secs(4) {
                store.commit(put(&format!("{who}-{lane}"), "1", Expect::Any)).await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    store.close().await;
}

fn busy_process(who: &str, path: &Path) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::a_busy_process", "--ignored", "--nocapture"])
        .env("HIGHWATER_TEST_BUSY", format!("{who}={}", path.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// All changes of a store.
async fn all_changes(store: &Sqlite) -> Vec<Change> {
    let mut changes = Vec::new();
    for partition in Partition::all(store.info().partitions) {
        let mut after = None;
        loop {
            let page = store.changes(&ChangeRequest::new(partition, after, 10_000)).await.unwrap();
            changes.extend(page.changes);
            after = page.scanned;
            if page.at_end {
                break;
            }
        }
    }
    changes
}

#[tokio::test]
async fn two_busy_processes_each_get_at_least_30_percent_of_the_commits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    open(&path).close().await;
    let mut children: Vec<_> = ["a", "b"].into_iter().map(|who| busy_process(who, &path)).collect();
    for (_, output) in &mut children {
        assert!(output.lines().any(|line| line.unwrap().contains("ready")));
    }
    for (child, _) in &mut children {
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }
    for (child, output) in &mut children {
        // Until it ends; its pipe must not fill up.
        output.lines().for_each(drop);
        assert!(child.wait().unwrap().success());
    }
    let store = open(&path);
    let mut times: HashMap<char, Vec<i64>> = HashMap::new();
    for change in all_changes(&store).await {
        times.entry(change.key.id.as_str().chars().next().unwrap()).or_default().push(change.at.as_micros());
    }
    let times: Vec<_> = times.into_values().collect();
    assert_eq!(times.len(), 2, "both have committed");
    // Only while both were at work; the system starts and ends them when it likes.
    let first = times.iter().map(|times| *times.iter().min().unwrap()).max().unwrap();
    let last = times.iter().map(|times| *times.iter().max().unwrap()).min().unwrap();
    let counts: Vec<_> =
        times.iter().map(|times| times.iter().filter(|at| (first..=last).contains(*at)).count()).collect();
    let all = counts[0] + counts[1];
    println!("{counts:?} commits in {} ms", (last - first) / 1_000);
    assert!(all > 100 && last - first > 1_000_000, "{counts:?} in {} µs", last - first);
    assert!(counts.iter().all(|count| count * 10 >= all * 3), "{counts:?}");
}

#[tokio::test]
async fn a_commit_or_message_of_another_process_wakes_whoever_waits_here() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let (here, there) = (open(&path), open(&path));
    let (mut commits, mut messages) = (Store::wake(&*here), Queue::wake(&*here));
    for number in 0..5 {
        let began = Instant::now();
        there.commit(put(&format!("k{number}"), "1", Expect::Any)).await.unwrap();
        // Nothing else would wake it: without looking at the file this waits for ever.
        tokio::time::timeout(Duration::from_secs(20), commits.hint()).await.unwrap();
        println!("woken after {:?}", began.elapsed());
    }
    there.put(&name("work"), NewMessage::new("x")).await.unwrap();
    tokio::time::timeout(Duration::from_secs(20), messages.hint()).await.unwrap();
}

#[tokio::test]
async fn a_view_written_by_another_process_wakes_whoever_waits_for_it_here() {
    use highwater_core::{Epoch, ViewName, ViewSlot, ViewStore};
    use highwater_sqlite::SqliteViews;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("views.db");
    let (here, there) =
        (SqliteViews::open(&path, options()).unwrap(), SqliteViews::open(&path, options()).unwrap());
    let mut wake = here.wake();
    let view = ViewName { name: name("month"), generation: 1 };
    let store = highwater_core::StoreId::random();
    there.claim(&ViewSlot { view, store, partition: Partition(0) }, Epoch(1)).await.unwrap();
    tokio::time::timeout(Duration::from_secs(20), wake.hint()).await.unwrap();
}
