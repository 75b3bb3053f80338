use crate::domain::{Account, Balances, Command, Event};
use highwater::{CommandId, Engine, ExecuteError, Outcome, OutcomeError, SendError, StartError, Step};
use highwater_core::{Change, ChangeOp, ItemKey, Name, Verdict};

pub(crate) async fn bank() -> Engine {
    Engine::in_memory().aggregate::<Account>(()).view(Balances).start().await.unwrap()
}

pub(crate) async fn changes(engine: &Engine) -> Vec<Change> {
    engine.feed(&[]).unwrap().page(1_000).await.unwrap().changes
}

async fn balance(engine: &Engine, account: &str) -> i64 {
    let sheet = engine.view::<crate::domain::Balances>().get("all").await.unwrap().document;
    sheet.unwrap_or_default().get(account).copied().unwrap_or(0)
}

#[tokio::test]
async fn a_sent_command_is_pending_then_accepted_and_seen_by_the_view() {
    let engine = bank().await;
    let sent = engine.send::<Account>("barbara", Command::Deposit { cents: 500 }).await.unwrap();
    assert_eq!(engine.outcome(sent.id).await.unwrap(), Outcome::Pending);

    let settled = engine.settle().await.unwrap();
    assert_eq!(settled.decided(), ["Deposit"]);
    assert!(settled.trouble().is_empty(), "{settled:?}");

    let outcome = engine.outcome(sent.id).await.unwrap();
    let Outcome::Accepted { token } = outcome else { panic!("{outcome:?}") };
    let answer = engine.view::<Balances>().get("all").at_least(&token).await.unwrap();
    assert!(answer.is_fresh());
    assert_eq!(balance(&engine, "barbara").await, 500);
}

/// Invariant 1: one write.
#[tokio::test]
async fn state_events_verdict_and_further_items_are_one_commit() {
    let engine = bank().await;
    let command = Command::DepositWithReceipt { cents: 7, receipt: "r1".into() };
    let sent = engine.send::<Account>("barbara", command).await.unwrap();
    engine.settle().await.unwrap();

    let changes = changes(&engine).await;
    assert_eq!(changes.len(), 2);
    let [state, receipt] = &*changes else { panic!("{changes:?}") };
    assert_eq!((state.ordinal, state.count, receipt.ordinal, receipt.count), (0, 2, 1, 2));
    assert_eq!(receipt.position.get(), state.position.get() + 1);
    assert!(matches!(state.op, ChangeOp::Put(_)));
    assert_eq!(&*state.events[0].name, "Deposited");
    let mark = state.command.as_ref().unwrap();
    assert_eq!((mark.id, &mark.verdict), (sent.id, &Verdict::Accepted));
    assert_eq!(receipt.key.container.as_str(), "receipts");
}

/// Invariant 7: a command decides once.
#[tokio::test]
async fn the_same_command_sent_again_is_decided_once() {
    let engine = bank().await;
    let id = CommandId::random();
    let send = || engine.send::<Account>("barbara", Command::Deposit { cents: 500 }).id(id);
    assert!(!send().await.unwrap().repeated);
    assert!(send().await.unwrap().repeated);
    engine.settle().await.unwrap();
    assert!(send().await.unwrap().repeated);
    let settled = engine.settle().await.unwrap();
    assert!(settled.decided().is_empty(), "{settled:?}");
    assert_eq!(balance(&engine, "barbara").await, 500);
    assert_eq!(changes(&engine).await.len(), 1);
}

#[tokio::test]
async fn an_id_used_again_with_other_content_is_refused_by_send_and_by_execute() {
    let engine = bank().await;
    let id = CommandId::random();
    engine.send::<Account>("barbara", Command::Deposit { cents: 500 }).id(id).await.unwrap();
    let other = engine.send::<Account>("barbara", Command::Deposit { cents: 501 }).id(id).await;
    assert!(matches!(other, Err(SendError::CommandIdReused { .. })), "{other:?}");
    let elsewhere = engine.send::<Account>("bernard", Command::Deposit { cents: 500 }).id(id).await;
    assert!(matches!(elsewhere, Err(SendError::CommandIdReused { .. })), "{elsewhere:?}");

    engine.settle().await.unwrap();
    let executed = engine.execute::<Account>("barbara", Command::Deposit { cents: 501 }).id(id).await;
    assert!(
        matches!(executed, Err(ExecuteError::Command(SendError::CommandIdReused { .. }))),
        "{executed:?}"
    );
    assert_eq!(balance(&engine, "barbara").await, 500);
}

