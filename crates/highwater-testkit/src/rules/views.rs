//! Documents of views and how far they have come.

use crate::{
    Broken, Subject,
    broken::{Given, Kept, ensure, refused, same, some},
    sample::{body, hostile_keys, json_of_size, name},
};
use highwater_core::*;
use std::collections::BTreeMap;

fn view() -> Result<ViewName, Broken> {
    Ok(ViewName { name: name("months")?, generation: 1 })
}

fn slot(s: &Subject, partition: u16) -> Result<ViewSlot, Broken> {
    Ok(ViewSlot { view: view()?, store: s.store().info().id, partition: Partition(partition) })
}

fn at(position: u64) -> Result<Position, Broken> {
    some("a position", Position::new(position))
}

fn document(key: &str, expected: u64, n: u64) -> Result<DocumentWrite, Broken> {
    let marks = Marks::from([("days/a/a".to_owned(), n)]);
    Ok(DocumentWrite::new(key, expected, Some(body(n)?), marks))
}

fn tombstone(key: &str, expected: u64, n: u64) -> Result<DocumentWrite, Broken> {
    let mut write = document(key, expected, n)?;
    write.body = None;
    Ok(write)
}

/// Documents and progress under a claim.
fn batch(
    slot: &ViewSlot,
    claim: Claim,
    position: u64,
    documents: Vec<DocumentWrite>,
) -> Result<ViewBatch, Broken> {
    Ok(ViewBatch::new(slot.clone(), claim, at(position)?, documents))
}

/// Writes as the owner would who made the claim and has come as far as it says; moves the claim on.
async fn write(
    s: &Subject,
    slot: &ViewSlot,
    claim: &mut Claim,
    position: u64,
    documents: Vec<DocumentWrite>,
) -> Kept {
    s.views().write(batch(slot, *claim, position, documents)?).await?;
    *claim = claim.at(at(position)?);
    Ok(())
}

async fn read(s: &Subject, key: &str) -> Result<Option<Document>, Broken> {
    let documents = s.views().documents(&view()?, &[key.to_owned()]).await?;
    some("an answer for the key asked for", documents.into_iter().next())
}

/// The position that a view says it has reached in a partition.
async fn reached(s: &Subject, partition: u16) -> Result<Option<u64>, Broken> {
    let reached = s.views().reached(&view()?, s.store().info().id).await?;
    let position = |reached: ViewReached| reached.positions.get(&Partition(partition)).copied();
    Ok(reached.and_then(position).map(Position::get))
}

pub(super) async fn every_claim_raises_the_owners_epoch(s: Subject) -> Kept {
    let slot = slot(&s, 0)?;
    let first = s.views().claim(&slot, Epoch(3)).await?;
    same("position and store epoch of the first", (first.position, first.store_epoch), (None, Epoch(3)))?;
    let second = s.views().claim(&slot, Epoch(3)).await?;
    ensure("a higher epoch", second.owner_epoch > first.owner_epoch, (first, second))?;
    let elsewhere = ViewSlot { partition: Partition(1), ..slot };
    let other = s.views().claim(&elsewhere, Epoch(3)).await?;
    same("the position of another slot", other.position, None)
}

pub(super) async fn documents_and_position_are_written_together(s: Subject) -> Kept {
    let slot = slot(&s, 2)?;
    let mut claim = s.views().claim(&slot, Epoch(1)).await?;
    write(&s, &slot, &mut claim, 7, vec![document("a", 0, 1)?, document("b", 0, 2)?]).await?;
    same("the position", reached(&s, 2).await?, Some(7))?;
    let found = some("a document", read(&s, "b").await?)?;
    same("version and body", (found.version, found.body), (1, Some(body(2)?)))?;
    same("marks", found.marks, Marks::from([("days/a/a".to_owned(), 2)]))?;
    write(&s, &slot, &mut claim, 9, Vec::new()).await?;
    same("the position after a batch without documents", reached(&s, 2).await?, Some(9))
}

