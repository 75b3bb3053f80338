//! Messages: put, taken, looked at, counted.

use crate::{
    Broken, Subject,
    broken::{Kept, ensure, only, refused, same, some},
    sample::{json, name},
};
use bytes::Bytes;
use highwater_core::*;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const MICRO: Duration = Duration::from_micros(1);

fn bodies<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<String> {
    messages.into_iter().map(|message| String::from_utf8_lossy(&message.body).into_owned()).collect()
}

/// The bodies of everything visible, as text, in order.
async fn visible(s: &Subject, queue: &Name) -> Result<Vec<String>, Broken> {
    Ok(bodies(&s.queue().peek(queue, 32).await?))
}

pub(super) async fn a_message_can_be_taken_at_once(s: Subject) -> Kept {
    let (queue, id) = (name("work")?, MessageId::random());
    let every_byte: Bytes = (0..=255_u8).collect::<Vec<_>>().into();
    let put = s.queue().put(&queue, NewMessage::new(every_byte.clone()).id(id)).await?;
    ensure("a receipt for the sender", put.receipt.is_some(), &put)?;
    same("visible at", put.visible_at, s.now())?;
    let message = only("message", s.take(&queue).await?)?.message;
    same("id", message.id, id)?;
    same("body", message.body, every_byte)?;
    same("put at", message.put_at, s.now())?;
    same("history", message.history, Vec::new())
}

pub(super) async fn a_delayed_message_waits_until_its_time(s: Subject) -> Kept {
    let queue = name("work")?;
    let put = s.queue().put(&queue, NewMessage::new("x").delay(SECOND * 10)).await?;
    same("visible at", put.visible_at, s.now().plus(SECOND * 10))?;
    s.clock.advance(SECOND * 10 - MICRO);
    same("before its time", visible(&s, &queue).await?, [""; 0])?;
    same("taken before its time", s.take(&queue).await?, Vec::new())?;
    s.clock.advance(MICRO);
    same("at its time", visible(&s, &queue).await?, ["x"])?;
    only("message", s.take(&queue).await?)?;
    Ok(())
}

pub(super) async fn delays_and_lives_out_of_range_are_refused(s: Subject) -> Kept {
    let (queue, longest) = (name("work")?, s.queue().limits().longest_delay);
    let put = async |message| s.queue().put(&queue, message).await;
    refused!(put(NewMessage::new("x").delay(longest + MICRO)).await, PutError::OutOfRange { .. })?;
    refused!(put(NewMessage::new("x").time_to_live(SECOND - MICRO)).await, PutError::OutOfRange { .. })?;
    refused!(put(NewMessage::new("x").time_to_live(Duration::ZERO)).await, PutError::OutOfRange { .. })?;
    same("visible after three refusals", s.queue().depth(&queue).await?.delayed, 0)?;
    put(NewMessage::new("x").delay(longest)).await?;
    put(NewMessage::new("x").time_to_live(SECOND)).await?;
    Ok(())
}

pub(super) async fn a_second_put_of_an_id_is_the_same_message(s: Subject) -> Kept {
    let (queue, id) = (name("work")?, MessageId::random());
    s.queue().put(&queue, NewMessage::new("first").id(id)).await?;
    let again = s.queue().put(&queue, NewMessage::new("second").id(id).delay(SECOND * 9)).await?;
    same("a receipt for the second put", again.receipt, None)?;
    same("what is visible", visible(&s, &queue).await?, ["first"])?;
    let other = name("other")?;
    let elsewhere = s.queue().put(&other, NewMessage::new("third").id(id)).await?;
    ensure("a message of its own in another queue", elsewhere.receipt.is_some(), elsewhere)?;
    same("what is visible there", visible(&s, &other).await?, ["third"])
}

