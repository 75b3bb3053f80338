//! The pages. They send commands and read views: nothing here decides, waits for a decision, or writes state.

mod assets;
mod calendar;
mod cancel;
mod fields;
mod form;
mod headers;
mod layout;
mod letters;
mod owner;
mod receipts;
mod trouble;

pub use headers::{only_for_hosts, with_security_headers};
pub use layout::{Page, page};
pub use trouble::{Problem, Trouble};

use crate::Settings;
use crate::day::Day;
use crate::owner::Attempts;
use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::response::Redirect;
use axum::routing::{get, post};
use highwater::Engine;
use highwater_axum::ReadYourWrites;
use std::sync::Arc;

/// What every page needs.
#[derive(Clone)]
struct App {
    engine: Engine,
    settings: Arc<Settings>,
    /// Wrong passwords of the owner.
    attempts: Arc<Attempts>,
}

impl App {
    fn today(&self) -> Day {
        self.settings.restaurant.today(self.engine.now())
    }
}

/// The booking site, everything below `/booking/`, and an answer to all that does not exist.
pub fn routes(engine: Engine, settings: Settings) -> Router {
    let keep = ReadYourWrites::new(engine.clone(), settings.links.keys().clone());
    let app = App { engine, settings: Arc::new(settings), attempts: Arc::default() };
    let router = Router::new()
        .route("/booking", get(async || Redirect::permanent("/booking/")))
        .route("/booking/", get(calendar::show).post(form::submit))
        .route("/booking/disabled-days", get(calendar::disabled_days))
        .route("/booking/new", get(form::show))
        .route("/booking/receipts/{receipt}", get(receipts::show))
        .route("/booking/receipts/{receipt}/cancel", post(cancel::submit))
        .route("/booking/cancel/{reservation}/{signature}", get(cancel::show_link).post(cancel::submit_link))
        .route("/booking/owner", get(async || Redirect::permanent("/booking/owner/")))
        .route("/booking/owner/", get(owner::show))
        .route("/booking/owner/login", post(owner::log_in))
        .route("/booking/owner/logout", post(owner::log_out))
        .route("/booking/owner/days", post(owner::change_days))
        .route("/booking/owner/letters", post(owner::send_again))
        .route("/booking/mails", get(letters::list))
        .route("/booking/mails/{name}", get(letters::show))
        .route("/booking/assets/{name}", get(assets::get))
        .fallback(missing)
        .layer(keep)
        .with_state(app);
    with_security_headers(router)
}

async fn missing(uri: Uri) -> Trouble {
    Trouble::new(StatusCode::NOT_FOUND, "No such page", format!("There is nothing at {}.", uri.path()))
}
