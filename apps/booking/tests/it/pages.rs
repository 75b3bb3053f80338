//! What every page has, and what it says when things go wrong.

use crate::site::{DAY, Site, form};
use axum::http::{HeaderValue, StatusCode};
use booking::{Mailbox, Restaurant, routes};
use highwater::{Backend, CommandId, Engine, ManualClock, Timestamp};
use highwater_core::{
    Cell, CellError, CellKey, CellWrite, Cells, ETag, EngineError, Expect, FailureKind, Limits, Name,
    ReadError, async_trait,
};
use std::sync::Arc;

#[tokio::test]
async fn every_answer_forbids_what_no_page_needs() {
    let site = Site::new().await;
    let id = site.book(DAY, 1).await;
    site.settle().await;
    let new = format!("/booking/new?date={DAY}");
    let receipt = format!("/booking/receipts/{id}");
    for path in [
        "/booking/",
        &new,
        &receipt,
        "/booking/mails",
        "/nowhere",
        "/booking/disabled-days",
        "/booking/assets/booking.css",
    ] {
        let answer = site.get(path).await;
        let header = |name| {
            answer.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default()
        };
        let policy = header("content-security-policy");
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{path}: {policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!((header("x-content-type-options"), header("referrer-policy")), ("nosniff", "same-origin"));
        if answer.kind.starts_with("text/html") {
            assert!(answer.body.contains(r#"<html lang="en">"#) && answer.body.contains("<h1>"), "{path}");
            assert!(
                !answer.body.contains("<script>")
                    && !answer.body.contains("style=")
                    && !answer.body.contains("<style")
            );
            assert!(
                !answer.body.contains("http://") && !answer.body.contains("https://"),
                "nothing from elsewhere: {path}"
            );
        }
    }
}

#[tokio::test]
async fn the_calendar_goes_from_month_to_month_and_ends_where_dates_end() {
    let site = Site::new().await;
    let page = site.get("/booking/").await.body;
    assert!(page.contains("January 2026") && page.contains("Book Thursday 1 January 2026"), "{page}");
    assert!(
        page.contains("/booking/?year=2025&amp;month=12") && page.contains("/booking/?year=2026&amp;month=2")
    );
    let past = site.get("/booking/?year=2025&month=12").await.body;
    assert!(past.contains("Wednesday 31 December 2025, past") && !past.contains("/booking/new"), "{past}");
    let last = site.get("/booking/?year=9999&month=12").await;
    assert_eq!(last.status, StatusCode::OK);
    assert!(!last.body.contains("Next month"));
    assert!(!site.get("/booking/?year=1&month=1").await.body.contains("Previous month"));
}

#[tokio::test]
async fn the_form_of_a_day_that_is_sold_out_says_so() {
    let site = Site::new().await;
    site.book(DAY, 10).await;
    site.settle().await;
    let page = site.get(&format!("/booking/new?date={DAY}")).await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.body.contains("this day is sold out"), "{}", page.body);
}

#[tokio::test]
async fn unknown_addresses_and_wrong_methods_get_a_page() {
    let site = Site::new().await;
    for (path, status) in [
        ("/nowhere", StatusCode::NOT_FOUND),
        ("/booking/nowhere", StatusCode::NOT_FOUND),
        ("/booking/assets/nothing.css", StatusCode::NOT_FOUND),
        ("/booking/mails/", StatusCode::NOT_FOUND),
    ] {
        let answer = site.get(path).await;
        assert_eq!((answer.status, &*answer.kind), (status, "text/html; charset=utf-8"), "{path}");
    }
    assert_eq!(site.get("/booking").await.location.as_deref(), Some("/booking/"));
    assert_eq!(site.post("/booking/new", "").await.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn a_form_that_another_site_sends_is_refused() {
    let site = Site::new().await;
    let body = format!("id={}&date={DAY}&name=Ada&email=ada%40example.org&quantity=1", CommandId::random());
    let mut request = form("/booking/", body.clone());
    request.headers_mut().insert("sec-fetch-site", HeaderValue::from_static("cross-site"));
    assert_eq!(site.send(request).await.status, StatusCode::FORBIDDEN);
    let mut request = form("/booking/", body);
    request.headers_mut().insert("sec-fetch-site", HeaderValue::from_static("same-origin"));
    assert_eq!(site.send(request).await.status, StatusCode::SEE_OTHER);
}

struct Broken;

fn broken() -> EngineError {
    EngineError::new(FailureKind::Unavailable, "the disk at /secret/place is gone")
}

#[async_trait]
impl Cells for Broken {
    fn limits(&self) -> &Limits {
        const { &Limits::portable() }
    }
    async fn read(&self, _: &CellKey) -> Result<Option<Cell>, ReadError> {
        Err(broken().into())
    }
    async fn write(&self, _: CellWrite) -> Result<ETag, CellError> {
        Err(broken().into())
    }
    async fn delete(&self, _: &CellKey, _: Expect) -> Result<(), CellError> {
        Err(broken().into())
    }
    async fn list(&self, _: &Name, _: Option<&str>, _: usize) -> Result<Vec<Cell>, ReadError> {
        Err(broken().into())
    }
}

#[tokio::test]
async fn a_store_that_fails_is_a_503_with_a_clear_line_and_no_secrets() {
    let whole = Engine::in_memory().start().await.unwrap();
    let backend = Backend { cells: Arc::new(Broken), ..whole.backend().clone() };
    let clock = ManualClock::starting_at(Timestamp::from_micros(1_767_225_600_000_000));
    let site = Site::on(Engine::driven_on(backend, clock), 10).await;
    let id = CommandId::random();
    let page = site.get(&format!("/booking/receipts/{id}")).await;
    assert_eq!((page.status, &*page.kind), (StatusCode::SERVICE_UNAVAILABLE, "text/html; charset=utf-8"));
    assert!(
        page.body.contains("cannot be reached at the moment") && page.headers.contains_key("retry-after")
    );
    let problem = site.get(&format!("/booking/receipts/{id}.json")).await;
    assert_eq!(
        (problem.status, &*problem.kind),
        (StatusCode::SERVICE_UNAVAILABLE, "application/problem+json")
    );
    assert!(!page.body.contains("secret") && !problem.body.contains("secret"));
}

#[tokio::test]
async fn a_folder_that_is_none_does_not_break_the_list_of_letters() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mail");
    std::fs::write(&file, "a file where a folder should be").unwrap();
    let settings = crate::site::settings(Restaurant::new("UTC", 10).unwrap(), Mailbox::in_folder(file));
    let engine = booking::install(Engine::in_memory(), &settings).start().await.unwrap();
    let router = routes(engine, settings);
    let request = axum::http::Request::get("/booking/mails").body(axum::body::Body::empty()).unwrap();
    assert_eq!(crate::site::answer(router, request).await.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn addresses_and_methods_that_make_no_sense_are_answered_with_pages_of_ours() {
    let site = Site::new().await;
    for (method, path, status) in [
        ("GET", "/booking/receipts/%FF", StatusCode::NOT_FOUND),
        ("GET", "/booking/mails/%FF", StatusCode::NOT_FOUND),
        ("GET", "/booking/assets/%FF", StatusCode::NOT_FOUND),
        ("POST", "/booking/receipts/%FF/cancel", StatusCode::NOT_FOUND),
        ("GET", "/booking/cancel/%FF/x", StatusCode::NOT_FOUND),
        ("BREW", "/booking/", StatusCode::METHOD_NOT_ALLOWED),
        ("BREW", "/booking/owner/", StatusCode::METHOD_NOT_ALLOWED),
        ("DELETE", "/booking/mails", StatusCode::METHOD_NOT_ALLOWED),
        ("GET", "/booking/owner/login", StatusCode::METHOD_NOT_ALLOWED),
    ] {
        let request = axum::http::Request::builder().method(method).uri(path);
        let answer = site.send(request.body(axum::body::Body::empty()).unwrap()).await;
        assert_eq!((answer.status, &*answer.kind), (status, "text/html; charset=utf-8"), "{method} {path}");
        assert!(answer.body.contains("To the calendar"), "{method} {path}: {}", answer.body);
    }
}
