//! Hands letters to a mail server (SMTP, RFC 5321), once if nothing goes wrong and at least once in any case.
//!
//! The letter in the folder is the mark that it went out. Between the server's word and the mark a process can die; then
//! nobody knows whether the letter went. [`AfterCrash`] says what happens to it. Its `Message-ID` comes from the event, so
//! that a mailbox which drops duplicates shows a letter that went twice once.

use crate::mailbox::{Mailbox, Parked};
use highwater::{EventId, HandlerError, failpoint};
use lettre::address::Envelope;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use std::error::Error;
use std::fmt;
use std::io;
use std::time::{Duration, SystemTime};
use url::Url;

/// How long the server may take for one answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// What becomes of a letter whose sender died when it may or may not have gone out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum AfterCrash {
    /// It is sent again: no guest misses a letter, one may get it twice.
    #[default]
    Resend,
    /// It is set aside for the owner to decide: no guest gets a letter twice, one may wait for it.
    Park,
}

/// A mail server.
#[derive(Clone)]
pub struct Smtp {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    after_crash: AfterCrash,
    /// Its name and port, for people.
    place: String,
}

impl fmt::Debug for Smtp {
    /// Never the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Smtp")
            .field("place", &self.place)
            .field("after_crash", &self.after_crash)
            .finish_non_exhaustive()
    }
}

impl Smtp {
    /// The server that a URL names: `smtp://host:25`, `smtp://host:587?tls=required` (STARTTLS), `smtps://host:465`; user and
    /// password in the URL or given beside it.
    ///
    /// # Errors
    /// A sentence saying what is wrong with it. A password never goes over an open connection to another machine.
    pub fn new(url: &str, login: Option<(String, String)>, after_crash: AfterCrash) -> Result<Self, String> {
        let form = "give it like smtp://host:25, smtp://host:587?tls=required or smtps://host:465";
        let parsed = Url::parse(url).map_err(|_| format!("this is not the URL of a mail server; {form}"))?;
        let host = parsed.host_str().filter(|_| matches!(parsed.scheme(), "smtp" | "smtps"));
        let host = host.ok_or_else(|| format!("this is not the URL of a mail server; {form}"))?;
        let place = parsed.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let encrypted = parsed.scheme() == "smtps" || parsed.query() == Some("tls=required");
        if !encrypted && (login.is_some() || parsed.password().is_some()) && !is_here(host) {
            return Err(format!(
                "a password for {place} would go over an open connection; add ?tls=required or use smtps:"
            ));
        }
        let builder = AsyncSmtpTransport::<Tokio1Executor>::from_url(url);
        let mut builder =
            builder.map_err(|error| format!("the mail server {place}: {}; {form}", causes(&error)))?;
        if let Some((user, password)) = login {
            builder = builder.credentials(Credentials::new(user, password));
        }
        if parsed.path().len() <= 1 {
            builder = builder.hello_name(ClientId::Domain("localhost".into()));
        }
        Ok(Self { transport: builder.timeout(Some(PATIENCE)).build(), after_crash, place })
    }

