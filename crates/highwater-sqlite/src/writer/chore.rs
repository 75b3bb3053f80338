//! What the writing thread does by itself: between two groups, for a small share of its time, and when nobody asks
//! for anything.

use super::{Engine, Job, WriterThread};
use crate::operation::Member;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    time::{Duration, Instant},
};

/// Something small that an engine does by itself, in a transaction of its own.
pub(crate) struct Chore<E> {
    pub(crate) member: Box<dyn Member<E>>,
    /// Asked once it is done: true if there is more to do at once, `None` if it failed.
    pub(crate) done: Box<dyn FnOnce() -> Option<bool>>,
}

/// How long the writer sleeps at most before it looks for a chore, and how long it waits after one that failed.
const TICK: Duration = Duration::from_secs(1);

/// Between two chores others may write for this many times as long as the first took.
const SHARE: u32 = 4;

/// What is known of the chores.
#[derive(Default)]
pub(super) struct Chores {
    /// The next one does not begin before.
    not_before: Option<Instant>,
    /// One is known to be waiting.
    waiting: bool,
}

impl<E: Engine> WriterThread<E> {
    /// The next job; does chores while there is none. `None` once nobody can send any more.
    pub(super) fn wait(&mut self) -> Option<Job<E>> {
        loop {
            let left = self.chores.not_before.map(|until| until.saturating_duration_since(Instant::now()));
            let pause = left.filter(|_| self.chores.waiting).unwrap_or(TICK);
            match self.queue.recv_timeout(pause) {
                Ok(job) => return Some(job),
                Err(mpsc::RecvTimeoutError::Disconnected) => return None,
                Err(mpsc::RecvTimeoutError::Timeout) => self.do_chore(),
            }
        }
    }

    /// Does the engine's next chore, unless the last one was a short while ago.
    pub(super) fn do_chore(&mut self) {
        if self.chores.not_before.is_some_and(|until| Instant::now() < until) {
            return;
        }
        let Some(connection) = &self.connection else { return };
        let started = Instant::now();
        let chore = catch_unwind(AssertUnwindSafe(|| self.engine.chore(connection)));
        let done = match chore {
            Ok(Ok(None)) => Some(false),
            Ok(Ok(Some(chore))) => {
                self.group_and_go_on(&mut vec![chore.member]);
                (chore.done)()
            }
            Ok(Err(_)) | Err(_) => None,
        };
        self.chores.waiting = done == Some(true);
        self.chores.not_before = match done {
            Some(true) => Some(Instant::now() + started.elapsed() * SHARE),
            Some(false) => None,
            None => {
                tracing::debug!(database = E::NAME, "a chore failed, trying again later");
                Some(Instant::now() + TICK)
            }
        };
    }
}
