use crate::commands::bank;
use crate::domain::{Account, Command};
use highwater::{Cursor, Engine, PullError, Start};
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
