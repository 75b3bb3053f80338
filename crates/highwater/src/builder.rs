use crate::aggregate::Aggregate;
use crate::clock::{ManualClock, SystemClock};
use crate::core::Core;
use crate::decide::{AggregateDecider, Decider};
use crate::engine::{Engine, Parts};
use crate::follower::{Follower, Held, Sink};
use crate::instance::{Instance, Observer};
use crate::lease::LeaseTimes;
use crate::open;
use crate::processor::Processor;
use crate::recurring::{Declared, Recurring};
use crate::schedule::Schedule;
use crate::view::View;
use crate::view_sink::{DocumentSink, ViewSink};
use crate::worker::{Worker, WorkerOptions};
use highwater_core::{Backend, Clock, Name};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// Which parts of an application a process runs. All of them share one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Role {
    /// Everything.
    #[default]
    All,
    /// Sends commands and reads views; decides nothing, follows nothing.
    Web,
    /// Takes commands from the queue and decides them.
    Worker,
    /// Keeps views, subscribers and other processors going.
    Projector,
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::All => "all",
            Self::Web => "web",
            Self::Worker => "worker",
            Self::Projector => "projector",
        })
    }
}

impl std::str::FromStr for Role {
    type Err = UnknownRole;
    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        let all = [Self::All, Self::Web, Self::Worker, Self::Projector];
        all.into_iter().find(|role| role.to_string() == text).ok_or(UnknownRole)
    }
}

/// A text that names no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a role: use all, web, worker or projector")]
pub struct UnknownRole;

impl Role {
    pub(crate) fn works(self) -> bool {
        matches!(self, Self::All | Self::Worker)
    }

    pub(crate) fn follows(self) -> bool {
        matches!(self, Self::All | Self::Projector)
    }
}

/// Why an engine did not start.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The engine is set up wrongly; every fault is listed.
    #[error("the engine is not set up properly: {}", .faults.join("; "))]
    Invalid {
        /// The faults, each a sentence.
        faults: Vec<String>,
    },
    /// No engine is known for this URL.
    #[error("no engine for the store URL that begins with `{url}`: use `sqlite:PATH` or `sqlite::memory:`")]
    UnknownUrl {
        /// The URL, up to its first colon.
        url: String,
    },
    /// The store cannot be opened.
    #[error("{reason}")]
    Open {
        /// Why.
        reason: String,
    },
}

pub(crate) enum Place {
    Url(String),
    Backend(Backend),
}

/// Collects what an engine shall know before it starts.
#[must_use = "an engine runs once it is started"]
pub struct EngineBuilder {
    place: Place,
    driven: Option<ManualClock>,
    role: Role,
    instance: String,
    queue: String,
    queue_limit: Option<u64>,
    worker: WorkerOptions,
    times: LeaseTimes,
    poll_interval: Option<Duration>,
    deciders: Vec<(&'static str, Arc<dyn Decider>)>,
    views: Vec<(&'static str, Arc<dyn ViewSink>)>,
    processors: Vec<Processor>,
    recurring: Vec<Declared>,
    faults: Vec<String>,
}

impl std::fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineBuilder")
            .field("role", &self.role)
            .field("faults", &self.faults)
            .finish_non_exhaustive()
    }
}

