//! What every response tells the browser not to do.

use super::trouble::Trouble;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::uri::Authority;
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::sync::Arc;

/// Only what this site itself serves as a file: no inline script or style, nothing from elsewhere, no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Adds the headers to every response, refuses what other sites make a browser send, and answers requests of a kind that
/// an address does not take with a page.
pub fn with_security_headers(router: Router) -> Router {
    router.method_not_allowed_fallback(wrong_method).layer(from_fn(secure))
}

async fn wrong_method() -> Trouble {
    let detail = "This address does not take requests of this kind.";
    Trouble::new(StatusCode::METHOD_NOT_ALLOWED, "Not possible here", detail)
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

/// A form that a page of another site submits. Browsers say so themselves (Fetch Metadata, W3C); older ones at least
/// name the origin (RFC 6454, 7).
fn is_forged(request: &Request) -> bool {
    let header = |name: &str| request.headers().get(name).map(HeaderValue::as_bytes);
    let from = header("sec-fetch-site");
    // Without its scheme, an origin is what the `Host` of a request to it says.
    let elsewhere = |origin: &[u8]| {
        let host = header(HOST.as_str()).unwrap_or_default();
        ![&b"http://"[..], b"https://"].iter().any(|scheme| {
            origin.strip_prefix(*scheme).is_some_and(|origin| origin.eq_ignore_ascii_case(host))
        })
    };
    !matches!(*request.method(), Method::GET | Method::HEAD)
        && (from.is_some_and(|from| !matches!(from, b"same-origin" | b"none"))
            || header(ORIGIN.as_str()).is_some_and(elsewhere))
}

/// Answers only requests that were meant for this machine or for one of these names. A page of another site can have
/// its own name point here (DNS rebinding); then its scripts could read what it is told, but the name gives it away.
pub fn only_for_hosts(router: Router, allowed: Vec<String>) -> Router {
    router.layer(from_fn_with_state(Arc::new(allowed), check_host))
}

async fn check_host(State(allowed): State<Arc<Vec<String>>>, request: Request, next: Next) -> Response {
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    let host = host.filter(|host| !host.as_str().contains('@') && hosts.next().is_none());
    let meant = host.is_some_and(|host| is_meant(host.host(), &allowed));
    if meant && request.uri().host().is_none_or(|host| is_meant(host, &allowed)) {
        return next.run(request).await;
    }
    let line =
        "This site is asked for as localhost, 127.0.0.1 or [::1]; the option --allow-host adds a name.\n";
    (StatusCode::MISDIRECTED_REQUEST, [(X_CONTENT_TYPE_OPTIONS, "nosniff")], line).into_response()
}

fn is_meant(host: &str, allowed: &[String]) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || address.parse().is_ok_and(|address: IpAddr| address.to_canonical().is_loopback())
        || allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(host))
}

fn refuse() -> Trouble {
    let detail = "This form was sent by a page of another site. Open the calendar here and book from there.";
    Trouble::new(StatusCode::FORBIDDEN, "Not from here", detail)
}
