//! Errors as problem documents (RFC 9457): what a client can act on, and nothing about the inside.

use axum::Json;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use highwater::contract::{CommitError, Expect, FeedError, PutError, ReadError};
use highwater::{
    EngineError, ErrorClass, ExecuteError, FailureKind, HandlerError, OutcomeError, PullError, SendError,
    ViewReadError,
};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt::Display;

/// When to come back after a 503 unless the problem says otherwise, in seconds.
const RETRY_SECONDS: u64 = 1;

/// An error as a client sees it: a response of `application/problem+json`.
///
/// The runtime's errors convert with `?`. What they say about the inside (files, keys, other people's ids) stays in the
/// log; the document carries only what the client sent itself or can act on.
///
/// ```
/// use axum::extract::{Path, State};
/// use highwater::{CommandId, Engine};
/// use highwater_axum::Problem;
///
/// async fn status(State(engine): State<Engine>, Path(id): Path<CommandId>) -> Result<String, Problem> {
///     Ok(format!("{:?}", engine.outcome(id).await?))
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a problem reaches the client when it is returned"]
pub struct Problem(Box<Said>);

/// Boxed, so that a result with a problem in it stays small.
#[derive(Debug, Clone, PartialEq)]
struct Said {
    kind: Cow<'static, str>,
    title: Cow<'static, str>,
    status: StatusCode,
    detail: Option<String>,
    instance: Option<String>,
    retry: Option<u64>,
    more: Map<String, Value>,
}

impl Problem {
    /// A problem that says no more than its status: its type is `about:blank` (RFC 9457, 4.2.1).
    pub fn of_status(status: StatusCode) -> Self {
        let title = status.canonical_reason().unwrap_or("Error");
        Self::new("about:blank", title, status)
    }

    /// A problem of a type of one's own: an absolute URI, by which programs tell it from others.
    pub fn new(
        kind: impl Into<Cow<'static, str>>,
        title: impl Into<Cow<'static, str>>,
        status: StatusCode,
    ) -> Self {
        Self(Box::new(Said {
            kind: kind.into(),
            title: title.into(),
            status,
            detail: None,
            instance: None,
            retry: (status == StatusCode::SERVICE_UNAVAILABLE).then_some(RETRY_SECONDS),
            more: Map::new(),
        }))
    }

    /// A command that was refused, for good: 422, with the reason that its decision gave.
    pub fn rejected(reason: impl Into<String>) -> Self {
        own("rejected", "The command was rejected", StatusCode::UNPROCESSABLE_ENTITY).detail(reason)
    }

    /// Says what happened this time, for people.
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// Names this occurrence by a URI.
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.0.instance = Some(instance.into());
        self
    }

    /// Says when to come back, in seconds.
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.0.retry = Some(seconds);
        self
    }

    /// Adds a member. The members that every problem has cannot be replaced.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        if !["type", "title", "status", "detail", "instance"].contains(&name) {
            self.0.more.insert(name.into(), value.into());
        }
        self
    }

    /// The URI of its type.
    pub fn kind(&self) -> &str {
        &self.0.kind
    }

    /// The status of the response.
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    fn body(&self) -> Value {
        let mut body = self.0.more.clone();
        body.insert("type".into(), Value::from(&*self.0.kind));
        body.insert("title".into(), Value::from(&*self.0.title));
        body.insert("status".into(), Value::from(self.0.status.as_u16()));
        for (name, text) in [("detail", &self.0.detail), ("instance", &self.0.instance)] {
            if let Some(text) = text {
                body.insert(name.into(), Value::from(&**text));
            }
        }
        Value::Object(body)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.0.status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.0.retry {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// A problem of a type that this crate defines.
fn own(name: &str, title: &'static str, status: StatusCode) -> Problem {
    Problem::new(format!("urn:highwater:problem:{name}"), title, status)
}

fn too_large(size: usize, limit: usize) -> Problem {
    own("too-large", "Too large", StatusCode::PAYLOAD_TOO_LARGE).with("size", size).with("limit", limit)
}

fn reused(id: impl Display) -> Problem {
    own("command-id-reused", "The command id was used before", StatusCode::CONFLICT)
        .detail("It was sent before with other content. Give the other command an id of its own.")
        .with("command", id.to_string())
}

/// Nobody's fault outside, and no use in trying again.
fn defect(error: &dyn Display) -> Problem {
    tracing::error!(%error, "a request failed");
    Problem::of_status(StatusCode::INTERNAL_SERVER_ERROR)
}

fn unavailable(error: &dyn Display) -> Problem {
    tracing::warn!(%error, "a request could not be served");
    own("unavailable", "Not possible at the moment", StatusCode::SERVICE_UNAVAILABLE)
        .detail("Try again in a little while. A command that is sent again with its id counts once.")
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        match error.kind() {
            FailureKind::Corrupt | FailureKind::Other => defect(&error),
            _ => unavailable(&error),
        }
    }
}

impl From<HandlerError> for Problem {
    fn from(error: HandlerError) -> Self {
        if error.class() == ErrorClass::Permanent { defect(&error) } else { unavailable(&error) }
    }
}

impl From<SendError> for Problem {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Key(error) => {
                own("invalid-key", "Not a key", StatusCode::BAD_REQUEST).detail(error.to_string())
            }
            SendError::CommandIdReused { id } => reused(id),
            SendError::TooLarge { size, limit } => too_large(size, limit),
            SendError::Full { .. } => full(&error),
            SendError::Cancelled { id } => own("command-cancelled", "Cancelled", StatusCode::CONFLICT)
                .detail(format!("Command {id} was cancelled. Begin again under a new id.")),
            SendError::Queue(error) => error.into(),
            SendError::Engine(error) => error.into(),
            error => defect(&error),
        }
    }
}

