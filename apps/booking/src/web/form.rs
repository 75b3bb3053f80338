//! The form, and what becomes of it.

use super::App;
use super::calendar;
use super::fields::{Fields, Form};
use super::layout::{Page, page};
use super::trouble::Trouble;
use crate::capacity::{Capacity, CapacityCommand};
use crate::day::Day;
use crate::guest::{EMAIL_BYTES, NAME_CHARS, check_email, check_name};
use crate::sheet::{Sheet as DaySheet, SheetView};
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Redirect, Response};
use highwater::{CommandId, SendError};
use maud::{Markup, html};

/// What may stand around a name or an address without being part of it.
const BLANK: [char; 4] = [' ', '\t', '\u{a0}', '\u{3000}'];

/// What was typed.
#[derive(Debug, Clone, Default)]
struct Typed {
    date: String,
    name: String,
    email: String,
    quantity: String,
}

/// What is wrong with it, field by field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Faults {
    date: Option<String>,
    name: Option<String>,
    email: Option<String>,
    quantity: Option<String>,
}

/// A booking that makes sense, whether or not there is room.
struct Wanted {
    day: Day,
    name: String,
    email: String,
    quantity: u32,
}

impl Typed {
    fn of(fields: &Fields) -> Self {
        let text = |name| fields.get(name).to_owned();
        Self { date: text("date"), name: text("name"), email: text("email"), quantity: text("quantity") }
    }

    fn day(&self, today: Day) -> Result<Day, String> {
        let day = Day::parse(self.date.trim());
        let day = day.ok_or("There is no such day. Write the day as year-month-day, like 2026-12-24.")?;
        if day < today { Err(format!("{} has passed. Choose a later day.", day.words())) } else { Ok(day) }
    }

    fn check(&self, today: Day, seats: u32) -> Result<Wanted, Faults> {
        // Space around what was typed is a slip; a line break never is.
        let (name, email) = (self.name.trim_matches(BLANK), self.email.trim_matches(BLANK));
        let (day, named, mailed) = (self.day(today), check_name(name), check_email(email));
        let quantity = self.quantity.trim().parse().ok().filter(|quantity| (1..=seats).contains(quantity));
        match (day, named, mailed, quantity) {
            (Ok(day), Ok(()), Ok(()), Some(quantity)) => {
                Ok(Wanted { day, name: name.into(), email: email.into(), quantity })
            }
            (day, named, mailed, quantity) => Err(Faults {
                date: day.err(),
                name: named.err(),
                email: mailed.err(),
                quantity: quantity.is_none().then(|| format!("Give a whole number from 1 to {seats}.")),
            }),
        }
    }
}

/// `GET /booking/new?date=2026-12-24`: an empty form with a fresh command id.
pub(super) async fn show(State(app): State<App>, RawQuery(query): RawQuery) -> Result<Response, Trouble> {
    let fields = Fields::parse(query.as_deref().unwrap_or_default())?;
    let typed = Typed { date: fields.get("date").into(), ..Typed::default() };
    let Some(day) = Day::parse(&typed.date) else {
        return Err(Trouble::bad_request("A day that exists is needed: ?date=2026-12-24"));
    };
    if let Err(fault) = typed.day(app.today()) {
        return Err(Trouble::new(StatusCode::UNPROCESSABLE_ENTITY, "This day has passed", fault));
    }
    let sheet = day_sheet(&app, day).await?;
    let seats = sheet.seats.unwrap_or(app.settings.restaurant.seats_per_day());
    let notice = match &sheet.closed {
        Some(why) if why.is_empty() => Some("The restaurant is closed on this day.".into()),
        Some(why) => Some(format!("The restaurant is closed on this day: {why}")),
        None if sheet.taken() >= seats => Some(
            "The calendar says that this day is sold out. You can still ask: somebody may just have cancelled."
                .into(),
        ),
        None => None,
    };
    let form = Sheet { id: CommandId::random(), typed: &typed, faults: &Faults::default(), notice, seats };
    // Who goes back and sends the form again sends the same form, and books once: so it may be kept, which `no-store`
    // would forbid. Who comes anew gets a fresh one.
    Ok(([(CACHE_CONTROL, "private, no-cache")], form.page()).into_response())
}

/// What is known of a day.
async fn day_sheet(app: &App, day: Day) -> Result<DaySheet, Trouble> {
    Ok(app.engine.view::<SheetView>().get(day.to_string()).await?.document.unwrap_or_default())
}

