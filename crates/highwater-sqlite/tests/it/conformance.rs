//! The rules that every engine keeps, on disk and in memory.

use highwater_core::{Backend, StoreId, async_trait};
use highwater_sqlite::{Options, open};
use highwater_testkit::{Factory, Features, Need, Problem, RULES, TestClock, conformance};
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex},
};
use tempfile::TempDir;

struct InMemory;

#[async_trait]
impl Factory for InMemory {
    async fn fresh(&self, clock: Arc<TestClock>) -> Result<Backend, Problem> {
        Ok(open(":memory:", Options::default(), clock)?)
    }
}

conformance! { in_memory: InMemory }

/// Makes its stores in one folder, and remembers which is where.
struct OnDisk {
    folder: TempDir,
    stores: Mutex<HashMap<StoreId, PathBuf>>,
}

impl OnDisk {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), stores: Mutex::default() }
    }
}

#[async_trait]
impl Factory for OnDisk {
    async fn fresh(&self, clock: Arc<TestClock>) -> Result<Backend, Problem> {
        let mut stores = self.stores.lock().unwrap();
        let path = self.folder.path().join(format!("{}.db", stores.len()));
        let backend = open(&path.to_string_lossy(), Options::default(), clock)?;
        stores.insert(backend.store.info().id, path);
        Ok(backend)
    }

    fn features(&self) -> Features {
        let mut features = Features::default();
        features.reopen = true;
        features
    }

    async fn reopen(&self, backend: Backend, clock: Arc<TestClock>) -> Result<Backend, Problem> {
        let path = self.stores.lock().unwrap().get(&backend.store.info().id).cloned();
        drop(backend);
        let path = path.ok_or("not a store of this folder")?;
        Ok(open(&path.to_string_lossy(), Options::default(), clock)?)
    }
}

conformance! { on_disk: OnDisk::new(), can Reopen }

#[test]
fn no_rule_is_left_out_everywhere() {
    for rule in RULES {
        // The first two are above, the third is in `held.rs`.
        assert!(matches!(rule.needs, None | Some(Need::Reopen | Need::Hold)), "{rule:?}");
    }
}
