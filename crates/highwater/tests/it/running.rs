//! Engines that run by themselves, on real time.

use crate::domain::{Account, Balances, Command};
use crate::views::{balances, fold_of_the_log};
use highwater::{Engine, Freshness, Outcome, Role};
use highwater_core::*;
use std::sync::Arc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// A backend that never hints at anything.
#[derive(Clone)]
struct Silent(Backend);

#[async_trait]
impl Store for Silent {
    fn info(&self) -> StoreInfo {
        self.0.store.info()
    }
    fn limits(&self) -> &Limits {
        self.0.store.limits()
    }
    async fn commit(&self, batch: Batch) -> Result<Committed, CommitError> {
        self.0.store.commit(batch).await
    }
    async fn item(&self, key: &ItemKey) -> Result<Option<Item>, ReadError> {
        self.0.store.item(key).await
    }
    async fn history(
        &self,
        key: &ItemKey,
        before: Option<Version>,
        max: usize,
    ) -> Result<Vec<Change>, ReadError> {
        self.0.store.history(key, before, max).await
    }
    async fn decided(&self, key: &PartitionKey, command: CommandId) -> Result<Option<Decided>, ReadError> {
        self.0.store.decided(key, command).await
    }
    async fn changes(&self, request: &ChangeRequest) -> Result<ChangePage, FeedError> {
        self.0.store.changes(request).await
    }
    async fn position_before(
        &self,
        partition: Partition,
        at: Timestamp,
    ) -> Result<Option<Position>, FeedError> {
        self.0.store.position_before(partition, at).await
    }
    async fn head(&self) -> Result<Token, ReadError> {
        self.0.store.head().await
    }
    fn wake(&self) -> Wake {
        Wake::never()
    }
}

#[async_trait]
impl ViewStore for Silent {
    async fn claim(&self, slot: &ViewSlot, store_epoch: Epoch) -> Result<Claim, ViewWriteError> {
        self.0.views.claim(slot, store_epoch).await
    }
    async fn write(&self, batch: ViewBatch) -> Result<(), ViewWriteError> {
        self.0.views.write(batch).await
    }
    async fn documents(
        &self,
        view: &ViewName,
        keys: &[DocumentKey],
    ) -> Result<Vec<Option<Document>>, ReadError> {
        self.0.views.documents(view, keys).await
    }
    async fn document(
        &self,
        view: &ViewName,
        store: StoreId,
        key: &str,
    ) -> Result<(Option<Document>, Option<ViewReached>), ReadError> {
        self.0.views.document(view, store, key).await
    }
    async fn list(
        &self,
        view: &ViewName,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<Document>, ReadError> {
        self.0.views.list(view, after, max).await
    }
    async fn reached(&self, view: &ViewName, store: StoreId) -> Result<Option<ViewReached>, ReadError> {
        self.0.views.reached(view, store).await
    }
    fn wake(&self) -> Wake {
        Wake::never()
    }
}

async fn backend() -> Backend {
    // Opened by an engine that does nothing itself.
    Engine::open("sqlite::memory:").role(Role::Web).start().await.unwrap().backend().clone()
}

async fn booked_and_seen(backend: Backend) {
    let engine = Engine::on(backend).aggregate::<Account>(()).view(Balances).start().await.unwrap();
    let sent = engine.send::<Account>("barbara", Command::Deposit { cents: 5 }).await.unwrap();
    let outcome = engine.outcome(sent.id).wait(PATIENCE).await.unwrap();
    let Outcome::Accepted { token } = outcome else { panic!("{outcome:?}") };
    let answer = engine.view::<Balances>().get("all").at_least(&token).wait(PATIENCE).await.unwrap();
    assert!(answer.is_fresh(), "{answer:?}");
    engine.stop().await;
}

/// Invariant 9: waking is a hint.
#[tokio::test]
async fn without_any_hint_everything_still_happens_by_polling() {
    let Backend { store, queue, cells, views } = backend().await;
    let silent = Silent(Backend { store, queue: queue.clone(), cells: cells.clone(), views });
    let backend = Backend { store: Arc::new(silent.clone()), queue, cells, views: Arc::new(silent) };
    booked_and_seen(backend).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_senders_one_document_nothing_lost() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("bank.db").display());
    let engine = Engine::open(&url).aggregate::<Account>(()).view(Balances).start().await.unwrap();
    let senders = (0..16).map(|sender| {
        let engine = engine.clone();
        tokio::spawn(async move {
            let mut ids = Vec::new();
            for number in 0..50 {
                let account = format!("account {}", (sender * 7 + number) % 23);
                ids.push(engine.send::<Account>(account, Command::Deposit { cents: 1 }).await.unwrap().id);
            }
            for id in ids {
                let outcome = engine.outcome(id).wait(PATIENCE).await.unwrap();
                assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
    let head = engine.head().await.unwrap();
    let answer = engine.view::<Balances>().get("all").at_least(&head).wait(PATIENCE).await.unwrap();
    assert!(!matches!(answer.freshness, Freshness::Stale { .. }), "{:?}", answer.freshness);
    assert_eq!(balances(&engine).await, fold_of_the_log(&engine).await);
    assert_eq!(balances(&engine).await.values().sum::<i64>(), 800);
    engine.stop().await;
}

#[tokio::test]
async fn roles_in_separate_engines_share_the_work_on_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("bank.db").display());
    let start = |role| Engine::open(&url).aggregate::<Account>(()).view(Balances).role(role).start();
    let web = start(Role::Web).await.unwrap();
    let sent = web.send::<Account>("barbara", Command::Deposit { cents: 5 }).await.unwrap();
    assert_eq!(web.outcome(sent.id).await.unwrap(), Outcome::Pending);
    let worker = start(Role::Worker).await.unwrap();
    let outcome = web.outcome(sent.id).wait(PATIENCE).await.unwrap();
    let Outcome::Accepted { token } = outcome else { panic!("{outcome:?}") };
    let stale = web.view::<Balances>().get("all").at_least(&token).await.unwrap();
    assert!(!stale.is_fresh());
    let projector = start(Role::Projector).await.unwrap();
    let answer = web.view::<Balances>().get("all").at_least(&token).wait(PATIENCE).await.unwrap();
    assert!(answer.is_fresh(), "{answer:?}");
    for engine in [web, worker, projector] {
        engine.stop().await;
    }
}
