//! Starts a program that serves the booking site, and stops it cleanly. Whatever keeps it from running becomes
//! one line on standard error and an exit code.

use crate::web::only_for_hosts;
use crate::{AfterCrash, Links, Mailbox, Password, Restaurant, Settings, Smtp, install, mail};
use axum::Router;
use axum::http::uri::Authority;
use clap::{Args, ValueEnum};
use highwater::{Engine, EngineBuilder, LeaseTimes, Role, WorkerOptions};
use highwater_axum::SigningKeys;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::net::{Ipv4Addr, SocketAddr};
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
    /// How many seats the restaurant has a day, 1 to 200; give all processes of one data folder the same
    #[arg(long, default_value_t = Restaurant::DEFAULT_SEATS,
        value_parser = clap::value_parser!(u32).range(1..=200))]
    seats: u32,
    /// The restaurant's time zone; give all processes of one data folder the same
    #[arg(long, value_name = "NAME", default_value = Restaurant::DEFAULT_ZONE)]
    zone: String,
    /// When a process dies, the others take over its work after so many seconds, 1 to 300; without this option after
    /// 5 for views and mail and after 30 for commands. Too few, and a process that is only slow loses its work
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..=300))]
    takeover: Option<u16>,
    /// Another name that browsers may use for this site besides localhost, 127.0.0.1 and [::1]; can be repeated.
    /// For a proxy in front, which has to pass the Host header on
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    allow_host: Vec<String>,
    /// Where guests reach the site, for the links in letters, like `https://tables.example.org`; give all processes of one
    /// data folder the same. Without it letters link to where this process listens, or would by default
    #[arg(long, value_name = "URL", value_parser = site)]
    site: Option<String>,
    /// The file with the password of the owner's page, one line; others must not be able to read it. Without it the
    /// password can stand in the variable BOOKING_OWNER_PASSWORD
    #[arg(long, value_name = "FILE")]
    owner_password_file: Option<PathBuf>,
    /// The mail server that letters are handed to: smtp://host:25, smtp://host:587?tls=required (STARTTLS) or
    /// smtps://host:465. User and password stand in the URL (smtps://user:password@host) or, hidden from others on the
    /// machine, in the variables BOOKING_SMTP_USER and BOOKING_SMTP_PASSWORD. Without it letters stay in the data folder
    #[arg(long, value_name = "URL")]
    smtp: Option<String>,
    /// What becomes of a letter whose sender died when it may or may not have gone out
    #[arg(long, value_enum, default_value_t, requires = "smtp")]
    mail_after_crash: AfterCrash,
    /// Who signs the letters, like "The Table <tables@example.org>"; give all processes of one data folder the same
    #[arg(long, value_name = "ADDRESS", default_value = mail::SENDER, value_parser = sender)]
    mail_from: lettre::message::Mailbox,
    /// The password if none was chosen.
    #[arg(skip)]
    made_up: Option<Password>,
}

/// The variable that the owner's password can stand in. Not an option: others on the machine see those.
const PASSWORD_VARIABLE: &str = "BOOKING_OWNER_PASSWORD";

/// The file with the keys that sign cookies and links, in the data folder.
const KEYS: &str = "signing-keys.txt";

/// Reads who signs the letters.
fn sender(text: &str) -> Result<lettre::message::Mailbox, String> {
    text.parse().map_err(|_| "give an address like \"The Table <tables@example.org>\"".into())
}

/// Reads the address of a site: scheme and host, nothing behind them.
fn site(text: &str) -> Result<String, String> {
    let site = text.trim_end_matches('/');
    let host = site.strip_prefix("https://").or_else(|| site.strip_prefix("http://"));
    let host =
        host.and_then(|host| host.parse::<Authority>().ok()).filter(|host| !host.as_str().contains('@'));
    host.map(|_| site.to_owned())
        .ok_or_else(|| "give a URL without a path, like https://tables.example.org".into())
}

/// Reads where to listen: an address with a port, `localhost` with a port, or the port alone.
///
/// # Errors
/// A sentence with an example.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let port = match text.rsplit_once(':') {
        None => Some(text),
        Some((host, port)) if host.is_empty() || host.eq_ignore_ascii_case("localhost") => Some(port),
        Some(_) => None,
    };
    let here = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let read = port.map_or_else(|| text.parse().ok(), |port| port.parse().ok().map(here));
    read.ok_or_else(|| "give an address of this machine with a port, like 127.0.0.1:7311, or the port".into())
}

/// Reads the name of a host, without a port.
fn host_name(text: &str) -> Result<String, String> {
    let name = text.parse().ok().filter(|name: &Authority| name.host() == text && text != "*");
    name.map(|name| name.to_string())
        .ok_or_else(|| "give a name without port, like tables.example.org".into())
}

