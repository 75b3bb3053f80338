//! The rule of the held-open commit, alone in its process: failpoints are the process's.

#![allow(clippy::unwrap_used, reason = "a helper of a test may fail as the test itself may")]

use highwater_core::{Backend, async_trait, failpoint};
use highwater_sqlite::{Options, open};
use highwater_testkit::{Factory, Features, Held, Problem, Report, TestClock, check};
use std::sync::Arc;
use tempfile::TempDir;

struct OnDisk(TempDir);

#[async_trait]
impl Factory for OnDisk {
    async fn fresh(&self, clock: Arc<TestClock>) -> Result<Backend, Problem> {
        let path = self.0.path().join("store.db");
        Ok(open(&path.to_string_lossy(), Options::default(), clock)?)
    }

    fn features(&self) -> Features {
        let mut features = Features::default();
        features.hold = true;
        features
    }

    async fn hold_next_commit(&self, _: &Backend) -> Result<Box<dyn Held>, Problem> {
        Ok(Box::new(HeldCommit(Arc::new(failpoint::hold("sqlite.commit.before")))))
    }
}

struct HeldCommit(Arc<failpoint::Hold>);

#[async_trait]
impl Held for HeldCommit {
    async fn reached(&mut self) {
        let hold = self.0.clone();
        tokio::task::spawn_blocking(move || hold.wait_until_held()).await.unwrap();
    }
}

#[test]
fn a_commit_held_open_is_not_passed_by_readers() -> Result<(), Report> {
    check(OnDisk(tempfile::tempdir().unwrap()), "a_commit_held_open_is_not_passed_by_readers")
}
