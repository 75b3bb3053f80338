//! One command, from its bytes to its commit.

use crate::aggregate::{Aggregate, Context, Decision, Storage};
use crate::core::{Core, back_off};
use crate::guard::guard_async;
use crate::handler::{ErrorClass, HandlerError};
use crate::load::load;
use crate::schema::{OldKind, read_tagged};
use crate::tagged::{self, TagError};
use highwater_core::{
    Batch, Body, CommandId, CommandMark, CommitError, Committed, Event, Expect, Fingerprint, Item, ItemKey,
    Json, Op, Verdict, Write, async_trait, failpoint,
};
use std::time::Duration;

/// How often a decision is made again because somebody else committed in between, before the command counts as
/// failed for this time.
const CONFLICT_RETRIES: u32 = 10;

/// A command before it is known what it asks.
#[derive(Debug, Clone)]
pub(crate) struct RawCommand {
    pub(crate) id: CommandId,
    pub(crate) key: ItemKey,
    pub(crate) name: String,
    pub(crate) schema: u32,
    pub(crate) data: Json,
}

impl RawCommand {
    /// A command's content in short: its target, its name and its data.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let ItemKey { container, partition_key, id } = &self.key;
        Fingerprint::of(&[
            container.as_str().as_bytes(),
            partition_key.as_str().as_bytes(),
            id.as_str().as_bytes(),
            self.name.as_bytes(),
            self.data.as_bytes(),
        ])
    }
}

/// Why a command was not decided.
pub(crate) enum Undecided {
    /// Its id was used for another command.
    CommandIdReused(CommandId),
    /// Something went wrong.
    Failed(HandlerError),
}

impl<E: Into<HandlerError>> From<E> for Undecided {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Undecided {
    /// What it means for the message that carried the command.
    pub(crate) fn into_error(self) -> HandlerError {
        match self {
            Self::CommandIdReused(id) => CommitError::CommandIdReused { id }.into(),
            Self::Failed(error) => error,
        }
    }
}

/// Decides the commands of one container, whatever its aggregate.
#[async_trait]
pub(crate) trait Decider: Send + Sync {
    /// The newest schema of commands that this program knows.
    fn schema(&self) -> u32;

    /// Loads, decides and commits, again after a conflict.
    async fn decide(&self, core: &Core, command: &RawCommand) -> Result<Committed, Undecided>;
}

pub(crate) struct AggregateDecider<A: Aggregate> {
    settings: A::Settings,
}

impl<A: Aggregate> AggregateDecider<A> {
    /// # Errors
    /// When commands or events are not plain enums.
    pub(crate) fn new(settings: A::Settings) -> Result<Self, TagError> {
        tagged::names::<A::Command>()?;
        tagged::names::<A::Event>()?;
        Ok(Self { settings })
    }

