//! The owner's page.

use crate::site::{Answer, DAY, PASSWORD, Site, form};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use booking::{Mailbox, Restaurant, routes};
use highwater::{CommandId, Engine};
use std::time::Duration;

/// The owner's browser.
pub(crate) struct Owner<'a> {
    site: &'a Site,
    cookie: String,
}

impl<'a> Owner<'a> {
    pub(crate) async fn log_in(site: &'a Site) -> Self {
        let answer =
            site.post("/booking/owner/login", format!("password={}", PASSWORD.replace(' ', "+"))).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.body);
        let set = answer.headers["set-cookie"].to_str().unwrap();
        assert!(set.ends_with("; Path=/booking/owner; Max-Age=28800; HttpOnly; SameSite=Strict"), "{set}");
        let cookie = set.split(';').next().unwrap().to_owned();
        Self { site, cookie }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        let request = Request::get(path).header("cookie", &self.cookie).body(Body::empty());
        self.site.send(request.unwrap()).await
    }

    async fn post(&self, path: &str, body: String) -> Answer {
        let mut request = form(path, body);
        request.headers_mut().insert("cookie", self.cookie.parse().unwrap());
        self.site.send(request).await
    }

    async fn key(&self) -> String {
        let page = self.get("/booking/owner/").await.body;
        page.split(r#"name="key" value=""#).nth(1).unwrap().split('"').next().unwrap().to_owned()
    }

    /// Asks for a letter to be sent again.
    pub(crate) async fn send_again(&self, stem: &str) -> Answer {
        let key = self.key().await;
        self.post("/booking/owner/letters", format!("key={key}&letter={stem}")).await
    }

    /// Sends a form that changes days.
    async fn change(&self, what: &str) -> Answer {
        let (key, id) = (self.key().await, CommandId::random());
        let answer = self.post("/booking/owner/days", format!("key={key}&id={id}&{what}")).await;
        self.site.settle().await;
        answer
    }
}

