//! What happens to a store when the disk, or somebody with a shell, does its worst.

use crate::support::{HandClock, body, json, name, open, options, put};
use highwater_core::{
    CellKey, CellWrite, Cells, CommitError, EngineError, Expect, FailureKind, NewMessage, Parking, PutError,
    Queue, ReadError, Store, Timestamp, Update,
};
use highwater_sqlite::{OpenError, Sqlite};
use highwater_testkit::TestClock;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

fn large() -> String {
    format!("\"{}\"", "x".repeat(250_000))
}

fn beside(path: &Path, end: &str) -> PathBuf {
    format!("{}{end}", path.display()).into()
}

/// Copies the files of a store that is open and at rest: what a crash leaves.
fn crash(from: &Path, to: &Path) {
    for end in ["", "-wal", "-witness"] {
        fs::copy(beside(from, end), beside(to, end)).unwrap();
    }
}

fn refused(path: &Path) -> OpenError {
    Sqlite::open(path, options(), HandClock::at(0)).unwrap_err()
}

#[tokio::test]
async fn a_write_ahead_log_removed_or_cut_short_while_stopped_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let clock = HandClock::at(1_000);
    let first = Sqlite::open(&path, options(), clock.clone()).unwrap();
    first.commit(put("a", "1", Expect::Any)).await.unwrap();
    let fresh = folder.path().join("fresh.db");
    crash(&path, &fresh);
    first.close().await;
    let store = Sqlite::open(&path, options(), clock.clone()).unwrap();
    for number in 2..20 {
        clock.set(number * 1_000);
        store.commit(put("a", &number.to_string(), Expect::Any)).await.unwrap();
    }
    let [removed, cut, whole] = ["removed.db", "cut.db", "whole.db"].map(|name| folder.path().join(name));
    for copy in [&removed, &cut, &whole] {
        crash(&path, copy);
    }
    fs::remove_file(beside(&removed, "-wal")).unwrap();
    let log = fs::File::options().write(true).open(beside(&cut, "-wal")).unwrap();
    log.set_len(log.metadata().unwrap().len() / 2).unwrap();
    // Before the log was ever moved the file without it is an empty database, which is not filled anew.
    fs::remove_file(beside(&fresh, "-wal")).unwrap();
    for path in [&removed, &cut, &fresh] {
        for _ in 0..2 {
            let error = refused(path);
            assert!(matches!(error, OpenError::LostWrites { .. }), "{error}");
            assert!(error.to_string().contains(&format!("{}-wal", path.display())), "{error}");
        }
    }
    assert_eq!(body(&open(&whole), "a").await.as_deref(), Some("19"));
    // Whoever accepts the loss goes on with what is left.
    fs::remove_file(beside(&removed, "-witness")).unwrap();
    let store = open(&removed);
    assert_eq!(body(&store, "a").await.as_deref(), Some("1"));
    store.commit(put("a", "2", Expect::Any)).await.unwrap();
}

#[tokio::test]
async fn a_store_that_was_removed_leaves_no_witness_against_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = open(&path);
    store.commit(put("a", "1", Expect::Any)).await.unwrap();
    store.close().await;
    let old = fs::read(beside(&path, "-witness")).unwrap();
    fs::remove_file(&path).unwrap();
    let next = open(&path);
    assert!(!beside(&path, "-witness").exists());
    assert!(body(&next, "a").await.is_none());
    next.close().await;
    // An empty file is another matter: somebody cut it.
    fs::write(beside(&path, "-witness"), old).unwrap();
    fs::write(&path, "").unwrap();
    assert!(matches!(refused(&path), OpenError::LostWrites { .. }));
}

#[tokio::test]
async fn a_file_cut_short_while_stopped_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = open(&path);
    store.commit(put("a", &large(), Expect::Any)).await.unwrap();
    store.close().await;
    let bytes = fs::read(&path).unwrap();
    for length in [bytes.len() / 2, bytes.len() - 4096, 5_000, 50] {
        fs::write(&path, &bytes[..length]).unwrap();
        let error = refused(&path);
        assert!(matches!(error, OpenError::Damaged { .. }), "{length}: {error:?}");
        assert_eq!(fs::read(&path).unwrap().len(), length);
    }
    fs::write(&path, &bytes).unwrap();
    assert!(body(&open(&path), "a").await.is_some());
}

#[tokio::test]
async fn a_file_cut_short_under_a_running_store_is_an_error_that_says_so_and_no_crash() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = open(&path);
    store.commit(put("a", &large(), Expect::Any)).await.unwrap();
    store.close().await;
    let whole = fs::read(&path).unwrap();
    let store = open(&path);
    fs::File::options().write(true).open(&path).unwrap().set_len(20 * 4096).unwrap();
    let Err(ReadError::Engine(error)) = store.item(&crate::support::key("a")).await else {
        unreachable!("the body is not there")
    };
    assert_eq!(error.kind(), FailureKind::Corrupt, "{error:?}");
    assert!(error.kind().is_fatal() && error.to_string().contains("restore"), "{error}");
    fs::write(&path, whole).unwrap();
    assert!(body(&store, "a").await.is_some(), "and without it the same store goes on");
}

