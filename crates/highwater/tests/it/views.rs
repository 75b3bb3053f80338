use crate::commands::bank;
use crate::domain::{Account, Balances, Command, Sheet};
use highwater::{Engine, Freshness, Outcome, Position, Step, Token, ViewReadError};
use highwater_core::{Epoch, Partition, StoreId};
use std::collections::BTreeMap;
use std::time::Duration;

/// What the log says, folded by hand.
pub(crate) async fn fold_of_the_log(engine: &Engine) -> Sheet {
    let mut sheet = Sheet::new();
    let mut feed = engine.feed(&["accounts"]).unwrap();
    loop {
        let page = feed.page(100).await.unwrap();
        for change in &page.changes {
            for event in &change.events {
                let cents = event.data.decode::<BTreeMap<String, i64>>().unwrap()["cents"];
                let sign = if &*event.name == "Deposited" { 1 } else { -1 };
                *sheet.entry(change.key.id.to_string()).or_default() += sign * cents;
            }
        }
        if page.at_end && page.changes.is_empty() {
            return sheet;
        }
    }
}

pub(crate) async fn balances(engine: &Engine) -> Sheet {
    engine.view::<Balances>().get("all").await.unwrap().document.unwrap_or_default()
}

/// Invariant 4: effects once.
#[tokio::test]
async fn a_view_equals_a_fold_of_the_log_also_when_all_partitions_meet_in_one_document() {
    let engine = bank().await;
    for round in 1..=5 {
        for account in 0..40 {
            let command = Command::Deposit { cents: round * account };
            engine.send::<Account>(format!("account {account}"), command).await.unwrap();
        }
        let settled = engine.settle().await.unwrap();
        assert!(settled.trouble().is_empty(), "{:?}", settled.trouble());
        assert_eq!(balances(&engine).await, fold_of_the_log(&engine).await);
    }
    assert_eq!(balances(&engine).await.len(), 40);
}

#[tokio::test]
async fn a_document_that_is_not_as_new_as_the_token_says_how_far_it_is_behind() {
    let engine = bank().await;
    let outcome = engine.execute::<Account>("barbara", Command::Deposit { cents: 5 }).await.unwrap();
    let token = outcome.token().unwrap();
    let get = || engine.view::<Balances>().get("all").at_least(token).wait(Duration::from_secs(9));
    let stale = get().await.unwrap();
    assert_eq!((stale.document, stale.freshness), (None, Freshness::Stale { behind: 1 }));
    engine.settle().await.unwrap();
    let fresh = get().await.unwrap();
    assert_eq!(fresh.freshness, Freshness::Fresh);
    assert_eq!(fresh.document.unwrap()["barbara"], 5);
    assert_eq!(&fresh.token, token);
}

#[tokio::test]
async fn a_token_of_a_container_that_the_view_does_not_follow_is_reached_all_the_same() {
    let engine = bank().await;
    let command = Command::DepositWithReceipt { cents: 1, receipt: "r".into() };
    let outcome = engine.execute::<Account>("barbara", command).await.unwrap();
    let outcome = match outcome {
        Outcome::Accepted { token } => token,
        other => panic!("{other:?}"),
    };
    engine.settle().await.unwrap();
    let answer = engine.view::<Balances>().get("all").at_least(&outcome).await.unwrap();
    assert!(answer.is_fresh());
}

