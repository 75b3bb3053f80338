use crate::address::Address;
use crate::aggregate::Aggregate;
use crate::builder::{EngineBuilder, Place, Role, StartError};
use crate::clock::ManualClock;
use crate::core::Core;
use crate::execute::Execute;
use crate::feed::{Feed, PullError};
use crate::follower::Follower;
use crate::handler::{Failed, HandlerError};
use crate::instance::Instance;
use crate::lease::LeaseTimes;
use crate::outcome::OutcomeRequest;
use crate::schedule::Schedule;
use crate::send::Send;
use crate::settle::{Settled, Step};
use crate::status::{self, ProcessorStatus, Status, WorkerStatus};
use crate::unique::Unique;
use crate::view::View;
use crate::view_reader::ViewReader;
use crate::worker::Worker;
use highwater_core::{Backend, CommandId, ReadError, Timestamp, Token};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

/// The moment at which the clock of [`Engine::in_memory`] starts: 2026-01-01T00:00:00Z.
const DRIVEN_START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// A running application: sends commands, decides them, follows the log, answers reads. Cheap to clone.
///
/// See the [crate's front page](crate) for a whole one.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    core: Arc<Core>,
    worker: Arc<Worker>,
    schedules: Vec<Arc<Schedule>>,
    instance: Arc<Instance>,
    followers: Vec<Arc<Follower>>,
    views: BTreeSet<&'static str>,
    role: Role,
    driven: Option<ManualClock>,
    stop: watch::Sender<bool>,
    failed: watch::Sender<Option<String>>,
    tasks: Mutex<JoinSet<()>>,
    /// Signs of life go on until the last batch has ended: others must not take over what still runs.
    heartbeats: Mutex<JoinSet<()>>,
    last_beat: watch::Sender<bool>,
}

impl Inner {
    /// This process, once for each place that leases are kept in.
    fn instances(&self) -> Vec<Arc<Instance>> {
        let mut instances = vec![self.instance.clone()];
        for follower in &self.followers {
            if instances.iter().all(|instance| instance.incarnation != follower.instance.incarnation) {
                instances.push(follower.instance.clone());
            }
        }
        instances
    }
}

pub(crate) struct Parts {
    pub(crate) core: Arc<Core>,
    pub(crate) worker: Arc<Worker>,
    pub(crate) schedules: Vec<Arc<Schedule>>,
    pub(crate) instance: Arc<Instance>,
    pub(crate) followers: Vec<Arc<Follower>>,
    pub(crate) views: BTreeSet<&'static str>,
    pub(crate) role: Role,
    pub(crate) driven: Option<ManualClock>,
    pub(crate) times: LeaseTimes,
    pub(crate) stop: watch::Sender<bool>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("instance", &self.0.instance.incarnation)
            .field("role", &self.0.role)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine on the store that a URL names: `sqlite:PATH` is one file, created if it is not there, with the
    /// documents of the views in a second file beside it; `sqlite::memory:` keeps everything in memory. Options of the
    /// store may follow, as in `sqlite:bookings.db?partitions=64&synchronous=normal`.
    pub fn open(url: impl Into<String>) -> EngineBuilder {
        EngineBuilder::new(Place::Url(url.into()), None)
    }

    /// An engine on engines of your own choosing.
    pub fn on(backend: Backend) -> EngineBuilder {
        EngineBuilder::new(Place::Backend(backend), None)
    }

    /// An engine for tests: everything in memory, nothing in the background, and a clock that stands still at
    /// 2026-01-01T00:00:00Z until [`Engine::clock`] moves it. [`Engine::settle`] lets it work.
    #[cfg(feature = "sqlite")]
    pub fn in_memory() -> EngineBuilder {
        EngineBuilder::new(Place::Url("sqlite::memory:".into()), Some(ManualClock::starting_at(DRIVEN_START)))
    }

    /// An engine for tests on engines of your own choosing, driven by hand like [`Engine::in_memory`].
    pub fn driven_on(backend: Backend, clock: ManualClock) -> EngineBuilder {
        EngineBuilder::new(Place::Backend(backend), Some(clock))
    }