#[tokio::test]
async fn with_the_clock_set_back_an_hour_time_goes_on_and_never_runs_backwards() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let clock = Arc::new(TestClock::new());
    let store = Sqlite::open(&path, options(), clock.clone()).unwrap();
    let noon = highwater_core::Clock::now(&*clock);
    store.commit(put("a", "1", Expect::Any)).await.unwrap();
    store.put(&name("work"), NewMessage::new("x")).await.unwrap();
    let first = store.get(&name("work"), 1, Duration::from_secs(30)).await.unwrap().remove(0);
    clock.set(Timestamp::from_micros(noon.as_micros() - 3_600_000_000));
    clock.advance(Duration::from_secs(29));
    assert!(store.get(&name("work"), 1, Duration::from_secs(30)).await.unwrap().is_empty());
    store.commit(put("a", "2", Expect::Any)).await.unwrap();
    clock.advance(Duration::from_secs(2));
    let second = store.get(&name("work"), 1, Duration::from_secs(30)).await.unwrap().remove(0);
    assert_eq!((first.message.id, second.message.dequeue_count), (second.message.id, 2));
    let partition = store.info().partition_of(&crate::support::key("a").partition_key);
    let history = store.history(&crate::support::key("a"), None, 10).await.unwrap();
    let times: Vec<_> = history.iter().map(|change| change.at.since(noon)).collect();
    assert_eq!(times, [Duration::from_secs(29), Duration::ZERO]);
    let before = store.position_before(partition, history[0].at).await.unwrap();
    assert_eq!(before, Some(history[1].position));
    store.close().await;
    // The next process begins at the latest moment that was given out.
    let store = Sqlite::open(&path, options(), clock.clone()).unwrap();
    let committed = store.commit(put("b", "1", Expect::Any)).await.unwrap();
    assert_eq!(committed.etags.len(), 1);
    let change = store.history(&crate::support::key("b"), None, 1).await.unwrap().remove(0);
    assert!(change.at.since(noon) >= Duration::from_secs(31), "{}", change.at);
}

#[cfg(target_os = "linux")]
mod small_disk {
    use super::*;
    use std::{
        io::Write,
        process::{Command, Stdio},
    };

