//! Stores and cells that mistake what ends in time, and feeds that mistake their mode.

use crate::TestClock;
use crate::delegate::{DelegateCells, DelegateStore, lock, with_cells, with_store};
use highwater_core::*;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

struct ShowsExpired {
    right: Arc<dyn Store>,
    clock: Arc<TestClock>,
    seen: Mutex<HashMap<ItemKey, Item>>,
}

#[async_trait]
impl DelegateStore for ShowsExpired {
    fn right(&self) -> &dyn Store {
        &*self.right
    }

    async fn item(&self, key: &ItemKey) -> Result<Option<Item>, ReadError> {
        let found = self.right().item(key).await?;
        let mut seen = lock(&self.seen);
        if let Some(item) = found.as_ref().filter(|item| item.exists) {
            seen.insert(key.clone(), item.clone());
            return Ok(found);
        }
        let swept = |at: Timestamp| at.plus(Duration::from_secs(1)) < self.clock.now();
        let unswept = seen.get(key).filter(|item| item.expires_at.is_some_and(|at| !swept(at)));
        Ok(unswept.cloned().or(found))
    }
}

pub(super) fn shows_items_until_they_are_swept(right: &Backend, clock: &Arc<TestClock>) -> Backend {
    let (right_store, clock) = (right.store.clone(), clock.clone());
    with_store(right, ShowsExpired { right: right_store, clock, seen: Mutex::default() })
}

struct TakesExpired {
    right: Arc<dyn Store>,
    /// ETags of items with a time to live.
    mortal: Mutex<Vec<ETag>>,
}

#[async_trait]
impl DelegateStore for TakesExpired {
    fn right(&self) -> &dyn Store {
        &*self.right
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, CommitError> {
        let lives: Vec<_> = batch.writes.iter().map(|write| write.time_to_live).collect();
        let mut loose = batch.clone();
        for write in &mut loose.writes {
            if matches!(write.expect, Expect::ETag(etag) if lock(&self.mortal).contains(&etag)) {
                write.expect = Expect::Any;
            }
        }
        let committed = self.right().commit(loose).await?;
        let mortal = committed.etags.iter().zip(lives).filter(|(_, life)| life.is_some());
        lock(&self.mortal).extend(mortal.map(|(etag, _)| *etag));
        Ok(committed)
    }
}

pub(super) fn takes_expired_items_for_living_ones(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_store(right, TakesExpired { right: right.store.clone(), mortal: Mutex::default() })
}

struct KeepsFirstLife {
    right: Arc<dyn Store>,
    first: Mutex<HashMap<ItemKey, Timestamp>>,
}

#[async_trait]
impl DelegateStore for KeepsFirstLife {
    fn right(&self) -> &dyn Store {
        &*self.right
    }

    async fn item(&self, key: &ItemKey) -> Result<Option<Item>, ReadError> {
        let mut found = self.right().item(key).await?;
        if let Some(item) = found.as_mut().filter(|item| item.exists) {
            let mut first = lock(&self.first);
            if let Some(at) = item.expires_at {
                first.entry(key.clone()).or_insert(at);
            }
            item.expires_at = first.get(key).copied();
        }
        Ok(found)
    }
}

pub(super) fn keeps_the_first_life_of_an_item(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_store(right, KeepsFirstLife { right: right.store.clone(), first: Mutex::default() })
}

struct AcceptsAnyLife(Arc<dyn Store>);

#[async_trait]
impl DelegateStore for AcceptsAnyLife {
    fn right(&self) -> &dyn Store {
        &*self.0
    }

    async fn commit(&self, mut batch: Batch) -> Result<Committed, CommitError> {
        for write in &mut batch.writes {
            let longest = self.right().limits().longest_life;
            write.time_to_live = write.time_to_live.map(|span| span.clamp(Limits::SHORTEST_LIFE, longest));
        }
        self.right().commit(batch).await
    }
}

pub(super) fn accepts_any_life(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_store(right, AcceptsAnyLife(right.store.clone()))
}

/// A feed that is read as it should be and then spoiled.
struct Spoiled {
    right: Arc<dyn Store>,
    spoil: fn(&ChangeRequest, Change) -> Option<Change>,
}

#[async_trait]
impl DelegateStore for Spoiled {
    fn right(&self) -> &dyn Store {
        &*self.right
    }

