//! What ends in time: items, cells and what is remembered of commands; and how the feed shows it.

use crate::{
    Broken, Subject,
    broken::{Given, Kept, ensure, refused, same},
    sample::{accepted, body, event, json, key, name, pk, put, rejected, write},
};
use highwater_core::*;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// Commits one write.
async fn commit(s: &Subject, key: &ItemKey, write: Write) -> Result<Committed, CommitError> {
    s.store().commit(Batch::new(key.partition_key.clone(), vec![write])).await
}

async fn expiry(s: &Subject, key: &ItemKey) -> Result<Option<Timestamp>, Broken> {
    Ok(s.item(key).await?.expires_at)
}

/// What the latest mode shows of a partition key after a position: id, version and what happened.
async fn latest(
    s: &Subject,
    partition_key: &PartitionKey,
    after: Option<Position>,
) -> Result<(Vec<(String, u64, ChangeOp)>, Option<Position>), Broken> {
    let request = ChangeRequest::new(s.partition(partition_key), after, 100).mode(FeedMode::Latest);
    let page = s.store().changes(&request).await?;
    let shown = page.changes.into_iter().map(|c| (c.key.id.as_str().to_owned(), c.version.get(), c.op));
    Ok((shown.collect(), page.scanned))
}

pub(super) async fn an_expired_item_is_absent_at_once(s: Subject) -> Kept {
    let item = key("days", "a", "a")?;
    commit(&s, &item, put(&item, 1)?.time_to_live(MINUTE)).await?;
    let at = s.now().plus(MINUTE);
    s.clock.advance(MINUTE.saturating_sub(Duration::from_micros(1)));
    let before = s.item(&item).await?;
    same("exists and expires until its time", (before.exists, before.expires_at), (true, Some(at)))?;
    s.clock.advance(Duration::from_micros(1));
    let after = s.item(&item).await?;
    same("exists and body from then on", (after.exists, after.body), (false, None))?;
    same("the version", after.etag.version.get(), 2)
}

pub(super) async fn an_expired_item_fits_only_conditions_of_absence(s: Subject) -> Kept {
    let item = key("days", "a", "a")?;
    let old = commit(&s, &item, put(&item, 1)?.time_to_live(MINUTE)).await?.etags;
    s.pass(120);
    for etag in old {
        let stale = commit(&s, &item, put(&item, 2)?.expect(Expect::ETag(etag))).await;
        refused!(stale, CommitError::Conflict { found: Found::Gone(_), .. })?;
    }
    let without = commit(&s, &item, put(&item, 2)?.expect(Expect::Exists)).await;
    ensure("a refusal where an item must exist", without.is_err(), &without)?;
    let created = commit(&s, &item, put(&item, 2)?.expect(Expect::Absent)).await?;
    same("versions", created.etags.iter().map(|etag| etag.version.get()).collect::<Vec<_>>(), [3])
}

pub(super) async fn a_write_over_an_expired_item_shows_its_expiry_first(s: Subject) -> Kept {
    let item = key("days", "a", "a")?;
    commit(&s, &item, put(&item, 1)?.time_to_live(MINUTE)).await?;
    s.pass(120);
    commit(&s, &item, put(&item, 2)?).await?;
    let log = s.log(&item.partition_key).await?;
    let found: Vec<_> = log.into_iter().map(|change| (change.version.get(), change.op)).collect();
    let expected = [(1, ChangeOp::Put(body(1)?)), (2, ChangeOp::EXPIRE), (3, ChangeOp::Put(body(2)?))];
    same("what happened", found, expected)
}

pub(super) async fn a_put_sets_the_life_anew_and_a_kept_document_leaves_it(s: Subject) -> Kept {
    let item = key("days", "a", "a")?;
    let first = s.now().plus(MINUTE);
    commit(&s, &item, put(&item, 1)?.time_to_live(MINUTE)).await?;
    same("set", expiry(&s, &item).await?, Some(first))?;
    s.pass(10);
    commit(&s, &item, write(&item, Op::Keep).events(vec![event("Paid", 1)?])).await?;
    same("left by a kept document", expiry(&s, &item).await?, Some(first))?;
    let second = s.now().plus(2 * MINUTE);
    commit(&s, &item, write(&item, Op::Keep).time_to_live(2 * MINUTE)).await?;
    same("set by a kept document", expiry(&s, &item).await?, Some(second))?;
    commit(&s, &item, put(&item, 2)?).await?;
    same("removed by a body without one", expiry(&s, &item).await?, None)
}

pub(super) async fn a_life_out_of_range_is_refused(s: Subject) -> Kept {
    let item = key("days", "a", "a")?;
    let cell = CellKey::new(name("sessions")?, "a");
    let (shortest, longest) = (Limits::SHORTEST_LIFE, s.store().limits().longest_life);
    let step = Duration::from_micros(1);
    for span in [shortest, longest] {
        commit(&s, &item, put(&item, 1)?.time_to_live(span)).await?;
        s.cells().write(CellWrite::new(cell.clone(), Expect::Any, json(1)?).time_to_live(span)).await?;
    }
    for span in [shortest.saturating_sub(step), longest.saturating_add(step)] {
        let refused = commit(&s, &item, put(&item, 2)?.time_to_live(span)).await;
        refused!(refused, CommitError::OutOfRange { .. })?;
        let write = CellWrite::new(cell.clone(), Expect::Any, json(2)?).time_to_live(span);
        refused!(s.cells().write(write).await, CellError::OutOfRange { .. })?;
    }
    Ok(())
}

