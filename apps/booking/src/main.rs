//! The booking site as a program of its own.

use axum::Router;
use axum::response::Redirect;
use axum::routing::get;
use booking::host;
use booking::web::with_security_headers;
use clap::Parser;
use std::net::SocketAddr;
use std::process::ExitCode;

/// A restaurant's booking site on Highwater
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Where to serve the pages: an address of this machine with a port, or the port; 0 for any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7301", value_parser = host::address)]
    listen: SocketAddr,
    #[command(flatten)]
    options: host::Options,
}

fn main() -> ExitCode {
    let Arguments { listen, options } = Arguments::parse();
    host::run("booking", listen, &options, |engine, settings| {
        let home = get(async || Redirect::temporary("/booking/"));
        let own = with_security_headers(Router::new().route("/", home));
        Ok(own.merge(booking::routes(engine, settings)))
    })
}
