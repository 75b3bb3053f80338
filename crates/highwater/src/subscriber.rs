use crate::aggregate::Aggregate;
use crate::feed::Start;
use crate::handler::HandlerError;
use crate::processor::{BatchContext, Changes, Processor};
use crate::recorded::{Recorded, recorded};
use crate::unique::Claim;
use std::marker::PhantomData;
use std::sync::Arc;

/// A handler with effects outside the store: mail, a call, a printout. It is called for each event of aggregate
/// `A`, in order per key, at least once: an effect that must not happen twice needs the event's id.
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
/// use highwater::{HandlerError, Subscriber};
///
/// let printer = Subscriber::<Account>::named("printer").handler(async |event| {
///     println!("{}: {}", event.id, event.at);
///     Ok::<(), HandlerError>(())
/// });
/// ```
#[doc(alias("reactor", "policy", "event handler"))]
#[must_use = "a subscriber is a processor once it has a handler"]
#[derive(Debug, Clone)]
pub struct Subscriber<A> {
    processor: Processor,
    aggregate: PhantomData<A>,
}

impl<A: Aggregate> Subscriber<A> {
    /// A subscriber of this name, which begins at the beginning.
    pub fn named(name: impl Into<String>) -> Self {
        Self { processor: Processor::named(name), aggregate: PhantomData }
    }

    /// Begins here instead; stored when the subscriber first runs and without effect afterwards.
    pub fn start(mut self, start: Start) -> Self {
        self.processor = self.processor.start(start);
        self
    }

    /// Keeps unique values in step with what happens: for each event, `claims` says which values of `scope` are to be
    /// confirmed or released. See [`Unique`](crate::Unique).
    ///
    /// ```
    /// # use highwater::{Aggregate, Context, Decision};
    /// # #[derive(serde::Serialize, serde::Deserialize)] pub enum Never {}
    /// # #[derive(serde::Serialize, serde::Deserialize)] pub enum AccountEvent {
    /// #     Opened { by: highwater::CommandId, email: String }, Closed { by: highwater::CommandId, email: String } }
    /// # #[derive(Default, serde::Serialize, serde::Deserialize)] pub struct Account;
    /// # impl Aggregate for Account {
    /// #     const CONTAINER: &'static str = "accounts";
    /// #     type Command = Never; type Event = AccountEvent; type Settings = ();
    /// #     fn decide(&self, never: Never, _: &Context<Self>) -> Decision<Self> { match never {} }
    /// #     fn apply(&mut self, _: &AccountEvent) {}
    /// # }
    /// use highwater::{Claim, Subscriber};
    ///
    /// let one_account_each = Subscriber::<Account>::named("one-account-each")
    ///     .unique("account-email", |event| match &event.event {
    ///         AccountEvent::Opened { by, email } => Some(Claim::confirm(email, *by)),
    ///         AccountEvent::Closed { by, email } => Some(Claim::release(email, *by)),
    ///     });
    /// ```
    pub fn unique<F, C>(self, scope: impl Into<Arc<str>>, claims: F) -> Processor
    where
        F: Fn(&Recorded<A::Event>) -> C + Send + Sync + 'static,
        C: IntoIterator<Item = Claim>,
    {
        let (scope, claims) = (scope.into(), Arc::new(claims));
        self.processor.containers([A::CONTAINER]).handler(move |context: BatchContext, changes: Changes| {
            let (scope, claims) = (Arc::clone(&scope), Arc::clone(&claims));
            async move {
                for change in changes.iter() {
                    let events = recorded::<A>(change)?;
                    let due: Vec<Claim> = events.iter().flat_map(&*claims).collect();
                    for claim in &due {
                        context.unique(&*scope).settle(claim).await?;
                    }
                }
                Ok::<(), HandlerError>(())
            }
        })
    }

    /// Sets what is done with each event. An error has it tried again, after a pause that grows; later events of its
    /// partition wait behind it.
    pub fn handler<F, W, E>(self, handler: F) -> Processor
    where
        F: Fn(Recorded<A::Event>) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<HandlerError> + Send + 'static,
    {
        let handler = Arc::new(handler);
        self.processor.containers([A::CONTAINER]).handler(move |context: BatchContext, changes: Changes| {
            let handler = handler.clone();
            async move {
                for (index, change) in changes.iter().enumerate() {
                    for event in recorded::<A>(change)? {
                        handler(event).await.map_err(Into::into)?;
                    }
                    let next = changes.get(index + 1);
                    if next.is_none_or(|next| next.position > change.commit_end()) {
                        context.checkpoint(change);
                    }
                }
                Ok::<(), HandlerError>(())
            }
        })
    }
}
