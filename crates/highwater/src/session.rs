use highwater_core::{StoreInfo, Token};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What one reader has caused or was told of, so that what it reads next contains it: read your own writes.
///
/// Inside [`Session::scope`], a command that was [executed](crate::Engine::execute) and an
/// [outcome](crate::Engine::outcome) that was seen raise the session's token, and every [`get`](crate::ViewReader::get)
/// of a view asks for at least that token and waits for it, at most the session's patience. A web server has one for
/// each request; the crate `highwater-axum` takes it from one request of a browser to the next.
///
/// A session belongs to the task that it was scoped in: a task spawned there has none, unless it gets a scope of its
/// own. What a session asks of another store, or of another life of this one, is passed over: it says what its reader
/// wants without having been asked.
///
/// ```
/// # #[derive(serde::Serialize, serde::Deserialize)] pub enum Deposit { Deposit { cents: u64 } }
/// # #[derive(serde::Serialize, serde::Deserialize)] pub enum Deposited { Deposited { cents: u64 } }
/// # #[derive(Default, serde::Serialize, serde::Deserialize)] pub struct Account;
/// # impl highwater::Aggregate for Account {
/// #     const CONTAINER: &'static str = "accounts";
/// #     type Command = Deposit; type Event = Deposited; type Settings = ();
/// #     fn decide(&self, Deposit::Deposit { cents }: Deposit, _: &highwater::Context<Self>) -> highwater::Decision<Self> {
/// #         highwater::Decision::accept([Deposited::Deposited { cents }])
/// #     }
/// #     fn apply(&mut self, _: &Deposited) {}
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use highwater::{Engine, Session, Token};
/// use std::time::Duration;
///
/// let engine = Engine::in_memory().aggregate::<Account>(()).start().await?;
/// let session = Session::new(Token::default(), Duration::from_secs(1));
/// session.clone().scope(engine.execute::<Account>("ada", Deposit::Deposit { cents: 5 }).into_future()).await?;
/// assert_eq!(session.token(), engine.head().await?);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("read your writes", "consistency token"))]
#[derive(Debug, Clone)]
pub struct Session(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    token: Mutex<Token>,
    patience: Duration,
}

tokio::task_local! {
    static CURRENT: Session;
}

impl Session {
    /// A session of a reader who has seen this much, and whose reads wait at most so long for a view to catch up.
    pub fn new(seen: Token, patience: Duration) -> Self {
        Self(Arc::new(Shared { token: Mutex::new(seen), patience }))
    }

    /// What the reader has seen by now.
    pub fn token(&self) -> Token {
        self.0.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How long its reads wait unless they say otherwise.
    pub fn patience(&self) -> Duration {
        self.0.patience
    }

    /// Notes that the reader has seen this too.
    pub fn raise(&self, token: &Token) {
        self.0.token.lock().unwrap_or_else(PoisonError::into_inner).merge(token);
    }

    /// The session that this code runs in.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok()
    }

    /// Runs work in this session.
    pub async fn scope<F: Future>(self, work: F) -> F::Output {
        CURRENT.scope(self, work).await
    }

    /// What the session asks of this store, as far as it can be compared.
    pub(crate) fn of(&self, store: &StoreInfo) -> Token {
        let (all, mut here) = (self.token(), Token::default());
        let reached = all.of(store.id).filter(|reached| reached.epoch == store.epoch);
        for (partition, position) in reached.iter().flat_map(|reached| &reached.positions) {
            if partition.0 < store.partitions {
                here.raise(store.id, store.epoch, *partition, *position);
            }
        }
        here
    }

    /// Notes what the code of this task was told, if it runs in a session.
    pub(crate) fn told(token: &Token) {
        let _ = CURRENT.try_with(|session| session.raise(token));
    }
}
