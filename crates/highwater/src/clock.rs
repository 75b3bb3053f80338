use highwater_core::{Clock, Timestamp, async_trait};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::watch;

/// The machine's clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// The machine's clock; its monotonic time counts from here.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(0).plus(since_1970)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    async fn sleep(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

/// A clock that stands still until a test moves it.
///
/// ```
/// use highwater::{Clock, ManualClock, Timestamp};
/// use std::time::Duration;
/// let clock = ManualClock::starting_at(Timestamp::from_micros(0));
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(clock.now(), Timestamp::from_micros(1_000_000));
/// ```
#[derive(Debug, Clone)]
pub struct ManualClock {
    time: Arc<Mutex<Time>>,
    moved: watch::Sender<()>,
}

#[derive(Debug, Clone, Copy)]
struct Time {
    wall: Timestamp,
    monotonic: Duration,
}

impl ManualClock {
    /// A clock that shows this moment.
    pub fn starting_at(wall: Timestamp) -> Self {
        let time = Time { wall, monotonic: Duration::ZERO };
        Self { time: Arc::new(Mutex::new(time)), moved: watch::Sender::new(()) }
    }

    /// Lets time pass; sleepers whose time has come wake up.
    pub fn advance(&self, span: Duration) {
        {
            let mut time = self.lock();
            time.wall = time.wall.plus(span);
            time.monotonic += span;
        }
        self.moved.send_replace(());
    }

    /// Sets the time of day, backwards too, as an operator might. Monotonic time does not move.
    pub fn set_wall(&self, wall: Timestamp) {
        self.lock().wall = wall;
    }

    fn lock(&self) -> MutexGuard<'_, Time> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.lock().wall
    }

    fn monotonic(&self) -> Duration {
        self.lock().monotonic
    }

    async fn sleep(&self, span: Duration) {
        let mut moved = self.moved.subscribe();
        let until = self.monotonic().saturating_add(span);
        while self.monotonic() < until {
            if moved.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
