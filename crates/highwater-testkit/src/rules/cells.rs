//! Small records with conditional writes.

use crate::{
    Broken, Subject,
    broken::{Given, Kept, ensure, refused, same, some},
    sample::{hostile_keys, json, name},
};
use highwater_core::*;

fn cell(key: &str) -> Result<CellKey, Broken> {
    Ok(CellKey::new(name("leases")?, key))
}

async fn write(s: &Subject, key: &CellKey, expect: Expect, n: u64) -> Result<ETag, CellError> {
    let value = json(n).map_err(|broken| EngineError::new(FailureKind::Other, broken.to_string()))?;
    s.cells().write(CellWrite::new(key.clone(), expect, value)).await
}

pub(super) async fn a_cell_is_read_as_it_was_written(s: Subject) -> Kept {
    let key = cell("a")?;
    same("a cell that was never written", s.cells().read(&key).await?, None)?;
    let etag = write(&s, &key, Expect::Any, 1).await?;
    same("the cell", s.cells().read(&key).await?, Some(Cell::new(key.clone(), etag, json(1)?)))?;
    let elsewhere = CellKey::new(name("other")?, "a");
    same("the same key in another space", s.cells().read(&elsewhere).await?, None)?;
    let next = write(&s, &key, Expect::Any, 1).await?;
    ensure("another ETag for the same content", next != etag, next)
}

pub(super) async fn a_cell_is_created_once(s: Subject) -> Kept {
    let key = cell("a")?;
    let first = write(&s, &key, Expect::Absent, 1).await?;
    let again = write(&s, &key, Expect::Absent, 2).await;
    refused!(again, CellError::Conflict { key: named, found: Found::Item(etag) }
        if named == key && etag == first)?;
    same("its value", s.cells().read(&key).await?.map(|cell| cell.value), Some(json(1)?))
}

pub(super) async fn a_write_of_a_cell_with_an_outdated_etag_is_a_conflict(s: Subject) -> Kept {
    let key = cell("a")?;
    let old = write(&s, &key, Expect::Any, 1).await?;
    let current = write(&s, &key, Expect::ETag(old), 2).await?;
    let stale = write(&s, &key, Expect::ETag(old), 3).await;
    refused!(stale, CellError::Conflict { found: Found::Item(etag), .. } if etag == current)?;
    same("its value", s.cells().read(&key).await?.map(|cell| cell.value), Some(json(2)?))?;
    let never = write(&s, &cell("b")?, Expect::ETag(old), 1).await;
    refused!(never, CellError::Conflict { found: Found::Nothing, .. })
}

pub(super) async fn a_write_of_a_cell_that_must_exist_is_refused_without_one(s: Subject) -> Kept {
    let key = cell("a")?;
    refused!(write(&s, &key, Expect::Exists, 1).await, CellError::Conflict { found: Found::Nothing, .. })?;
    write(&s, &key, Expect::Any, 1).await?;
    write(&s, &key, Expect::Exists, 2).await?;
    Ok(())
}

pub(super) async fn a_cell_is_deleted_under_a_condition(s: Subject) -> Kept {
    let key = cell("a")?;
    s.cells().delete(&key, Expect::Any).await?;
    refused!(s.cells().delete(&key, Expect::Exists).await, CellError::Conflict { .. })?;
    let old = write(&s, &key, Expect::Any, 1).await?;
    let current = write(&s, &key, Expect::Any, 2).await?;
    let stale = s.cells().delete(&key, Expect::ETag(old)).await;
    refused!(stale, CellError::Conflict { found: Found::Item(etag), .. } if etag == current)?;
    ensure("the cell after a refused deletion", s.cells().read(&key).await?.is_some(), "nothing")?;
    s.cells().delete(&key, Expect::ETag(current)).await?;
    same("the cell after its deletion", s.cells().read(&key).await?, None)?;
    same("the list", s.cells().list(&name("leases")?, None, 10).await?, Vec::new())?;
    write(&s, &key, Expect::Absent, 3).await?;
    Ok(())
}

pub(super) async fn the_versions_of_a_cell_go_on_after_its_deletion(s: Subject) -> Kept {
    let key = cell("a")?;
    let first = write(&s, &key, Expect::Any, 1).await?;
    let second = write(&s, &key, Expect::Any, 1).await?;
    s.cells().delete(&key, Expect::Any).await?;
    let third = write(&s, &key, Expect::Any, 1).await?;
    ensure("a later version", third.version > second.version, (second, third))?;
    s.cells().delete(&key, Expect::Any).await?;
    let fourth = write(&s, &key, Expect::Any, 1).await?;
    ensure("a later version", fourth.version > third.version, (third, fourth))?;
    for old in [first, second, third] {
        refused!(write(&s, &key, Expect::ETag(old), 2).await, CellError::Conflict { .. }).given()?;
    }
    Ok(())
}

pub(super) async fn cells_are_listed_in_pages_by_key(s: Subject) -> Kept {
    let space = name("leases")?;
    let mut keys = hostile_keys();
    keys.extend(["b", "c", "B"].map(String::from));
    for key in &keys {
        write(&s, &cell(key)?, Expect::Absent, 1).await?;
    }
    s.cells().write(CellWrite::new(CellKey::new(name("other")?, "b"), Expect::Any, json(1)?)).await?;
    keys.sort();
    let (mut found, mut after): (Vec<String>, Option<String>) = (Vec::new(), None);
    loop {
        let page = s.cells().list(&space, after.as_deref(), 4).await?;
        ensure("at most four", page.len() <= 4, page.len())?;
        found.extend(page.iter().map(|cell| cell.key.key.clone()));
        if page.len() < 4 || found.len() > keys.len() {
            break;
        }
        after = found.last().cloned();
    }
    same("all pages", found, keys)?;
    let first = some("a cell", s.cells().list(&space, None, 1).await?.into_iter().next())?;
    same("a listed cell", s.cells().read(&first.key).await?, Some(first))
}

pub(super) async fn cells_survive_opening_again(s: Subject) -> Kept {
    let (kept, gone) = (cell("a")?, cell("b")?);
    write(&s, &kept, Expect::Any, 1).await?;
    let old = write(&s, &gone, Expect::Any, 1).await?;
    s.cells().delete(&gone, Expect::Any).await?;
    let before = s.cells().read(&kept).await?;
    let s = s.reopen().await?;
    same("the cell", s.cells().read(&kept).await?, before)?;
    let again = write(&s, &gone, Expect::Any, 1).await?;
    ensure("a later version of the deleted one", again.version > old.version, (old, again))
}