pub(super) async fn a_take_over_starts_where_the_last_batch_ended(s: Subject) -> Kept {
    let slot = slot(&s, 0)?;
    let mut claim = s.views().claim(&slot, Epoch(1)).await?;
    write(&s, &slot, &mut claim, 4, vec![document("a", 0, 1)?]).await?;
    write(&s, &slot, &mut claim, 6, vec![document("a", 1, 2)?]).await?;
    let next = s.views().claim(&slot, Epoch(9)).await?;
    same("the position claimed", next.position, Some(at(6)?))?;
    same("the store's epoch", next.store_epoch, Epoch(1))
}

pub(super) async fn an_owner_that_was_taken_over_cannot_write(s: Subject) -> Kept {
    let slot = slot(&s, 0)?;
    let old = s.views().claim(&slot, Epoch(1)).await?;
    let new = s.views().claim(&slot, Epoch(1)).await?;
    let result = s.views().write(batch(&slot, old, 5, vec![document("a", 0, 1)?])?).await;
    refused!(result, ViewWriteError::Fenced { slot: named } if *named == slot)?;
    same("the document", read(&s, "a").await?, None)?;
    same("the position", reached(&s, 0).await?, None)?;
    s.views().write(batch(&slot, new, 5, vec![document("a", 0, 1)?])?).await?;
    Ok(())
}

pub(super) async fn a_batch_made_at_another_position_is_refused(s: Subject) -> Kept {
    let slot = slot(&s, 0)?;
    let claim = s.views().claim(&slot, Epoch(1)).await?;
    s.views().write(batch(&slot, claim, 5, vec![document("a", 0, 1)?])?).await?;
    // The owner's epoch and the document's version are right; only the position has moved on.
    let again = s.views().write(batch(&slot, claim, 5, vec![document("a", 1, 2)?])?).await;
    refused!(again, ViewWriteError::Fenced { .. })?;
    same("the version", read(&s, "a").await?.map(|document| document.version), Some(1))
}

pub(super) async fn a_document_that_was_changed_meanwhile_is_a_conflict(s: Subject) -> Kept {
    let (here, there) = (slot(&s, 0)?, slot(&s, 1)?);
    let mut a = s.views().claim(&here, Epoch(1)).await?;
    let mut b = s.views().claim(&there, Epoch(1)).await?;
    write(&s, &here, &mut a, 1, vec![document("x", 0, 1)?]).await?;
    let stale = s.views().write(batch(&there, b, 1, vec![document("x", 0, 2)?])?).await;
    refused!(stale, ViewWriteError::Conflict { key } if key == "x")?;
    write(&s, &there, &mut b, 1, vec![document("x", 1, 2)?]).await?;
    let stale = s.views().write(batch(&here, a, 2, vec![document("x", 1, 3)?])?).await;
    refused!(stale, ViewWriteError::Conflict { .. })?;
    let missing = s.views().write(batch(&here, a, 2, vec![document("y", 1, 3)?])?).await;
    refused!(missing, ViewWriteError::Conflict { key } if key == "y")?;
    same("the body", read(&s, "x").await?.and_then(|document| document.body), Some(body(2)?))
}

pub(super) async fn a_conflict_on_one_document_writes_nothing(s: Subject) -> Kept {
    let slot = slot(&s, 0)?;
    let mut claim = s.views().claim(&slot, Epoch(1)).await?;
    write(&s, &slot, &mut claim, 1, vec![document("m", 0, 1)?]).await?;
    let documents = vec![document("a", 0, 2)?, document("m", 7, 2)?, document("z", 0, 2)?];
    let result = s.views().write(batch(&slot, claim, 2, documents)?).await;
    refused!(result, ViewWriteError::Conflict { key } if key == "m").given()?;
    same("the document before it", read(&s, "a").await?, None)?;
    same("the document after it", read(&s, "z").await?, None)?;
    same("the position", reached(&s, 0).await?, Some(1))?;
    write(&s, &slot, &mut claim, 2, vec![document("a", 0, 3)?]).await
}

