//! View stores that fence wrongly.

use crate::TestClock;
use crate::delegate::{DelegateViews, lock, with_views};
use highwater_core::*;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

struct IgnoresTheOwner {
    right: Arc<dyn ViewStore>,
    newest: Mutex<HashMap<ViewSlot, u64>>,
}

#[async_trait]
impl DelegateViews for IgnoresTheOwner {
    fn right(&self) -> &dyn ViewStore {
        &*self.right
    }

    async fn claim(&self, slot: &ViewSlot, store_epoch: Epoch) -> Result<Claim, ViewWriteError> {
        let claim = self.right().claim(slot, store_epoch).await?;
        let mut newest = lock(&self.newest);
        let epoch = newest.entry(slot.clone()).or_default();
        *epoch = claim.owner_epoch.max(*epoch);
        Ok(claim)
    }

    async fn write(&self, mut batch: ViewBatch) -> Result<(), ViewWriteError> {
        let newest = lock(&self.newest).get(&batch.slot).copied();
        batch.claim.owner_epoch = newest.unwrap_or(batch.claim.owner_epoch);
        self.right().write(batch).await
    }

    async fn clear(
        &self,
        slot: &ViewSlot,
        claim: Claim,
        until: &Reached,
        reason: &str,
    ) -> Result<Claim, ViewWriteError> {
        lock(&self.newest).retain(|other, _| other.view != slot.view);
        self.right().clear(slot, claim, until, reason).await
    }
}

pub(super) fn ignores_the_owner(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_views(right, IgnoresTheOwner { right: right.views.clone(), newest: Mutex::default() })
}

struct IgnoresThePosition {
    right: Arc<dyn ViewStore>,
    newest: Mutex<HashMap<ViewSlot, Position>>,
}

#[async_trait]
impl DelegateViews for IgnoresThePosition {
    fn right(&self) -> &dyn ViewStore {
        &*self.right
    }

    async fn write(&self, mut batch: ViewBatch) -> Result<(), ViewWriteError> {
        let (slot, position) = (batch.slot.clone(), batch.position);
        batch.claim.position = lock(&self.newest).get(&slot).copied().or(batch.claim.position);
        self.right().write(batch).await?;
        lock(&self.newest).insert(slot, position);
        Ok(())
    }

    async fn clear(
        &self,
        slot: &ViewSlot,
        claim: Claim,
        until: &Reached,
        reason: &str,
    ) -> Result<Claim, ViewWriteError> {
        lock(&self.newest).retain(|other, _| other.view != slot.view);
        self.right().clear(slot, claim, until, reason).await
    }
}

pub(super) fn ignores_the_position(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_views(right, IgnoresThePosition { right: right.views.clone(), newest: Mutex::default() })
}

struct IgnoresVersions(Arc<dyn ViewStore>);

#[async_trait]
impl DelegateViews for IgnoresVersions {
    fn right(&self) -> &dyn ViewStore {
        &*self.0
    }

    async fn write(&self, mut batch: ViewBatch) -> Result<(), ViewWriteError> {
        let keys: Vec<_> = batch.documents.iter().map(|document| document.key.clone()).collect();
        let there = self.right().documents(&batch.slot.view, &keys).await.unwrap_or_default();
        for (write, there) in batch.documents.iter_mut().zip(there) {
            write.expected = there.map_or(0, |document| document.version);
        }
        self.right().write(batch).await
    }
}

pub(super) fn ignores_the_versions_of_documents(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_views(right, IgnoresVersions(right.views.clone()))
}

struct WritesOneByOne(Arc<dyn ViewStore>);

#[async_trait]
impl DelegateViews for WritesOneByOne {
    fn right(&self) -> &dyn ViewStore {
        &*self.0
    }

    async fn write(&self, mut batch: ViewBatch) -> Result<(), ViewWriteError> {
        // A view without a position has none to leave as it is.
        if let Some(position) = batch.claim.position
            && batch.documents.len() > 1
        {
            for document in std::mem::take(&mut batch.documents) {
                let (slot, claim) = (batch.slot.clone(), batch.claim);
                self.right().write(ViewBatch::new(slot, claim, position, vec![document])).await?;
            }
        }
        self.right().write(batch).await
    }
}

pub(super) fn writes_documents_one_by_one(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_views(right, WritesOneByOne(right.views.clone()))
}

struct WritesThePositionLater {
    right: Arc<dyn ViewStore>,
    /// Where each slot stood before its last batch with documents.
    before: Mutex<HashMap<ViewSlot, Option<Position>>>,
}

#[async_trait]
impl DelegateViews for WritesThePositionLater {
    fn right(&self) -> &dyn ViewStore {
        &*self.right
    }

