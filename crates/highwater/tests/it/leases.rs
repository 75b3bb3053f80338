use crate::domain::{Account, Balances, Command};
use highwater::{Engine, LeaseTimes, ManualClock};
use highwater_core::Backend;
use std::time::Duration;

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
