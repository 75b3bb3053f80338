//! A process that dies at its n-th step, before or after the step has had its effect.

use highwater_core::*;
use highwater_testkit::{Delegate, DelegateCells, DelegateQueue, DelegateStore};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// When a process dies, and what it did until then.
pub(crate) struct Dying {
    step: usize,
    after: bool,
    done: Mutex<Vec<String>>,
}

impl Dying {
    /// Lets `step` operations go by, then dies before or after the next one has had its effect.
    pub(crate) fn at(step: usize, after: bool) -> Arc<Self> {
        Arc::new(Self { step, after, done: Mutex::default() })
    }

    /// What a process that dies sees of a backend.
    pub(crate) fn backend(self: &Arc<Self>, whole: &Backend) -> Backend {
        Backend {
            store: Arc::new(Delegate(Mortal(self.clone(), whole.store.clone()))),
            queue: Arc::new(Delegate(Mortal(self.clone(), whole.queue.clone()))),
            cells: Arc::new(Delegate(Mortal(self.clone(), whole.cells.clone()))),
            views: whole.views.clone(),
        }
    }

    /// The step at which it died.
    pub(crate) fn last(&self) -> String {
        let done = self.done.lock().unwrap();
        done.get(self.step)
            .map_or_else(|| format!("alive after {} steps", done.len()), |step| format!("`{step}`"))
    }

    /// Whether a cell of this space was written.
    pub(crate) fn has_written(&self, space: &str) -> bool {
        let written = if self.after { self.step + 1 } else { self.step };
        self.done.lock().unwrap().iter().take(written).any(|step| *step == format!("write {space}"))
    }

    /// Does an operation, if it is still alive.
    async fn act<T, E: From<EngineError>>(
        &self,
        what: String,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let number = {
            let mut done = self.done.lock().unwrap();
            done.push(what);
            done.len() - 1
        };
        let dead = || Err(EngineError::new(FailureKind::Closed, "the process is dead").into());
        if number > self.step || (number == self.step && !self.after) {
            return dead();
        }
        let result = work.await;
        if number == self.step { dead() } else { result }
    }

    /// Does what is no step of its own: heartbeats and leases.
    async fn aside<T, E: From<EngineError>>(&self, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        if self.done.lock().unwrap().len() > self.step {
            return Err(EngineError::new(FailureKind::Closed, "the process is dead").into());
        }
        work.await
    }
}

struct Mortal<T: ?Sized>(Arc<Dying>, Arc<T>);

#[async_trait]
impl DelegateStore for Mortal<dyn Store> {
    fn right(&self) -> &dyn Store {
        &*self.1
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, CommitError> {
        self.0.act("commit".into(), self.1.commit(batch)).await
    }

    async fn decided(&self, key: &PartitionKey, id: CommandId) -> Result<Option<Decided>, ReadError> {
        self.0.act("decided".into(), self.1.decided(key, id)).await
    }
}

#[async_trait]
impl DelegateQueue for Mortal<dyn Queue> {
    fn right(&self) -> &dyn Queue {
        &*self.1
    }

    async fn put(&self, queue: &Name, message: NewMessage) -> Result<Put, PutError> {
        self.0.act("put".into(), self.1.put(queue, message)).await
    }

    async fn get(&self, queue: &Name, max: usize, visibility: Duration) -> Result<Vec<Delivery>, GetError> {
        self.0.act("get".into(), self.1.get(queue, max, visibility)).await
    }

    async fn delete(&self, receipt: &Receipt) -> Result<(), ReceiptError> {
        self.0.act("delete".into(), self.1.delete(receipt)).await
    }
}

/// Cells that belong to what is tried; the others are those of leases and heartbeats.
fn counts(key: &CellKey) -> bool {
    !matches!(key.space.as_str(), "leases" | "instances")
}

#[async_trait]
impl DelegateCells for Mortal<dyn Cells> {
    fn right(&self) -> &dyn Cells {
        &*self.1
    }

    async fn read(&self, key: &CellKey) -> Result<Option<Cell>, ReadError> {
        match counts(key) {
            true => self.0.act(format!("read {}", key.space), self.1.read(key)).await,
            false => self.0.aside(self.1.read(key)).await,
        }
    }

    async fn write(&self, write: CellWrite) -> Result<ETag, CellError> {
        match counts(&write.key) {
            true => self.0.act(format!("write {}", write.key.space), self.1.write(write)).await,
            false => self.0.aside(self.1.write(write)).await,
        }
    }

    async fn delete(&self, key: &CellKey, expect: Expect) -> Result<(), CellError> {
        match counts(key) {
            true => self.0.act(format!("delete {}", key.space), self.1.delete(key, expect)).await,
            false => self.0.aside(self.1.delete(key, expect)).await,
        }
    }
}
