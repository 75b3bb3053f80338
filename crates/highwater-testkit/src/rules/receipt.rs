//! Receipts: who owns a message.

use crate::{
    Broken, Subject,
    broken::{Given, Kept, only, refused, same, some},
    sample::name,
};
use highwater_core::*;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn parking() -> Parking {
    Parking::new("a test", "none", "nobody")
}

/// Puts one message and takes it for a second.
async fn taken(s: &Subject, queue: &Name) -> Result<Delivery, Broken> {
    s.queue().put(queue, NewMessage::new("x")).await?;
    only("message", s.queue().get(queue, 1, SECOND).await?)
}

pub(super) async fn the_sender_can_take_a_message_back_before_anyone_took_it(s: Subject) -> Kept {
    let queue = name("work")?;
    let put = s.queue().put(&queue, NewMessage::new("x").delay(SECOND * 60)).await?;
    s.queue().delete(&some("a receipt", put.receipt)?).await?;
    s.pass(60);
    same("what is left", s.queue().peek(&queue, 32).await?, Vec::new())
}

pub(super) async fn the_sender_can_set_another_time_before_anyone_took_it(s: Subject) -> Kept {
    let queue = name("work")?;
    let put = s.queue().put(&queue, NewMessage::new("x").delay(SECOND * 60)).await?;
    let receipt = s.queue().update(&some("a receipt", put.receipt)?, Update::visible_in(SECOND * 5)).await?;
    s.pass(4);
    same("before its new time", s.queue().peek(&queue, 32).await?, Vec::new())?;
    s.pass(1);
    only("message", s.queue().peek(&queue, 32).await?)?;
    s.queue().delete(&receipt).await?;
    Ok(())
}

pub(super) async fn a_receipt_dies_when_the_message_is_taken_again(s: Subject) -> Kept {
    let queue = name("work")?;
    let put = s.queue().put(&queue, NewMessage::new("x")).await?;
    let mut stale = vec![some("the sender's receipt", put.receipt)?];
    for _ in 0..2 {
        stale.push(only("message", s.queue().get(&queue, 1, SECOND).await?)?.receipt);
        s.pass(1);
    }
    let owner = only("message", s.queue().get(&queue, 1, SECOND).await?)?;
    let id = owner.message.id;
    for receipt in stale {
        let update = s.queue().update(&receipt, Update::visible_in(SECOND)).await;
        refused!(update, ReceiptError::ReceiptMismatch { message } if message == id)?;
        let park = s.queue().park(&receipt, parking()).await;
        refused!(park, ReceiptError::ReceiptMismatch { message } if message == id)?;
        let delete = s.queue().delete(&receipt).await;
        refused!(delete, ReceiptError::ReceiptMismatch { message } if message == id)?;
    }
    s.queue().delete(&owner.receipt).await?;
    Ok(())
}

pub(super) async fn a_receipt_dies_when_the_message_is_updated(s: Subject) -> Kept {
    let queue = name("work")?;
    let first = taken(&s, &queue).await?.receipt;
    let second = s.queue().update(&first, Update::visible_in(SECOND * 30)).await?;
    let update = s.queue().update(&first, Update::visible_in(SECOND)).await;
    refused!(update, ReceiptError::ReceiptMismatch { .. })?;
    refused!(s.queue().park(&first, parking()).await, ReceiptError::ReceiptMismatch { .. })?;
    refused!(s.queue().delete(&first).await, ReceiptError::ReceiptMismatch { .. })?;
    s.queue().delete(&second).await?;
    Ok(())
}

pub(super) async fn a_lapsed_receipt_is_good_until_somebody_else_took_the_message(s: Subject) -> Kept {
    let queue = name("work")?;
    let lapsed = taken(&s, &queue).await?.receipt;
    s.pass(3_600);
    let renewed = s.queue().update(&lapsed, Update::visible_in(SECOND)).await?;
    s.pass(3_600);
    only("message", s.queue().peek(&queue, 32).await?)?;
    s.queue().delete(&renewed).await?;
    same("what is left", s.queue().peek(&queue, 32).await?, Vec::new())
}

pub(super) async fn a_gone_message_is_not_found(s: Subject) -> Kept {
    let queue = name("work")?;
    let Delivery { message, mut receipt, .. } = taken(&s, &queue).await?;
    s.queue().delete(&receipt).await?;
    let id = message.id;
    let update = s.queue().update(&receipt, Update::visible_in(SECOND)).await;
    refused!(update, ReceiptError::MessageNotFound { message } if message == id)?;
    let park = s.queue().park(&receipt, parking()).await;
    refused!(park, ReceiptError::MessageNotFound { message } if message == id)?;
    let delete = s.queue().delete(&receipt).await;
    refused!(delete, ReceiptError::MessageNotFound { message } if message == id)?;
    receipt.message = MessageId::random();
    refused!(s.queue().delete(&receipt).await, ReceiptError::MessageNotFound { .. })
}

pub(super) async fn an_update_sets_time_body_and_history_and_leaves_the_count(s: Subject) -> Kept {
    let queue = name("work")?;
    let before = taken(&s, &queue).await?;
    let update =
        Update::visible_in(SECOND * 20).body("y").note(AttemptKind::Waited, "the mail server is down");
    let at = s.now();
    s.queue().update(&before.receipt, update).await?;
    s.pass(19);
    same("before its time", s.queue().peek(&queue, 32).await?, Vec::new())?;
    s.pass(1);
    let after = only("message", s.queue().peek(&queue, 32).await?)?;
    same("the body", &after.body[..], b"y".as_slice())?;
    same("id, put at and count", (after.id, after.put_at, after.dequeue_count), {
        let Message { id, put_at, .. } = before.message;
        (id, put_at, 1)
    })?;
    let noted = Attempt::new(at, 1, AttemptKind::Waited, "the mail server is down");
    same("the history", after.history, [noted])?;
    let taken = only("message", s.take(&queue).await?)?;
    same("the body taken", &taken.message.body[..], b"y".as_slice())
}

pub(super) async fn a_message_can_be_released_at_once(s: Subject) -> Kept {
    let queue = name("work")?;
    let first = taken(&s, &queue).await?;
    s.queue().update(&first.receipt, Update::visible_in(Duration::ZERO)).await?;
    let second = only("message", s.take(&queue).await?)?;
    same("the body is kept", second.message.body, first.message.body)?;
    same("the count goes on", second.message.dequeue_count, 2).given()
}

pub(super) async fn a_history_keeps_its_newest_entries(s: Subject) -> Kept {
    let queue = name("work")?;
    let mut receipt = taken(&s, &queue).await?.receipt;
    for n in 0..Message::HISTORY + 5 {
        let update = Update::visible_in(Duration::ZERO).note(AttemptKind::Failed, n.to_string());
        receipt = s.queue().update(&receipt, update).await?;
    }
    let history = only("message", s.queue().peek(&queue, 1).await?)?.history;
    let notes: Vec<_> = history.into_iter().map(|attempt| attempt.note).collect();
    let expected: Vec<_> = (5..Message::HISTORY + 5).map(|n| n.to_string()).collect();
    same("the notes kept", notes, expected)
}
