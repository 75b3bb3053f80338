use crate::commands::changes;
use crate::domain::{Account, Command};
use crate::dying::Dying;
use highwater::{Backend, Engine, EngineBuilder, ManualClock, Missed, Recurring, Role, Step, Timestamp};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);
const HOUR: Duration = Duration::from_secs(3_600);
const MINUTE: Duration = Duration::from_secs(60);

/// Every night at three in Zurich, which in January is two o'clock in UTC.
fn nightly() -> Recurring<Account> {
    every("0 3 * * *")
}

fn every(expression: &str) -> Recurring<Account> {
    Recurring::new("interest", expression, "Europe/Zurich", |planned| {
        (planned.day(), Command::Deposit { cents: 1 })
    })
}

fn on(backend: &Backend, clock: &ManualClock, recurring: Recurring<Account>) -> EngineBuilder {
    Engine::driven_on(backend.clone(), clock.clone()).aggregate::<Account>(()).recurring(recurring)
}

async fn bank(recurring: Recurring<Account>) -> Engine {
    Engine::in_memory().aggregate::<Account>(()).recurring(recurring).start().await.unwrap()
}

/// What was fired, by the time it was planned for.
fn fired(steps: &[Step]) -> Vec<String> {
    let mut planned_for = Vec::new();
    for step in steps {
        if let Step::Fired { planned, .. } = step {
            planned_for.push(planned.to_string()[..16].to_owned());
        }
    }
    planned_for
}

/// The accounts that something was decided for, in order.
async fn decided(engine: &Engine) -> Vec<String> {
    let mut days: Vec<_> = changes(engine).await.iter().map(|change| change.key.id.to_string()).collect();
    days.sort();
    days
}

#[tokio::test]
async fn a_recurring_command_is_sent_and_decided_when_its_time_has_come() {
    let engine = bank(nightly()).await;
    let clock = engine.clock().unwrap();
    assert!(engine.settle().await.unwrap().steps.is_empty());
    clock.advance(2 * HOUR - Duration::from_micros(1));
    assert!(engine.settle().await.unwrap().steps.is_empty());
    let status = &engine.status().await.unwrap().recurring[0];
    assert_eq!((&*status.name, status.running, status.last), ("interest", true, None));
    assert_eq!(status.next.unwrap().to_string(), "2026-01-01T02:00:00.000000Z");

    clock.advance(Duration::from_micros(1));
    let settled = engine.settle().await.unwrap();
    assert_eq!(fired(&settled.steps), ["2026-01-01T02:00"]);
    assert_eq!(settled.decided(), ["Deposit"]);
    assert!(settled.trouble().is_empty());
    assert_eq!(decided(&engine).await, ["2026-01-01"]);
    let status = &engine.status().await.unwrap().recurring[0];
    assert_eq!(status.last.unwrap().to_string(), "2026-01-01T02:00:00.000000Z");
    assert_eq!(status.next.unwrap().to_string(), "2026-01-02T02:00:00.000000Z");
    assert!(engine.settle().await.unwrap().steps.is_empty());
}

#[tokio::test]
async fn each_night_has_one_command_through_both_changes_of_the_clocks() {
    let engine = bank(every("30 2 * * *")).await;
    let clock = engine.clock().unwrap();
    let mut nights = Vec::new();
    for _ in 0..365 * 24 {
        clock.advance(HOUR);
        nights.extend(fired(&engine.settle().await.unwrap().steps));
    }
    assert_eq!(nights.len(), 365);
    assert!(nights.contains(&"2026-03-29T01:00".into()), "left out: comes when the clocks have jumped");
    assert!(nights.contains(&"2026-10-25T00:30".into()), "repeated: comes the first time");
    let mut days = decided(&engine).await;
    assert_eq!(days.len(), 365);
    days.dedup();
    assert_eq!(days.len(), 365, "one a day");
}

/// Lets the process be down for the nights of 2 to 6 January, from 1 January on.
async fn after_five_nights(missed: Missed) -> Vec<String> {
    let before = bank(nightly()).await;
    let clock = before.clock().unwrap().clone();
    clock.advance(12 * HOUR);
    assert_eq!(before.settle().await.unwrap().decided().len(), 1);
    clock.advance(5 * DAY);
    let after = on(before.backend(), &clock, nightly().missed(missed)).start().await.unwrap();
    let settled = after.settle().await.unwrap();
    assert_eq!(settled.decided().len(), fired(&settled.steps).len());
    clock.advance(DAY);
    assert_eq!(
        fired(&after.settle().await.unwrap().steps),
        ["2026-01-07T02:00"].map(String::from)[..count(missed)]
    );
    fired(&settled.steps)
}

