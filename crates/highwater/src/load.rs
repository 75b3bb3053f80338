//! From what a store knows of an item to the state of an aggregate.

use crate::aggregate::{Aggregate, Storage};
use crate::core::Core;
use crate::handler::HandlerError;
use crate::recorded::recorded;
use crate::schema::read_body;
use highwater_core::{Change, ChangeOp, Item, ItemKey};

/// How many changes of a history are read at a time.
const HISTORY_PAGE: usize = 256;

/// The newest body with the events after it applied.
pub(crate) async fn load<A: Aggregate>(
    core: &Core,
    key: &ItemKey,
    item: Option<&Item>,
) -> Result<A, HandlerError> {
    let Some(item) = item.filter(|item| item.exists) else {
        return Ok(A::default());
    };
    let body = item.body.as_ref().map(|(_, body)| read_body::<A>(body, A::SCHEMA, A::upcast));
    match body {
        None => replay(A::default(), &item.later),
        Some(Ok(state)) => replay(state, &item.later),
        // A snapshot is only a shortcut: the events can do without it.
        Some(Err(error)) if matches!(A::STORAGE, Storage::Events { .. }) => {
            tracing::warn!(%key, %error, "snapshot cannot be read, applying all events instead");
            replay(A::default(), &all_events(core, key).await?)
        }
        Some(Err(error)) => Err(error.into()),
    }
}

fn replay<A: Aggregate>(mut state: A, changes: &[Change]) -> Result<A, HandlerError> {
    for change in changes {
        let events = recorded::<A>(change)?;
        events.iter().for_each(|recorded| state.apply(&recorded.event));
    }
    Ok(state)
}

/// Every change since the item last began, oldest first.
async fn all_events(core: &Core, key: &ItemKey) -> Result<Vec<Change>, HandlerError> {
    let mut changes: Vec<Change> = Vec::new();
    loop {
        let before = changes.last().map(|change| change.version);
        let page = core.backend.store.history(key, before, HISTORY_PAGE).await?;
        let more = page.len() == HISTORY_PAGE;
        for change in page {
            if matches!(change.op, ChangeOp::Delete { .. }) {
                changes.reverse();
                return Ok(changes);
            }
            changes.push(change);
        }
        if !more {
            changes.reverse();
            return Ok(changes);
        }
    }
}
