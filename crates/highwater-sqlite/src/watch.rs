//! Looks for commits of other processes, while somebody waits for one.
//!
//! Nothing tells a process that another one has committed, but SQLite counts: one look costs a few microseconds and
//! reads no page. A store that nobody waits for is not looked at. A look also shows the commits of this process;
//! the hint that follows is one too many, which is what hints may be.

use crate::{location::Location, readers::StartError, turns::data_version};
use highwater_core::{Waiting, Waker};
use std::{
    sync::{Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

/// The time between two looks.
const EVERY: Duration = Duration::from_millis(20);

/// The thread that looks. Dropping it ends the thread.
pub(crate) struct Watch {
    waiting: Waiting,
    /// Absent once closed.
    stop: Mutex<Option<mpsc::Sender<()>>>,
    /// Ends when the thread has.
    ended: tokio::sync::Mutex<tokio::sync::mpsc::Receiver<()>>,
}

impl Watch {
    /// Starts the thread; `None` for a database in memory, which no other process can see.
    pub(crate) fn start(
        name: &str,
        location: &Location,
        waiting: &Waiting,
        wakers: Vec<Waker>,
    ) -> Result<Option<Self>, StartError> {
        let Some(mut connection) = location.reader().map_err(StartError::Sqlite)? else { return Ok(None) };
        let location = location.clone();
        let look = move || match data_version(&connection) {
            Ok(version) => Some(version),
            Err(error) => {
                tracing::debug!(%error, "cannot look for commits of other processes");
                if let Ok(Some(fresh)) = location.reader() {
                    connection = fresh;
                }
                None
            }
        };
        Self::with(name, waiting, look, move || wakers.iter().for_each(Waker::wake)).map(Some)
    }

    fn with(
        name: &str,
        waiting: &Waiting,
        mut look: impl FnMut() -> Option<i64> + Send + 'static,
        wake: impl Fn() + Send + 'static,
    ) -> Result<Self, StartError> {
        let (stop, stopped) = mpsc::channel();
        let (running, ended) = tokio::sync::mpsc::channel(1);
        // What was committed before counts as seen: whoever waits has looked after this.
        let mut seen = look();
        let counted = waiting.clone();
        let serve = move || {
            while counted.somebody() {
                let found = look();
                // After an error nobody knows what was missed.
                if found.is_none() || found != seen {
                    wake();
                }
                seen = found;
                if stopped.recv_timeout(EVERY) != Err(mpsc::RecvTimeoutError::Timeout) {
                    break;
                }
            }
            drop((look, running));
        };
        thread::Builder::new()
            .name(format!("highwater-{name}-watch"))
            .spawn(serve)
            .map_err(StartError::Thread)?;
        let (stop, ended) = (Mutex::new(Some(stop)), tokio::sync::Mutex::new(ended));
        Ok(Self { waiting: waiting.clone(), stop, ended })
    }

    fn stop(&self) {
        self.stop.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.waiting.close();
    }

    /// Ends the thread and closes its connection.
    pub(crate) async fn close(&self) {
        self.stop();
        // Nothing is ever sent: this returns when the thread has let go of its end.
        let _ = self.ended.lock().await.recv().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    };

    #[tokio::test]
    async fn a_database_is_looked_at_only_while_somebody_waits() {
        let (looks, version) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(7)));
        let waiting = Waiting::default();
        let waker = Waker::counted(&waiting);
        let mut wake = waker.subscribe();
        let look = {
            let (looks, version) = (looks.clone(), version.clone());
            move || {
                looks.fetch_add(1, Ordering::SeqCst);
                Some(version.load(Ordering::SeqCst))
            }
        };
        let watch = Watch::with("test", &waiting, look, move || waker.wake()).ok().unwrap();
        // Whether it would look is a matter of time, here and only here: three times as long as between two looks.
        thread::sleep(EVERY * 3);
        assert_eq!(looks.load(Ordering::SeqCst), 1, "the one at the start");
        version.store(8, Ordering::SeqCst);
        wake.hint().await;
        watch.close().await;
        assert!(!waiting.somebody());
    }
}