pub(super) async fn an_id_is_remembered_after_its_message_is_gone(s: Subject) -> Kept {
    let (queue, id) = (name("work")?, MessageId::random());
    s.queue().put(&queue, NewMessage::new("x").id(id)).await?;
    let taken = only("message", s.take(&queue).await?)?;
    s.queue().delete(&taken.receipt).await?;
    s.pass(3_600);
    let again = s.queue().put(&queue, NewMessage::new("x").id(id)).await?;
    same("a receipt for the second put", again.receipt, None)?;
    same("what is visible", visible(&s, &queue).await?, [""; 0])
}

pub(super) async fn a_message_disappears_when_its_life_is_over(s: Subject) -> Kept {
    let queue = name("work")?;
    s.queue().put(&queue, NewMessage::new("short").time_to_live(SECOND * 10)).await?;
    s.queue().put(&queue, NewMessage::new("long")).await?;
    s.clock.advance(SECOND * 10 - MICRO);
    same("before", visible(&s, &queue).await?, ["short", "long"])?;
    s.clock.advance(MICRO);
    same("after", visible(&s, &queue).await?, ["long"])?;
    same("counted", s.queue().depth(&queue).await?.visible, 1)?;
    same("taken", bodies(s.take(&queue).await?.iter().map(|taken| &taken.message)), ["long"])?;
    s.pass(10 * 365 * 86_400);
    same("after ten years", visible(&s, &queue).await?, ["long"])
}

pub(super) async fn a_message_that_was_taken_in_time_does_not_disappear(s: Subject) -> Kept {
    let queue = name("work")?;
    s.queue().put(&queue, NewMessage::new("x").time_to_live(SECOND * 10)).await?;
    let taken = only("message", s.take(&queue).await?)?;
    s.pass(20);
    let renewed = s.queue().update(&taken.receipt, Update::visible_in(SECOND * 30)).await?;
    s.pass(30);
    same("visible again", visible(&s, &queue).await?, ["x"])?;
    s.queue().delete(&renewed).await?;
    Ok(())
}

pub(super) async fn a_get_takes_as_many_as_asked_for(s: Subject) -> Kept {
    let (queue, most) = (name("work")?, s.queue().limits().messages_per_get);
    for n in 0..=most {
        s.queue().put(&queue, NewMessage::new(n.to_string())).await?;
    }
    let over = most + 1;
    refused!(s.queue().get(&queue, 0, SECOND).await, GetError::OutOfRange { .. })?;
    refused!(s.queue().get(&queue, over, SECOND).await, GetError::OutOfRange { .. })?;
    refused!(s.queue().peek(&queue, 0).await, GetError::OutOfRange { .. })?;
    refused!(s.queue().peek(&queue, over).await, GetError::OutOfRange { .. })?;
    same("how many one peek shows", s.queue().peek(&queue, most).await?.len(), most)?;
    same("how many one get takes", s.queue().get(&queue, most, SECOND).await?.len(), most)?;
    same("how many are left", s.queue().get(&queue, most, SECOND).await?.len(), 1)
}

pub(super) async fn a_visibility_out_of_range_is_refused(s: Subject) -> Kept {
    let (queue, longest) = (name("work")?, s.queue().limits().longest_delay);
    s.queue().put(&queue, NewMessage::new("x")).await?;
    for span in [Duration::ZERO, SECOND - MICRO, longest + MICRO] {
        refused!(s.queue().get(&queue, 1, span).await, GetError::OutOfRange { .. })?;
    }
    let taken = only("message", s.queue().get(&queue, 1, longest).await?)?;
    same("visible again at", taken.message.visible_at, s.now().plus(longest))?;
    let result = s.queue().update(&taken.receipt, Update::visible_in(longest + MICRO)).await;
    refused!(result, ReceiptError::OutOfRange { .. })?;
    s.queue().update(&taken.receipt, Update::visible_in(longest)).await?;
    Ok(())
}

pub(super) async fn a_taken_message_is_invisible_for_exactly_its_visibility(s: Subject) -> Kept {
    let queue = name("work")?;
    s.queue().put(&queue, NewMessage::new("x")).await?;
    only("message", s.queue().get(&queue, 1, SECOND * 5).await?)?;
    s.clock.advance(SECOND * 5 - MICRO);
    same("what is visible before", visible(&s, &queue).await?, [""; 0])?;
    same("what can be taken before", s.take(&queue).await?, Vec::new())?;
    s.clock.advance(MICRO);
    same("what is visible then", visible(&s, &queue).await?, ["x"])?;
    only("message", s.take(&queue).await?)?;
    Ok(())
}

