use crate::{Broken, Factory, TestClock, broken::some, sample};
use highwater_core::*;
use std::{sync::Arc, time::Duration};

/// What a rule is checked against: a fresh backend, its clock and a seed.
#[derive(Clone)]
pub struct Subject {
    /// The backend.
    pub backend: Backend,
    /// The clock it runs on.
    pub clock: Arc<TestClock>,
    /// For rules that do something random.
    pub seed: u64,
    factory: Arc<dyn Factory>,
}

/// More changes than any rule writes: a page of this size is never cut.
pub(crate) const ALL: usize = 1_000_000;

impl Subject {
    /// A backend ready to be checked.
    pub fn new(backend: Backend, clock: Arc<TestClock>, seed: u64, factory: Arc<dyn Factory>) -> Self {
        Self { backend, clock, seed, factory }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.backend.store
    }

    pub(crate) fn queue(&self) -> &dyn Queue {
        &*self.backend.queue
    }

    pub(crate) fn cells(&self) -> &dyn Cells {
        &*self.backend.cells
    }

    pub(crate) fn views(&self) -> &dyn ViewStore {
        &*self.backend.views
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    pub(crate) async fn reopen(self) -> Result<Self, Broken> {
        let Self { backend, clock, seed, factory } = self;
        let backend = factory.reopen(backend, clock.clone()).await;
        let backend = backend.map_err(|problem| Broken::new("to be opened again", problem.to_string()))?;
        Ok(Self { backend, clock, seed, factory })
    }

    pub(crate) async fn hold_next_commit(&self) -> Result<Box<dyn crate::Held>, Broken> {
        let held = self.factory.hold_next_commit(&self.backend).await;
        held.map_err(|problem| Broken::new("a commit held open", problem.to_string()))
    }

    /// Commits one write.
    pub(crate) async fn write(
        &self,
        key: &ItemKey,
        op: Op,
        expect: Expect,
    ) -> Result<Committed, CommitError> {
        let write = sample::write(key, op).expect(expect);
        self.store().commit(Batch::new(key.partition_key.clone(), vec![write])).await
    }

    /// Puts `{"n": …}` unconditionally and returns the ETag.
    pub(crate) async fn put(&self, key: &ItemKey, n: u64) -> Result<ETag, Broken> {
        let committed = self.write(key, Op::Put(sample::body(n)?), Expect::Any).await?;
        some("an ETag for the only write", committed.etags.first().copied())
    }

    /// Reads an item that was written.
    pub(crate) async fn item(&self, key: &ItemKey) -> Result<Item, Broken> {
        some("an item that was written", self.store().item(key).await?)
    }

    /// The partition of a key.
    pub(crate) fn partition(&self, key: &PartitionKey) -> Partition {
        self.store().info().partition_of(key)
    }

    /// Everything in the partition of a key, in one page.
    pub(crate) async fn log(&self, key: &PartitionKey) -> Result<Vec<Change>, Broken> {
        let request = ChangeRequest::new(self.partition(key), None, ALL);
        Ok(self.store().changes(&request).await?.changes)
    }

    /// The position up to which a token asks for the partition of a key.
    pub(crate) fn reached(&self, token: &Token, key: &PartitionKey) -> Option<Position> {
        let reached = token.of(self.store().info().id)?;
        reached.positions.get(&self.partition(key)).copied()
    }

    /// Takes everything visible, for 30 seconds.
    pub(crate) async fn take(&self, queue: &Name) -> Result<Vec<Delivery>, Broken> {
        Ok(self.queue().get(queue, 32, Duration::from_secs(30)).await?)
    }
}