fn full(error: &impl Display) -> Problem {
    tracing::warn!(%error, "a queue is full");
    own("queue-full", "Too much is waiting already", StatusCode::SERVICE_UNAVAILABLE)
        .detail("Nothing was taken. Try again in a little while.")
        .retry_after(5)
}

impl From<PutError> for Problem {
    fn from(error: PutError) -> Self {
        match error {
            PutError::TooLarge { size, limit, .. } => too_large(size, limit),
            PutError::Full { .. } => full(&error),
            PutError::Engine(error) => error.into(),
            error => defect(&error),
        }
    }
}

impl From<ExecuteError> for Problem {
    fn from(error: ExecuteError) -> Self {
        match error {
            ExecuteError::Command(error) => error.into(),
            ExecuteError::Failed(error) => error.into(),
            error => defect(&error),
        }
    }
}

impl From<OutcomeError> for Problem {
    fn from(error: OutcomeError) -> Self {
        match error {
            OutcomeError::Unknown { id } => own("unknown-command", "No such command", StatusCode::NOT_FOUND)
                .with("command", id.to_string()),
            OutcomeError::Engine(error) => error.into(),
            error => defect(&error),
        }
    }
}

impl From<ViewReadError> for Problem {
    fn from(error: ViewReadError) -> Self {
        match error {
            ViewReadError::OtherStore { .. } => other_store(),
            ViewReadError::Engine(error) => error.into(),
            error => defect(&error),
        }
    }
}

/// A token that another store gave.
pub(crate) fn other_store() -> Problem {
    own("other-store", "A token of another store", StatusCode::BAD_REQUEST)
        .detail("The token was not given out here. Leave it out.")
}

/// A token of an earlier life of the store.
pub(crate) fn diverged() -> Problem {
    own("diverged", "The store was restored", StatusCode::CONFLICT).detail(
        "The token was given out before the store was restored or failed over. Leave it out and read again.",
    )
}

/// A text that is no token.
pub(crate) fn invalid_token() -> Problem {
    own("invalid-token", "Not a token", StatusCode::BAD_REQUEST)
        .detail("Send back exactly what an answer said, or nothing.")
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Engine(error) => error.into(),
            error => defect(&error),
        }
    }
}

impl From<FeedError> for Problem {
    fn from(error: FeedError) -> Self {
        match error {
            FeedError::Gone { first } => own("gone", "The log was pruned", StatusCode::GONE)
                .detail("Start again from the beginning or from an archive.")
                .with("first", first.get()),
            FeedError::Diverged { .. } => diverged(),
            FeedError::NoPartition { partitions, .. } => {
                own("no-partition", "No such partition", StatusCode::NOT_FOUND).with("partitions", partitions)
            }
            FeedError::Engine(error) => error.into(),
            error => defect(&error),
        }
    }
}

impl From<PullError> for Problem {
    fn from(error: PullError) -> Self {
        match error {
            PullError::Feed(error) => error.into(),
            PullError::Diverged { .. } => diverged(),
            PullError::Name(_) | PullError::EmptyPage | PullError::OtherFeed { .. } => {
                own("not-in-this-feed", "Not a place in this feed", StatusCode::BAD_REQUEST)
                    .detail(error.to_string())
            }
            error => defect(&error),
        }
    }
}

impl From<CommitError> for Problem {
    fn from(error: CommitError) -> Self {
        let detail = "Read it again and decide again.";
        match error {
            // As for conditional requests: "must not exist" is a conflict, "must be this version" a precondition.
            CommitError::Conflict { expected: Expect::ETag(_), .. } => {
                own("changed", "It was changed in the meantime", StatusCode::PRECONDITION_FAILED)
                    .detail(detail)
            }
            CommitError::Conflict { .. } => {
                own("conflict", "It is not as it should be", StatusCode::CONFLICT).detail(detail)
            }
            CommitError::NotFound { .. } => own("not-found", "No such item", StatusCode::NOT_FOUND),
            CommitError::CommandIdReused { id } => reused(id),
            CommitError::TooLarge { size, limit, .. } => too_large(size, limit),
            CommitError::Engine(error) => error.into(),
            error => defect(&error),
        }
    }
}
