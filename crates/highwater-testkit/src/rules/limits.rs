//! What is too large, and what is just small enough.

use crate::{
    Broken, Subject,
    broken::{Given, Kept, ensure, refused, same, some},
    sample::{event, json_of_size, key, name, pk, put, rejected, write},
};
use bytes::Bytes;
use highwater_core::*;

/// A put of a body of this many bytes to the item of this number.
fn put_of(number: usize, bytes: usize) -> Result<Write, Broken> {
    let json = json_of_size(bytes)?;
    Ok(write(&key("days", "p", &number.to_string())?, Op::Put(Body::new(json))))
}

async fn commit(s: &Subject, writes: Vec<Write>) -> Result<Committed, CommitError> {
    let key = PartitionKey::new("p").map_err(|e| EngineError::new(FailureKind::Other, e.to_string()))?;
    s.store().commit(Batch::new(key, writes)).await
}

/// Checks that a refused commit named the limit, and left nothing behind.
async fn too_large(s: &Subject, writes: Vec<Write>, over: usize, allowed: usize) -> Kept {
    let head = s.store().head().await?;
    let result = commit(s, writes).await;
    refused!(result, CommitError::TooLarge { size, limit, .. } if size == over && limit == allowed)?;
    same("the head after a refused commit", s.store().head().await?, head)
}

pub(super) async fn a_batch_has_as_many_writes_as_allowed_and_no_more(s: Subject) -> Kept {
    let most = s.store().limits().writes_per_batch;
    let writes = |count| (0..count).map(|n| put_of(n, 8)).collect::<Result<Vec<_>, _>>();
    same("the ETags of the largest batch", commit(&s, writes(most)?).await?.etags.len(), most)?;
    too_large(&s, writes(most + 1)?, most + 1, most).await
}

pub(super) async fn a_change_is_as_large_as_allowed_and_no_larger(s: Subject) -> Kept {
    let most = s.store().limits().change_bytes;
    commit(&s, vec![put_of(0, most)?]).await?;
    too_large(&s, vec![put_of(1, most + 1)?], most + 1, most).await?;
    let explained = |bytes| -> Result<Vec<Write>, Broken> {
        let data = json_of_size(bytes)?;
        Ok(vec![put_of(2, 100)?.events(vec![Event::new("E", 1, data)])])
    };
    commit(&s, explained(most - 101)?).await?;
    too_large(&s, explained(most - 100)?, most + 1, most).await?;
    let found = s.item(&key("days", "p", "0")?).await?.body.map(|(_, body)| body.json.as_bytes().len());
    same("the bytes of the largest body", found, Some(most))
}

pub(super) async fn a_batch_is_as_large_as_allowed_and_no_larger(s: Subject) -> Kept {
    let Limits { change_bytes, batch_bytes, .. } = *s.store().limits();
    let sizes = |total: usize| {
        let full = vec![change_bytes; total / change_bytes];
        let rest = total % change_bytes;
        full.into_iter().chain((rest > 0).then_some(rest))
    };
    let writes =
        |total| sizes(total).enumerate().map(|(n, bytes)| put_of(n, bytes)).collect::<Result<Vec<_>, _>>();
    commit(&s, writes(batch_bytes)?).await?;
    too_large(&s, writes(batch_bytes + 1)?, batch_bytes + 1, batch_bytes).await
}

pub(super) async fn a_change_has_as_many_events_as_allowed_and_no_more(s: Subject) -> Kept {
    let most = s.store().limits().events_per_change;
    let item = key("days", "p", "a")?;
    let explained = |count: usize| -> Result<Vec<Write>, Broken> {
        let events = (0..).take(count).map(|n| event("E", n)).collect::<Result<_, _>>()?;
        Ok(vec![put(&item, 1)?.events(events)])
    };
    commit(&s, explained(most)?).await?;
    let found = s.store().history(&item, None, 1).await?;
    same("the events", found.first().map(|change| change.events.len()), Some(most))?;
    too_large(&s, explained(most + 1)?, most + 1, most).await
}

