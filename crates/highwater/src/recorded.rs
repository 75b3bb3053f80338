use crate::aggregate::Aggregate;
use crate::schema::{DecodeError, OldKind, read_tagged};
use highwater_core::{Change, EventId, ItemKey, Partition, Position, Timestamp};

/// An event as it stands in the log.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Recorded<E> {
    /// Its id, the same for ever.
    pub id: EventId,
    /// What happened.
    pub event: E,
    /// When it was committed, by the store's clock.
    pub at: Timestamp,
    /// The log it stands in.
    pub partition: Partition,
    /// Where it stands there.
    pub position: Position,
}

impl<E> Recorded<E> {
    /// An event as a test wants it to have been recorded.
    pub fn new(id: EventId, event: E, at: Timestamp, partition: Partition, position: Position) -> Self {
        Self { id, event, at, partition, position }
    }

    /// The item that it happened to.
    pub fn key(&self) -> &ItemKey {
        &self.id.key
    }
}

/// Reads the events of a change of aggregate `A`.
pub(crate) fn recorded<A: Aggregate>(change: &Change) -> Result<Vec<Recorded<A::Event>>, DecodeError> {
    let read = |(index, event): (usize, &highwater_core::Event)| {
        let upcast = A::upcast;
        let fact = read_tagged(OldKind::Event, &event.name, event.schema, &event.data, A::SCHEMA, upcast)?;
        Ok(Recorded::new(change.event_id(index), fact, change.at, change.partition, change.position))
    };
    change.events.iter().enumerate().map(read).collect()
}