/// `POST /booking/`: sends the command and shows its receipt.
pub(super) async fn submit(State(app): State<App>, Form(fields): Form) -> Result<Response, Trouble> {
    let id: CommandId = fields.get("id").parse().map_err(|_| {
        Trouble::bad_request("The form's own number (field “id”) is missing or damaged. Open a fresh form.")
    })?;
    let typed = Typed::of(&fields);
    let usual = app.settings.restaurant.seats_per_day();
    let seats = match Day::parse(typed.date.trim()) {
        // A day of no seats is for the decision to refuse.
        Some(day) => day_sheet(&app, day).await?.seats.unwrap_or(usual).max(1),
        None => usual,
    };
    let mut sheet = Sheet { id, typed: &typed, faults: &Faults::default(), notice: None, seats };
    let wanted = match typed.check(app.today(), seats) {
        Ok(wanted) => wanted,
        Err(faults) => {
            sheet.faults = &faults;
            return Ok((StatusCode::UNPROCESSABLE_ENTITY, sheet.page()).into_response());
        }
    };
    let Wanted { day, name, email, quantity } = wanted;
    let command = CapacityCommand::Reserve { name, email, quantity };
    match app.engine.send::<Capacity>(day.to_string(), command).id(id).await {
        Ok(sent) => Ok(Redirect::to(&format!("/booking/receipts/{}", sent.id)).into_response()),
        Err(SendError::CommandIdReused { .. }) => {
            sheet.id = CommandId::random();
            Ok((StatusCode::CONFLICT, sheet.sent_before(id)).into_response())
        }
        Err(error) => Err(error.into()),
    }
}

/// The form as it is shown.
struct Sheet<'a> {
    id: CommandId,
    typed: &'a Typed,
    faults: &'a Faults,
    notice: Option<String>,
    seats: u32,
}

impl Sheet<'_> {
    fn page(&self) -> Response {
        let body = html! {
            h1 { "Book a table" }
            @if let Some(notice) = &self.notice { p class="notice" { (notice) } }
            @if self.is_faulty() {
                p class="notice" role="alert" { "This cannot be sent yet. What is wrong stands beside the fields." }
            }
            (self.form())
        };
        self.framed(&body)
    }

    fn sent_before(&self, first: CommandId) -> Response {
        let body = html! {
            h1 { "This form was sent before" }
            p class="notice" role="alert" {
                "It was sent with other content, and that is what counts: "
                a href={ "/booking/receipts/" (first) } { "see its receipt" } "."
            }
            p { "If you want another table besides, send this fresh form. It holds what you typed." }
            (self.form())
        };
        self.framed(&body)
    }

    fn framed(&self, body: &Markup) -> Response {
        let wrong = if self.is_faulty() { "Please check: " } else { "" };
        let title = format!("{wrong}Book a table");
        page(Page { title: &title, ..Page::default() }, body).into_response()
    }

    fn is_faulty(&self) -> bool {
        *self.faults != Faults::default()
    }

    fn form(&self) -> Markup {
        let Self { typed, faults, seats, .. } = self;
        let day = Day::parse(typed.date.trim());
        let back = day.map_or_else(|| "/booking/".into(), |day| calendar::link(day.month()));
        let input = |name, label, value, fault| Input { name, label, value, fault, hint: None };
        let email = Input {
            hint: Some(
                "The answer is a letter to this address. It is written to the data folder; see Mail above."
                    .into(),
            ),
            ..input("email", "E-mail", &typed.email, &faults.email)
        };
        let quantity = Input {
            hint: Some(format!("1 to {seats}")),
            ..input("quantity", "Number of people", &typed.quantity, &faults.quantity)
        };
        html! {
            form method="post" action="/booking/" class="sheet" novalidate {
                input type="hidden" name="id" value=(self.id);
                @match (&faults.date, day) {
                    (None, Some(day)) => {
                        p class="chosen" { strong { (day.words()) } " " a href=(back) { "Choose another day" } }
                        input type="hidden" name="date" value=(day);
                    }
                    _ => {
                        (input("date", "Day, as year-month-day", &typed.date, &faults.date).field())
                        p { a href=(back) { "Choose a day in the calendar" } }
                    }
                }
                (input("name", "Name", &typed.name, &faults.name).field())
                (email.field())
                (quantity.field())
                button class="button" type="submit" { "Ask for the table" }
            }
        }
    }
}

/// One line of the form: label, field, hint and what is wrong with it.
struct Input<'a> {
    name: &'static str,
    label: &'static str,
    value: &'a str,
    fault: &'a Option<String>,
    hint: Option<String>,
}

impl Input<'_> {
    fn field(&self) -> Markup {
        let Self { name, label, value, fault, hint } = self;
        let (kind, completed, longest) = match *name {
            "email" => ("email", Some("email"), Some(EMAIL_BYTES)),
            "name" => ("text", Some("name"), Some(NAME_CHARS)),
            _ => ("text", None, None),
        };
        let numeric = (*name == "quantity").then_some("numeric");
        let (fault_id, hint_id) = (format!("{name}-fault"), format!("{name}-hint"));
        let described: Vec<&str> =
            fault.iter().map(|_| &*fault_id).chain(hint.iter().map(|_| &*hint_id)).collect();
        let described = (!described.is_empty()).then(|| described.join(" "));
        html! {
            div class="field" {
                label for=(name) { (label) }
                input id=(name) name=(name) type=(kind) value=(value) required autocomplete=[completed]
                    inputmode=[numeric] maxlength=[longest] aria-invalid=[fault.as_ref().map(|_| "true")]
                    aria-describedby=[described];
                @if let Some(hint) = hint { p class="hint" id=(hint_id) { (hint) } }
                @if let Some(fault) = fault { p class="fault" id=(fault_id) { (fault) } }
            }
        }
    }
}
