//! Many at once, on an engine that runs.

use crate::site::{DAY, Site, answer, form};
use axum::http::StatusCode;
use highwater::{CommandId, Engine, Outcome};
use std::time::Duration;

/// Invariants 1 and 7 under load.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_clients_race_for_the_last_seats_and_every_loser_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("booking.db").display());
    let site = Site::on(Engine::open(url), 10).await;
    let date = DAY.replace("2026", "2999");
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..64_u32 {
        let (router, date) = (site.router.clone(), date.clone());
        clients.spawn(async move {
            let (id, quantity) = (CommandId::random(), 1 + client % 3);
            let body = format!(
                "id={id}&date={date}&name=Guest+{client}&email=g{client}%40example.org&quantity={quantity}"
            );
            let answer = answer(router, form("/booking/", body)).await;
            assert_eq!(answer.status, StatusCode::SEE_OTHER);
            (id, quantity)
        });
    }
    let (mut seated, mut refused, mut token) = (0, 0, highwater::Token::default());
    for (id, quantity) in clients.join_all().await {
        let outcome = site.engine.outcome(id).wait(Duration::from_secs(60)).await.unwrap();
        token.merge(outcome.token().unwrap());
        match outcome {
            Outcome::Accepted { .. } => seated += quantity,
            Outcome::Rejected { reason, .. } => {
                assert!(reason.contains("left on"), "{reason}");
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    let reserved = site.count("Reserved").await;
    assert_eq!(
        seated, 10,
        "single seats were asked for until the end, so the day is full and not overbooked"
    );
    assert_eq!((reserved + refused, site.count("Declined").await), (64, refused));
    assert_eq!(site.count("SoldOut").await, 1);
    assert_eq!(site.log(&["reservations"]).await.len(), reserved);
    let view = site.engine.view::<booking::MonthView>();
    let month = view.get("2999-12").at_least(&token).wait(Duration::from_secs(60)).await.unwrap();
    assert!(month.document.unwrap().days.contains(&24));
    site.engine.stop().await;
}