pub(super) async fn every_get_counts_and_gives_its_own_receipt(s: Subject) -> Kept {
    let queue = name("work")?;
    s.queue().put(&queue, NewMessage::new("x")).await?;
    let mut receipts = Vec::new();
    for expected in 1..=4 {
        let taken = only("message", s.queue().get(&queue, 1, SECOND).await?)?;
        same("the dequeue count", taken.message.dequeue_count, expected)?;
        ensure("a receipt not given before", !receipts.contains(&taken.receipt), &taken.receipt)?;
        receipts.push(taken.receipt);
        s.pass(1);
        let peeked = only("message", s.queue().peek(&queue, 1).await?)?;
        same("the count looked at", peeked.dequeue_count, expected)?;
    }
    Ok(())
}

pub(super) async fn looking_at_a_message_changes_nothing(s: Subject) -> Kept {
    let queue = name("work")?;
    s.queue().put(&queue, NewMessage::new("x")).await?;
    s.queue().put(&queue, NewMessage::new("later").delay(SECOND)).await?;
    let first = s.queue().peek(&queue, 32).await?;
    same("what is visible", bodies(&first), ["x"])?;
    same("the same again", s.queue().peek(&queue, 32).await?, first.clone())?;
    same("its count", first.first().map(|message| message.dequeue_count), Some(0))
}

pub(super) async fn messages_come_by_the_time_they_became_visible_then_as_put(s: Subject) -> Kept {
    let queue = name("work")?;
    for (body, delay) in [("d", 2), ("b", 1), ("e", 2), ("a", 0), ("c", 1)] {
        s.queue().put(&queue, NewMessage::new(body).delay(SECOND * delay)).await?;
    }
    s.pass(1);
    same("after a second", visible(&s, &queue).await?, ["a", "b", "c"])?;
    s.pass(1);
    same("after two", visible(&s, &queue).await?, ["a", "b", "c", "d", "e"])?;
    let taken = s.queue().get(&queue, 3, SECOND * 30).await?;
    same("taken", bodies(taken.iter().map(|taken| &taken.message)), ["a", "b", "c"])?;
    let b = some("a second message", taken.get(1))?;
    s.pass(1);
    s.queue().update(&b.receipt, Update::visible_in(Duration::ZERO)).await?;
    same("after b was released", visible(&s, &queue).await?, ["d", "e", "b"])
}

pub(super) async fn the_depth_counts_visible_in_flight_delayed_and_parked(s: Subject) -> Kept {
    let queue = name("work")?;
    same("an untouched queue", s.queue().depth(&queue).await?, Depth::default())?;
    let start = s.now();
    for n in 0..6 {
        let delay = if n < 3 { Duration::ZERO } else { SECOND * 60 };
        s.queue().put(&queue, NewMessage::new(n.to_string()).delay(delay)).await?;
    }
    s.pass(1);
    s.queue().put(&queue, NewMessage::new("6")).await?;
    only("message", s.queue().get(&queue, 1, SECOND * 30).await?)?;
    let mut expected = Depth::default();
    (expected.visible, expected.in_flight, expected.delayed) = (3, 1, 3);
    expected.oldest_visible = Some(start);
    same("one taken, three delayed", s.queue().depth(&queue).await?, expected)?;
    s.pass(30);
    (expected.visible, expected.in_flight) = (4, 0);
    same("once the time-out has lapsed", s.queue().depth(&queue).await?, expected)?;
    s.pass(30);
    (expected.visible, expected.delayed) = (7, 0);
    same("once the delay is over", s.queue().depth(&queue).await?, expected)?;
    same("another queue", s.queue().depth(&name("other")?).await?, Depth::default())
}

