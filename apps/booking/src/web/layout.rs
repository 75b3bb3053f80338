//! The frame around every page.

use axum::response::Html;
use maud::{DOCTYPE, Markup, html};

/// What a page's frame needs to know.
#[derive(Debug, Clone, Copy, Default)]
pub struct Page<'a> {
    /// What the page is about, for the window's title.
    pub title: &'a str,
    /// A script of `/booking/assets/` to run.
    pub script: Option<&'a str>,
    /// Without scripts: load the page again after this many seconds.
    pub refresh: Option<u32>,
}

/// A whole page.
pub fn page(page: Page<'_>, body: &Markup) -> Html<String> {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (page.title) " – The Highwater Table" }
                link rel="icon" href="/booking/assets/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/booking/assets/booking.css";
                @if let Some(script) = page.script {
                    script src={ "/booking/assets/" (script) } defer {}
                }
                @if let Some(seconds) = page.refresh {
                    noscript { meta http-equiv="refresh" content=(seconds); }
                }
            }
            body {
                a class="skip" href="#content" { "Skip to the content" }
                header {
                    div class="bar" {
                        // What is at `/` is for the program that serves these pages to say.
                        a class="brand" href="/" { "The Highwater Table" }
                        nav aria-label="Site" {
                            a href="/booking/" { "Calendar" }
                            a href="/booking/mails" { "Mail" }
                        }
                    }
                }
                main id="content" { (body) }
            }
        }
    };
    Html(markup.into_string())
}
