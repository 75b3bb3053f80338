//! Cells that keep their conditions wrongly.

use crate::TestClock;
use crate::delegate::{DelegateCells, Gap, lock, with_cells};
use highwater_core::*;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

struct IgnoresETags(Arc<dyn Cells>);

#[async_trait]
impl DelegateCells for IgnoresETags {
    fn right(&self) -> &dyn Cells {
        &*self.0
    }

    async fn write(&self, mut write: CellWrite) -> Result<ETag, CellError> {
        let there = matches!(self.right().read(&write.key).await, Ok(Some(_)));
        if there && matches!(write.expect, Expect::ETag(_)) {
            write.expect = Expect::Any;
        }
        self.right().write(write).await
    }
}

pub(super) fn ignores_the_etags_of_cells(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_cells(right, IgnoresETags(right.cells.clone()))
}

struct StartsAgain {
    right: Arc<dyn Cells>,
    /// By how much the versions reported are lower than the true ones; grows when the cell is deleted.
    lower: Mutex<HashMap<CellKey, u64>>,
    deleted: Mutex<HashMap<CellKey, bool>>,
}

impl StartsAgain {
    fn show(&self, key: &CellKey, etag: ETag) -> ETag {
        let lower = lock(&self.lower).get(key).copied().unwrap_or(0);
        let version = Version::new(etag.version.get().saturating_sub(lower)).unwrap_or(etag.version);
        ETag { version, ..etag }
    }

    fn truth(&self, key: &CellKey, expect: Expect) -> Expect {
        let Expect::ETag(etag) = expect else { return expect };
        let lower = lock(&self.lower).get(key).copied().unwrap_or(0);
        let version = Version::new(etag.version.get() + lower).unwrap_or(etag.version);
        Expect::ETag(ETag { version, ..etag })
    }
}

#[async_trait]
impl DelegateCells for StartsAgain {
    fn right(&self) -> &dyn Cells {
        &*self.right
    }

    async fn read(&self, key: &CellKey) -> Result<Option<Cell>, ReadError> {
        let cell = self.right().read(key).await?;
        Ok(cell.map(|mut cell| {
            cell.etag = self.show(key, cell.etag);
            cell
        }))
    }

    async fn write(&self, mut write: CellWrite) -> Result<ETag, CellError> {
        let key = write.key.clone();
        write.expect = self.truth(&key, write.expect);
        let etag = match self.right().write(write).await {
            Err(CellError::Conflict { key, found: Found::Item(etag) }) => {
                let found = Found::Item(self.show(&key, etag));
                return Err(CellError::Conflict { key, found });
            }
            other => other?,
        };
        if lock(&self.deleted).remove(&key).is_some() {
            lock(&self.lower).insert(key.clone(), etag.version.get() - 1);
        }
        Ok(self.show(&key, etag))
    }

    async fn delete(&self, key: &CellKey, expect: Expect) -> Result<(), CellError> {
        let there = matches!(self.right().read(key).await, Ok(Some(_)));
        self.right().delete(key, self.truth(key, expect)).await?;
        if there {
            lock(&self.deleted).insert(key.clone(), true);
        }
        Ok(())
    }
}

pub(super) fn starts_cells_again_after_a_deletion(right: &Backend, _: &Arc<TestClock>) -> Backend {
    let (lower, deleted) = (Mutex::default(), Mutex::default());
    with_cells(right, StartsAgain { right: right.cells.clone(), lower, deleted })
}

struct ChecksFirst {
    right: Arc<dyn Cells>,
    gap: Gap,
}

#[async_trait]
impl DelegateCells for ChecksFirst {
    fn right(&self) -> &dyn Cells {
        &*self.right
    }

    async fn write(&self, mut write: CellWrite) -> Result<ETag, CellError> {
        if let (Expect::ETag(wanted), Ok(Some(cell))) = (write.expect, self.right().read(&write.key).await)
            && cell.etag == wanted
        {
            write.expect = Expect::Any;
            self.gap.cross().await;
        }
        self.right().write(write).await
    }
}

pub(super) fn checks_a_cell_before_it_writes(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_cells(right, ChecksFirst { right: right.cells.clone(), gap: Gap::default() })
}
