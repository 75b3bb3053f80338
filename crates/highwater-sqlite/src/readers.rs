//! The threads that read a database file, each on a connection of its own.

use crate::{
    OpenError,
    fault::{closed, engine_error, panicked},
    location::Location,
};
use highwater_core::EngineError;
use rusqlite::Connection;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
};
use tokio::sync::oneshot;

type Job<K> = Box<dyn FnOnce(&Connection, &mut K) + Send>;

/// Hands reads to the reading threads. `K` is what each thread remembers between reads. Dropping it ends them.
pub(crate) struct Readers<K> {
    /// Absent once closed.
    jobs: Mutex<Option<mpsc::Sender<Job<K>>>>,
    /// Ends when the last thread has.
    ended: tokio::sync::Mutex<tokio::sync::mpsc::Receiver<()>>,
}

impl<K: Default + 'static> Readers<K> {
    /// Starts the threads. One that has to open the file again goes on only with one that is `ours`.
    pub(crate) fn start(
        name: &str,
        location: &Location,
        count: usize,
        ours: impl Fn(&Connection) -> bool + Clone + Send + 'static,
    ) -> Result<Option<Self>, StartError> {
        let (jobs, queue) = mpsc::channel();
        let queue = Arc::new(Mutex::new(queue));
        let (running, ended) = tokio::sync::mpsc::channel(1);
        for number in 0..count {
            let Some(connection) = location.reader().map_err(StartError::Sqlite)? else { return Ok(None) };
            let (queue, location, running) = (Arc::clone(&queue), location.clone(), running.clone());
            let ours = ours.clone();
            thread::Builder::new()
                .name(format!("highwater-{name}-reader-{number}"))
                .spawn(move || {
                    serve(connection, &location, &queue, ours);
                    drop(running);
                })
                .map_err(StartError::Thread)?;
        }
        Ok(Some(Self { jobs: Mutex::new(Some(jobs)), ended: tokio::sync::Mutex::new(ended) }))
    }

    /// Reads, in one read transaction.
    pub(crate) async fn read<T, R>(
        &self,
        read: impl FnOnce(&Connection, &mut K) -> rusqlite::Result<Result<T, R>> + Send + 'static,
    ) -> Result<T, R>
    where
        T: Send + 'static,
        R: From<EngineError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel::<Result<T, R>>();
        let job: Job<K> = Box::new(move |connection, known| {
            if !reply.is_closed() {
                // A pool that dies silently would stall every reader: whatever a read does, its thread goes on.
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    in_transaction(connection, |connection| read(connection, known))
                }));
                let _ = reply.send(match outcome {
                    Ok(read) => read.unwrap_or_else(|error| Err(engine_error(error).into())),
                    Err(_) => {
                        *known = K::default();
                        Err(panicked().into())
                    }
                });
            }
        });
        let sent = self.jobs().as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if !sent {
            return Err(closed().into());
        }
        answer.await.unwrap_or_else(|_| Err(closed().into()))
    }

    fn jobs(&self) -> MutexGuard<'_, Option<mpsc::Sender<Job<K>>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finishes the reads that were handed over and closes the connections.
    pub(crate) async fn close(&self) {
        self.jobs().take();
        // Nothing is ever sent: this returns when every thread has let go of its end.
        let _ = self.ended.lock().await.recv().await;
    }
}

/// Why the threads did not start.
pub(crate) enum StartError {
    Sqlite(rusqlite::Error),
    Thread(std::io::Error),
}

impl StartError {
    /// The error of opening the database at `path`.
    pub(crate) fn of(self, path: &Path) -> OpenError {
        match self {
            Self::Sqlite(error) => OpenError::from_sqlite(path, &error),
            Self::Thread(error) => OpenError::other(path, error.to_string()),
        }
    }
}

fn serve<K: Default>(
    mut connection: Connection,
    location: &Location,
    queue: &Mutex<mpsc::Receiver<Job<K>>>,
    ours: impl Fn(&Connection) -> bool,
) {
    let mut known = K::default();
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        job(&connection, &mut known);
        if !connection.is_autocommit()
            && connection.execute_batch("ROLLBACK").is_err()
            && let Ok(Some(fresh)) = location.reader()
            && ours(&fresh)
        {
            connection = fresh;
        }
    }
}

/// All statements inside see one state of the database.
pub(crate) fn in_transaction<T>(
    connection: &Connection,
    read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    connection.prepare_cached("BEGIN")?.execute([])?;
    let outcome = read(connection);
    let ended = connection.prepare_cached("COMMIT")?.execute([]);
    let value = outcome?;
    ended?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, schema::VIEWS};
    use highwater_core::{FailureKind, ReadError};

    #[tokio::test]
    async fn a_read_that_panics_is_told_so_and_its_thread_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::file(&folder.path().join("views.db"), &Options::default());
        drop(VIEWS.open(&location, |_| Ok(())).unwrap());
        let readers = Readers::<()>::start("test", &location, 1, |_| true).ok().flatten().unwrap();
        let read = readers.read(|_, ()| -> rusqlite::Result<Result<(), ReadError>> { panic!("on purpose") });
        let Err(ReadError::Engine(error)) = read.await else { panic!("no error") };
        assert_eq!(error.kind(), FailureKind::Other);
        let one =
            readers.read(|connection, ()| connection.query_row("SELECT 1", [], |row| row.get(0)).map(Ok));
        assert_eq!(one.await.map_err(|error: ReadError| error.to_string()), Ok(1));
    }
}
