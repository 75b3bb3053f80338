use crate::domain::{Account, Balances, Command};
use highwater::{Engine, HandlerError, LeaseTimes, ManualClock, Processor, Role};
use highwater_core::{Backend, CellKey, CellWrite, Expect, Json, Name};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

const SECOND: Duration = Duration::from_secs(1);

async fn instance(backend: &Backend, clock: &ManualClock) -> Engine {
    Engine::driven_on(backend.clone(), clock.clone())
        .aggregate::<Account>(())
        .view(Balances)
        .instance("same-name")
        .lease_times(LeaseTimes::new(SECOND, SECOND, 5 * SECOND))
        .start()
        .await
        .unwrap()
}

async fn owners(engine: &Engine) -> Vec<bool> {
    let status = engine.status().await.unwrap();
    let mine = |row: &highwater::PartitionStatus| row.owner.as_deref() == Some(status.instance.as_str());
    status.processors[0].partitions.iter().map(mine).collect()
}

/// Invariant 6, fenced ownership: two processes of one name do not both run.
#[tokio::test]
async fn a_second_instance_of_the_same_name_stands_by_until_the_first_stops_moving() {
    let first = Engine::in_memory().start().await.unwrap();
    let (backend, clock) = (first.backend().clone(), first.clock().unwrap().clone());
    let (a, b) = (instance(&backend, &clock).await, instance(&backend, &clock).await);
    a.settle().await.unwrap();
    b.settle().await.unwrap();
    assert!(owners(&a).await.into_iter().all(|mine| mine));
    assert!(owners(&b).await.into_iter().all(|mine| !mine));

    // While the first shows signs of life, nothing moves, however long.
    for _ in 0..20 {
        clock.advance(SECOND);
        a.settle().await.unwrap();
        b.settle().await.unwrap();
    }
    assert!(owners(&b).await.into_iter().all(|mine| !mine));

    // It is killed. The second must see it stand still for five seconds of its own clock.
    for _ in 0..4 {
        clock.advance(SECOND);
        b.settle().await.unwrap();
        assert!(owners(&b).await.into_iter().all(|mine| !mine));
    }
    clock.advance(2 * SECOND);
    b.settle().await.unwrap();
    assert!(owners(&b).await.into_iter().all(|mine| mine));

    // The first comes back to life: it has lost everything, and its writes would be refused.
    b.execute::<Account>("barbara", Command::Deposit { cents: 5 }).await.unwrap();
    b.settle().await.unwrap();
    a.settle().await.unwrap();
    assert!(owners(&a).await.into_iter().all(|mine| !mine));
    let sheet = b.view::<Balances>().get("all").await.unwrap().document.unwrap();
    assert_eq!(sheet["barbara"], 5);
}

#[tokio::test]
async fn an_instance_that_stops_gives_its_partitions_back_at_once() {
    let first = Engine::in_memory().start().await.unwrap();
    let (backend, clock) = (first.backend().clone(), first.clock().unwrap().clone());
    let a = instance(&backend, &clock).await;
    a.settle().await.unwrap();
    a.stop().await;
    let b = instance(&backend, &clock).await;
    b.settle().await.unwrap();
    assert!(owners(&b).await.into_iter().all(|mine| mine));
}

/// Changes what the first lease of a processor says.
async fn tamper(engine: &Engine, partition: u16, change: impl Fn(&mut serde_json::Value)) {
    let key = CellKey::new(Name::new("leases").unwrap(), format!("watcher/{partition:05}"));
    let cell = engine.backend().cells.read(&key).await.unwrap().unwrap();
    let mut lease = cell.value.decode().unwrap();
    change(&mut lease);
    let write = CellWrite::new(key, Expect::Any, Json::encode(&lease).unwrap());
    engine.backend().cells.write(write).await.unwrap();
}