/// The night of the 7th lies more than a minute back as well.
fn count(missed: Missed) -> usize {
    usize::from(missed != Missed::Skip)
}

#[tokio::test]
async fn what_was_missed_is_dealt_with_as_declared() {
    assert_eq!(after_five_nights(Missed::Once).await, ["2026-01-06T02:00"]);
    assert!(after_five_nights(Missed::Skip).await.is_empty());
    let three = ["2026-01-04T02:00", "2026-01-05T02:00", "2026-01-06T02:00"];
    assert_eq!(after_five_nights(Missed::All { at_most: 3 }).await, three);
    assert_eq!(after_five_nights(Missed::All { at_most: 1_000 }).await.len(), 5);
}

#[tokio::test]
async fn what_is_skipped_when_missed_is_sent_when_it_is_on_time() {
    let engine = bank(nightly().missed(Missed::Skip)).await;
    let clock = engine.clock().unwrap();
    clock.advance(2 * HOUR + MINUTE);
    assert_eq!(fired(&engine.settle().await.unwrap().steps), ["2026-01-01T02:00"]);
    clock.advance(DAY + Duration::from_micros(1));
    assert!(engine.settle().await.unwrap().steps.is_empty());
    let status = &engine.status().await.unwrap().recurring[0];
    assert_eq!(status.next.unwrap().to_string(), "2026-01-03T02:00:00.000000Z");
}

#[tokio::test]
async fn two_processes_on_one_store_never_fire_twice() {
    let one = bank(every("*/10 * * * *")).await;
    let clock = one.clock().unwrap().clone();
    let two = on(one.backend(), &clock, every("*/10 * * * *")).start().await.unwrap();
    for round in 0..144 {
        clock.advance(10 * MINUTE);
        match round % 3 {
            0 => {
                let (first, second) = tokio::join!(one.settle(), two.settle());
                assert!(first.unwrap().trouble().is_empty() && second.unwrap().trouble().is_empty());
            }
            1 => assert_eq!(fired(&one.settle().await.unwrap().steps).len(), 1),
            _ => assert_eq!(fired(&two.settle().await.unwrap().steps).len(), 1),
        }
    }
    let all = [one.settle().await.unwrap(), two.settle().await.unwrap()];
    assert!(all.iter().all(|settled| settled.steps.is_empty()));
    assert_eq!(decided(&one).await.len(), 144);
}