/// Invariant 7: rejections are commits too.
#[tokio::test]
async fn a_rejection_stays_a_rejection_although_the_command_would_now_be_accepted() {
    let engine = bank().await;
    let id = CommandId::random();
    let withdraw = || engine.execute::<Account>("barbara", Command::Withdraw { cents: 100 }).id(id);
    let first = withdraw().await.unwrap();
    assert!(matches!(&first, Outcome::Rejected { reason, .. } if reason == "only 0 cents"), "{first:?}");
    engine.execute::<Account>("barbara", Command::Deposit { cents: 100 }).await.unwrap();
    assert_eq!(withdraw().await.unwrap(), first);

    let changes = changes(&engine).await;
    assert!(matches!(changes[0].op, ChangeOp::Keep) && changes[0].events.is_empty());
    let key = ItemKey::alone(Name::new("accounts").unwrap(), "barbara").unwrap();
    let history = engine.backend().store.history(&key, None, 10).await.unwrap();
    assert_eq!(history.len(), 1, "a rejection is no part of the item's history");
}

mod broken {
    use crate::domain::{Account, Command, Event};
    use highwater::{Aggregate, Context, Decision};
    use serde::{Deserialize, Serialize};

    /// A release of the bank that cannot decide anything any more.
    #[derive(Default, Serialize, Deserialize)]
    pub(crate) struct Broken(Account);

    impl Aggregate for Broken {
        const CONTAINER: &'static str = "accounts";
        type Command = Command;
        type Event = Event;
        type Settings = ();

        fn decide(&self, _: Command, _: &Context<Self>) -> Decision<Self> {
            panic!("nothing works")
        }

        fn apply(&mut self, _: &Event) {
            panic!("nothing works")
        }
    }
}

/// Invariant 7: also when the program that gets the command again cannot decide it.
#[tokio::test]
async fn a_command_decided_before_keeps_its_verdict_whatever_goes_wrong_now() {
    let engine = bank().await;
    let id = CommandId::random();
    let command = || Command::Deposit { cents: 5 };
    let first = engine.execute::<Account>("barbara", command()).id(id).await.unwrap();
    let (backend, clock) = (engine.backend().clone(), engine.clock().unwrap().clone());
    let broken = Engine::driven_on(backend, clock).aggregate::<broken::Broken>(()).start().await.unwrap();
    assert_eq!(broken.execute::<broken::Broken>("barbara", command()).id(id).await.unwrap(), first);
    let fresh = broken.execute::<broken::Broken>("barbara", command()).await.unwrap_err();
    assert!(fresh.to_string().contains("nothing works"), "{fresh}");
}

#[tokio::test]
async fn a_command_without_events_is_accepted_and_changes_nothing() {
    let engine = bank().await;
    let touched = engine.execute::<Account>("barbara", Command::Touch).await.unwrap();
    assert!(matches!(touched, Outcome::Accepted { .. }));
    let key = ItemKey::alone(Name::new("accounts").unwrap(), "barbara").unwrap();
    assert!(!engine.backend().store.item(&key).await.unwrap().unwrap().exists);
}

#[tokio::test]
async fn a_delayed_command_waits_for_its_time() {
    let engine = bank().await;
    let minute = std::time::Duration::from_secs(60);
    engine.send::<Account>("barbara", Command::Deposit { cents: 1 }).delay(minute).await.unwrap();
    assert!(engine.settle().await.unwrap().steps.is_empty());
    engine.clock().unwrap().advance(minute);
    assert_eq!(engine.settle().await.unwrap().decided(), ["Deposit"]);
}

