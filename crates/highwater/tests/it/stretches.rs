//! A page of changes that touches more documents than the view store takes in one batch.

use crate::domain::{Account, Command, Event};
use highwater::{Engine, Folded, Follow, ManualClock, Recorded, Sources, Step, View};
use highwater_core::{Backend, Limits, Timestamp, ViewBatch, ViewStore, ViewWriteError, async_trait};
use highwater_sqlite::Options;
use highwater_testkit::{Delegate, DelegateViews};
use std::sync::{Arc, Mutex};

/// The documents of a batch that the view stores of this test take at most.
const MOST: usize = 3;

/// The balance of each account, and how many deposits there were at all; some accounts have many documents.
struct Copies;

impl View for Copies {
    const NAME: &'static str = "copies";
    type Document = u64;
    fn sources(sources: Sources<Self>) -> Sources<Self> {
        sources.follow::<Account>()
    }
}

impl Follow<Account> for Copies {
    fn keys(&self, event: &Recorded<Event>) -> Vec<String> {
        let account = &event.key().id;
        let copies = if account.as_str().starts_with("wide") { MOST } else { 1 };
        let all = ["all".to_owned()];
        all.into_iter().chain((0..copies).map(|copy| format!("{account}/{copy}"))).collect()
    }

    fn fold(&self, _: &str, count: u64, _: &Recorded<Event>) -> Folded<u64> {
        Folded::Put(count + 1)
    }
}

/// Notes how many documents each batch had that was written, and up to which position it went.
struct Noted {
    right: Arc<dyn ViewStore>,
    batches: Mutex<Vec<(usize, u64)>>,
}

struct Notes(Arc<Noted>);

#[async_trait]
impl DelegateViews for Notes {
    fn right(&self) -> &dyn ViewStore {
        &*self.0.right
    }

    async fn write(&self, batch: ViewBatch) -> Result<(), ViewWriteError> {
        let noted = (batch.documents.len(), batch.position.get());
        self.right().write(batch).await?;
        self.0.batches.lock().unwrap().push(noted);
        Ok(())
    }
}

/// An engine on one partition whose view store takes a few documents at a time.
async fn bank() -> (Engine, Arc<Noted>) {
    let mut limits = Limits::portable();
    limits.documents_per_batch = MOST;
    let (options, clock) = (
        Options::default().partitions(1).limits(limits),
        ManualClock::starting_at(Timestamp::from_micros(0)),
    );
    let right = highwater_sqlite::open(":memory:", options, Arc::new(clock.clone())).unwrap();
    let noted = Arc::new(Noted { right: right.views.clone(), batches: Mutex::default() });
    let backend = Backend { views: Arc::new(Delegate(Notes(noted.clone()))), ..right };
    let engine =
        Engine::driven_on(backend, clock).aggregate::<Account>(()).view(Copies).start().await.unwrap();
    (engine, noted)
}

async fn deposit(engine: &Engine, account: &str) {
    engine.execute::<Account>(account, Command::Deposit { cents: 1 }).await.unwrap();
}

#[tokio::test]
async fn a_page_is_cut_between_two_commits_into_batches_that_the_view_store_takes() {
    let (engine, noted) = bank().await;
    for account in ["a", "b", "a", "c", "d", "d", "e"] {
        deposit(&engine, account).await;
    }
    let settled = engine.settle().await.unwrap();
    assert!(settled.trouble().is_empty(), "{:?}", settled.trouble());
    // With `all` in each: a, b, a; then c, d, d; then e, and the end of the page.
    assert_eq!(*noted.batches.lock().unwrap(), [(3, 3), (3, 6), (2, 7)]);
    let view = engine.view::<Copies>();
    for (key, count) in [("all", 7), ("a/0", 2), ("d/0", 2), ("e/0", 1)] {
        assert_eq!(view.get(key).await.unwrap().document, Some(count), "{key}");
    }
}

#[tokio::test]
async fn a_commit_with_too_many_documents_stops_the_view_before_it_and_says_why() {
    let (engine, noted) = bank().await;
    for account in ["a", "b", "wide", "c"] {
        deposit(&engine, account).await;
    }
    let settled = engine.settle().await.unwrap();
    let Some(Step::ProcessorFailed { error, .. }) = settled.trouble().first() else {
        panic!("{:?}", settled.trouble())
    };
    assert!(error.to_string().contains("documents of a batch: 4 is over the limit of 3"), "{error}");
    assert_eq!(*noted.batches.lock().unwrap(), [(3, 2)]);
    let view = engine.view::<Copies>();
    assert_eq!(view.get("all").await.unwrap().document, Some(2));
    assert_eq!(view.get("c/0").await.unwrap().document, None);
}
