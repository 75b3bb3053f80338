use crate::commands::bank;
use crate::domain::{Account, Command};
use crate::dying::Dying;
use highwater::{Cancelling, Engine, Outcome, Retiming, SendError, Timer};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);
const HOUR: Duration = Duration::from_secs(3_600);

async fn later(engine: &Engine, delay: Duration) -> Timer {
    let sent = engine.send::<Account>("barbara", Command::Deposit { cents: 1 }).delay(delay).await.unwrap();
    sent.timer.unwrap()
}

/// Kept as text and read again, as another process would.
fn kept(timer: &Timer) -> Timer {
    serde_json::from_str(&serde_json::to_string(timer).unwrap()).unwrap()
}

#[tokio::test]
async fn a_cancelled_command_is_never_decided_and_says_so() {
    let engine = bank().await;
    let timer = later(&engine, HOUR).await;
    assert_eq!(engine.outcome(timer.command()).await.unwrap(), Outcome::Pending);
    assert_eq!(engine.cancel(&kept(&timer)).await.unwrap(), Cancelling::Cancelled);
    assert_eq!(engine.cancel(&timer).await.unwrap(), Cancelling::Cancelled, "once more");
    assert_eq!(engine.outcome(timer.command()).await.unwrap(), Outcome::Cancelled);
    engine.clock().unwrap().advance(2 * HOUR);
    assert!(engine.settle().await.unwrap().steps.is_empty());
    let again = engine.send::<Account>("barbara", Command::Deposit { cents: 1 }).id(timer.command()).await;
    assert!(matches!(again, Err(SendError::Cancelled { .. })), "{again:?}");
    assert_eq!(engine.retime(&timer, HOUR).await.unwrap(), Retiming::TooLate(Outcome::Cancelled));
}

#[tokio::test]
async fn a_command_that_was_taken_cannot_be_taken_back() {
    let engine = bank().await;
    let timer = later(&engine, HOUR).await;
    engine.clock().unwrap().advance(HOUR);
    let queue = highwater_core::Name::new("commands").unwrap();
    let visibility = Duration::from_secs(30);
    assert_eq!(engine.backend().queue.get(&queue, 1, visibility).await.unwrap().len(), 1);
    assert_eq!(engine.cancel(&timer).await.unwrap(), Cancelling::TooLate(Outcome::Pending));
    assert_eq!(engine.outcome(timer.command()).await.unwrap(), Outcome::Pending);
    engine.clock().unwrap().advance(visibility);
    assert_eq!(engine.settle().await.unwrap().decided(), ["Deposit"]);
    let decided = engine.outcome(timer.command()).await.unwrap();
    assert!(matches!(decided, Outcome::Accepted { .. }), "{decided:?}");
    assert_eq!(engine.cancel(&timer).await.unwrap(), Cancelling::TooLate(decided.clone()));
    assert_eq!(engine.retime(&timer, HOUR).await.unwrap(), Retiming::TooLate(decided));
}

#[tokio::test]
async fn a_command_can_be_decided_sooner_or_later_than_it_was_sent_for() {
    let engine = bank().await;
    let sooner = later(&engine, 30 * DAY).await;
    let Retiming::Retimed(sooner_again) = engine.retime(&sooner, HOUR).await.unwrap() else { panic!() };
    assert_eq!(
        engine.retime(&sooner, DAY).await.unwrap(),
        Retiming::TooLate(Outcome::Pending),
        "the old timer is dead"
    );
    let Retiming::Retimed(_) = engine.retime(&sooner_again, HOUR).await.unwrap() else { panic!() };
    let much_later = later(&engine, HOUR).await;
    let Retiming::Retimed(much_later) = engine.retime(&much_later, 20 * DAY).await.unwrap() else { panic!() };
    engine.clock().unwrap().advance(HOUR);
    assert_eq!(engine.settle().await.unwrap().decided(), ["Deposit"]);
    for day in 1..=20 {
        assert_eq!(engine.outcome(much_later.command()).await.unwrap(), Outcome::Pending, "day {day}");
        engine.clock().unwrap().advance(DAY);
        let settled = engine.settle().await.unwrap();
        assert!(settled.trouble().is_empty(), "{settled:?}");
    }
    assert!(matches!(engine.outcome(much_later.command()).await.unwrap(), Outcome::Accepted { .. }));
}

#[tokio::test]
async fn a_timer_may_run_for_years_without_counting_as_failures() {
    let engine = bank().await;
    let timer = later(&engine, 2 * 365 * DAY).await;
    for _ in 0..104 {
        engine.clock().unwrap().advance(7 * DAY - HOUR);
        assert!(engine.settle().await.unwrap().decided().is_empty());
    }
    engine.clock().unwrap().advance(DAY);
    assert!(engine.settle().await.unwrap().trouble().is_empty());
    engine.clock().unwrap().advance(7 * DAY);
    engine.settle().await.unwrap();
    assert!(matches!(engine.outcome(timer.command()).await.unwrap(), Outcome::Accepted { .. }));
    let ages = engine.send::<Account>("barbara", Command::Touch).delay(101 * 366 * DAY).await;
    assert!(ages.unwrap_err().to_string().contains("at most 100 years"));
    let at = engine.now().plus(HOUR);
    engine.send::<Account>("barbara", Command::Touch).at(at).await.unwrap();
    assert!(engine.settle().await.unwrap().decided().is_empty());
    engine.clock().unwrap().advance(HOUR);
    assert_eq!(engine.settle().await.unwrap().decided(), ["Touch"]);
}

#[tokio::test]
async fn a_crash_while_cancelling_leaves_an_outcome_that_is_true() {
    for after in [false, true] {
        for step in 0.. {
            let engine = bank().await;
            let timer = later(&engine, HOUR).await;
            let dying = Dying::at(step, after);
            let clock = engine.clock().unwrap().clone();
            let mortal = Engine::driven_on(dying.backend(engine.backend()), clock.clone());
            let mortal = mortal.aggregate::<Account>(()).start().await.unwrap();
            let told = mortal.cancel(&timer).await;
            let place =
                format!("died {} step {step}, {}", if after { "after" } else { "before" }, dying.last());

            let first = engine.outcome(timer.command()).await.unwrap();
            clock.advance(HOUR);
            let decided = engine.settle().await.unwrap().decided().len();
            let last = engine.outcome(timer.command()).await.unwrap();
            match (decided, &last) {
                (1, Outcome::Accepted { .. }) => assert_eq!(first, Outcome::Pending, "{place}"),
                (0, Outcome::Cancelled) => assert_eq!(first, Outcome::Cancelled, "{place}"),
                other => panic!("{place}: {other:?}"),
            }
            let asked_again = engine.cancel(&timer).await.unwrap();
            assert_eq!(asked_again == Cancelling::Cancelled, last == Outcome::Cancelled, "{place}");
            if let Ok(told) = told {
                assert_eq!((told, last), (Cancelling::Cancelled, Outcome::Cancelled), "{place}");
                assert!(step >= 5, "only {step} steps were tried");
                break;
            }
        }
    }
}
