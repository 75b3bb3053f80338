//! Stores whose log is read wrongly.

use crate::TestClock;
use crate::delegate::{DelegateStore, breathe, lock, with_store};
use highwater_core::*;
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
};

/// Hides a commit until a reader has got past it, or for a while if there is no reader.
struct LateArrivals {
    right: Arc<dyn Store>,
    shown: Mutex<HashSet<(Partition, Position)>>,
    /// What a reader has got past without seeing it.
    missed: Mutex<HashSet<(Partition, Position)>>,
}

#[async_trait]
impl DelegateStore for LateArrivals {
    fn right(&self) -> &dyn Store {
        &*self.right
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, CommitError> {
        let committed = self.right().commit(batch.clone()).await?;
        let partition = self.right().info().partition_of(&batch.partition_key);
        let reached = committed.token.of(self.right().info().id);
        let last = reached.and_then(|reached| reached.positions.get(&partition));
        if let Some(last) = last.filter(|_| !committed.replayed) {
            for _ in 0..200 {
                if lock(&self.missed).contains(&(partition, *last)) {
                    break;
                }
                breathe().await;
            }
            let first = (last.get() + 1).saturating_sub(batch.writes.len() as u64);
            let places = (first..=last.get()).filter_map(Position::new);
            lock(&self.shown).extend(places.map(|position| (partition, position)));
        }
        Ok(committed)
    }

    async fn changes(&self, request: &ChangeRequest) -> Result<ChangePage, FeedError> {
        let mut page = self.right().changes(request).await?;
        let (shown, mut missed) = (lock(&self.shown), lock(&self.missed));
        page.changes.retain(|change| {
            let place = (change.partition, change.position);
            // Nobody waits for the commit of an expiry.
            let shown = shown.contains(&place) || change.op == ChangeOp::EXPIRE;
            if !shown {
                missed.insert(place);
            }
            shown
        });
        Ok(page)
    }
}

pub(super) fn lets_changes_arrive_late(right: &Backend, _: &Arc<TestClock>) -> Backend {
    let (shown, missed) = (Mutex::default(), Mutex::default());
    with_store(right, LateArrivals { right: right.store.clone(), shown, missed })
}

struct ScansPast(Arc<dyn Store>);

#[async_trait]
impl DelegateStore for ScansPast {
    fn right(&self) -> &dyn Store {
        &*self.0
    }

    async fn changes(&self, request: &ChangeRequest) -> Result<ChangePage, FeedError> {
        let mut page = self.right().changes(request).await?;
        if !page.at_end && !page.changes.is_empty() {
            let rest = ChangeRequest::new(request.partition, page.scanned, usize::MAX / 2);
            page.scanned = self.right().changes(&rest).await?.scanned;
        }
        Ok(page)
    }
}

pub(super) fn scans_past_what_it_returned(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_store(right, ScansPast(right.store.clone()))
}

/// Looks at as many changes as asked for, fit or not, which is allowed; then says it looked at more.
struct JumpsOver(Arc<dyn Store>);

#[async_trait]
impl DelegateStore for JumpsOver {
    fn right(&self) -> &dyn Store {
        &*self.0
    }

    async fn changes(&self, request: &ChangeRequest) -> Result<ChangePage, FeedError> {
        if request.containers.is_empty() {
            return self.right().changes(request).await;
        }
        let all = ChangeRequest::new(request.partition, request.after, request.max);
        let mut page = self.right().changes(&all).await?;
        page.changes.retain(|change| {
            let of_key = request.partition_key.as_ref().is_none_or(|key| *key == change.key.partition_key);
            of_key && request.containers.contains(&change.key.container)
        });
        if page.changes.is_empty() && !page.at_end {
            let next = ChangeRequest::new(request.partition, page.scanned, 1);
            page.scanned = self.right().changes(&next).await?.scanned;
        }
        Ok(page)
    }
}

pub(super) fn jumps_over_pages_without_a_fit(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_store(right, JumpsOver(right.store.clone()))
}

struct StandsStill(Arc<dyn Store>);

#[async_trait]
impl DelegateStore for StandsStill {
    fn right(&self) -> &dyn Store {
        &*self.0
    }

    async fn changes(&self, request: &ChangeRequest) -> Result<ChangePage, FeedError> {
        let mut page = self.right().changes(request).await?;
        if page.changes.is_empty() {
            page.scanned = request.after;
        }
        Ok(page)
    }
}

pub(super) fn stands_still_on_pages_without_a_fit(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_store(right, StandsStill(right.store.clone()))
}

struct SplitsCommits(Arc<dyn Store>);

#[async_trait]
impl DelegateStore for SplitsCommits {
    fn right(&self) -> &dyn Store {
        &*self.0
    }

    async fn changes(&self, request: &ChangeRequest) -> Result<ChangePage, FeedError> {
        let mut page = self.right().changes(request).await?;
        if page.changes.len() > request.max {
            page.changes.truncate(request.max);
            page.scanned = page.changes.last().map(|change| change.position).or(request.after);
            page.at_end = false;
        }
        Ok(page)
    }
}

pub(super) fn splits_commits(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_store(right, SplitsCommits(right.store.clone()))
}

struct FollowsTheClock {
    right: Arc<dyn Store>,
    clock: Arc<TestClock>,
    times: Mutex<HashMap<(Partition, Position), Timestamp>>,
}

#[async_trait]
impl DelegateStore for FollowsTheClock {
    fn right(&self) -> &dyn Store {
        &*self.right
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, CommitError> {
        let (at, partition) = (self.clock.now(), self.right().info().partition_of(&batch.partition_key));
        let committed = self.right().commit(batch).await?;
        let reached = committed.token.of(self.right().info().id);
        if let Some(last) = reached.and_then(|reached| reached.positions.get(&partition)) {
            lock(&self.times).entry((partition, *last)).or_insert(at);
        }
        Ok(committed)
    }

    async fn changes(&self, request: &ChangeRequest) -> Result<ChangePage, FeedError> {
        let mut page = self.right().changes(request).await?;
        let times = lock(&self.times);
        for change in &mut page.changes {
            change.at = times.get(&(change.partition, change.commit_end())).copied().unwrap_or(change.at);
        }
        Ok(page)
    }
}

pub(super) fn follows_the_clock_backwards(right: &Backend, clock: &Arc<TestClock>) -> Backend {
    let (right_store, clock) = (right.store.clone(), clock.clone());
    with_store(right, FollowsTheClock { right: right_store, clock, times: Mutex::default() })
}
