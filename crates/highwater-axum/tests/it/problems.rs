//! What clients are told about errors, and what they are not.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use highwater::contract::{CommitError, Expect, Found, PutError};
use highwater::{
    CommandId, EngineError, ExecuteError, FailureKind, HandlerError, ItemKey, Name, OutcomeError, SendError,
};
use highwater_axum::Problem;
use http_body_util::BodyExt;
use serde_json::{Value, json};

async fn told(problem: impl Into<Problem>) -> (StatusCode, Option<String>, Value) {
    let response = problem.into().into_response();
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let retry = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, retry, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn every_error_has_its_status_and_says_nothing_about_the_inside() {
    let secret = "/var/lib/secret.db is locked by pid 7";
    let engine = |kind| EngineError::new(kind, secret);
    let id = CommandId::random();
    let key = ItemKey::alone(Name::new("secret").unwrap(), "secret").unwrap();
    let full = PutError::Full { queue: Name::new("secret").unwrap(), limit: 10 };
    let conflict = |expected| CommitError::Conflict { key: key.clone(), expected, found: Found::Nothing };
    let etag = "1-1".parse().unwrap();
    let problems: Vec<(Problem, u16, &str)> = vec![
        (engine(FailureKind::Busy).into(), 503, "unavailable"),
        (engine(FailureKind::Unavailable).into(), 503, "unavailable"),
        (engine(FailureKind::OutOfSpace).into(), 503, "unavailable"),
        (engine(FailureKind::Corrupt).into(), 500, ""),
        (engine(FailureKind::Other).into(), 500, ""),
        (SendError::CommandIdReused { id }.into(), 409, "command-id-reused"),
        (SendError::TooLarge { size: 9, limit: 5 }.into(), 413, "too-large"),
        (SendError::Queue(full).into(), 503, "queue-full"),
        (SendError::Full { limit: 10 }.into(), 503, "queue-full"),
        (SendError::Cancelled { id }.into(), 409, "command-cancelled"),
        (SendError::NotRegistered { container: "secret" }.into(), 500, ""),
        (ExecuteError::Failed(HandlerError::transient(secret)).into(), 503, "unavailable"),
        (ExecuteError::Failed(HandlerError::permanent(secret)).into(), 500, ""),
        (OutcomeError::Unknown { id }.into(), 404, "unknown-command"),
        (conflict(Expect::Absent).into(), 409, "conflict"),
        (conflict(Expect::ETag(etag)).into(), 412, "changed"),
        (CommitError::NotFound { key: key.clone() }.into(), 404, "not-found"),
        (CommitError::ItemTwice { key: key.clone() }.into(), 500, ""),
        (Problem::rejected("no seats are left"), 422, "rejected"),
    ];
    for (problem, status, kind) in problems {
        let (found, retry, body) = told(problem).await;
        assert_eq!((found.as_u16(), &body["status"]), (status, &json!(status)), "{body}");
        let wanted =
            if kind.is_empty() { "about:blank".into() } else { format!("urn:highwater:problem:{kind}") };
        assert_eq!(body["type"], wanted);
        assert!(body["title"].as_str().is_some_and(|title| !title.is_empty()));
        assert_eq!(retry.is_some(), status == 503, "{body}");
        assert!(!body.to_string().contains("secret"), "{body}");
    }
}

#[tokio::test]
async fn a_problem_carries_members_of_its_own_but_never_in_place_of_the_usual_ones() {
    let problem = Problem::new("https://example.org/problems/full", "Full", StatusCode::CONFLICT)
        .detail("no seats are left")
        .instance("/receipts/7")
        .with("seats", 0)
        .with("status", 200);
    let (status, retry, body) = told(problem).await;
    assert_eq!((status, retry), (StatusCode::CONFLICT, None));
    let wanted = json!({
        "type": "https://example.org/problems/full", "title": "Full", "status": 409,
        "detail": "no seats are left", "instance": "/receipts/7", "seats": 0,
    });
    assert_eq!(body, wanted);
}