impl Options {
    /// Where to listen: as asked, or else there.
    ///
    /// # Errors
    /// A wrong use, if that was asked of a role that serves nothing.
    pub fn place(&self, asked: Option<SocketAddr>, otherwise: SocketAddr) -> Result<SocketAddr, Failure> {
        if asked.is_some() && !self.role.listens() {
            let role = self.role.name();
            return Err(Failure::usage(format!("the role {role} serves no pages; leave --listen out")));
        }
        Ok(asked.unwrap_or(otherwise))
    }

    /// Makes a password for the owner's page up, and tells it at the start, if none is chosen: for trying things out.
    #[must_use]
    pub fn making_a_password_up(&self) -> Self {
        let random = uuid::Uuid::new_v4().simple().to_string();
        let made_up = random.get(..16).and_then(|random| Password::new(random).ok());
        Self { made_up, ..self.clone() }
    }

    /// The mail server, if there is one.
    fn smtp(&self) -> Result<Option<Smtp>, Failure> {
        let Some(url) = &self.smtp else { return Ok(None) };
        let variable = |name: &str| match std::env::var(name) {
            Ok(value) => Ok(Some(value)),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(error) => Err(Failure::usage(format!("{name}: {error}"))),
        };
        let login = match (variable("BOOKING_SMTP_USER")?, variable("BOOKING_SMTP_PASSWORD")?) {
            (None, None) => None,
            (Some(user), Some(password)) => Some((user, password)),
            _ => return Err(Failure::usage("set BOOKING_SMTP_USER and BOOKING_SMTP_PASSWORD, or neither")),
        };
        Smtp::new(url, login, self.mail_after_crash)
            .map(Some)
            .map_err(|fault| Failure::usage(format!("--smtp: {fault}")))
    }

    /// The owner's password, if there is one.
    fn password(&self) -> Result<Option<Password>, Failure> {
        let text = match &self.owner_password_file {
            None => match std::env::var(PASSWORD_VARIABLE) {
                Ok(text) => text,
                Err(std::env::VarError::NotPresent) => return Ok(self.made_up.clone()),
                Err(error) => return Err(Failure::usage(format!("{PASSWORD_VARIABLE}: {error}"))),
            },
            Some(file) => {
                let unusable = |cause: &dyn fmt::Display| {
                    Failure::usage(format!("cannot use {}: {cause}", file.display()))
                };
                if is_exposed(file).map_err(|error| unusable(&error))? {
                    return Err(unusable(&"others can read it; take that from them (chmod 600)"));
                }
                std::fs::read_to_string(file).map_err(|error| unusable(&error))?
            }
        };
        Password::new(&text).map(Some).map_err(Failure::usage)
    }

    /// Sets how soon the work of a process that died is taken over, if that was asked for.
    fn taking_over(&self, builder: EngineBuilder) -> EngineBuilder {
        let Some(seconds) = self.takeover else { return builder };
        let after = Duration::from_secs(seconds.into());
        let mut commands = WorkerOptions::default();
        commands.visibility = after;
        builder.lease_times(LeaseTimes::new(after / 5, after / 5, after)).worker(commands)
    }
}