    async fn claim(&self, slot: &ViewSlot, store_epoch: Epoch) -> Result<Claim, ViewWriteError> {
        let mut claim = self.right().claim(slot, store_epoch).await?;
        claim.position = lock(&self.before).get(slot).copied().unwrap_or(claim.position);
        Ok(claim)
    }

    async fn write(&self, batch: ViewBatch) -> Result<(), ViewWriteError> {
        let (slot, before) = (batch.slot.clone(), batch.claim.position);
        let documents = !batch.documents.is_empty();
        self.right().write(batch).await?;
        if documents {
            lock(&self.before).insert(slot, before);
        } else {
            lock(&self.before).remove(&slot);
        }
        Ok(())
    }
}

pub(super) fn writes_the_position_later(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_views(right, WritesThePositionLater { right: right.views.clone(), before: Mutex::default() })
}

struct MixesStores(Arc<dyn ViewStore>);

#[async_trait]
impl DelegateViews for MixesStores {
    fn right(&self) -> &dyn ViewStore {
        &*self.0
    }

    async fn claim(&self, slot: &ViewSlot, store_epoch: Epoch) -> Result<Claim, ViewWriteError> {
        match self.right().claim(slot, store_epoch).await {
            Err(ViewWriteError::OtherStore { found, .. }) => {
                let slot = ViewSlot { store: found, ..slot.clone() };
                self.right().claim(&slot, store_epoch).await
            }
            other => other,
        }
    }
}

pub(super) fn mixes_stores(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_views(right, MixesStores(right.views.clone()))
}

struct DropsTombstones(Arc<dyn ViewStore>);

#[async_trait]
impl DelegateViews for DropsTombstones {
    fn right(&self) -> &dyn ViewStore {
        &*self.0
    }

    async fn documents(
        &self,
        view: &ViewName,
        keys: &[DocumentKey],
    ) -> Result<Vec<Option<Document>>, ReadError> {
        let documents = self.right().documents(view, keys).await?;
        let live = |found: Option<Document>| found.filter(|document| document.body.is_some());
        Ok(documents.into_iter().map(live).collect())
    }
}

pub(super) fn drops_tombstones(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_views(right, DropsTombstones(right.views.clone()))
}

struct CarriesOver(Arc<dyn ViewStore>);

#[async_trait]
impl DelegateViews for CarriesOver {
    fn right(&self) -> &dyn ViewStore {
        &*self.0
    }

    async fn adopt(&self, slot: &ViewSlot, claim: Claim, lineage: &Lineage) -> Result<Claim, ViewWriteError> {
        let all = Partition::all(u16::MAX).filter_map(|at| Some((at, Position::new(u64::MAX)?)));
        let lineage = Lineage::first(lineage.epoch()).sharing(claim.store_epoch, all.collect());
        self.right().adopt(slot, claim, &lineage).await
    }
}

pub(super) fn carries_over_what_has_diverged(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_views(right, CarriesOver(right.views.clone()))
}

struct BeginsAgain(Arc<dyn ViewStore>);

#[async_trait]
impl DelegateViews for BeginsAgain {
    fn right(&self) -> &dyn ViewStore {
        &*self.0
    }

    async fn adopt(&self, slot: &ViewSlot, claim: Claim, lineage: &Lineage) -> Result<Claim, ViewWriteError> {
        let claim = self.right().adopt(slot, claim, lineage).await?;
        let until = Reached { epoch: lineage.epoch(), positions: Default::default() };
        self.right().clear(slot, claim, &until, "another life").await
    }
}

pub(super) fn begins_again_in_every_life(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_views(right, BeginsAgain(right.views.clone()))
}

struct ClearsWithoutAim(Arc<dyn ViewStore>);

#[async_trait]
impl DelegateViews for ClearsWithoutAim {
    fn right(&self) -> &dyn ViewStore {
        &*self.0
    }

    async fn clear(
        &self,
        slot: &ViewSlot,
        claim: Claim,
        until: &Reached,
        reason: &str,
    ) -> Result<Claim, ViewWriteError> {
        let nowhere = Reached { epoch: until.epoch, positions: Default::default() };
        self.right().clear(slot, claim, &nowhere, reason).await
    }
}

pub(super) fn clears_without_an_aim(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_views(right, ClearsWithoutAim(right.views.clone()))
}

struct ClearsForAnybody(Arc<dyn ViewStore>);

#[async_trait]
impl DelegateViews for ClearsForAnybody {
    fn right(&self) -> &dyn ViewStore {
        &*self.0
    }

    async fn clear(
        &self,
        slot: &ViewSlot,
        claim: Claim,
        until: &Reached,
        reason: &str,
    ) -> Result<Claim, ViewWriteError> {
        let fresh = self.right().claim(slot, claim.store_epoch).await?;
        self.right().clear(slot, fresh, until, reason).await
    }
}

pub(super) fn clears_for_anybody(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_views(right, ClearsForAnybody(right.views.clone()))
}
