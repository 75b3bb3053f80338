//! Letters: each exactly once.

use crate::site::{DAY, Site};
use axum::http::StatusCode;
use booking::mail;
use highwater::Engine;
use std::fs;

#[tokio::test]
async fn accepted_rejected_and_cancelled_guests_get_one_letter_each() {
    let site = Site::new().await;
    let winner = site.book(DAY, 10).await;
    let loser = site.book(DAY, 1).await;
    site.settle().await;
    site.cancel(winner).await;
    site.settle().await;
    let texts: Vec<String> =
        site.letters().iter().map(|name| site.mailbox.read(name).unwrap().unwrap()).collect();
    assert_eq!(texts.len(), 3);
    for (subject, reservation) in [("Booked: ", winner), ("Not booked: ", loser), ("Cancelled: ", winner)] {
        let subject = format!("Subject: {subject}your table on Thursday 24 December 2026\r\n");
        let letter: Vec<_> = texts.iter().filter(|text| text.contains(&subject)).collect();
        assert_eq!(letter.len(), 1, "{subject} {texts:?}");
        assert!(letter[0].contains(&reservation.to_string()));
        let to = format!("To: Ada <{}>\r\n", crate::site::email(reservation));
        assert!(letter[0].contains(&to), "{}", letter[0]);
    }
    assert!(
        texts
            .iter()
            .any(|text| text.contains("Message-ID: <capacity_2026-12-24_2026-12-24_1_0@booking.local>"))
    );
    assert!(
        texts.iter().any(|text| text.contains("The reason: no seats are left on Thursday 24 December 2026."))
    );
}

/// Invariant 4: effects once.
#[tokio::test]
async fn a_subscriber_that_runs_again_from_the_beginning_writes_no_letter_twice() {
    let site = Site::new().await;
    for _ in 0..3 {
        site.book(DAY, 4).await;
    }
    site.settle().await;
    let snapshot = || {
        let read = |entry: fs::DirEntry| {
            let written = entry.metadata().unwrap().modified().unwrap();
            (entry.file_name(), fs::read(entry.path()).unwrap(), written)
        };
        let mut files: Vec<_> =
            fs::read_dir(site.mailbox.folder()).unwrap().map(|entry| read(entry.unwrap())).collect();
        files.sort();
        files
    };
    let before = snapshot();
    assert_eq!(before.len(), 3);
    let elsewhere = Engine::in_memory().start().await.unwrap();
    let subscriber = mail::subscriber(&site.settings).lease_store(elsewhere.backend().cells.clone());
    let clock = site.engine.clock().unwrap().clone();
    let again =
        Engine::driven_on(site.engine.backend().clone(), clock).processor(subscriber).start().await.unwrap();
    let settled = again.settle().await.unwrap();
    assert!(settled.trouble().is_empty() && !settled.steps.is_empty(), "it ran: {settled:?}");
    assert_eq!(snapshot(), before);
}

#[tokio::test]
async fn names_of_any_script_reach_the_letter_and_its_page_unharmed() {
    let site = Site::new().await;
    let id = highwater::CommandId::random();
    let name = "%3Cscript%3Ealert(1)%3C%2Fscript%3E+%F0%9F%A6%80+%27%3B+drop+table";
    let body = format!("id={id}&date={DAY}&name={name}&email=ada%40example.org&quantity=1");
    assert_eq!(site.post("/booking/", body).await.status, StatusCode::SEE_OTHER);
    site.settle().await;
    let letters = site.letters();
    let text = site.mailbox.read(&letters[0]).unwrap().unwrap();
    assert!(text.contains("Dear <script>alert(1)</script> 🦀 '; drop table,"), "{text}");
    for page in
        [format!("/booking/mails/{}", letters[0]), format!("/booking/receipts/{id}"), "/booking/mails".into()]
    {
        let page = site.get(&page).await;
        assert_eq!(page.status, StatusCode::OK);
        assert!(!page.body.contains("<script>alert"), "{}", page.body);
    }
    let page = site.get(&format!("/booking/mails/{}", letters[0])).await.body;
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt; 🦀 '; drop table"), "{page}");
}

#[tokio::test]
async fn the_list_shows_the_newest_letter_first_and_a_bounded_number() {
    let site = Site::on(Engine::in_memory(), 200).await;
    assert!(site.get("/booking/mails").await.body.contains("No letters yet"));
    for day in ["2026-03-01", "2026-03-02", "2026-03-03"] {
        site.book(day, 1).await;
        site.settle().await;
        site.engine.clock().unwrap().advance(std::time::Duration::from_secs(1));
    }
    let page = site.get("/booking/mails").await.body;
    let clock = "Thursday 1 January 2026, 01:00";
    assert_eq!(page.matches(clock).count(), 3, "{page}");
    let letter = site.get(&format!("/booking/mails/{}", site.letters()[0])).await.body;
    assert!(letter.contains(&format!("<dd>{clock}</dd>")), "the same clock: {letter}");
    let place = |day| page.find(day).unwrap_or_else(|| panic!("{day} is missing: {page}"));
    assert!(place("3 March 2026") < place("2 March 2026") && place("2 March 2026") < place("1 March 2026"));
    for _ in 0..100 {
        site.book("2026-03-04", 1).await;
    }
    site.settle().await;
    let page = site.get("/booking/mails").await.body;
    assert_eq!(page.matches("<li>").count(), 100);
    assert!(!page.contains("1 March 2026"));
}

#[tokio::test]
async fn nothing_but_letters_can_be_read() {
    let site = Site::new().await;
    site.book(DAY, 1).await;
    site.settle().await;
    fs::write(site.folder.path().join("secret.eml"), "secret").unwrap();
    for name in
        ["..%2Fsecret.eml", "../secret.eml", "..%5Csecret.eml", "%2Fetc%2Fpasswd", "x.eml", "%00.eml", ".eml"]
    {
        let answer = site.get(&format!("/booking/mails/{name}")).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{name}");
        assert!(!answer.body.contains(">secret<"));
    }
}
