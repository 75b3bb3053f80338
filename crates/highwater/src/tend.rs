//! Which partitions of a processor this process holds: taking over what is free, letting go of what was lost.

use crate::core::back_off;
use crate::follower::{Follower, Held, PAUSE, Sink, Slot};
use crate::handler::HandlerError;
use crate::lease::{Lease, key};
use crate::view_sink::NotApplied;
use highwater_core::{CellError, CellWrite, ETag, Expect, Json, Partition, Position};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

impl Follower {
    /// Makes leases that are missing, lets go of those that were lost, takes those that nobody alive holds. Returns
    /// what could not be taken, and why.
    pub(crate) async fn tend(
        self: &Arc<Self>,
        held: &mut Held,
    ) -> Result<Vec<(Partition, HandlerError)>, HandlerError> {
        if !self.instance.is_alive(self.times.expire).await {
            // Others may count this process as dead; it must not take anything before they see it alive.
            if let Err(error) = self.instance.beat().await {
                for partition in held.slots.keys().copied().collect::<Vec<_>>() {
                    self.lose(held, partition);
                }
                return Err(error.into());
            }
        }
        let info = self.core.backend.store.info();
        let prefix = format!("{}/", self.name);
        let space = key(&self.name, Partition(0))?.space;
        let found = self.cells.list(&space, Some(&prefix), usize::from(info.partitions)).await?;
        let mut leases: BTreeMap<String, _> =
            found.into_iter().map(|cell| (cell.key.key.clone(), cell)).collect();
        // All at once, so that an engine can write them in one go.
        let mut takings = JoinSet::new();
        for partition in Partition::all(info.partitions) {
            let lease = match leases.remove(&key(&self.name, partition)?.key) {
                Some(cell) => Some((Lease::read(&cell)?, cell.etag)),
                None => None,
            };
            if self.may_take(held, partition, lease.as_ref()).await? {
                let follower = self.clone();
                takings.spawn(async move { (partition, follower.take(partition, lease).await) });
            }
        }
        let mut refused = Vec::new();
        while let Some(taking) = takings.join_next().await {
            match taking {
                Ok((partition, Ok(slot))) => {
                    held.refused.remove(&partition);
                    held.slots.extend(slot.map(|slot| (partition, slot)));
                }
                Ok((partition, Err(error))) => {
                    self.refuse(held, partition, &error);
                    refused.push((partition, error));
                }
                Err(error) => return Err(HandlerError::transient(error)),
            }
        }
        Ok(refused)
    }

    /// Whether this process should try to take a partition that it does not hold.
    async fn may_take(
        &self,
        held: &mut Held,
        partition: Partition,
        lease: Option<&(Lease, ETag)>,
    ) -> Result<bool, HandlerError> {
        // An owner in another life of the store is gone: nobody had the store open when this life began.
        let epoch = self.core.backend.store.info().epoch;
        let owner = lease.filter(|(lease, _)| lease.store_epoch == epoch);
        let owner = owner.and_then(|(lease, _)| lease.owner.as_deref());
        let mine = owner == Some(&*self.instance.incarnation);
        if let Some(slot) = held.slots.get(&partition) {
            if mine && lease.is_some_and(|(lease, _)| lease.owner_epoch == slot.lease.owner_epoch) {
                return Ok(false);
            }
            self.lose(held, partition);
        }
        if let Some((lease, _)) = lease {
            self.show_owner(partition, lease);
        }
        let now = self.core.clock.monotonic();
        if held.refused.get(&partition).is_some_and(|(_, again)| *again > now) {
            return Ok(false);
        }
        let free = match owner {
            Some(owner) if !mine => {
                self.observer.is_dead(&*self.cells, &*self.core.clock, owner, self.times.expire).await?
            }
            _ => true,
        };
        Ok(free && !*self.stop.borrow())
    }

    /// Shows why a partition could not be taken, and lets some time pass before the next try.
    fn refuse(&self, held: &mut Held, partition: Partition, error: &HandlerError) {
        let (attempt, again) = held.refused.entry(partition).or_default();
        *attempt += 1;
        *again = self.core.clock.monotonic() + back_off(*attempt, PAUSE.0, PAUSE.1);
        self.record_failure(partition, *attempt, None, error);
    }

    fn show_owner(&self, partition: Partition, lease: &Lease) {
        self.set_status(partition, |status| {
            status.owner.clone_from(&lease.owner);
            status.owner_epoch = lease.owner_epoch;
            status.since = lease.since;
        });
    }

    /// Takes a partition: its lease, and then its view's row. `None` if another instance was quicker.
    async fn take(
        &self,
        partition: Partition,
        lease: Option<(Lease, ETag)>,
    ) -> Result<Option<Slot>, HandlerError> {
        let (mut lease, expect) = match lease {
            Some((mut lease, etag)) => {
                let lineage = self.core.backend.store.lineage();
                // A view's own row says how far it is.
                let is_view = matches!(self.sink, Sink::View(_));
                if let Some(lost) = lease.carry_over(&lineage, partition, is_view)? {
                    tracing::warn!(processor = %self.name, %lost, "what was handled beyond is lost; going on from there");
                }
                (lease, Expect::ETag(etag))
            }
            None => {
                let store = &self.core.backend.store;
                let start = self.start.position(&**store, partition).await?;
                (Lease::fresh(store.info().epoch, start), Expect::Absent)
            }
        };
        lease.owner = Some(self.instance.incarnation.clone());
        lease.owner_epoch += 1;
        lease.since = Some(self.core.now());
        let write = CellWrite::new(key(&self.name, partition)?, expect, Json::encode(&lease)?);
        let etag = match self.cells.write(write).await {
            Ok(etag) => etag,
            Err(CellError::Conflict { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let claim = match &self.sink {
            Sink::Handler(_) => None,
            Sink::View(view) => match view.claim(&self.core, partition).await {
                Ok(claim) => Some(claim),
                Err(NotApplied::Fenced) => return Ok(None),
                Err(NotApplied::Failed(error)) => return Err(error),
            },
        };
        let position = claim.map_or(lease.position(), |claim| claim.position);
        tracing::debug!(processor = %self.name, %partition, epoch = lease.owner_epoch, "lease acquired");
        self.show_owner(partition, &lease);
        self.set_status(partition, |status| {
            (status.position, status.failure) = (Some(Position::number(position)), None);
        });
        let (zero, revoked) = (Duration::ZERO, watch::Sender::new(false));
        Ok(Some(Slot { lease, etag, position, claim, retry_at: zero, saved_at: zero, revoked }))
    }

    /// Gives every partition back, so that others need not wait.
    pub(crate) async fn release(&self, held: &mut Held) {
        for (partition, mut slot) in std::mem::take(&mut held.slots) {
            slot.lease.owner = None;
            if slot.claim.is_none() {
                slot.lease.checkpoint = slot.position;
            }
            let written = async {
                let write = CellWrite::new(
                    key(&self.name, partition)?,
                    Expect::ETag(slot.etag),
                    Json::encode(&slot.lease)?,
                );
                self.cells.write(write).await?;
                Ok::<_, HandlerError>(())
            };
            if let Err(error) = written.await {
                tracing::debug!(processor = %self.name, %partition, %error, "lease not given back");
            }
        }
    }
}