pub(super) async fn a_deleted_document_leaves_its_marks(s: Subject) -> Kept {
    let slot = slot(&s, 0)?;
    let mut claim = s.views().claim(&slot, Epoch(1)).await?;
    write(&s, &slot, &mut claim, 1, vec![document("a", 0, 1)?, document("b", 0, 1)?]).await?;
    write(&s, &slot, &mut claim, 2, vec![tombstone("a", 1, 2)?]).await?;
    let found = some("a tombstone", read(&s, "a").await?)?;
    same("version and body", (found.version, found.body), (2, None))?;
    same("marks", found.marks, Marks::from([("days/a/a".to_owned(), 2)]))?;
    let (alone, _) = s.views().document(&view()?, s.store().info().id, "a").await?;
    same("read alone", alone.map(|document| document.version), Some(2))?;
    let listed = s.views().list(&view()?, None, 10).await?;
    let keys: Vec<_> = listed.iter().map(|document| &*document.key).collect();
    same("what is listed", keys, ["b"])?;
    write(&s, &slot, &mut claim, 3, vec![document("a", 2, 3)?]).await?;
    same("the version afterwards", read(&s, "a").await?.map(|document| document.version), Some(3))
}

pub(super) async fn documents_come_in_the_order_asked_for(s: Subject) -> Kept {
    let slot = slot(&s, 0)?;
    let mut claim = s.views().claim(&slot, Epoch(1)).await?;
    let documents = vec![document("a", 0, 1)?, document("b", 0, 2)?, document("c", 0, 3)?];
    write(&s, &slot, &mut claim, 1, documents).await?;
    let keys = ["c", "missing", "a", "b", "a"].map(String::from);
    let found = s.views().documents(&view()?, &keys).await?;
    let found: Vec<_> = found.into_iter().map(|found| found.map(|document| document.key)).collect();
    same("the keys", found, ["c", "", "a", "b", "a"].map(|key| (!key.is_empty()).then(|| key.to_owned())))?;
    same("no keys", s.views().documents(&view()?, &[]).await?, Vec::new())
}

pub(super) async fn documents_are_listed_in_pages_by_key(s: Subject) -> Kept {
    let slot = slot(&s, 0)?;
    let mut claim = s.views().claim(&slot, Epoch(1)).await?;
    let mut keys = hostile_keys();
    let documents = keys.iter().map(|key| document(key, 0, 1)).collect::<Result<_, _>>()?;
    write(&s, &slot, &mut claim, 1, documents).await?;
    keys.sort();
    let (mut found, mut after): (Vec<String>, Option<String>) = (Vec::new(), None);
    loop {
        let page = s.views().list(&view()?, after.as_deref(), 4).await?;
        ensure("at most four", page.len() <= 4, page.len())?;
        found.extend(page.into_iter().map(|document| document.key));
        let Some(last) = found.last().filter(|_| found.len() < keys.len()) else { break };
        ensure("a page that moves on", Some(last) != after.as_ref(), last)?;
        after = Some(last.clone());
    }
    same("all pages", found, keys)
}

pub(super) async fn a_view_says_how_far_it_has_come_in_every_partition(s: Subject) -> Kept {
    let store = s.store().info().id;
    same("before it began", s.views().reached(&view()?, store).await?, None)?;
    for (partition, position) in [(0, 5), (3, 8)] {
        let slot = slot(&s, partition)?;
        let mut claim = s.views().claim(&slot, Epoch(2)).await?;
        write(&s, &slot, &mut claim, position, Vec::new()).await?;
    }
    s.views().claim(&slot(&s, 4)?, Epoch(2)).await?;
    let positions = BTreeMap::from([(Partition(0), at(5)?), (Partition(3), at(8)?)]);
    let expected = ViewReached { epoch: Epoch(2), positions, healing: None };
    same("reached", s.views().reached(&view()?, store).await?, Some(expected.clone()))?;
    let (_, with_document) = s.views().document(&view()?, store, "missing").await?;
    same("reached, with a document", with_document, Some(expected))
}

