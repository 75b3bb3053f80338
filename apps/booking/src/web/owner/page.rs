//! The day sheet and the forms that change days.

use super::super::App;
use super::super::fields::Fields;
use super::super::layout::{Page, page};
use super::super::trouble::Trouble;
use super::letters;
use super::session::{Session, closed};
use crate::day::Day;
use crate::sheet::{Sheet, SheetView};
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use highwater::contract::GetError;
use highwater::{CommandId, Name, Parked};
use maud::{Markup, html};

/// How many bookings that were set aside are shown.
const SHOWN: usize = 50;

/// `GET /booking/owner/?day=2026-12-24`: the sheet of a day, today's unless the query names another.
pub(in super::super) async fn show(
    State(app): State<App>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Trouble> {
    let Some(session) = Session::of(&app, &headers) else { return Ok(closed(&app, None)) };
    let fields = Fields::parse(query.as_deref().unwrap_or_default())?;
    let day = match fields.optional("day").map(str::trim).filter(|day| !day.is_empty()) {
        None => app.today(),
        Some(day) => Day::parse(day)
            .ok_or_else(|| Trouble::bad_request("A day that exists is needed: ?day=2026-12-24"))?,
    };
    let sheet = app.engine.view::<SheetView>().get(day.to_string()).await?.document.unwrap_or_default();
    let (parked, unsent) = (parked(&app).await?, letters::parked(&app).await?);
    let key = session.form_key(&app);
    let title = format!("Day sheet, {}", day.words());
    let body = html! {
        (sheet_of(&app, day, &sheet))
        div class="screen" {
            form method="get" action="/booking/owner/" class="line" {
                (date("day", "Show the sheet of", day))
                button class="button quiet" type="submit" { "Show" }
            }
            (set_aside(&app, &parked))
            (letters::shown(&app, &key, &unsent))
            (changes(&app, &key, day))
            form method="post" action="/booking/owner/logout" {
                input type="hidden" name="key" value=(key);
                button class="button quiet" type="submit" { "Log out" }
            }
        }
    };
    Ok(page(Page { title: &title, ..Page::default() }, &body).into_response())
}

fn sheet_of(app: &App, day: Day, sheet: &Sheet) -> Markup {
    let seats = sheet.seats.unwrap_or(app.settings.restaurant.seats_per_day());
    let mut parties: Vec<_> = sheet.parties.values().collect();
    parties.sort_by(|one, other| {
        (one.name.to_lowercase(), one.booked).cmp(&(other.name.to_lowercase(), other.booked))
    });
    html! {
        h1 { (day.words()) }
        p {
            strong { (sheet.taken()) " of " (seats) " seats" } " are taken by " (sheet.parties.len())
            @if sheet.parties.len() == 1 { " party." } @else { " parties." }
        }
        @if let Some(why) = &sheet.closed {
            p class="notice" { "No more bookings are taken for this day" @if !why.is_empty() { ": " (why) } "." }
        }
        @if sheet.taken() > seats {
            p class="notice" {
                "More seats are taken than there are: they were booked before the number was lowered. Who has seats keeps \
                 them; talk to them if they cannot stay."
            }
        }
        @if parties.is_empty() {
            p { "Nobody has booked." }
        } @else {
            table class="parties" {
                thead { tr { th scope="col" { "Name" } th scope="col" { "Seats" } th scope="col" { "Booked" } } }
                tbody {
                    @for party in parties {
                        tr {
                            td { (party.name) }
                            td class="number" { (party.quantity) }
                            td { (app.settings.restaurant.wall_clock(party.booked)) }
                        }
                    }
                }
                tfoot { tr { th scope="row" { "All" } td class="number" { (sheet.taken()) } td {} } }
            }
        }
    }
}

/// Commands that could not be decided, the first ones.
async fn parked(app: &App) -> Result<Vec<Parked>, Trouble> {
    let failing = |error: &dyn std::fmt::Display| Trouble::store_failing(error);
    let status = app.engine.status().await.map_err(|error| failing(&error))?;
    let queue = Name::new(status.worker.queue).map_err(|error| failing(&error))?;
    let parked = app.engine.backend().queue.parked(&queue, None, SHOWN).await;
    parked.map_err(|error: GetError| failing(&error))
}

fn set_aside(app: &App, parked: &[Parked]) -> Markup {
    html! {
        h2 { "Set aside" }
        @if parked.is_empty() {
            p { "Everything that was asked for could be answered." }
        } @else {
            p { "These could not be answered by themselves. Their guests were told that you are looking at them." }
            ul class="letters" {
                @for one in parked {
                    li {
                        a href={ "/booking/receipts/" (CommandId(one.message.id.0)) } { (CommandId(one.message.id.0)) }
                        " " (one.parking.reason)
                        @if !one.parking.error.is_empty() && one.parking.error != one.parking.reason {
                            " (" (one.parking.error) ")"
                        }
                        span class="hint" { " since " (app.settings.restaurant.wall_clock(one.at)) }
                    }
                }
            }
            @if parked.len() == SHOWN { p class="hint" { "There may be more." } }
        }
    }
}

fn changes(app: &App, key: &str, day: Day) -> Markup {
    let usual = app.settings.restaurant.seats_per_day();
    let day = day.max(app.today());
    let frame = |change: &str, fields: Markup, button: &str| {
        html! {
            form method="post" action="/booking/owner/days" class="sheet" {
                input type="hidden" name="key" value=(key);
                input type="hidden" name="id" value=(CommandId::random());
                input type="hidden" name="change" value=(change);
                (days(change, day))
                (fields)
                button class="button" type="submit" { (button) }
            }
        }
    };
    html! {
        h2 { "Change days" }
        details {
            summary class="button quiet" { "Seats" }
            p {
                "Who has seats keeps them, also when there are fewer then: a lower number only stops further bookings. \
                 Left empty, the days have as many as usual, " (usual) "."
            }
            (frame("seats", html! {
                div class="field" {
                    label for="seats" { "Seats a day" }
                    input id="seats" name="seats" type="text" inputmode="numeric" maxlength="3";
                }
            }, "Set the seats"))
        }
        details {
            summary class="button quiet" { "Close" }
            p { "Closed days take no more bookings. Who has seats is not told by itself: the sheet says who they are." }
            (frame("close", html! {
                div class="field" {
                    label for="reason" { "Why, for guests" }
                    input id="reason" name="reason" type="text" maxlength=(crate::capacity::REASON_CHARS);
                }
            }, "Close"))
        }
        details {
            summary class="button quiet" { "Open again" }
            (frame("open", html! {}, "Open"))
        }
    }
}

fn days(change: &str, day: Day) -> Markup {
    html! {
        (field(&format!("{change}-from"), "from", "First day", &day.to_string()))
        (field(&format!("{change}-until"), "until", "Last day; empty for one day only", ""))
    }
}

fn date(name: &str, label: &str, day: Day) -> Markup {
    field(name, name, label, &day.to_string())
}

fn field(id: &str, name: &str, label: &str, value: &str) -> Markup {
    html! {
        div class="field" {
            label for=(id) { (label) }
            input id=(id) name=(name) type="date" value=(value);
        }
    }
}
