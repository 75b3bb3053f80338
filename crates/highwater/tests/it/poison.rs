use crate::commands::bank;
use crate::domain::{Account, AccountV2, Balances, Command};
use highwater::{CommandId, Engine, Outcome, Step};
use highwater_core::{MessageId, Name, NewMessage, Parking, Update};
use std::time::Duration;

fn queue() -> Name {
    Name::new("commands").unwrap()
}

fn envelope(id: CommandId, container: &str, kind: &str, schema: u32, data: &str) -> String {
    format!(
        r#"{{"specversion":"1.0","id":"{id}","source":"/test","type":"{kind}","subject":"barbara",
            "container":"{container}","partitionkey":"barbara","schemaversion":{schema},"data":{data}}}"#
    )
}

/// Invariant 5: nothing is deleted early.
#[tokio::test]
async fn what_cannot_be_decoded_is_parked_with_its_reason_and_the_rest_goes_on() {
    let engine = bank().await;
    let bad = [
        b"\xff\x00 not json".to_vec(),
        b"{}".to_vec(),
        envelope(CommandId::random(), "accounts", "Vanish", 1, "{}").into_bytes(),
        envelope(CommandId::random(), "accounts", "Deposit", 1, r#"{"cents":"many"}"#).into_bytes(),
    ];
    for body in &bad {
        engine.backend().queue.put(&queue(), NewMessage::new(body.clone())).await.unwrap();
        engine.send::<Account>("barbara", Command::Deposit { cents: 1 }).await.unwrap();
    }
    let settled = engine.settle().await.unwrap();
    assert_eq!(settled.decided().len(), bad.len());
    let parked = engine.backend().queue.parked(&queue(), None, 100).await.unwrap();
    assert_eq!(parked.len(), bad.len());
    let reasons: Vec<_> = parked.iter().map(|parked| parked.parking.reason.as_str()).collect();
    for part in ["not a CloudEvents envelope", "`Vanish` is not one of", "does not fit"] {
        assert!(reasons.iter().any(|reason| reason.contains(part)), "{part} is missing in {reasons:?}");
    }
    for parked in &parked {
        assert!(bad.iter().any(|body| *body == parked.message.body), "the body is kept as it came");
    }
}

#[tokio::test]
async fn a_command_for_an_aggregate_unknown_here_is_tried_for_a_while_before_it_is_parked() {
    let engine = bank().await;
    let body = envelope(CommandId::random(), "strangers", "Deposit", 1, "{}");
    engine.backend().queue.put(&queue(), NewMessage::new(body)).await.unwrap();
    for attempt in 1..=10 {
        let settled = engine.settle().await.unwrap();
        match &settled.steps[..] {
            [Step::Failed { .. }] if attempt < 10 => {}
            [Step::Parked { .. }] if attempt == 10 => {}
            other => panic!("attempt {attempt}: {other:?}"),
        }
        engine.clock().unwrap().advance(Duration::from_secs(300));
    }
    let parked = engine.backend().queue.parked(&queue(), None, 10).await.unwrap();
    assert!(parked[0].parking.error.contains("no aggregate `strangers`"), "{parked:?}");
}

/// A crash loop ends.
#[tokio::test]
async fn a_message_taken_too_often_is_parked_without_being_run() {
    let engine = bank().await;
    let sent = engine.send::<Account>("barbara", Command::Explode).await.unwrap();
    let backend = engine.backend();
    for _ in 0..10 {
        let taken = backend.queue.get(&queue(), 1, Duration::from_secs(1)).await.unwrap();
        assert_eq!(taken.len(), 1);
        engine.clock().unwrap().advance(Duration::from_secs(2));
    }
    let settled = engine.settle().await.unwrap();
    assert!(matches!(&settled.steps[..], [Step::Parked { .. }]), "{settled:?}");
    let Outcome::Parked { reason } = engine.outcome(sent.id).await.unwrap() else { panic!() };
    assert!(reason.contains("never finished"), "{reason}");
}

/// The log is asked before a message is parked.
#[tokio::test]
async fn a_command_that_was_decided_before_its_worker_died_is_not_parked() {
    let engine = bank().await;
    let id = CommandId::random();
    engine.send::<Account>("barbara", Command::Deposit { cents: 5 }).id(id).await.unwrap();
    for _ in 0..10 {
        engine.backend().queue.get(&queue(), 1, Duration::from_secs(1)).await.unwrap();
        engine.clock().unwrap().advance(Duration::from_secs(2));
    }
    engine.execute::<Account>("barbara", Command::Deposit { cents: 5 }).id(id).await.unwrap();
    let settled = engine.settle().await.unwrap();
    assert_eq!(settled.decided(), ["Deposit"]);
    assert!(matches!(engine.outcome(id).await.unwrap(), Outcome::Accepted { .. }));
    assert_eq!(engine.backend().queue.depth(&queue()).await.unwrap().parked, 0);
}

#[tokio::test]
async fn a_replayed_message_starts_counting_again_and_keeps_its_history() {
    let engine = bank().await;
    let sent = engine.send::<Account>("barbara", Command::Explode).await.unwrap();
    for _ in 0..12 {
        engine.settle().await.unwrap();
        engine.clock().unwrap().advance(Duration::from_secs(300));
    }
    let id = MessageId(sent.id.0);
    let parked = engine.backend().queue.parked_message(&queue(), id).await.unwrap().unwrap();
    assert!(parked.parking.error.contains("boom"), "{:?}", parked.parking);
    assert!(parked.message.history.iter().all(|attempt| attempt.note.contains("boom")));
    engine.backend().queue.replay(&queue(), id).await.unwrap();
    let settled = engine.settle().await.unwrap();
    assert!(matches!(&settled.steps[..], [Step::Failed { .. }]), "{settled:?}");
    let waiting = engine.backend().queue.depth(&queue()).await.unwrap();
    assert_eq!((waiting.parked, waiting.visible + waiting.delayed + waiting.in_flight), (0, 1));
}

#[tokio::test]
async fn a_discarded_command_may_be_sent_again() {
    let engine = bank().await;
    let id = CommandId::random();
    let message = NewMessage::new("damaged on its way").id(MessageId(id.0));
    engine.backend().queue.put(&queue(), message).await.unwrap();
    engine.settle().await.unwrap();
    engine.backend().queue.discard(&queue(), MessageId(id.0)).await.unwrap();
    engine.send::<Account>("barbara", Command::Deposit { cents: 5 }).id(id).await.unwrap();
    assert_eq!(engine.settle().await.unwrap().decided(), ["Deposit"]);
}

#[tokio::test]
async fn a_command_whose_message_was_discarded_or_cleared_says_so_until_it_is_sent_again() {
    let engine = bank().await;
    let queues = engine.backend().queue.clone();
    let send = async |id| {
        engine.send::<Account>("barbara", Command::Deposit { cents: 5 }).id(id).await.unwrap();
    };
    let (discarded, cleared) = (CommandId::random(), CommandId::random());
    send(discarded).await;
    let taken = queues.get(&queue(), 1, Duration::from_secs(30)).await.unwrap().remove(0);
    assert_eq!(engine.outcome(discarded).await.unwrap(), Outcome::Pending, "in somebody's hands");
    queues.park(&taken.receipt, Parking::new("broken", "broken", "me")).await.unwrap();
    assert!(matches!(engine.outcome(discarded).await.unwrap(), Outcome::Parked { .. }));
    queues.discard(&queue(), discarded.into()).await.unwrap();
    assert_eq!(engine.outcome(discarded).await.unwrap(), Outcome::Discarded);
    send(cleared).await;
    assert_eq!(queues.clear(&queue()).await.unwrap(), 1);
    assert_eq!(engine.outcome(cleared).await.unwrap(), Outcome::Discarded);

    send(discarded).await;
    assert_eq!(engine.outcome(discarded).await.unwrap(), Outcome::Pending);
    assert_eq!(engine.settle().await.unwrap().decided(), ["Deposit"]);
    assert!(matches!(engine.outcome(discarded).await.unwrap(), Outcome::Accepted { .. }));
}

#[tokio::test]
async fn a_command_of_a_newer_program_waits_and_is_never_parked() {
    let engine = bank().await;
    let id = CommandId::random();
    let body = envelope(id, "accounts", "PayIn", 2, r#"{"amount":5,"currency":"CHF"}"#);
    let message = NewMessage::new(body).id(MessageId(id.0));
    engine.backend().queue.put(&queue(), message).await.unwrap();
    for _ in 0..15 {
        let settled = engine.settle().await.unwrap();
        assert!(matches!(&settled.steps[..], [Step::Failed { .. }]), "{settled:?}");
        engine.clock().unwrap().advance(Duration::from_secs(61));
    }
    let clock = engine.clock().unwrap().clone();
    let newer =
        Engine::driven_on(engine.backend().clone(), clock).aggregate::<AccountV2>(()).start().await.unwrap();
    assert_eq!(newer.settle().await.unwrap().decided(), ["PayIn"]);
}

#[tokio::test]
async fn a_worker_that_lost_its_message_leaves_it_to_the_other() {
    let engine = bank().await;
    engine.send::<Account>("barbara", Command::Deposit { cents: 5 }).await.unwrap();
    let queue_engine = &engine.backend().queue;
    let stale = queue_engine.get(&queue(), 1, Duration::from_secs(1)).await.unwrap().remove(0);
    engine.clock().unwrap().advance(Duration::from_secs(2));
    assert_eq!(engine.settle().await.unwrap().decided(), ["Deposit"]);
    assert!(queue_engine.delete(&stale.receipt).await.is_err());
    assert!(queue_engine.update(&stale.receipt, Update::visible_in(Duration::ZERO)).await.is_err());
    let sheet = engine.view::<Balances>().get("all").await.unwrap().document.unwrap();
    assert_eq!(sheet["barbara"], 5);
}