pub(super) async fn a_view_is_in_the_lowest_epoch_of_its_partitions(s: Subject) -> Kept {
    let store = s.store().info().id;
    let epoch = |reached: Option<ViewReached>| reached.map(|reached| reached.epoch);
    let ahead = slot(&s, 0)?;
    let mut claim = s.views().claim(&ahead, Epoch(2)).await?;
    write(&s, &ahead, &mut claim, 5, Vec::new()).await?;
    same("of one partition", epoch(s.views().reached(&view()?, store).await?), Some(Epoch(2)))?;
    let behind = slot(&s, 1)?;
    let mut claim = s.views().claim(&behind, Epoch(1)).await?;
    write(&s, &behind, &mut claim, 6, Vec::new()).await?;
    same("with one partition behind", epoch(s.views().reached(&view()?, store).await?), Some(Epoch(1)))?;
    let (_, reached) = s.views().document(&view()?, store, "missing").await?;
    same("with a document", epoch(reached), Some(Epoch(1)))?;
    let claim = s.views().claim(&ahead, Epoch(3)).await?;
    same("the epoch in which the first one began", claim.store_epoch, Epoch(2))
}

pub(super) async fn generations_and_stores_are_kept_apart(s: Subject) -> Kept {
    let here = slot(&s, 0)?;
    let mut claim = s.views().claim(&here, Epoch(1)).await?;
    write(&s, &here, &mut claim, 5, vec![document("a", 0, 1)?]).await?;
    let next = ViewName { generation: 2, ..view()? };
    let aside = ViewSlot { view: next.clone(), ..here.clone() };
    let mut fresh = s.views().claim(&aside, Epoch(1)).await?;
    same("the position of the next generation", fresh.position, None)?;
    same("its documents", s.views().documents(&next, &["a".to_owned()]).await?, [None])?;
    write(&s, &aside, &mut fresh, 3, vec![document("a", 0, 2)?]).await?;
    same("the document of the first", read(&s, "a").await?.and_then(|found| found.body), Some(body(1)?))?;
    same("the position of the first", reached(&s, 0).await?, Some(5))?;
    let other = StoreId::random();
    same("another store", s.views().reached(&view()?, other).await?, None)
}

pub(super) async fn a_generation_of_a_view_belongs_to_one_store(s: Subject) -> Kept {
    let (here, other) = (slot(&s, 0)?, StoreId::random());
    let mut claim = s.views().claim(&here, Epoch(1)).await?;
    write(&s, &here, &mut claim, 5, vec![document("a", 0, 1)?]).await?;
    for partition in [0, 1] {
        let there = ViewSlot { store: other, ..slot(&s, partition)? };
        let result = s.views().claim(&there, Epoch(1)).await;
        refused!(result, ViewWriteError::OtherStore { view, found, asked }
            if view == here.view && found == here.store && asked == other)?;
    }
    same("how far the view has come in the other store", s.views().reached(&view()?, other).await?, None)?;
    write(&s, &here, &mut claim, 6, Vec::new()).await?;
    let next = ViewName { generation: 2, ..view()? };
    s.views().claim(&ViewSlot { view: next, store: other, ..here }, Epoch(1)).await?;
    Ok(())
}

pub(super) async fn a_document_is_as_large_as_allowed_and_no_larger(s: Subject) -> Kept {
    let (slot, most) = (slot(&s, 0)?, s.views().limits().document_bytes);
    let sized = |bytes| -> Result<Vec<DocumentWrite>, Broken> {
        let mut write = document("a", 0, 1)?;
        write.body = Some(Body::new(json_of_size(bytes)?));
        Ok(vec![write])
    };
    let claim = s.views().claim(&slot, Epoch(1)).await?;
    let result = s.views().write(batch(&slot, claim, 1, sized(most + 1)?)?).await;
    refused!(result, ViewWriteError::TooLarge { size, limit, .. } if size == most + 1 && limit == most)?;
    same("the document refused", read(&s, "a").await?, None)?;
    s.views().write(batch(&slot, claim, 1, sized(most)?)?).await?;
    let found = read(&s, "a").await?.and_then(|document| document.body);
    same("the bytes of the largest", found.map(|body| body.json.as_bytes().len()), Some(most))
}

pub(super) async fn a_batch_has_as_many_documents_as_allowed_and_no_more(s: Subject) -> Kept {
    let (slot, most) = (slot(&s, 0)?, s.views().limits().documents_per_batch);
    let many = |count| (0..count).map(|n| document(&n.to_string(), 0, 1)).collect::<Result<Vec<_>, _>>();
    let claim = s.views().claim(&slot, Epoch(1)).await?;
    let result = s.views().write(batch(&slot, claim, 1, many(most + 1)?)?).await;
    refused!(result, ViewWriteError::TooLarge { size, limit, .. } if size == most + 1 && limit == most)?;
    same("the documents after a refused batch", s.views().list(&view()?, None, 1).await?, Vec::new())?;
    s.views().write(batch(&slot, claim, 1, many(most)?)?).await?;
    same("the documents", s.views().list(&view()?, None, most + 1).await?.len(), most)
}

