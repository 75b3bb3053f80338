//! From the form to the answer.

use crate::site::{DAY, Site};
use axum::http::StatusCode;
use highwater::CommandId;
use serde_json::json;

#[tokio::test]
async fn a_booking_is_first_pending_then_accepted_and_the_day_closes() {
    let site = Site::new().await;
    let form = site.get(&format!("/booking/new?date={DAY}")).await;
    assert_eq!(form.status, StatusCode::OK);
    assert!(form.body.contains("Thursday 24 December 2026"));
    let id = form.body.split(r#"name="id" value=""#).nth(1).unwrap().split('"').next().unwrap().to_owned();
    let body = format!("id={id}&date={DAY}&name=Ada+Lovelace&email=ada%40example.org&quantity=10");
    let posted = site.post("/booking/", body).await;
    assert_eq!(posted.status, StatusCode::SEE_OTHER);
    let receipt = posted.location.unwrap();
    assert_eq!(receipt, format!("/booking/receipts/{id}"));

    let pending = site.get(&receipt).await;
    assert!(pending.body.contains("not final yet") && pending.body.contains("by mail"), "{}", pending.body);
    assert!(pending.body.contains(&format!(r#"data-poll="{receipt}.json""#)));
    let nothing = json!({ "status": "pending", "reason": null, "token": null, "day": null });
    assert_eq!(site.get(&format!("{receipt}.json")).await.json(), nothing);
    assert_eq!(site.disabled_days(2026, 12).await, [""; 0], "nothing is decided yet");

    site.settle().await;
    let json = site.get(&format!("{receipt}.json")).await.json();
    let token = json["token"].as_str().unwrap().to_owned();
    assert_eq!(json, json!({ "status": "accepted", "reason": null, "token": token, "day": DAY }));
    let page = site.get(&receipt).await.body;
    assert!(page.contains("Your table is booked") && page.contains("Ada Lovelace"), "{page}");
    let back = "/booking/?year=2026&amp;month=12\"";
    assert!(page.contains(back), "{page}");
    let calendar = site.get("/booking/?year=2026&month=12").await;
    assert!(!calendar.body.contains("not caught up"));
    assert!(
        calendar.body.contains(r#"<span class="day sold"><span aria-hidden="true">24<"#),
        "{}",
        calendar.body
    );
    assert_eq!(site.disabled_days(2026, 12).await, ["2026.12.24"]);
    assert_eq!(site.disabled_days(2026, 11).await, [""; 0]);
}

#[tokio::test]
async fn a_rejection_says_why_and_offers_another_day() {
    let site = Site::new().await;
    site.book(DAY, 9).await;
    let loser = site.book(DAY, 2).await;
    site.settle().await;
    let json = site.get(&format!("/booking/receipts/{loser}.json")).await.json();
    assert_eq!(json["status"], "rejected");
    assert_eq!(json["reason"], "only 1 seat is left on Thursday 24 December 2026");
    assert!(json["token"].is_string());
    let page = site.get(&format!("/booking/receipts/{loser}")).await.body;
    assert!(
        page.contains("only 1 seat is left") && page.contains("/booking/?year=2026&amp;month=12"),
        "{page}"
    );
    assert!(!page.contains("Cancel this booking"));
}

#[tokio::test]
async fn a_double_click_is_one_booking() {
    let site = Site::new().await;
    let id = CommandId::random();
    let body = format!("id={id}&date={DAY}&name=Ada&email=ada%40example.org&quantity=4");
    for _ in 0..2 {
        let answer = site.post("/booking/", body.clone()).await;
        assert_eq!(
            (answer.status, answer.location),
            (StatusCode::SEE_OTHER, Some(format!("/booking/receipts/{id}")))
        );
    }
    site.settle().await;
    let resent = site.post("/booking/", body).await;
    assert_eq!(resent.status, StatusCode::SEE_OTHER, "also when it is decided long since");
    site.settle().await;
    assert_eq!(site.count("Reserved").await, 1);
    assert_eq!(site.letters().len(), 1);
}

#[tokio::test]
async fn a_form_resent_with_other_content_is_told_so_and_gets_a_fresh_id() {
    let site = Site::new().await;
    let id = site.book(DAY, 4).await;
    let body = format!("id={id}&date={DAY}&name=Ada+B.&email=ada%40example.org&quantity=5");
    let answer = site.post("/booking/", body).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    assert!(answer.body.contains("This form was sent before"));
    assert!(answer.body.contains(&format!("/booking/receipts/{id}")), "the first one's receipt is linked");
    assert!(
        answer.body.contains(r#"value="Ada B.""#) && answer.body.contains(r#"value="5""#),
        "what was typed is kept"
    );
    let fresh = answer.body.split(r#"name="id" value=""#).nth(1).unwrap().split('"').next().unwrap();
    assert_ne!(fresh.parse::<CommandId>().unwrap(), id);
    site.settle().await;
    assert_eq!(site.count("Reserved").await, 1);
}

#[tokio::test]
async fn a_booking_is_cancelled_once_however_often_it_is_asked_for() {
    let site = Site::new().await;
    let id = site.book(DAY, 10).await;
    site.settle().await;
    let receipt = format!("/booking/receipts/{id}");
    let page = site.get(&receipt).await.body;
    let (_, asked) = page.split_once("<details><summary").unwrap_or_else(|| panic!("asks first: {page}"));
    assert!(asked.contains("Cancel this booking") && asked.contains("Yes, cancel it</button>"), "{page}");
    let cancel = site.cancel(id).await;
    let page = site.get(&receipt).await.body;
    assert!(
        page.contains("being cancelled") && page.contains(&format!("/booking/receipts/{cancel}.json")),
        "{page}"
    );
    site.cancel(id).await;
    site.settle().await;
    site.cancel(id).await;
    site.settle().await;
    assert_eq!(site.count("Cancelled").await, 1);
    assert_eq!(site.status(cancel).await.0, "accepted");
    assert_eq!(site.status(id).await.0, "accepted", "that it was booked stays true");
    assert!(site.get(&receipt).await.body.contains("Your booking is cancelled"));
    assert_eq!(site.disabled_days(2026, 12).await, [""; 0]);
}

#[tokio::test]
async fn only_an_accepted_booking_can_be_cancelled_and_only_with_its_own_form() {
    let site = Site::new().await;
    let id = site.book(DAY, 4).await;
    let cancel = booking::receipt::cancellation(id);
    let path = format!("/booking/receipts/{id}/cancel");
    assert_eq!(
        site.post(&path, format!("id={cancel}")).await.status,
        StatusCode::CONFLICT,
        "not decided yet"
    );
    site.settle().await;
    assert_eq!(site.post(&path, "id=x").await.status, StatusCode::BAD_REQUEST);
    let foreign = site.post(&path, format!("id={}", CommandId::random())).await;
    assert_eq!(foreign.status, StatusCode::BAD_REQUEST);
    assert!(foreign.body.contains("belongs to another booking"), "{}", foreign.body);
    let unknown = CommandId::random();
    let body = format!("id={}", booking::receipt::cancellation(unknown));
    let answer = site.post(&format!("/booking/receipts/{unknown}/cancel"), body).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_unknown_receipt_is_not_found_as_page_and_as_problem() {
    let site = Site::new().await;
    for id in [CommandId::random().to_string(), "x".into(), "..%2f..%2fetc".into(), "%F0%9F%A6%80".into()] {
        let page = site.get(&format!("/booking/receipts/{id}")).await;
        assert_eq!((page.status, &*page.kind), (StatusCode::NOT_FOUND, "text/html; charset=utf-8"));
        let problem = site.get(&format!("/booking/receipts/{id}.json")).await;
        assert_eq!((problem.status, &*problem.kind), (StatusCode::NOT_FOUND, "application/problem+json"));
        assert_eq!(problem.json()["status"], 404);
    }
}

#[tokio::test]
async fn a_booking_is_not_called_cancelled_because_another_command_took_the_number_of_its_cancellation() {
    let site = Site::new().await;
    let first = site.book(DAY, 2).await;
    site.settle().await;
    let taken = booking::receipt::cancellation(first);
    let body = format!("id={taken}&date={DAY}&name=Eve&email=eve%40example.org&quantity=1");
    assert_eq!(site.post("/booking/", body).await.status, StatusCode::SEE_OTHER);
    site.settle().await;
    let page = site.get(&format!("/booking/receipts/{first}")).await.body;
    assert!(page.contains("It is still booked") && !page.contains("is cancelled"), "{page}");
}
