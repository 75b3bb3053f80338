use crate::address::Address;
use crate::aggregate::Aggregate;
use crate::decide::Undecided;
use crate::engine::Engine;
use crate::handler::HandlerError;
use crate::outcome::Outcome;
use crate::send::{SendError, raw};
use crate::session::Session;
use highwater_core::CommandId;
use std::pin::Pin;

/// A command to be decided right here, without a queue; await it.
#[must_use = "a command is decided when this is awaited"]
#[derive(Debug)]
pub struct Execute<'a, A: Aggregate> {
    engine: &'a Engine,
    to: Address,
    command: A::Command,
    id: Option<CommandId>,
}

/// Why a command could not be decided.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// It is not a proper command, or its id was used for another one.
    #[error(transparent)]
    Command(#[from] SendError),
    /// Deciding or committing failed.
    #[error("{0}")]
    Failed(HandlerError),
}

impl<'a, A: Aggregate> Execute<'a, A> {
    pub(crate) fn new(engine: &'a Engine, to: Address, command: A::Command) -> Self {
        Self { engine, to, command, id: None }
    }

    /// Gives the command an id of the caller's making, so that executing it again is harmless.
    pub fn id(mut self, id: CommandId) -> Self {
        self.id = Some(id);
        self
    }

    async fn execute(self) -> Result<Outcome, ExecuteError> {
        let core = self.engine.core();
        let id = self.id.unwrap_or_else(CommandId::random);
        let command = raw::<A>(core, &self.to, &self.command, id)?;
        let decider = core.deciders.get(&command.key.container);
        let decider = decider.ok_or(SendError::NotRegistered { container: A::CONTAINER })?;
        let committed = decider.decide(core, &command).await.map_err(|undecided| match undecided {
            Undecided::CommandIdReused(id) => SendError::CommandIdReused { id }.into(),
            Undecided::Failed(error) => ExecuteError::Failed(error),
        })?;
        Session::told(&committed.token);
        Ok(Outcome::of(committed.verdict, committed.token))
    }
}

impl<'a, A: Aggregate> IntoFuture for Execute<'a, A> {
    type Output = Result<Outcome, ExecuteError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.execute())
    }
}