pub(super) async fn a_documents_key_is_as_long_as_allowed_and_no_longer(s: Subject) -> Kept {
    let slot = slot(&s, 0)?;
    let mut claim = s.views().claim(&slot, Epoch(1)).await?;
    let most = s.views().limits().key_bytes;
    let longest = "k".repeat(most);
    write(&s, &slot, &mut claim, 1, vec![document(&longest, 0, 1)?]).await?;
    let over = format!("{longest}x");
    let result = s.views().write(batch(&slot, claim, 2, vec![document(&over, 0, 1)?])?).await;
    refused!(result, ViewWriteError::TooLarge { size, limit, .. } if size == most + 1 && limit == most)?;
    ensure("the document of the longest key", read(&s, &longest).await?.is_some(), "nothing")
}

pub(super) async fn marks_keep_many_sources_and_the_greatest_numbers(s: Subject) -> Kept {
    let slot = slot(&s, 0)?;
    let claim = s.views().claim(&slot, Epoch(1)).await?;
    let mut marks: Marks = hostile_keys().into_iter().zip(1..).collect();
    marks.insert("greatest".to_owned(), u64::MAX);
    let mut write = document("a", 0, 1)?;
    write.marks = marks.clone();
    s.views().write(batch(&slot, claim, 1, vec![write])?).await?;
    same("the marks", read(&s, "a").await?.map(|found| found.marks), Some(marks))
}

pub(super) async fn views_survive_opening_again(s: Subject) -> Kept {
    let slot = slot(&s, 0)?;
    let mut claim = s.views().claim(&slot, Epoch(1)).await?;
    write(&s, &slot, &mut claim, 5, vec![document("a", 0, 1)?, tombstone("b", 0, 1)?]).await?;
    let keys = ["a", "b"].map(String::from);
    let before = s.views().documents(&view()?, &keys).await?;
    let s = s.reopen().await?;
    same("the documents", s.views().documents(&view()?, &keys).await?, before)?;
    let next = s.views().claim(&slot, Epoch(1)).await?;
    same("the position claimed", next.position, claim.position)?;
    ensure("a higher epoch", next.owner_epoch > claim.owner_epoch, (claim, next))
}

/// A life that shares five positions of partition 0, and three of partition 1, with the first.
fn second_life() -> Result<Lineage, Broken> {
    let shared = BTreeMap::from([(Partition(0), at(5)?), (Partition(1), at(3)?)]);
    Ok(Lineage::first(Epoch(9)).sharing(Epoch(1), shared))
}

pub(super) async fn a_view_within_the_shared_history_goes_on_in_the_next_life(s: Subject) -> Kept {
    let (one, other) = (slot(&s, 0)?, slot(&s, 1)?);
    let mut claim = s.views().claim(&one, Epoch(1)).await?;
    write(&s, &one, &mut claim, 5, vec![document("a", 0, 1)?]).await?;
    let mut old = s.views().claim(&other, Epoch(1)).await?;
    write(&s, &other, &mut old, 3, Vec::new()).await?;
    let adopted = s.views().adopt(&one, claim, &second_life()?).await?;
    same("the life and the place", (adopted.store_epoch, adopted.position), (Epoch(9), Some(at(5)?)))?;
    let found = s.views().reached(&view()?, s.store().info().id).await?;
    let positions = BTreeMap::from([(Partition(0), at(5)?), (Partition(1), at(3)?)]);
    same("reached", found, Some(ViewReached { epoch: Epoch(9), positions, healing: None }))?;
    ensure("the document", read(&s, "a").await?.is_some(), "none")?;
    let result = s.views().write(batch(&other, old, 4, Vec::new())?).await;
    refused!(result, ViewWriteError::Fenced { .. })
}

