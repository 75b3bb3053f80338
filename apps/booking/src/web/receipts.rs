//! What became of a booking: a page for people and a JSON document for the page's script.

use super::App;
use super::calendar;
use super::fields::Address;
use super::layout::{Page, page};
use super::trouble::{Problem, Trouble};
use crate::day::Day;
use crate::receipt::{Booking, ReceiptView, cancellation};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use highwater::{CommandId, Outcome, OutcomeError};
use maud::{Markup, html};
use serde_json::{Value, json};

/// How often a page that waits is loaded again where scripts do not run, in seconds.
const REFRESH: u32 = 2;

/// `GET /booking/receipts/{id}` and `GET /booking/receipts/{id}.json`.
pub(super) async fn show(State(app): State<App>, Address(receipt): Address<String>) -> Response {
    match receipt.strip_suffix(".json") {
        Some(id) => document(&app, id).await.into_response(),
        None => show_page(&app, &receipt).await.into_response(),
    }
}

/// The id in a receipt's address.
pub(super) fn id_of(text: &str) -> Result<CommandId, Trouble> {
    let unknown =
        || Trouble::new(StatusCode::NOT_FOUND, "No such receipt", "This is not the number of a receipt.");
    text.parse().map_err(|_| unknown())
}

async fn document(app: &App, id: &str) -> Result<Json<Value>, Problem> {
    let id = id_of(id)?;
    let (status, reason, token) = match app.engine.outcome(id).await? {
        Outcome::Accepted { token } => ("accepted", None, Some(token)),
        Outcome::Rejected { reason, token } => ("rejected", Some(reason), Some(token)),
        // Why is for the owner to know: it is about the inside.
        Outcome::Parked { .. } => ("parked", None, None),
        Outcome::Discarded | Outcome::Cancelled => ("discarded", None, None),
        _ => ("pending", None, None),
    };
    let booking = app.engine.view::<ReceiptView>().get(id.to_string()).await?.document;
    let day = booking.map(|booking| booking.day);
    Ok(Json(json!({ "status": status, "reason": reason, "token": token, "day": day })))
}

/// What a receipt says of a decided booking, if its view has come that far. It waits for the outcome that this request
/// has seen: the session knows it.
pub(super) async fn booking(app: &App, id: CommandId) -> Result<Option<Booking>, Trouble> {
    Ok(app.engine.view::<ReceiptView>().get(id.to_string()).await?.document)
}

async fn show_page(app: &App, id: &str) -> Result<Response, Trouble> {
    let id = id_of(id)?;
    let outcome = app.engine.outcome(id).await?;
    let waiting = |body: &Markup| waiting_page("Your booking is not final yet", id, "status", body);
    let response = match outcome {
        Outcome::Rejected { reason, .. } => {
            let booking = booking(app, id).await?;
            decided("Your table is not booked", &rejected(&reason, booking.as_ref()))
        }
        Outcome::Parked { .. } => waiting_page("We are looking at your booking", id, "answer", &parked(id)),
        Outcome::Discarded | Outcome::Cancelled => decided("Your table is not booked", &discarded()),
        Outcome::Accepted { .. } => accepted_page(app, id).await?,
        _ => waiting(&html! {
            h1 { "Your booking is not final yet" }
            p role="status" {
                "It has arrived and is being looked at. The answer comes by mail; see Mail above."
            }
            p class="hint" { "This page updates itself as soon as the answer is known." }
        }),
    };
    Ok(response)
}

