//! Engines that run by themselves, on real time.

use crate::domain::{Account, Balances, Command};
use crate::views::{balances, fold_of_the_log};
use highwater::{Engine, Freshness, Outcome, Role};
use highwater_core::{
    Backend, Delivery, EngineError, FailureKind, GetError, Name, Queue, Store, ViewStore, Wake, async_trait,
};
use highwater_testkit::{Delegate, DelegateQueue, DelegateStore, DelegateViews};
use std::sync::Arc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// Engines that never hint at anything.
struct SilentStore(Arc<dyn Store>);
struct SilentViews(Arc<dyn ViewStore>);

#[async_trait]
impl DelegateStore for SilentStore {
    fn right(&self) -> &dyn Store {
        &*self.0
    }
    fn wake(&self) -> Wake {
        Wake::never()
    }
}

#[async_trait]
impl DelegateViews for SilentViews {
    fn right(&self) -> &dyn ViewStore {
        &*self.0
    }
    fn wake(&self) -> Wake {
        Wake::never()
    }
}

struct SilentQueue(Arc<dyn Queue>);

#[async_trait]
impl DelegateQueue for SilentQueue {
    fn right(&self) -> &dyn Queue {
        &*self.0
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
    let store = Arc::new(Delegate(SilentStore(store)));
    let queue = Arc::new(Delegate(SilentQueue(queue)));
    let views = Arc::new(Delegate(SilentViews(views)));
    let backend = Backend { store, queue, cells, views };
    booked_and_seen(backend).await;
}

/// A queue whose store is gone.
struct ClosedQueue(Arc<dyn Queue>);

#[async_trait]
impl DelegateQueue for ClosedQueue {
    fn right(&self) -> &dyn Queue {
        &*self.0
    }
    async fn get(&self, _: &Name, _: usize, _: Duration) -> Result<Vec<Delivery>, GetError> {
        Err(EngineError::new(FailureKind::Closed, "the store was closed").into())
    }
}

/// Invariant 10: a role that cannot go on says so instead of looking alive.
#[tokio::test]
async fn a_worker_whose_store_is_gone_stops_with_the_reason() {
    let backend = backend().await;
    let queue = Arc::new(Delegate(ClosedQueue(backend.queue.clone())));
    let engine = Engine::on(Backend { queue, ..backend }).aggregate::<Account>(()).start().await.unwrap();
    let stopped = tokio::time::timeout(PATIENCE, engine.failed()).await.unwrap();
    assert_eq!(stopped.reason, "worker: the store was closed");
    assert!(!engine.status().await.unwrap().worker.running);
    engine.stop().await;
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