    async fn decide_once(&self, core: &Core, command: &RawCommand) -> Result<Batch, HandlerError> {
        let item = core.backend.store.item(&command.key).await?;
        failpoint::hit("worker.read");
        let state: A = load(core, &command.key, item.as_ref()).await?;
        let upcast = A::upcast;
        let RawCommand { id, key, name, schema, data } = command;
        let question = read_tagged(OldKind::Command, name, *schema, data, A::SCHEMA, upcast)?;
        let context = Context::new(core.now(), *id, key, &self.settings);
        let decision = state.decide(question, &context);
        write(command, item.as_ref(), state, decision)
    }
}

impl<A: Aggregate> AggregateDecider<A> {
    async fn decide_until_committed(
        &self,
        core: &Core,
        command: &RawCommand,
    ) -> Result<Committed, Undecided> {
        let mut attempt = 0;
        loop {
            let batch = self.decide_once(core, command).await?;
            failpoint::hit("worker.decided");
            match core.backend.store.commit(batch).await {
                Ok(committed) => return Ok(committed),
                Err(CommitError::Conflict { key, .. }) if attempt < CONFLICT_RETRIES => {
                    attempt += 1;
                    metrics::counter!("highwater_command_conflicts_total").increment(1);
                    tracing::debug!(%key, attempt, "conflict, deciding again");
                    core.pause(back_off(attempt, Duration::from_millis(1), Duration::from_millis(100))).await;
                }
                Err(CommitError::CommandIdReused { id }) => return Err(Undecided::CommandIdReused(id)),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[async_trait]
impl<A: Aggregate> Decider for AggregateDecider<A> {
    fn schema(&self) -> u32 {
        A::SCHEMA
    }

    async fn decide(&self, core: &Core, command: &RawCommand) -> Result<Committed, Undecided> {
        let _alone = core.lock(&command.key.partition_key).await;
        let undecided = match guard_async(self.decide_until_committed(core, command)).await {
            Ok(Ok(committed)) => return Ok(committed),
            Ok(Err(undecided)) => undecided,
            Err(panicked) => Undecided::Failed(panicked),
        };
        // Whatever went wrong this time, a command that was decided before has its verdict.
        match core.backend.store.decided(&command.key.partition_key, command.id).await {
            Ok(Some(decided)) if decided.mark.fingerprint == command.fingerprint() => {
                Ok(Committed::replayed(decided))
            }
            Ok(Some(_)) => Err(Undecided::CommandIdReused(command.id)),
            Ok(None) | Err(_) => Err(undecided),
        }
    }
}

/// The commit that records a decision. A rejection is a commit too: without events a `Keep` on the state it was
/// decided on.
fn write<A: Aggregate>(
    command: &RawCommand,
    item: Option<&Item>,
    mut state: A,
    decision: Decision<A>,
) -> Result<Batch, HandlerError> {
    let expect = item.map_or(Expect::Absent, |item| Expect::ETag(item.etag));
    let ItemKey { container, partition_key, id } = command.key.clone();
    let Decision { rejected, events, items } = decision;
    events.iter().for_each(|event| state.apply(event));
    let op = op_of(&mut state, item, events.is_empty())?;
    let events = events.iter().map(encode_event::<A>).collect::<Result<_, _>>()?;
    let mut writes = vec![Write::new(container, id, op).expect(expect).events(events)];
    for item in items {
        writes.push(item.map_err(|error| HandlerError::new(ErrorClass::Permanent, error))?);
    }
    let verdict = rejected.map_or(Verdict::Accepted, |reason| Verdict::Rejected { reason });
    let mark = CommandMark::new(command.id, command.fingerprint(), verdict);
    Ok(Batch::new(partition_key, writes).command(mark))
}

fn op_of<A: Aggregate>(state: &mut A, item: Option<&Item>, unchanged: bool) -> Result<Op, HandlerError> {
    let due = match A::STORAGE {
        Storage::State => true,
        Storage::Events { snapshot_every } => {
            item.map_or(1, |item| item.later.len() + 1) >= snapshot_every.max(1) as usize
        }
    };
    if unchanged || !due {
        return Ok(Op::Keep);
    }
    state.derive();
    Ok(Op::Put(Body { schema: A::SCHEMA, json: Json::encode(state)? }))
}

/// Writes an event of aggregate `A` as it stands in a log: for imports and tests, which commit without deciding.
///
/// # Errors
/// [`TagError`] when the event cannot be written as JSON.
pub fn encode_event<A: Aggregate>(event: &A::Event) -> Result<Event, TagError> {
    let (name, data) = tagged::encode(event)?;
    Ok(Event::new(name, A::SCHEMA, data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_core::{CommandId, Timestamp};
    use serde::{Deserialize, Serialize};

    #[derive(Default, Serialize, Deserialize)]
    struct Door<const EVENTS: bool> {
        refused: u32,
    }

    #[derive(Serialize, Deserialize)]
    enum Knock {
        Loudly,
        Softly,
    }

    #[derive(Serialize, Deserialize)]
    enum Heard {
        Refused,
    }

    impl<const EVENTS: bool> Aggregate for Door<EVENTS> {
        const CONTAINER: &'static str = "doors";
        const STORAGE: Storage = if EVENTS { Storage::Events { snapshot_every: 9 } } else { Storage::State };
        type Command = Knock;
        type Event = Heard;
        type Settings = ();

        fn decide(&self, knock: Knock, _: &Context<'_, Self>) -> Decision<Self> {
            match knock {
                Knock::Softly => Decision::reject("nobody hears you"),
                Knock::Loudly => {
                    Decision::reject("go away").with_events([Heard::Refused]).put_item("x", "y", &1)
                }
            }
        }

        fn apply(&mut self, Heard::Refused: &Heard) {
            self.refused += 1;
        }
    }

    fn batch<const EVENTS: bool>(knock: Knock) -> Batch {
        let key = ItemKey::alone(highwater_core::Name::new("doors").unwrap(), "front").unwrap();
        let (name, data) = tagged::encode(&knock).unwrap();
        let command = RawCommand { id: CommandId::random(), key, name, schema: 1, data };
        let door = Door::<EVENTS>::default();
        let decision =
            door.decide(knock, &Context::new(Timestamp::from_micros(0), command.id, &command.key, &()));
        write(&command, None, door, decision).unwrap()
    }

    #[test]
    fn a_rejection_with_events_records_them_and_applies_them_in_both_kinds_of_storage() {
        let (state, events) = (batch::<false>(Knock::Loudly), batch::<true>(Knock::Loudly));
        for batch in [&state, &events] {
            let [write] = &*batch.writes else { panic!("a rejection leaves other items alone: {batch:?}") };
            assert_eq!(&*write.events[0].name, "Refused");
            let verdict = batch.command.as_ref().map(|mark| mark.verdict.clone());
            assert_eq!(verdict, Some(Verdict::Rejected { reason: "go away".into() }));
        }
        let Op::Put(body) = &state.writes[0].op else { panic!("the state has changed: {state:?}") };
        assert_eq!(body.json.as_bytes(), br#"{"refused":1}"#);
        assert_eq!(events.writes[0].op, Op::Keep);
    }

    #[test]
    fn a_rejection_without_events_keeps_the_state_it_was_decided_on() {
        for batch in [batch::<false>(Knock::Softly), batch::<true>(Knock::Softly)] {
            assert_eq!((&batch.writes[0].op, batch.writes[0].events.len()), (&Op::Keep, 0));
        }
    }
}
