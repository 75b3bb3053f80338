//! Parked messages.

use crate::{
    Broken, Subject,
    broken::{Given, Kept, ensure, only, refused, same, some},
    sample::name,
};
use highwater_core::*;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn parking() -> Parking {
    Parking::new("failed 10 times", "no route to host: '; drop table \u{1f600}", "worker 7")
}

/// Puts a message, takes it, notes a failure, takes it again and parks it; returns it as it was then.
async fn park(s: &Subject, queue: &Name, message: NewMessage) -> Result<Message, Broken> {
    s.queue().put(queue, message).await?;
    let first = only("message", s.queue().get(queue, 1, SECOND * 30).await?)?;
    let release = Update::visible_in(Duration::ZERO).note(AttemptKind::Failed, "no route to host");
    s.queue().update(&first.receipt, release).await?;
    let second = only("message", s.queue().get(queue, 1, SECOND * 30).await?)?;
    s.queue().park(&second.receipt, parking()).await?;
    Ok(second.message)
}

/// The same, for rules that need a parked message but are not about parking.
async fn parked(s: &Subject, queue: &Name) -> Result<MessageId, Broken> {
    let message = park(s, queue, NewMessage::new("x")).await?;
    let found = s.queue().parked_message(queue, message.id).await?;
    some("a parked message", found).given()?;
    Ok(message.id)
}

pub(super) async fn a_parked_message_stands_in_the_poison_queue_with_its_reason(s: Subject) -> Kept {
    let queue = name("work")?;
    let id = park(&s, &queue, NewMessage::new("x")).await?.id;
    let found = some("the parked message", s.queue().parked_message(&queue, id).await?)?;
    same("the reason", found.parking.clone(), parking())?;
    same("since", found.at, s.now())?;
    same("the list", s.queue().parked(&queue, None, 10).await?, [found])?;
    same("the count", s.queue().depth(&queue).await?.parked, 1)
}

pub(super) async fn a_parked_message_keeps_what_it_was(s: Subject) -> Kept {
    let queue = name("work")?;
    let before = park(&s, &queue, NewMessage::new("x")).await?;
    let found = s.queue().parked_message(&queue, before.id).await?;
    let found = some("a parked message", found).given()?.message;
    same("the body", found.body, before.body)?;
    same("put at", found.put_at, before.put_at)?;
    same("the dequeue count", found.dequeue_count, 2).given()?;
    ensure("the history it had", found.history.starts_with(&before.history), &found.history)?;
    same("the failure noted", found.history.first().map(|attempt| &*attempt.note), Some("no route to host"))
}

pub(super) async fn a_parked_message_has_left_its_queue(s: Subject) -> Kept {
    let queue = name("work")?;
    s.queue().put(&queue, NewMessage::new("x")).await?;
    let taken = only("message", s.queue().get(&queue, 1, SECOND).await?)?;
    s.queue().park(&taken.receipt, parking()).await?;
    s.pass(3_600);
    same("what can be taken", s.take(&queue).await?, Vec::new())?;
    let depth = s.queue().depth(&queue).await?;
    same("what is counted", (depth.visible, depth.in_flight, depth.delayed), (0, 0, 0))?;
    refused!(s.queue().delete(&taken.receipt).await, ReceiptError::MessageNotFound { .. })?;
    let again = s.queue().put(&queue, NewMessage::new("x").id(taken.message.id)).await?;
    same("a receipt for a second put of its id", again.receipt, None)
}

pub(super) async fn a_parked_message_never_expires(s: Subject) -> Kept {
    let queue = name("work")?;
    let message = NewMessage::new("x").time_to_live(SECOND * 60);
    let id = park(&s, &queue, message).await?.id;
    some("a parked message", s.queue().parked_message(&queue, id).await?).given()?;
    s.pass(20 * 365 * 86_400);
    some("the message after twenty years", s.queue().parked_message(&queue, id).await?)?;
    same("the count", s.queue().depth(&queue).await?.parked, 1)
}

pub(super) async fn a_message_of_the_greatest_size_can_be_parked(s: Subject) -> Kept {
    let queue = name("work")?;
    let small = parked(&s, &queue).await?;
    s.queue().discard(&queue, small).await?;
    let body = vec![b'x'; s.queue().limits().message_bytes];
    let before = park(&s, &queue, NewMessage::new(body)).await?;
    let found = some("the parked message", s.queue().parked_message(&queue, before.id).await?)?;
    same("the size of its body", found.message.body.len(), before.body.len())
}

pub(super) async fn a_replayed_message_starts_afresh_with_its_history(s: Subject) -> Kept {
    let queue = name("work")?;
    let was = park(&s, &queue, NewMessage::new("x")).await?;
    some("a parked message", s.queue().parked_message(&queue, was.id).await?).given()?;
    let expected = Parked::new(was.clone(), parking(), s.now());
    s.pass(3_600);
    let expected = expected.replayed(s.now());
    s.queue().replay(&queue, was.id).await?;
    let found = only("message", s.queue().peek(&queue, 32).await?)?;
    same("id and body", (found.id, &found.body), (was.id, &was.body))?;
    same("the dequeue count", found.dequeue_count, 0)?;
    let (history, kept) = (&found.history, &was.history);
    ensure("the history it had", history.starts_with(kept), (history, kept))?;
    let last = |message: Message| message.history.into_iter().last().map(|it| (it.at, it.kind, it.note));
    same("an entry that says why it was parked", last(found), last(expected))?;
    let taken = only("message", s.take(&queue).await?)?;
    s.queue().delete(&taken.receipt).await?;
    Ok(())
}