#[tokio::test]
async fn a_failed_decision_is_tried_again_after_a_pause_that_grows() {
    let engine = bank().await;
    let sent = engine.send::<Account>("barbara", Command::Explode).await.unwrap();
    let mut tried = 0;
    for _ in 0..200 {
        let settled = engine.settle().await.unwrap();
        tried += settled.steps.len();
        if let Some(Step::Parked { .. }) = settled.steps.last() {
            break;
        }
        engine.clock().unwrap().advance(std::time::Duration::from_secs(30));
    }
    assert_eq!(tried, 10);
    let outcome = engine.outcome(sent.id).await.unwrap();
    assert_eq!(outcome, Outcome::Parked { reason: "failed 10 times".into() });
}

#[tokio::test]
async fn what_was_never_sent_has_no_outcome() {
    let engine = bank().await;
    let asked = engine.outcome(CommandId::random()).await;
    assert!(matches!(asked, Err(OutcomeError::Unknown { .. })), "{asked:?}");
}

#[tokio::test]
async fn hostile_addresses_and_oversized_commands_are_refused_by_name() {
    let engine = bank().await;
    for key in ["", "line\nbreak", &"x".repeat(256)] {
        let sent = engine.send::<Account>(key, Command::Touch).await;
        assert!(matches!(sent, Err(SendError::Key(_))), "{sent:?}");
    }
    let receipt = "r".repeat(300_000);
    let sent = engine.send::<Account>("barbara", Command::DepositWithReceipt { cents: 1, receipt }).await;
    let Err(SendError::TooLarge { size, limit }) = sent else { panic!("{sent:?}") };
    assert!(size > limit && limit == 256 * 1024);
    engine.send::<Account>("'; drop table 𝒽ead; --", Command::Deposit { cents: 3 }).await.unwrap();
    assert!(engine.settle().await.unwrap().trouble().is_empty());
    assert_eq!(balance(&engine, "'; drop table 𝒽ead; --").await, 3);
}

#[tokio::test]
async fn every_fault_of_the_set_up_is_named_at_once() {
    let faults = Engine::in_memory()
        .aggregate::<Account>(())
        .aggregate::<Account>(())
        .view(Balances)
        .view(Balances)
        .queue("Not A Name")
        .instance("")
        .processor(highwater::Processor::named("idle").max_items(0))
        .start()
        .await;
    let Err(StartError::Invalid { faults }) = faults else { panic!("{faults:?}") };
    let all = faults.join("\n");
    for part in
        ["container `accounts`", "named `balances`", "Not A Name", "instance name", "max items", "no handler"]
    {
        assert!(all.contains(part), "{part} is missing in:\n{all}");
    }
}

#[tokio::test]
async fn a_view_that_was_not_registered_or_follows_nothing_is_refused_by_name() {
    struct Idle;
    impl highwater::View for Idle {
        const NAME: &'static str = "idle";
        type Document = u64;
        fn sources(sources: highwater::Sources<Self>) -> highwater::Sources<Self> {
            sources
        }
    }
    let engine = bank().await;
    let read = engine.view::<Idle>().get("all").await;
    assert!(matches!(read, Err(highwater::ViewReadError::NotRegistered { view: "idle" })), "{read:?}");
    let started = Engine::in_memory().view(Idle).start().await.unwrap_err();
    assert!(started.to_string().contains("view `idle` follows no aggregate"), "{started}");
}

#[tokio::test]
async fn a_command_for_an_aggregate_that_was_not_registered_is_refused() {
    let engine = Engine::in_memory().start().await.unwrap();
    let sent = engine.send::<Account>("barbara", Command::Touch).await;
    assert!(matches!(sent, Err(SendError::NotRegistered { container: "accounts" })), "{sent:?}");
    let unknown = Engine::open("postgress:secret@host").start().await.unwrap_err();
    assert!(!unknown.to_string().contains("secret"), "{unknown}");
}

#[test]
fn events_read_as_they_were_written() {
    let event = Event::Deposited { cents: 1 };
    assert_eq!(serde_json::to_string(&event).unwrap(), r#"{"Deposited":{"cents":1}}"#);
}
