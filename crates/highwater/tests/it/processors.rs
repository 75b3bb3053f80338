use crate::domain::{Account, Command};
use highwater::{Engine, HandlerError, Processor, Start, Step, Subscriber};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Log = Arc<Mutex<Vec<String>>>;

/// A subscriber that writes down what it gets and fails where the log holds `fail NAME`.
fn recorder(log: &Log, start: Start) -> Processor {
    let log = log.clone();
    Subscriber::<Account>::named("recorder").start(start).handler(move |event| {
        let log = log.clone();
        async move {
            let mut log = log.lock().unwrap();
            let name = event.key().id.to_string();
            if log.contains(&format!("fail {name}")) {
                return Err(HandlerError::transient("told to fail"));
            }
            log.push(name);
            Ok(())
        }
    })
}

async fn engine(log: &Log, start: Start) -> Engine {
    Engine::in_memory().aggregate::<Account>(()).processor(recorder(log, start)).start().await.unwrap()
}

async fn deposit(engine: &Engine, account: &str) {
    engine.execute::<Account>(account, Command::Deposit { cents: 1 }).await.unwrap();
}

/// Invariant 3: at least once, in order per key; the checkpoint moves after the handler.
#[tokio::test]
async fn a_subscriber_gets_each_event_and_goes_on_where_it_stopped() {
    let log = Log::default();
    let first = engine(&log, Start::Beginning).await;
    for account in ["a", "b", "a"] {
        deposit(&first, account).await;
    }
    first.settle().await.unwrap();
    first.settle().await.unwrap();
    let mut seen = log.lock().unwrap().clone();
    seen.sort();
    assert_eq!(seen, ["a", "a", "b"]);

    first.stop().await;
    log.lock().unwrap().clear();
    let clock = first.clock().unwrap().clone();
    let second = Engine::driven_on(first.backend().clone(), clock.clone())
        .aggregate::<Account>(())
        .processor(recorder(&log, Start::Beginning))
        .start()
        .await
        .unwrap();
    deposit(&second, "c").await;
    for _ in 0..10 {
        second.settle().await.unwrap();
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(*log.lock().unwrap(), ["c"]);
}

#[tokio::test]
async fn a_failed_event_is_tried_again_without_repeating_what_came_before_it() {
    let log = Log::default();
    log.lock().unwrap().push("fail k".into());
    let engine = engine(&log, Start::Beginning).await;
    // One partition key, so one order; the second item of the key fails.
    for id in ["j", "k", "l"] {
        engine.execute::<Account>(("key", id), Command::Deposit { cents: 1 }).await.unwrap();
    }
    let settled = engine.settle().await.unwrap();
    assert!(matches!(settled.trouble()[..], [Step::ProcessorFailed { .. }]));
    assert_eq!(*log.lock().unwrap(), ["fail k", "j"]);
    assert!(engine.settle().await.unwrap().steps.is_empty(), "it waits for its pause");

    log.lock().unwrap().remove(0);
    engine.clock().unwrap().advance(Duration::from_secs(31));
    assert!(engine.settle().await.unwrap().trouble().is_empty());
    assert_eq!(*log.lock().unwrap(), ["j", "k", "l"]);
}

/// A start "from now" is stored when the lease is made.
#[tokio::test]
async fn a_start_from_now_survives_a_restart_before_the_first_event() {
    let log = Log::default();
    let first = engine(&log, Start::Now).await;
    deposit(&first, "before").await;
    let clock = first.clock().unwrap().clone();
    let again = || async {
        let backend = first.backend().clone();
        let builder = Engine::driven_on(backend, clock.clone()).aggregate::<Account>(());
        builder.processor(recorder(&log, Start::Now)).start().await.unwrap()
    };
    let second = again().await;
    second.settle().await.unwrap();
    second.stop().await;
    deposit(&first, "between").await;
    let third = again().await;
    for _ in 0..10 {
        third.settle().await.unwrap();
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(*log.lock().unwrap(), ["between"]);
}

/// Idle reading moves the checkpoint too.
#[tokio::test]
async fn changes_of_other_containers_move_the_position_without_calling_the_handler() {
    let calls = Log::default();
    let log = calls.clone();
    let idle = Processor::named("idle").containers(["strangers"]).handler(move |_, _| {
        log.lock().unwrap().push("called".into());
        async { Ok::<(), HandlerError>(()) }
    });
    let engine = Engine::in_memory().aggregate::<Account>(()).processor(idle).start().await.unwrap();
    for number in 0..100 {
        deposit(&engine, &format!("a{number}")).await;
    }
    engine.settle().await.unwrap();
    assert!(calls.lock().unwrap().is_empty());
    let status = engine.status().await.unwrap();
    assert!(status.processors[0].partitions.iter().all(|row| row.behind == Some(0)), "{status:?}");
}

#[tokio::test]
async fn a_handler_is_told_where_it_is_and_who_owns_it() {
    let contexts = Arc::new(Mutex::new(Vec::new()));
    let seen = contexts.clone();
    let processor = Processor::named("watcher").max_items(1).handler(move |context, changes| {
        seen.lock().unwrap().push((context, changes.len()));
        async { Ok::<(), HandlerError>(()) }
    });
    let engine = Engine::in_memory().aggregate::<Account>(()).processor(processor).start().await.unwrap();
    for _ in 0..3 {
        deposit(&engine, "a").await;
    }
    engine.settle().await.unwrap();
    let contexts = std::mem::take(&mut *contexts.lock().unwrap());
    let behind: Vec<_> = contexts.iter().map(|(context, _)| context.behind).collect();
    assert_eq!(behind, [2, 1, 0]);
    let (context, changes) = &contexts[2];
    assert_eq!((&*context.processor, context.owner_epoch, context.attempt, *changes), ("watcher", 1, 0, 1));
    assert_eq!(context.token, engine.head().await.unwrap());
}