pub(super) async fn long_notes_and_reasons_are_cut(s: Subject) -> Kept {
    let (queue, long) = (name("work")?, "\u{1f600}".repeat(100_000));
    s.queue().put(&queue, NewMessage::new("x")).await?;
    let first = only("message", s.queue().get(&queue, 1, SECOND).await?)?;
    let release = Update::visible_in(Duration::ZERO).note(AttemptKind::Failed, long.clone());
    s.queue().update(&first.receipt, release).await?;
    let second = only("message", s.queue().get(&queue, 1, SECOND).await?)?;
    let notes: Vec<_> = second.message.history.iter().map(|attempt| attempt.note.len()).collect();
    same("the bytes of the note", notes, [Attempt::NOTE])?;
    let mut endless = parking();
    (endless.reason, endless.error, endless.by) = (long.clone(), long.clone(), long);
    s.queue().park(&second.receipt, endless).await?;
    let parked = s.queue().parked_message(&queue, first.message.id).await?;
    let parked = some("the parked message", parked).given()?;
    let Parking { reason, error, by, .. } = &parked.parking;
    same("the bytes of the texts", [reason.len(), error.len(), by.len()], [Parking::TEXT; 3])
}

pub(super) async fn a_message_is_replayed_once(s: Subject) -> Kept {
    let queue = name("work")?;
    let id = parked(&s, &queue).await?;
    s.queue().replay(&queue, id).await?;
    let again = s.queue().replay(&queue, id).await;
    refused!(again, ReplayError::NotParked { message, .. } if message == id)?;
    same("the poison queue", s.queue().parked(&queue, None, 10).await?, Vec::new())?;
    same("what can be taken", s.take(&queue).await?.len(), 1)
}

pub(super) async fn a_discarded_message_is_gone_for_good(s: Subject) -> Kept {
    let queue = name("work")?;
    let id = parked(&s, &queue).await?;
    s.queue().discard(&queue, id).await?;
    same("the poison queue", s.queue().parked(&queue, None, 10).await?, Vec::new())?;
    same("the queue", s.take(&queue).await?, Vec::new())?;
    let unknown = MessageId::random();
    for id in [id, unknown] {
        let discard = s.queue().discard(&queue, id).await;
        refused!(discard, ReplayError::NotParked { message, .. } if message == id)?;
        let replay = s.queue().replay(&queue, id).await;
        refused!(replay, ReplayError::NotParked { message, .. } if message == id)?;
    }
    Ok(())
}

pub(super) async fn a_discarded_message_may_be_put_again(s: Subject) -> Kept {
    let queue = name("work")?;
    let id = parked(&s, &queue).await?;
    s.queue().discard(&queue, id).await?;
    s.queue().put(&queue, NewMessage::new("again").id(id)).await?;
    let taken = s.take(&queue).await?;
    same(
        "the ids in the queue",
        taken.iter().map(|delivery| delivery.message.id).collect::<Vec<_>>(),
        vec![id],
    )
}

pub(super) async fn clearing_a_queue_leaves_its_poison_alone(s: Subject) -> Kept {
    let queue = name("work")?;
    let id = parked(&s, &queue).await?;
    s.queue().put(&queue, NewMessage::new("x")).await?;
    s.queue().clear(&queue).await?;
    some("the parked message", s.queue().parked_message(&queue, id).await?)?;
    Ok(())
}

pub(super) async fn parked_messages_are_read_in_pages_by_id(s: Subject) -> Kept {
    let queue = name("work")?;
    let (mut ids, mut rng) = (Vec::new(), fastrand::Rng::with_seed(s.seed));
    for _ in 0..7 {
        // Random ids: the order of parking is not the order of ids.
        let message = NewMessage::new("x").id(MessageId(uuid::Uuid::from_u128(rng.u128(..))));
        let id = park(&s, &queue, message).await?.id;
        some("a parked message", s.queue().parked_message(&queue, id).await?).given()?;
        ids.push(id);
    }
    parked(&s, &name("other")?).await?;
    ids.sort();
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = s.queue().parked(&queue, after, 3).await?;
        ensure("at most three", page.len() <= 3, page.len())?;
        found.extend(page.iter().map(|parked| parked.message.id));
        if page.len() < 3 || found.len() > ids.len() {
            break;
        }
        after = found.last().copied();
    }
    same("all pages", found, ids)
}

pub(super) async fn messages_and_their_state_survive_opening_again(s: Subject) -> Kept {
    let queue = name("work")?;
    let id = parked(&s, &queue).await?;
    let waiting = MessageId::random();
    s.queue().put(&queue, NewMessage::new("y").id(waiting)).await?;
    let taken = only("message", s.queue().get(&queue, 1, SECOND).await?)?;
    let s = s.reopen().await?;
    some("the parked message", s.queue().parked_message(&queue, id).await?)?;
    s.pass(1);
    let found = only("message", s.queue().peek(&queue, 32).await?)?;
    same("its id and count", (found.id, found.dequeue_count), (waiting, 1))?;
    s.queue().delete(&taken.receipt).await?;
    let again = s.queue().put(&queue, NewMessage::new("y").id(waiting)).await?;
    same("a receipt for a second put of its id", again.receipt, None)
}
