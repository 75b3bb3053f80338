use highwater_core::{Clock, Timestamp, async_trait};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::oneshot;

/// A clock that stands still until a test moves it.
///
/// The time of day can be set to anything, as an operator or a time server might; the monotonic time only ever
/// moves forward, by [`advance`](Self::advance).
#[derive(Debug)]
pub struct TestClock {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    wall: Timestamp,
    monotonic: Duration,
    /// By the moment at which they wake, then by the order in which they went to sleep.
    sleepers: BTreeMap<(Duration, u64), oneshot::Sender<()>>,
    slept: u64,
}

impl TestClock {
    /// A clock that shows 2026-12-24T12:00:00Z.
    pub fn new() -> Self {
        let wall = Timestamp::from_micros(1_798_113_600_000_000);
        let (monotonic, sleepers) = (Duration::ZERO, BTreeMap::new());
        Self { state: Mutex::new(State { wall, monotonic, sleepers, slept: 0 }) }
    }

    /// Lets time pass, and wakes the sleepers whose moment has come, in the order of their moments.
    pub fn advance(&self, span: Duration) {
        let mut state = self.state();
        let end = state.monotonic.saturating_add(span);
        state.wall = state.wall.plus(span);
        state.monotonic = end;
        while let Some(sleeper) = state.sleepers.first_entry()
            && sleeper.key().0 <= end
        {
            // Whoever no longer waits does not mind.
            let _ = sleeper.remove().send(());
        }
    }

    /// Sets the time of day, forward or back. Nobody wakes: sleepers wait for time to pass.
    pub fn set(&self, wall: Timestamp) {
        self.state().wall = wall;
    }

    /// How many wait for time to pass.
    pub fn sleepers(&self) -> usize {
        let mut state = self.state();
        state.sleepers.retain(|_, sleeper| !sleeper.is_closed());
        state.sleepers.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        self.state().wall
    }

    fn monotonic(&self) -> Duration {
        self.state().monotonic
    }

    async fn sleep(&self, span: Duration) {
        if span.is_zero() {
            return;
        }
        let (waker, woken) = oneshot::channel();
        {
            let mut state = self.state();
            let key = (state.monotonic.saturating_add(span), state.slept);
            state.slept += 1;
            state.sleepers.insert(key, waker);
        }
        // The sender is dropped only with the clock, and then nobody is left to sleep on it.
        let _ = woken.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    fn is_ready(future: &mut (impl Future<Output = ()> + Unpin)) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
    }

    #[test]
    fn sleepers_wake_when_their_moment_has_come() {
        let clock = TestClock::new();
        let (mut long, mut short) =
            (clock.sleep(Duration::from_secs(3)), clock.sleep(Duration::from_secs(2)));
        assert!(!is_ready(&mut long) && !is_ready(&mut short));
        clock.advance(Duration::from_secs(2));
        assert!(is_ready(&mut short) && !is_ready(&mut long));
        assert_eq!(clock.sleepers(), 1);
        clock.advance(Duration::from_secs(1));
        assert!(is_ready(&mut long));
    }

    #[test]
    fn setting_the_time_of_day_lets_no_time_pass() {
        let clock = TestClock::new();
        let mut sleep = clock.sleep(Duration::from_secs(1));
        assert!(!is_ready(&mut sleep));
        clock.set(Timestamp::from_micros(0));
        assert_eq!((clock.now(), clock.monotonic()), (Timestamp::from_micros(0), Duration::ZERO));
        assert!(!is_ready(&mut sleep));
    }
}