    /// Sends the letter about an event, unless the folder says that it went out or was set aside.
    ///
    /// # Errors
    /// When the server cannot take it now, or the folder cannot be written.
    pub(crate) async fn deliver(
        &self,
        mailbox: &Mailbox,
        event: &EventId,
        at: SystemTime,
        letter: &Message,
    ) -> Result<(), HandlerError> {
        let (stem, bytes) = (Mailbox::stem(event), letter.formatted());
        if mailbox.is_settled(&stem)? {
            return Ok(());
        }
        let parked = |reason: String| Parked::new(reason, at, letter.envelope());
        if self.after_crash == AfterCrash::Park {
            if mailbox.was_begun(&stem)? {
                let reason = "its sender died while sending it; it may have gone out or not";
                tracing::warn!(letter = stem, reason, "a letter is set aside");
                return Ok(mailbox.park(&stem, &parked(reason.into()), &bytes)?);
            }
            // A server that does not answer at all has taken nothing: no reason to doubt later.
            let here = self.transport.test_connection().await;
            here.map_err(|error| self.failed(&error))?;
            mailbox.begin(&stem)?;
        }
        match self.transport.send_raw(letter.envelope(), &bytes).await {
            Ok(_) => {
                failpoint::hit("mail.sent");
                mailbox.put(event, at, &bytes)?;
                Ok(mailbox.end(&stem)?)
            }
            Err(error) if (error.is_permanent() || error.is_client()) && self.answers().await => {
                let reason = format!("{} refused it: {}", self.place, causes(&error));
                tracing::warn!(letter = stem, reason, "a letter is set aside");
                mailbox.park(&stem, &parked(reason), &bytes)?;
                Ok(mailbox.end(&stem)?)
            }
            Err(error) => {
                // Said no: it has not taken the letter. Said nothing: it may have.
                if error.is_transient() || error.is_permanent() {
                    mailbox.end(&stem)?;
                }
                Err(self.failed(&error))
            }
        }
    }

    /// Sends a letter that was set aside, as the owner has asked. It stays set aside until the server has taken it.
    ///
    /// # Errors
    /// When the folder cannot be read or written.
    pub(crate) async fn send_again(&self, mailbox: &Mailbox, stem: &str) -> io::Result<()> {
        let Some((parked, letter)) = mailbox.claim(stem)? else { return Ok(()) };
        let envelope = parked.envelope().map_err(io::Error::other)?;
        match self.transport.send_raw(&envelope, letter.as_bytes()).await {
            Ok(_) => mailbox.settle(stem, &parked, letter.as_bytes()),
            Err(error) => {
                let reason =
                    format!("{} did not take it when it was sent again: {}", self.place, causes(&error));
                mailbox.park(stem, &Parked { reason, ..parked }, letter.as_bytes())
            }
        }
    }

    /// Whether the server takes letters at all. If not, a refusal was about the connection (a wrong password, no
    /// encryption) and says nothing about the letter.
    async fn answers(&self) -> bool {
        self.transport.test_connection().await.unwrap_or(false)
    }

    fn failed(&self, error: &lettre::transport::smtp::Error) -> HandlerError {
        HandlerError::transient(format!(
            "the mail server {} did not take a letter: {}",
            self.place,
            causes(error)
        ))
    }
}

/// Whether a host is this machine.
fn is_here(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

/// An error with what caused it, in one line.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text.replace(['\r', '\n'], " ")
}

/// Who gets a letter, as the owner's page shows it and as it is sent again.
pub(crate) fn addresses(envelope: &Envelope) -> (Option<String>, Vec<String>) {
    let to = envelope.to().iter().map(ToString::to_string).collect();
    (envelope.from().map(ToString::to_string), to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_goes_over_an_open_connection_on_this_machine_only() {
        let new = |url: &str, login: Option<(&str, &str)>| {
            let login = login.map(|(user, password)| (user.to_owned(), password.to_owned()));
            Smtp::new(url, login, AfterCrash::Resend).map(|smtp| format!("{smtp:?}"))
        };
        for url in [
            "smtp://localhost:25",
            "smtp://mail.example.org",
            "smtp://u:secret@127.0.0.1:2525",
            "smtp://u:secret@mail.example.org?tls=required",
            "smtps://u:secret@mail.example.org",
        ] {
            let shown = new(url, None).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert!(!shown.contains("secret"), "{shown}");
        }
        assert!(new("smtp://u:secret@mail.example.org", None).unwrap_err().contains("open connection"));
        assert!(new("smtp://u:secret@mail.example.org?tls=opportunistic", None).is_err());
        assert!(
            new("smtp://mail.example.org", Some(("u", "secret"))).unwrap_err().contains("open connection")
        );
        for url in ["", "mail.example.org", "http://mail.example.org", "smtp://", "smtp://h?tls=maybe"] {
            assert!(new(url, None).unwrap_err().contains("give it like smtp://host:25"), "{url}");
        }
    }
}
