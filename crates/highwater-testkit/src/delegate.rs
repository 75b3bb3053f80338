//! Engines that pass everything on to another one but for the few operations that they do differently: wrong
//! ones for testing rules, slow, deaf or failing ones for testing applications.

use highwater_core::*;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

/// An engine from one of the traits `DelegateStore`, `DelegateQueue`, `DelegateCells` and `DelegateViews`.
///
/// ```
/// use highwater_core::{Store, Wake, async_trait};
/// use highwater_testkit::{Delegate, DelegateStore};
/// use std::sync::Arc;
///
/// /// A store that never hints at anything.
/// struct Silent(Arc<dyn Store>);
///
/// #[async_trait]
/// impl DelegateStore for Silent {
///     fn right(&self) -> &dyn Store { &*self.0 }
///     fn wake(&self) -> Wake { Wake::never() }
/// }
///
/// fn silent(store: Arc<dyn Store>) -> Arc<dyn Store> { Arc::new(Delegate(Silent(store))) }
/// ```
#[derive(Debug, Clone)]
pub struct Delegate<T>(pub T);

/// A store that does some things differently from [`right`](Self::right).
#[async_trait]
pub trait DelegateStore: Send + Sync + 'static {
    /// The engine that does the rest.
    fn right(&self) -> &dyn Store;

    /// See the trait.
    fn lineage(&self) -> Lineage {
        self.right().lineage()
    }

    /// See the trait.
    async fn commit(&self, batch: Batch) -> Result<Committed, CommitError> {
        self.right().commit(batch).await
    }

    /// See the trait.
    async fn item(&self, key: &ItemKey) -> Result<Option<Item>, ReadError> {
        self.right().item(key).await
    }

    /// See the trait.
    async fn decided(&self, key: &PartitionKey, id: CommandId) -> Result<Option<Decided>, ReadError> {
        self.right().decided(key, id).await
    }

    /// See the trait.
    async fn changes(&self, request: &ChangeRequest) -> Result<ChangePage, FeedError> {
        self.right().changes(request).await
    }

    /// See the trait.
    fn wake(&self) -> Wake {
        self.right().wake()
    }
}

#[async_trait]
impl<T: DelegateStore> Store for Delegate<T> {
    fn info(&self) -> StoreInfo {
        self.0.right().info()
    }

    fn lineage(&self) -> Lineage {
        self.0.lineage()
    }

    fn limits(&self) -> &Limits {
        self.0.right().limits()
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, CommitError> {
        self.0.commit(batch).await
    }

    async fn item(&self, key: &ItemKey) -> Result<Option<Item>, ReadError> {
        self.0.item(key).await
    }

    async fn history(
        &self,
        key: &ItemKey,
        before: Option<Version>,
        max: usize,
    ) -> Result<Vec<Change>, ReadError> {
        self.0.right().history(key, before, max).await
    }

    async fn decided(&self, key: &PartitionKey, command: CommandId) -> Result<Option<Decided>, ReadError> {
        self.0.decided(key, command).await
    }

    async fn changes(&self, request: &ChangeRequest) -> Result<ChangePage, FeedError> {
        self.0.changes(request).await
    }

    async fn position_before(
        &self,
        partition: Partition,
        at: Timestamp,
    ) -> Result<Option<Position>, FeedError> {
        self.0.right().position_before(partition, at).await
    }

    async fn head(&self) -> Result<Token, ReadError> {
        self.0.right().head().await
    }

    fn wake(&self) -> Wake {
        self.0.wake()
    }
}

/// A queue that does some things differently from [`right`](Self::right).
#[async_trait]
pub trait DelegateQueue: Send + Sync + 'static {
    /// The engine that does the rest.
    fn right(&self) -> &dyn Queue;

    /// See the trait.
    async fn put(&self, queue: &Name, message: NewMessage) -> Result<Put, PutError> {
        self.right().put(queue, message).await
    }

    /// See the trait.
    async fn get(&self, queue: &Name, max: usize, visibility: Duration) -> Result<Vec<Delivery>, GetError> {
        self.right().get(queue, max, visibility).await
    }

    /// See the trait.
    async fn peek(&self, queue: &Name, max: usize) -> Result<Vec<Message>, GetError> {
        self.right().peek(queue, max).await
    }

    /// See the trait.
    async fn delete(&self, receipt: &Receipt) -> Result<(), ReceiptError> {
        self.right().delete(receipt).await
    }

    /// See the trait.
    async fn park(&self, receipt: &Receipt, parking: Parking) -> Result<(), ReceiptError> {
        self.right().park(receipt, parking).await
    }

