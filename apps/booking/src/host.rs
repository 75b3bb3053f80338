//! Starts a program that serves the booking site, and stops it cleanly. Whatever keeps it from running becomes
//! one line on standard error and an exit code.

use crate::{Mailbox, Restaurant, Settings, install};
use axum::Router;
use clap::{Args, ValueEnum};
use highwater::{Engine, EngineBuilder, LeaseTimes, Role, WorkerOptions};
use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tracing_subscriber::EnvFilter;

/// What is logged unless `RUST_LOG` says otherwise.
const LOGGED: &str = "warn,highwater=info,booking=info";

/// How long requests may take to end once the program is asked to stop.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

/// How long the engine may take to end. Work that is given up is done again by the next process.
const LAST_WORK: Duration = Duration::from_secs(30);

/// What can be chosen on the command line, besides where to listen.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// The folder for everything that is kept
    #[arg(long, value_name = "DIR", default_value = "./data")]
    data: PathBuf,
    /// What this process runs; several processes can share one data folder
    #[arg(long, value_enum, default_value_t = RoleName::All)]
    role: RoleName,
    /// How many seats the restaurant has a day, 1 to 200
    #[arg(long, default_value_t = Restaurant::DEFAULT_SEATS,
        value_parser = clap::value_parser!(u32).range(1..=200))]
    seats: u32,
    /// The restaurant's time zone
    #[arg(long, value_name = "NAME", default_value = Restaurant::DEFAULT_ZONE)]
    zone: String,
    /// After how many seconds others go on with what a process had begun that died, 1 to 300; normally 5 for views
    /// and mail, 30 for commands. Lower it to recover sooner, raise it when slow processes are taken for dead
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..=300))]
    takeover: Option<u16>,
}

impl Options {
    /// Sets how soon the work of a process that died is taken over, if that was asked for.
    fn taking_over(&self, builder: EngineBuilder) -> EngineBuilder {
        let Some(seconds) = self.takeover else { return builder };
        let after = Duration::from_secs(seconds.into());
        let mut commands = WorkerOptions::default();
        commands.visibility = after;
        builder.lease_times(LeaseTimes::new(after / 5, after / 5, after)).worker(commands)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RoleName {
    /// Everything
    All,
    /// Serves pages: sends commands and reads views
    Web,
    /// Decides commands
    Worker,
    /// Keeps views up to date and writes mail
    Projector,
}

impl RoleName {
    fn role(self) -> Role {
        match self {
            Self::All => Role::All,
            Self::Web => Role::Web,
            Self::Worker => Role::Worker,
            Self::Projector => Role::Projector,
        }
    }

    fn listens(self) -> bool {
        matches!(self, Self::All | Self::Web)
    }
}

/// Why a program ends before it is asked to, as one line for its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// A failure that ends the program with exit code 1.
    pub fn new(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), code: 1 }
    }

    /// A wrong use of the program: exit code 2, as for options that cannot be read.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self { code: 2, ..Self::new(message) }
    }
}

impl fmt::Display for Failure {
    /// Always one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.message.lines().map(str::trim).filter(|line| !line.is_empty());
        f.write_str(&lines.collect::<Vec<_>>().join("; "))
    }
}

/// Runs a program until it is asked to stop: `site` makes the pages of a process that serves some.
pub fn run<S>(name: &str, listen: SocketAddr, options: &Options, site: S) -> ExitCode
where
    S: FnOnce(Engine, Settings) -> Result<Router, Failure>,
{
    let result = start_log().and_then(|()| {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::new(format!("cannot start threads: {error}")))?;
        let result = runtime.block_on(serve(name, listen, options, site));
        // A blocking read that hangs must not keep the program from ending.
        runtime.shutdown_timeout(Duration::from_secs(1));
        result
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "error: {failure}");
            ExitCode::from(failure.code)
        }
    }
}

fn start_log() -> Result<(), Failure> {
    let wanted = std::env::var("RUST_LOG").unwrap_or_default();
    let wanted = if wanted.trim().is_empty() { LOGGED.to_owned() } else { wanted };
    let filter = EnvFilter::builder().parse(&wanted);
    let filter = filter.map_err(|error| Failure::usage(format!("RUST_LOG is not a filter: {error}")))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    log.try_init().map_err(Failure::new)
}

