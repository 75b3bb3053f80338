use crate::domain::{Account, AccountV2, Command, CommandV2, Ledger};
use highwater::{Engine, Outcome};
use highwater_core::{Batch, Body, ChangeOp, ItemKey, Json, Name, Op, Write};

async fn ledger() -> Engine {
    Engine::in_memory().aggregate::<Ledger>(()).start().await.unwrap()
}

fn key(container: &str) -> ItemKey {
    ItemKey::alone(Name::new(container).unwrap(), "barbara").unwrap()
}

async fn deposit(engine: &Engine, cents: u64) {
    let outcome = engine.execute::<Ledger>("barbara", Command::Deposit { cents }).await.unwrap();
    assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");
}

#[tokio::test]
async fn an_event_sourced_aggregate_keeps_events_and_a_snapshot_now_and_then() {
    let engine = ledger().await;
    for cents in 1..=7 {
        deposit(&engine, cents).await;
    }
    let changes = crate::commands::changes(&engine).await;
    let puts: Vec<_> = changes.iter().map(|change| matches!(change.op, ChangeOp::Put(_))).collect();
    assert_eq!(puts, [false, false, true, false, false, true, false]);
    let item = engine.backend().store.item(&key("ledgers")).await.unwrap().unwrap();
    assert_eq!(item.later.len(), 1);
    let all = engine.execute::<Ledger>("barbara", Command::Withdraw { cents: 28 }).await.unwrap();
    assert!(matches!(all, Outcome::Accepted { .. }), "{all:?}");
    let more = engine.execute::<Ledger>("barbara", Command::Withdraw { cents: 1 }).await.unwrap();
    assert!(matches!(&more, Outcome::Rejected { reason, .. } if reason == "only 0 cents"), "{more:?}");
}

#[tokio::test]
async fn a_snapshot_that_cannot_be_read_is_replaced_by_the_events() {
    let engine = ledger().await;
    for cents in 1..=4 {
        deposit(&engine, cents).await;
    }
    let ItemKey { container, partition_key, id } = key("ledgers");
    let damaged = Op::Put(Body::new(Json::parse("[\"damaged\"]").unwrap()));
    let batch = Batch::new(partition_key, vec![Write::new(container, id, damaged)]);
    engine.backend().store.commit(batch).await.unwrap();
    deposit(&engine, 90).await;
    let all = engine.execute::<Ledger>("barbara", Command::Withdraw { cents: 100 }).await.unwrap();
    assert!(matches!(all, Outcome::Accepted { .. }), "{all:?}");
}

#[tokio::test]
async fn what_an_older_program_wrote_is_raised_command_event_and_body_alike() {
    let old = Engine::in_memory().aggregate::<Account>(()).start().await.unwrap();
    old.execute::<Account>("barbara", Command::Deposit { cents: 40 }).await.unwrap();
    old.send::<Account>("barbara", Command::Deposit { cents: 2 }).await.unwrap();

    let clock = old.clock().unwrap().clone();
    let new =
        Engine::driven_on(old.backend().clone(), clock).aggregate::<AccountV2>(()).start().await.unwrap();
    assert_eq!(new.settle().await.unwrap().decided(), ["Deposit"]);
    let command = CommandV2::PayIn { amount: 1, currency: "CHF".into() };
    new.execute::<AccountV2>("barbara", command).await.unwrap();
    let item = new.backend().store.item(&key("accounts")).await.unwrap().unwrap();
    let (_, body) = item.body.unwrap();
    assert_eq!(body.schema, 2);
    assert_eq!(body.json.to_string(), r#"{"amounts":{"CHF":1,"EUR":42}}"#);

    let refused = old.execute::<Account>("barbara", Command::Touch).await.unwrap_err();
    assert!(refused.to_string().contains("start a newer program"), "{refused}");
}
