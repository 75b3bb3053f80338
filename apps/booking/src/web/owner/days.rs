//! Changing days: how many seats they have, and whether they take bookings.

use super::super::App;
use super::super::fields::{Fields, Form};
use super::super::trouble::Trouble;
use super::session::Session;
use crate::capacity::{Capacity, CapacityCommand, REASON_CHARS};
use crate::day::Day;
use crate::restaurant::Restaurant;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Redirect;
use highwater::CommandId;
use std::time::Duration;
use uuid::Uuid;

/// The most days that one form changes: each is a command of its own.
const MOST_DAYS: usize = 366;

/// How long the answer waits for the changes, so that the page shows them at once. Later ones show when it is loaded
/// again.
const PATIENCE: Duration = Duration::from_secs(1);

/// `POST /booking/owner/days`: sends one command for each day.
pub(in super::super) async fn change_days(
    State(app): State<App>,
    headers: HeaderMap,
    Form(fields): Form,
) -> Result<Redirect, Trouble> {
    Session::of_form(&app, &headers, &fields)?;
    let id: CommandId =
        fields.get("id").parse().map_err(|_| unclear("The form's own number (field “id”) is missing."))?;
    let (days, command) = (days(&app, &fields)?, command(&fields)?);
    let mut last = None;
    for day in &days {
        // Sent again, the form changes nothing a second time.
        let id = CommandId(Uuid::new_v5(&id.0, day.to_string().as_bytes()));
        app.engine.send::<Capacity>(day.to_string(), command.clone()).id(id).await?;
        last = Some(id);
    }
    if let Some(id) = last {
        app.engine.outcome(id).wait(PATIENCE).await?;
    }
    let first = days.first().map_or_else(String::new, Day::to_string);
    Ok(Redirect::to(&format!("/booking/owner/?day={first}")))
}

fn unclear(detail: impl Into<String>) -> Trouble {
    Trouble::new(StatusCode::UNPROCESSABLE_ENTITY, "This cannot be done", detail)
}

fn days(app: &App, fields: &Fields) -> Result<Vec<Day>, Trouble> {
    let day = |name: &str| {
        let day = Day::parse(fields.get(name).trim());
        day.ok_or_else(|| unclear("Give days that exist, as year-month-day, like 2026-12-24."))
    };
    let first = day("from")?;
    let last = if fields.get("until").trim().is_empty() { first } else { day("until")? };
    if first < app.today() {
        return Err(unclear(format!("{} has passed.", first.words())));
    }
    let days: Vec<Day> = std::iter::successors(Some(first), |day| day.next())
        .take_while(|day| *day <= last)
        .take(MOST_DAYS + 1)
        .collect();
    match days.len() {
        0 => Err(unclear("The last day is before the first.")),
        1..=MOST_DAYS => Ok(days),
        _ => Err(unclear(format!("At most {MOST_DAYS} days can be changed at once."))),
    }
}

fn command(fields: &Fields) -> Result<CapacityCommand, Trouble> {
    match fields.get("change") {
        "seats" => {
            let most = *Restaurant::SEATS.end();
            let seats = fields.get("seats").trim();
            if seats.is_empty() {
                return Ok(CapacityCommand::SetSeats { seats: None });
            }
            let seats = seats.parse().ok().filter(|seats| *seats <= most);
            let seats = seats.ok_or_else(|| {
                unclear(format!(
                    "Give a whole number of seats from 0 to {most}, or nothing for as many as usual."
                ))
            })?;
            Ok(CapacityCommand::SetSeats { seats: Some(seats) })
        }
        "close" => {
            let reason = fields.get("reason").trim().to_owned();
            if reason.chars().count() > REASON_CHARS || reason.chars().any(char::is_control) {
                let wanted = format!("A reason has {REASON_CHARS} characters at most, and no line breaks.");
                return Err(unclear(wanted));
            }
            Ok(CapacityCommand::Close { reason })
        }
        "open" => Ok(CapacityCommand::Open),
        _ => Err(unclear("Say what shall change: seats, close or open.")),
    }
}
