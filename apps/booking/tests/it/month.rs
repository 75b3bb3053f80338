//! The calendar's view.

use crate::site::{Site, reserve};
use axum::body::Body;
use axum::http::{Request, StatusCode};
use booking::{Capacity, MonthView, Restaurant, install};
use highwater::{CommandId, Engine, Freshness};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// Invariant 4: documents fed by parallel partitions lose nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_month_that_is_fed_by_31_keys_at_once_loses_no_day() {
    let site = Site::on(Engine::open("sqlite::memory:"), 1).await;
    let days: Vec<String> = (1..=31).map(|day| format!("2999-12-{day:02}")).collect();
    let mut sending = tokio::task::JoinSet::new();
    for day in days.clone() {
        let engine = site.engine.clone();
        sending.spawn(async move { engine.send::<Capacity>(day, reserve(1)).await.unwrap().id });
    }
    let mut token = highwater::Token::default();
    for id in sending.join_all().await {
        let outcome = site.engine.outcome(id).wait(PATIENCE).await.unwrap();
        token.merge(outcome.token().unwrap());
    }
    let answer =
        site.engine.view::<MonthView>().get("2999-12").at_least(&token).wait(PATIENCE).await.unwrap();
    assert!(answer.is_fresh(), "{:?}", answer.freshness);
    assert_eq!(answer.document.unwrap().days, (1..=31).collect());
    site.engine.stop().await;
}

#[tokio::test]
async fn the_view_equals_a_fold_of_the_log() {
    let seed: u64 = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_111_224);
    println!("SEED={seed}");
    let mut state = seed;
    let mut random = move |below: u64| {
        // Knuth's linear congruential generator (MMIX): enough to mix a plan.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let site = Site::on(Engine::in_memory(), 3).await;
    let mut booked: Vec<CommandId> = Vec::new();
    for _ in 0..60 {
        for _ in 0..random(4) {
            let day = format!("2026-{:02}-{:02}", 11 + random(2), 1 + random(5));
            booked.push(site.book(&day, 1 + random(3) as u32).await);
        }
        site.settle().await;
        if random(3) == 0 && !booked.is_empty() {
            let one = booked.swap_remove(random(booked.len() as u64) as usize);
            if site.status(one).await.0 == "accepted" {
                site.cancel(one).await;
            }
        }
    }
    site.settle().await;
    let mut folded: BTreeMap<String, BTreeSet<u8>> = BTreeMap::new();
    for (day, event) in site.events().await {
        let (month, number) = (day[..7].to_owned(), day[8..].parse().unwrap());
        match &*event {
            "SoldOut" => assert!(folded.entry(month).or_default().insert(number), "{day} sold out twice"),
            "Reopened" => assert!(folded.entry(month).or_default().remove(&number), "{day} was not sold out"),
            _ => {}
        }
    }
    let view = site.engine.view::<MonthView>().list(None, 100).await.unwrap();
    let view: BTreeMap<_, _> = view.into_iter().map(|(month, document)| (month, document.days)).collect();
    assert!(folded.values().any(|days| !days.is_empty()), "the plan sells something out");
    assert_eq!(view, folded);
}

#[tokio::test]
async fn a_calendar_that_lags_behind_its_token_says_so() {
    let site = Site::on(Engine::in_memory().role(highwater::Role::Worker), 10).await;
    let id = site.book("2026-12-24", 10).await;
    site.settle().await;
    let json = site.get(&format!("/booking/receipts/{id}.json")).await.json();
    let asked = |path: &str| {
        let request = Request::get(path).header("highwater-at-least", json["token"].as_str().unwrap());
        request.body(Body::empty()).unwrap()
    };
    let page = site.send(asked("/booking/?year=2026&month=12")).await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.body.contains("has not caught up with your booking yet"), "{}", page.body);
    let token = json["token"].as_str().unwrap().parse().unwrap();
    let answer = site.engine.view::<MonthView>().get("2026-12").at_least(&token).await.unwrap();
    assert!(matches!(answer.freshness, Freshness::Stale { .. }));
    let receipt = site.get(&format!("/booking/receipts/{id}")).await;
    assert_eq!(receipt.status, StatusCode::OK, "the receipt does not need the view to know the verdict");
    assert!(receipt.body.contains("Accepted"));
    assert!(receipt.body.contains(r#"data-until="day""#), "it shows the details once they are known");
    assert_eq!(json["day"], serde_json::Value::Null);
}

#[tokio::test]
async fn a_browser_that_has_seen_its_receipt_reads_a_calendar_that_contains_its_booking() {
    let site = Site::on(Engine::in_memory().role(highwater::Role::Worker), 10).await;
    let id = site.book("2026-12-24", 10).await;
    site.settle().await;
    let receipt = site.get(&format!("/booking/receipts/{id}")).await;
    let cookie = receipt.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let calendar = async |cookie: &str| {
        let request = Request::get("/booking/?year=2026&month=12").header("cookie", cookie);
        site.send(request.body(Body::empty()).unwrap()).await.body
    };
    let behind = "has not caught up with your booking yet";
    assert!(calendar(&cookie).await.contains(behind));
    assert!(!calendar("").await.contains(behind), "who has seen nothing is told nothing");
    let projector = Engine::driven_on(site.engine.backend().clone(), site.engine.clock().unwrap().clone());
    let settings = crate::site::settings(Restaurant::new("UTC", 10).unwrap(), site.mailbox.clone());
    let projector = install(projector.role(highwater::Role::Projector), &settings).start().await.unwrap();
    projector.settle().await.unwrap();
    let page = calendar(&cookie).await;
    assert!(!page.contains(behind) && page.contains("24 December 2026, sold out"), "{page}");
}

#[tokio::test]
async fn a_token_of_another_store_is_not_mistaken_for_ours() {
    let (site, other) = (Site::new().await, Site::new().await);
    let id = other.book("2026-12-24", 10).await;
    other.settle().await;
    let token = other.get(&format!("/booking/receipts/{id}.json")).await.json()["token"].clone();
    let request = Request::get("/booking/").header("highwater-at-least", token.as_str().unwrap());
    let answer = site.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!((answer.status, &*answer.kind), (StatusCode::BAD_REQUEST, "application/problem+json"));
}