    pub(crate) async fn start(parts: Parts) -> Result<Self, StartError> {
        let Parts { core, worker, schedules, instance, followers, views, role, driven, times, stop } = parts;
        let inner = Inner {
            core,
            worker,
            schedules,
            instance,
            followers,
            views,
            role,
            driven,
            stop,
            failed: watch::Sender::new(None),
            tasks: Mutex::default(),
            heartbeats: Mutex::default(),
            last_beat: watch::Sender::new(false),
        };
        let engine = Self(Arc::new(inner));
        if role.works() {
            for schedule in &engine.0.schedules {
                let taken_up = schedule.take_up().await;
                taken_up.map_err(|error| StartError::Open { reason: error.to_string() })?;
            }
        }
        if engine.0.driven.is_none() {
            engine.spawn(times).await?;
        }
        Ok(engine)
    }

    async fn spawn(&self, times: LeaseTimes) -> Result<(), StartError> {
        let inner = &self.0;
        let mut tasks = inner.tasks.lock().await;
        if inner.role.works() {
            tasks.spawn(supervised("worker", inner.worker.clone().run(inner.stop.subscribe()), inner));
            for schedule in &inner.schedules {
                let run = schedule.clone().run(inner.stop.subscribe());
                tasks.spawn(supervised("recurring command", run, inner));
            }
        }
        if inner.role.follows() && !inner.followers.is_empty() {
            let first = inner.instance.beat().await;
            first.map_err(|error| StartError::Open { reason: error.to_string() })?;
            for instance in inner.instances() {
                let (stop, renew) = (inner.last_beat.subscribe(), times.renew);
                inner.heartbeats.lock().await.spawn(async move { instance.run(renew, stop).await });
            }
            for follower in &inner.followers {
                tasks.spawn(supervised("processor", follower.clone().run(), inner));
            }
        }
        Ok(())
    }

    pub(crate) fn core(&self) -> &Core {
        &self.0.core
    }

    /// Whether a view of this name was given to the engine.
    pub(crate) fn has_view(&self, name: &str) -> bool {
        self.0.views.contains(name)
    }

    /// The engines underneath.
    pub fn backend(&self) -> &Backend {
        &self.0.core.backend
    }

    /// The clock that a test moves; `None` for an engine that runs by itself.
    pub fn clock(&self) -> Option<&ManualClock> {
        self.0.driven.as_ref()
    }

    /// The time by the engine's clock.
    pub fn now(&self) -> Timestamp {
        self.0.core.now()
    }

