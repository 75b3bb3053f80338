use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Sends hints that something has changed.
#[derive(Debug, Clone)]
pub struct Waker {
    hints: Arc<watch::Sender<u64>>,
    waiting: Waiting,
}

impl Waker {
    /// A source of hints.
    pub fn new() -> Self {
        Self::counted(&Waiting::default())
    }

    /// A source of hints whose receivers are counted while they wait. Several sources may share one count.
    pub fn counted(waiting: &Waiting) -> Self {
        Self { hints: Arc::new(watch::Sender::new(0)), waiting: waiting.clone() }
    }

    /// Wakes everyone who waits, and everyone who starts to wait without having seen this hint.
    pub fn wake(&self) {
        self.hints.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// A receiver of the hints sent from here on.
    pub fn subscribe(&self) -> Wake {
        Wake(Some((self.hints.subscribe(), self.waiting.clone())))
    }
}

impl Default for Waker {
    fn default() -> Self {
        Self::new()
    }
}

/// Receives hints that something has changed. A hint says neither what nor how often; it may be lost. Whoever
/// waits here must also poll.
#[derive(Debug, Clone)]
pub struct Wake(Option<(watch::Receiver<u64>, Waiting)>);

impl Wake {
    /// A receiver that never gets a hint: for engines that have none to give.
    pub fn never() -> Self {
        Self(None)
    }

    /// Returns at the next hint that was not seen yet.
    pub async fn hint(&mut self) {
        if let Some((receiver, waiting)) = &mut self.0 {
            let _counted = waiting.enter();
            if receiver.changed().await.is_ok() {
                return;
            }
        }
        std::future::pending().await
    }
}

/// How many wait for a hint at this moment: for an engine that learns of the changes of other processes only by
/// looking, and looks only while somebody wants to know.
///
/// ```
/// use highwater_core::{Waiting, Waker};
/// let waiting = Waiting::default();
/// let waker = Waker::counted(&waiting);
/// assert_eq!(waiting.count(), 0);
/// waiting.close();
/// assert!(!waiting.somebody());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Waiting(Arc<(Mutex<State>, Condvar)>);

#[derive(Debug, Default)]
struct State {
    count: usize,
    closed: bool,
}

impl Waiting {
    /// How many wait.
    pub fn count(&self) -> usize {
        self.state().count
    }

    /// Blocks this thread until somebody waits; false once it was closed.
    pub fn somebody(&self) -> bool {
        let idle = |state: &mut State| state.count == 0 && !state.closed;
        let state = self.0.1.wait_while(self.state(), idle).unwrap_or_else(PoisonError::into_inner);
        !state.closed
    }

    /// Nobody looks any more: [`Self::somebody`] returns at once, from here on.
    pub fn close(&self) {
        self.state().closed = true;
        self.0.1.notify_all();
    }

    fn enter(&self) -> Counted {
        let mut state = self.state();
        state.count += 1;
        if state.count == 1 {
            self.0.1.notify_all();
        }
        drop(state);
        Counted(self.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits; no longer counted once this is dropped.
struct Counted(Waiting);

impl Drop for Counted {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.count = state.count.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll};

    #[test]
    fn a_receiver_counts_from_when_it_waits_until_it_is_woken_or_gives_up() {
        let waiting = Waiting::default();
        let wakers = [Waker::counted(&waiting), Waker::counted(&waiting)];
        let (mut one, mut two) = (wakers[0].subscribe(), wakers[1].subscribe());
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert_eq!(waiting.count(), 0, "subscribing is not waiting");
        {
            let (mut first, mut second) = (pin!(one.hint()), pin!(two.hint()));
            assert!(first.as_mut().poll(&mut context).is_pending());
            assert!(second.as_mut().poll(&mut context).is_pending());
            assert_eq!(waiting.count(), 2);
            assert!(waiting.somebody());
            wakers[0].wake();
            assert_eq!(first.as_mut().poll(&mut context), Poll::Ready(()));
            assert_eq!(waiting.count(), 1);
        }
        assert_eq!(waiting.count(), 0, "who gives up does not count");
    }
}
