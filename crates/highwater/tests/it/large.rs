use crate::commands::bank;
use crate::domain::{Account, Command};
use crate::dying::Dying;
use highwater::{CommandId, Engine, Outcome, SendError, Step};
use highwater_core::{CellKey, CellWrite, Expect, Name};
use serde_json::Value;
use std::time::Duration;

/// More than a message holds, less than a cell does; quotes, so that it grows when written as JSON twice.
fn large() -> Command {
    Command::DepositWithReceipt { cents: 1, receipt: "\"".repeat(100) }
}

fn padded() -> Command {
    Command::DepositWithReceipt { cents: 7, receipt: format!("r{}", " ".repeat(100_000)) }
}

fn cell(id: CommandId) -> CellKey {
    CellKey::new(Name::new("commands").unwrap(), id.to_string())
}

async fn record(engine: &Engine, id: CommandId) -> Value {
    engine.backend().cells.read(&cell(id)).await.unwrap().unwrap().value.decode().unwrap()
}

fn queue() -> Name {
    Name::new("commands").unwrap()
}

#[tokio::test]
async fn a_command_too_large_for_a_message_travels_by_pointer_and_its_data_goes_with_it() {
    let engine = bank().await;
    let command = Command::Withdraw { cents: 1 };
    let small = engine.send::<Account>("barbara", command).await.unwrap();
    assert_eq!(record(&engine, small.id).await.get("data"), None);

    let sent = engine.send::<Account>("barbara", padded()).await.unwrap();
    let peeked = engine.backend().queue.peek(&queue(), 32).await.unwrap();
    assert!(peeked.iter().all(|message| message.body.len() < 1_000), "{peeked:?}");
    assert!(record(&engine, sent.id).await["data"]["receipt"].as_str().unwrap().len() > 100_000);
    assert!(engine.send::<Account>("barbara", padded()).id(sent.id).await.unwrap().repeated);
    let other = engine.send::<Account>("barbara", large()).id(sent.id).await;
    assert!(matches!(other, Err(SendError::CommandIdReused { .. })), "{other:?}");

    let settled = engine.settle().await.unwrap();
    // The receipt's name is no item id, which the worker can only know from the data.
    assert!(matches!(&settled.trouble()[..], [Step::Parked { .. }]), "{settled:?}");
    let parked = engine.outcome(sent.id).await.unwrap();
    assert!(matches!(parked, Outcome::Parked { .. }), "{parked:?}");
    assert!(record(&engine, sent.id).await.get("data").is_some(), "a replay needs it");
}

#[tokio::test]
async fn the_data_of_a_decided_command_is_cleared() {
    let engine = Engine::in_memory().aggregate::<notes::Note>(()).start().await.unwrap();
    let text = "x".repeat(200_000);
    let sent = engine.send::<notes::Note>("n", notes::Write { text: text.clone() }).await.unwrap();
    assert_eq!(engine.settle().await.unwrap().decided(), ["Write"]);
    assert!(matches!(engine.outcome(sent.id).await.unwrap(), Outcome::Accepted { .. }));
    assert_eq!(record(&engine, sent.id).await.get("data"), None);
    let again = engine.send::<notes::Note>("n", notes::Write { text }).id(sent.id).await.unwrap();
    assert!(again.repeated);
}

#[tokio::test]
async fn a_pointer_to_nothing_is_parked_with_its_reason_and_stops_nobody() {
    let engine = Engine::in_memory().aggregate::<notes::Note>(()).start().await.unwrap();
    let write = || notes::Write { text: "x".repeat(60_000) };
    let sent = engine.send::<notes::Note>("n", write()).await.unwrap();
    engine.send::<notes::Note>("n", write()).await.unwrap();
    let mut emptied = record(&engine, sent.id).await;
    emptied.as_object_mut().unwrap().remove("data");
    let value = highwater_core::Json::encode(&emptied).unwrap();
    engine.backend().cells.write(CellWrite::new(cell(sent.id), Expect::Any, value)).await.unwrap();
    let settled = engine.settle().await.unwrap();
    assert_eq!(settled.decided(), ["Write"]);
    let Outcome::Parked { reason } = engine.outcome(sent.id).await.unwrap() else { panic!("{settled:?}") };
    assert!(reason.contains("does not hold its data any more"), "{reason}");
}

