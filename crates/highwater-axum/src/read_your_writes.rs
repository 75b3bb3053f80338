//! Carries what a browser has written from one request to the next, in a cookie that it cannot forge.

use crate::keys::SigningKeys;
use crate::problem::{Problem, diverged, invalid_token, other_store};
use axum::extract::{FromRequestParts, Request};
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use highwater::{Engine, Session, Token};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::{Layer, Service};

/// The header that carries a token where there are no cookies, in requests and in responses.
pub const AT_LEAST: HeaderName = HeaderName::from_static("highwater-at-least");

/// What a signature of the cookie is good for.
const PURPOSE: &str = "read-your-writes";

/// The largest cookie, in bytes of name and value together: browsers keep at least 4,096 (RFC 6265, 6.1) with
/// everything that stands beside them.
const LARGEST: usize = 3_584;

/// How much of a token's life may be over before it is written again although nothing was added: one in so many.
const RENEWED: u64 = 2;

/// A layer that gives every request a [`Session`]: what a browser has caused, its next reads contain, without any code
/// in the handlers.
///
/// A request begins with what its cookie and its header [`AT_LEAST`] say. Commands executed and outcomes seen while it
/// is handled raise the token, reads of views wait for it (for a second at most, unless they or
/// [`patience`](Self::patience) say otherwise), and the response takes it along, as cookie and as header. A command
/// that is only sent has no token yet: the request that sees its outcome raises it.
///
/// A cookie that was tampered with, has expired, or comes from another store or another life of this one counts as
/// none. A header that cannot be honoured is an answer, since programs send it: 400 if it is no token of this store, 409
/// if the store was restored since.
///
/// ```no_run
/// # #[derive(serde::Serialize, serde::Deserialize)] pub enum CounterCommand { Add }
/// # #[derive(serde::Serialize, serde::Deserialize)] pub enum CounterEvent { Added }
/// # #[derive(Default, serde::Serialize, serde::Deserialize)] pub struct Counter;
/// # impl highwater::Aggregate for Counter {
/// #     const CONTAINER: &'static str = "counters";
/// #     type Command = CounterCommand; type Event = CounterEvent; type Settings = ();
/// #     fn decide(&self, _: CounterCommand, _: &highwater::Context<Self>) -> highwater::Decision<Self> {
/// #         highwater::Decision::accept([CounterEvent::Added])
/// #     }
/// #     fn apply(&mut self, _: &CounterEvent) {}
/// # }
/// # pub struct Sums;
/// # impl highwater::View for Sums {
/// #     const NAME: &'static str = "sums";
/// #     type Document = u64;
/// #     fn sources(sources: highwater::Sources<Self>) -> highwater::Sources<Self> { sources.follow::<Counter>() }
/// # }
/// # impl highwater::Follow<Counter> for Sums {
/// #     fn keys(&self, _: &highwater::Recorded<CounterEvent>) -> Vec<String> { vec!["all".into()] }
/// #     fn fold(&self, _: &str, sum: u64, _: &highwater::Recorded<CounterEvent>) -> highwater::Folded<u64> {
/// #         highwater::Folded::Put(sum + 1)
/// #     }
/// # }
/// use axum::{Router, extract::State, routing::get};
/// use highwater::Engine;
/// use highwater_axum::{Problem, ReadYourWrites, SigningKeys};
///
/// async fn add(State(engine): State<Engine>) -> Result<(), Problem> {
///     engine.execute::<Counter>("one", CounterCommand::Add).await?;
///     Ok(())
/// }
///
/// async fn sum(State(engine): State<Engine>) -> Result<String, Problem> {
///     // Contains what the same browser has added, though nothing here says so.
///     let answer = engine.view::<Sums>().get("all").await?;
///     Ok(answer.document.unwrap_or_default().to_string())
/// }
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::open("sqlite:counters.db").aggregate::<Counter>(()).view(Sums).start().await?;
/// let keys = SigningKeys::in_file("keys.txt".as_ref())?;
/// let pages: Router = Router::new()
///     .route("/", get(sum).post(add))
///     .layer(ReadYourWrites::new(engine.clone(), keys))
///     .with_state(engine);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a layer works once it is given to a router"]
pub struct ReadYourWrites {
    engine: Engine,
    keys: SigningKeys,
    cookie: String,
    max_age: Duration,
    patience: Duration,
    secure: bool,
}

impl ReadYourWrites {
    /// For the tokens of this engine's store, in a cookie `highwater-token` that lasts for an hour.
    pub fn new(engine: Engine, keys: SigningKeys) -> Self {
        let (max_age, patience) = (Duration::from_secs(3_600), Duration::from_secs(1));
        Self { engine, keys, cookie: "highwater-token".into(), max_age, patience, secure: false }
    }

    /// Names the cookie; for several applications on one host. Characters that a name cannot have are left out.
    pub fn cookie(mut self, name: &str) -> Self {
        let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        self.cookie = name.chars().filter(fits).collect();
        self
    }

