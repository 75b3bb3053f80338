//! Bad input gets a clear answer.

use crate::site::{DAY, Site, form};
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use highwater::CommandId;

fn typed(date: &str, name: &str, email: &str, quantity: &str) -> String {
    let id = CommandId::random();
    format!("id={id}&date={date}&name={name}&email={email}&quantity={quantity}")
}

#[tokio::test]
async fn what_is_wrong_with_a_field_stands_beside_it_and_what_was_typed_stays() {
    let site = Site::new().await;
    let long = "a".repeat(300);
    for (field, value, body) in [
        ("name", "", typed(DAY, "", "ada%40example.org", "1")),
        ("name", "a\u{1}b", typed(DAY, "a%01b", "ada%40example.org", "1")),
        ("name", &*long, typed(DAY, &long, "ada%40example.org", "1")),
        ("email", "ada", typed(DAY, "Ada", "ada", "1")),
        (
            "email",
            "ada@example.org\r\nBcc: eve@example.org",
            typed(DAY, "Ada", "ada%40example.org%0D%0ABcc%3A+eve%40example.org", "1"),
        ),
        ("email", "'; drop table days; --", typed(DAY, "Ada", "%27%3B+drop+table+days%3B+--", "1")),
        ("email", "🦀", typed(DAY, "Ada", "%F0%9F%A6%80", "1")),
        ("quantity", "0", typed(DAY, "Ada", "ada%40example.org", "0")),
        ("quantity", "11", typed(DAY, "Ada", "ada%40example.org", "11")),
        ("quantity", "-1", typed(DAY, "Ada", "ada%40example.org", "-1")),
        ("quantity", "1.5", typed(DAY, "Ada", "ada%40example.org", "1.5")),
        ("quantity", "99999999999999999999", typed(DAY, "Ada", "ada%40example.org", "99999999999999999999")),
        ("quantity", "", typed(DAY, "Ada", "ada%40example.org", "")),
        ("date", "2026-02-30", typed("2026-02-30", "Ada", "ada%40example.org", "1")),
        ("date", "24.12.2026", typed("24.12.2026", "Ada", "ada%40example.org", "1")),
        ("date", "2025-12-31", typed("2025-12-31", "Ada", "ada%40example.org", "1")),
        ("date", "", typed("", "Ada", "ada%40example.org", "1")),
    ] {
        let answer = site.post("/booking/", body).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{field} {value:?}");
        let kept = format!(r#"id="{field}" name="{field}" type="#);
        let input = answer.body.split(&kept).nth(1).unwrap_or_else(|| panic!("{field}: {}", answer.body));
        let input = input.split("<label").next().unwrap();
        assert!(input.contains(&format!(r#"value="{value}""#)), "{field} {value:?} is kept: {input}");
        assert!(
            input.contains(r#"aria-invalid="true""#) && input.contains(&format!("{field}-fault")),
            "{input}"
        );
        assert!(input.contains(&format!(r#"<p class="fault" id="{field}-fault">"#)), "{input}");
        assert_eq!(
            answer.body.matches("aria-invalid").count(),
            1,
            "only this field is wrong: {}",
            answer.body
        );
    }
    assert!(site.log(&[]).await.is_empty(), "nothing was sent");
}

#[tokio::test]
async fn hostile_text_that_is_a_name_is_only_a_name() {
    let site = Site::new().await;
    for (guest, name) in [
        "%27%3B+drop+table+days%3B+--",
        "%F0%9F%A6%80",
        "%3Cimg+src%3Dx%3E",
        "%22%3E%3Cb%3E",
        "%7B%7B7*7%7D%7D",
    ]
    .into_iter()
    .enumerate()
    {
        let answer = site.post("/booking/", typed(DAY, name, &format!("{guest}%40example.org"), "1")).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{name}");
    }
    site.settle().await;
    assert_eq!(site.count("Reserved").await, 5);
    let answer = site.post("/booking/", typed(DAY, "%22%3E%3Cscript%3E", "x", "1")).await;
    assert!(
        answer.body.contains("&quot;&gt;&lt;script&gt;") && !answer.body.contains("\"><script>"),
        "{}",
        answer.body
    );
}

#[tokio::test]
async fn forms_that_cannot_be_decoded_are_bad_requests() {
    let site = Site::new().await;
    let id = CommandId::random();
    let bodies: [Body; 5] = [
        format!("id={id}&date={DAY}&name=%FF&email=ada%40example.org&quantity=1").into(),
        Body::from(&b"name=\xff"[..]),
        format!("id={id}&id={id}").into(),
        "id=x&name=Ada".into(),
        "".into(),
    ];
    for body in bodies {
        let answer = site.post("/booking/", body).await;
        assert_eq!((answer.status, &*answer.kind), (StatusCode::BAD_REQUEST, "text/html; charset=utf-8"));
    }
}

#[tokio::test]
async fn a_form_of_another_kind_or_none_is_an_unsupported_media_type() {
    let site = Site::new().await;
    for kind in ["application/json", "multipart/form-data; boundary=x", "text/plain", ""] {
        let request =
            Request::post("/booking/").header(header::CONTENT_TYPE, kind).body("{}".into()).unwrap();
        assert_eq!(site.send(request).await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{kind}");
    }
    let request = Request::post("/booking/").body(Body::empty()).unwrap();
    assert_eq!(site.send(request).await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    for (name, value) in [
        (header::CONTENT_TYPE, "application/x-www-form-urlencoded; charset=utf-16"),
        (header::CONTENT_ENCODING, "gzip"),
    ] {
        let mut request = form("/booking/", typed(DAY, "Ada", "ada%40example.org", "1"));
        request.headers_mut().insert(name, header::HeaderValue::from_static(value));
        assert_eq!(site.send(request).await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{value}");
    }
    let mut request = form("/booking/", typed(DAY, "Ada", "ada%40example.org", "1"));
    let kind = header::HeaderValue::from_static("application/x-www-form-urlencoded; charset=UTF-8");
    request.headers_mut().insert(header::CONTENT_TYPE, kind);
    assert_eq!(site.send(request).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn a_form_from_another_origin_is_refused_also_by_browsers_that_do_not_tell_more() {
    let site = Site::new().await;
    for (origin, host, status) in [
        ("http://127.0.0.1:7300", "127.0.0.1:7300", StatusCode::SEE_OTHER),
        ("https://Tables.example.org", "tables.example.org", StatusCode::SEE_OTHER),
        ("http://127.0.0.1:7301", "127.0.0.1:7300", StatusCode::FORBIDDEN),
        ("http://evil.example.org", "127.0.0.1:7300", StatusCode::FORBIDDEN),
        ("null", "127.0.0.1:7300", StatusCode::FORBIDDEN),
        ("null", "null", StatusCode::FORBIDDEN),
        ("", "", StatusCode::FORBIDDEN),
    ] {
        for fetch_site in [None, Some("same-origin")] {
            let mut request = form("/booking/", typed(DAY, "Ada", "ada%40example.org", "1"));
            let headers = request.headers_mut();
            headers.insert(header::ORIGIN, header::HeaderValue::from_static(origin));
            headers.insert(header::HOST, header::HeaderValue::from_static(host));
            if let Some(fetch_site) = fetch_site {
                headers.insert("sec-fetch-site", header::HeaderValue::from_static(fetch_site));
            }
            assert_eq!(site.send(request).await.status, status, "{origin} {host} {fetch_site:?}");
        }
    }
}

#[tokio::test]
async fn a_field_of_ten_megabytes_is_too_much() {
    let site = Site::new().await;
    let answer = site.post("/booking/", typed(DAY, &"a".repeat(10_000_000), "ada%40example.org", "1")).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(answer.body.contains("64 KiB"));
    let fits = format!("{}&filler={}", typed(DAY, "Ada", "ada%40example.org", "1"), "a".repeat(60_000));
    assert_eq!(site.post("/booking/", fits).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn months_and_days_that_do_not_exist_are_bad_requests() {
    let site = Site::new().await;
    for query in [
        "year=2026&month=13",
        "year=2026&month=0",
        "year=0&month=1",
        "year=10000&month=1",
        "year=x&month=1",
        "year=2026",
        "month=12",
        "year=-1&month=1",
        "year=%FF&month=1",
        "year=2026&month=12&month=11",
    ] {
        let page = site.get(&format!("/booking/?{query}")).await;
        assert_eq!(
            (page.status, &*page.kind),
            (StatusCode::BAD_REQUEST, "text/html; charset=utf-8"),
            "{query}"
        );
        let problem = site.get(&format!("/booking/disabled-days?{query}")).await;
        assert_eq!(
            (problem.status, &*problem.kind),
            (StatusCode::BAD_REQUEST, "application/problem+json"),
            "{query}"
        );
        let json = problem.json();
        assert_eq!((&json["status"], &json["type"]), (&400.into(), &"about:blank".into()));
    }
    assert_eq!(site.get("/booking/disabled-days").await.status, StatusCode::BAD_REQUEST);
    for query in ["", "date=", "date=2026-02-30", "date=x", "date=%F0%9F%A6%80", "date=%FF"] {
        assert_eq!(
            site.get(&format!("/booking/new?{query}")).await.status,
            StatusCode::BAD_REQUEST,
            "{query}"
        );
    }
    let past = site.get("/booking/new?date=2025-12-31").await;
    assert_eq!(past.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(
        past.body.contains("Wednesday 31 December 2025 has passed") && !past.body.contains("cannot be sent")
    );
}
