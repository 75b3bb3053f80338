//! Letters that go out: to a mail server of our own that can refuse, stall and die.

use crate::owner::Owner;
use crate::site::{DAY, Site};
use booking::{AfterCrash, Smtp};
use highwater::Engine;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the server does with a letter once it has it whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// 250.
    Take,
    /// 451: not at the moment.
    NotNow,
    /// 550: never.
    Never,
    /// It takes the letter and the connection breaks before it says so.
    TakeAndBreak,
}

/// A mail server on a port of this machine (RFC 5321, as far as letters need it).
pub(crate) struct Server {
    pub(crate) port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    answers: Mutex<VecDeque<Answer>>,
    taken: Mutex<Vec<String>>,
}

impl Server {
    pub(crate) fn start(answers: &[Answer]) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), answers)
    }

    fn on(listener: TcpListener, answers: &[Answer]) -> Self {
        let port = listener.local_addr().unwrap().port();
        let state =
            Arc::new(State { answers: Mutex::new(answers.iter().copied().collect()), ..State::default() });
        let shared = state.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, state) = (stream.unwrap(), shared.clone());
                // A client that goes away ends its own conversation only.
                std::thread::spawn(move || drop(state.talk(stream)));
            }
        });
        Self { port, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("smtp://127.0.0.1:{}", self.port)
    }

    /// The letters that it took, whole, the recipient in the first line.
    pub(crate) fn taken(&self) -> Vec<String> {
        self.state.taken.lock().unwrap().clone()
    }
}

impl State {
    fn talk(&self, stream: TcpStream) -> std::io::Result<()> {
        let (mut lines, mut out) = (BufReader::new(stream.try_clone()?).lines(), stream);
        let (mut from, mut to) = (String::new(), String::new());
        write!(out, "220 test ESMTP\r\n")?;
        while let Some(line) = lines.next().transpose()? {
            let verb = line.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
            match &*verb {
                "EHLO" => write!(out, "250-test\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n")?,
                "MAIL" => {
                    from = line;
                    write!(out, "250 OK\r\n")?;
                }
                "RCPT" if from.is_empty() => write!(out, "503 MAIL first\r\n")?,
                "RCPT" => {
                    to = line;
                    write!(out, "250 OK\r\n")?;
                }
                "DATA" if to.is_empty() => write!(out, "503 RCPT first\r\n")?,
                "DATA" => {
                    write!(out, "354 Go on\r\n")?;
                    let mut letter = format!("{to}\n");
                    for line in lines.by_ref() {
                        let line = line?;
                        if line == "." {
                            break;
                        }
                        letter.push_str(line.strip_prefix('.').unwrap_or(&line));
                        letter.push('\n');
                    }
                    let answer = self.answers.lock().unwrap().pop_front().unwrap_or(Answer::Take);
                    if matches!(answer, Answer::Take | Answer::TakeAndBreak) {
                        self.taken.lock().unwrap().push(letter);
                    }
                    match answer {
                        Answer::Take => write!(out, "250 OK\r\n")?,
                        Answer::NotNow => write!(out, "451 4.3.0 Not now\r\n")?,
                        Answer::Never => write!(out, "550 5.7.1 We do not like <you>\r\n")?,
                        Answer::TakeAndBreak => return Ok(()),
                    }
                }
                "QUIT" => {
                    write!(out, "221 Bye\r\n")?;
                    return Ok(());
                }
                "NOOP" | "RSET" => write!(out, "250 OK\r\n")?,
                _ => write!(out, "502 What?\r\n")?,
            }
        }
        Ok(())
    }
}

pub(crate) fn message_id(letter: &str) -> &str {
    letter.lines().find_map(|line| line.strip_prefix("Message-ID: ")).unwrap()
}

async fn site(url: &str, after_crash: AfterCrash) -> Site {
    let smtp = Smtp::new(url, None, after_crash).unwrap();
    Site::with(Engine::in_memory(), 10, |settings| settings.smtp = Some(smtp)).await
}

/// Lets the site work, and says whether anything failed.
async fn fails(site: &Site) -> bool {
    !site.engine.settle().await.unwrap().trouble().is_empty()
}

fn later(site: &Site) {
    site.engine.clock().unwrap().advance(Duration::from_secs(60));
}

#[tokio::test]
async fn a_letter_goes_out_once_under_the_id_of_its_event() {
    let server = Server::start(&[]);
    let site = site(&server.url(), AfterCrash::Resend).await;
    let id = site.book(DAY, 2).await;
    site.settle().await;
    let taken = server.taken();
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert!(taken[0].starts_with(&format!("RCPT TO:<{id}@example.org>")), "{}", taken[0]);
    assert_eq!(message_id(&taken[0]), "<capacity_2026-12-24_2026-12-24_1_0@booking.local>");
    assert!(taken[0].contains("http://tables.example.org/booking/cancel/"), "{}", taken[0]);
    assert_eq!(site.letters(), ["capacity_2026-12-24_2026-12-24_1_0.eml"]);
    let elsewhere = Engine::in_memory().start().await.unwrap();
    let subscriber = booking::mail::subscriber(&site.settings).lease_store(elsewhere.backend().cells.clone());
    let clock = site.engine.clock().unwrap().clone();
    let again = Engine::driven_on(site.engine.backend().clone(), clock).processor(subscriber);
    let settled = again.start().await.unwrap().settle().await.unwrap();
    assert!(
        settled.trouble().is_empty() && !settled.steps.is_empty(),
        "it ran from the beginning: {settled:?}"
    );
    assert_eq!(server.taken().len(), 1, "and sent nothing again");
    let hidden = site.get("/booking/mails").await;
    assert_eq!(hidden.status, axum::http::StatusCode::FORBIDDEN, "real letters are for their readers alone");
}