#[tokio::test]
async fn a_token_of_another_epoch_is_diverged_and_one_of_another_store_is_refused() {
    let engine = bank().await;
    let info = engine.backend().store.info();
    let mut token = Token::default();
    token.raise(info.id, Epoch(info.epoch.0 + 1), Partition(0), Position::new(1).unwrap());
    let answer = engine.view::<Balances>().get("all").at_least(&token).await.unwrap();
    assert!(matches!(answer.freshness, Freshness::Diverged(_)), "{answer:?}");

    let mut token = Token::default();
    token.raise(StoreId::random(), Epoch(1), Partition(0), Position::new(1).unwrap());
    let refused = engine.view::<Balances>().get("all").at_least(&token).await;
    assert!(matches!(refused, Err(ViewReadError::OtherStore { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_forged_token_is_answered_and_never_taken_for_reached() {
    let engine = bank().await;
    let store = engine.backend().store.info().id.0.simple().to_string();
    let ask = async |forged: String| {
        let answer = engine.view::<Balances>().get("all").at_least(&forged.parse().unwrap()).await;
        answer.unwrap().freshness
    };
    let far = ask(format!("1~{store}.1.0:ffffffffffffffff,1:1")).await;
    assert_eq!(far, Freshness::Stale { behind: u64::MAX });
    let nowhere = ask(format!("1~{store}.1.ffff:1")).await;
    assert!(matches!(nowhere, Freshness::Diverged(_)), "{nowhere:?}");
}

mod meeting {
    use crate::domain::{Account, Event};
    use highwater::{Folded, Follow, Recorded, Sources, View};

    /// Counts events, naming its one document twice.
    pub(crate) struct Count;

    impl View for Count {
        const NAME: &'static str = "count";
        type Document = u64;
        fn sources(sources: Sources<Self>) -> Sources<Self> {
            sources.follow::<Account>()
        }
    }

    impl Follow<Account> for Count {
        fn keys(&self, _: &Recorded<Event>) -> Vec<String> {
            vec!["all".into(), "all".into()]
        }
        fn fold(&self, _: &str, count: u64, _: &Recorded<Event>) -> Folded<u64> {
            Folded::Put(count + 1)
        }
    }
}

/// Invariant 4: each source counts for itself, whatever its name, and each event once.
#[tokio::test]
async fn sources_with_slashes_in_their_names_and_keys_named_twice_count_once_each() {
    let engine = Engine::in_memory().aggregate::<Account>(()).view(meeting::Count).start().await.unwrap();
    for address in [("a/b", "c"), ("a", "b/c"), ("a/b/c", "d"), ("a", "b/c")] {
        engine.execute::<Account>(address, Command::Deposit { cents: 1 }).await.unwrap();
    }
    engine.settle().await.unwrap();
    assert_eq!(engine.view::<meeting::Count>().get("all").await.unwrap().document, Some(4));
}

mod failing {
    use crate::domain::{Account, Event};
    use highwater::{Folded, Follow, Recorded, Sources, View};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    pub(crate) static BROKEN: AtomicBool = AtomicBool::new(true);

    pub(crate) struct Fragile;

    impl View for Fragile {
        const NAME: &'static str = "fragile";
        type Document = u64;
        fn sources(sources: Sources<Self>) -> Sources<Self> {
            sources.follow::<Account>()
        }
    }

    impl Follow<Account> for Fragile {
        fn keys(&self, event: &Recorded<Event>) -> Vec<String> {
            vec![event.key().id.to_string()]
        }
        fn fold(&self, _: &str, count: u64, event: &Recorded<Event>) -> Folded<u64> {
            assert!(event.key().id.as_str() != "barbara" || !BROKEN.load(Relaxed), "cannot fold barbara");
            Folded::Put(count + 1)
        }
    }
}

/// Invariant 10: no silent stall.
#[tokio::test]
async fn a_fold_that_panics_stops_its_partition_only_is_shown_and_goes_on_once_mended() {
    let engine = Engine::in_memory().aggregate::<Account>(()).view(failing::Fragile).start().await.unwrap();
    for account in ["barbara", "bernard"] {
        engine.execute::<Account>(account, Command::Deposit { cents: 1 }).await.unwrap();
    }
    let settled = engine.settle().await.unwrap();
    assert!(matches!(settled.trouble()[..], [Step::ProcessorFailed { .. }]), "{settled:?}");
    let view = engine.view::<failing::Fragile>();
    assert_eq!(view.get("bernard").await.unwrap().document, Some(1));
    assert_eq!(view.get("barbara").await.unwrap().document, None);

    let status = engine.status().await.unwrap();
    let stuck: Vec<_> = status.processors[0].partitions.iter().filter(|row| row.failure.is_some()).collect();
    assert_eq!(stuck.len(), 1);
    assert!(stuck[0].failure.as_ref().unwrap().error.contains("cannot fold barbara"));
    assert_eq!(stuck[0].behind, Some(1));

    failing::BROKEN.store(false, std::sync::atomic::Ordering::Relaxed);
    engine.clock().unwrap().advance(Duration::from_secs(31));
    assert!(engine.settle().await.unwrap().trouble().is_empty());
    assert_eq!(view.get("barbara").await.unwrap().document, Some(1));
    let status = engine.status().await.unwrap();
    assert!(status.processors[0].partitions.iter().all(|row| row.failure.is_none()));
}

mod deleting {
    use crate::domain::{Account, Event};
    use highwater::{Folded, Follow, Recorded, Sources, View};

    pub(crate) struct Open;

    impl View for Open {
        const NAME: &'static str = "open";
        type Document = u64;
        fn sources(sources: Sources<Self>) -> Sources<Self> {
            sources.follow::<Account>()
        }
    }

    impl Follow<Account> for Open {
        fn keys(&self, event: &Recorded<Event>) -> Vec<String> {
            vec![event.key().id.to_string()]
        }
        fn fold(&self, _: &str, cents: u64, event: &Recorded<Event>) -> Folded<u64> {
            match event.event {
                Event::Deposited { cents: more } => Folded::Put(cents + more),
                Event::Withdrawn { cents: less } if less == cents => Folded::Delete,
                Event::Withdrawn { cents: less } => Folded::Put(cents - less),
            }
        }
    }
}

#[tokio::test]
async fn a_deleted_document_is_gone_and_begins_again_from_nothing() {
    let engine = Engine::in_memory().aggregate::<Account>(()).view(deleting::Open).start().await.unwrap();
    let view = engine.view::<deleting::Open>();
    for (command, expected) in [
        (Command::Deposit { cents: 5 }, Some(5)),
        (Command::Withdraw { cents: 5 }, None),
        (Command::Deposit { cents: 2 }, Some(2)),
    ] {
        engine.execute::<Account>("barbara", command).await.unwrap();
        engine.settle().await.unwrap();
        assert_eq!(view.get("barbara").await.unwrap().document, expected);
        assert_eq!(view.list(None, 10).await.unwrap().len(), usize::from(expected.is_some()));
    }
}
