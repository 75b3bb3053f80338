//! Logging in and out, and knowing who is logged in.

use super::super::App;
use super::super::fields::{Fields, Form};
use super::super::layout::{Page, page};
use super::super::trouble::Trouble;
use crate::owner::{SESSION_TIME, form_key, is_form_key};
use axum::extract::State;
use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;

const COOKIE_NAME: &str = "booking-owner";

/// A browser that has logged in.
pub(super) struct Session(String);

impl Session {
    /// The session that a request belongs to, if it does.
    pub(super) fn of(app: &App, headers: &HeaderMap) -> Option<Self> {
        let password = app.settings.owner.as_ref()?;
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut cookies =
            lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let (_, value) = cookies.find(|(name, _)| *name == COOKIE_NAME)?;
        let good = password.admits(value, app.engine.now(), app.settings.links.keys());
        good.then(|| Self(value.into()))
    }

    /// What the forms of this session carry.
    pub(super) fn form_key(&self, app: &App) -> String {
        form_key(&self.0, app.settings.links.keys())
    }

    /// The session of a form that was sent from it.
    pub(super) fn of_form(app: &App, headers: &HeaderMap, fields: &Fields) -> Result<Self, Trouble> {
        let refuse = |detail| Trouble::new(StatusCode::FORBIDDEN, "Not allowed", detail);
        let session = Self::of(app, headers).ok_or_else(|| refuse("Log in on the owner's page first."))?;
        if !is_form_key(fields.get("key"), &session.0, app.settings.links.keys()) {
            return Err(refuse("This form is not of this session. Open the owner's page again."));
        }
        Ok(session)
    }
}

/// What the page says to those who are not logged in.
pub(super) fn closed(app: &App, fault: Option<&str>) -> Response {
    if app.settings.owner.is_none() {
        let body = html! {
            h1 { "The owner's page" }
            p class="notice" { "This page is closed: no password was set." }
            p {
                "Write a password of at least 8 characters into a file that only you can read, and start the program with "
                code { "--owner-password-file FILE" } "; or set it in the variable " code { "BOOKING_OWNER_PASSWORD" } "."
            }
        };
        let closed = page(Page { title: "Owner", ..Page::default() }, &body);
        return (StatusCode::FORBIDDEN, closed).into_response();
    }
    let described = fault.map(|_| "password-fault");
    let body = html! {
        h1 { "The owner's page" }
        form method="post" action="/booking/owner/login" class="sheet" {
            div class="field" {
                label for="password" { "Password" }
                input id="password" name="password" type="password" required autocomplete="current-password"
                    aria-invalid=[fault.map(|_| "true")] aria-describedby=[described];
                @if let Some(fault) = fault { p class="fault" id="password-fault" role="alert" { (fault) } }
            }
            button class="button" type="submit" { "Log in" }
        }
    };
    page(Page { title: "Owner", ..Page::default() }, &body).into_response()
}

/// `POST /booking/owner/login`.
pub(in super::super) async fn log_in(
    State(app): State<App>,
    headers: HeaderMap,
    Form(fields): Form,
) -> Result<Response, Trouble> {
    let Some(password) = &app.settings.owner else { return Ok(closed(&app, None)) };
    let (now, keys) = (app.engine.now(), app.settings.links.keys());
    if !app.attempts.allows(now) {
        let detail = "Too many wrong passwords came in. Wait a minute and try again.";
        return Err(Trouble::new(StatusCode::TOO_MANY_REQUESTS, "Please wait", detail));
    }
    if !password.is(fields.get("password"), keys) {
        app.attempts.failed(now);
        tracing::warn!("a wrong password for the owner's page");
        let form = closed(&app, Some("This is not the password."));
        return Ok((StatusCode::FORBIDDEN, form).into_response());
    }
    let cookie = cookie(&headers, &password.session(now, keys), SESSION_TIME.as_secs());
    Ok(([(SET_COOKIE, cookie)], Redirect::to("/booking/owner/")).into_response())
}

/// `POST /booking/owner/logout`. The session stays good for whoever has copied its cookie, until its time is over.
pub(in super::super) async fn log_out(
    State(app): State<App>,
    headers: HeaderMap,
    Form(fields): Form,
) -> Result<Response, Trouble> {
    Session::of_form(&app, &headers, &fields)?;
    Ok(([(SET_COOKIE, cookie(&headers, "", 0))], Redirect::to("/booking/owner/")).into_response())
}

fn cookie(headers: &HeaderMap, value: &str, age: u64) -> String {
    let proto = headers.get("x-forwarded-proto").and_then(|proto| proto.to_str().ok()).unwrap_or_default();
    let encrypted = proto.split(',').next().is_some_and(|proto| proto.trim().eq_ignore_ascii_case("https"));
    let secure = if encrypted { "; Secure" } else { "" };
    format!("{COOKIE_NAME}={value}; Path=/booking/owner; Max-Age={age}; HttpOnly; SameSite=Strict{secure}")
}