#[tokio::test]
async fn a_death_at_any_step_loses_no_command_and_repeats_none() {
    for after in [false, true] {
        for step in 0.. {
            let whole = bank(nightly()).await;
            let clock = whole.clock().unwrap().clone();
            let dying = Dying::at(step, after);
            let mortal = on(&dying.backend(whole.backend()), &clock, nightly()).start().await;
            clock.advance(2 * HOUR);
            let lived = match mortal {
                Ok(mortal) => mortal.settle().await.is_ok_and(|settled| settled.trouble().is_empty()),
                Err(_) => false,
            };
            let place =
                format!("died {} step {step}, {}", if after { "after" } else { "before" }, dying.last());
            // Long enough for a message that the dead process had taken to come back.
            clock.advance(MINUTE);
            whole.settle().await.unwrap();
            assert_eq!(decided(&whole).await, ["2026-01-01"], "{place}");
            clock.advance(DAY);
            whole.settle().await.unwrap();
            assert_eq!(decided(&whole).await, ["2026-01-01", "2026-01-02"], "{place}");
            if lived {
                assert!(step >= 5, "only {step} steps were tried");
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_changed_expression_begins_when_it_is_started_and_leaves_the_other_alone() {
    let old = bank(nightly()).await;
    let clock = old.clock().unwrap().clone();
    clock.advance(5 * HOUR);
    // Three was missed under the old one; under the one that replaces it four o'clock was never planned.
    let replaced = on(old.backend(), &clock, every("0 4 * * *")).start().await.unwrap();
    assert!(replaced.settle().await.unwrap().steps.is_empty());
    assert_eq!(fired(&old.settle().await.unwrap().steps), ["2026-01-01T02:00"], "it still runs");
    for _ in 0..24 {
        clock.advance(HOUR);
        old.settle().await.unwrap();
        replaced.settle().await.unwrap();
    }
    assert_eq!(decided(&old).await.len(), 3, "the first night, and one of each the night after");
    // Back to the old one a week later: it was not down, it was not meant to run.
    clock.advance(7 * DAY);
    replaced.settle().await.unwrap();
    let back = on(old.backend(), &clock, nightly()).start().await.unwrap();
    assert!(back.settle().await.unwrap().steps.is_empty());
    clock.advance(DAY);
    assert_eq!(fired(&back.settle().await.unwrap().steps), ["2026-01-10T02:00"]);
}

#[tokio::test]
async fn only_those_who_work_on_commands_send_them() {
    let engine = Engine::in_memory().aggregate::<Account>(()).recurring(nightly());
    let web = engine.role(Role::Web).start().await.unwrap();
    let clock = web.clock().unwrap().clone();
    clock.advance(DAY);
    assert!(web.settle().await.unwrap().steps.is_empty());
    assert!(!web.status().await.unwrap().recurring[0].running);
    let worker = on(web.backend(), &clock, nightly()).role(Role::Worker).start().await.unwrap();
    clock.advance(DAY);
    assert_eq!(worker.settle().await.unwrap().decided().len(), 1);
    let told = &web.status().await.unwrap().recurring[0];
    assert_eq!(told.last.unwrap().to_string(), "2026-01-02T02:00:00.000000Z", "the web process sees it too");
}

#[tokio::test]
async fn what_cannot_be_sent_is_shown_and_tried_again() {
    let engine = Engine::in_memory().aggregate::<Account>(()).recurring(nightly()).queue_limit(1);
    let engine = engine.start().await.unwrap();
    let clock = engine.clock().unwrap();
    engine.send::<Account>("barbara", Command::Touch).delay(3 * HOUR).await.unwrap();
    clock.advance(2 * HOUR);
    let settled = engine.settle().await.unwrap();
    assert!(matches!(settled.trouble()[..], [Step::NotFired { .. }]), "{settled:?}");
    let failure = engine.status().await.unwrap().recurring[0].failure.clone().unwrap();
    assert!(failure.error.contains("1 commands are waiting"), "{failure:?}");
    clock.advance(HOUR);
    engine.settle().await.unwrap();
    clock.advance(MINUTE);
    engine.settle().await.unwrap();
    assert_eq!(decided(&engine).await, ["2026-01-01", "barbara"]);
    assert!(engine.status().await.unwrap().recurring[0].failure.is_none());
}

#[tokio::test]
async fn a_command_that_panics_while_it_is_made_stops_nothing_else() {
    let broken = Recurring::<Account>::new("broken", "0 3 * * *", "UTC", |planned| -> (&str, Command) {
        panic!("nothing for {}", planned.day())
    });
    let engine = Engine::in_memory().aggregate::<Account>(()).recurring(broken).recurring(nightly());
    let engine = engine.start().await.unwrap();
    engine.clock().unwrap().advance(12 * HOUR);
    let settled = engine.settle().await.unwrap();
    assert_eq!(settled.decided(), ["Deposit"]);
    let status = engine.status().await.unwrap();
    assert!(status.recurring[0].failure.as_ref().unwrap().error.contains("nothing for 2026-01-01"));
    assert!(status.recurring[0].next.unwrap() < engine.now(), "overdue");
}

#[tokio::test]
async fn every_fault_of_a_recurring_command_is_named_before_anything_starts() {
    let to = |_: &highwater::Planned| ("barbara", Command::Touch);
    let started = Engine::in_memory()
        .recurring(Recurring::<Account>::new("Night", "0 3 * *", "Europe/Atlantis", to))
        .recurring(Recurring::<Account>::new("twice", "0 3 * * *", "UTC", to))
        .recurring(Recurring::<Account>::new("twice", "0 0 30 2 *", "UTC", to))
        .recurring(
            Recurring::<Account>::new("twice", "0 3 * * *", "UTC", to).missed(Missed::All { at_most: 0 }),
        )
        .recurring(Recurring::<Account>::new("twice", "0 3 * * *", "UTC", to))
        .start()
        .await;
    let faults = started.unwrap_err().to_string();
    for fault in [
        "recurring command `Night`: ",
        "`0 3 * *` has 4",
        "`Europe/Atlantis` is not known",
        "`0 0 30 2 *` names a day that never comes",
        "`at_most` must be 1 to 1000",
        "two recurring commands are named `twice`",
        "the aggregate `accounts`, which is not registered",
    ] {
        assert!(faults.contains(fault), "{fault} is not in {faults}");
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_repeats_nothing() {
    let engine = bank(nightly()).await;
    let clock = engine.clock().unwrap();
    clock.advance(3 * HOUR);
    assert_eq!(engine.settle().await.unwrap().decided().len(), 1);
    let midnight = Timestamp::from_micros(1_767_225_600_000_000);
    clock.set_wall(midnight);
    clock.advance(3 * HOUR);
    assert!(engine.settle().await.unwrap().steps.is_empty());
    clock.advance(DAY);
    assert_eq!(engine.settle().await.unwrap().decided().len(), 1);
}
