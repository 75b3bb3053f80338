//! What a day decides.

use crate::site::{DAY, Site, decide, reserve};
use booking::{Capacity, CapacityCommand, CapacityEvent};
use highwater::{Aggregate, CommandId};

fn after(events: &[CapacityEvent]) -> Capacity {
    let mut day = Capacity::default();
    events.iter().for_each(|event| day.apply(event));
    day
}

fn names(events: &[CapacityEvent]) -> Vec<String> {
    let name = |event: &CapacityEvent| format!("{event:?}").split([' ', '{']).next().unwrap().to_owned();
    events.iter().map(name).collect()
}

#[test]
fn a_party_is_seated_and_the_last_seats_close_the_day() {
    let (verdict, first) = decide(&Capacity::default(), DAY, 10, reserve(4));
    assert_eq!((verdict, names(&first)), (Ok(()), vec!["Reserved".to_owned()]));
    assert!(matches!(first[0], CapacityEvent::Reserved { quantity: 4, remaining: 6, .. }));
    let (verdict, last) = decide(&after(&first), DAY, 10, reserve(6));
    assert_eq!((verdict, names(&last)), (Ok(()), vec!["Reserved".to_owned(), "SoldOut".into()]));
}

#[test]
fn every_refusal_says_why_and_leaves_somebody_to_be_told() {
    let (_, half) = decide(&Capacity::default(), DAY, 10, reserve(9));
    let half = after(&half);
    let (_, full) = decide(&Capacity::default(), DAY, 10, reserve(10));
    let full = after(&full);
    let empty = Capacity::default();
    for (day, date, quantity, why) in [
        (&full, DAY, 1, "no seats are left on Thursday 24 December 2026"),
        (&half, DAY, 2, "only 1 seat is left on Thursday 24 December 2026"),
        (&empty, "2026-12-23", 1, "Wednesday 23 December 2026 has passed"),
        (&empty, DAY, 0, "a booking is for 1 to 10 people, not for 0"),
        (&empty, DAY, 11, "a booking is for 1 to 10 people, not for 11"),
        (&empty, DAY, u32::MAX, "a booking is for 1 to 10 people, not for 4294967295"),
    ] {
        let (verdict, events) = decide(day, date, 10, reserve(quantity));
        assert_eq!(verdict, Err(why.to_owned()));
        assert!(matches!(&*events, [CapacityEvent::Declined { reason, .. }] if reason == why), "{events:?}");
    }
}

#[test]
fn where_nobody_can_be_told_nothing_is_recorded_but_the_verdict() {
    let ask = |name: &str, email: &str| CapacityCommand::Reserve {
        name: name.into(),
        email: email.into(),
        quantity: 1,
    };
    let empty = Capacity::default();
    for (date, command) in [
        (DAY, ask("", "ada@example.org")),
        (DAY, ask("Ada\r\nBcc: eve@example.org", "ada@example.org")),
        (DAY, ask("Ada", "ada")),
        (DAY, ask("Ada", "ada@example.org\r\nBcc: eve@example.org")),
        ("2026-02-30", reserve(1)),
        ("'; drop table days; --", reserve(1)),
        (DAY, CapacityCommand::Cancel { reservation: CommandId::random() }),
    ] {
        let (verdict, events) = decide(&empty, date, 10, command);
        assert!(verdict.is_err() && events.is_empty(), "{verdict:?} {events:?}");
    }
}

#[test]
fn a_restaurant_that_gets_other_seats_opens_and_closes_its_days_at_the_next_decision() {
    let (_, full) = decide(&Capacity::default(), DAY, 10, reserve(10));
    let full = after(&full);
    assert_eq!(names(&decide(&full, DAY, 20, reserve(1)).1), ["Reserved", "Reopened"]);
    assert_eq!(names(&decide(&full, DAY, 20, reserve(11)).1), ["Declined", "Reopened"]);
    assert_eq!(
        names(&decide(&full, DAY, 20, reserve(10)).1),
        ["Reserved"],
        "still sold out, in another size"
    );
    let (_, some) = decide(&Capacity::default(), DAY, 10, reserve(6));
    assert_eq!(names(&decide(&after(&some), DAY, 5, reserve(1)).1), ["Declined", "SoldOut"]);
}

