//! Items and their histories, read.

use crate::{
    Broken, Subject,
    broken::{Kept, same, some},
    sample::{accepted, body, event, hostile_keys, key, name, pk, rejected, write},
};
use highwater_core::*;

/// Commits one write with events.
async fn explain(s: &Subject, item: &ItemKey, op: Op, events: Vec<Event>) -> Result<(), Broken> {
    let write = write(item, op).events(events);
    s.store().commit(Batch::new(item.partition_key.clone(), vec![write])).await?;
    Ok(())
}

fn versions(changes: &[Change]) -> Vec<u64> {
    changes.iter().map(|change| change.version.get()).collect()
}

pub(super) async fn an_item_that_was_never_written_is_nothing(s: Subject) -> Kept {
    s.put(&key("days", "a", "a")?, 1).await?;
    let missing = key("days", "a", "b")?;
    same("the item", s.store().item(&missing).await?, None)?;
    same("its history", s.store().history(&missing, None, 10).await?, Vec::new())
}

pub(super) async fn an_item_is_its_newest_body_and_the_events_after_it(s: Subject) -> Kept {
    let item = key("orders", "a", "a")?;
    explain(&s, &item, Op::Put(body(1)?), vec![event("Placed", 1)?]).await?;
    explain(&s, &item, Op::Put(body(2)?), vec![event("Priced", 2)?]).await?;
    explain(&s, &item, Op::Keep, vec![event("Paid", 3)?, event("Thanked", 3)?]).await?;
    explain(&s, &item, Op::Keep, Vec::new()).await?;
    explain(&s, &item, Op::Keep, vec![event("Sent", 5)?]).await?;
    let found = s.item(&item).await?;
    let newest = found.body.map(|(version, body)| (version.get(), body));
    same("the body and its version", newest, Some((2, body(2)?)))?;
    same("the later versions", versions(&found.later), [3, 5])?;
    let names: Vec<_> = found.later.iter().flat_map(|change| &change.events).map(|e| &*e.name).collect();
    same("the later events", names, ["Paid", "Thanked", "Sent"])?;
    same("the version", found.etag.version.get(), 5)
}

pub(super) async fn after_a_deletion_only_later_events_count(s: Subject) -> Kept {
    let item = key("orders", "a", "a")?;
    explain(&s, &item, Op::Put(body(1)?), vec![event("Placed", 1)?]).await?;
    explain(&s, &item, Op::Keep, vec![event("Paid", 2)?]).await?;
    explain(&s, &item, Op::Delete, vec![event("Erased", 3)?]).await?;
    let deleted = s.item(&item).await?;
    same("exists and body", (deleted.exists, deleted.body), (false, None))?;
    same("later changes", versions(&deleted.later), [0_u64; 0])?;
    explain(&s, &item, Op::Keep, vec![event("Placed", 4)?]).await?;
    let found = s.item(&item).await?;
    same("exists and body", (found.exists, found.body), (true, None))?;
    same("later changes", versions(&found.later), [4])
}

pub(super) async fn a_history_is_newest_first_and_leaves_rejections_out(s: Subject) -> Kept {
    let item = key("orders", "a", "a")?;
    explain(&s, &item, Op::Put(body(1)?), Vec::new()).await?;
    let keep = Batch::new(pk("a")?, vec![write(&item, Op::Keep)]);
    s.store().commit(keep.command(rejected(CommandId::random(), "x", "no"))).await?;
    let keep = write(&item, Op::Keep).events(vec![event("Paid", 3)?]);
    let keep = Batch::new(pk("a")?, vec![keep]);
    s.store().commit(keep.command(accepted(CommandId::random(), "x"))).await?;
    explain(&s, &item, Op::Delete, Vec::new()).await?;
    explain(&s, &item, Op::Put(body(5)?), Vec::new()).await?;
    let history = s.store().history(&item, None, 10).await?;
    same("the versions", versions(&history), [5, 4, 3, 1])?;
    let ops: Vec<_> = history.into_iter().map(|change| change.op).collect();
    let expected = [ChangeOp::Put(body(5)?), ChangeOp::DELETE, ChangeOp::Keep, ChangeOp::Put(body(1)?)];
    same("what happened", ops, expected)
}

pub(super) async fn a_history_is_read_in_pages(s: Subject) -> Kept {
    let item = key("days", "a", "a")?;
    for n in 1..=5 {
        s.put(&item, n).await?;
        s.put(&key("days", "a", "other")?, n).await?;
    }
    same("the newest two", versions(&s.store().history(&item, None, 2).await?), [5, 4])?;
    let before = |n| some("a version", Version::new(n)).map(Some);
    same("two below 4", versions(&s.store().history(&item, before(4)?, 2).await?), [3, 2])?;
    same("all below 2", versions(&s.store().history(&item, before(2)?, 9).await?), [1])?;
    same("all below 1", versions(&s.store().history(&item, before(1)?, 9).await?), [0_u64; 0])
}

pub(super) async fn hostile_text_in_keys_survives(s: Subject) -> Kept {
    let keys = hostile_keys();
    for (n, text) in (0..).zip(&keys) {
        let item = key("days", text, text)?;
        s.write(&item, Op::Put(body(n)?), Expect::Absent).await?;
    }
    for (n, text) in (0..).zip(&keys) {
        let item = key("days", text, text)?;
        let found = s.item(&item).await?.body.map(|(_, body)| body);
        same(&format!("the body under {text:?}"), found, Some(body(n)?))?;
        let history = s.store().history(&item, None, 9).await?;
        let addresses: Vec<_> = history.into_iter().map(|change| change.key).collect();
        same("the address in the log", addresses, [item])?;
    }
    Ok(())
}

pub(super) async fn bodies_and_events_come_back_as_they_were_written(s: Subject) -> Kept {
    let item = key("notes", "a", "a")?;
    let text = "{\"text\":\"'; drop \\u0000 \\\"table\\\" \\n \u{1f600} \u{202e} e\u{301}\",\"deep\":[[[{}]]],\
                \"big\":12345678901234567890,\"small\":1e-300,\"nothing\":null}";
    let document = Body { schema: 7, json: Json::parse(text)? };
    let happened = Event::new("Noted \u{1f600}", 3, Json::parse(text)?);
    let empty = Event::new("Emptied", 1, Json::parse("null")?);
    let events = vec![happened, empty];
    explain(&s, &item, Op::Put(document.clone()), events.clone()).await?;
    let found = s.item(&item).await?.body.map(|(_, body)| body);
    same("the body", found, Some(document.clone()))?;
    let history = s.store().history(&item, None, 9).await?;
    let change = some("a change", history.into_iter().next())?;
    same("the body in the history", change.op, ChangeOp::Put(document))?;
    same("the events", change.events, events)
}

pub(super) async fn a_container_exists_as_soon_as_it_is_named(s: Subject) -> Kept {
    let longest = "z".repeat(Name::MAX);
    for container in ["0", "a-b", "select", &longest] {
        let item = ItemKey::alone(name(container)?, "a")?;
        s.write(&item, Op::Put(body(1)?), Expect::Absent).await?;
        same("exists", s.item(&item).await?.exists, true)?;
    }
    Ok(())
}