async fn accepted_page(app: &App, id: CommandId) -> Result<Response, Trouble> {
    let Some(booking) = booking(app, id).await? else {
        let body = html! {
            h1 { "Accepted" }
            p role="status" { "What you asked for is done. A letter with the details is on its way." }
            p class="hint" { "The details appear here as soon as they are known." }
            p { a class="button" href="/booking/" { "Back to the calendar" } }
        };
        return Ok(waiting_page("Accepted", id, "day", &body));
    };
    let cancel = cancellation(id);
    let asked = match app.engine.outcome(cancel).await {
        Ok(outcome) => Some(outcome),
        Err(OutcomeError::Unknown { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let body = |heading: &str, text: Markup| {
        html! {
            h1 { (heading) }
            (details(&booking))
            (text)
            p { a class="button" href=(calendar_link(&booking)) { "Back to the calendar" } }
        }
    };
    // Asked once more, with or without scripts: the seats may be gone a moment later.
    let button = html! {
        details {
            summary class="button quiet" { "Cancel this booking" }
            form method="post" action={ "/booking/receipts/" (id) "/cancel" } {
                input type="hidden" name="id" value=(cancel);
                p { "Others can have the seats then, and you may not get them back." }
                button class="button" type="submit" { "Yes, cancel it" }
            }
        }
    };
    let confirmed = "Your table is booked";
    Ok(match asked {
        None => {
            let text = html! { p role="status" { "A confirmation is on its way by mail." } (button) };
            decided(confirmed, &body(confirmed, text))
        }
        // Another command may have taken the number of the cancellation: only the booking itself knows.
        Some(Outcome::Accepted { .. })
            if !self::booking(app, id).await?.is_some_and(|booking| booking.cancelled) =>
        {
            let text = html! {
                p class="notice" role="status" {
                    "It was not cancelled: the number of the cancellation was used for something else. "
                    "Please call the restaurant. It is still booked."
                }
            };
            decided(confirmed, &body(confirmed, text))
        }
        Some(Outcome::Accepted { .. }) => {
            let heading = "Your booking is cancelled";
            let text = html! { p role="status" { "Others can have the seats. A confirmation is on its way by mail." } };
            decided(heading, &body(heading, text))
        }
        Some(Outcome::Rejected { reason, .. }) => {
            let text =
                html! { p class="notice" role="status" { "It could not be cancelled: " (reason) "." } };
            decided(confirmed, &body(confirmed, text))
        }
        Some(Outcome::Parked { .. }) => {
            let text = html! {
                p class="notice" role="status" {
                    "Cancelling it takes longer than usual: somebody at the restaurant is looking at it. You get a \
                     letter when it is done. Until then it is booked."
                }
            };
            decided(confirmed, &body(confirmed, text))
        }
        Some(_) => {
            let heading = "Your booking is being cancelled";
            let text = html! { p role="status" { "This is not final yet. This page updates itself." } };
            waiting_page(heading, cancel, "status", &body(heading, text))
        }
    })
}

/// The calendar of the booked month.
fn calendar_link(booking: &Booking) -> String {
    Day::parse(&booking.day).map_or_else(|| "/booking/".into(), |day| calendar::link(day.month()))
}

pub(super) fn details(booking: &Booking) -> Markup {
    let day = Day::parse(&booking.day).map_or_else(|| booking.day.clone(), Day::words);
    html! {
        dl {
            div { dt { "Day" } dd { (day) } }
            div { dt { "People" } dd { (booking.quantity) } }
            div { dt { "Name" } dd { (booking.name) } }
        }
    }
}

fn rejected(reason: &str, booking: Option<&Booking>) -> Markup {
    let month = booking.and_then(|booking| Day::parse(&booking.day)).map(Day::month);
    html! {
        h1 { "Your table is not booked" }
        p class="notice" role="status" { "We are sorry: " (reason) "." }
        @if let Some(booking) = booking { (details(booking)) }
        p {
            a class="button" href=(month.map_or_else(|| "/booking/".into(), calendar::link)) { "Choose another day" }
        }
    }
}

fn parked(id: CommandId) -> Markup {
    html! {
        h1 { "We are looking at your booking" }
        p class="notice" role="status" {
            "Your booking has arrived, but it could not be answered by itself. Somebody at the restaurant is looking at \
             it, and you get a letter with the answer. Nothing is booked yet."
        }
        p { "If you call us, please give this number:" }
        p class="reference" { (id) }
    }
}

fn discarded() -> Markup {
    html! {
        h1 { "Your table is not booked" }
        p class="notice" role="status" {
            "Somebody at the restaurant has put your booking aside for good, without an answer. Please book again, or              call us."
        }
        p { a class="button" href="/booking/" { "Back to the calendar" } }
    }
}

pub(super) fn decided(title: &str, body: &Markup) -> Response {
    page(Page { title, ..Page::default() }, body).into_response()
}

/// A page that loads itself again when this much of the command's receipt is known: a `status` that is not pending, the
/// `answer` even of a parked one, or the `day`.
pub(super) fn waiting_page(title: &str, id: CommandId, until: &str, body: &Markup) -> Response {
    let body = html! {
        div data-poll={ "/booking/receipts/" (id) ".json" } data-until=(until) { (body) }
    };
    page(Page { title, script: Some("receipt.js"), refresh: Some(REFRESH) }, &body).into_response()
}
