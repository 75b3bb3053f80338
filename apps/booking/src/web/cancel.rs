//! Giving a table back.

use super::App;
use super::fields::Form;
use super::receipts::{booking, id_of};
use super::trouble::Trouble;
use crate::capacity::{Capacity, CapacityCommand};
use crate::receipt::cancellation;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Redirect;
use highwater::{CommandId, Outcome};

/// `POST /booking/receipts/{id}/cancel`: sends the command; the receipt tells what became of it.
pub(super) async fn submit(
    State(app): State<App>,
    Path(receipt): Path<String>,
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
    let nothing = |detail| Trouble::new(StatusCode::CONFLICT, "Nothing to cancel", detail);
    let Outcome::Accepted { token } = app.engine.outcome(reservation).await? else {
        return Err(nothing("Only a booking that was accepted can be cancelled."));
    };
    let Some(booking) = booking(&app, reservation, &token).await? else {
        return Err(nothing("The booking is not known here yet. Try again in a moment."));
    };
    app.engine.send::<Capacity>(&booking.day, CapacityCommand::Cancel { reservation }).id(id).await?;
    Ok(Redirect::to(&format!("/booking/receipts/{reservation}")))
}