/// After a restore positions may mean other changes: whoever was ahead must not sleep on.
#[tokio::test]
async fn a_place_beyond_the_log_or_of_another_epoch_is_shown_as_a_failure() {
    let watcher = || Processor::named("watcher").handler(async |_, _| Ok::<(), HandlerError>(()));
    let first = Engine::in_memory().aggregate::<Account>(()).processor(watcher()).start().await.unwrap();
    first.execute::<Account>("barbara", Command::Deposit { cents: 1 }).await.unwrap();
    first.settle().await.unwrap();
    first.stop().await;
    let partition = first.head().await.unwrap().stores().next().unwrap().1.positions.keys().next().unwrap().0;
    let other = (partition + 1) % 16;
    tamper(&first, partition, |lease| lease["checkpoint"] = 900.into()).await;
    tamper(&first, other, |lease| (lease["store_epoch"], lease["checkpoint"]) = (7.into(), 1.into())).await;

    let (backend, clock) = (first.backend().clone(), first.clock().unwrap().clone());
    let second = Engine::driven_on(backend, clock).processor(watcher()).start().await.unwrap();
    let settled = second.settle().await.unwrap();
    assert_eq!(settled.trouble().len(), 2, "{settled:?}");
    let status = second.status().await.unwrap();
    let error = |partition: u16| {
        let row = status.processors[0].partitions.iter().find(|row| row.partition.0 == partition);
        row.unwrap().failure.as_ref().unwrap().error.clone()
    };
    assert!(error(partition).contains("beyond the end of the log"), "{}", error(partition));
    assert!(error(other).contains("epoch 7"), "{}", error(other));
}

/// Invariant 6: what a former owner does late does not count.
#[tokio::test]
async fn a_handler_whose_partition_was_taken_over_is_told_and_its_checkpoint_is_refused() {
    let store =
        Engine::open("sqlite::memory:").aggregate::<Account>(()).role(Role::Web).start().await.unwrap();
    let release = Arc::new(Notify::new());
    let (seen, mut handled) = mpsc::unbounded_channel();
    let start = |name: &'static str| {
        let (seen, release) = (seen.clone(), release.clone());
        let processor = Processor::named("watcher").handler(move |context, changes| {
            let (seen, release) = (seen.clone(), release.clone());
            async move {
                seen.send((name, context.still_owner(), changes.len())).unwrap();
                if name == "first" {
                    context.cancelled().await;
                    seen.send((name, context.still_owner(), changes.len())).unwrap();
                    release.notified().await;
                }
                Ok::<(), HandlerError>(())
            }
        });
        let beat = Duration::from_millis(20);
        let builder = Engine::on(store.backend().clone()).role(Role::Projector).instance(name);
        builder.lease_times(LeaseTimes::new(beat, beat, 20 * beat)).processor(processor).start()
    };
    let first = start("first").await.unwrap();
    store.execute::<Account>("barbara", Command::Deposit { cents: 1 }).await.unwrap();
    assert_eq!(handled.recv().await, Some(("first", true, 1)));

    // The second finds no sign of life of the first and takes everything over.
    let cells = &store.backend().cells;
    let instances = Name::new("instances").unwrap();
    let second = start("second").await.unwrap();
    let mut heard = Vec::new();
    while heard.len() < 2 {
        for cell in cells.list(&instances, None, 10).await.unwrap() {
            if cell.key.key.starts_with("first") {
                // One that nobody observed would go by itself.
                assert!(cell.expires_at.is_some());
                cells.delete(&cell.key, Expect::Any).await.unwrap();
            }
        }
        let next = tokio::time::timeout(Duration::from_millis(5), handled.recv());
        heard.extend(next.await.ok().flatten());
    }
    heard.sort_unstable();
    assert_eq!(heard, [("first", false, 1), ("second", true, 1)]);
    let checkpoint = async || {
        let leases = cells.list(&Name::new("leases").unwrap(), None, 100).await.unwrap();
        let lease = |cell: &highwater_core::Cell| cell.value.decode::<serde_json::Value>().unwrap();
        leases.iter().map(lease).find(|lease| !lease["checkpoint"].is_null())
    };
    let mut saved = checkpoint().await;
    while saved.is_none() {
        tokio::task::yield_now().await;
        saved = checkpoint().await;
    }
    release.notify_one();
    first.stop().await;
    assert_eq!(checkpoint().await, saved, "the late result of the first has changed nothing");
    second.stop().await;
}
