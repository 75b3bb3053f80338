//! What people see and do, in a real browser.

use crate::chromium::Browser;
use crate::evidence::Evidence;
use crate::processes::{PATIENCE, POLL, Process, post};
use highwater::CommandId;
use std::path::PathBuf;
use std::time::Instant;

pub(crate) const DAY: &str = "2999-12-24";
pub(crate) const CALENDAR: &str = "/booking/?year=2999&month=12";
pub(crate) const SEATS: u32 = 4;

const TAB: char = '\u{e004}';
const ENTER: char = '\u{e007}';

/// A booking site of one or more processes.
pub(crate) struct Site {
    folder: tempfile::TempDir,
    process: Process,
}

impl Site {
    /// A site whose process runs this role.
    pub(crate) fn open(role: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let process = start(&data(&folder), role);
        Self { folder, process }
    }

    pub(crate) async fn browser(&self) -> Browser {
        Browser::open(self.process.address()).await
    }

    pub(crate) fn join(&self, role: &str) -> Process {
        start(&data(&self.folder), role)
    }

    /// Another guest, with another browser, asks for a table.
    pub(crate) fn somebody_books(&self, quantity: u32) -> CommandId {
        let id = CommandId::random();
        let body = format!("id={id}&date={DAY}&name=Bob&email={id}%40example.org&quantity={quantity}");
        let answer = post(self.process.address(), "/booking/", &body).unwrap();
        assert_eq!(answer.status, 303, "{}", answer.body);
        id
    }

    /// What there is once nothing waits any more.
    pub(crate) async fn at_rest(&self) -> Evidence {
        let began = Instant::now();
        loop {
            let evidence = Evidence::of(&data(&self.folder), SEATS).await;
            if evidence.waiting == 0 {
                return evidence;
            }
            assert!(began.elapsed() < PATIENCE, "{} commands are left", evidence.waiting);
            tokio::time::sleep(POLL).await;
        }
    }
}

fn data(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("data")
}

