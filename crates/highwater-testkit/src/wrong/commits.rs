//! Stores whose commits are wrong.

use crate::TestClock;
use crate::delegate::{DelegateStore, Gap, lock, with_store};
use highwater_core::*;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

/// What a condition on an item would find.
async fn found(right: &dyn Store, key: &ItemKey) -> Result<Found, CommitError> {
    Ok(match right.item(key).await {
        Ok(None) => Found::Nothing,
        Ok(Some(item)) if item.exists => Found::Item(item.etag),
        Ok(Some(item)) => Found::Gone(item.etag),
        Err(ReadError::Engine(error)) => return Err(error.into()),
        Err(error) => return Err(EngineError::new(FailureKind::Other, error.to_string()).into()),
    })
}

struct IgnoresETags(Arc<dyn Store>);

#[async_trait]
impl DelegateStore for IgnoresETags {
    fn right(&self) -> &dyn Store {
        &*self.0
    }

    async fn commit(&self, mut batch: Batch) -> Result<Committed, CommitError> {
        for index in 0..batch.writes.len() {
            let Some(key) = batch.writes.get(index).map(|write| batch.key(write)) else { continue };
            let there = matches!(found(self.right(), &key).await?, Found::Item(_));
            if let Some(write) = batch.writes.get_mut(index)
                && there
                && matches!(write.expect, Expect::ETag(_))
            {
                write.expect = Expect::Any;
            }
        }
        self.right().commit(batch).await
    }
}

pub(super) fn ignores_etags(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_store(right, IgnoresETags(right.store.clone()))
}

struct KeepsTheWritesBefore(Arc<dyn Store>);

#[async_trait]
impl DelegateStore for KeepsTheWritesBefore {
    fn right(&self) -> &dyn Store {
        &*self.0
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, CommitError> {
        let result = self.right().commit(batch.clone()).await;
        if let Err(CommitError::Conflict { key, .. } | CommitError::NotFound { key }) = &result {
            let mut before = batch.clone();
            before.writes =
                batch.writes.iter().take_while(|write| batch.key(write) != *key).cloned().collect();
            if !before.writes.is_empty() {
                self.right().commit(before).await?;
            }
        }
        result
    }
}

pub(super) fn keeps_the_writes_before_a_failed_condition(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_store(right, KeepsTheWritesBefore(right.store.clone()))
}

/// Reports versions that start again after a deletion, and understands its own ETags.
struct StartsAgain {
    right: Arc<dyn Store>,
    items: Mutex<HashMap<ItemKey, Counted>>,
}

#[derive(Default)]
struct Counted {
    /// The version at which counting started again.
    start: u64,
    deleted: bool,
    /// The version reported for each true one.
    reported: HashMap<u64, u64>,
}

impl StartsAgain {
    fn write(&self, key: ItemKey, op: &Op, etag: ETag) -> ETag {
        let mut items = lock(&self.items);
        let item = items.entry(key).or_default();
        let version = etag.version.get();
        if item.deleted && matches!(op, Op::Put(_)) {
            item.start = version - 1;
        }
        item.deleted = *op == Op::Delete;
        item.reported.insert(version, version - item.start);
        Self::with(etag, version - item.start)
    }

    fn show(&self, key: &ItemKey, etag: ETag) -> ETag {
        let items = lock(&self.items);
        let reported = items.get(key).and_then(|item| item.reported.get(&etag.version.get()));
        Self::with(etag, reported.copied().unwrap_or(etag.version.get()))
    }

    /// The newest true version that was reported as this one.
    fn truth(&self, key: &ItemKey, etag: ETag) -> ETag {
        let items = lock(&self.items);
        let reported = items.get(key).map(|item| &item.reported);
        let same = reported.into_iter().flatten().filter(|(_, shown)| **shown == etag.version.get());
        Self::with(etag, same.map(|(version, _)| *version).max().unwrap_or(etag.version.get()))
    }

    fn with(etag: ETag, version: u64) -> ETag {
        ETag { version: Version::new(version).unwrap_or(etag.version), ..etag }
    }
}

#[async_trait]
impl DelegateStore for StartsAgain {
    fn right(&self) -> &dyn Store {
        &*self.right
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, CommitError> {
        let mut asked = batch.clone();
        for write in &mut asked.writes {
            if let Expect::ETag(etag) = write.expect {
                write.expect = Expect::ETag(self.truth(&batch.key(write), etag));
            }
        }
        match self.right().commit(asked).await {
            Ok(mut committed) if !committed.replayed => {
                for (write, etag) in batch.writes.iter().zip(&mut committed.etags) {
                    *etag = self.write(batch.key(write), &write.op, *etag);
                }
                Ok(committed)
            }
            Err(CommitError::Conflict { key, found, .. }) => {
                let found = match found {
                    Found::Nothing => Found::Nothing,
                    Found::Gone(etag) => Found::Gone(self.show(&key, etag)),
                    Found::Item(etag) => Found::Item(self.show(&key, etag)),
                };
                let write = batch.writes.iter().find(|write| batch.key(write) == key);
                let expected = write.map_or(Expect::Any, |write| write.expect);
                Err(CommitError::Conflict { key, expected, found })
            }
            other => other,
        }
    }

    async fn item(&self, key: &ItemKey) -> Result<Option<Item>, ReadError> {
        let item = self.right().item(key).await?;
        Ok(item.map(|mut item| {
            item.etag = self.show(key, item.etag);
            item
        }))
    }
}

pub(super) fn starts_versions_again_after_a_deletion(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_store(right, StartsAgain { right: right.store.clone(), items: Mutex::default() })
}

/// Where a condition of one kind holds, drops it, lets others go first and writes.
struct ChecksFirst {
    right: Arc<dyn Store>,
    concerns: fn(Expect) -> bool,
    gap: Gap,
}

#[async_trait]
impl DelegateStore for ChecksFirst {
    fn right(&self) -> &dyn Store {
        &*self.right
    }

    async fn commit(&self, mut batch: Batch) -> Result<Committed, CommitError> {
        for index in 0..batch.writes.len() {
            let Some(key) = batch.writes.get(index).map(|write| batch.key(write)) else { continue };
            let found = found(self.right(), &key).await?;
            if let Some(write) = batch.writes.get_mut(index)
                && (self.concerns)(write.expect)
                && found.fits(write.expect)
            {
                write.expect = Expect::Any;
                self.gap.cross().await;
            }
        }
        self.right().commit(batch).await
    }
}

pub(super) fn checks_an_etag_before_it_writes(right: &Backend, _: &Arc<TestClock>) -> Backend {
    let concerns = |expect| matches!(expect, Expect::ETag(_));
    with_store(right, ChecksFirst { right: right.store.clone(), concerns, gap: Gap::default() })
}

pub(super) fn checks_absence_before_it_writes(right: &Backend, _: &Arc<TestClock>) -> Backend {
    let concerns = |expect| expect == Expect::Absent;
    with_store(right, ChecksFirst { right: right.store.clone(), concerns, gap: Gap::default() })
}
