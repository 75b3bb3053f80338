//! Stores that decide commands wrongly.

use crate::TestClock;
use crate::delegate::{DelegateStore, Gap, lock, with_store};
use highwater_core::*;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

/// The decision on the command of a batch.
async fn decided(right: &dyn Store, batch: &Batch) -> Option<Decided> {
    let mark = batch.command.as_ref()?;
    right.decided(&batch.partition_key, mark.id).await.ok().flatten()
}

fn without_command(batch: &Batch) -> Batch {
    Batch::new(batch.partition_key.clone(), batch.writes.clone())
}

fn is_same(batch: &Batch, first: &Decided) -> bool {
    batch.command.as_ref().is_some_and(|mark| mark.fingerprint == first.mark.fingerprint)
}

struct WritesAgain(Arc<dyn Store>);

#[async_trait]
impl DelegateStore for WritesAgain {
    fn right(&self) -> &dyn Store {
        &*self.0
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, CommitError> {
        match decided(self.right(), &batch).await {
            Some(first) if is_same(&batch, &first) => {
                // Refused by its conditions, perhaps; the answer is the same.
                let _ = self.right().commit(without_command(&batch)).await;
                Ok(Committed::replayed(first))
            }
            _ => self.right().commit(batch).await,
        }
    }
}

pub(super) fn writes_again_when_a_command_is_replayed(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_store(right, WritesAgain(right.store.clone()))
}

struct LooksAtConditions(Arc<dyn Store>);

#[async_trait]
impl DelegateStore for LooksAtConditions {
    fn right(&self) -> &dyn Store {
        &*self.0
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, CommitError> {
        let Some(first) = decided(self.right(), &batch).await else {
            return self.right().commit(batch).await;
        };
        for write in batch.writes.iter().filter(|_| is_same(&batch, &first)) {
            let key = batch.key(write);
            let found = match self.right().item(&key).await {
                Ok(Some(item)) if item.exists => Found::Item(item.etag),
                Ok(Some(item)) => Found::Gone(item.etag),
                _ => Found::Nothing,
            };
            if !found.fits(write.expect) {
                return Err(CommitError::Conflict { key, expected: write.expect, found });
            }
        }
        self.right().commit(batch).await
    }
}

pub(super) fn looks_at_conditions_before_the_command(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_store(right, LooksAtConditions(right.store.clone()))
}

struct ReturnsTheOldResult(Arc<dyn Store>);

#[async_trait]
impl DelegateStore for ReturnsTheOldResult {
    fn right(&self) -> &dyn Store {
        &*self.0
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, CommitError> {
        match decided(self.right(), &batch).await {
            Some(first) => Ok(Committed::replayed(first)),
            None => self.right().commit(batch).await,
        }
    }
}

pub(super) fn returns_the_old_result_for_other_content(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_store(right, ReturnsTheOldResult(right.store.clone()))
}

struct ForgetsRejections(Arc<dyn Store>);

#[async_trait]
impl DelegateStore for ForgetsRejections {
    fn right(&self) -> &dyn Store {
        &*self.0
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, CommitError> {
        match &batch.command {
            Some(mark)
                if mark.verdict != Verdict::Accepted && decided(self.right(), &batch).await.is_none() =>
            {
                let mut committed = self.right().commit(without_command(&batch)).await?;
                committed.verdict = Some(mark.verdict.clone());
                Ok(committed)
            }
            _ => self.right().commit(batch).await,
        }
    }
}

pub(super) fn forgets_rejections(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_store(right, ForgetsRejections(right.store.clone()))
}

struct UniqueInAPartition {
    right: Arc<dyn Store>,
    first: Mutex<HashMap<(Partition, CommandId), PartitionKey>>,
}

#[async_trait]
impl DelegateStore for UniqueInAPartition {
    fn right(&self) -> &dyn Store {
        &*self.right
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, CommitError> {
        if let Some(mark) = &batch.command {
            let partition = self.right().info().partition_of(&batch.partition_key);
            let mut first = lock(&self.first).get(&(partition, mark.id)).cloned();
            if let Some(other) = first.take_if(|first| *first != batch.partition_key)
                && let Ok(Some(decided)) = self.right().decided(&other, mark.id).await
            {
                return Ok(Committed::replayed(decided));
            }
            let key = batch.partition_key.clone();
            lock(&self.first).entry((partition, mark.id)).or_insert(key);
        }
        self.right().commit(batch).await
    }
}

pub(super) fn takes_ids_as_unique_in_a_partition(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_store(right, UniqueInAPartition { right: right.store.clone(), first: Mutex::default() })
}

struct LooksFirst {
    right: Arc<dyn Store>,
    gap: Gap,
}

#[async_trait]
impl DelegateStore for LooksFirst {
    fn right(&self) -> &dyn Store {
        &*self.right
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, CommitError> {
        let known = decided(self.right(), &batch).await.is_some();
        if batch.command.is_some() && !known {
            self.gap.cross().await;
        }
        let committed = self.right().commit(batch.clone()).await?;
        if committed.replayed && !known {
            // Somebody else came between the look and the commit.
            return self.right().commit(without_command(&batch)).await;
        }
        Ok(committed)
    }
}

pub(super) fn looks_for_the_command_before_it_writes(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_store(right, LooksFirst { right: right.store.clone(), gap: Gap::default() })
}