#[tokio::test]
async fn a_server_that_is_busy_or_away_gets_the_letter_later() {
    for policy in [AfterCrash::Resend, AfterCrash::Park] {
        let server = Server::start(&[Answer::NotNow, Answer::NotNow]);
        let site = site(&server.url(), policy).await;
        site.book(DAY, 2).await;
        for _ in 0..2 {
            assert!(fails(&site).await, "it is told as a failure");
            assert!(server.taken().is_empty() && site.letters().is_empty());
            later(&site);
        }
        assert!(!fails(&site).await);
        assert_eq!((server.taken().len(), site.letters().len()), (1, 1), "{policy:?}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_gets_the_letter_when_it_is_back() {
    for policy in [AfterCrash::Resend, AfterCrash::Park] {
        let place = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = place.local_addr().unwrap();
        drop(place);
        let site = site(&format!("smtp://{address}"), policy).await;
        site.book(DAY, 2).await;
        assert!(fails(&site).await);
        let server = Server::on(TcpListener::bind(address).unwrap(), &[]);
        later(&site);
        assert!(!fails(&site).await);
        assert_eq!(server.taken().len(), 1, "{policy:?}");
    }
}

#[tokio::test]
async fn a_letter_that_is_refused_for_good_is_set_aside_shown_and_sent_again_when_asked() {
    let server = Server::start(&[Answer::Never]);
    let site = site(&server.url(), AfterCrash::Resend).await;
    let refused = site.book(DAY, 1).await;
    site.settle().await;
    site.book(DAY, 2).await;
    site.settle().await;
    assert_eq!(server.taken().len(), 1, "others go on");
    let owner = Owner::log_in(&site).await;
    let page = owner.get("/booking/owner/").await.body;
    assert!(page.contains("Letters that did not go out"), "{page}");
    assert!(
        page.contains(&format!("{refused}@example.org")) && page.contains("We do not like &lt;you&gt;"),
        "{page}"
    );
    let stem = "capacity_2026-12-24_2026-12-24_1_0";
    let asked = owner.send_again(stem).await;
    assert_eq!(asked.status, axum::http::StatusCode::SEE_OTHER, "{}", asked.body);
    assert_eq!(owner.send_again(stem).await.status, axum::http::StatusCode::NOT_FOUND, "it is on its way");
    assert_eq!(owner.send_again("../secret").await.status, axum::http::StatusCode::NOT_FOUND);
    let sending = booking::mail::send_again(site.settings.clone());
    let sent = async {
        while site.letters().len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::processes::PATIENCE, async {
        tokio::select! { () = sending => {} () = sent => {} }
    })
    .await
    .expect("it is sent");
    assert_eq!(server.taken().len(), 2);
    assert!(!owner.get("/booking/owner/").await.body.contains("did not go out"));
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_answer_leaves_the_choice_to_the_policy() {
    let server = Server::start(&[Answer::TakeAndBreak]);
    let site_that_resends = site(&server.url(), AfterCrash::Resend).await;
    site_that_resends.book(DAY, 1).await;
    assert!(fails(&site_that_resends).await);
    later(&site_that_resends);
    assert!(!fails(&site_that_resends).await);
    let taken = server.taken();
    assert_eq!(taken.len(), 2);
    assert_eq!(message_id(&taken[0]), message_id(&taken[1]), "a mailbox can tell that they are one");

    let server = Server::start(&[Answer::TakeAndBreak]);
    let site = site(&server.url(), AfterCrash::Park).await;
    site.book(DAY, 1).await;
    assert!(fails(&site).await);
    later(&site);
    assert!(!fails(&site).await);
    assert_eq!(server.taken().len(), 1);
    let page = Owner::log_in(&site).await.get("/booking/owner/").await.body;
    assert!(page.contains("it may have gone out or not"), "{page}");
}

/// The real thing: the program is killed between the server's word and its own mark.
#[cfg(feature = "failpoints")]
#[test]
fn a_process_that_dies_between_sending_and_marking_sends_again_or_sets_aside() {
    use crate::processes::{Process, post, until};
    for (policy, letters) in [("resend", 2), ("park", 1)] {
        let server = Server::start(&[]);
        let folder = tempfile::tempdir().unwrap();
        let url = server.url();
        let options = ["--smtp", &url, "--mail-after-crash", policy, "--takeover", "2"];
        let mut dying = Process::start_to_die(folder.path(), "all", &options, Some("mail.sent"));
        let id = highwater::CommandId::random();
        let body = format!("id={id}&date=2999-12-24&name=Ada&email=ada%40example.org&quantity=2");
        assert_eq!(post(dying.address(), "/booking/", &body).unwrap().status, 303);
        dying.wait_for_line("failpoint mail.sent reached");
        dying.kill();
        assert_eq!(server.taken().len(), 1);
        let mail = folder.path().join("mail");
        let stem = "capacity_2999-12-24_2999-12-24_1_0";
        assert!(!mail.join(format!("{stem}.eml")).exists());
        let next = Process::start(folder.path(), "all", &options);
        let ending = if policy == "park" { "parked" } else { "eml" };
        until("it is known what became of the letter", || {
            mail.join(format!("{stem}.{ending}")).exists().then_some(())
        });
        let taken = server.taken();
        assert_eq!(taken.len(), letters, "{policy}");
        assert!(taken.iter().all(|letter| message_id(letter) == format!("<{stem}@booking.local>")));
        next.stop();
    }
}