    /// Sets how long a token is remembered. It matters only for as long as a view can lag behind: raise it if rebuilding
    /// one takes hours and its readers should rather wait than see what they have changed unchanged.
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = age;
        self
    }

    /// Sets how long a read waits for its view to catch up. Lower it where an answer that says that it is old is better
    /// than a late one.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Marks the cookie `Secure` always. Without this it is so where the request says that it came by https, itself or
    /// through `X-Forwarded-Proto`.
    pub fn always_secure(mut self) -> Self {
        self.secure = true;
        self
    }

    fn seconds(&self) -> u64 {
        u64::try_from(self.engine.now().as_micros()).unwrap_or_default() / 1_000_000
    }

    /// The token in the request's cookie, and until when it is good; whatever is wrong with it, there is none.
    fn remembered(&self, headers: &HeaderMap) -> Option<(Token, u64)> {
        let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let (_, value) = pairs.find(|(name, value)| *name == self.cookie && value.len() <= LARGEST)?;
        let (text, signature) = value.rsplit_once('.')?;
        if !self.keys.verifies(PURPOSE, text.as_bytes(), signature) {
            return None;
        }
        let (until, token) = text.split_once('.')?;
        let until = until.parse().ok().filter(|until| *until > self.seconds())?;
        let token = token.parse().ok()?;
        matches!(self.compare(&token), Compared::Ours).then_some((token, until))
    }

    fn compare(&self, token: &Token) -> Compared {
        let info = self.engine.backend().store.info();
        let mut compared = Compared::Ours;
        for (store, reached) in token.stores() {
            if store != info.id {
                return Compared::Foreign;
            }
            if reached.epoch != info.epoch || reached.positions.keys().any(|place| place.0 >= info.partitions)
            {
                compared = Compared::Diverged;
            }
        }
        compared
    }

    /// The token in the request's header.
    fn asked(&self, headers: &HeaderMap) -> Result<Token, Problem> {
        let mut token = Token::default();
        for value in headers.get_all(AT_LEAST) {
            token.merge(&value.to_str().ok().and_then(|text| text.parse().ok()).ok_or_else(invalid_token)?);
        }
        match self.compare(&token) {
            Compared::Ours => Ok(token),
            Compared::Foreign => Err(other_store()),
            Compared::Diverged => Err(diverged()),
        }
    }

    /// Notes in the response what its reader has seen by now.
    fn remember(&self, headers: &mut HeaderMap, before: Option<&(Token, u64)>, token: &Token, secure: bool) {
        if *token == Token::default() {
            return;
        }
        let text = token.to_string();
        if let Ok(value) = HeaderValue::try_from(&text) {
            headers.insert(AT_LEAST, value);
        }
        let (now, life) = (self.seconds(), self.max_age.as_secs());
        if before.is_some_and(|(known, until)| known == token && until.saturating_sub(now) > life / RENEWED) {
            return;
        }
        let text = format!("{}.{text}", now.saturating_add(life));
        let signature = self.keys.sign(PURPOSE, text.as_bytes());
        let value = format!("{}={text}.{signature}", self.cookie);
        if value.len() > LARGEST {
            tracing::warn!(
                bytes = value.len(),
                "the token is too large for a cookie; it is in the header only"
            );
            return;
        }
        let secure = if secure || self.secure { "; Secure" } else { "" };
        let cookie = format!("{value}; Path=/; Max-Age={life}; HttpOnly; SameSite=Lax{secure}");
        if let Ok(cookie) = HeaderValue::try_from(cookie) {
            headers.append(SET_COOKIE, cookie);
        }
    }
}

/// How a token relates to the store.
enum Compared {
    Ours,
    /// Of another store.
    Foreign,
    /// Of another life of this store.
    Diverged,
}

fn came_by_https(request: &Request) -> bool {
    let forwarded = request.headers().get("x-forwarded-proto").and_then(|proto| proto.to_str().ok());
    let nearest = forwarded.and_then(|proto| proto.split(',').next()).map(str::trim);
    request.uri().scheme_str() == Some("https")
        || nearest.is_some_and(|proto| proto.eq_ignore_ascii_case("https"))
}

impl<S> Layer<S> for ReadYourWrites {
    type Service = ReadYourWritesService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ReadYourWritesService { layer: self.clone(), inner }
    }
}

/// What [`ReadYourWrites`] makes of a service.
#[derive(Debug, Clone)]
pub struct ReadYourWritesService<S> {
    layer: ReadYourWrites,
    inner: S,
}

impl<S> Service<Request> for ReadYourWritesService<S>
where
    S: Service<Request, Response = Response> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        // The clone takes the place of the service that was polled ready.
        let fresh = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, fresh);
        let layer = self.layer.clone();
        Box::pin(async move {
            let asked = match layer.asked(request.headers()) {
                Ok(asked) => asked,
                Err(problem) => return Ok(problem.into_response()),
            };
            let remembered = layer.remembered(request.headers());
            let secure = came_by_https(&request);
            let session = Session::new(asked, layer.patience);
            if let Some((token, _)) = &remembered {
                session.raise(token);
            }
            request.extensions_mut().insert(session.clone());
            let mut response = session.clone().scope(inner.call(request)).await?;
            layer.remember(response.headers_mut(), remembered.as_ref(), &session.token(), secure);
            Ok(response)
        })
    }
}

/// What the reader of this request has seen: for reads that the session does not reach, those of a task of one's own
/// or of another program. Nothing where there is no [`ReadYourWrites`].
///
/// ```
/// use highwater_axum::AtLeast;
///
/// async fn show(AtLeast(token): AtLeast) -> String {
///     format!("you have seen {token}")
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtLeast(pub Token);

impl<S: Sync> FromRequestParts<S> for AtLeast {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get::<Session>().map(Session::token).unwrap_or_default()))
    }
}