    async fn changes(&self, request: &ChangeRequest) -> Result<ChangePage, FeedError> {
        let mut page = self.right().changes(request).await?;
        page.changes = page.changes.into_iter().filter_map(|change| (self.spoil)(request, change)).collect();
        Ok(page)
    }
}

pub(super) fn writes_over_expired_items_in_silence(right: &Backend, _: &Arc<TestClock>) -> Backend {
    let spoil = |_: &ChangeRequest, change: Change| Some(change).filter(|c| c.op != ChangeOp::EXPIRE);
    with_store(right, Spoiled { right: right.store.clone(), spoil })
}

pub(super) fn shows_kept_documents_without_their_body(right: &Backend, _: &Arc<TestClock>) -> Backend {
    let spoil = |request: &ChangeRequest, mut change: Change| {
        if request.mode == FeedMode::Latest && !change.events.is_empty() {
            change.op = ChangeOp::Keep;
        }
        Some(change)
    };
    with_store(right, Spoiled { right: right.store.clone(), spoil })
}

pub(super) fn gives_the_body_after_a_change_as_the_one_before(
    right: &Backend,
    _: &Arc<TestClock>,
) -> Backend {
    let spoil = |request: &ChangeRequest, mut change: Change| {
        if let (true, ChangeOp::Put(body)) = (request.previous, &change.op) {
            change.previous = Some(body.clone());
        }
        Some(change)
    };
    with_store(right, Spoiled { right: right.store.clone(), spoil })
}

struct ShowsDeletions(Arc<dyn Store>);

#[async_trait]
impl DelegateStore for ShowsDeletions {
    fn right(&self) -> &dyn Store {
        &*self.0
    }

    async fn changes(&self, request: &ChangeRequest) -> Result<ChangePage, FeedError> {
        let mut page = self.right().changes(request).await?;
        if request.mode == FeedMode::Latest {
            let every = self.right().changes(&request.clone().mode(FeedMode::AllVersions)).await?;
            page.changes.extend(every.changes.into_iter().filter(|change| change.op == ChangeOp::DELETE));
            page.changes.sort_by_key(|change| change.position);
        }
        Ok(page)
    }
}

pub(super) fn shows_deletions_in_the_latest_mode(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_store(right, ShowsDeletions(right.store.clone()))
}

struct ShowsMarked {
    right: Arc<dyn Store>,
    /// What was shown and has a time to live.
    mortal: Mutex<Vec<Change>>,
}

#[async_trait]
impl DelegateStore for ShowsMarked {
    fn right(&self) -> &dyn Store {
        &*self.right
    }

    async fn changes(&self, request: &ChangeRequest) -> Result<ChangePage, FeedError> {
        let mut page = self.right().changes(request).await?;
        if request.mode == FeedMode::Latest {
            let mut mortal = lock(&self.mortal);
            for change in page.changes.iter().filter(|change| change.expires_at.is_some()) {
                mortal.retain(|known| known.key != change.key);
                mortal.push(change.clone());
            }
            if page.changes.is_empty() {
                page.changes.clone_from(&mortal);
            }
        }
        Ok(page)
    }
}

pub(super) fn shows_expired_items_in_the_latest_mode(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_store(right, ShowsMarked { right: right.store.clone(), mortal: Mutex::default() })
}

struct ListsExpired {
    right: Arc<dyn Cells>,
    listed: Mutex<HashMap<CellKey, Cell>>,
}

#[async_trait]
impl DelegateCells for ListsExpired {
    fn right(&self) -> &dyn Cells {
        &*self.right
    }

    async fn list(&self, space: &Name, after: Option<&str>, max: usize) -> Result<Vec<Cell>, ReadError> {
        let mut cells = self.right().list(space, after, max).await?;
        let mut listed = lock(&self.listed);
        for cell in cells.iter().filter(|cell| cell.expires_at.is_some()) {
            listed.insert(cell.key.clone(), cell.clone());
        }
        if cells.is_empty() {
            cells.extend(listed.values().filter(|cell| cell.key.space == *space).cloned());
        }
        Ok(cells)
    }
}

pub(super) fn lists_expired_cells(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_cells(right, ListsExpired { right: right.cells.clone(), listed: Mutex::default() })
}

struct ForgetsCommands {
    right: Arc<dyn Store>,
    clock: Arc<TestClock>,
    decided: Mutex<HashMap<CommandId, Timestamp>>,
}

#[async_trait]
impl DelegateStore for ForgetsCommands {
    fn right(&self) -> &dyn Store {
        &*self.right
    }

    async fn commit(&self, mut batch: Batch) -> Result<Committed, CommitError> {
        if let Some(id) = batch.command.as_ref().map(|mark| mark.id) {
            let now = self.clock.now();
            let at = *lock(&self.decided).entry(id).or_insert(now);
            let week = Duration::from_secs(7 * 24 * 60 * 60);
            batch.command = batch.command.filter(|_| at.plus(week) > now);
        }
        self.right().commit(batch).await
    }
}

pub(super) fn forgets_commands_after_a_week(right: &Backend, clock: &Arc<TestClock>) -> Backend {
    let (store, clock) = (right.store.clone(), clock.clone());
    with_store(right, ForgetsCommands { right: store, clock, decided: Mutex::default() })
}
