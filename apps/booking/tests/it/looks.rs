//! How the pages look: on narrow and wide screens, in light and in dark. Leaves pictures of them among the build's
//! files.

use crate::browser::{CALENDAR, DAY, SEATS, Site, fill};
use crate::chromium::Browser;
use serde_json::json;

/// Finds text that stands out too little from what is behind it: below 4.5 to 1, or 3 to 1 for large text.
const FAINT: &str = r#"
const parts = text => text.match(/[\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const behind = element => {
    for (let it = element; it; it = it.parentElement) {
        const colour = parts(getComputedStyle(it).backgroundColor);
        if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return matchMedia('(prefers-color-scheme: dark)').matches ? [0, 0, 0] : [255, 255, 255];
};
const faint = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let seen = 0;
while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, style = getComputedStyle(element);
    if (!walker.currentNode.data.trim() || !element.checkVisibility() || style.clipPath !== 'none') continue;
    seen += 1;
    const [front, back] = [light(parts(style.color)), light(behind(element))];
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) faint.push(`${walker.currentNode.data.trim()}: ${ratio.toFixed(2)}`);
}
return { seen, faint };
"#;

/// Finds what sticks out of the window, and what is too small to be touched (WCAG 2.2, 2.5.8: 24 CSS pixels; links
/// within a sentence are exempt).
const AWKWARD: &str = r#"
const found = [], page = document.documentElement;
if (page.scrollWidth > innerWidth) found.push(`the page is ${page.scrollWidth} wide`);
for (const element of document.querySelectorAll('body *')) {
    if (!element.checkVisibility() || element.closest('.skip, .words')) continue;
    const at = element.getBoundingClientRect();
    if (at.width && (at.left < -0.5 || at.right > innerWidth + 0.5)) found.push(`sticks out: ${element.outerHTML.slice(0, 120)}`);
    const used = element.matches('button, input:not([type=hidden]), a');
    if (used && !element.matches('p a') && Math.min(at.width, at.height) < 24) {
        found.push(`${at.width}x${at.height} is too small: ${element.outerHTML.slice(0, 120)}`);
    }
    const hidden = element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).display !== 'inline';
    if (hidden && element.clientWidth > 1 && !element.matches('input')) found.push(`its content does not fit: ${element.outerHTML.slice(0, 120)}`);
}
if (parseFloat(getComputedStyle(document.body).fontSize) < 16) found.push('the text is small');
return found;
"#;

async fn look_at(browser: &Browser, name: &str) {
    for scheme in ["light", "dark"] {
        browser.prefer(scheme).await;
        let found = browser.script(FAINT).await;
        assert!(found["seen"].as_u64() > Some(4), "{name} shows some text: {found}");
        assert_eq!(found["faint"], json!([]), "{name}, {scheme}");
        for width in [360, 1280] {
            browser.picture(&format!("{name}-{scheme}"), width).await;
        }
    }
    for width in [320, 360, 768, 1280, 1920] {
        browser.resize(width, 800).await;
        assert_eq!(browser.script(AWKWARD).await, json!([]), "{name} at {width} pixels");
    }
}

#[tokio::test]
async fn every_page_can_be_read_on_narrow_and_wide_screens_in_light_and_in_dark() {
    let site = Site::open("web");
    let others = (site.join("worker"), site.join("projector"));
    let accepted = site.somebody_books(1);
    site.at_rest().await;
    let cancelled = site.somebody_books(SEATS - 1);
    site.at_rest().await;
    let rejected = site.somebody_books(1);
    site.at_rest().await;
    let browser = site.browser().await;
    let new = format!("/booking/new?date={DAY}");
    let receipt = |id| format!("/booking/receipts/{id}");

    browser.goto("/booking/").await;
    look_at(&browser, "calendar-of-today").await;
    browser.goto(CALENDAR).await;
    look_at(&browser, "calendar").await;
    browser.goto("/booking/new?date=2999-12-25").await;
    look_at(&browser, "form").await;
    browser.goto(&new).await;
    browser.see("this day is sold out").await;
    fill(&browser, &"Wolfeschlegelsteinhausen".repeat(4), "not an address", "none").await;
    browser.click("button[type=submit]").await;
    browser.see("What is wrong stands beside the fields").await;
    look_at(&browser, "form-with-faults").await;
    for (name, id, text) in [
        ("accepted", accepted, "Your table is booked"),
        ("rejected", rejected, "Your table is not booked"),
        ("to-be-cancelled", cancelled, "Your table is booked"),
    ] {
        browser.goto(&receipt(id)).await;
        browser.see(text).await;
        look_at(&browser, name).await;
    }
    browser.click("main summary").await;
    look_at(&browser, "cancelling").await;
    browser.click("main details button").await;
    browser.see("Your booking is cancelled").await;
    look_at(&browser, "cancelled").await;
    browser.goto("/booking/new?date=2999-12-25").await;
    fill(&browser, &"Wolfeschlegelsteinhausen".repeat(4), &format!("{}@example.org", "ada".repeat(20)), "1")
        .await;
    browser.click("button[type=submit]").await;
    browser.see("Your table is booked").await;
    look_at(&browser, "long-name").await;
    site.at_rest().await;
    browser.goto("/booking/mails").await;
    browser.see("Not booked: ").await;
    look_at(&browser, "mails").await;
    browser.click(".letters li:first-child a").await;
    browser.see("Dear Wolfe").await;
    look_at(&browser, "letter").await;
    let link = "return document.querySelector('.letter').textContent.match(/\\/booking\\/cancel\\/\\S+/)[0]";
    let link = browser.script(link).await;
    browser.goto(link.as_str().unwrap()).await;
    browser.see("Cancel your booking?").await;
    look_at(&browser, "cancel-link").await;
    browser.goto("/booking/nowhere").await;
    look_at(&browser, "missing").await;
    browser.goto("/booking/owner/").await;
    look_at(&browser, "owner-closed").await;
    browser.fill("password", crate::site::PASSWORD).await;
    browser.click("main button").await;
    browser.see("Nobody has booked").await;
    browser.goto("/booking/owner/?day=2999-12-25").await;
    browser.see("1 of 4 seats").await;
    look_at(&browser, "owner").await;
    browser.script("document.querySelectorAll('details').forEach(it => it.open = true)").await;
    look_at(&browser, "owner-forms").await;
    others.0.stop();
    let pending = site.somebody_books(1);
    browser.goto(&receipt(pending)).await;
    browser.see("Your booking is not final yet").await;
    look_at(&browser, "pending").await;
    browser.close().await;
    drop(others.1);
}
