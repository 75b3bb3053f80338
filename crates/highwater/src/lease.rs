//! Who works on which partition of a processor: one lease per partition, kept as a cell.

use crate::handler::HandlerError;
use crate::send::constant;
use highwater_core::{Cell, CellKey, Diverged, EngineError, Epoch, Lineage, Partition, Position, Timestamp};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How quickly a dead process is noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseTimes {
    /// How often a process shows that it lives; 1 s by default. Raise it when cell writes are dear, lower it with
    /// `expire`.
    pub renew: Duration,
    /// How often a process looks for partitions to take over; 1 s by default.
    pub acquire: Duration,
    /// After how long without a sign of life a process counts as dead; 5 s by default. Must be well above `renew`:
    /// a process that stalls for longer loses its partitions.
    pub expire: Duration,
}

impl Default for LeaseTimes {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self { renew: second, acquire: second, expire: 5 * second }
    }
}

impl LeaseTimes {
    /// Sets the three times, in the order renew, acquire, expire.
    pub fn new(renew: Duration, acquire: Duration, expire: Duration) -> Self {
        Self { renew, acquire, expire }
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.renew.is_zero() || self.acquire.is_zero() {
            faults.push("lease times renew and acquire must be above zero".into());
        }
        if self.expire < self.renew * 2 {
            faults.push(format!(
                "lease time expire ({:?}) must be at least twice renew ({:?})",
                self.expire, self.renew
            ));
        }
        faults
    }
}

/// What a lease's cell says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lease {
    /// The incarnation that owns it.
    pub(crate) owner: Option<String>,
    /// Raised at every change of hands.
    pub(crate) owner_epoch: u64,
    /// Since when the owner has it, by its clock; for people.
    pub(crate) since: Option<Timestamp>,
    /// The epoch of the store that the positions belong to.
    pub(crate) store_epoch: Epoch,
    /// Where reading began; stored when the lease is created so that a restart cannot move it.
    pub(crate) start: Option<Position>,
    /// Everything up to here was handled.
    pub(crate) checkpoint: Option<Position>,
    /// How often the batch after the checkpoint has failed.
    pub(crate) attempt: u32,
    /// What went wrong last.
    pub(crate) last_failure: Option<String>,
}

impl Lease {
    pub(crate) fn fresh(store_epoch: Epoch, start: Option<Position>) -> Self {
        Self {
            owner: None,
            owner_epoch: 0,
            since: None,
            store_epoch,
            start,
            checkpoint: None,
            attempt: 0,
            last_failure: None,
        }
    }

    /// The place to go on from.
    pub(crate) fn position(&self) -> Option<Position> {
        self.checkpoint.or(self.start)
    }

    /// Makes the lease one of the life that the store is in. A place beyond what the lives share goes back to there:
    /// other changes stand behind it. Says what was beyond, if anything was.
    pub(crate) fn carry_over(
        &mut self,
        lineage: &Lineage,
        partition: Partition,
        is_view: bool,
    ) -> Result<Option<Diverged>, HandlerError> {
        if self.store_epoch == lineage.epoch() {
            return Ok(None);
        }
        let mut lost = None;
        for place in [&mut self.start, &mut self.checkpoint] {
            match lineage.check(self.store_epoch, partition, *place) {
                Ok(()) => {}
                Err(diverged) if diverged.known || is_view => {
                    *place = diverged.shared;
                    lost = Some(diverged);
                }
                // Nobody knows which changes were handled: beginning anywhere would skip some or do some again.
                Err(diverged) => return Err(HandlerError::permanent(diverged)),
            }
        }
        // Whoever fences by the owner's epoch has seen those of the lost future, which began lower than this.
        self.owner_epoch = self.owner_epoch.max(lineage.epoch().0);
        (self.store_epoch, self.attempt, self.last_failure) = (lineage.epoch(), 0, None);
        Ok(lost.filter(|_| !is_view))
    }

    pub(crate) fn read(cell: &Cell) -> Result<Self, EngineError> {
        cell.value.decode().map_err(|error| {
            let text = format!("lease {} cannot be read", cell.key);
            EngineError::new(highwater_core::FailureKind::Corrupt, text).caused_by(error)
        })
    }
}

/// The cell of a lease.
pub(crate) fn key(processor: &str, partition: Partition) -> Result<CellKey, EngineError> {
    Ok(CellKey::new(constant("leases")?, format!("{processor}/{:05}", partition.0)))
}
