use crate::{Delegate, DelegateStore, Problem};
use highwater::{Aggregate, Engine, Follow, View, encode_event};
use highwater_core::*;
use serde_json::Value;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

/// A view and the events that it is to fold.
///
/// The events go through a real store; then the view follows the log twice over, as after a crash: it must come
/// to the same documents as if it had seen every event once.
///
/// ```
/// # use highwater::{Aggregate, Context, Decision, Folded, Follow, Recorded, Sources, View};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize)] enum Never {}
/// # #[derive(Serialize, Deserialize)] enum Event { Deposited { cents: u64 } }
/// # #[derive(Default, Serialize, Deserialize)] struct Account;
/// # impl Aggregate for Account {
/// #     const CONTAINER: &'static str = "accounts";
/// #     type Command = Never; type Event = Event; type Settings = ();
/// #     fn decide(&self, never: Never, _: &Context<Self>) -> Decision<Self> { match never {} }
/// #     fn apply(&mut self, _: &Event) {}
/// # }
/// # struct Turnover;
/// # impl View for Turnover {
/// #     const NAME: &'static str = "turnover";
/// #     type Document = u64;
/// #     fn sources(sources: Sources<Self>) -> Sources<Self> { sources.follow::<Account>() }
/// # }
/// # impl Follow<Account> for Turnover {
/// #     fn keys(&self, _: &Recorded<Event>) -> Vec<String> { vec!["all".into()] }
/// #     fn fold(&self, _: &str, total: u64, event: &Recorded<Event>) -> Folded<u64> {
/// #         let Event::Deposited { cents } = event.event;
/// #         Folded::Put(total + cents)
/// #     }
/// # }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use highwater_testkit::view;
///
/// let turnover = view(Turnover)
///     .given::<Account>("barbara", [Event::Deposited { cents: 5 }, Event::Deposited { cents: 2 }])
///     .given::<Account>("bernard", [Event::Deposited { cents: 1 }]);
/// turnover.then("all", Some(8)).await;
/// turnover.then("none", None).await;
/// # }
/// ```
#[must_use = "nothing is tested before `then`"]
pub struct ViewTest<V: View> {
    /// Absent once the engine has it.
    view: Mutex<Option<V>>,
    batches: Vec<Result<Batch, String>>,
    /// Made at the first `then`: it has followed the log twice over.
    settled: OnceCell<Result<Engine, String>>,
}

/// Begins with a view that has seen nothing.
pub fn view<V: View>(view: V) -> ViewTest<V> {
    ViewTest { view: Mutex::new(Some(view)), batches: Vec::new(), settled: OnceCell::new() }
}

impl<V: View> std::fmt::Debug for ViewTest<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a test of view {} with {} commits", V::NAME, self.batches.len())
    }
}

fn batch<A: Aggregate>(key: &str, events: Vec<A::Event>) -> Result<Batch, Problem> {
    let key = ItemKey::alone(Name::new(A::CONTAINER)?, key)?;
    let events = events.iter().map(encode_event::<A>).collect::<Result<_, _>>()?;
    Ok(Batch::new(key.partition_key, vec![Write::keep(key.container, key.id).events(events)]))
}

/// An error that can be told more than once.
fn told<T>(result: Result<T, Problem>) -> Result<T, String> {
    result.map_err(|problem| problem.to_string())
}

impl<V: View> ViewTest<V> {
    /// Lets these events have happened to the aggregate under `key`, each in a commit of its own.
    pub fn given<A: Aggregate>(mut self, key: &str, events: impl IntoIterator<Item = A::Event>) -> Self
    where
        V: Follow<A>,
    {
        self.batches.extend(events.into_iter().map(|event| told(batch::<A>(key, vec![event]))));
        self
    }

    /// Lets these events have happened to the aggregate under `key`, all in one commit.
    pub fn given_together<A: Aggregate>(
        mut self,
        key: &str,
        events: impl IntoIterator<Item = A::Event>,
    ) -> Self
    where
        V: Follow<A>,
    {
        self.batches.push(told(batch::<A>(key, events.into_iter().collect())));
        self
    }

    /// The document under `key` is this; `None`: there is none. May be asked for several keys, one after the other.
    ///
    /// # Panics
    /// When it is not, or the events cannot be committed or folded; that is the test's failure, and the message
    /// begins with the place in the test.
    #[track_caller]
    pub fn then<'a>(
        &'a self,
        key: &'a str,
        expected: Option<V::Document>,
    ) -> impl Future<Output = ()> + Send + use<'a, V> {
        let at = Location::caller();
        async move {
            let expected = expected.map(|document| serde_json::to_value(document).unwrap_or_default());
            let found = self.document(key).await;
            assert!(found.is_ok(), "{at}: {found:?}");
            let found = found.unwrap_or_default();
            assert!(
                found == expected,
                "{at}: document `{key}`\n expected: {expected:?}\n    found: {found:?}"
            );
        }
    }

    async fn document(&self, key: &str) -> Result<Option<Value>, Problem> {
        let settle = async || told(self.settle().await);
        let engine = self.settled.get_or_init(settle).await.as_ref().map_err(Clone::clone)?;
        let document = engine.view::<V>().get(key).await?.document;
        Ok(document.map(serde_json::to_value).transpose()?)
    }

    async fn settle(&self) -> Result<Engine, Problem> {
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner).take();
        let first = Engine::in_memory().start().await?;
        for batch in &self.batches {
            first.backend().store.commit(batch.clone()?).await?;
        }
        let clock = first.clock().ok_or("the engine is not driven")?.clone();
        let mut backend = first.backend().clone();
        backend.store = Arc::new(Delegate(Twice(backend.store)));
        let engine = Engine::driven_on(backend, clock).view(view.ok_or("the view is gone")?).start().await?;
        let settled = engine.settle().await.map_err(|error| error.to_string())?;
        match settled.trouble().first() {
            Some(step) => Err(format!("the view does not settle: {step:?}").into()),
            None => Ok(engine),
        }
    }
}

/// A store whose feed hands out every commit twice.
struct Twice(Arc<dyn Store>);

#[async_trait]
impl DelegateStore for Twice {
    fn right(&self) -> &dyn Store {
        &*self.0
    }

    async fn changes(&self, request: &ChangeRequest) -> Result<ChangePage, FeedError> {
        let mut page = self.right().changes(request).await?;
        let again = page.changes.clone();
        page.changes.extend(again);
        Ok(page)
    }
}
