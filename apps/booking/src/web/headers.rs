//! What every response tells the browser not to do.

use super::trouble::Trouble;
use axum::Router;
use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};

/// Only what this site itself serves as a file: no inline script or style, nothing from elsewhere, no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Adds the headers to every response, and refuses what other sites make a browser send.
pub fn with_security_headers(router: Router) -> Router {
    router.layer(from_fn(secure))
}

async fn secure(request: Request, next: Next) -> Response {
    let mut response = if is_forged(&request) { refuse().into_response() } else { next.run(request).await };
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// A form that a page of another site submits. Browsers say so themselves (Fetch Metadata, W3C).
fn is_forged(request: &Request) -> bool {
    let from = request.headers().get("sec-fetch-site").map(HeaderValue::as_bytes);
    !matches!(*request.method(), Method::GET | Method::HEAD)
        && from.is_some_and(|from| !matches!(from, b"same-origin" | b"none"))
}

fn refuse() -> Trouble {
    let detail = "This form was sent by a page of another site. Open the calendar here and book from there.";
    Trouble::new(StatusCode::FORBIDDEN, "Not from here", detail)
}