pub(super) async fn a_view_beyond_the_shared_history_is_not_carried_over(s: Subject) -> Kept {
    let (one, other) = (slot(&s, 0)?, slot(&s, 1)?);
    let mut beyond = s.views().claim(&other, Epoch(1)).await?;
    write(&s, &other, &mut beyond, 4, Vec::new()).await?;
    let mut claim = s.views().claim(&one, Epoch(1)).await?;
    write(&s, &one, &mut claim, 5, Vec::new()).await?;
    let result = s.views().adopt(&one, claim, &second_life()?).await;
    refused!(result, ViewWriteError::Diverged { diverged, .. } if diverged.partition == Partition(1))?;
    let unknown = Lineage::first(Epoch(9));
    let result = s.views().adopt(&one, claim, &unknown).await;
    refused!(result, ViewWriteError::Diverged { diverged, .. } if !diverged.known)?;
    let found = some("an answer", s.views().reached(&view()?, s.store().info().id).await?)?;
    same("the life it was built in", found.epoch, Epoch(1))
}

pub(super) async fn a_cleared_view_has_nothing_and_says_how_far_it_has_to_come(s: Subject) -> Kept {
    let store = s.store().info().id;
    let (one, other) = (slot(&s, 0)?, slot(&s, 1)?);
    let mut claim = s.views().claim(&one, Epoch(1)).await?;
    write(&s, &one, &mut claim, 7, vec![document("a", 0, 1)?, tombstone("b", 0, 1)?]).await?;
    let mut old = s.views().claim(&other, Epoch(1)).await?;
    write(&s, &other, &mut old, 2, vec![document("c", 0, 1)?]).await?;
    let until = Reached { epoch: Epoch(9), positions: BTreeMap::from([(Partition(2), at(4)?)]) };
    let mut cleared = s.views().clear(&one, claim, &until, "restored").await?;
    same("the claim", (cleared.store_epoch, cleared.position), (Epoch(9), None))?;
    for key in ["a", "b", "c"] {
        same("a document", read(&s, key).await?, None)?;
    }
    let found = some("an answer", s.views().reached(&view()?, store).await?)?;
    let healing = Healing { reason: "restored".into(), until: until.positions.clone() };
    same(
        "reached",
        found,
        ViewReached { epoch: Epoch(9), positions: BTreeMap::new(), healing: Some(healing) },
    )?;
    write(&s, &one, &mut cleared, 1, vec![document("a", 0, 1)?]).await?;
    let aim = slot(&s, 2)?;
    let mut claim = s.views().claim(&aim, Epoch(9)).await?;
    write(&s, &aim, &mut claim, 4, Vec::new()).await?;
    let found = some("an answer", s.views().reached(&view()?, store).await?)?;
    same("healing when it is through", found.healing, None)
}

pub(super) async fn clearing_a_view_fences_everybody_else_and_no_other_view(s: Subject) -> Kept {
    let (one, other) = (slot(&s, 0)?, slot(&s, 1)?);
    let stale = s.views().claim(&one, Epoch(1)).await?;
    let claim = s.views().claim(&one, Epoch(1)).await?;
    let neighbour = s.views().claim(&other, Epoch(1)).await?;
    let next = ViewSlot { view: ViewName { generation: 2, ..view()? }, ..one.clone() };
    let aside = s.views().claim(&next, Epoch(1)).await?;
    s.views().write(ViewBatch::new(next.clone(), aside, at(1)?, vec![document("a", 0, 1)?])).await?;
    let until = Reached { epoch: Epoch(1), positions: BTreeMap::new() };
    let result = s.views().clear(&one, stale, &until, "again").await;
    refused!(result, ViewWriteError::Fenced { .. })?;
    s.views().clear(&one, claim, &until, "again").await?;
    for (slot, claim) in [(&one, claim), (&other, neighbour)] {
        let result = s.views().write(batch(slot, claim, 1, Vec::new())?).await;
        refused!(result, ViewWriteError::Fenced { .. })?;
    }
    let kept = s.views().documents(&next.view, &["a".to_owned()]).await?;
    ensure("the next generation keeps its document", matches!(kept.as_slice(), [Some(_)]), kept)
}
