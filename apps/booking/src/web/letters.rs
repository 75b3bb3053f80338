//! The letters that were written, as a mail program would show them.

use super::App;
use super::fields::Address;
use super::layout::{Page, page};
use super::trouble::Trouble;
use crate::mailbox::{Entry, Mailbox};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Html;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use highwater::Timestamp;
use maud::html;
use std::io;
use std::time::SystemTime;

/// How many letters the list shows.
const SHOWN: usize = 100;

/// The headers of a letter that are shown.
const HEADERS: [&str; 5] = ["From", "To", "Subject", "Date", "Message-ID"];

/// `GET /booking/mails`: the newest letters.
pub(super) async fn list(State(app): State<App>) -> Result<Html<String>, Trouble> {
    open(&app)?;
    let letters = blocking(&app, |mailbox| {
        let entries = mailbox.newest(SHOWN)?;
        let titled = |entry: Entry| {
            let text = mailbox.read(&entry.name)?.unwrap_or_default();
            let subject = Letter::parse(&text).header("Subject").unwrap_or(entry.name.clone());
            Ok((entry, subject))
        };
        entries.into_iter().map(titled).collect::<io::Result<Vec<_>>>()
    })
    .await?;
    let body = html! {
        h1 { "Mail" }
        p { "The letters that guests were sent, newest first. Nothing leaves this machine: they are files in the data folder." }
        @if letters.is_empty() {
            p class="notice" { "No letters yet." }
        } @else {
            ul class="letters" {
                @for (entry, subject) in &letters {
                    li {
                        a href={ "/booking/mails/" (entry.name) } { (subject) }
                        span class="hint" { (app.settings.restaurant.wall_clock(timestamp(entry.at))) }
                    }
                }
            }
            @if letters.len() == SHOWN {
                p class="hint" { "Older letters are in the folder only." }
            }
        }
    };
    Ok(page(Page { title: "Mail", ..Page::default() }, &body))
}

/// `GET /booking/mails/{name}`: one letter.
pub(super) async fn show(
    State(app): State<App>,
    Address(name): Address<String>,
) -> Result<Html<String>, Trouble> {
    open(&app)?;
    let text = blocking(&app, move |mailbox| mailbox.read(&name)).await?;
    let unknown =
        || Trouble::new(StatusCode::NOT_FOUND, "No such letter", "There is no letter of this name.");
    let text = text.ok_or_else(unknown)?;
    let letter = Letter::parse(&text);
    let subject = letter.header("Subject").unwrap_or_default();
    let body = html! {
        h1 { (subject) }
        dl {
            @for name in HEADERS {
                @if let Some(value) = letter.header(name) {
                    div { dt { (name) } dd { (shown(&app, name, value)) } }
                }
            }
        }
        pre class="letter" { (letter.text) }
        p { a href="/booking/mails" { "All letters" } }
    };
    Ok(page(Page { title: &subject, ..Page::default() }, &body))
}

/// Letters that really go out are for their readers alone.
fn open(app: &App) -> Result<(), Trouble> {
    if app.settings.smtp.is_none() {
        return Ok(());
    }
    let detail = "Letters go out by mail here, and are for their readers alone.";
    Err(Trouble::new(StatusCode::FORBIDDEN, "Letters are not shown", detail))
}

/// A header as the page shows it: the date by the restaurant's clock, as in the list of letters.
fn shown(app: &App, name: &str, value: String) -> String {
    let date = if name == "Date" { jiff::fmt::rfc2822::parse(&value).ok() } else { None };
    date.map_or(value, |date| {
        let at = date.timestamp().as_microsecond();
        app.settings.restaurant.wall_clock(Timestamp::from_micros(at))
    })
}

async fn blocking<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Mailbox) -> io::Result<T> + Send + 'static,
) -> Result<T, Trouble> {
    let mailbox = app.settings.mailbox.clone();
    let done = tokio::task::spawn_blocking(move || work(&mailbox)).await;
    done.map_err(io::Error::other).flatten().map_err(|error| {
        tracing::error!(%error, "the mail folder cannot be read");
        let detail = "The mail folder cannot be read at the moment.";
        Trouble::new(StatusCode::SERVICE_UNAVAILABLE, "Not possible at the moment", detail)
    })
}

fn timestamp(at: SystemTime) -> Timestamp {
    Timestamp::from_micros(0).plus(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

/// A letter cut at its empty line. Knows just as much of mail as our own letters need.
struct Letter<'a> {
    head: &'a str,
    text: &'a str,
}

impl<'a> Letter<'a> {
    fn parse(letter: &'a str) -> Self {
        let (head, text) = letter.split_once("\r\n\r\n").unwrap_or((letter, ""));
        Self { head, text }
    }

    /// A header with its folded lines joined.
    fn header(&self, name: &str) -> Option<String> {
        let mut lines = self.head.split("\r\n").skip_while(|line| {
            !line.split_once(':').is_some_and(|(found, _)| found.eq_ignore_ascii_case(name))
        });
        let (_, value) = lines.next()?.split_once(':')?;
        let mut value = value.trim().to_owned();
        for folded in lines.take_while(|line| line.starts_with([' ', '\t'])) {
            value.push(' ');
            value.push_str(folded.trim());
        }
        Some(words(&value))
    }
}

/// Text with its encoded words decoded (RFC 2047), as far as our own letters have any: UTF-8 in base64.
fn words(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut after_encoded = false;
    for word in text.split(' ') {
        let inside = word.strip_prefix("=?utf-8?b?").and_then(|word| word.strip_suffix("?="));
        let inside = inside.and_then(|inside| BASE64_STANDARD.decode(inside).ok());
        let inside = inside.and_then(|bytes| String::from_utf8(bytes).ok());
        // The space between two encoded words is not part of the text.
        let joined = after_encoded && inside.is_some();
        after_encoded = inside.is_some();
        if !decoded.is_empty() && !joined {
            decoded.push(' ');
        }
        decoded.push_str(inside.as_deref().unwrap_or(word));
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folded_header_with_encoded_words_is_read_as_it_was_meant() {
        let letter =
            "To: =?utf-8?b?w5xt?=\r\n =?utf-8?b?bGF1dA==?= <u@example.org>\r\nSubject: a\r\n\r\ntext: b";
        let letter = Letter::parse(letter);
        assert_eq!(letter.header("to").as_deref(), Some("Ümlaut <u@example.org>"));
        assert_eq!((letter.header("Subject").as_deref(), letter.header("text")), (Some("a"), None));
        assert_eq!(letter.text, "text: b");
        assert_eq!(words("=?utf-8?b?%?= plain =?"), "=?utf-8?b?%?= plain =?");
    }
}
