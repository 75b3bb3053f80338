//! The pages. They send commands and read views: nothing here decides, waits for a decision, or writes state.

mod assets;
mod calendar;
mod cancel;
mod fields;
mod form;
mod headers;
mod layout;
mod letters;
mod receipts;
mod trouble;

pub use headers::{only_for_hosts, with_security_headers};
pub use layout::{Page, page};
pub use trouble::{Problem, Trouble};

use crate::Settings;
use crate::day::Day;
use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::response::Redirect;
use axum::routing::{get, post};
use highwater::Engine;
use std::sync::Arc;

/// What every page needs.
#[derive(Clone)]
struct App {
    engine: Engine,
    settings: Arc<Settings>,
}

impl App {
    fn today(&self) -> Day {
        self.settings.restaurant.today(self.engine.now())
    }
}

/// The booking site, everything below `/booking/`, and an answer to all that does not exist.
pub fn routes(engine: Engine, settings: Settings) -> Router {
    let app = App { engine, settings: Arc::new(settings) };
    let router = Router::new()
        .route("/booking", get(async || Redirect::permanent("/booking/")))
        .route("/booking/", get(calendar::show).post(form::submit))
        .route("/booking/disabled-days", get(calendar::disabled_days))
        .route("/booking/new", get(form::show))
        .route("/booking/receipts/{receipt}", get(receipts::show))
        .route("/booking/receipts/{receipt}/cancel", post(cancel::submit))
        .route("/booking/mails", get(letters::list))
        .route("/booking/mails/{name}", get(letters::show))
        .route("/booking/assets/{name}", get(assets::get))
        .fallback(missing)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app);
    with_security_headers(router)
}

async fn missing(uri: Uri) -> Trouble {
    Trouble::new(StatusCode::NOT_FOUND, "No such page", format!("There is nothing at {}.", uri.path()))
}

async fn wrong_method() -> Trouble {
    let detail = "This address does not take requests of this kind.";
    Trouble::new(StatusCode::METHOD_NOT_ALLOWED, "Not possible here", detail)
}