#[tokio::test]
async fn a_day_has_exactly_one_sold_out_per_sold_out_period() {
    let site = Site::new().await;
    let (first, second) = (site.book(DAY, 6).await, site.book(DAY, 4).await);
    site.settle().await;
    for _ in 0..3 {
        site.book(DAY, 1).await;
    }
    site.settle().await;
    assert_eq!((site.count("SoldOut").await, site.count("Reopened").await), (1, 0));
    site.cancel(first).await;
    site.cancel(second).await;
    site.settle().await;
    assert_eq!((site.count("SoldOut").await, site.count("Reopened").await), (1, 1));
    assert_eq!(site.disabled_days(2026, 12).await, [""; 0]);
    site.book(DAY, 10).await;
    site.book(DAY, 10).await;
    site.settle().await;
    assert_eq!((site.count("SoldOut").await, site.count("Reopened").await), (2, 1));
    assert_eq!(site.disabled_days(2026, 12).await, ["2026.12.24"]);
}

#[tokio::test]
async fn a_day_has_one_address_so_that_its_seats_are_not_sold_twice() {
    let site = Site::new().await;
    for (key, id) in [("elsewhere", DAY), (DAY, "elsewhere"), (DAY, "2026-12-25")] {
        let outcome = site.engine.execute::<Capacity>((key, id), reserve(1)).await.unwrap();
        assert!(matches!(outcome, highwater::Outcome::Rejected { .. }), "{key}/{id}: {outcome:?}");
    }
    assert!(site.events().await.is_empty());
}

/// Invariant 7: a command decides once.
#[tokio::test]
async fn a_rejection_stays_one_when_seats_are_cancelled_and_the_command_is_delivered_again() {
    let site = Site::new().await;
    let first = site.book(DAY, 10).await;
    site.settle().await;
    let loser = site.book(DAY, 2).await;
    let queue = highwater::Name::new("commands").unwrap();
    let waiting = site.engine.backend().queue.peek(&queue, 32).await.unwrap();
    site.settle().await;
    assert_eq!(site.status(loser).await.0, "rejected");
    site.cancel(first).await;
    site.settle().await;
    let (events, letters) = (site.events().await, site.letters());
    let again = highwater_core::NewMessage::new(waiting[0].body.clone());
    site.engine.backend().queue.put(&queue, again).await.unwrap();
    let settled = site.engine.settle().await.unwrap();
    assert_eq!(settled.decided(), ["Reserve"], "it was delivered again");
    let (status, reason) = site.status(loser).await;
    assert_eq!(status, "rejected");
    assert_eq!(reason.unwrap(), "no seats are left on Thursday 24 December 2026");
    assert_eq!((site.events().await, site.letters()), (events, letters), "and changed nothing");
}

/// Invariant 1: one write.
#[tokio::test]
async fn a_reservation_is_an_item_of_its_own_in_the_commit_that_took_the_seats() {
    let site = Site::new().await;
    let id = site.book(DAY, 3).await;
    site.settle().await;
    let changes = site.log(&[]).await;
    let places: Vec<_> =
        changes.iter().map(|change| (change.key.to_string(), change.ordinal, change.count)).collect();
    let reservation = format!("reservations/{DAY}/{id}");
    assert_eq!(places, [(format!("capacity/{DAY}/{DAY}"), 0, 2), (reservation.clone(), 1, 2)]);
    site.cancel(id).await;
    site.settle().await;
    let last = site.log(&["reservations"]).await.pop().unwrap();
    assert_eq!((last.key.to_string(), last.op), (reservation, highwater_core::ChangeOp::DELETE));
}
