//! Giving a table back: from the receipt, or by the link in the letter.

use super::App;
use super::fields::{Address, Form};
use super::receipts::{booking, decided, details, id_of, waiting_page};
use super::trouble::Trouble;
use crate::capacity::{Capacity, CapacityCommand};
use crate::receipt::{Booking, cancellation};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use highwater::{CommandId, Outcome, OutcomeError};
use maud::html;

/// `POST /booking/receipts/{id}/cancel`: sends the command; the receipt tells what became of it.
pub(super) async fn submit(
    State(app): State<App>,
    Address(receipt): Address<String>,
    Form(fields): Form,
) -> Result<Redirect, Trouble> {
    let reservation = id_of(&receipt)?;
    let id = cancellation(reservation);
    let detail = match fields.get("id").parse::<CommandId>() {
        Ok(sent) if sent == id => None,
        Ok(_) => {
            Some("The form's own number (field “id”) belongs to another booking. Open the receipt again.")
        }
        Err(_) => Some("The form's own number (field “id”) is missing or damaged. Open the receipt again."),
    };
    if let Some(detail) = detail {
        return Err(Trouble::bad_request(detail));
    }
    let booking = accepted(&app, reservation).await?;
    send(&app, reservation, &booking).await?;
    Ok(Redirect::to(&format!("/booking/receipts/{reservation}")))
}

/// A booking that was accepted, whatever became of it later.
async fn accepted(app: &App, reservation: CommandId) -> Result<Booking, Trouble> {
    let nothing = |detail| Trouble::new(StatusCode::CONFLICT, "Nothing to cancel", detail);
    if !matches!(app.engine.outcome(reservation).await?, Outcome::Accepted { .. }) {
        return Err(nothing("Only a booking that was accepted can be cancelled."));
    }
    let booking = booking(app, reservation).await?;
    booking.ok_or_else(|| nothing("The booking is not known here yet. Try again in a moment."))
}

async fn send(app: &App, reservation: CommandId, booking: &Booking) -> Result<(), Trouble> {
    let cancel = CapacityCommand::Cancel { reservation };
    app.engine.send::<Capacity>(&booking.day, cancel).id(cancellation(reservation)).await?;
    Ok(())
}

/// The reservation that the link in a letter is about, if the link is ours.
fn proven(app: &App, reservation: &str, signature: &str) -> Result<CommandId, Trouble> {
    let reservation = reservation.parse().ok().filter(|id| app.settings.links.proves(*id, signature));
    reservation.ok_or_else(|| {
        let detail = "This is not a link of our letters, or not the whole of it: some mail programs break long lines. \
            Copy it whole into the address bar, or call us.";
        Trouble::new(StatusCode::FORBIDDEN, "This link is not valid", detail)
    })
}

/// `GET /booking/cancel/{reservation}/{signature}`, the link in the letter: asks, and changes nothing, since programs
/// that look through mail follow links too.
pub(super) async fn show_link(
    State(app): State<App>,
    Address((reservation, signature)): Address<(String, String)>,
) -> Result<Response, Trouble> {
    let id = proven(&app, &reservation, &signature)?;
    let asked = match app.engine.outcome(cancellation(id)).await {
        Ok(outcome) => Some(outcome),
        Err(OutcomeError::Unknown { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let booking = accepted(&app, id).await?;
    if booking.cancelled {
        return Ok(cancelled_already(&booking));
    }
    let heading = match asked {
        Some(Outcome::Pending) => {
            let heading = "Your booking is being cancelled";
            let body = html! { h1 { (heading) } (details(&booking)) p role="status" { "This page updates itself." } };
            return Ok(waiting_page(heading, cancellation(id), "status", &body));
        }
        // The receipt knows what to say.
        Some(_) => return Ok(Redirect::to(&format!("/booking/receipts/{id}")).into_response()),
        None => "Cancel your booking?",
    };
    let body = html! {
        h1 { (heading) }
        (details(&booking))
        form method="post" action=(app.settings.links.cancel_path(id)) {
            p { "Others can have the seats then, and you may not get them back." }
            button class="button" type="submit" { "Yes, cancel it" }
            " "
            a class="button quiet" href={ "/booking/receipts/" (id) } { "No, keep it" }
        }
    };
    Ok(decided(heading, &body))
}

fn cancelled_already(booking: &Booking) -> Response {
    let heading = "This booking is cancelled already";
    let body = html! {
        h1 { (heading) }
        (details(booking))
        p role="status" { "There is nothing left to do. Others can have the seats." }
        p { a class="button" href="/booking/" { "To the calendar" } }
    };
    decided(heading, &body)
}

/// `POST` to the link in the letter: sends the command; the receipt tells what became of it.
pub(super) async fn submit_link(
    State(app): State<App>,
    Address((reservation, signature)): Address<(String, String)>,
    _: Form,
) -> Result<Response, Trouble> {
    let id = proven(&app, &reservation, &signature)?;
    let booking = accepted(&app, id).await?;
    if booking.cancelled {
        return Ok(cancelled_already(&booking));
    }
    send(&app, id, &booking).await?;
    Ok(Redirect::to(&format!("/booking/receipts/{id}")).into_response())
}
