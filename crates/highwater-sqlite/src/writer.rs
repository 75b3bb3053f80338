//! The one thread that writes a database: it takes what is waiting, does all of it in one transaction, and
//! answers once that is on disk.
//!
//! A group runs without savepoints. When one member fails in SQLite, whether or not that took the transaction
//! with it, or panics, the whole group is rolled back and its halves run again, each in a transaction of its own, and so on
//! until the failed one is alone: no fragment of it can be committed, and the others do not notice. Errors are
//! rare and savepoints are not free.
//!
//! When COMMIT itself fails nobody can know what is on disk. The connection is closed, the log moved into the
//! file (which proves that it is there), and each member looks for its own traces.

use crate::{
    fault::{closed, engine_error, panicked},
    gather::Gather,
    operation::{Member, Operation, Task, Wakes},
    turns::{BUSY_PATIENCE, Turns},
    write_ahead_log::{self, WriteAheadLog},
};
use highwater_core::{EngineError, FailureKind, failpoint};
use rusqlite::{Connection, ErrorCode};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

pub(crate) use chore::Chore;
use chore::Chores;

/// Members and bytes of one group at most: what bounds the memory of a transaction and the wait of its members.
const GROUP_MEMBERS: usize = 1_024;
const GROUP_BYTES: usize = 8 * 1024 * 1024;

/// After this time in a transaction no further member is begun; the rest goes into the next one. With COMMIT the lock
/// is held for 5 ms or less, unless a single member or the disk takes longer: neither can be cut short.
const GROUP_TIME: Duration = Duration::from_millis(4);

/// A group slower than this is logged.
const SLOW: Duration = Duration::from_millis(100);

/// What is particular to one kind of database: what its groups share.
pub(crate) trait Engine: Send + 'static {
    /// What metrics and thread names call it.
    const NAME: &'static str;
    /// The failpoints around COMMIT.
    const BEFORE_COMMIT: &'static str;
    const AFTER_COMMIT: &'static str;

    /// Opens the same database again; `None` if it is gone with its connection. Never makes a file.
    fn reconnect(&self) -> Result<Option<Connection>, EngineError>;
    /// A transaction has begun; `data_version` moves when another connection has committed.
    fn begin(&mut self, connection: &Connection, data_version: i64) -> rusqlite::Result<()>;
    /// The transaction has written something and is about to be committed.
    fn finish(&mut self, connection: &Connection) -> rusqlite::Result<()>;
    /// A transaction that has written something is on disk.
    fn committed(&mut self) {}
    /// Whether work may be taken that makes the database larger.
    fn admit(&mut self) -> Result<(), EngineError> {
        Ok(())
    }
    /// The disk is full, for `certain` or perhaps: frees what was kept for that; false if there is nothing.
    fn make_room(&mut self, _certain: bool) -> bool {
        false
    }
    /// Whether what was kept is used up.
    fn is_short(&self) -> bool {
        false
    }
    /// Something small that the engine has to do by itself. Asked for after every group and once in a while when there
    /// is none, so that it must cost nothing when there is nothing to do.
    fn chore(&mut self, _connection: &Connection) -> rusqlite::Result<Option<Chore<Self>>>
    where
        Self: Sized,
    {
        Ok(None)
    }
    /// A transaction was rolled back: what was learned in it may be wrong.
    fn forget(&mut self);
    /// Somebody should look again.
    fn wake(&self, wakes: Wakes);
}

type Members<E> = Vec<Box<dyn Member<E>>>;

/// A read for the writer's own connection, between two groups.
type ReadJob<E> = Box<dyn FnOnce(Option<&Connection>, &mut E) + Send>;

enum Job<E> {
    Write(Box<dyn Member<E>>),
    Read(ReadJob<E>),
    Close(mpsc::Sender<()>, Option<oneshot::Sender<()>>),
}

/// Hands work to the writing thread. Dropping it ends the thread after the work that was handed over.
pub(crate) struct Writer<E> {
    jobs: mpsc::Sender<Job<E>>,
    handed_over: Arc<AtomicUsize>,
}