#[tokio::test]
async fn a_crash_at_any_step_of_a_large_command_decides_it_once_and_leaves_no_data() {
    for after in [false, true] {
        for step in 0.. {
            let first = Engine::in_memory().aggregate::<notes::Note>(()).start().await.unwrap();
            let (whole, clock) = (first.backend().clone(), first.clock().unwrap().clone());
            let (dying, id) = (Dying::at(step, after), CommandId::random());
            let mortal = Engine::driven_on(dying.backend(&whole), clock.clone()).aggregate::<notes::Note>(());
            let mortal = mortal.start().await.unwrap();
            let write = || notes::Write { text: "x".repeat(60_000) };
            let sent = mortal.send::<notes::Note>("n", write()).id(id).await.is_ok();
            let survived = sent && mortal.settle().await.is_ok_and(|settled| settled.trouble().is_empty());
            let place =
                format!("died {} step {step}, {}", if after { "after" } else { "before" }, dying.last());

            first.send::<notes::Note>("n", write()).id(id).await.unwrap();
            for _ in 0..3 {
                let settled = first.settle().await.unwrap();
                assert!(settled.trouble().is_empty(), "{place}: {settled:?}");
                clock.advance(Duration::from_secs(31));
            }
            assert_eq!(crate::commands::changes(&first).await.len(), 1, "{place}");
            assert!(matches!(first.outcome(id).await.unwrap(), Outcome::Accepted { .. }), "{place}");
            assert_eq!(record(&first, id).await.get("data"), None, "{place}");
            let depth = first.backend().queue.depth(&queue()).await.unwrap();
            assert_eq!((depth.visible, depth.in_flight, depth.parked), (0, 0, 0), "{place}");
            if survived && dying.last().starts_with("alive") {
                assert!(step > 5, "only {step} steps were tried");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_full_queue_refuses_commands_and_takes_them_again_when_some_are_done() {
    let engine = Engine::in_memory().aggregate::<Account>(()).queue_limit(2).start().await.unwrap();
    let id = CommandId::random();
    let deposit = || engine.send::<Account>("barbara", Command::Deposit { cents: 1 });
    deposit().await.unwrap();
    let second = deposit().await.unwrap();
    let full = deposit().id(id).await;
    assert!(matches!(full, Err(SendError::Full { limit: 2 })), "{full:?}");
    assert!(engine.outcome(id).await.is_err(), "it was not sent");
    assert!(deposit().id(second.id).await.unwrap().repeated, "a command that waits already");
    engine.settle().await.unwrap();
    assert!(!deposit().id(id).await.unwrap().repeated);
    let none = Engine::in_memory().aggregate::<Account>(()).queue_limit(0).start().await;
    assert!(none.unwrap_err().to_string().contains("the queue limit must be at least 1"));
}

mod notes {
    use highwater::{Aggregate, Context, Decision};
    use serde::{Deserialize, Serialize};

    #[derive(Debug, Serialize, Deserialize)]
    pub(crate) enum Ask {
        Write { text: String },
    }
    pub(crate) use Ask::Write;

    #[derive(Debug, Serialize, Deserialize)]
    pub(crate) enum Told {
        Written { length: usize },
    }

    /// Takes long texts, and keeps how long they were.
    #[derive(Debug, Default, Serialize, Deserialize)]
    pub(crate) struct Note(usize);

    impl Aggregate for Note {
        const CONTAINER: &'static str = "notes";
        type Command = Ask;
        type Event = Told;
        type Settings = ();

        fn decide(&self, Ask::Write { text }: Ask, _: &Context<Self>) -> Decision<Self> {
            Decision::accept([Told::Written { length: text.len() }])
        }

        fn apply(&mut self, Told::Written { length }: &Told) {
            self.0 = *length;
        }
    }
}