pub(super) async fn an_events_name_is_as_long_as_allowed_and_no_longer(s: Subject) -> Kept {
    let item = key("days", "p", "a")?;
    let named = |bytes: usize| -> Result<Vec<Write>, Broken> {
        Ok(vec![put(&item, 1)?.events(vec![event(&"E".repeat(bytes), 1)?])])
    };
    commit(&s, named(Event::NAME)?).await?;
    let found = s.store().history(&item, None, 1).await?.into_iter().next();
    let found = found.and_then(|change| change.events.into_iter().next()).map(|event| event.name.len());
    same("the bytes of the longest name", found, Some(Event::NAME))?;
    too_large(&s, named(Event::NAME + 1)?, Event::NAME + 1, Event::NAME).await
}

pub(super) async fn the_reason_of_a_rejection_counts_in_the_first_change(s: Subject) -> Kept {
    let (most, item) = (s.store().limits().change_bytes, key("days", "p", "a")?);
    let decide = async |id, bytes: usize| {
        let mark = rejected(id, "x", &"r".repeat(bytes));
        let batch = Batch::new(item.partition_key.clone(), vec![write(&item, Op::Keep)]);
        s.store().commit(batch.command(mark)).await
    };
    let (full, over) = (CommandId::random(), CommandId::random());
    decide(full, most).await?;
    let found = some("a decision", s.store().decided(&item.partition_key, full).await?).given()?;
    same("the bytes of the longest reason", found.mark.size(), most)?;
    let result = decide(over, most + 1).await;
    refused!(result, CommitError::TooLarge { size, limit, .. } if size == most + 1 && limit == most)?;
    same("the decision refused", s.store().decided(&item.partition_key, over).await?, None)
}

pub(super) async fn a_batch_without_a_write_is_refused(s: Subject) -> Kept {
    let empty = Batch::new(pk("p")?, Vec::new());
    refused!(s.store().commit(empty).await, CommitError::Empty)
}

pub(super) async fn a_batch_writes_each_item_once(s: Subject) -> Kept {
    let (a, b) = (key("days", "p", "a")?, key("notes", "p", "a")?);
    commit(&s, vec![put(&a, 1)?, put(&b, 1)?]).await?;
    let result = commit(&s, vec![put(&b, 2)?, put(&a, 2)?, write(&b, Op::Keep)]).await;
    refused!(result, CommitError::ItemTwice { key } if key == b)?;
    same("the version after a refused batch", s.item(&a).await?.etag.version.get(), 1)
}

pub(super) async fn a_message_is_as_large_as_allowed_and_no_larger(s: Subject) -> Kept {
    let most = s.queue().limits().message_bytes;
    let (queue, full) = (name("work")?, Bytes::from(vec![0xff; most]));
    let over = Bytes::from(vec![0xff; most + 1]);
    s.queue().put(&queue, NewMessage::new(full.clone())).await?;
    let result = s.queue().put(&queue, NewMessage::new(over.clone())).await;
    refused!(result, PutError::TooLarge { size, limit, .. } if size == most + 1 && limit == most)?;
    let delivery = crate::broken::only("message", s.take(&queue).await?)?;
    ensure("the body that was put", delivery.message.body == full, delivery.message.body.len())?;
    let update = Update::visible_in(std::time::Duration::ZERO);
    let result = s.queue().update(&delivery.receipt, update.clone().body(over)).await;
    refused!(result, ReceiptError::TooLarge { size, limit, .. } if size == most + 1 && limit == most)?;
    s.queue().update(&delivery.receipt, update.body(full)).await?;
    Ok(())
}

pub(super) async fn a_cell_is_as_large_as_allowed_and_no_larger(s: Subject) -> Kept {
    let Limits { cell_bytes: most, key_bytes, .. } = *s.cells().limits();
    let (space, longest) = (name("leases")?, "k".repeat(key_bytes));
    let write = |key: &str, bytes| -> Result<CellWrite, Broken> {
        Ok(CellWrite::new(CellKey::new(space.clone(), key), Expect::Any, json_of_size(bytes)?))
    };
    s.cells().write(write(&longest, most)?).await?;
    let result = s.cells().write(write("a", most + 1)?).await;
    refused!(result, CellError::TooLarge { size, limit, .. } if size == most + 1 && limit == most)?;
    let result = s.cells().write(write(&format!("{longest}x"), 2)?).await;
    refused!(result, CellError::TooLarge { size, limit, .. } if size == key_bytes + 1 && limit == key_bytes)?;
    let cells = s.cells().list(&space, None, 10).await?;
    let found: Vec<_> = cells.iter().map(|cell| (&*cell.key.key, cell.value.as_bytes().len())).collect();
    same("the cells", found, [(&*longest, most)])
}
