//! The program itself, in as many processes as a test wants, and a plain client for its pages.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The longest that anything is waited for. Only a test that fails waits so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The pause between two looks at a condition that is waited for.
pub(crate) const POLL: Duration = Duration::from_millis(10);

/// Looks again and again until there is something to see.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(POLL);
    }
}

/// A process of the booking program; killed if the test ends before it does.
pub(crate) struct Process {
    child: Child,
    /// What it said when it was ready.
    pub(crate) line: String,
    errors: Receiver<String>,
    log: Vec<String>,
}

/// The lines of a stream, as they come.
pub(crate) fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, lines) = channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(stream).lines();
        // Read to its end even if nobody listens, so that the writer never waits.
        while let Some(Ok(line)) = lines.next() {
            let _ = tell.send(line);
        }
    });
    lines
}

impl Process {
    /// Starts a process on this data folder and waits until it says that it runs.
    pub(crate) fn start(data: &Path, role: &str, more: &[&str]) -> Self {
        let process = Self::start_to_die(data, role, more, None);
        assert!(!process.line.is_empty(), "the {role} process did not start: {:?}", process.log);
        process
    }

    /// The same, for one that may come to its crash point before it says anything.
    pub(crate) fn start_to_die(data: &Path, role: &str, more: &[&str], crash_point: Option<&str>) -> Self {
        Self::start_with(data, role, more, &[("HIGHWATER_FAILPOINT", crash_point)])
    }

    /// The same, with variables of the environment set or removed.
    pub(crate) fn start_with(
        data: &Path,
        role: &str,
        more: &[&str],
        variables: &[(&str, Option<&str>)],
    ) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_booking"));
        command.args(["--listen", "127.0.0.1:0", "--role", role, "--data"]).arg(data).args(more);
        command.env_remove("RUST_LOG").env_remove("HIGHWATER_FAILPOINT").env_remove("HIGHWATER_SABOTAGE");
        for (name, value) in variables {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (said, errors) = (lines(child.stdout.take().unwrap()), lines(child.stderr.take().unwrap()));
        let mut process = Self { child, line: String::new(), errors, log: Vec::new() };
        let began = Instant::now();
        loop {
            match said.recv_timeout(POLL) {
                Ok(line) => {
                    process.line = line;
                    return process;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    process.log.extend(process.errors.iter());
                    return process;
                }
                Err(RecvTimeoutError::Timeout) => process.log.extend(process.errors.try_iter()),
            }
            if process.log.iter().any(|line| line.starts_with("failpoint ")) {
                return process;
            }
            assert!(began.elapsed() < PATIENCE, "the {role} process does not start: {:?}", process.log);
        }
    }

    /// The address in the line, `127.0.0.1:43919`.
    pub(crate) fn address(&self) -> &str {
        let address =
            self.line.split("http://").nth(1).unwrap_or_else(|| panic!("no address: {}", self.line));
        address.split('/').next().unwrap()
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) fn stop(mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let ended = until("the process ends when asked to", || self.child.try_wait().unwrap());
        self.log.extend(self.errors.iter());
        assert!(ended.success(), "{ended}: {:#?}", self.log);
    }
}

/// What only the tests of crashes need.
#[cfg(feature = "failpoints")]
impl Process {
    /// Waits until it writes this line to standard error.
    pub(crate) fn wait_for_line(&mut self, wanted: &str) {
        let began = Instant::now();
        while !self.log.iter().any(|line| line == wanted) {
            let left = PATIENCE.saturating_sub(began.elapsed());
            match self.errors.recv_timeout(left) {
                Ok(line) => self.log.push(line),
                Err(error) => panic!("it never wrote `{wanted}` ({error}): {:#?}", self.log),
            }
        }
    }

    /// Ends it at once: SIGKILL, where there are signals.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        get(self.address(), path, "").unwrap()
    }

    /// The same, from a reader who has seen this token.
    pub(crate) fn get_at_least(&self, path: &str, token: &highwater::Token) -> Answer {
        get(self.address(), path, &format!("highwater-at-least: {token}\r\n")).unwrap()
    }

    /// Whether it has come to its crash point.
    pub(crate) fn has_reached(&mut self) -> bool {
        self.log.extend(self.errors.try_iter());
        self.log.iter().any(|line| line.starts_with("failpoint "))
    }

    /// Sends it a signal, by its short name.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    /// How it ended and what it last said, if it ended by itself.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().unwrap()?;
        self.log.extend(self.errors.iter());
        let last = self.log.iter().rev().take(3).rev().cloned().collect::<Vec<_>>().join(" / ");
        Some(format!("{status}: {last}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) location: Option<String>,
    pub(crate) body: String,
}

#[cfg(feature = "failpoints")]
pub(crate) fn get(address: &str, path: &str, more: &str) -> std::io::Result<Answer> {
    exchange(address, &format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{more}\r\n"))
}

pub(crate) fn post(address: &str, path: &str, body: &str) -> std::io::Result<Answer> {
    let kind = "content-type: application/x-www-form-urlencoded";
    let length = body.len();
    exchange(
        address,
        &format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{kind}\r\ncontent-length: {length}\r\n\r\n{body}"
        ),
    )
}

fn exchange(address: &str, request: &str) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let broken = || std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "no whole answer");
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(broken)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(broken)?;
    let location = head.lines().find_map(|line| line.strip_prefix("location: "));
    Ok(Answer { status, location: location.map(String::from), body: body.to_owned() })
}
