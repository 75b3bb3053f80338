//! Items whose time to live passes, and the two modes of the feed.

use crate::support::{HandClock, body, event, json, key, options};
use highwater_core::{
    Batch, Change, ChangeOp, ChangeRequest, CommitError, Expect, FeedMode, Found, Store, Write,
};
use highwater_sqlite::Sqlite;
use std::{sync::Arc, time::Duration};

fn store(clock: &Arc<HandClock>) -> Arc<Sqlite> {
    Sqlite::in_memory(options(), clock.clone()).unwrap()
}

fn put(text: &str, expect: Expect, seconds: u64) -> Batch {
    let key = key("a");
    let mut write = Write::put(key.container, key.id, json(text)).expect(expect);
    write.time_to_live = (seconds > 0).then(|| Duration::from_secs(seconds));
    Batch::new(key.partition_key, vec![write])
}

async fn log(store: &Sqlite, request: impl FnOnce(ChangeRequest) -> ChangeRequest) -> Vec<Change> {
    let partition = store.info().partition_of(&key("a").partition_key);
    store.changes(&request(ChangeRequest::new(partition, None, 100))).await.unwrap().changes
}

#[tokio::test]
async fn an_expired_item_is_absent_at_once_and_a_write_over_it_shows_the_expiry_first() {
    let clock = HandClock::at(0);
    let store = store(&clock);
    let first = store.commit(put("1", Expect::Absent, 10)).await.unwrap().etags[0];
    clock.set(9_999_999);
    assert_eq!(body(&store, "a").await.as_deref(), Some("1"));
    clock.set(10_000_000);
    let gone = store.item(&key("a")).await.unwrap().unwrap();
    assert!(!gone.exists && gone.body.is_none() && gone.etag.version.get() == 2);
    clock.set(0);
    assert!(!store.item(&key("a")).await.unwrap().unwrap().exists, "nothing comes back with the clock");
    let stale = store.commit(put("2", Expect::ETag(first), 0)).await;
    assert!(
        matches!(stale, Err(CommitError::Conflict { found: Found::Gone(etag), .. }) if etag == gone.etag),
        "{stale:?}"
    );
    let second = store.commit(put("2", Expect::ETag(gone.etag), 0)).await.unwrap().etags;
    assert_eq!(second.len(), 1);
    assert_eq!(second[0].version.get(), 3);
    let log = log(&store, ChangeRequest::with_previous).await;
    let ops: Vec<_> = log.iter().map(|change| (change.op.clone(), change.ordinal, change.count)).collect();
    assert!(matches!(&ops[..], [(ChangeOp::Put(_), 0, 1), (expiry, 0, 1), (ChangeOp::Put(_), 0, 1)]
        if *expiry == ChangeOp::EXPIRE));
    let previous: Vec<_> =
        log.iter().map(|change| change.previous.as_ref().map(|body| body.json.to_string())).collect();
    assert_eq!(previous, [None, Some("1".into()), None]);
}

#[tokio::test]
async fn a_put_sets_the_life_anew_and_a_kept_document_leaves_it() {
    let clock = HandClock::at(0);
    let store = store(&clock);
    let expiry = async || store.item(&key("a")).await.unwrap().unwrap().expires_at.map(|at| at.as_micros());
    store.commit(put("1", Expect::Any, 10)).await.unwrap();
    let keep = |seconds: u64| {
        let key = key("a");
        let mut write = Write::keep(key.container, key.id);
        write.time_to_live = (seconds > 0).then(|| Duration::from_secs(seconds));
        Batch::new(key.partition_key, vec![write])
    };
    store.commit(keep(0)).await.unwrap();
    assert_eq!(expiry().await, Some(10_000_000));
    store.commit(keep(20)).await.unwrap();
    assert_eq!(expiry().await, Some(20_000_000));
    store.commit(put("2", Expect::Any, 0)).await.unwrap();
    assert_eq!(expiry().await, None);
    for seconds in [Duration::from_millis(999), Duration::from_secs(3_650 * 86_400 + 1)] {
        let key = key("a");
        let write = Write::put(key.container, key.id, json("1")).time_to_live(seconds);
        let refused = store.commit(Batch::new(key.partition_key, vec![write])).await;
        assert!(matches!(refused, Err(CommitError::OutOfRange { .. })), "{refused:?}");
    }
}

#[tokio::test]
async fn the_latest_mode_shows_each_item_that_exists_once_with_its_present_body() {
    let clock = HandClock::at(0);
    let store = store(&clock);
    let latest = async || {
        let changes = log(&store, |request| request.mode(FeedMode::Latest)).await;
        changes.into_iter().map(|change| (change.version.get(), change.op)).collect::<Vec<_>>()
    };
    for text in ["1", "2"] {
        store.commit(put(text, Expect::Any, 0)).await.unwrap();
    }
    let key = key("a");
    let keep = Write::keep(key.container.clone(), key.id.clone());
    let paid = keep.clone().events(vec![event("Paid")]);
    store.commit(Batch::new(key.partition_key.clone(), vec![paid])).await.unwrap();
    store.commit(Batch::new(key.partition_key.clone(), vec![keep])).await.unwrap();
    let shown = latest().await;
    assert!(matches!(&shown[..], [(3, ChangeOp::Put(body))] if body.json.as_bytes() == b"2"), "{shown:?}");
    // A soft deletion: marked, shown, and gone in time.
    store.commit(put(r#"{"deleted":true}"#, Expect::Any, 60)).await.unwrap();
    assert!(matches!(&latest().await[..], [(5, ChangeOp::Put(_))]));
    clock.set(60_000_000);
    assert_eq!(latest().await, []);
}
