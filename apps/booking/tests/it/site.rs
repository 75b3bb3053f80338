//! A booking site in memory, and a browser without a screen.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use booking::{
    Capacity, CapacityCommand, CapacityEvent, Links, Mailbox, Password, Restaurant, Settings, install, routes,
};
use highwater::{Change, CommandId, Engine, EngineBuilder};
use highwater_axum::SigningKeys;
use http_body_util::BodyExt;
use tower::ServiceExt;

pub(crate) struct Site {
    pub(crate) engine: Engine,
    pub(crate) router: Router,
    pub(crate) mailbox: Mailbox,
    pub(crate) links: Links,
    pub(crate) settings: Settings,
    /// Removed with the site.
    pub(crate) folder: tempfile::TempDir,
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) location: Option<String>,
    pub(crate) kind: String,
    pub(crate) headers: axum::http::HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

pub(crate) const DAY: &str = "2026-12-24";

pub(crate) const PASSWORD: &str = "open sesame";

/// A site with a key of its own, whose owner has a password.
pub(crate) fn settings(restaurant: Restaurant, mailbox: Mailbox) -> Settings {
    let links = Links::new(SigningKeys::generate().unwrap(), "http://tables.example.org");
    let (smtp, sender) = (None, booking::mail::SENDER.parse().unwrap());
    Settings { restaurant, mailbox, links, smtp, sender, owner: Some(Password::new(PASSWORD).unwrap()) }
}

/// An address that nobody else books under.
pub(crate) fn email(id: CommandId) -> String {
    format!("{id}@example.org")
}

impl Site {
    /// A site with ten seats in Zürich whose engine a test drives: it is 1 January 2026, 1 o'clock there.
    pub(crate) async fn new() -> Self {
        Self::on(Engine::in_memory(), 10).await
    }

    pub(crate) async fn on(builder: EngineBuilder, seats: u32) -> Self {
        Self::with(builder, seats, |_| {}).await
    }

    /// A site with other settings than usual.
    pub(crate) async fn with(builder: EngineBuilder, seats: u32, change: impl FnOnce(&mut Settings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mailbox = Mailbox::in_folder(folder.path().join("mail"));
        let restaurant = Restaurant::new("Europe/Zurich", seats).unwrap();
        let mut settings = settings(restaurant, mailbox.clone());
        change(&mut settings);
        let links = settings.links.clone();
        let kept = settings.clone();
        let engine = install(builder, &settings).start().await.unwrap();
        let router = routes(engine.clone(), settings);
        Self { engine, router, mailbox, links, settings: kept, folder }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        answer(self.router.clone(), request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: impl Into<Body>) -> Answer {
        self.send(form(path, body)).await
    }

    /// Books, without looking at the answer.
    pub(crate) async fn book(&self, date: &str, quantity: u32) -> CommandId {
        let id = CommandId::random();
        let body = format!("id={id}&date={date}&name=Ada&email={}&quantity={quantity}", email(id));
        let answer = self.post("/booking/", body).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.body);
        assert_eq!(answer.location, Some(format!("/booking/receipts/{id}")));
        id
    }

    /// Lets the engine do everything there is to do, none of which may fail.
    pub(crate) async fn settle(&self) {
        let settled = self.engine.settle().await.unwrap();
        assert!(settled.trouble().is_empty(), "{settled:?}");
    }

    /// What became of a command: its status and its reason.
    pub(crate) async fn status(&self, id: CommandId) -> (String, Option<String>) {
        let json = self.get(&format!("/booking/receipts/{id}.json")).await.json();
        let text = |name: &str| json[name].as_str().map(String::from);
        (text("status").unwrap(), text("reason"))
    }

    pub(crate) async fn cancel(&self, reservation: CommandId) -> CommandId {
        let id = booking::receipt::cancellation(reservation);
        let path = format!("/booking/receipts/{reservation}/cancel");
        let answer = self.post(&path, format!("id={id}")).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.body);
        assert_eq!(answer.location, Some(format!("/booking/receipts/{reservation}")));
        id
    }

    /// The whole log of some containers.
    pub(crate) async fn log(&self, containers: &[&str]) -> Vec<Change> {
        let mut feed = self.engine.feed(containers).unwrap();
        let mut changes = Vec::new();
        loop {
            let page = feed.page(1_000).await.unwrap();
            changes.extend(page.changes);
            if page.at_end {
                return changes;
            }
        }
    }

    /// The days' events: day, name of the event.
    pub(crate) async fn events(&self) -> Vec<(String, String)> {
        let changes = self.log(&["capacity"]).await;
        let named = |change: Change| {
            let day = change.key.id.to_string();
            change
                .events
                .into_iter()
                .map(move |event| (day.clone(), event.name.to_string()))
                .collect::<Vec<_>>()
        };
        changes.into_iter().flat_map(named).collect()
    }

    pub(crate) async fn count(&self, name: &str) -> usize {
        self.events().await.iter().filter(|(_, event)| event == name).count()
    }

    pub(crate) async fn disabled_days(&self, year: u32, month: u32) -> Vec<String> {
        let path = format!("/booking/disabled-days?year={year}&month={month}");
        serde_json::from_value(self.get(&path).await.json()).unwrap()
    }

    pub(crate) fn letters(&self) -> Vec<String> {
        self.mailbox.newest(1_000).unwrap().into_iter().map(|entry| entry.name).collect()
    }
}

pub(crate) fn form(path: &str, body: impl Into<Body>) -> Request<Body> {
    let kind = "application/x-www-form-urlencoded";
    Request::post(path).header(header::CONTENT_TYPE, kind).body(body.into()).unwrap()
}

pub(crate) async fn answer(router: Router, request: Request<Body>) -> Answer {
    let response = router.oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let header = |name| parts.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let body = body.collect().await.unwrap().to_bytes();
    Answer {
        status: parts.status,
        location: header(header::LOCATION),
        kind: header(header::CONTENT_TYPE).unwrap_or_default(),
        headers: parts.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    }
}

pub(crate) fn reserve(quantity: u32) -> CapacityCommand {
    CapacityCommand::Reserve { name: "Ada".into(), email: email(CommandId::random()), quantity }
}

/// Decides on a day that is as the events left it; returns the verdict and all events.
pub(crate) fn decide(
    day: &Capacity,
    date: &str,
    seats: u32,
    command: CapacityCommand,
) -> (Result<(), String>, Vec<CapacityEvent>) {
    use highwater::{Aggregate, Context, ItemKey, Name, Timestamp};
    let key = ItemKey::alone(Name::new("capacity").unwrap(), date).unwrap();
    let restaurant = Restaurant::new("Europe/Zurich", seats).unwrap();
    // 2026-12-23T23:30:00Z: in Zürich the 24th has begun.
    let now = Timestamp::from_micros(1_798_068_600_000_000);
    let decision = day.decide(command, &Context::new(now, CommandId::random(), &key, &restaurant));
    let verdict = decision.verdict().map(|_| ()).map_err(String::from);
    (verdict, decision.events().to_vec())
}