    /// Runs a test of this program, that is ignored otherwise, as a process with a disk of its own: 40 MiB of memory,
    /// mounted where nobody else sees it. False where that is not allowed.
    fn with_a_disk(test: &str) -> bool {
        let folder = tempfile::tempdir().unwrap();
        // Root may do it, and others where the system lets them be root of their own.
        let allowed = |flags: &&str| {
            let mut probe = Command::new("unshare");
            let probe = probe.args([flags, "mount", "-t", "tmpfs", "none"]).arg(folder.path());
            probe.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        let Some(flags) = ["-m", "-rm"].into_iter().find(allowed) else {
            eprintln!(
                "{test} cannot run here: mounts are not allowed; run as root, or allow user namespaces"
            );
            return false;
        };
        let run = "mount -t tmpfs -o size=40m none \"$0\" && exec \"$@\"";
        let status = Command::new("unshare")
            .args([flags, "sh", "-c", run])
            .arg(folder.path())
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", &format!("faults::small_disk::{test}"), "--ignored", "--nocapture"])
            .env("HIGHWATER_TEST_DISK", folder.path())
            .status()
            .unwrap();
        assert!(status.success(), "{test} failed: {status}");
        true
    }

    fn disk() -> Option<PathBuf> {
        std::env::var_os("HIGHWATER_TEST_DISK").map(PathBuf::from)
    }

    /// Takes all the space that is left.
    fn fill(disk: &Path) -> PathBuf {
        let path = disk.join("ballast");
        let mut file = fs::File::create(&path).unwrap();
        for size in [1024 * 1024, 4096, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
        path
    }

    fn is_out_of_space(error: &EngineError) -> bool {
        error.kind() == FailureKind::OutOfSpace
    }

    #[test]
    fn on_a_full_disk_new_work_is_refused_and_deletions_and_acknowledgements_go_on() {
        with_a_disk("full");
    }

    #[tokio::test]
    #[ignore = "run by another test, as a process of its own"]
    async fn full() {
        let Some(disk) = disk() else { return };
        let path = disk.join("store.db");
        let (store, queue) = (open(&path), name("work"));
        store.commit(put("a", "1", Expect::Any)).await.unwrap();
        for _ in 0..300 {
            store.put(&queue, NewMessage::new("x".repeat(500))).await.unwrap();
        }
        let lease = CellKey::new(name("leases"), "one");
        store.write(CellWrite::new(lease.clone(), Expect::Any, json("1"))).await.unwrap();
        let ballast = fill(&disk);
        let mut written = 0;
        let error = loop {
            match store.commit(put(&format!("large-{written}"), &large(), Expect::Any)).await {
                Ok(_) => written += 1,
                Err(CommitError::Engine(error)) => break error,
                Err(other) => unreachable!("{other}"),
            }
            assert!(written < 200);
        };
        assert!(is_out_of_space(&error), "{error:?}");
        assert!(error.to_string().contains("store.db") && error.to_string().contains("16 MiB"), "{error}");
        let refused = store.put(&queue, NewMessage::new("y")).await;
        assert!(matches!(refused, Err(PutError::Engine(error)) if is_out_of_space(&error)));

        // A process that starts on the full disk does the same.
        let other = open(&disk.join("store.db"));
        for number in 0..100 {
            let store = if number % 2 == 0 { &store } else { &other };
            let taken = store.get(&queue, 3, Duration::from_secs(60)).await.unwrap();
            assert_eq!(taken.len(), 3);
            Queue::delete(&**store, &taken[0].receipt).await.unwrap();
            let later = Update::visible_in(Duration::from_secs(600));
            let receipt = store.update(&taken[1].receipt, later).await.unwrap();
            Queue::delete(&**store, &receipt).await.unwrap();
            let reason = Parking::new("permanent", "on purpose", "a test");
            store.park(&taken[2].receipt, reason).await.unwrap();
            store.write(CellWrite::new(lease.clone(), Expect::Any, json(&number.to_string()))).await.unwrap();
        }
        Cells::delete(&*store, &lease, Expect::Any).await.unwrap();
        assert_eq!(store.clear(&queue).await.unwrap(), 0);
        let refused = other.commit(put("a", "2", Expect::Any)).await;
        assert!(matches!(refused, Err(CommitError::Engine(error)) if is_out_of_space(&error)));
        assert_eq!(body(&other, "a").await.as_deref(), Some("1"), "what was there is there");
        for number in 0..written {
            assert!(body(&store, &format!("large-{number}")).await.is_some());
        }

        fs::remove_file(ballast).unwrap();
        let began = Instant::now();
        for store in [&store, &other] {
            while let Err(error) = store.commit(put("b", "1", Expect::Any)).await {
                assert!(began.elapsed() < Duration::from_secs(20), "{error}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        assert!(beside(&path, "-reserve").exists());
        for store in [store, other] {
            store.close().await;
        }
        assert_eq!(body(&open(&path), "b").await.as_deref(), Some("1"));
    }

    #[test]
    fn a_store_on_a_read_only_mount_is_refused_by_name() {
        with_a_disk("read_only");
    }

    #[tokio::test]
    #[ignore = "run by another test, as a process of its own"]
    async fn read_only() {
        let Some(disk) = disk() else { return };
        let path = disk.join("store.db");
        let store = open(&path);
        store.commit(put("a", "1", Expect::Any)).await.unwrap();
        store.close().await;
        drop(store);
        let remount = |how: &str| {
            let status = Command::new("mount").args(["-o", how]).arg(&disk).status().unwrap();
            assert!(status.success());
        };
        remount("remount,ro");
        let error = refused(&path);
        assert!(matches!(error, OpenError::ReadOnly { .. }), "{error:?}");
        let other = disk.join("other.db");
        let error = refused(&other);
        assert!(
            matches!(&error, OpenError::ReadOnly { path } if *path == other.display().to_string()),
            "{error:?}"
        );
        remount("remount,rw");
        assert_eq!(body(&open(&path), "a").await.as_deref(), Some("1"));
    }

    /// The system lets no file grow beyond 20 MiB: SQLite sees errors of the disk that do not say it is full.
    #[tokio::test]
    async fn after_errors_of_the_disk_what_was_acknowledged_is_there_and_work_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let output = Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 40960; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "faults::small_disk::limited", "--ignored", "--nocapture"])
            .env("HIGHWATER_TEST_DISK", folder.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let acknowledged = text.lines().find_map(|line| line.strip_prefix("acknowledged ")).unwrap();
        let acknowledged: usize = acknowledged.parse().unwrap();
        assert!(acknowledged > 10);
        let store = open(&path);
        for number in 0..acknowledged {
            assert!(body(&store, &format!("large-{number}")).await.is_some(), "{number} of {acknowledged}");
        }
        store.commit(put("after", "1", Expect::Any)).await.unwrap();
    }

    #[tokio::test]
    #[ignore = "run by another test, as a process of its own"]
    async fn limited() {
        let Some(disk) = disk() else { return };
        let store = open(&disk.join("store.db"));
        let mut acknowledged = 0;
        let error = loop {
            match store.commit(put(&format!("large-{acknowledged}"), &large(), Expect::Any)).await {
                Ok(_) => acknowledged += 1,
                Err(CommitError::Engine(error)) => break error,
                Err(other) => unreachable!("{other}"),
            }
            assert!(acknowledged < 1_000);
        };
        println!("\nacknowledged {acknowledged}");
        assert_eq!(error.kind(), FailureKind::Unavailable, "{error:?}");
        for _ in 0..3 {
            assert!(store.commit(put("more", &large(), Expect::Any)).await.is_err());
            assert!(body(&store, "large-0").await.is_some(), "reading goes on");
        }
    }
}
