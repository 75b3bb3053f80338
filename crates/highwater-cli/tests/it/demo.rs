//! A demo that runs.

use crate::program::Demo;
use std::time::{Duration, Instant};

#[test]
fn the_demo_says_where_it_is_shows_what_runs_and_stops_when_asked() {
    let data = tempfile::tempdir().unwrap();
    let demo = Demo::start(data.path(), &[]);
    assert!(!demo.address().ends_with(":0"), "the real port: {}", demo.line);
    let home = demo.get("/");
    assert!(home.starts_with("HTTP/1.1 200") && home.contains(r#"href="/booking/""#), "{home}");
    assert!(home.contains("None are waiting") && home.contains("Letters (mail)"), "{home}");
    assert!(home.contains("content-security-policy"), "{home}");
    assert!(demo.get("/booking/").contains("Book a table"));
    let status = demo.get("/status.json");
    assert!(status.contains(r#""queue":"commands""#) && status.contains(r#""name":"month.1""#), "{status}");
    let metrics = demo.get("/metrics");
    assert!(metrics.contains("# TYPE highwater_"), "{metrics}");
    let (ended, log) = demo.stop("-TERM");
    assert_eq!((ended.code(), &*log), (Some(0), ""));
}

#[test]
fn ctrl_c_stops_it_cleanly_and_what_was_booked_is_there_the_next_time() {
    let data = tempfile::tempdir().unwrap();
    let demo = Demo::start(data.path(), &["--seats", "2"]);
    let id = "01900000-0000-7000-8000-000000000001";
    let body = format!("id={id}&date=2999-12-24&name=Ada&email=ada%40example.org&quantity=2");
    let posted = demo.post("/booking/", &body);
    assert!(posted.starts_with("HTTP/1.1 303"), "{posted}");
    until(|| demo.get(&format!("/booking/receipts/{id}.json")).contains(r#""status":"accepted""#));
    let (ended, log) = demo.stop("-INT");
    assert_eq!((ended.code(), &*log), (Some(0), ""));
    let demo = Demo::start(data.path(), &["--seats", "2"]);
    until(|| demo.get("/booking/disabled-days?year=2999&month=12").contains(r#"["2999.12.24"]"#));
    until(|| demo.get("/booking/mails").contains("Booked: your table on Tuesday 24 December 2999"));
}

#[test]
fn each_role_can_be_a_process_of_its_own_on_one_data_folder() {
    let data = tempfile::tempdir().unwrap();
    let web = Demo::start(data.path(), &["--role", "web"]);
    let id = "01900000-0000-7000-8000-000000000002";
    let body = format!("id={id}&date=2999-12-24&name=Ada&email=ada%40example.org&quantity=10");
    assert!(web.post("/booking/", &body).starts_with("HTTP/1.1 303"));
    assert!(web.get(&format!("/booking/receipts/{id}.json")).contains(r#""status":"pending""#));
    let home = web.get("/");
    assert!(
        home.contains("Not decided by this process") && home.contains("Not run by this process"),
        "{home}"
    );
    let worker = Demo::start(data.path(), &["--role", "worker"]);
    assert!(worker.line.contains("running as worker"), "{}", worker.line);
    until(|| web.get(&format!("/booking/receipts/{id}.json")).contains(r#""status":"accepted""#));
    assert!(web.get("/booking/disabled-days?year=2999&month=12").ends_with("[]"), "nobody keeps the view");
    let projector = Demo::start(data.path(), &["--role", "projector"]);
    until(|| web.get("/booking/disabled-days?year=2999&month=12").contains(r#"["2999.12.24"]"#));
    until(|| web.get("/booking/mails").contains("Booked: "));
    for process in [projector, worker, web] {
        let (ended, log) = process.stop("-TERM");
        assert_eq!((ended.code(), &*log), (Some(0), ""));
    }
}

#[test]
fn a_request_under_a_foreign_name_is_refused_unless_the_name_is_allowed() {
    let data = tempfile::tempdir().unwrap();
    let demo = Demo::start(data.path(), &["--allow-host", "tables.example.org", "--allow-host", "192.0.2.1"]);
    for host in [
        "localhost",
        "LOCALHOST:80",
        "127.0.0.1:1",
        "127.1.2.3",
        "[::1]:7300",
        "tables.example.org:443",
        "192.0.2.1",
    ] {
        for path in ["/", "/status.json", "/booking/"] {
            let answer = demo.get_as(host, path);
            assert!(answer.starts_with("HTTP/1.1 200"), "{host} {path}: {answer}");
        }
    }
    for host in [
        "rebound.example.org",
        "example.org",
        "192.0.2.2",
        "localhost.example.org",
        "",
        "me@localhost",
        "a b",
    ] {
        for path in ["/", "/metrics", "/booking/mails", "/nowhere"] {
            let answer = demo.get_as(host, path);
            assert!(
                answer.starts_with("HTTP/1.1 421") && answer.contains("--allow-host"),
                "{host} {path}: {answer}"
            );
        }
    }
}

/// Asks again until it is so, for at most a minute.
fn until(so: impl Fn() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < Duration::from_secs(60), "it never came true");
        std::thread::yield_now();
    }
}