impl EngineBuilder {
    pub(crate) fn new(place: Place, driven: Option<ManualClock>) -> Self {
        Self {
            place,
            driven,
            role: Role::All,
            instance: "engine".into(),
            queue: "commands".into(),
            queue_limit: None,
            worker: WorkerOptions::default(),
            times: LeaseTimes::default(),
            poll_interval: None,
            deciders: Vec::new(),
            views: Vec::new(),
            processors: Vec::new(),
            recurring: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// Lets the engine decide the commands of aggregate `A`; `settings` is what [`Context`](crate::Context) hands
    /// to every decision.
    pub fn aggregate<A: Aggregate>(mut self, settings: A::Settings) -> Self {
        self.faults.extend(Name::new(A::CONTAINER).err().map(|error| format!("aggregate: {error}")));
        match AggregateDecider::<A>::new(settings) {
            Ok(decider) => self.deciders.push((A::CONTAINER, Arc::new(decider))),
            Err(error) => self.faults.push(error.to_string()),
        }
        self
    }

    /// Keeps a view up to date.
    pub fn view<V: View>(mut self, view: V) -> Self {
        match DocumentSink::new(view) {
            Ok(sink) => {
                let mut seen = BTreeSet::new();
                if ViewSink::containers(&sink).is_empty() {
                    self.faults.push(format!("view `{}` follows no aggregate", V::NAME));
                }
                for container in ViewSink::containers(&sink) {
                    if !seen.insert(container) {
                        let fault = format!("view `{}` follows container `{container}` twice", V::NAME);
                        self.faults.push(fault);
                    }
                }
                self.views.push((V::NAME, Arc::new(sink)));
            }
            Err(error) => self.faults.push(format!("view: {error}")),
        }
        self
    }

    /// Runs a processor or a subscriber.
    pub fn processor(mut self, processor: Processor) -> Self {
        self.processors.push(processor);
        self
    }

    /// Sends a command again and again, by a cron expression. The roles that work on commands do it; several processes
    /// that declare the same send it once.
    pub fn recurring<A: Aggregate>(mut self, recurring: Recurring<A>) -> Self {
        match recurring.declare() {
            Ok(declared) => self.recurring.push(declared),
            Err(faults) => self.faults.extend(faults),
        }
        self
    }

    /// Sets what this process runs; everything by default.
    pub fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Names this process in leases and logs; `engine` by default. Two processes of one name are still two.
    pub fn instance(mut self, name: impl Into<String>) -> Self {
        self.instance = name.into();
        self
    }

    /// Sets the queue that commands go through; `commands` by default.
    pub fn queue(mut self, name: impl Into<String>) -> Self {
        self.queue = name.into();
        self
    }

    /// Refuses commands ([`SendError::Full`](crate::SendError::Full)) while so many wait in the queue, taken and delayed
    /// ones included; no limit by default. Set it where it is better to be told to come back later than to wait long.
    /// Each process goes by its own limit when it sends.
    pub fn queue_limit(mut self, commands: u64) -> Self {
        self.queue_limit = Some(commands);
        self
    }

    /// Sets how commands are worked on.
    pub fn worker(mut self, options: WorkerOptions) -> Self {
        self.worker = options;
        self
    }

    /// Sets how quickly a dead process is noticed, for all views and processors of this engine.
    pub fn lease_times(mut self, times: LeaseTimes) -> Self {
        self.times = times;
        self
    }

    /// Sets how often views and processors look for changes when nothing hints at any; 100 ms by default. Raise it to
    /// make idle processes quieter, lower it when another process commits and views must follow more closely. A
    /// [processor](Processor::poll_interval) may have an interval of its own.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = Some(interval);
        self
    }

    fn check(&mut self) -> Result<(Name, Vec<Name>), StartError> {
        let mut faults = std::mem::take(&mut self.faults);
        faults.extend(self.worker.faults());
        faults.extend(self.times.faults());
        if self.queue_limit == Some(0) {
            faults.push("the queue limit must be at least 1".into());
        }
        if self.poll_interval.is_some_and(|interval| interval.is_zero()) {
            faults.push("the poll interval must be above zero".into());
        }
        let mut seen = BTreeSet::new();
        for (container, _) in &self.deciders {
            if !seen.insert(*container) {
                faults.push(format!("two aggregates use the container `{container}`"));
            }
        }
        let mut seen = BTreeSet::new();
        let views = self.views.iter().map(|(name, _)| (*name).to_owned());
        let mut names = Vec::new();
        for name in views.chain(self.processors.iter().map(|processor| processor.name.clone())) {
            match Name::new(&name) {
                Ok(valid) => names.push(valid),
                Err(error) => faults.push(format!("processor: {error}")),
            }
            if !seen.insert(name.clone()) {
                faults.push(format!("two views or processors are named `{name}`"));
            }
        }
        for processor in &self.processors {
            faults.extend(processor.faults());
            if processor.handler.is_none() {
                faults.push(format!("processor `{}` has no handler", processor.name));
            }
        }
        let mut seen = BTreeSet::new();
        for recurring in &self.recurring {
            let (name, container) = (&*recurring.name, recurring.container);
            if !seen.insert(name) {
                faults.push(format!("two recurring commands are named `{name}`"));
            }
            if self.deciders.iter().all(|(known, _)| *known != container) {
                faults.push(format!(
                    "the recurring command `{name}` is for the aggregate `{container}`, which is not registered: add \
                     `.aggregate::<…>(…)`"
                ));
            }
        }
        if self.instance.is_empty() || self.instance.len() > 64 || self.instance.contains(char::is_control) {
            faults.push("the instance name must be 1 to 64 bytes without control characters".into());
        }
        match (Name::new(&self.queue), faults.is_empty()) {
            (Ok(queue), true) => Ok((queue, names)),
            (Ok(_), false) => Err(StartError::Invalid { faults }),
            (Err(error), _) => {
                faults.push(format!("queue: {error}"));
                Err(StartError::Invalid { faults })
            }
        }
    }

    /// Opens the store and starts what the role asks for.
    ///
    /// # Errors
    /// [`StartError`]; nothing was started.
    pub async fn start(mut self) -> Result<Engine, StartError> {
        let (queue, _) = self.check()?;
        let clock: Arc<dyn Clock> = match &self.driven {
            Some(clock) => Arc::new(clock.clone()),
            None => Arc::new(SystemClock::new()),
        };
        let backend = match self.place {
            Place::Url(url) => open::open(&url, clock.clone()).await?,
            Place::Backend(backend) => backend,
        };
        let mut deciders = HashMap::new();
        for (container, decider) in self.deciders {
            let invalid =
                |error: highwater_core::InvalidName| StartError::Invalid { faults: vec![error.to_string()] };
            deciders.insert(Name::new(container).map_err(invalid)?, decider);
        }
        let driven = self.driven.is_some();
        let core = Arc::new(Core::new(
            backend,
            clock.clone(),
            driven,
            deciders,
            queue,
            self.queue_limit,
            self.worker,
        ));
        let (stop, stopped) = watch::channel(false);
        let cells = core.backend.cells.clone();
        let instance = Arc::new(Instance::new(cells.clone(), clock.clone(), &self.instance));
        let poll = self.poll_interval.unwrap_or(Duration::from_millis(100));
        let follower = |name: &str, containers: Vec<Name>, sink, from: Option<&Processor>| Follower {
            core: core.clone(),
            cells: from.and_then(|processor| processor.leases.clone()).unwrap_or(cells.clone()),
            instance: match from.and_then(|processor| processor.leases.clone()) {
                Some(cells) => Arc::new(Instance::new(cells, clock.clone(), &self.instance)),
                None => instance.clone(),
            },
            name: name.into(),
            containers,
            times: self.times.clone(),
            poll_interval: from.and_then(|processor| processor.poll_interval).unwrap_or(poll),
            max_items: from.map_or(1_000, |processor| processor.max_items),
            start: from.map_or_else(Default::default, |processor| processor.start.clone()),
            sink,
            stop: stopped.clone(),
            observer: Observer::default(),
            status: Mutex::default(),
            held: tokio::sync::Mutex::new(Held::default()),
        };
        let named = |names: Vec<String>| names.into_iter().filter_map(|name| Name::new(name).ok()).collect();
        let mut followers = Vec::new();
        let views = self.views.iter().map(|(name, _)| *name).collect();
        for (name, sink) in self.views {
            let containers = named(sink.containers().into_iter().map(String::from).collect());
            let name = format!("{name}.{}", sink.view().generation);
            followers.push(Arc::new(follower(&name, containers, Sink::View(sink), None)));
        }
        for processor in self.processors {
            let Some(handler) = processor.handler.clone() else { continue };
            let containers = named(processor.containers.clone());
            let sink = Sink::Handler(handler);
            followers.push(Arc::new(follower(&processor.name, containers, sink, Some(&processor))));
        }
        let worker = Arc::new(Worker::new(core.clone(), instance.incarnation.clone()));
        let schedule = |declared| Arc::new(Schedule::new(core.clone(), declared));
        let schedules = self.recurring.into_iter().map(schedule).collect();
        let (role, driven, times) = (self.role, self.driven, self.times);
        Engine::start(Parts {
            core,
            worker,
            schedules,
            instance,
            followers,
            views,
            role,
            driven,
            times,
            stop,
        })
        .await
    }
}
