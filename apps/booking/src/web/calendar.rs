//! A month of days: those that can be booked are links.

use super::App;
use super::fields::Fields;
use super::layout::{Page, page};
use super::trouble::{Problem, Trouble};
use crate::day::{Day, Month};
use crate::month::{MonthView, SoldOutDays};
use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::Html;
use highwater::Freshness;
use maud::{Markup, html};

const WEEKDAYS: [(&str, &str); 7] = [
    ("Mon", "Monday"),
    ("Tue", "Tuesday"),
    ("Wed", "Wednesday"),
    ("Thu", "Thursday"),
    ("Fri", "Friday"),
    ("Sat", "Saturday"),
    ("Sun", "Sunday"),
];

/// The month that a query asks for.
fn asked(query: Option<&str>, default: Option<Month>) -> Result<Month, Trouble> {
    let fields = Fields::parse(query.unwrap_or_default())?;
    let month = match (fields.optional("year"), fields.optional("month")) {
        (None, None) => default,
        (year, month) => Month::parse(year.unwrap_or_default(), month.unwrap_or_default()),
    };
    month.ok_or_else(|| {
        Trouble::bad_request(
            "A month is asked for by year (1 to 9999) and month (1 to 12): ?year=2026&month=12",
        )
    })
}

/// The days of a month that cannot be booked and, if they may be out of date, a sentence that says so. How new they must
/// be, the session of the request knows.
async fn disabled(app: &App, month: Month) -> Result<(SoldOutDays, Option<&'static str>), Trouble> {
    let answer = app.engine.view::<MonthView>().get(month.to_string()).await?;
    let stale = matches!(answer.freshness, Freshness::Stale { .. } | Freshness::Diverged(_));
    let notice = "The calendar has not caught up with your booking yet. It updates by itself; or reload it in a moment.";
    Ok((answer.document.unwrap_or_default(), stale.then_some(notice)))
}

/// `GET /booking/disabled-days?year=2026&month=12`: the days that are sold out or closed, `["2026.12.24"]`.
pub(super) async fn disabled_days(
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Json<Vec<String>>, Problem> {
    let month = asked(query.as_deref(), None)?;
    let (disabled, _) = disabled(&app, month).await?;
    Ok(Json(month.days().filter(|day| disabled.is_disabled(day.number())).map(Day::dotted).collect()))
}

/// `GET /booking/`: a month, the present one unless the query names another.
pub(super) async fn show(State(app): State<App>, RawQuery(query): RawQuery) -> Result<Html<String>, Trouble> {
    let today = app.today();
    let month = asked(query.as_deref(), Some(today.month()))?;
    let (disabled, notice) = disabled(&app, month).await?;
    let title = format!("Book a table in {}", month.words());
    let body = html! {
        h1 { "Book a table" }
        p { "Choose a day. " (app.settings.restaurant.seats_per_day()) " people can dine here on most." }
        @if let Some(notice) = notice {
            p class="notice" role="status" { (notice) }
        }
        div class="months" {
            (neighbour(month.previous(), "prev", "Previous month"))
            h2 id="month" { (month.words()) }
            (neighbour(month.next(), "next", "Next month"))
        }
        (table(month, today, &disabled))
        ul class="legend" {
            li { span class="day open" aria-hidden="true" { "1" } "can be booked" }
            li { span class="day sold" aria-hidden="true" { "1" } "sold out or closed" }
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

fn table(month: Month, today: Day, disabled: &SoldOutDays) -> Markup {
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
                                Some(day) => { (present(*day, disabled)) }
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
fn present(day: Day, disabled: &SoldOutDays) -> Markup {
    let closed = disabled.closed.get(&day.number());
    let shut = disabled.is_disabled(day.number());
    html! {
        td data-day=(day.dotted()) {
            a class="day open" href={ "/booking/new?date=" (day) } hidden[shut] {
                span aria-hidden="true" { (day.number()) }
                span class="words" { "Book " (day.words()) }
            }
            span class="day sold" title=[closed.filter(|why| !why.is_empty())] hidden[!shut] {
                span aria-hidden="true" { (day.number()) }
                span class="words" { (day.words()) @if closed.is_some() { ", closed" } @else { ", sold out" } }
            }
        }
    }
}
