//! Conditional writes of items.

use crate::{
    Subject,
    broken::{Given, Kept, ensure, refused, same, some},
    sample::{body, event, key, pk, put, write},
};
use highwater_core::*;

pub(super) async fn an_item_is_created_once(s: Subject) -> Kept {
    let item = key("days", "a", "a")?;
    let first = s.write(&item, Op::Put(body(1)?), Expect::Absent).await?;
    let again = s.write(&item, Op::Put(body(2)?), Expect::Absent).await;
    let first = some("an ETag", first.etags.first().copied())?;
    refused!(again, CommitError::Conflict { key, expected: Expect::Absent, found: Found::Item(etag) }
        if key == item && etag == first)?;
    same("the version after a refused write", s.item(&item).await?.etag, first)
}

pub(super) async fn a_write_with_an_outdated_etag_is_a_conflict(s: Subject) -> Kept {
    let item = key("days", "a", "a")?;
    let old = s.put(&item, 1).await?;
    let current = s.put(&item, 2).await?;
    let stale = s.write(&item, Op::Put(body(3)?), Expect::ETag(old)).await;
    refused!(stale, CommitError::Conflict { key, expected: Expect::ETag(wanted), found: Found::Item(etag) }
        if key == item && wanted == old && etag == current)
}

pub(super) async fn a_write_with_the_current_etag_is_accepted(s: Subject) -> Kept {
    let item = key("days", "a", "a")?;
    let etag = s.put(&item, 1).await?;
    same("the ETag read", s.item(&item).await?.etag, etag)?;
    s.write(&item, Op::Put(body(2)?), Expect::ETag(etag)).await?;
    Ok(())
}

pub(super) async fn an_etag_never_fits_an_item_that_was_never_written(s: Subject) -> Kept {
    let etag = s.put(&key("days", "a", "a")?, 1).await?;
    let other = key("days", "a", "b")?;
    let result = s.write(&other, Op::Put(body(1)?), Expect::ETag(etag)).await;
    refused!(result, CommitError::Conflict { key, found: Found::Nothing, .. } if key == other)
}

pub(super) async fn a_write_to_an_item_that_must_exist_is_refused_without_one(s: Subject) -> Kept {
    let item = key("days", "a", "a")?;
    let never = s.write(&item, Op::Put(body(1)?), Expect::Exists).await;
    refused!(never, CommitError::NotFound { key } if key == item)?;
    s.put(&item, 1).await?;
    s.write(&item, Op::Put(body(2)?), Expect::Exists).await?;
    s.write(&item, Op::Delete, Expect::Any).await?;
    let deleted = s.write(&item, Op::Put(body(3)?), Expect::Exists).await;
    refused!(deleted, CommitError::NotFound { key } if key == item)
}

pub(super) async fn a_deleted_item_is_absent_and_keeps_the_etag_of_its_deletion(s: Subject) -> Kept {
    let item = key("days", "a", "a")?;
    let before = s.put(&item, 1).await?;
    let deletion = s.write(&item, Op::Delete, Expect::Any).await?;
    let deletion = some("an ETag for a deletion", deletion.etags.first().copied())?;
    let old = s.write(&item, Op::Put(body(2)?), Expect::ETag(before)).await;
    refused!(old, CommitError::Conflict { found: Found::Gone(etag), .. } if etag == deletion).given()?;
    s.write(&item, Op::Put(body(2)?), Expect::ETag(deletion)).await?;
    s.write(&item, Op::Delete, Expect::Any).await?;
    s.write(&item, Op::Put(body(3)?), Expect::Absent).await?;
    Ok(())
}

pub(super) async fn versions_go_on_after_a_deletion(s: Subject) -> Kept {
    let item = key("days", "a", "a")?;
    let mut versions = Vec::new();
    for op in [Op::Put(body(1)?), Op::Delete, Op::Put(body(1)?), Op::Delete, Op::Put(body(1)?)] {
        let committed = s.write(&item, op, Expect::Any).await?;
        versions.extend(committed.etags.iter().map(|etag| etag.version.get()));
    }
    same("the versions of put, delete, put, delete, put", versions, [1, 2, 3, 4, 5])
}

pub(super) async fn a_write_of_the_same_content_changes_the_etag(s: Subject) -> Kept {
    let item = key("days", "a", "a")?;
    let (first, second) = (s.put(&item, 1).await?, s.put(&item, 1).await?);
    ensure("an ETag that differs from the first", first != second, second)
}

pub(super) async fn if_one_condition_fails_nothing_is_written(s: Subject) -> Kept {
    let (a, b, c) = (key("days", "p", "a")?, key("days", "p", "b")?, key("days", "p", "c")?);
    let there = s.put(&b, 1).await?;
    let writes = vec![put(&a, 2)?, put(&b, 2)?.expect(Expect::Absent), put(&c, 2)?];
    let result = s.store().commit(Batch::new(pk("p")?, writes)).await;
    refused!(result, CommitError::Conflict { key, found: Found::Item(etag), .. }
        if key == b && etag == there)
    .given()?;
    same("the item before the failed condition", s.store().item(&a).await?, None)?;
    same("the item after the failed condition", s.store().item(&c).await?, None)?;
    same("the item of the failed condition", s.item(&b).await?.etag, there)?;
    same("the changes in the log", s.log(&pk("p")?).await?.len(), 1)
}

