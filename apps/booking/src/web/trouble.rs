//! What a page or an answer in JSON says when it cannot say what it should.

use super::layout::{Page, page};
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use highwater::{OutcomeError, SendError, ViewReadError};
use maud::html;

/// Something is wrong; becomes a page that says so.
#[derive(Debug, Clone)]
pub struct Trouble {
    status: StatusCode,
    title: &'static str,
    detail: String,
}

impl Trouble {
    /// Trouble with a title of a few words and a sentence that names the way out.
    pub fn new(status: StatusCode, title: &'static str, detail: impl Into<String>) -> Self {
        Self { status, title, detail: detail.into() }
    }

    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "This cannot be understood", detail)
    }

    /// The store does not do its work. What exactly is wrong is for the log, not for guests.
    pub fn store_failing(error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "the store fails");
        let detail = "The store cannot be reached at the moment. Reload this page in a little while; a booking \
            that is sent again counts once.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "Not possible at the moment", detail)
    }
}

impl From<ViewReadError> for Trouble {
    fn from(error: ViewReadError) -> Self {
        Self::store_failing(&error)
    }
}

impl From<OutcomeError> for Trouble {
    fn from(error: OutcomeError) -> Self {
        match error {
            OutcomeError::Unknown { .. } => {
                let detail = "No booking with this number was ever sent. Check the address.";
                Self::new(StatusCode::NOT_FOUND, "No such receipt", detail)
            }
            other => Self::store_failing(&other),
        }
    }
}

impl From<SendError> for Trouble {
    fn from(error: SendError) -> Self {
        match error {
            SendError::TooLarge { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "Too long", "Please use fewer words.")
            }
            SendError::CommandIdReused { .. } => {
                let detail = "This was sent before with other content.";
                Self::new(StatusCode::CONFLICT, "Sent before", detail)
            }
            other => Self::store_failing(&other),
        }
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        let body = html! {
            h1 { (self.title) }
            p { (self.detail) }
            p { a href="/booking/" { "To the calendar" } }
        };
        let response = page(Page { title: self.title, ..Page::default() }, &body);
        let retry = match self.status {
            StatusCode::SERVICE_UNAVAILABLE => Some([(RETRY_AFTER, "5")]),
            StatusCode::TOO_MANY_REQUESTS => Some([(RETRY_AFTER, "60")]),
            _ => None,
        };
        (self.status, retry, response).into_response()
    }
}

/// The same for answers in JSON: a problem document (RFC 9457).
#[derive(Debug, Clone)]
pub struct Problem(pub Trouble);

impl<T: Into<Trouble>> From<T> for Problem {
    fn from(trouble: T) -> Self {
        Self(trouble.into())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self(Trouble { status, title, detail }) = self;
        highwater_axum::Problem::new("about:blank", title, status).detail(detail).into_response()
    }
}
