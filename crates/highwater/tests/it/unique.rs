use crate::dying::Dying;
use highwater::{
    Aggregate, Claim, CommandId, Context, Decision, Engine, EngineBuilder, ManualClock, Outcome, Reservation,
    SendError, Subscriber,
};
use highwater_core::Backend;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Ask {
    Open { email: String, willing: bool },
    Close { opened: CommandId, email: String },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Told {
    Opened { by: CommandId, email: String },
    Refused { by: CommandId, email: String },
    Closed { opened: CommandId, email: String },
}

/// Opens whatever it is asked to: that only one is open per e-mail is none of its knowledge.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Desk(BTreeSet<CommandId>);

impl Aggregate for Desk {
    const CONTAINER: &'static str = "desks";
    type Command = Ask;
    type Event = Told;
    type Settings = ();

    fn decide(&self, ask: Ask, context: &Context<Self>) -> Decision<Self> {
        match ask {
            Ask::Open { email, willing: true } => {
                Decision::accept([Told::Opened { by: context.command, email }])
            }
            Ask::Open { email, .. } => {
                Decision::reject("no").with_events([Told::Refused { by: context.command, email }])
            }
            Ask::Close { opened, email } => Decision::accept([Told::Closed { opened, email }]),
        }
    }

    fn apply(&mut self, told: &Told) {
        match told {
            Told::Opened { by, .. } => self.0.insert(*by),
            Told::Closed { opened, .. } => self.0.remove(opened),
            Told::Refused { .. } => false,
        };
    }
}

fn desks(builder: EngineBuilder) -> EngineBuilder {
    let keeper = Subscriber::<Desk>::named("one-each").unique("open", |event| match &event.event {
        Told::Opened { by, email } => Some(Claim::confirm(email, *by)),
        Told::Refused { by, email } | Told::Closed { opened: by, email } => Some(Claim::release(email, *by)),
    });
    builder.aggregate::<Desk>(()).processor(keeper)
}

async fn engine() -> Engine {
    desks(Engine::in_memory()).start().await.unwrap()
}

/// Without the subscriber, so that nothing is confirmed or released.
async fn bare() -> Engine {
    Engine::in_memory().aggregate::<Desk>(()).start().await.unwrap()
}

const ADA: &str = "ada@example.org";
const MINUTE: Duration = Duration::from_secs(60);

fn open(willing: bool) -> Ask {
    Ask::Open { email: ADA.into(), willing }
}

async fn reserve(engine: &Engine, id: CommandId, desk: &str) -> Reservation {
    engine.unique("open").reserve(ADA, id, desk).await.unwrap()
}

/// The commands whose desks are open, as the log tells.
async fn opened(engine: &Engine) -> BTreeSet<CommandId> {
    let mut open = BTreeSet::new();
    for change in crate::commands::changes(engine).await {
        for event in &change.events {
            let told = format!(r#"{{"{}":{}}}"#, event.name, String::from_utf8_lossy(event.data.as_bytes()));
            match serde_json::from_str(&told).unwrap() {
                Told::Opened { by, .. } => open.insert(by),
                Told::Closed { opened, .. } => open.remove(&opened),
                Told::Refused { .. } => false,
            };
        }
    }
    open
}

#[tokio::test]
async fn a_value_is_held_by_one_command_whatever_the_partition_key() {
    let engine = engine().await;
    let (first, second) = (CommandId::random(), CommandId::random());
    assert_eq!(reserve(&engine, first, "a").await, Reservation::Held);
    assert_eq!(reserve(&engine, first, "a").await, Reservation::Held, "asked again");
    assert_eq!(reserve(&engine, second, "b").await, Reservation::Taken { by: first });
    let other = engine.unique("closed").reserve(ADA, second, "b").await.unwrap();
    assert_eq!(other, Reservation::Held, "another scope");
    engine.send::<Desk>("a", open(true)).id(first).await.unwrap();
    engine.settle().await.unwrap();
    assert!(engine.unique("open").holder(ADA).await.unwrap().unwrap().confirmed);
    engine.clock().unwrap().advance(365 * 24 * 60 * MINUTE);
    assert_eq!(reserve(&engine, second, "b").await, Reservation::Taken { by: first });

    engine.send::<Desk>("a", Ask::Close { opened: first, email: ADA.into() }).await.unwrap();
    engine.settle().await.unwrap();
    assert_eq!(reserve(&engine, second, "b").await, Reservation::Held);
}

#[tokio::test]
async fn a_rejected_command_holds_nothing_even_before_anybody_released_it() {
    let engine = bare().await;
    let (first, second) = (CommandId::random(), CommandId::random());
    reserve(&engine, first, "a").await;
    engine.send::<Desk>("a", open(false)).id(first).await.unwrap();
    engine.settle().await.unwrap();
    assert_eq!(reserve(&engine, second, "b").await, Reservation::Held);
}

#[tokio::test]
async fn a_value_stays_reserved_for_as_long_as_its_command_waits_is_parked_or_was_accepted() {
    let engine = bare().await;
    let (first, second) = (CommandId::random(), CommandId::random());
    reserve(&engine, first, "a").await;
    engine.send::<Desk>("a", open(true)).delay(60 * MINUTE).id(first).await.unwrap();
    engine.clock().unwrap().advance(59 * MINUTE);
    assert_eq!(reserve(&engine, second, "b").await, Reservation::Taken { by: first }, "it waits");
    engine.clock().unwrap().advance(MINUTE);
    engine.settle().await.unwrap();
    engine.clock().unwrap().advance(MINUTE);
    assert_eq!(reserve(&engine, second, "b").await, Reservation::Taken { by: first }, "it was accepted");
}

/// The mechanism: whoever takes the value over makes sure that the slow sender cannot send any more.
#[tokio::test]
async fn a_command_that_comes_after_its_reservation_went_to_another_is_refused() {
    let engine = engine().await;
    let (slow, quick) = (CommandId::random(), CommandId::random());
    reserve(&engine, slow, "a").await;
    engine.clock().unwrap().advance(MINUTE - Duration::from_micros(1));
    assert_eq!(reserve(&engine, quick, "b").await, Reservation::Taken { by: slow });
    engine.clock().unwrap().advance(Duration::from_micros(1));
    assert_eq!(reserve(&engine, quick, "b").await, Reservation::Held);

    let late = engine.send::<Desk>("a", open(true)).id(slow).await;
    assert!(matches!(late, Err(SendError::Cancelled { id }) if id == slow), "{late:?}");
    assert_eq!(engine.outcome(slow).await.unwrap(), Outcome::Cancelled);
    engine.send::<Desk>("b", open(true)).id(quick).await.unwrap();
    engine.settle().await.unwrap();
    assert_eq!(opened(&engine).await, [quick].into());
    assert_eq!(reserve(&engine, slow, "a").await, Reservation::Taken { by: quick });
}

#[tokio::test]
async fn a_command_that_was_decided_reserves_nothing_when_its_form_is_sent_once_more() {
    let engine = engine().await;
    let (first, second) = (CommandId::random(), CommandId::random());
    reserve(&engine, first, "a").await;
    engine.send::<Desk>("a", open(true)).id(first).await.unwrap();
    engine.send::<Desk>("a", Ask::Close { opened: first, email: ADA.into() }).await.unwrap();
    engine.settle().await.unwrap();
    assert_eq!(reserve(&engine, first, "a").await, Reservation::Decided);
    assert_eq!(reserve(&engine, second, "b").await, Reservation::Held);
}

#[tokio::test]
async fn an_old_event_delivered_again_takes_nothing_from_the_next_holder() {
    let engine = engine().await;
    let (first, second) = (CommandId::random(), CommandId::random());
    let open_values = engine.unique("open");
    reserve(&engine, second, "b").await;
    assert!(!open_values.confirm(ADA, first, None).await.unwrap());
    assert!(!open_values.release(ADA, first).await.unwrap());
    assert_eq!(open_values.holder(ADA).await.unwrap().unwrap().command, second);
    assert!(open_values.release(ADA, second).await.unwrap());
    assert!(!open_values.confirm(ADA, first, None).await.unwrap(), "nobody holds it, and nobody gets it");
    assert_eq!(open_values.holder(ADA).await.unwrap(), None);
}

#[tokio::test]
async fn a_value_confirmed_until_a_time_is_free_from_then_on_and_its_cell_goes() {
    let engine = bare().await;
    let (first, second) = (CommandId::random(), CommandId::random());
    reserve(&engine, first, "a").await;
    let end = engine.now().plus(10 * MINUTE);
    assert!(engine.unique("open").confirm(ADA, first, Some(end)).await.unwrap());
    engine.clock().unwrap().advance(10 * MINUTE - Duration::from_micros(1));
    assert_eq!(reserve(&engine, second, "b").await, Reservation::Taken { by: first });
    engine.clock().unwrap().advance(Duration::from_micros(1));
    engine.unique("open").reserve("grace@example.org", second, "b").await.unwrap();
    assert_eq!(engine.unique("open").holder(ADA).await.unwrap(), None, "removed in passing");
    assert_eq!(reserve(&engine, second, "b").await, Reservation::Held);
}

#[tokio::test]
async fn what_senders_that_died_left_behind_does_not_add_up() {
    let engine = bare().await;
    for n in 0..200 {
        let value = format!("{n}@example.org");
        engine.unique("open").reserve(&value, CommandId::random(), "a").await.unwrap();
        engine.clock().unwrap().advance(MINUTE / 10);
    }
    let space = highwater_core::Name::new("unique").unwrap();
    let left = engine.backend().cells.list(&space, None, 1_000).await.unwrap().len();
    assert!(left < 30, "{left} cells of 200 are left; those of the last minute are 10");
}

#[tokio::test]
async fn a_scope_that_is_no_name_and_a_value_that_is_too_long_are_refused() {
    let engine = bare().await;
    let id = CommandId::random();
    let named = engine.unique("Open Booking").reserve(ADA, id, "a").await.unwrap_err();
    assert!(named.to_string().contains("the scope of unique values"), "{named}");
    let long = engine.unique("open").reserve(&"x".repeat(508), id, "a").await.unwrap_err();
    assert_eq!(
        long.to_string(),
        "a unique value has 513 bytes with its scope, the limit is 512; use a digest of it"
    );
    engine.unique("open").reserve(&"x".repeat(507), id, "a").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_commands_that_race_for_a_value_exactly_one_is_sent() {
    let engine = engine().await;
    let mut racers = tokio::task::JoinSet::new();
    for n in 0..16 {
        let engine = engine.clone();
        racers.spawn(async move {
            let id = CommandId::random();
            let desk = format!("desk-{n}");
            if reserve(&engine, id, &desk).await == Reservation::Held {
                engine.send::<Desk>(desk, open(true)).id(id).await.unwrap();
            }
        });
    }
    racers.join_all().await;
    engine.settle().await.unwrap();
    assert_eq!(opened(&engine).await.len(), 1);
}

/// A backend, and the clock that it runs on.
async fn fresh() -> (Backend, ManualClock) {
    let engine = bare().await;
    (engine.backend().clone(), engine.clock().unwrap().clone())
}

/// One life of a sender and a worker, as far as they live.
async fn life(engine: &Engine, id: CommandId) -> Option<()> {
    let reserved = engine.unique("open").reserve(ADA, id, "a").await.ok()?;
    assert_eq!(reserved, Reservation::Held);
    engine.send::<Desk>("a", open(true)).id(id).await.ok()?;
    engine.settle().await.ok().filter(|settled| settled.trouble().is_empty())?;
    engine.send::<Desk>("a", Ask::Close { opened: id, email: ADA.into() }).await.ok()?;
    engine.settle().await.ok().filter(|settled| settled.trouble().is_empty())?;
    Some(())
}

/// Time passes until leases and visibilities of the dead have run out.
async fn recover(engine: &Engine) {
    for _ in 0..6 {
        engine.settle().await.unwrap();
        engine.clock().unwrap().advance(MINUTE / 2);
    }
    let settled = engine.settle().await.unwrap();
    assert!(settled.trouble().is_empty(), "{settled:?}");
}

/// Dies before, or after, each single step of the protocol; whatever was left, the value goes to one at a time, to the
/// next as soon as it is free, and the sender that died may come back.
#[tokio::test]
async fn a_crash_at_any_step_neither_loses_a_value_nor_gives_it_to_two() {
    for after in [false, true] {
        for step in 0.. {
            let (whole, clock) = fresh().await;
            let (dead, next) = (CommandId::random(), CommandId::random());
            let dying = Dying::at(step, after);
            let mortal =
                desks(Engine::driven_on(dying.backend(&whole), clock.clone())).start().await.unwrap();
            let survived = life(&mortal, dead).await.is_some();
            let place =
                format!("died {} step {step}, {}", if after { "after" } else { "before" }, dying.last());

            let engine = desks(Engine::driven_on(whole, clock)).start().await.unwrap();
            recover(&engine).await;
            let open_now = opened(&engine).await;
            let reserved = reserve(&engine, next, "b").await;
            if open_now.contains(&dead) {
                assert_eq!(reserved, Reservation::Taken { by: dead }, "{place}");
            } else {
                assert_eq!(reserved, Reservation::Held, "{place}");
                engine.send::<Desk>("b", open(true)).id(next).await.unwrap();
            }
            // The dead one comes back where it was: about to reserve, or about to send.
            if dying.has_written("unique") {
                match engine.send::<Desk>("a", open(true)).id(dead).await {
                    Ok(sent) => assert!(sent.repeated, "{place}"),
                    Err(error) => assert!(matches!(error, SendError::Cancelled { .. }), "{place}: {error}"),
                }
            } else {
                assert_eq!(reserve(&engine, dead, "a").await, Reservation::Taken { by: next }, "{place}");
            }
            recover(&engine).await;
            assert_eq!(opened(&engine).await.len(), 1, "{place}");
            let holder = engine.unique("open").holder(ADA).await.unwrap().unwrap();
            assert_eq!(opened(&engine).await, [holder.command].into(), "{place}");
            assert!(holder.confirmed, "{place}");
            if survived {
                assert!(step > 15, "only {step} steps were tried");
                break;
            }
        }
    }
}

/// The same for whoever takes a value over from a sender that died before it had sent anything.
#[tokio::test]
async fn a_crash_while_taking_over_leaves_the_value_to_the_next() {
    for after in [false, true] {
        for step in 0.. {
            let (whole, clock) = fresh().await;
            let (first, second, third) = (CommandId::random(), CommandId::random(), CommandId::random());
            let engine = desks(Engine::driven_on(whole.clone(), clock.clone())).start().await.unwrap();
            reserve(&engine, first, "a").await;
            clock.advance(MINUTE);
            let dying = Dying::at(step, after);
            let mortal =
                desks(Engine::driven_on(dying.backend(&whole), clock.clone())).start().await.unwrap();
            let survived = mortal.unique("open").reserve(ADA, second, "b").await.is_ok();
            let place =
                format!("died {} step {step}, {}", if after { "after" } else { "before" }, dying.last());

            clock.advance(MINUTE);
            assert_eq!(reserve(&engine, third, "c").await, Reservation::Held, "{place}");
            engine.send::<Desk>("c", open(true)).id(third).await.unwrap();
            for late in [first, second] {
                let sent = engine.send::<Desk>("a", open(true)).id(late).await;
                // One that never held the value does not ask for it, so it never comes to sending.
                let held = late == first || dying.has_written("unique");
                assert!(!held || matches!(sent, Err(SendError::Cancelled { .. })), "{place}: {sent:?}");
                if !held {
                    break;
                }
            }
            if survived {
                assert!(step > 5, "only {step} steps were tried");
                break;
            }
        }
    }
}
