//! The link in the letter that gives a table back.

use crate::site::{DAY, Site};
use axum::http::StatusCode;
use highwater::CommandId;

/// The path of the link in the only letter of acceptance.
fn link(site: &Site) -> String {
    let letters = site.letters().into_iter().map(|name| site.mailbox.read(&name).unwrap().unwrap());
    let letter = letters.into_iter().find(|text| text.contains("Subject: Booked:")).unwrap();
    let link = letter.split("http://tables.example.org").nth(1).unwrap();
    link.split("\r\n").next().unwrap().to_owned()
}

#[tokio::test]
async fn the_letters_link_asks_first_and_cancels_only_when_the_button_is_pressed() {
    let site = Site::new().await;
    let id = site.book(DAY, 10).await;
    site.settle().await;
    assert_eq!(site.disabled_days(2026, 12).await, ["2026.12.24"]);
    let link = link(&site);
    for _ in 0..3 {
        let page = site.get(&link).await;
        assert_eq!(page.status, StatusCode::OK);
        let form = format!(r#"<form method="post" action="{link}">"#);
        assert!(
            page.body.contains(&form) && page.body.contains("Thursday 24 December 2026"),
            "{}",
            page.body
        );
    }
    site.settle().await;
    assert_eq!(site.count("Cancelled").await, 0, "who only looks cancels nothing");
    let receipt = Some(format!("/booking/receipts/{id}"));
    for _ in 0..2 {
        let posted = site.post(&link, "").await;
        assert_eq!((posted.status, posted.location), (StatusCode::SEE_OTHER, receipt.clone()));
    }
    assert!(site.get(&link).await.body.contains("being cancelled"));
    site.settle().await;
    assert_eq!(site.count("Cancelled").await, 1);
    assert_eq!(site.disabled_days(2026, 12).await, [""; 0], "the day is free again");
    let again = site.post(&link, "").await;
    assert!(again.status == StatusCode::OK && again.body.contains("cancelled already"), "{}", again.body);
    assert!(site.get(&link).await.body.contains("cancelled already"));
    let texts = site.letters().into_iter().map(|name| site.mailbox.read(&name).unwrap().unwrap());
    assert_eq!(texts.filter(|text| text.contains("Subject: Cancelled:")).count(), 1);
}

#[tokio::test]
async fn a_link_that_was_tampered_with_or_is_of_another_booking_is_refused_with_a_page() {
    let site = Site::new().await;
    let (mine, other) = (site.book(DAY, 1).await, site.book("2026-12-25", 1).await);
    site.settle().await;
    let good = site.links.cancel_path(mine);
    let (_, signature) = good.rsplit_once('/').unwrap();
    for bad in [
        format!("/booking/cancel/{other}/{signature}"),
        format!("/booking/cancel/{mine}/{}", "A".repeat(43)),
        format!("/booking/cancel/{mine}/{}", &signature[..42]),
        format!("/booking/cancel/x/{signature}"),
        format!("/booking/cancel/{mine}/%F0%9F%A6%80"),
    ] {
        for answer in [site.get(&bad).await, site.post(&bad, "").await] {
            assert_eq!((answer.status, &*answer.kind), (StatusCode::FORBIDDEN, "text/html; charset=utf-8"));
            assert!(answer.body.contains("This link is not valid"), "{}", answer.body);
        }
    }
    site.settle().await;
    assert_eq!(site.count("Cancelled").await, 0);
    let unknown = CommandId::random();
    assert_eq!(site.get(&site.links.cancel_path(unknown)).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn one_address_has_one_booking_a_day_until_it_is_cancelled() {
    let site = Site::new().await;
    let book = async |day: &str, email: &str| {
        let id = CommandId::random();
        let body = format!("id={id}&date={day}&name=Ada&email={email}&quantity=2");
        assert_eq!(site.post("/booking/", body).await.status, StatusCode::SEE_OTHER);
        site.settle().await;
        (id, site.status(id).await)
    };
    let (first, accepted) = book(DAY, "Ada%40example.org").await;
    assert_eq!(accepted.0, "accepted");
    let (second, (status, reason)) = book(DAY, "ada%40Example.ORG").await;
    assert_eq!(status, "rejected");
    assert!(reason.unwrap().starts_with("there is a booking under this e-mail address on Thursday"));
    let page = site.get(&format!("/booking/receipts/{second}")).await.body;
    assert!(page.contains("has a link to cancel it"), "{page}");
    assert_eq!(book("2026-12-25", "ada%40example.org").await.1.0, "accepted", "another day");
    assert_eq!(book(DAY, "bob%40example.org").await.1.0, "accepted", "another guest");
    site.cancel(first).await;
    site.settle().await;
    assert_eq!(book(DAY, "ada%40example.org").await.1.0, "accepted", "it is free again");
}
