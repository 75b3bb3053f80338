//! A store is put back from a backup; what follows it notices and mends itself.

use crate::domain::{Account, Balances, Command};
use crate::views::{balances, fold_of_the_log};
use highwater::{
    Engine, Freshness, HandlerError, ManualClock, Outcome, Processor, PullError, Token, ViewReadError,
};
use highwater_sqlite::{Options, backup, open, restore};
use std::path::Path;
use std::sync::{Arc, Mutex};

type Handled = Arc<Mutex<Vec<String>>>;

/// An engine on the file, with a processor that notes what it handles.
async fn start(path: &Path, clock: &ManualClock, handled: &Handled) -> Engine {
    let backend =
        open(path.to_str().unwrap(), Options::default().partitions(4), Arc::new(clock.clone())).unwrap();
    let handled = handled.clone();
    let audit = Processor::named("audit").containers(["accounts"]).handler(move |_, changes| {
        let handled = handled.clone();
        async move {
            let mut handled = handled.lock().unwrap();
            handled.extend(changes.iter().map(|change| format!("{} {}", change.key.id, change.version)));
            Ok::<(), HandlerError>(())
        }
    });
    Engine::driven_on(backend, clock.clone())
        .aggregate::<Account>(())
        .view(Balances)
        .processor(audit)
        .start()
        .await
        .unwrap()
}

async fn deposit(engine: &Engine, account: &str, cents: u64) -> Token {
    match engine.execute::<Account>(account, Command::Deposit { cents }).await.unwrap() {
        Outcome::Accepted { token } => token,
        other => panic!("{other:?}"),
    }
}

async fn settle(engine: &Engine) {
    let settled = engine.settle().await.unwrap();
    assert!(settled.trouble().is_empty(), "{:?}", settled.trouble());
}

#[tokio::test]
async fn a_view_ahead_of_a_restored_store_is_never_fresh_and_is_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("bank.db"), folder.path().join("copy.backup"));
    let (clock, handled) =
        (ManualClock::starting_at(highwater::Timestamp::from_micros(1_000_000)), Handled::default());
    let engine = start(&path, &clock, &handled).await;
    let mut early = Token::default();
    for account in 0..10 {
        early.merge(&deposit(&engine, &format!("account {account}"), 1).await);
    }
    settle(&engine).await;
    backup(&path, &copy, &clock, &mut |_| {}).unwrap();
    let early_cursor = {
        let mut feed = engine.feed(&["accounts"]).unwrap();
        feed.page(100).await.unwrap().cursor
    };
    let mut late = Token::default();
    for account in 0..10 {
        late.merge(&deposit(&engine, &format!("account {account}"), 100).await);
    }
    settle(&engine).await;
    let late_cursor = {
        let mut feed = engine.feed(&["accounts"]).unwrap();
        feed.page(100).await.unwrap().cursor
    };
    engine.stop().await;
    drop(engine);
    restore(&copy, &path, true, &clock, &mut |_| {}).unwrap();

    let engine = start(&path, &clock, &handled).await;
    let get = || engine.view::<Balances>().get("all");
    // Nobody has looked at the view yet: it still holds what the store has lost, and says so.
    assert!(matches!(get().await.unwrap().freshness, Freshness::Diverged(_)));
    assert!(matches!(get().at_least(&early).await.unwrap().freshness, Freshness::Diverged(_)));
    let list = engine.view::<Balances>().list(None, 10).await;
    assert!(matches!(list, Err(ViewReadError::Diverged(_))), "{list:?}");

    let before = handled.lock().unwrap().len();
    settle(&engine).await;
    assert_eq!(balances(&engine).await, fold_of_the_log(&engine).await);
    assert!(get().at_least(&early).await.unwrap().is_fresh());
    let Freshness::Diverged(diverged) = get().at_least(&late).await.unwrap().freshness else { panic!() };
    assert!(diverged.known && Some(diverged.position) > diverged.shared, "{diverged}");
    assert!(engine.status().await.unwrap().processors.iter().all(|processor| processor.healing.is_none()));
    assert!(engine.feed(&["accounts"]).unwrap().resume(early_cursor).is_ok());
    let refused = engine.feed(&["accounts"]).unwrap().resume(late_cursor).map(|_| ());
    assert!(matches!(refused, Err(PullError::Diverged(_))), "{refused:?}");
    // The processor's checkpoints came back with the backup: nothing below is handled again, all that is new is.
    assert_eq!(handled.lock().unwrap().len(), before);
    deposit(&engine, "account 3", 7).await;
    settle(&engine).await;
    assert_eq!(handled.lock().unwrap()[before..], ["account 3 2"]);
    assert_eq!(balances(&engine).await["account 3"], 8);
}

#[tokio::test]
async fn a_view_within_the_shared_history_goes_on_without_being_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("bank.db"), folder.path().join("copy.backup"));
    let (clock, handled) =
        (ManualClock::starting_at(highwater::Timestamp::from_micros(1_000_000)), Handled::default());
    let engine = start(&path, &clock, &handled).await;
    deposit(&engine, "a", 1).await;
    settle(&engine).await;
    engine.stop().await;
    drop(engine);
    backup(&path, &copy, &clock, &mut |_| {}).unwrap();
    restore(&copy, &path, true, &clock, &mut |_| {}).unwrap();
    let engine = start(&path, &clock, &handled).await;
    assert_eq!(engine.view::<Balances>().get("all").await.unwrap().freshness, Freshness::Fresh);
    let token = deposit(&engine, "a", 2).await;
    settle(&engine).await;
    let answer = engine.view::<Balances>().get("all").at_least(&token).await.unwrap();
    assert!(answer.is_fresh());
    assert_eq!(answer.document.unwrap()["a"], 3);
}

#[tokio::test]
async fn a_file_put_back_by_hand_is_noticed_by_a_view_that_is_ahead_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("bank.db"), folder.path().join("copy.db"));
    let (clock, handled) =
        (ManualClock::starting_at(highwater::Timestamp::from_micros(1_000_000)), Handled::default());
    let engine = start(&path, &clock, &handled).await;
    deposit(&engine, "a", 1).await;
    settle(&engine).await;
    engine.stop().await;
    drop(engine);
    std::fs::copy(&path, &copy).unwrap();
    let engine = start(&path, &clock, &handled).await;
    deposit(&engine, "a", 2).await;
    settle(&engine).await;
    engine.stop().await;
    drop(engine);
    std::fs::copy(&copy, &path).unwrap();
    // Else the store is not opened at all.
    std::fs::remove_file(folder.path().join("bank.db-witness")).unwrap();
    let engine = start(&path, &clock, &handled).await;
    settle(&engine).await;
    assert_eq!(balances(&engine).await["a"], 1);
}