/// How long dropping a database waits for its thread, which may be in the middle of a group.
const DROP_PATIENCE: Duration = Duration::from_millis(500);

impl<E: Engine> Writer<E> {
    /// Starts the thread.
    pub(crate) fn start(connection: Connection, engine: E) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel();
        let handed_over = Arc::new(AtomicUsize::new(0));
        let mut thread = WriterThread::new(connection, engine, queue, Arc::clone(&handed_over));
        thread::Builder::new().name(format!("highwater-{}-writer", E::NAME)).spawn(move || thread.serve())?;
        Ok(Self { jobs, handed_over })
    }

    /// Does it; returns once it is durable.
    pub(crate) async fn write<O: Operation<E>>(&self, operation: O) -> Result<O::Output, O::Error> {
        let (reply, answer) = oneshot::channel();
        let task = Task::new(operation, reply);
        self.handed_over.fetch_add(1, Ordering::Relaxed);
        if self.jobs.send(Job::Write(Box::new(task))).is_err() {
            return Err(closed().into());
        }
        answer.await.unwrap_or_else(|_| Err(closed().into()))
    }

    /// Reads on the writer's connection.
    pub(crate) async fn read<T, R>(
        &self,
        read: impl FnOnce(&Connection, &mut E) -> rusqlite::Result<Result<T, R>> + Send + 'static,
    ) -> Result<T, R>
    where
        T: Send + 'static,
        R: From<EngineError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job: ReadJob<E> = Box::new(move |connection, engine| {
            let Some(connection) = connection else { return drop(reply.send(Err(closed().into()))) };
            let outcome = catch_unwind(AssertUnwindSafe(|| read(connection, engine)));
            let _ = reply.send(match outcome {
                Ok(read) => read.unwrap_or_else(|error| Err(engine_error(error).into())),
                Err(_) => {
                    engine.forget();
                    Err(panicked().into())
                }
            });
        });
        if self.jobs.send(Job::Read(job)).is_err() {
            return Err(closed().into());
        }
        answer.await.unwrap_or_else(|_| Err(closed().into()))
    }

    /// Finishes what was handed over, moves the write-ahead log into the file and closes it.
    pub(crate) async fn close(&self) {
        let (reply, answer) = oneshot::channel();
        if self.jobs.send(Job::Close(mpsc::channel().0, Some(reply))).is_ok() {
            let _ = answer.await;
        }
    }
}

impl<E> Drop for Writer<E> {
    fn drop(&mut self) {
        let (done, wait) = mpsc::channel();
        if self.jobs.send(Job::Close(done, None)).is_ok() {
            // A hint to whoever opens the file next; the thread ends by itself if this is too short.
            let _ = wait.recv_timeout(DROP_PATIENCE);
        }
    }
}

/// How a group ended that was not committed.
enum Failure {
    /// Nothing was written: no transaction could be had.
    Begin(EngineError),
    /// Nothing was written: a member failed and everything was rolled back.
    Member(EngineError),
    /// COMMIT reported an error.
    Commit(rusqlite::Error),
}

struct WriterThread<E> {
    connection: Option<Connection>,
    engine: E,
    queue: mpsc::Receiver<Job<E>>,
    turns: Turns,
    log: WriteAheadLog,
    /// Members of the last group for which its time was too short.
    rest: Members<E>,
    gather: Gather,
    /// How many writes were handed over in all, and how many of them were taken.
    handed_over: Arc<AtomicUsize>,
    taken: usize,
    chores: Chores,
}

impl<E: Engine> WriterThread<E> {
    fn new(
        connection: Connection,
        engine: E,
        queue: mpsc::Receiver<Job<E>>,
        handed_over: Arc<AtomicUsize>,
    ) -> Self {
        Self {
            connection: Some(connection),
            engine,
            queue,
            turns: Turns::default(),
            log: WriteAheadLog::of(E::NAME),
            rest: Vec::new(),
            gather: Gather::default(),
            handed_over,
            taken: 0,
            chores: Chores::default(),
        }
    }