    /// Sends a command through the durable queue; await it. It returns once the command cannot be lost, long
    /// before it is decided. [`Send::id`] makes it safe to send again.
    pub fn send<A: Aggregate>(&self, to: impl Into<Address>, command: A::Command) -> Send<'_, A> {
        Send::new(self, to.into(), command)
    }

    /// Decides a command right here, without a queue; await it.
    pub fn execute<A: Aggregate>(&self, to: impl Into<Address>, command: A::Command) -> Execute<'_, A> {
        Execute::new(self, to.into(), command)
    }

    /// Asks what has become of a command that was sent; await it.
    pub fn outcome(&self, id: CommandId) -> OutcomeRequest<'_> {
        OutcomeRequest::new(self, id)
    }

    /// Reads a view.
    pub fn view<V: View>(&self) -> ViewReader<'_, V> {
        ViewReader::new(self)
    }

    /// Reads the changes of some containers by pulling; of all, if none is named.
    ///
    /// # Errors
    /// [`PullError::Name`] for a container that cannot exist.
    pub fn feed(&self, containers: &[&str]) -> Result<Feed<'_>, PullError> {
        Feed::new(self, containers)
    }

    /// Values that one command at a time may hold, across partition keys: see [`Unique`].
    pub fn unique(&self, scope: impl Into<String>) -> Unique<'_> {
        Unique::new(&self.0.core, scope)
    }

    /// A token for everything that is committed so far.
    ///
    /// # Errors
    /// [`ReadError`].
    pub async fn head(&self) -> Result<Token, ReadError> {
        self.0.core.backend.store.head().await
    }

    /// Works until nothing is left that can be done at the present time of the driven clock, and says what was
    /// done. Commands and batches that failed wait for the clock. On an engine that runs by itself this does
    /// nothing.
    ///
    /// # Errors
    /// When the engine itself fails.
    pub async fn settle(&self) -> Result<Settled, Failed> {
        let mut settled = Settled::default();
        if self.0.driven.is_none() {
            return Ok(settled);
        }
        if self.0.role.follows() {
            self.0.instance.beat().await.map_err(HandlerError::from)?;
        }
        loop {
            let before = settled.steps.len();
            if self.0.role.works() {
                for schedule in &self.0.schedules {
                    settled.steps.extend(schedule.look().await?);
                }
                settled.steps.extend(self.0.worker.step().await?);
            }
            if self.0.role.follows() {
                for follower in &self.0.followers {
                    settled.steps.extend(follower.step().await?);
                }
            }
            if settled.steps.len() == before || matches!(settled.steps.last(), Some(Step::Fatal { .. })) {
                return Ok(settled);
            }
        }
    }

    /// What the engine is doing.
    ///
    /// # Errors
    /// When the engine itself fails.
    pub async fn status(&self) -> Result<Status, Failed> {
        let inner = &self.0;
        let head = self.head().await.map_err(HandlerError::from)?;
        let depth = inner.core.backend.queue.depth(&inner.core.queue).await.map_err(HandlerError::from)?;
        let worker = WorkerStatus {
            queue: inner.core.queue.to_string(),
            running: inner.role.works() && !*inner.stop.borrow(),
            visible: depth.visible,
            in_flight: depth.in_flight,
            delayed: depth.delayed,
            parked: depth.parked,
            oldest_waiting: depth.oldest_visible,
            deciding: inner.worker.running.load(Relaxed),
            decided: inner.worker.decided.load(Relaxed),
            failed: inner.worker.failed.load(Relaxed),
        };
        let mut processors = Vec::with_capacity(inner.followers.len());
        for follower in &inner.followers {
            processors.push(ProcessorStatus { healing: follower.healing().await?, ..follower.status(&head) });
        }
        status::publish(inner.core.now(), &worker, &processors);
        let mut recurring = Vec::new();
        for schedule in &inner.schedules {
            recurring.push(schedule.status(worker.running).await?);
        }
        let instance = inner.instance.incarnation.clone();
        Ok(Status { instance, head, worker, processors, recurring })
    }

    /// Returns when a role of this engine has stopped because going on would do harm, with the reason. A program
    /// should then stop with an exit code other than 0.
    pub async fn failed(&self) -> Stopped {
        let mut failed = self.0.failed.subscribe();
        loop {
            if let Some(reason) = failed.borrow_and_update().clone() {
                return Stopped { reason };
            }
            if failed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Stops: takes nothing on any more, finishes what runs, gives its partitions back.
    pub async fn stop(&self) {
        self.0.stop.send_replace(true);
        let mut tasks = self.0.tasks.lock().await;
        while tasks.join_next().await.is_some() {}
        self.0.last_beat.send_replace(true);
        let mut heartbeats = self.0.heartbeats.lock().await;
        while heartbeats.join_next().await.is_some() {}
        if !self.0.role.follows() {
            return;
        }
        for instance in self.0.instances() {
            if let Err(error) = instance.leave().await {
                tracing::debug!(%error, "heartbeat not removed");
            }
        }
    }
}

/// Why a role stopped by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// Why, for people.
    pub reason: String,
}

/// Runs a role; if it cannot go on, says so and stops the others.
fn supervised(
    what: &'static str,
    role: impl Future<Output = Result<(), HandlerError>> + core::marker::Send + 'static,
    inner: &Arc<Inner>,
) -> impl Future<Output = ()> + core::marker::Send + 'static {
    let (failed, stop) = (inner.failed.clone(), inner.stop.clone());
    async move {
        if let Err(error) = role.await {
            tracing::error!(%error, "{what} stops");
            failed.send_replace(Some(format!("{what}: {error}")));
            stop.send_replace(true);
        }
    }
}