fn start(data: &std::path::Path, role: &str) -> Process {
    let file = data.with_file_name("password");
    if !file.exists() {
        std::fs::write(&file, crate::site::PASSWORD).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
    let file = file.to_str().unwrap();
    Process::start(data, role, &["--seats", &SEATS.to_string(), "--owner-password-file", file])
}

pub(crate) async fn fill(browser: &Browser, name: &str, email: &str, quantity: &str) {
    for (field, text) in [("name", name), ("email", email), ("quantity", quantity)] {
        browser.fill(field, text).await;
    }
}

#[tokio::test]
async fn a_guest_books_a_table_sees_the_answer_arrive_and_finds_the_letter() {
    let site = Site::open("web");
    let browser = site.browser().await;
    browser.goto(CALENDAR).await;
    browser.see("December 2999").await;
    browser.click("[data-day='2999.12.24'] .open").await;
    browser.see("Tuesday 24 December 2999").await;
    fill(&browser, "Ada Lovelace", "ada@example.org", "2").await;
    browser.click("button[type=submit]").await;
    browser.see("Your booking is not final yet").await;
    browser.see("The answer comes by mail").await;
    let receipt = browser.path().await;
    assert!(receipt.starts_with("/booking/receipts/"), "{receipt}");
    // Nobody has decided yet. From here on nobody touches the browser either.
    let (worker, projector) = (site.join("worker"), site.join("projector"));
    browser.see("Your table is booked").await;
    browser.see("Ada Lovelace").await;
    assert_eq!(browser.path().await, receipt);
    let began = Instant::now();
    loop {
        browser.click("nav a[href='/booking/mails']").await;
        browser.see("The letters that guests were sent").await;
        if browser.text().await.contains("Booked: your table on Tuesday 24 December 2999") {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "no letter came");
    }
    browser.click(".letters a").await;
    browser.see("Dear Ada Lovelace").await;
    browser.see("your table for 2 people on Tuesday 24 December 2999 is booked").await;
    browser.close().await;
    drop((worker, projector));
}

#[tokio::test]
async fn a_day_that_sells_out_closes_in_a_calendar_that_is_open() {
    let site = Site::open("all");
    let browser = site.browser().await;
    browser.goto(CALENDAR).await;
    browser.find("[data-day='2999.12.24'] .open").await;
    browser.script("window.untouched = true").await;
    for quantity in [3, 1] {
        site.somebody_books(quantity);
    }
    browser.find("[data-day='2999.12.24'] .sold").await;
    assert_eq!(browser.script("return window.untouched").await, true, "the page was not loaded again");
    let script = "return document.querySelector(\"[data-day='2999.12.24'] .open\").checkVisibility()";
    assert_eq!(browser.script(script).await, false, "it cannot be chosen any more");
    browser.find("[data-day='2999.12.25'] .open").await;
    browser.goto(CALENDAR).await;
    browser.find("[data-day='2999.12.24'] .sold").await;
    browser.close().await;
}

#[tokio::test]
async fn a_guest_who_comes_too_late_is_told_why_and_offered_another_day() {
    let site = Site::open("all");
    let browser = site.browser().await;
    browser.goto(&format!("/booking/new?date={DAY}")).await;
    fill(&browser, "Ada", "ada@example.org", "2").await;
    site.somebody_books(SEATS);
    site.at_rest().await;
    browser.click("button[type=submit]").await;
    browser.see("Your table is not booked").await;
    browser.see("no seats are left on Tuesday 24 December 2999").await;
    browser.click("main a.button").await;
    browser.see("December 2999").await;
    browser.find("[data-day='2999.12.24'] .sold").await;
    browser.close().await;
}

#[tokio::test]
async fn what_is_wrong_stands_beside_its_field_and_what_was_typed_is_kept() {
    let site = Site::open("all");
    let browser = site.browser().await;
    browser.goto(&format!("/booking/new?date={DAY}")).await;
    fill(&browser, "Ada \"<b>\" Lovelace", "ada at example", "99").await;
    browser.click("button[type=submit]").await;
    browser.see("What is wrong stands beside the fields").await;
    for (field, fault) in [("email", "This is not an e-mail address"), ("quantity", "Give a whole number")] {
        // Below its field, above the next, and told to whoever cannot see it.
        let script = format!(
            "const [input, fault] = [document.getElementById('{field}'), document.getElementById('{field}-fault')];
             const [of, at] = [input.getBoundingClientRect(), fault.getBoundingClientRect()];
             return input.getAttribute('aria-invalid') === 'true'
                 && input.getAttribute('aria-describedby').split(' ').includes(fault.id)
                 && fault.textContent.includes('{fault}')
                 && at.top >= of.top && at.top - of.bottom < 60 && at.height > 0",
        );
        assert_eq!(browser.script(&script).await, true, "{field}: {}", browser.text().await);
    }
    assert_eq!(browser.script("return document.getElementById('name-fault')").await, serde_json::Value::Null);
    assert_eq!(browser.value("name").await, "Ada \"<b>\" Lovelace");
    assert_eq!(browser.value("email").await, "ada at example");
    assert_eq!(browser.value("quantity").await, "99");
    browser.fill("email", "ada@example.org").await;
    browser.fill("quantity", "1").await;
    browser.click("button[type=submit]").await;
    browser.see("Your table is booked").await;
    browser.see("Ada \"<b>\" Lovelace").await;
    browser.close().await;
}

#[tokio::test]
async fn a_double_click_on_the_button_is_one_booking() {
    let site = Site::open("all");
    let browser = site.browser().await;
    browser.goto(&format!("/booking/new?date={DAY}")).await;
    fill(&browser, "Ada", "ada@example.org", "1").await;
    browser.double_click("button[type=submit]").await;
    browser.see("Your table is booked").await;
    // So does going back and sending the form again.
    browser.back_to("Ask for the table").await;
    assert_eq!(browser.value("name").await, "Ada", "what was typed is kept");
    browser.click("button[type=submit]").await;
    browser.see("Your table is booked").await;
    let evidence = site.at_rest().await;
    assert_eq!(evidence.count(DAY, "Reserved"), 1);
    assert_eq!(evidence.receipts.len(), 1);
    browser.close().await;
}

#[tokio::test]
async fn a_guest_without_scripts_books_and_sees_the_answer_too() {
    let site = Site::open("web");
    let browser = Browser::without_scripts(site.process.address()).await;
    browser.goto(CALENDAR).await;
    browser.click("[data-day='2999.12.24'] .open").await;
    fill(&browser, "Ada", "ada@example.org", "4").await;
    browser.click("button[type=submit]").await;
    browser.see("Your booking is not final yet").await;
    let script = "return document.querySelectorAll('noscript > meta').length";
    assert_eq!(browser.script(script).await, 1, "this element is one only where scripts are off");
    let others = (site.join("worker"), site.join("projector"));
    browser.see("Your table is booked").await;
    browser.click("main a.button").await;
    browser.find("[data-day='2999.12.24'] .sold").await;
    browser.close().await;
    drop(others);
}

#[tokio::test]
async fn everything_can_be_done_with_the_keyboard_alone_and_the_focus_is_always_seen() {
    let site = Site::open("all");
    let browser = site.browser().await;
    let tab_to = async |css: &str| {
        for _ in 0..60 {
            browser.press(TAB).await;
            let script = format!(
                "const it = document.activeElement, style = getComputedStyle(it), at = it.getBoundingClientRect();
                 const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2
                     && at.width > 0 && at.left >= 0 && at.right <= innerWidth;
                 return [it.matches(`{css}`), seen, it.outerHTML.slice(0, 200)]",
            );
            let found = browser.script(&script).await;
            assert_eq!(found[1], true, "the focus cannot be seen on {}", found[2]);
            if found[0] == true {
                return;
            }
        }
        panic!("the focus never came to {css}");
    };
    browser.goto(CALENDAR).await;
    tab_to("a.skip").await;
    browser.press(ENTER).await;
    tab_to("a[rel=prev]").await;
    tab_to("[data-day='2999.12.24'] .open").await;
    browser.press(ENTER).await;
    browser.see("Tuesday 24 December 2999").await;
    for (field, text) in [("#name", "Ada"), ("#email", "ada@example.org"), ("#quantity", "3")] {
        tab_to(field).await;
        browser.type_keys(text).await;
    }
    browser.press(ENTER).await;
    browser.see("Your table is booked").await;
    for css in ["main summary", "main details button"] {
        tab_to(css).await;
        browser.press(ENTER).await;
    }
    browser.see("Your booking is cancelled").await;
    browser.close().await;
}
