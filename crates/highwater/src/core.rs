use crate::decide::Decider;
use crate::unique::Tidying;
use crate::worker::WorkerOptions;
use highwater_core::{Backend, Clock, Name, PartitionKey, Timestamp, Wake};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};

/// How many locks keep decisions on one key apart. Two keys that share one wait for each other now and then.
const KEY_LOCKS: usize = 512;

/// What every part of a running engine needs.
pub(crate) struct Core {
    pub(crate) backend: Backend,
    pub(crate) clock: Arc<dyn Clock>,
    /// True when a test drives the engine by hand: nothing runs in the background and nothing waits.
    pub(crate) driven: bool,
    pub(crate) deciders: HashMap<Name, Arc<dyn Decider>>,
    /// The queue that commands go through.
    pub(crate) queue: Name,
    pub(crate) worker: WorkerOptions,
    /// How many commands may wait in the queue.
    pub(crate) queue_limit: Option<u64>,
    pub(crate) tidying: Tidying,
    keys: Vec<Mutex<()>>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl Core {
    pub(crate) fn new(
        backend: Backend,
        clock: Arc<dyn Clock>,
        driven: bool,
        deciders: HashMap<Name, Arc<dyn Decider>>,
        queue: Name,
        queue_limit: Option<u64>,
        worker: WorkerOptions,
    ) -> Self {
        let keys = (0..KEY_LOCKS).map(|_| Mutex::new(())).collect();
        Self {
            backend,
            clock,
            driven,
            deciders,
            queue,
            worker,
            queue_limit,
            tidying: Tidying::default(),
            keys,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Keeps decisions of this process on one key apart, so that they do not conflict in the store for nothing.
    pub(crate) async fn lock(&self, key: &PartitionKey) -> Option<MutexGuard<'_, ()>> {
        let slot = highwater_core::Partition::of(key, KEY_LOCKS as u16).0;
        match self.keys.get(usize::from(slot)) {
            Some(lock) => Some(lock.lock().await),
            None => None,
        }
    }

    /// Pauses before another try.
    pub(crate) async fn pause(&self, span: Duration) {
        if self.driven {
            tokio::task::yield_now().await;
        } else {
            self.clock.sleep(span).await;
        }
    }
}

/// Waits for something that an engine hints at: between two looks it sleeps until a hint or until a poll
/// interval that doubles from 10 ms to 500 ms has passed.
pub(crate) struct Patience<'a> {
    core: &'a Core,
    deadline: Duration,
    poll: Duration,
    looked: Duration,
    wakes: Vec<Wake>,
}

/// The least time between two looks: many who wait must not all read at every hint of a busy store.
const LOOK_GAP: Duration = Duration::from_millis(2);

impl<'a> Patience<'a> {
    pub(crate) fn new(core: &'a Core, limit: Duration, wakes: Vec<Wake>) -> Self {
        let limit = if core.driven { Duration::ZERO } else { limit };
        let deadline = core.clock.monotonic().saturating_add(limit);
        let looked = core.clock.monotonic();
        Self { core, deadline, poll: Duration::from_millis(10), looked, wakes }
    }

    /// False when the limit has passed; otherwise returns true when it is time to look again.
    pub(crate) async fn again(&mut self) -> bool {
        let left = self.deadline.saturating_sub(self.core.clock.monotonic());
        if left.is_zero() {
            return false;
        }
        let pause = self.poll.min(left);
        self.poll = (self.poll * 2).min(Duration::from_millis(500));
        match self.wakes.as_mut_slice() {
            [first, second] => tokio::select! {
                () = first.hint() => {}
                () = second.hint() => {}
                () = self.core.clock.sleep(pause) => {}
            },
            [first] => tokio::select! {
                () = first.hint() => {}
                () = self.core.clock.sleep(pause) => {}
            },
            _ => self.core.clock.sleep(pause).await,
        }
        let since = self.core.clock.monotonic().saturating_sub(self.looked);
        if since < LOOK_GAP {
            self.core.clock.sleep(LOOK_GAP - since).await;
        }
        self.looked = self.core.clock.monotonic();
        true
    }
}

/// A pause before try number `attempt` (from 1): `first` doubled each time up to `most`, then a random half to
/// whole of that, so that many who failed together do not come back together.
pub(crate) fn back_off(attempt: u32, first: Duration, most: Duration) -> Duration {
    let doubled =
        first.saturating_mul(1_u32.checked_shl(attempt.saturating_sub(1).min(20)).unwrap_or(1 << 20));
    doubled.min(most).mul_f64(0.5 + fastrand::f64() / 2.0)
}
