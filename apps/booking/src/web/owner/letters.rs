//! Letters that were set aside, and sending them again.

use super::super::App;
use super::super::fields::Form;
use super::super::trouble::Trouble;
use super::session::Session;
use crate::mailbox::Parked;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Redirect;
use maud::{Markup, html};
use std::io;

/// How many letters that were set aside are shown.
const SHOWN: usize = 50;

/// `POST /booking/owner/letters`: asks for a letter to be sent again.
pub(in super::super) async fn send_again(
    State(app): State<App>,
    headers: HeaderMap,
    Form(fields): Form,
) -> Result<Redirect, Trouble> {
    Session::of_form(&app, &headers, &fields)?;
    let (mailbox, stem) = (app.settings.mailbox.clone(), fields.get("letter").to_owned());
    if !blocking(move || mailbox.ask_again(&stem)).await? {
        let detail = "This letter is not set aside any more.";
        return Err(Trouble::new(StatusCode::NOT_FOUND, "No such letter", detail));
    }
    Ok(Redirect::to("/booking/owner/"))
}

/// The letters that were set aside.
pub(super) async fn parked(app: &App) -> Result<Vec<(String, Parked)>, Trouble> {
    let mailbox = app.settings.mailbox.clone();
    blocking(move || mailbox.parked(SHOWN)).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Trouble> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(io::Error::other).flatten().map_err(|error| {
        tracing::error!(%error, "the mail folder cannot be used");
        let detail = "The mail folder cannot be used at the moment.";
        Trouble::new(StatusCode::SERVICE_UNAVAILABLE, "Not possible at the moment", detail)
    })
}

/// The part of the page about them; nothing, if there are none.
pub(super) fn shown(app: &App, key: &str, parked: &[(String, Parked)]) -> Markup {
    html! {
        @if !parked.is_empty() {
            h2 { "Letters that did not go out" }
            ul class="letters" {
                @for (stem, letter) in parked {
                    li {
                        strong { (letter.to.join(", ")) } ": " (letter.reason) "."
                        span class="hint" { " Written " (app.settings.restaurant.wall_clock(letter.at)) }
                        form method="post" action="/booking/owner/letters" {
                            input type="hidden" name="key" value=(key);
                            input type="hidden" name="letter" value=(stem);
                            button class="button quiet" type="submit" { "Send it again" }
                        }
                    }
                }
            }
        }
    }
}