async fn serve<S>(name: &str, listen: SocketAddr, options: &Options, site: S) -> Result<(), Failure>
where
    S: FnOnce(Engine, Settings) -> Result<Router, Failure>,
{
    let mut signals = signals()?;
    let restaurant = Restaurant::new(&options.zone, options.seats).map_err(Failure::usage)?;
    let listener = if options.role.listens() { Some(bind(listen).await?) } else { None };
    let settings = Settings { restaurant, mailbox: Mailbox::in_folder(options.data.join("mail")) };
    let url = store_url(&options.data)?;
    let builder = options.taking_over(Engine::open(url).role(options.role.role()).instance(name));
    let engine = install(builder, &settings).start().await.map_err(Failure::new)?;
    let (stop, stopped) = watch::channel(false);
    let mut pages = match listener {
        Some(listener) => {
            let address = listener.local_addr().map_err(Failure::new)?;
            let router = site(engine.clone(), settings)?;
            let pages = tokio::spawn(pages(listener, router, stopped));
            announce(&format!("{name}: http://{address}/ (Ctrl-C stops it)"));
            pages
        }
        None => {
            let role =
                options.role.to_possible_value().map_or_else(String::new, |role| role.get_name().into());
            announce(&format!("{name}: running as {role} on {} (Ctrl-C stops it)", options.data.display()));
            tokio::spawn(until_stopped(stopped))
        }
    };
    let result = tokio::select! {
        _ = signals.recv() => Ok(()),
        stopped = engine.failed() => Err(Failure::new(format!("stopped, going on would do harm: {}", stopped.reason))),
        ended = &mut pages => Err(Failure::new(match ended {
            Ok(Err(error)) => format!("the pages cannot be served any more: {error}"),
            _ => "the pages cannot be served any more".into(),
        })),
    };
    tokio::select! {
        () = wind_down(&engine, &stop, pages) => result,
        _ = signals.recv() => Err(Failure::new("stopped at once; what was begun will be done again")),
    }
}

/// Where the store lies in the data folder, which is made if need be.
fn store_url(data: &Path) -> Result<String, Failure> {
    let unusable = |cause: &dyn fmt::Display| {
        let folder = data.display();
        Failure::new(format!("cannot use the data folder {folder}: {cause}; choose another one with --data"))
    };
    std::fs::create_dir_all(data).map_err(|error| unusable(&error))?;
    let store = data.join("booking.db");
    match store.to_str() {
        None => Err(unusable(&"its name is not Unicode")),
        // Options of the store begin there.
        Some(path) if path.contains('?') => Err(unusable(&"its name has a question mark")),
        Some(path) => Ok(format!("sqlite:{path}")),
    }
}

async fn bind(listen: SocketAddr) -> Result<TcpListener, Failure> {
    if !listen.ip().to_canonical().is_loopback() {
        let refused = format!(
            "refusing to listen on {listen}: anyone who reaches the port can book and read; use 127.0.0.1 or [::1], \
             with a proxy that checks who comes in front"
        );
        return Err(Failure::new(refused));
    }
    TcpListener::bind(listen).await.map_err(|error| {
        Failure::new(format!(
            "cannot listen on {listen}: {error}; choose another port with --listen, 0 for any"
        ))
    })
}

async fn pages(listener: TcpListener, router: Router, stop: watch::Receiver<bool>) -> std::io::Result<()> {
    let stopped = async move { drop(until_stopped(stop).await) };
    axum::serve(listener, router).with_graceful_shutdown(stopped).await
}

/// All that a process does here that serves no pages.
async fn until_stopped(mut stop: watch::Receiver<bool>) -> std::io::Result<()> {
    // An error means that the sender is gone, which is a stop too.
    let _ = stop.wait_for(|stop| *stop).await;
    Ok(())
}

/// Takes no more requests, finishes those that run, then stops the engine.
async fn wind_down(engine: &Engine, stop: &watch::Sender<bool>, mut pages: JoinHandle<std::io::Result<()>>) {
    stop.send_replace(true);
    if tokio::time::timeout(LAST_REQUESTS, &mut pages).await.is_err() {
        pages.abort();
    }
    if tokio::time::timeout(LAST_WORK, engine.stop()).await.is_err() {
        tracing::warn!("gave up waiting for work to end; it will be done again");
    }
}

/// Tells, on standard output, that the program runs. Whoever started it may have closed that.
fn announce(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Hears Ctrl-C and, on Unix, SIGTERM.
fn signals() -> Result<mpsc::UnboundedReceiver<()>, Failure> {
    let (heard, signals) = mpsc::unbounded_channel();
    let unheard = |error: std::io::Error| Failure::new(format!("cannot listen for signals: {error}"));
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
            let (mut signal, heard) = (signal(kind).map_err(unheard)?, heard.clone());
            tokio::spawn(async move { while signal.recv().await.is_some() && heard.send(()).is_ok() {} });
        }
    }
    #[cfg(not(unix))]
    {
        let _ = unheard;
        tokio::spawn(async move { while tokio::signal::ctrl_c().await.is_ok() && heard.send(()).is_ok() {} });
    }
    Ok(signals)
}
