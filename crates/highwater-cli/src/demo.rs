//! `highwater demo`: the example applications and the console in one program.

use crate::metrics::Metrics;
use crate::start_page;
use axum::Router;
use axum::routing::get;
use booking::host::{self, Failure, Options};
use booking::web::with_security_headers;
use clap::Args;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;

/// What `highwater demo` can be told.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Where to serve the pages: an address of this machine with a port, or the port; 0 for any free one
    /// [default: 127.0.0.1:7300]
    #[arg(long, value_name = "ADDRESS", value_parser = host::address)]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    options: Options,
}

/// Where the pages are unless told otherwise.
const PLACE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7300);

impl Demo {
    pub(crate) fn run(&self) -> ExitCode {
        let place = match self.options.place(self.listen, PLACE) {
            Ok(place) => place,
            Err(failure) => return failure.tell(),
        };
        host::run("highwater", place, &self.options.making_a_password_up(), |engine, settings| {
            let metrics = Metrics::record().map_err(Failure::new)?;
            let status = engine.clone();
            let own = Router::new()
                .route(
                    "/",
                    get({
                        let engine = engine.clone();
                        async move || start_page::show(&engine).await
                    }),
                )
                .route("/status.json", get(async move || start_page::status(&status).await))
                .route("/metrics", get(async move || metrics.render()));
            Ok(with_security_headers(own).merge(booking::routes(engine, settings)))
        })
    }
}