pub(super) async fn conditions_hold_for_deletions_and_kept_documents_too(s: Subject) -> Kept {
    let item = key("days", "a", "a")?;
    s.put(&item, 1).await?;
    let current = s.put(&item, 2).await?;
    for op in [Op::Delete, Op::Keep] {
        let result = s.write(&item, op, Expect::Absent).await;
        refused!(result, CommitError::Conflict { found: Found::Item(etag), .. } if etag == current)?;
    }
    let missing = key("days", "a", "b")?;
    for op in [Op::Delete, Op::Keep] {
        refused!(s.write(&missing, op, Expect::Exists).await, CommitError::NotFound { .. })?;
    }
    Ok(())
}

pub(super) async fn etags_come_in_the_order_of_the_writes(s: Subject) -> Kept {
    let (a, b) = (key("days", "p", "a")?, key("days", "p", "b")?);
    s.put(&b, 1).await?;
    s.put(&b, 2).await?;
    let committed = s.store().commit(Batch::new(pk("p")?, vec![put(&b, 3)?, put(&a, 3)?])).await?;
    let versions: Vec<u64> = committed.etags.iter().map(|etag| etag.version.get()).collect();
    same("the versions of b and a", versions, [3, 1])?;
    same("the ETag of b", committed.etags.first().copied(), Some(s.item(&b).await?.etag))?;
    same("the ETag of a", committed.etags.last().copied(), Some(s.item(&a).await?.etag))
}

pub(super) async fn a_kept_document_without_events_leaves_an_absent_item_absent(s: Subject) -> Kept {
    let item = key("days", "a", "a")?;
    let kept = s.write(&item, Op::Keep, Expect::Absent).await?;
    let etag = some("an ETag", kept.etags.first().copied())?;
    same("its version", etag.version.get(), 1)?;
    let found = s.item(&item).await?;
    same("exists", found.exists, false)?;
    same("body and events", (found.body, found.later.len()), (None, 0))?;
    let put = s.write(&item, Op::Put(body(1)?), Expect::Absent).await?;
    same("the version of the next write", put.etags.first().map(|etag| etag.version.get()), Some(2))
}

pub(super) async fn a_kept_document_with_events_brings_an_item_into_being(s: Subject) -> Kept {
    let item = key("orders", "a", "a")?;
    let keep = write(&item, Op::Keep).events(vec![event("Placed", 1)?]).expect(Expect::Absent);
    s.store().commit(Batch::new(pk("a")?, vec![keep])).await?;
    let found = s.item(&item).await?;
    same("exists", found.exists, true)?;
    same("its body", found.body, None)?;
    same("how many later changes", found.later.len(), 1)?;
    let again = s.write(&item, Op::Put(body(1)?), Expect::Absent).await;
    refused!(again, CommitError::Conflict { .. })
}

pub(super) async fn deleting_what_does_not_exist_is_recorded(s: Subject) -> Kept {
    let item = key("days", "a", "a")?;
    let deletion = s.write(&item, Op::Delete, Expect::Absent).await?;
    same("its version", deletion.etags.first().map(|etag| etag.version.get()), Some(1))?;
    let ops: Vec<ChangeOp> = s.log(&pk("a")?).await?.into_iter().map(|change| change.op).collect();
    same("the log", ops, [ChangeOp::DELETE])?;
    same("exists", s.item(&item).await?.exists, false)
}

pub(super) async fn container_partition_key_and_id_tell_items_apart(s: Subject) -> Kept {
    let keys = [key("a", "p", "x")?, key("b", "p", "x")?, key("a", "q", "x")?, key("a", "p", "y")?];
    for (n, item) in (0..).zip(&keys) {
        s.write(item, Op::Put(body(n)?), Expect::Absent).await?;
    }
    for (n, item) in (0..).zip(&keys) {
        let found = s.item(item).await?.body.map(|(_, body)| body);
        same(&format!("the body of {item}"), found, Some(body(n)?))?;
    }
    Ok(())
}

pub(super) async fn what_was_acknowledged_is_there_after_opening_again(s: Subject) -> Kept {
    let item = key("days", "a", "a")?;
    let etag = s.put(&item, 1).await?;
    let (info, head, log) = (s.store().info(), s.store().head().await?, s.log(&pk("a")?).await?);
    let s = s.reopen().await?;
    same("the store's id, partitions and epoch", s.store().info(), info)?;
    same("the head", s.store().head().await?, head)?;
    same("the log", s.log(&pk("a")?).await?, log.clone())?;
    same("the ETag", s.item(&item).await?.etag, etag)?;
    s.put(&item, 2).await?;
    let last = s.log(&pk("a")?).await?.last().map(|change| (change.version.get(), change.position));
    let (version, position) = some("a last change", last)?;
    same("the next version", version, 2)?;
    let before = Position::number(log.last().map(|change| change.position));
    ensure("a position after the last one", position.get() > before, position)
}
