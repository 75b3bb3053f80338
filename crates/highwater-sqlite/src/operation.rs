//! What the writing thread is handed: something to write, and whoever waits for the outcome.

use highwater_core::EngineError;
use rusqlite::Connection;
use tokio::sync::oneshot;

/// Whom a group wakes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wakes {
    pub(crate) store: bool,
    pub(crate) queue: bool,
    pub(crate) views: bool,
}

impl Wakes {
    pub(crate) const NOBODY: Self = Self { store: false, queue: false, views: false };
    pub(crate) const STORE: Self = Self { store: true, queue: false, views: false };
    pub(crate) const QUEUE: Self = Self { store: false, queue: true, views: false };
    pub(crate) const VIEWS: Self = Self { store: false, queue: false, views: true };

    pub(crate) fn add(&mut self, other: Self) {
        self.store |= other.store;
        self.queue |= other.queue;
        self.views |= other.views;
    }
}

/// Something to write. It may be run more than once; what an earlier run wrote was rolled back.
pub(crate) trait Operation<E>: Send + 'static {
    type Output: Send + 'static;
    type Error: From<EngineError> + Send + 'static;

    /// What metrics call it.
    fn kind(&self) -> &'static str;

    /// Whom it wakes when it succeeds.
    fn wakes(&self) -> Wakes {
        Wakes::NOBODY
    }

    /// Does it. The inner error is a refusal: the caller's condition did not hold.
    fn run(
        &mut self,
        connection: &Connection,
        engine: &mut E,
    ) -> rusqlite::Result<Result<Self::Output, Self::Error>>;

    /// Looks whether a COMMIT that reported an error has nevertheless written it.
    fn resolve(
        &mut self,
        _connection: &Connection,
        _engine: &mut E,
    ) -> rusqlite::Result<Option<Self::Output>> {
        Ok(None)
    }

    /// About how many bytes it writes.
    fn weight(&self) -> usize {
        256
    }

    /// Whether the database becomes larger by it, or more work to do: refused on a full disk. What finishes work, and
    /// small records such as leases, is not.
    fn grows(&self) -> bool {
        matches!(self.kind(), "commit" | "put" | "view") || self.weight() > SMALL
    }
}

/// What is not larger than this is written on a full disk too, unless it is new work.
const SMALL: usize = 4 * 1024;

/// An [`Operation`] from a closure.
pub(crate) struct Simple<F> {
    pub(crate) kind: &'static str,
    pub(crate) wakes: Wakes,
    /// About how many bytes it writes.
    pub(crate) bytes: usize,
    pub(crate) run: F,
}

impl<E, T, R, F> Operation<E> for Simple<F>
where
    F: FnMut(&Connection, &mut E) -> rusqlite::Result<Result<T, R>> + Send + 'static,
    T: Send + 'static,
    R: From<EngineError> + Send + 'static,
{
    type Output = T;
    type Error = R;

    fn kind(&self) -> &'static str {
        self.kind
    }

    fn wakes(&self) -> Wakes {
        self.wakes
    }

    fn weight(&self) -> usize {
        256 + self.bytes
    }

    fn run(&mut self, connection: &Connection, engine: &mut E) -> rusqlite::Result<Result<T, R>> {
        (self.run)(connection, engine)
    }
}

/// An operation on its way, whatever its types.
pub(crate) trait Member<E>: Send {
    /// True if nobody waits for the outcome any more.
    fn is_abandoned(&self) -> bool;
    fn weight(&self) -> usize;
    fn grows(&self) -> bool;
    fn kind(&self) -> &'static str;
    /// Runs it; true if it was refused, and then it must have written nothing.
    fn run(&mut self, connection: &Connection, engine: &mut E) -> rusqlite::Result<bool>;
    /// Looks whether it was written; true if so.
    fn resolve(&mut self, connection: &Connection, engine: &mut E) -> rusqlite::Result<bool>;
    /// Tells the caller what came out; whom that wakes.
    fn answer(self: Box<Self>) -> Wakes;
    fn fail(self: Box<Self>, error: EngineError);
}

pub(crate) struct Task<O, T, R> {
    operation: O,
    outcome: Option<Result<T, R>>,
    reply: oneshot::Sender<Result<T, R>>,
}

impl<O, T, R> Task<O, T, R> {
    pub(crate) fn new(operation: O, reply: oneshot::Sender<Result<T, R>>) -> Self {
        Self { operation, outcome: None, reply }
    }
}

impl<E, O: Operation<E>> Member<E> for Task<O, O::Output, O::Error> {
    fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    fn weight(&self) -> usize {
        self.operation.weight()
    }

    fn grows(&self) -> bool {
        self.operation.grows()
    }

    fn kind(&self) -> &'static str {
        self.operation.kind()
    }

    fn run(&mut self, connection: &Connection, engine: &mut E) -> rusqlite::Result<bool> {
        let outcome = self.operation.run(connection, engine)?;
        let refused = outcome.is_err();
        self.outcome = Some(outcome);
        Ok(refused)
    }

    fn resolve(&mut self, connection: &Connection, engine: &mut E) -> rusqlite::Result<bool> {
        // A refusal wrote nothing, so it stands.
        if matches!(self.outcome, Some(Err(_))) {
            return Ok(true);
        }
        let found = self.operation.resolve(connection, engine)?;
        let is_found = found.is_some();
        self.outcome = found.map(Ok);
        Ok(is_found)
    }

    fn answer(self: Box<Self>) -> Wakes {
        let Some(outcome) = self.outcome else { return Wakes::NOBODY };
        let wakes = if outcome.is_ok() { self.operation.wakes() } else { Wakes::NOBODY };
        // Nobody may be waiting any more; what was done is done.
        let _ = self.reply.send(outcome);
        wakes
    }

    fn fail(self: Box<Self>, error: EngineError) {
        let _ = self.reply.send(Err(error.into()));
    }
}
