//! What a processor is and what it hands to its handler; `follower.rs` runs it.

use crate::core::Core;
use crate::feed::Start;
use crate::handler::HandlerError;
use crate::unique::Unique;
use highwater_core::{Cells, Change, Partition, Position, Token};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::watch;

pub(crate) type HandlerFuture = Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send>>;
pub(crate) type Handler = Arc<dyn Fn(BatchContext, Changes) -> HandlerFuture + Send + Sync>;

/// The changes of one batch, in order; cheap to clone.
#[derive(Debug, Clone)]
pub struct Changes(pub(crate) Arc<[Change]>);

impl Deref for Changes {
    type Target = [Change];
    fn deref(&self) -> &[Change] {
        &self.0
    }
}

/// A reader that is pushed every change of its containers: at least once, in order per partition key.
///
/// The store's partitions are shared among all instances of the same processor by leases; each partition's
/// checkpoint moves after the handler has succeeded.
///
/// ```
/// use highwater::{HandlerError, Processor, Start};
///
/// let audit = Processor::named("audit")
///     .containers(["accounts"])
///     .start(Start::Now)
///     .max_items(500)
///     .handler(async |context, changes| {
///         println!("partition {}: {} changes", context.partition, changes.len());
///         Ok::<(), HandlerError>(())
///     });
/// ```
#[doc(alias("change feed processor", "consumer", "reactor", "subscription"))]
#[derive(Clone)]
pub struct Processor {
    pub(crate) name: String,
    pub(crate) containers: Vec<String>,
    pub(crate) leases: Option<Arc<dyn Cells>>,
    pub(crate) poll_interval: Option<Duration>,
    pub(crate) max_items: usize,
    pub(crate) start: Start,
    pub(crate) handler: Option<Handler>,
}

impl std::fmt::Debug for Processor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Processor")
            .field("name", &self.name)
            .field("containers", &self.containers)
            .finish_non_exhaustive()
    }
}

impl Processor {
    /// A processor of this name: 1 to 48 characters of a-z, 0-9 and `-`. Instances of the same name share work.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            containers: Vec::new(),
            leases: None,
            poll_interval: None,
            max_items: 100,
            start: Start::Beginning,
            handler: None,
        }
    }

    /// Reads these containers only; all by default.
    pub fn containers<N: Into<String>>(mut self, containers: impl IntoIterator<Item = N>) -> Self {
        self.containers = containers.into_iter().map(Into::into).collect();
        self
    }

    /// Keeps the leases in these cells instead of those of the store that is read.
    pub fn lease_store(mut self, cells: Arc<dyn Cells>) -> Self {
        self.leases = Some(cells);
        self
    }

    /// Sets how often to look for changes when nothing hints at any; by default as often as
    /// [`EngineBuilder::poll_interval`](crate::EngineBuilder::poll_interval) says. Raise it for work that can wait.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = Some(interval);
        self
    }

    /// Sets how many changes a batch has at most; 100 by default. A hint: commits stay whole.
    pub fn max_items(mut self, max: usize) -> Self {
        self.max_items = max;
        self
    }

    /// Sets where to begin; stored when the leases are made and without effect afterwards.
    pub fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// Sets what is done with each batch. An error or a panic has the batch tried again, after a pause that grows
    /// from 0.1 s to 30 s, from the last [`BatchContext::checkpoint`] on.
    pub fn handler<F, W, E>(mut self, handler: F) -> Self
    where
        F: Fn(BatchContext, Changes) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<HandlerError>,
    {
        self.handler = Some(Arc::new(move |context, changes| {
            let work = handler(context, changes);
            Box::pin(async move { work.await.map_err(Into::into) })
        }));
        self
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.max_items == 0 {
            faults.push("max items must be at least 1".into());
        }
        if self.poll_interval.is_some_and(|interval| interval.is_zero()) {
            faults.push("poll interval must be above zero".into());
        }
        for container in &self.containers {
            faults.extend(highwater_core::Name::new(container).err().map(|error| error.to_string()));
        }
        faults.into_iter().map(|fault| format!("processor `{}`: {fault}", self.name)).collect()
    }
}

/// What a handler is told about its batch.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BatchContext {
    /// The processor.
    pub processor: Arc<str>,
    /// The process that runs it: instance name and a random part.
    pub instance: Arc<str>,
    /// The partition that the batch comes from.
    pub partition: Partition,
    /// How often the partition has changed hands; fences a stale owner in a store of your own.
    pub owner_epoch: u64,
    /// How often this batch has been tried before, 0 the first time.
    pub attempt: u32,
    /// How many positions the end of the log was ahead of the batch's end when it was read.
    pub behind: u64,
    /// Reached by whoever has handled the whole batch.
    pub token: Token,
    pub(crate) core: Arc<Core>,
    pub(crate) done: Arc<AtomicU64>,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) revoked: watch::Receiver<bool>,
}

impl BatchContext {
    /// Notes that everything up to and with the commit of this change is handled: after a failure later in the
    /// batch, the next try begins behind it. Saved when the handler returns.
    pub fn checkpoint(&self, change: &Change) {
        self.done.fetch_max(change.commit_end().get(), Relaxed);
    }

    /// Values that one command at a time may hold, to confirm or release them: see [`Unique`].
    pub fn unique(&self, scope: impl Into<String>) -> Unique<'_> {
        Unique::new(&self.core, scope)
    }

    /// Whether the partition is still this process's, as far as it knows. What a handler writes to a store of its own
    /// should be conditional on [`owner_epoch`](Self::owner_epoch): that is certain.
    pub fn still_owner(&self) -> bool {
        !*self.revoked.borrow()
    }

    /// Returns when the engine is asked to stop or the partition was lost; a long-running handler should then come
    /// to an end.
    pub async fn cancelled(&self) {
        tokio::select! {
            () = raised(self.stop.clone()) => {}
            () = raised(self.revoked.clone()) => {}
        }
    }

    pub(crate) fn done(&self) -> Option<Position> {
        Position::new(self.done.load(Relaxed))
    }
}

/// Returns once a flag is up; never, if nobody can raise it any more.
async fn raised(mut flag: watch::Receiver<bool>) {
    if flag.wait_for(|up| *up).await.is_err() {
        std::future::pending::<()>().await;
    }
}
