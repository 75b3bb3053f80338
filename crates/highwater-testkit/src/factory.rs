use crate::TestClock;
use highwater_core::{Backend, async_trait};
use std::{error::Error, sync::Arc};

/// Why a factory could not do what it was asked for.
pub type Problem = Box<dyn Error + Send + Sync>;

/// What a factory can do beyond making a fresh backend. Rules that need more are left out, and the report says
/// so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Features {
    /// [`Factory::reopen`] works.
    pub reopen: bool,
    /// [`Factory::hold_next_commit`] works.
    pub hold: bool,
}

/// Makes the backends that the rules are checked against.
#[async_trait]
pub trait Factory: Send + Sync + 'static {
    /// A backend in which nothing has been written, on this clock.
    async fn fresh(&self, clock: Arc<TestClock>) -> Result<Backend, Problem>;

    /// What else this factory can do.
    fn features(&self) -> Features {
        Features::default()
    }

    /// Closes a backend that [`fresh`](Self::fresh) made and opens the same one again.
    async fn reopen(&self, backend: Backend, clock: Arc<TestClock>) -> Result<Backend, Problem> {
        let _ = (backend, clock);
        Err("this factory cannot reopen a backend".into())
    }

    /// Arranges that the next commit to this backend stops after its positions were chosen and before anybody
    /// can read it.
    async fn hold_next_commit(&self, backend: &Backend) -> Result<Box<dyn Held>, Problem> {
        let _ = backend;
        Err("this factory cannot hold a commit open".into())
    }
}

/// A commit that is being held open; dropping this lets it go on.
#[async_trait]
pub trait Held: Send {
    /// Returns once a commit has come to the place where it is held.
    async fn reached(&mut self);
}
