use crate::commands::bank;
use crate::domain::{Account, Command};
use highwater::{ChangeOp, Cursor, Engine, FeedMode, PullError, Start};
use std::time::Duration;

async fn filled() -> Engine {
    let engine = bank().await;
    for number in 0..50 {
        let command = Command::DepositWithReceipt { cents: 1, receipt: format!("r{number}") };
        engine.execute::<Account>(format!("a{}", number % 7), command).await.unwrap();
    }
    engine
}

#[tokio::test]
async fn pages_of_any_size_add_up_to_every_change_once_and_commits_stay_whole() {
    let engine = filled().await;
    for size in [1, 3, 7, 1_000] {
        let mut seen = Vec::new();
        let mut feed = engine.feed(&[]).unwrap();
        loop {
            let page = feed.page(size).await.unwrap();
            let whole = page.changes.first().is_none_or(|change| change.ordinal == 0)
                && page.changes.last().is_none_or(|change| change.ordinal + 1 == change.count);
            assert!(whole, "a commit was split with pages of {size}");
            seen.extend(page.changes.iter().map(|change| (change.partition, change.position)));
            if page.changes.is_empty() && page.at_end {
                break;
            }
        }
        let all = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!((all, seen.len()), (100, 100), "pages of {size}");
    }
}

#[tokio::test]
async fn a_cursor_survives_as_text_and_is_refused_by_another_feed() {
    let engine = filled().await;
    let mut feed = engine.feed(&["accounts"]).unwrap();
    let first = feed.page(20).await.unwrap();
    let text = first.cursor.to_string();
    let cursor: Cursor = text.parse().unwrap();
    let mut resumed = engine.feed(&["accounts"]).unwrap().resume(cursor.clone()).unwrap();
    let rest = resumed.page(1_000).await.unwrap();
    assert_eq!(first.changes.len() + rest.changes.len(), 50);

    let other = engine.feed(&["receipts"]).unwrap().resume(cursor.clone());
    assert!(matches!(other, Err(PullError::OtherFeed { .. })));
    let elsewhere = bank().await;
    assert!(matches!(
        elsewhere.feed(&["accounts"]).unwrap().resume(cursor),
        Err(PullError::OtherFeed { .. })
    ));
    for hostile in ["", "x", "e30", "'; drop table", &"A".repeat(100_000)] {
        assert!(hostile.parse::<Cursor>().is_err());
    }
    assert!(matches!(feed.page(0).await, Err(PullError::EmptyPage)));
}

#[tokio::test]
async fn reading_can_begin_now_or_at_a_time() {
    let engine = filled().await;
    let clock = engine.clock().unwrap();
    clock.advance(Duration::from_secs(60));
    let since = highwater::Clock::now(clock);
    let mut now = engine.feed(&["accounts"]).unwrap().from(Start::Now);
    assert!(now.page(100).await.unwrap().changes.is_empty());
    engine.execute::<Account>("late", Command::Deposit { cents: 1 }).await.unwrap();
    for start in [Start::At(since)] {
        let mut feed = engine.feed(&["accounts"]).unwrap().from(start);
        let page = feed.page(100).await.unwrap();
        assert_eq!(page.changes.len(), 1);
        assert_eq!(page.changes[0].key.id.as_str(), "late");
    }
    assert_eq!(now.page(100).await.unwrap().changes.len(), 1);
}

#[tokio::test]
async fn the_latest_mode_shows_each_item_once_and_its_cursor_is_refused_by_a_feed_of_every_version() {
    let engine = filled().await;
    let latest = || engine.feed(&["accounts"]).unwrap().mode(FeedMode::Latest);
    let mut feed = latest();
    let page = feed.page(1_000).await.unwrap();
    let mut items: Vec<_> = page.changes.iter().map(|change| change.key.clone()).collect();
    assert!(page.changes.iter().all(|change| matches!(change.op, ChangeOp::Put(_))));
    items.sort();
    items.dedup();
    assert_eq!((page.changes.len(), items.len()), (7, 7), "each account once");

    engine.execute::<Account>("a3", Command::Deposit { cents: 1 }).await.unwrap();
    let cursor: Cursor = page.cursor.to_string().parse().unwrap();
    let next = latest().resume(cursor.clone()).unwrap().page(1_000).await.unwrap();
    let next: Vec<_> = next.changes.iter().map(|change| change.key.id.as_str()).collect();
    assert_eq!(next, ["a3"], "only what has changed again");

    let every = engine.feed(&["accounts"]).unwrap().resume(cursor.clone());
    assert!(matches!(every, Err(PullError::OtherFeed { .. })), "{every:?}");
    let mut turned = latest().resume(cursor).unwrap().mode(FeedMode::AllVersions);
    assert!(matches!(turned.page(10).await, Err(PullError::OtherFeed { .. })));
    let every = engine.feed(&["accounts"]).unwrap().page(10).await.unwrap().cursor;
    assert!(matches!(latest().resume(every), Err(PullError::OtherFeed { .. })));
}

#[tokio::test]
async fn the_bodies_before_the_changes_come_with_a_feed_that_asks_for_them() {
    let engine = bank().await;
    for _ in 0..2 {
        engine.execute::<Account>("a", Command::Deposit { cents: 1 }).await.unwrap();
    }
    let plain = engine.feed(&["accounts"]).unwrap().page(10).await.unwrap().changes;
    let asked = engine.feed(&["accounts"]).unwrap().with_previous().page(10).await.unwrap().changes;
    assert!(plain.iter().all(|change| change.previous.is_none()));
    let [first, second] = &asked[..] else { panic!("{asked:?}") };
    let ChangeOp::Put(body) = &first.op else { panic!("{first:?}") };
    assert_eq!((first.previous.as_ref(), second.previous.as_ref()), (None, Some(body)));
}
