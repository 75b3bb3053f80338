//! A month of days: those that can be booked are links.

use super::App;
use super::fields::Fields;
use super::layout::{Page, page};
use super::trouble::{Problem, Trouble};
use crate::day::{Day, Month};
use crate::month::MonthView;
use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::Html;
use highwater::{Freshness, Token, ViewReadError};
use maud::{Markup, html};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long the calendar waits for the view to catch up with a booking.
const PATIENCE: Duration = Duration::from_secs(1);

const WEEKDAYS: [(&str, &str); 7] = [
    ("Mon", "Monday"),
    ("Tue", "Tuesday"),
    ("Wed", "Wednesday"),
    ("Thu", "Thursday"),
    ("Fri", "Friday"),
    ("Sat", "Saturday"),
    ("Sun", "Sunday"),
];

/// What a query asks the calendar for.
struct Asked {
    month: Month,
    token: Option<Token>,
}

fn asked(query: Option<&str>, default: Option<Month>) -> Result<Asked, Trouble> {
    let fields = Fields::parse(query.unwrap_or_default())?;
    let month = match (fields.optional("year"), fields.optional("month")) {
        (None, None) => default,
        (year, month) => Month::parse(year.unwrap_or_default(), month.unwrap_or_default()),
    };
    let month = month.ok_or_else(|| {
        Trouble::bad_request(
            "A month is asked for by year (1 to 9999) and month (1 to 12): ?year=2026&month=12",
        )
    })?;
    let token = fields.optional("token").filter(|token| !token.is_empty()).map(str::parse).transpose();
    let token = token.map_err(|_| Trouble::bad_request("The token is not one that a receipt gave out."))?;
    Ok(Asked { month, token })
}

/// The sold-out days of a month and, if they may be out of date, a sentence that says so.
async fn sold_out(app: &App, asked: &Asked) -> Result<(BTreeSet<u8>, Option<&'static str>), Trouble> {
    let view = app.engine.view::<MonthView>();
    let get = || view.get(asked.month.to_string());
    let answer = match &asked.token {
        None => get().await,
        Some(token) => get().at_least(token).wait(PATIENCE).await,
    };
    let (answer, foreign) = match answer {
        Err(ViewReadError::OtherStore { .. }) => (get().await?, true),
        answer => (answer?, false),
    };
    let notice = match answer.freshness {
        Freshness::Stale { .. } => Some(
            "The calendar has not caught up with your booking yet. It updates by itself; or reload it in a moment.",
        ),
        _ if foreign || answer.freshness == Freshness::Diverged => {
            Some("The link that brought you here belongs to another calendar. This is the present one.")
        }
        _ => None,
    };
    Ok((answer.document.unwrap_or_default().days, notice))
}

/// `GET /booking/disabled-days?year=2026&month=12`: the days that are sold out, `["2026.12.24"]`.
pub(super) async fn disabled_days(
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Json<Vec<String>>, Problem> {
    let asked = asked(query.as_deref(), None)?;
    let (sold_out, _) = sold_out(&app, &asked).await?;
    Ok(Json(asked.month.days().filter(|day| sold_out.contains(&day.number())).map(Day::dotted).collect()))
}

/// `GET /booking/`: a month, the present one unless the query names another.
pub(super) async fn show(State(app): State<App>, RawQuery(query): RawQuery) -> Result<Html<String>, Trouble> {
    let today = app.today();
    let asked = asked(query.as_deref(), Some(today.month()))?;
    let (sold_out, notice) = sold_out(&app, &asked).await?;
    let month = asked.month;
    let title = format!("Book a table in {}", month.words());
    let body = html! {
        h1 { "Book a table" }
        p { "Choose a day. " (app.settings.restaurant.seats_per_day()) " people can dine here on each." }
        @if let Some(notice) = notice {
            p class="notice" role="status" { (notice) }
        }
        div class="months" {
            (neighbour(month.previous(), "prev", "Previous month"))
            h2 id="month" { (month.words()) }
            (neighbour(month.next(), "next", "Next month"))
        }
        (table(month, today, &sold_out))
        ul class="legend" {
            li { span class="day open" aria-hidden="true" { "1" } "can be booked" }
            li { span class="day sold" aria-hidden="true" { "1" } "sold out" }
            li { span class="day past" aria-hidden="true" { "1" } "past" }
        }
    };
    Ok(page(Page { title: &title, script: Some("calendar.js"), ..Page::default() }, &body))
}

fn neighbour(month: Option<Month>, rel: &str, label: &str) -> Markup {
    let arrow = if rel == "prev" { "←" } else { "→" };
    html! {
        @if let Some(month) = month {
            a class="button quiet" rel=(rel) href=(link(month)) aria-label={ (label) ", " (month.words()) } { (arrow) }
        } @else {
            span class="button quiet off" aria-hidden="true" { (arrow) }
        }
    }
}

/// The address of a month's page.
pub(super) fn link(month: Month) -> String {
    format!("/booking/?year={}&month={}", month.year(), month.number())
}

fn table(month: Month, today: Day, sold_out: &BTreeSet<u8>) -> Markup {
    let days: Vec<Day> = month.days().collect();
    let before = days.first().map_or(0, |day| day.days_since_monday());
    let cells: Vec<Option<Day>> = (0..before).map(|_| None).chain(days.into_iter().map(Some)).collect();
    let source = format!("/booking/disabled-days?year={}&month={}", month.year(), month.number());
    html! {
        table class="calendar" aria-labelledby="month" data-disabled-days=(source) {
            thead {
                tr {
                    @for (short, long) in WEEKDAYS {
                        th scope="col" { abbr title=(long) { (short) } }
                    }
                }
            }
            tbody {
                @for week in cells.chunks(7) {
                    tr {
                        @for cell in week {
                            @match cell {
                                None => { td {} }
                                Some(day) if *day < today => { td { (past(*day)) } }
                                Some(day) => { (present(*day, sold_out.contains(&day.number()))) }
                            }
                        }
                        @for _ in week.len()..7 { td {} }
                    }
                }
            }
        }
    }
}

fn past(day: Day) -> Markup {
    html! {
        span class="day past" {
            span aria-hidden="true" { (day.number()) }
            span class="words" { (day.words()) ", past" }
        }
    }
}

/// Both faces of a day; the script shows the one that is true.
fn present(day: Day, sold_out: bool) -> Markup {
    html! {
        td data-day=(day.dotted()) {
            a class="day open" href={ "/booking/new?date=" (day) } hidden[sold_out] {
                span aria-hidden="true" { (day.number()) }
                span class="words" { "Book " (day.words()) }
            }
            span class="day sold" hidden[!sold_out] {
                span aria-hidden="true" { (day.number()) }
                span class="words" { (day.words()) ", sold out" }
            }
        }
    }
}