    /// See the trait.
    async fn message(&self, queue: &Name, id: MessageId) -> Result<Option<Message>, GetError> {
        self.right().message(queue, id).await
    }

    /// See the trait.
    async fn parked(
        &self,
        queue: &Name,
        after: Option<MessageId>,
        max: usize,
    ) -> Result<Vec<Parked>, GetError> {
        self.right().parked(queue, after, max).await
    }

    /// See the trait.
    async fn parked_message(&self, queue: &Name, id: MessageId) -> Result<Option<Parked>, GetError> {
        self.right().parked_message(queue, id).await
    }

    /// See the trait.
    async fn clear(&self, queue: &Name) -> Result<u64, GetError> {
        self.right().clear(queue).await
    }

    /// See the trait.
    fn wake(&self) -> Wake {
        self.right().wake()
    }
}

#[async_trait]
impl<T: DelegateQueue> Queue for Delegate<T> {
    fn limits(&self) -> &Limits {
        self.0.right().limits()
    }

    async fn put(&self, queue: &Name, message: NewMessage) -> Result<Put, PutError> {
        self.0.put(queue, message).await
    }

    async fn get(&self, queue: &Name, max: usize, visibility: Duration) -> Result<Vec<Delivery>, GetError> {
        self.0.get(queue, max, visibility).await
    }

    async fn peek(&self, queue: &Name, max: usize) -> Result<Vec<Message>, GetError> {
        self.0.peek(queue, max).await
    }

    async fn update(&self, receipt: &Receipt, update: Update) -> Result<Receipt, ReceiptError> {
        self.0.right().update(receipt, update).await
    }

    async fn delete(&self, receipt: &Receipt) -> Result<(), ReceiptError> {
        self.0.delete(receipt).await
    }

    async fn park(&self, receipt: &Receipt, parking: Parking) -> Result<(), ReceiptError> {
        self.0.park(receipt, parking).await
    }

    async fn message(&self, queue: &Name, message: MessageId) -> Result<Option<Message>, GetError> {
        self.0.message(queue, message).await
    }

    async fn parked(
        &self,
        queue: &Name,
        after: Option<MessageId>,
        max: usize,
    ) -> Result<Vec<Parked>, GetError> {
        self.0.parked(queue, after, max).await
    }

    async fn parked_message(&self, queue: &Name, message: MessageId) -> Result<Option<Parked>, GetError> {
        self.0.parked_message(queue, message).await
    }

    async fn replay(&self, queue: &Name, message: MessageId) -> Result<(), ReplayError> {
        self.0.right().replay(queue, message).await
    }

    async fn discard(&self, queue: &Name, message: MessageId) -> Result<(), ReplayError> {
        self.0.right().discard(queue, message).await
    }

    async fn clear(&self, queue: &Name) -> Result<u64, GetError> {
        self.0.clear(queue).await
    }

    async fn depth(&self, queue: &Name) -> Result<Depth, GetError> {
        self.0.right().depth(queue).await
    }

    fn wake(&self) -> Wake {
        self.0.wake()
    }
}

/// Cells that do some things differently from [`right`](Self::right).
#[async_trait]
pub trait DelegateCells: Send + Sync + 'static {
    /// The engine that does the rest.
    fn right(&self) -> &dyn Cells;

    /// See the trait.
    async fn read(&self, key: &CellKey) -> Result<Option<Cell>, ReadError> {
        self.right().read(key).await
    }

    /// See the trait.
    async fn write(&self, write: CellWrite) -> Result<ETag, CellError> {
        self.right().write(write).await
    }

    /// See the trait.
    async fn delete(&self, key: &CellKey, expect: Expect) -> Result<(), CellError> {
        self.right().delete(key, expect).await
    }

    /// See the trait.
    async fn list(&self, space: &Name, after: Option<&str>, max: usize) -> Result<Vec<Cell>, ReadError> {
        self.right().list(space, after, max).await
    }
}

#[async_trait]
impl<T: DelegateCells> Cells for Delegate<T> {
    fn limits(&self) -> &Limits {
        self.0.right().limits()
    }

    async fn read(&self, key: &CellKey) -> Result<Option<Cell>, ReadError> {
        self.0.read(key).await
    }

    async fn write(&self, write: CellWrite) -> Result<ETag, CellError> {
        self.0.write(write).await
    }

    async fn delete(&self, key: &CellKey, expect: Expect) -> Result<(), CellError> {
        self.0.delete(key, expect).await
    }

    async fn list(&self, space: &Name, after: Option<&str>, max: usize) -> Result<Vec<Cell>, ReadError> {
        self.0.list(space, after, max).await
    }
}

