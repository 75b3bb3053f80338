//! A small application behind a real server, and a client that keeps its cookies only when told to.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::routing::{get, post};
use axum::{Router, body::Body};
use highwater::{
    Aggregate, CommandId, Context, Decision, Engine, Folded, Follow, Freshness, Recorded, Role, Sources, View,
};
use highwater_axum::{AtLeast, Problem, ReadYourWrites, SigningKeys};
use http_body_util::BodyExt;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

#[derive(Serialize, Deserialize)]
pub(crate) enum TallyCommand {
    Add,
    Refuse,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum TallyEvent {
    Added,
}

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Tally;

impl Aggregate for Tally {
    const CONTAINER: &'static str = "tallies";
    type Command = TallyCommand;
    type Event = TallyEvent;
    type Settings = ();

    fn decide(&self, command: TallyCommand, _: &Context<'_, Self>) -> Decision<Self> {
        match command {
            TallyCommand::Add => Decision::accept([TallyEvent::Added]),
            TallyCommand::Refuse => Decision::reject("not today"),
        }
    }

    fn apply(&mut self, _: &TallyEvent) {}
}

pub(crate) struct Sums;

impl View for Sums {
    const NAME: &'static str = "sums";
    type Document = u64;
    fn sources(sources: Sources<Self>) -> Sources<Self> {
        sources.follow::<Tally>()
    }
}

impl Follow<Tally> for Sums {
    fn keys(&self, event: &Recorded<TallyEvent>) -> Vec<String> {
        vec![event.key().id.to_string()]
    }

    fn fold(&self, _: &str, sum: u64, _: &Recorded<TallyEvent>) -> Folded<u64> {
        Folded::Put(sum + 1)
    }
}

/// The application: nothing in it mentions a token, but for `/seen` that shows it.
fn routes(engine: Engine, layer: ReadYourWrites) -> Router {
    async fn add(State(engine): State<Engine>, Path(name): Path<String>) -> Result<(), Problem> {
        engine.execute::<Tally>(name, TallyCommand::Add).await?;
        Ok(())
    }
    async fn send(State(engine): State<Engine>, Path(name): Path<String>) -> Result<String, Problem> {
        Ok(engine.send::<Tally>(name, TallyCommand::Add).await?.id.to_string())
    }
    async fn outcome(State(engine): State<Engine>, Path(id): Path<CommandId>) -> Result<String, Problem> {
        Ok(if engine.outcome(id).await?.token().is_some() { "decided" } else { "pending" }.into())
    }
    async fn read(State(engine): State<Engine>, Path(name): Path<String>) -> Result<String, Problem> {
        let answer = engine.view::<Sums>().get(name).await?;
        let how = match answer.freshness {
            Freshness::Stale { .. } => "stale",
            Freshness::Diverged(_) => "diverged",
            _ => "fresh",
        };
        Ok(format!("{} {how}", answer.document.unwrap_or_default()))
    }
    Router::new()
        .route("/{name}", get(read).post(add))
        .route("/{name}/send", post(send))
        .route("/outcomes/{id}", get(outcome))
        .route("/seen", get(async |AtLeast(token): AtLeast| token.to_string()))
        .layer(layer)
        .with_state(engine)
}

/// The application behind a server of its own. Its view follows only when [`Site::follow`] lets it.
pub(crate) struct Site {
    pub(crate) engine: Engine,
    follower: Engine,
    address: SocketAddr,
    client: Client<HttpConnector, Body>,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    /// The cookie that the answer sets, whole.
    pub(crate) fn set_cookie(&self) -> Option<&str> {
        self.headers.get("set-cookie").map(|cookie| cookie.to_str().unwrap())
    }

    /// The cookie as it is sent back.
    pub(crate) fn cookie(&self) -> String {
        self.set_cookie().expect("a cookie is set").split(';').next().unwrap().to_owned()
    }

    pub(crate) fn token(&self) -> &str {
        self.headers["highwater-at-least"].to_str().unwrap()
    }
}

impl Site {
    pub(crate) async fn new(keys: SigningKeys) -> Self {
        Self::with(|engine| ReadYourWrites::new(engine, keys)).await
    }

    pub(crate) async fn with(layer: impl FnOnce(Engine) -> ReadYourWrites) -> Self {
        let engine =
            Engine::in_memory().role(Role::Worker).aggregate::<Tally>(()).view(Sums).start().await.unwrap();
        let clock = engine.clock().unwrap().clone();
        let follower = Engine::driven_on(engine.backend().clone(), clock).role(Role::Projector);
        let follower = follower.aggregate::<Tally>(()).view(Sums).start().await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = routes(engine.clone(), layer(engine.clone()));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { engine, follower, address, client }
    }

    /// Lets the view catch up.
    pub(crate) async fn follow(&self) {
        assert!(self.follower.settle().await.unwrap().trouble().is_empty());
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.client.request(request.body(Body::empty()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    pub(crate) async fn read(&self, headers: &[(&str, &str)]) -> Answer {
        self.send("GET", "/ada", headers).await
    }
}