    fn serve(&mut self) {
        loop {
            let mut members = std::mem::take(&mut self.rest);
            let mut bytes = members.iter().map(|member| member.weight()).sum::<usize>();
            let mut interruption = None;
            let mut next = if members.is_empty() {
                let Some(first) = self.wait() else { break };
                Some(first)
            } else {
                self.next(members.len())
            };
            while let Some(job) = next.take() {
                self.taken = self.taken.wrapping_add(usize::from(matches!(job, Job::Write(_))));
                match job {
                    Job::Write(member) if member.is_abandoned() => {}
                    Job::Write(member) => {
                        bytes += member.weight();
                        members.push(member);
                    }
                    other => {
                        interruption = Some(other);
                        break;
                    }
                }
                if members.len() < GROUP_MEMBERS && bytes < GROUP_BYTES {
                    next = self.next(members.len());
                }
            }
            self.gather.complete(members.len());
            while !members.is_empty() {
                self.group_and_go_on(&mut members);
                self.do_chore();
                if interruption.is_some() {
                    // It was asked for after all of them.
                    members = std::mem::take(&mut self.rest);
                }
            }
            match interruption {
                Some(Job::Read(job)) => {
                    job(self.connection.as_ref(), &mut self.engine);
                    self.leave_transaction();
                }
                Some(Job::Close(done, reply)) => {
                    self.close();
                    let _ = done.send(());
                    if let Some(reply) = reply {
                        let _ = reply.send(());
                    }
                    return;
                }
                Some(Job::Write(_)) | None => {}
            }
        }
        self.close();
    }

    /// What else goes into the group that has `size` members: whatever is there, and who comes soon.
    fn next(&mut self, size: usize) -> Option<Job<E>> {
        if let Ok(job) = self.queue.try_recv() {
            return Some(job);
        }
        self.queue.recv_timeout(self.gather.patience(size)?).ok()
    }

    fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            // The last connection to close moves the log too; this does it while readers are still there.
            let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            if let Err((_, error)) = connection.close() {
                tracing::warn!(%error, "the database did not close cleanly; the next start recovers it");
            }
        }
    }

    /// Writes the members; if that panics, outside of what a member does, they are told and the thread goes on.
    fn group_and_go_on(&mut self, members: &mut Members<E>) {
        let grouped = catch_unwind(AssertUnwindSafe(|| {
            self.group(members);
            self.tend_log();
        }));
        if grouped.is_err() {
            tracing::error!(database = E::NAME, "the writer panicked; its thread goes on");
            self.engine.forget();
            self.leave_transaction();
            let message = "the outcome of the write is not known: the database's thread panicked; try again";
            let unknown = EngineError::new(FailureKind::Unavailable, message);
            members.drain(..).for_each(|member| member.fail(unknown.clone()));
        }
    }

    /// Rolls back what is open; a connection that cannot is given up.
    fn leave_transaction(&mut self) {
        if let Some(connection) = &self.connection
            && !connection.is_autocommit()
            && execute(connection, "ROLLBACK").is_err()
        {
            self.connection = None;
        }
    }

    /// Writes the members and answers each of them.
    fn group(&mut self, members: &mut Members<E>) {
        let (started, size) = (Instant::now(), members.len());
        self.write(members);
        self.turns.end();
        let took = started.elapsed();
        metrics::histogram!("highwater_sqlite_group_seconds", "database" => E::NAME)
            .record(took.as_secs_f64());
        if took > SLOW {
            tracing::debug!(database = E::NAME, size, ?took, "slow group");
        }
    }

    /// Writes them together; if one fails, each half again by itself, until the one that fails is alone.
    fn write(&mut self, members: &mut Members<E>) {
        self.refuse_growth(members);
        if members.is_empty() {
            return;
        }
        match self.together(members) {
            Err(Failure::Member(error))
                if error.kind() == FailureKind::OutOfSpace && self.engine.make_room(true) =>
            {
                self.tend_log();
                self.write(members);
            }
            Err(Failure::Member(error)) if members.len() > 1 => {
                tracing::debug!(%error, size = members.len(), "a group failed, its halves run by themselves");
                let mut rest = members.split_off(members.len() / 2);
                self.write(members);
                if self.rest.is_empty() {
                    self.write(&mut rest);
                } else {
                    self.rest.append(&mut rest);
                }
            }
            outcome => self.answer(members, outcome),
        }
    }

    /// On a full disk, tells those whose work would need more of it.
    fn refuse_growth(&mut self, members: &mut Members<E>) {
        if !members.iter().any(|member| member.grows()) {
            return;
        }
        if let Err(refused) = self.engine.admit() {
            for member in members.extract_if(.., |member| member.grows()) {
                member.fail(refused.clone());
            }
        }
    }

    /// Moves the write-ahead log into the file when it is long. Nobody waits for this but the next group.
    fn tend_log(&mut self) {
        let Some(connection) = &self.connection else { return };
        if let Err(error) = self.log.tend(connection, self.engine.is_short()) {
            tracing::warn!(%error, database = E::NAME, "the write-ahead log could not be moved");
            // A full disk is one reason: then what was kept for this is needed.
            self.engine.make_room(error.sqlite_error_code() == Some(ErrorCode::DiskFull));
        }
    }

    fn answer(&mut self, members: &mut Members<E>, outcome: Result<(), Failure>) {
        count(members);
        metrics::histogram!("highwater_sqlite_group_size", "database" => E::NAME)
            .record(members.len() as f64);
        match outcome {
            Ok(()) => {
                let waiting = self.handed_over.load(Ordering::Relaxed).wrapping_sub(self.taken);
                self.gather.answered(members.len(), waiting + self.rest.len());
                let mut wakes = Wakes::NOBODY;
                for member in members.drain(..) {
                    wakes.add(member.answer());
                }
                self.engine.wake(wakes);
            }
            Err(Failure::Begin(error) | Failure::Member(error)) => {
                members.drain(..).for_each(|member| member.fail(error.clone()));
            }
            Err(Failure::Commit(error)) => self.resolve(members, error),
        }
    }

    /// One transaction with all of them.
    fn together(&mut self, members: &mut Members<E>) -> Result<(), Failure> {
        self.ensure_connection().map_err(Failure::Begin)?;
        let Some(connection) = &self.connection else { return Err(Failure::Begin(closed())) };
        self.turns.take(connection).map_err(Failure::Begin)?;
        let written = catch_unwind(AssertUnwindSafe(|| self.run(members)));
        let written = written.unwrap_or_else(|_| Err(panicked()));
        if let Err(error) = &written {
            let error = error.clone();
            self.engine.forget();
            self.leave_transaction();
            return Err(Failure::Member(error));
        }
        if failpoint::sabotaged("acknowledged-first") {
            self.answer(members, Ok(()));
        }
        let Some(connection) = &self.connection else { return Err(Failure::Begin(closed())) };
        failpoint::hit(E::BEFORE_COMMIT);
        let started = Instant::now();
        if let Err(error) = execute(connection, "COMMIT") {
            // SQLite reports a full disk only for a page that it could not append to the log, before the one that
            // would make the transaction count: nothing is written, unlike after any other error here.
            if error.sqlite_error_code() == Some(ErrorCode::DiskFull) {
                self.engine.forget();
                self.leave_transaction();
                return Err(Failure::Member(engine_error(error)));
            }
            return Err(Failure::Commit(error));
        }
        if written.is_ok_and(|has_written| has_written) {
            self.engine.committed();
        }
        let took = started.elapsed();
        self.gather.committed(took);
        metrics::histogram!("highwater_sqlite_commit_seconds", "database" => E::NAME).record(took);
        failpoint::hit(E::AFTER_COMMIT);
        Ok(())
    }

    /// Runs the members inside the transaction that has begun; true if they have written something.
    fn run(&mut self, members: &mut Members<E>) -> Result<bool, EngineError> {
        let defect = |what: &str| EngineError::new(FailureKind::Other, format!("{what}; please report this"));
        let Some(connection) = &self.connection else { return Err(closed()) };
        let (started, before) = (Instant::now(), connection.total_changes());
        let version = self.turns.look(connection).map_err(engine_error)?;
        self.engine.begin(connection, version).map_err(engine_error)?;
        let mut done = 0;
        for member in members.iter_mut() {
            if done > 0 && started.elapsed() >= GROUP_TIME {
                break;
            }
            done += 1;
            let changes = connection.total_changes();
            let refused = member.run(connection, &mut self.engine).map_err(engine_error)?;
            if refused && connection.total_changes() != changes {
                return Err(defect("an operation was refused after it had written something"));
            }
        }
        let has_written = connection.total_changes() != before;
        if has_written {
            self.engine.finish(connection).map_err(engine_error)?;
        }
        let mut rest = members.split_off(done);
        rest.append(&mut self.rest);
        self.rest = rest;
        if connection.is_autocommit() {
            Err(defect("the transaction ended by itself"))
        } else {
            Ok(has_written)
        }
    }

    fn ensure_connection(&mut self) -> Result<(), EngineError> {
        if self.connection.is_none() {
            self.turns.forget();
            self.connection = self.engine.reconnect()?;
        }
        if self.connection.is_some() { Ok(()) } else { Err(closed()) }
    }

    /// Finds out what a failed COMMIT has left on disk.
    fn resolve(&mut self, members: &mut Members<E>, error: rusqlite::Error) {
        tracing::error!(%error, database = E::NAME, "COMMIT failed; looking at what was written");
        self.engine.forget();
        self.engine.make_room(false);
        let message = "the outcome of the write is not known: the disk reported an error; try again";
        let unknown = EngineError::new(FailureKind::Unavailable, message).caused_by(error);
        let known = self.reopen_and_prove();
        if let Err(reason) = &known {
            tracing::error!(%reason, database = E::NAME, "the database could not be opened again");
        }
        let mut wakes = Wakes::NOBODY;
        for mut member in members.drain(..) {
            let found = known.is_ok()
                && self
                    .connection
                    .as_ref()
                    .is_some_and(|connection| member.resolve(connection, &mut self.engine).unwrap_or(false));
            if found {
                wakes.add(member.answer());
            } else {
                member.fail(unknown.clone());
            }
        }
        self.engine.wake(wakes);
    }

    /// After a failed fsync a page may look written and not be on disk. Moving the write-ahead log into the file
    /// writes and syncs it anew: only what survives that counts.
    fn reopen_and_prove(&mut self) -> Result<(), EngineError> {
        if let Some(connection) = self.connection.take() {
            if !connection.is_autocommit() {
                let _ = execute(&connection, "ROLLBACK");
            }
            match self.engine.reconnect() {
                // A database in memory lives in this connection only.
                Ok(None) => {
                    self.connection = Some(connection);
                    return Ok(());
                }
                Ok(Some(fresh)) => {
                    drop(connection);
                    self.connection = Some(fresh);
                }
                Err(error) => return Err(error),
            }
        }
        self.ensure_connection()?;
        let Some(connection) = &self.connection else { return Err(closed()) };
        let blocked = write_ahead_log::cut(connection, BUSY_PATIENCE).map_err(engine_error)?;
        if blocked {
            return Err(EngineError::new(FailureKind::Busy, "readers keep the write-ahead log in use"));
        }
        Ok(())
    }
}

/// Counts the members by kind; runs of one kind are counted at once.
fn count<E>(members: &Members<E>) {
    for run in members.chunk_by(|one, other| one.kind() == other.kind()) {
        if let Some(first) = run.first() {
            metrics::counter!("highwater_sqlite_writes_total", "kind" => first.kind())
                .increment(run.len() as u64);
        }
    }
}

fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(|_| ())
}

mod chore;
#[cfg(test)]
mod tests;