/// Whether others than its owner can read a file.
fn is_exposed(file: &Path) -> std::io::Result<bool> {
    let about = std::fs::metadata(file)?;
    #[cfg(unix)]
    let exposed = std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o077 != 0;
    // Elsewhere the folder's access list decides, which this program does not read.
    #[cfg(not(unix))]
    let exposed = {
        let _ = about;
        false
    };
    Ok(exposed)
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

    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |role| role.get_name().into())
    }

    /// Whether it writes mail.
    fn writes(self) -> bool {
        matches!(self, Self::All | Self::Projector)
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

    /// Writes the line to standard error and returns the exit code.
    pub fn tell(&self) -> ExitCode {
        let _ = writeln!(std::io::stderr(), "error: {self}");
        ExitCode::from(self.code)
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
    result.map_or_else(|failure| failure.tell(), |()| ExitCode::SUCCESS)
}

fn start_log() -> Result<(), Failure> {
    let wanted = std::env::var("RUST_LOG").unwrap_or_default();
    let wanted = if wanted.trim().is_empty() { LOGGED.to_owned() } else { wanted };
    let filter = EnvFilter::builder().parse(&wanted);
    let filter = filter.map_err(|error| Failure::usage(format!("RUST_LOG is not a filter: {error}")))?;
    // Colours are for people who look at a terminal and do not object (no-color.org).
    let colours =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    log.try_init().map_err(Failure::new)
}

async fn serve<S>(name: &str, listen: SocketAddr, options: &Options, site: S) -> Result<(), Failure>
where
    S: FnOnce(Engine, Settings) -> Result<Router, Failure>,
{
    let mut signals = signals()?;
    let restaurant = Restaurant::new(&options.zone, options.seats).map_err(Failure::usage)?;
    let listener = if options.role.listens() { Some(bind(listen).await?) } else { None };
    let (url, owner) = (store_url(&options.data)?, options.password()?);
    let made_up = options.made_up.clone().filter(|made_up| owner.as_ref() == Some(made_up));
    let keys = SigningKeys::in_file(&options.data.join(KEYS)).map_err(Failure::new)?;
    let here = match &listener {
        Some(listener) => listener.local_addr().map_err(Failure::new)?,
        None => listen,
    };
    let links = Links::new(keys, options.site.clone().unwrap_or_else(|| format!("http://{here}")));
    let mailbox = Mailbox::in_folder(options.data.join("mail"));
    let (smtp, sender) = (options.smtp()?, options.mail_from.clone());
    let settings = Settings { restaurant, mailbox, links, smtp, sender, owner };
    let builder = options.taking_over(Engine::open(url).role(options.role.role()).instance(name));
    let engine = install(builder, &settings).start().await.map_err(Failure::new)?;
    let sender = options.role.writes().then(|| settings.clone());
    let send_again = async move {
        match sender {
            Some(settings) => mail::send_again(settings).await,
            None => std::future::pending().await,
        }
    };
    let (stop, stopped) = watch::channel(false);
    let mut pages = match listener {
        Some(listener) => {
            let address = listener.local_addr().map_err(Failure::new)?;
            let router = only_for_hosts(site(engine.clone(), settings)?, options.allow_host.clone());
            let pages = tokio::spawn(pages(listener, router, stopped));
            announce(&format!("{name}: http://{address}/ (Ctrl-C stops it)"));
            if let Some(password) = made_up {
                let password = password.tell();
                announce(&format!(
                    "{name}: the owner's page http://{address}/booking/owner/ opens with {password}"
                ));
            }
            pages
        }
        None => {
            let role = options.role.name();
            announce(&format!("{name}: running as {role} on {} (Ctrl-C stops it)", options.data.display()));
            tokio::spawn(until_stopped(stopped))
        }
    };
    let result = tokio::select! {
        () = send_again => Ok(()),
        _ = signals.recv() => {
            announce(&format!("{name}: stopping…"));
            Ok(())
        }
        stopped = engine.failed() => Err(Failure::new(format!("stopped, going on would do harm: {}", stopped.reason))),
        ended = &mut pages => Err(Failure::new(match ended {
            Ok(Err(error)) => format!("the pages cannot be served any more: {error}"),
            _ => "the pages cannot be served any more".into(),
        })),
    };
    tokio::select! {
        () = wind_down(&engine, &stop, pages) => {
            if result.is_ok() {
                announce(&format!("{name}: stopped"));
            }
            result
        }
        _ = signals.recv() => Err(Failure::new("stopped at once; what was begun will be done again")),
    }
}

/// Where the store lies in the data folder, which is made if need be.
fn store_url(data: &Path) -> Result<String, Failure> {
    let unusable = |cause: &dyn fmt::Display| {
        let folder = data.display();
        Failure::new(format!("cannot use the data folder {folder}: {cause}; choose another one with --data"))
    };
    let store = data.join("booking.db");
    let url = match store.to_str() {
        None => return Err(unusable(&"its name is not Unicode")),
        // Options of the store begin there.
        Some(path) if path.contains('?') => return Err(unusable(&"its name has a question mark")),
        Some(path) => format!("sqlite:{path}"),
    };
    if data.is_file() {
        return Err(unusable(&"it is a file, a folder is needed"));
    }
    std::fs::create_dir_all(data).map_err(|error| unusable(&error))?;
    Ok(url)
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

/// Tells, on standard output, that the program runs or stops. Whoever started it may have closed that.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_listen_can_be_said_in_short() {
        for (text, wanted) in [
            ("7311", "127.0.0.1:7311"),
            (":7311", "127.0.0.1:7311"),
            ("localhost:7311", "127.0.0.1:7311"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("[::1]:7311", "[::1]:7311"),
            ("192.0.2.1:80", "192.0.2.1:80"),
        ] {
            assert_eq!(address(text), Ok(wanted.parse().unwrap()), "{text}");
        }
        for text in ["", "nowhere", "localhost", "localhost:", "65536", "127.0.0.1", "example.org:80", "::1"]
        {
            assert!(address(text).unwrap_err().contains("like 127.0.0.1:7311"), "{text}");
        }
    }

    #[test]
    fn a_host_that_is_allowed_is_a_name_and_nothing_more() {
        for name in ["tables.example.org", "TABLES", "192.0.2.1", "[2001:db8::1]"] {
            assert_eq!(host_name(name), Ok(name.into()));
        }
        for name in ["", "a:80", "http://a", "a/b", "me@a", "a b", "*"] {
            assert!(host_name(name).is_err(), "{name}");
        }
    }
}