#[tokio::test]
async fn the_sheet_of_a_day_says_who_comes_with_how_many_and_since_when() {
    let site = Site::new().await;
    let gone = site.book(DAY, 2).await;
    let id = CommandId::random();
    let body = format!("id={id}&date={DAY}&name=%3Cb%3EZo%C3%AB&email=zoe%40example.org&quantity=3");
    site.post("/booking/", body).await;
    site.book(DAY, 1).await;
    site.settle().await;
    site.cancel(gone).await;
    site.settle().await;
    let owner = Owner::log_in(&site).await;
    let page = owner.get(&format!("/booking/owner/?day={DAY}")).await;
    assert_eq!(page.status, StatusCode::OK);
    for wanted in [
        "<h1>Thursday 24 December 2026</h1>",
        "4 of 10 seats",
        "2 parties",
        r#"<td>&lt;b&gt;Zoë</td><td class="number">3</td><td>Thursday 1 January 2026, 01:00</td>"#,
    ] {
        assert!(page.body.contains(wanted), "{wanted}: {}", page.body);
    }
    assert!(owner.get("/booking/owner/").await.body.contains("Nobody has booked"), "today");
    assert_eq!(owner.get("/booking/owner/?day=x").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn closed_days_take_no_bookings_and_show_in_the_calendar_until_they_are_opened() {
    let site = Site::new().await;
    let owner = Owner::log_in(&site).await;
    let closed = owner.change("change=close&from=2026-12-24&until=2026-12-26&reason=We+dance").await;
    assert_eq!(closed.status, StatusCode::SEE_OTHER, "{}", closed.body);
    assert_eq!(closed.location.as_deref(), Some("/booking/owner/?day=2026-12-24"));
    assert_eq!(site.disabled_days(2026, 12).await, ["2026.12.24", "2026.12.25", "2026.12.26"]);
    let calendar = site.get("/booking/?year=2026&month=12").await.body;
    assert!(
        calendar.contains("24 December 2026, closed") && calendar.contains(r#"title="We dance""#),
        "{calendar}"
    );
    assert!(site.get("/booking/new?date=2026-12-24").await.body.contains("closed on this day: We dance"));
    let late = site.book(DAY, 1).await;
    site.settle().await;
    let (status, reason) = site.status(late).await;
    assert_eq!(status, "rejected");
    assert_eq!(reason.unwrap(), "the restaurant is closed on Thursday 24 December 2026: We dance");
    owner.change("change=open&from=2026-12-24&until=").await;
    assert_eq!(site.disabled_days(2026, 12).await, ["2026.12.25", "2026.12.26"]);
    let early = site.book(DAY, 1).await;
    site.settle().await;
    assert_eq!(site.status(early).await.0, "accepted");
}

#[tokio::test]
async fn fewer_seats_than_are_taken_leave_the_guests_and_stop_further_bookings() {
    let site = Site::new().await;
    site.book(DAY, 6).await;
    site.settle().await;
    let owner = Owner::log_in(&site).await;
    owner.change("change=seats&from=2026-12-24&seats=4").await;
    assert_eq!(site.disabled_days(2026, 12).await, ["2026.12.24"]);
    let page = owner.get(&format!("/booking/owner/?day={DAY}")).await.body;
    assert!(page.contains("6 of 4 seats") && page.contains("More seats are taken than there are"), "{page}");
    let late = site.book(DAY, 1).await;
    site.settle().await;
    assert_eq!(site.status(late).await.0, "rejected");
    owner.change("change=seats&from=2026-12-24&seats=30").await;
    assert_eq!(site.disabled_days(2026, 12).await, [""; 0], "it is open again");
    let large = site.book(DAY, 24).await;
    site.settle().await;
    assert_eq!(site.status(large).await.0, "accepted", "more than on other days");
    owner.change("change=seats&from=2026-12-24&seats=").await;
    assert_eq!(site.disabled_days(2026, 12).await, ["2026.12.24"], "as many as usual: 30 are taken of 10");
    assert_eq!((site.count("SoldOut").await, site.count("Reopened").await), (2, 1));
}

#[tokio::test]
async fn a_form_sent_twice_changes_days_once() {
    let site = Site::new().await;
    let owner = Owner::log_in(&site).await;
    let (key, id) = (owner.key().await, CommandId::random());
    for _ in 0..2 {
        let body = format!("key={key}&id={id}&change=seats&from={DAY}&seats=7");
        assert_eq!(owner.post("/booking/owner/days", body).await.status, StatusCode::SEE_OTHER);
        site.settle().await;
    }
    assert_eq!(site.count("SeatsSet").await, 1);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_before_it_is_sent() {
    let site = Site::new().await;
    let owner = Owner::log_in(&site).await;
    let long = format!("change=close&from={DAY}&reason={}", "a".repeat(201));
    for what in [
        "change=seats&from=2026-12-24&seats=201",
        "change=seats&from=2026-12-24&seats=-1",
        "change=seats&from=2026-02-30&seats=1",
        "change=seats&from=2025-12-31&seats=1",
        "change=seats&from=2026-12-24&until=2026-12-23&seats=1",
        "change=open&from=2026-12-24&until=2027-12-25",
        "change=burn&from=2026-12-24",
        &long,
    ] {
        assert_eq!(owner.change(what).await.status, StatusCode::UNPROCESSABLE_ENTITY, "{what}");
    }
    assert!(site.events().await.is_empty());
}

#[tokio::test]
async fn nobody_gets_in_without_the_password_and_no_form_of_another_page_changes_anything() {
    let site = Site::new().await;
    let page = site.get("/booking/owner/").await;
    assert!(page.body.contains(r#"type="password""#) && !page.body.contains("seats"), "{}", page.body);
    let wrong = site.post("/booking/owner/login", "password=open+sesam").await;
    assert_eq!(wrong.status, StatusCode::FORBIDDEN);
    assert!(wrong.body.contains("This is not the password") && !wrong.headers.contains_key("set-cookie"));
    let change = format!("id={}&change=close&from={DAY}&reason=", CommandId::random());
    assert_eq!(site.post("/booking/owner/days", change.clone()).await.status, StatusCode::FORBIDDEN);
    let owner = Owner::log_in(&site).await;
    for key in ["", "x", &"A".repeat(43)] {
        let answer = owner.post("/booking/owner/days", format!("{change}&key={key}")).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{key}");
    }
    site.settle().await;
    assert!(site.events().await.is_empty());
    let key = owner.key().await;
    let out = owner.post("/booking/owner/logout", format!("key={key}")).await;
    assert!(out.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    site.engine.clock().unwrap().advance(Duration::from_secs(8 * 3_600));
    assert!(owner.get("/booking/owner/").await.body.contains(r#"type="password""#), "after eight hours");
}

#[tokio::test]
async fn guessing_passwords_is_slowed_down() {
    let site = Site::new().await;
    for _ in 0..10 {
        assert_eq!(site.post("/booking/owner/login", "password=wrong").await.status, StatusCode::FORBIDDEN);
    }
    let right = format!("password={}", PASSWORD.replace(' ', "+"));
    let refused = site.post("/booking/owner/login", right).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "even the right one");
    assert_eq!(refused.headers["retry-after"], "60");
    site.engine.clock().unwrap().advance(Duration::from_secs(60));
    Owner::log_in(&site).await;
}

#[tokio::test]
async fn without_a_password_the_page_is_closed_and_says_how_to_open_it() {
    let folder = tempfile::tempdir().unwrap();
    let mailbox = Mailbox::in_folder(folder.path());
    let mut settings = crate::site::settings(Restaurant::new("UTC", 10).unwrap(), mailbox);
    settings.owner = None;
    let engine = booking::install(Engine::in_memory(), &settings).start().await.unwrap();
    let router = routes(engine, settings);
    for request in [
        Request::get("/booking/owner/").body(Body::empty()).unwrap(),
        form("/booking/owner/login", "password="),
        form("/booking/owner/days", "change=open"),
    ] {
        let path = request.uri().path().to_owned();
        let answer = crate::site::answer(router.clone(), request).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}");
        assert!(path.ends_with("days") || answer.body.contains("--owner-password-file"), "{}", answer.body);
    }
}
