use crate::aggregate::Aggregate;
use crate::recorded::{Recorded, recorded};
use crate::schema::{DecodeError, Old};
use highwater_core::Change;
use serde::{Serialize, de::DeserializeOwned};

/// A read model of documents, folded from the events of one or more aggregates.
///
/// ```
/// # use highwater::{Aggregate, Context, Decision};
/// # #[derive(serde::Serialize, serde::Deserialize)] pub enum Never {}
/// # #[derive(serde::Serialize, serde::Deserialize)] pub enum AccountEvent { Deposited { cents: u64 } }
/// # #[derive(Default, serde::Serialize, serde::Deserialize)] pub struct Account;
/// # impl Aggregate for Account {
/// #     const CONTAINER: &'static str = "accounts";
/// #     type Command = Never; type Event = AccountEvent; type Settings = ();
/// #     fn decide(&self, never: Never, _: &Context<Self>) -> Decision<Self> { match never {} }
/// #     fn apply(&mut self, _: &AccountEvent) {}
/// # }
/// use highwater::{Folded, Follow, Recorded, Sources, View};
///
/// struct Turnover;
///
/// impl View for Turnover {
///     const NAME: &'static str = "turnover";
///     type Document = u64;
///     fn sources(sources: Sources<Self>) -> Sources<Self> { sources.follow::<Account>() }
/// }
///
/// impl Follow<Account> for Turnover {
///     fn keys(&self, event: &Recorded<AccountEvent>) -> Vec<String> { vec!["all".into()] }
///     fn fold(&self, _: &str, total: u64, event: &Recorded<AccountEvent>) -> Folded<u64> {
///         let AccountEvent::Deposited { cents } = event.event;
///         Folded::Put(total + cents)
///     }
/// }
/// ```
#[doc(alias("projection", "read model"))]
pub trait View: Send + Sync + Sized + 'static {
    /// The view's name: 1 to 48 characters of a-z, 0-9 and `-`.
    const NAME: &'static str;

    /// Raise it to build the documents again from the beginning of the log.
    const GENERATION: u32 = 1;

    /// The schema version of the documents that this program writes.
    const SCHEMA: u32 = 1;

    /// What one document says. A document that does not exist yet starts as the default.
    type Document: Default + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Names the aggregates whose events are folded, one [`Sources::follow`] each.
    fn sources(sources: Sources<Self>) -> Sources<Self>;

    /// Takes a document that an older program wrote one schema version further, in place.
    ///
    /// # Errors
    /// A sentence saying why it cannot be done.
    fn upcast(old: &mut Old) -> Result<(), String> {
        Err(format!("{}::upcast is not implemented for {:?}", std::any::type_name::<Self>(), old.kind))
    }
}

/// How a view folds the events of one aggregate.
///
/// Both methods are pure and may be called again for the same event; the engine makes sure that each event
/// counts once per document. Events of one aggregate arrive in order; between aggregates no order is promised.
#[diagnostic::on_unimplemented(
    message = "the view `{Self}` does not fold the events of `{A}`",
    label = "`{A}` is named as a source here",
    note = "write `impl Follow<{A}> for {Self}`, whose `fold` takes `&Recorded<<{A} as Aggregate>::Event>`"
)]
pub trait Follow<A: Aggregate>: View {
    /// The keys of the documents that the event concerns; empty if none.
    fn keys(&self, event: &Recorded<A::Event>) -> Vec<String>;

    /// Makes the next state of one of those documents, the one under `key`.
    fn fold(&self, key: &str, document: Self::Document, event: &Recorded<A::Event>)
    -> Folded<Self::Document>;
}

/// What became of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Folded<D> {
    /// It says this.
    Put(D),
    /// There is no such document any more. A later event starts again from the default.
    Delete,
}

type Reader<V> = fn(&V, &Change) -> Result<Vec<Folding<V>>, DecodeError>;
type FoldStep<V> =
    Box<dyn Fn(&V, &str, <V as View>::Document) -> Folded<<V as View>::Document> + Send + Sync>;

/// One event, ready to be folded into the documents that it concerns.
pub(crate) struct Folding<V: View> {
    pub(crate) keys: Vec<String>,
    pub(crate) fold: FoldStep<V>,
}

/// The aggregates that a view follows.
pub struct Sources<V: View> {
    pub(crate) readers: Vec<(&'static str, Reader<V>)>,
}

impl<V: View> Sources<V> {
    pub(crate) fn of_view() -> Self {
        V::sources(Self { readers: Vec::new() })
    }

    /// Follows the events of aggregate `A`.
    pub fn follow<A: Aggregate>(mut self) -> Self
    where
        V: Follow<A>,
    {
        let reader: Reader<V> = |view, change| {
            let events = recorded::<A>(change)?;
            let step = |event: Recorded<A::Event>| {
                // A document named twice is still one document.
                let mut keys = view.keys(&event);
                keys.sort_unstable();
                keys.dedup();
                Folding {
                    keys,
                    fold: Box::new(move |view: &V, key, document| view.fold(key, document, &event)),
                }
            };
            Ok(events.into_iter().map(step).collect())
        };
        self.readers.push((A::CONTAINER, reader));
        self
    }
}

impl<V: View> std::fmt::Debug for Sources<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.readers.iter().map(|(container, _)| container)).finish()
    }
}
