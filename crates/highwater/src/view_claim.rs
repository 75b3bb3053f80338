//! Claims a view's slot, and heals a view that knows more than its store: after a restore it is ahead of the log, would
//! miss the changes that get the lost positions, and shows documents of a future that did not happen.

use crate::core::Core;
use crate::handler::HandlerError;
use crate::view_sink::NotApplied;
use highwater_core::{Claim, Diverged, Reached, ViewSlot, ViewWriteError};

/// Takes the slot over. A view within the history that the store shares with the life in which the view was built goes
/// on; one beyond is cleared and built again from the beginning, because its documents are folded from several
/// partitions and cannot be taken back one by one.
pub(crate) async fn claim(core: &Core, slot: &ViewSlot) -> Result<Claim, NotApplied> {
    for _ in 0..FENCED {
        match claim_once(core, slot).await {
            Err(NotApplied::Fenced) => {}
            outcome => return outcome,
        }
    }
    claim_once(core, slot).await
}

/// How often a slot is claimed again because the view was cleared for another partition in between.
const FENCED: u32 = 3;

async fn claim_once(core: &Core, slot: &ViewSlot) -> Result<Claim, NotApplied> {
    let (store, views) = (&core.backend.store, &core.backend.views);
    let lineage = store.lineage();
    let claim = views.claim(slot, lineage.epoch()).await?;
    // A slot without a position may be the first of this life while others are of an earlier one.
    if claim.store_epoch != lineage.epoch() || claim.position.is_none() {
        return match views.adopt(slot, claim, &lineage).await {
            Ok(claim) => Ok(claim),
            Err(ViewWriteError::Fenced { .. }) => Err(NotApplied::Fenced),
            Err(ViewWriteError::Diverged { diverged, .. }) => heal(core, slot, claim, &diverged).await,
            Err(error) => Err(error.into()),
        };
    }
    // Read after the claim, so that nobody else can have moved the slot past it.
    let head = store.head().await?;
    let end = head.of(slot.store).and_then(|head| head.positions.get(&slot.partition)).copied();
    match claim.position.filter(|position| Some(*position) > end) {
        None => Ok(claim),
        Some(position) => {
            let diverged = Diverged::beyond(lineage.epoch(), slot.partition, position, end);
            heal(core, slot, claim, &diverged).await
        }
    }
}

/// Empties the view.
async fn heal(core: &Core, slot: &ViewSlot, claim: Claim, diverged: &Diverged) -> Result<Claim, NotApplied> {
    if !diverged.known && diverged.found > diverged.epoch {
        // The view is of a later life: it is the store that is out of date, and clearing the view would only hide it.
        let text = format!(
            "view {} was built in a later life of the store ({diverged}): put the right store file there, or stop all programs and delete the views file",
            slot.view
        );
        return Err(NotApplied::Failed(HandlerError::permanent(text)));
    }
    let head = core.backend.store.head().await?;
    let positions = head.of(slot.store).map(|head| head.positions.clone()).unwrap_or_default();
    let until = Reached { epoch: diverged.epoch, positions };
    tracing::warn!(view = %slot.view, %diverged, "the view is cleared and built again");
    metrics::counter!("highwater_view_healed_total", "view" => slot.view.name.to_string()).increment(1);
    match core.backend.views.clear(slot, claim, &until, &diverged.to_string()).await {
        Err(ViewWriteError::Fenced { .. }) => Err(NotApplied::Fenced),
        cleared => Ok(cleared?),
    }
}
