//! What has been written is read, and nothing that a client sends can break that or the server.

use crate::tally::Site;
use axum::http::StatusCode;
use highwater::{CommandId, Engine};
use highwater_axum::{ReadYourWrites, SigningKeys};
use std::time::Duration;

fn keys() -> SigningKeys {
    SigningKeys::generate().unwrap()
}

#[tokio::test]
async fn a_read_after_a_write_asks_for_it_though_no_handler_says_so() {
    let site = Site::new(keys()).await;
    let written = site.send("POST", "/ada", &[]).await;
    assert_eq!(written.status, StatusCode::OK);
    let cookie = written.cookie();
    assert_eq!(site.read(&[]).await.body, "0 fresh", "who has written nothing asks for nothing");
    assert_eq!(site.read(&[("cookie", &cookie)]).await.body, "0 stale", "the writer is told that it is old");
    site.follow().await;
    assert_eq!(site.read(&[("cookie", &cookie)]).await.body, "1 fresh");
    let seen = site.send("GET", "/seen", &[("cookie", &cookie)]).await;
    assert_eq!(seen.body, written.token());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_waits_for_a_view_that_is_catching_up() {
    let engine =
        Engine::open("sqlite::memory:").aggregate::<crate::tally::Tally>(()).view(crate::tally::Sums);
    let engine = engine.start().await.unwrap();
    let session = highwater::Session::new(Default::default(), Duration::from_secs(60));
    let sums = session.scope(async {
        let mut sums = Vec::new();
        for _ in 0..20 {
            engine.execute::<crate::tally::Tally>("ada", crate::tally::TallyCommand::Add).await.unwrap();
            sums.push(engine.view::<crate::tally::Sums>().get("ada").await.unwrap().document.unwrap());
        }
        sums
    });
    assert_eq!(sums.await, (1..=20).collect::<Vec<u64>>());
    engine.stop().await;
}

#[tokio::test]
async fn who_sees_the_outcome_of_a_sent_command_reads_what_it_did() {
    let site = Site::new(keys()).await;
    let sent = site.send("POST", "/ada/send", &[]).await;
    assert!(sent.set_cookie().is_none(), "nothing is decided yet");
    site.engine.settle().await.unwrap();
    let seen = site.send("GET", &format!("/outcomes/{}", sent.body), &[]).await;
    assert_eq!((seen.body.as_str(), seen.status), ("decided", StatusCode::OK));
    assert_eq!(site.read(&[("cookie", &seen.cookie())]).await.body, "0 stale");
    site.follow().await;
    assert_eq!(site.read(&[("cookie", &seen.cookie())]).await.body, "1 fresh");
}

#[tokio::test]
async fn the_cookie_is_for_this_site_and_no_script_and_only_encrypted_where_the_page_was() {
    let site = Site::with(|engine| ReadYourWrites::new(engine, keys()).cookie("tally; Domain=x")).await;
    let plain = site.send("POST", "/ada", &[]).await;
    let cookie = plain.set_cookie().unwrap();
    assert!(cookie.starts_with("tallyDomainx="), "{cookie}");
    assert!(cookie.ends_with("; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax"), "{cookie}");
    let proxied = site.send("POST", "/ada", &[("x-forwarded-proto", "https, http")]).await;
    assert!(proxied.set_cookie().unwrap().ends_with("SameSite=Lax; Secure"));
    let always = Site::with(|engine| ReadYourWrites::new(engine, keys()).always_secure()).await;
    assert!(always.send("POST", "/ada", &[]).await.set_cookie().unwrap().ends_with("; Secure"));
}

#[tokio::test]
async fn a_cookie_that_is_tampered_with_foreign_or_expired_counts_as_none() {
    let shared = keys();
    let (site, other) = (Site::new(shared.clone()).await, Site::new(shared).await);
    let stranger = Site::new(keys()).await.send("POST", "/ada", &[]).await.cookie();
    let foreign = other.send("POST", "/ada", &[]).await.cookie();
    let cookie = site.send("POST", "/ada", &[]).await.cookie();
    let (text, signature) = cookie.rsplit_once('.').unwrap();
    let later = text.replacen("1767", "9767", 1);
    assert_ne!(later, text);
    for bad in [
        format!("{later}.{signature}"),
        format!("{text}.{}", "A".repeat(43)),
        format!("{text}."),
        text.into(),
        "highwater-token=".into(),
        "highwater-token=.".into(),
        format!("highwater-token={}", "a.".repeat(4_000)),
        "=;;;=".into(),
        stranger,
        foreign,
    ] {
        let answer = site.read(&[("cookie", &bad)]).await;
        assert_eq!((answer.status, &*answer.body), (StatusCode::OK, "0 fresh"), "{bad}");
    }
    let among = format!("a=b; {cookie}; highwater-tokens=x");
    assert_eq!(site.read(&[("cookie", &among)]).await.body, "0 stale", "other cookies do not hide it");
    site.engine.clock().unwrap().advance(Duration::from_secs(3_599));
    let renewed = site.read(&[("cookie", &cookie)]).await;
    assert_eq!(renewed.body, "0 stale");
    site.engine.clock().unwrap().advance(Duration::from_secs(1));
    assert_eq!(site.read(&[("cookie", &cookie)]).await.body, "0 fresh", "expired");
    assert_eq!(site.read(&[("cookie", &renewed.cookie())]).await.body, "0 stale", "it was renewed in time");
}

#[tokio::test]
async fn a_cookie_is_written_only_when_there_is_something_to_write() {
    let site = Site::new(keys()).await;
    assert!(site.read(&[]).await.set_cookie().is_none());
    let first = site.send("POST", "/ada", &[]).await.cookie();
    assert!(site.read(&[("cookie", &first)]).await.set_cookie().is_none(), "it has it already");
    let second = site.send("POST", "/bob", &[("cookie", &first)]).await;
    assert_ne!(second.cookie(), first);
    assert!(second.token().parse::<highwater::Token>().is_ok());
}

#[tokio::test]
async fn the_largest_token_of_sixteen_partitions_fits_into_the_cookie() {
    let site = Site::new(keys()).await;
    let info = site.engine.backend().store.info();
    let mut token = highwater::Token::default();
    for partition in 0..info.partitions {
        let far = highwater::Position::new(u64::MAX - u64::from(partition)).unwrap();
        token.raise(info.id, info.epoch, highwater::Partition(partition), far);
    }
    let answer = site.read(&[("highwater-at-least", &token.to_string())]).await;
    assert!(answer.cookie().len() < 4_096, "16 partitions fit with the largest positions");
    assert_eq!(answer.body, "0 stale");
}

#[tokio::test]
async fn programs_say_it_in_a_header_and_are_told_what_is_wrong_with_it() {
    let (site, other) = (Site::new(keys()).await, Site::new(keys()).await);
    let written = site.send("POST", "/ada", &[]).await;
    let token = written.token().to_owned();
    assert_eq!(site.read(&[("highwater-at-least", &token)]).await.body, "0 stale");
    site.follow().await;
    let read = site.read(&[("highwater-at-least", &token)]).await;
    assert_eq!((&*read.body, read.token()), ("1 fresh", &*token));
    let foreign = other.send("POST", "/ada", &[]).await.token().to_owned();
    let earlier = token.replacen(".1.", ".0.", 1);
    assert_ne!(earlier, token);
    for (bad, status, kind) in [
        ("nonsense", StatusCode::BAD_REQUEST, "invalid-token"),
        ("", StatusCode::BAD_REQUEST, "invalid-token"),
        (&*foreign, StatusCode::BAD_REQUEST, "other-store"),
        (&*earlier, StatusCode::CONFLICT, "diverged"),
    ] {
        let answer = site.read(&[("highwater-at-least", bad)]).await;
        assert_eq!(answer.status, status, "{bad}: {}", answer.body);
        assert!(answer.body.contains(&format!("urn:highwater:problem:{kind}\"")), "{}", answer.body);
    }
    assert_eq!(
        site.send("GET", &format!("/outcomes/{}", CommandId::random()), &[]).await.status,
        StatusCode::NOT_FOUND
    );
}