pub(super) async fn the_latest_mode_shows_each_changed_item_once_with_its_body(s: Subject) -> Kept {
    let (a, b) = (key("days", "a", "a")?, key("days", "a", "b")?);
    for n in 1..=2 {
        s.put(&a, n).await?;
    }
    s.put(&b, 1).await?;
    commit(&s, &a, write(&a, Op::Keep).events(vec![event("Paid", 3)?])).await?;
    let keep = Batch::new(pk("a")?, vec![write(&a, Op::Keep)]);
    s.store().commit(keep.command(rejected(CommandId::random(), "x", "no"))).await?;
    let (shown, scanned) = latest(&s, &a.partition_key, None).await?;
    let expected = [("b".into(), 1, ChangeOp::Put(body(1)?)), ("a".into(), 3, ChangeOp::Put(body(2)?))];
    same("what is shown", shown, expected)?;
    same("what is shown afterwards", latest(&s, &a.partition_key, scanned).await?.0, Vec::new())?;
    s.put(&b, 2).await?;
    let changed = [("b".into(), 2, ChangeOp::Put(body(2)?))];
    same("what is shown after a change", latest(&s, &a.partition_key, scanned).await?.0, changed)
}

pub(super) async fn the_latest_mode_shows_no_deletion(s: Subject) -> Kept {
    let (a, b) = (key("days", "a", "a")?, key("days", "a", "b")?);
    s.put(&a, 1).await?;
    s.put(&b, 1).await?;
    s.write(&b, Op::Delete, Expect::Any).await?;
    let shown = latest(&s, &a.partition_key, None).await?.0;
    same("what is shown", shown, [("a".into(), 1, ChangeOp::Put(body(1)?))])
}

pub(super) async fn a_marked_item_is_shown_in_the_latest_mode_until_it_expires(s: Subject) -> Kept {
    let item = key("days", "a", "a")?;
    s.put(&item, 1).await.given()?;
    commit(&s, &item, put(&item, 2)?.time_to_live(MINUTE)).await?;
    s.pass(30);
    let marked = [("a".into(), 2, ChangeOp::Put(body(2)?))];
    same("before it expires", latest(&s, &item.partition_key, None).await?.0, marked)?;
    s.pass(30);
    same("after it has expired", latest(&s, &item.partition_key, None).await?.0, Vec::new())
}

pub(super) async fn bodies_before_the_changes_come_on_request(s: Subject) -> Kept {
    let item = key("days", "a", "a")?;
    for n in 1..=2 {
        s.put(&item, n).await?;
    }
    commit(&s, &item, write(&item, Op::Keep).events(vec![event("Paid", 3)?])).await?;
    s.write(&item, Op::Delete, Expect::Any).await?;
    s.put(&item, 5).await?;
    let request = ChangeRequest::new(s.partition(&item.partition_key), None, 100);
    let asked = s.store().changes(&request.clone().with_previous()).await?.changes;
    let previous: Vec<_> = asked.into_iter().map(|change| change.previous).collect();
    let expected = [None, Some(body(1)?), Some(body(2)?), Some(body(2)?), None];
    same("the bodies before", previous, expected)?;
    let unasked = s.store().changes(&request).await?.changes;
    ensure("none without asking", unasked.iter().all(|change| change.previous.is_none()), &unasked)
}

pub(super) async fn an_expired_cell_is_absent_at_once(s: Subject) -> Kept {
    let space = name("sessions")?;
    let cell = CellKey::new(space.clone(), "a");
    let write = |expect, n| Ok::<_, Broken>(CellWrite::new(cell.clone(), expect, json(n)?));
    let old = s.cells().write(write(Expect::Absent, 1)?.time_to_live(MINUTE)).await?;
    let at = s.now().plus(MINUTE);
    s.clock.advance(MINUTE.saturating_sub(Duration::from_micros(1)));
    let found = s.cells().read(&cell).await?;
    same("it expires", found.map(|cell| cell.expires_at), Some(Some(at)))?;
    same("the list before its time", s.cells().list(&space, None, 9).await?.len(), 1)?;
    s.clock.advance(Duration::from_micros(1));
    same("the cell from then on", s.cells().read(&cell).await?, None)?;
    same("the list from then on", s.cells().list(&space, None, 9).await?, Vec::new())?;
    let stale = s.cells().write(write(Expect::ETag(old), 2)?).await;
    refused!(stale, CellError::Conflict { found: Found::Nothing, .. })?;
    refused!(s.cells().delete(&cell, Expect::Exists).await, CellError::Conflict { .. })?;
    let anew = s.cells().write(write(Expect::Absent, 3)?).await?;
    ensure("a later version", anew.version > old.version, (old, anew))?;
    let found = s.cells().read(&cell).await?;
    same("a write without one takes its life away", found.map(|cell| cell.expires_at), Some(None))
}

pub(super) async fn a_decided_command_is_remembered_within_the_horizon(s: Subject) -> Kept {
    let item = key("days", "a", "a")?;
    let batch = Batch::new(pk("a")?, vec![put(&item, 1)?]).command(accepted(CommandId::random(), "x"));
    s.store().commit(batch.clone()).await?;
    let years = Duration::from_secs(3_650 * 24 * 60 * 60);
    let horizon = s.store().limits().horizon.unwrap_or(years);
    s.clock.advance(horizon.saturating_sub(Duration::from_secs(1)));
    // Something is written, so that a store which forgets has an occasion to do so.
    s.put(&key("days", "b", "b")?, 1).await.given()?;
    same("replayed", s.store().commit(batch).await?.replayed, true)
}