pub(super) async fn clearing_takes_every_message_visible_or_not(s: Subject) -> Kept {
    let (queue, other) = (name("work")?, name("other")?);
    s.queue().put(&other, NewMessage::new("x")).await?;
    for delay in [0, 0, 60] {
        s.queue().put(&queue, NewMessage::new("x").delay(SECOND * delay)).await?;
    }
    let taken = only("message", s.queue().get(&queue, 1, SECOND * 30).await?)?;
    same("how many were removed", s.queue().clear(&queue).await?, 3)?;
    s.pass(100);
    same("what is left", s.queue().depth(&queue).await?, Depth::default())?;
    refused!(s.queue().delete(&taken.receipt).await, ReceiptError::MessageNotFound { .. })?;
    same("the other queue", visible(&s, &other).await?, ["x"])
}

pub(super) async fn a_cell_is_written_with_its_message(s: Subject) -> Kept {
    let (queue, key) = (name("work")?, CellKey::new(name("pending")?, "x"));
    s.queue().put(&queue, NewMessage::new("x").cell(key.clone(), json(1)?)).await?;
    let found = some("the cell", s.cells().read(&key).await?)?;
    same("its value", found.value, json(1)?)?;
    same("the message", visible(&s, &queue).await?, ["x"])
}

pub(super) async fn a_cell_in_the_way_keeps_the_message_out(s: Subject) -> Kept {
    let (queue, key) = (name("work")?, CellKey::new(name("pending")?, "x"));
    s.cells().write(CellWrite::new(key.clone(), Expect::Absent, json(1)?)).await?;
    let there = some("the cell", s.cells().read(&key).await?)?;
    let result = s.queue().put(&queue, NewMessage::new("x").cell(key.clone(), json(2)?)).await;
    refused!(result, PutError::CellConflict { found } if *found == there)?;
    same("the messages", visible(&s, &queue).await?, [""; 0])?;
    same("the cell afterwards", s.cells().read(&key).await?, Some(there))
}

pub(super) async fn a_message_over_the_depth_limit_is_refused(s: Subject) -> Kept {
    let (queue, other) = (name("work")?, name("other")?);
    let put = async |message: NewMessage| s.queue().put(&queue, message.depth_limit(4)).await;
    let (id, key) = (MessageId::random(), CellKey::new(name("pending")?, "x"));
    refused!(
        s.queue().put(&other, NewMessage::new("x").depth_limit(0)).await,
        PutError::Full { limit: 0, .. }
    )?;
    put(NewMessage::new("first").id(id)).await?;
    put(NewMessage::new("second")).await?;
    put(NewMessage::new("delayed").delay(SECOND * 60)).await?;
    put(NewMessage::new("short").delay(SECOND * 60).time_to_live(SECOND * 10)).await?;
    let taken = only("message", s.queue().get(&queue, 1, SECOND * 30).await?)?;
    let full = put(NewMessage::new("x").cell(key.clone(), json(1)?)).await;
    refused!(full, PutError::Full { queue, limit: 4 } if queue.as_str() == "work")?;
    same("the cell of the refused message", s.cells().read(&key).await?, None)?;
    same("the same id again", put(NewMessage::new("first").id(id)).await?.receipt, None)?;
    s.queue().put(&other, NewMessage::new("x").depth_limit(4)).await?;
    s.queue().delete(&taken.receipt).await?;
    put(NewMessage::new("after a deletion")).await?;
    s.pass(10);
    put(NewMessage::new("after an expiry")).await?;
    refused!(put(NewMessage::new("x")).await, PutError::Full { .. })?;
    let taken = only("message", s.queue().get(&queue, 1, SECOND * 30).await?)?;
    s.queue().park(&taken.receipt, Parking::new("reason", "error", "rule")).await?;
    put(NewMessage::new("after a parking")).await?;
    refused!(put(NewMessage::new("x")).await, PutError::Full { .. })?;
    s.queue().put(&queue, NewMessage::new("without a limit")).await?;
    s.queue().clear(&queue).await?;
    put(NewMessage::new("after clearing")).await?;
    Ok(())
}