/// A view store that does some things differently from [`right`](Self::right).
#[async_trait]
pub trait DelegateViews: Send + Sync + 'static {
    /// The engine that does the rest.
    fn right(&self) -> &dyn ViewStore;

    /// See the trait.
    async fn claim(&self, slot: &ViewSlot, store_epoch: Epoch) -> Result<Claim, ViewWriteError> {
        self.right().claim(slot, store_epoch).await
    }

    /// See the trait.
    async fn adopt(&self, slot: &ViewSlot, claim: Claim, lineage: &Lineage) -> Result<Claim, ViewWriteError> {
        self.right().adopt(slot, claim, lineage).await
    }

    /// See the trait.
    async fn clear(
        &self,
        slot: &ViewSlot,
        claim: Claim,
        until: &Reached,
        reason: &str,
    ) -> Result<Claim, ViewWriteError> {
        self.right().clear(slot, claim, until, reason).await
    }

    /// See the trait.
    async fn write(&self, batch: ViewBatch) -> Result<(), ViewWriteError> {
        self.right().write(batch).await
    }

    /// See the trait.
    async fn documents(
        &self,
        view: &ViewName,
        keys: &[DocumentKey],
    ) -> Result<Vec<Option<Document>>, ReadError> {
        self.right().documents(view, keys).await
    }

    /// See the trait.
    fn wake(&self) -> Wake {
        self.right().wake()
    }
}

#[async_trait]
impl<T: DelegateViews> ViewStore for Delegate<T> {
    fn limits(&self) -> &Limits {
        self.0.right().limits()
    }

    async fn claim(&self, slot: &ViewSlot, store_epoch: Epoch) -> Result<Claim, ViewWriteError> {
        self.0.claim(slot, store_epoch).await
    }

    async fn adopt(&self, slot: &ViewSlot, claim: Claim, lineage: &Lineage) -> Result<Claim, ViewWriteError> {
        self.0.adopt(slot, claim, lineage).await
    }

    async fn clear(
        &self,
        slot: &ViewSlot,
        claim: Claim,
        until: &Reached,
        reason: &str,
    ) -> Result<Claim, ViewWriteError> {
        self.0.clear(slot, claim, until, reason).await
    }

    async fn write(&self, batch: ViewBatch) -> Result<(), ViewWriteError> {
        self.0.write(batch).await
    }

    async fn documents(
        &self,
        view: &ViewName,
        keys: &[DocumentKey],
    ) -> Result<Vec<Option<Document>>, ReadError> {
        self.0.documents(view, keys).await
    }

    async fn document(
        &self,
        view: &ViewName,
        store: StoreId,
        key: &str,
    ) -> Result<(Option<Document>, Option<ViewReached>), ReadError> {
        self.0.right().document(view, store, key).await
    }

    async fn list(
        &self,
        view: &ViewName,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<Document>, ReadError> {
        self.0.right().list(view, after, max).await
    }

    async fn reached(&self, view: &ViewName, store: StoreId) -> Result<Option<ViewReached>, ReadError> {
        self.0.right().reached(view, store).await
    }

    fn wake(&self) -> Wake {
        self.0.wake()
    }
}

/// The gap between a look and a write, wide enough for another caller to come between.
#[derive(Default)]
pub(crate) struct Gap(AtomicUsize);

impl Gap {
    /// Waits until the next caller is here too, or goes on alone if none comes.
    pub(crate) async fn cross(&self) {
        let here = self.0.fetch_add(1, SeqCst) + 1;
        for _ in 0..200 {
            if self.0.load(SeqCst) > here {
                return;
            }
            breathe().await;
        }
    }
}

/// Lets other tasks and other threads run.
pub(crate) async fn breathe() {
    std::thread::yield_now();
    tokio::task::yield_now().await;
}

/// Takes a lock, whatever became of those who held it before.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Replaces one engine of a backend.
pub(crate) fn with_store(backend: &Backend, store: impl DelegateStore) -> Backend {
    Backend { store: Arc::new(Delegate(store)), ..backend.clone() }
}

/// Replaces one engine of a backend.
pub(crate) fn with_queue(backend: &Backend, queue: impl DelegateQueue) -> Backend {
    Backend { queue: Arc::new(Delegate(queue)), ..backend.clone() }
}

/// Replaces one engine of a backend.
pub(crate) fn with_cells(backend: &Backend, cells: impl DelegateCells) -> Backend {
    Backend { cells: Arc::new(Delegate(cells)), ..backend.clone() }
}

/// Replaces one engine of a backend.
pub(crate) fn with_views(backend: &Backend, views: impl DelegateViews) -> Backend {
    Backend { views: Arc::new(Delegate(views)), ..backend.clone() }
}
