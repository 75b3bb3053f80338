//! A demo started by the README's command, asked for pages over HTTP, and interrupted as Ctrl-C does it.

use crate::context::{Context, Outcome};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// From the start to the line with the address; generous, since a machine may be busy.
const UP_WITHIN: Duration = Duration::from_secs(60);
/// From SIGINT to the exit.
const DOWN_WITHIN: Duration = Duration::from_secs(20);
/// For one page.
const PAGE_WITHIN: Duration = Duration::from_secs(10);
/// A page is never larger, in bytes.
const PAGE_LIMIT: u64 = 4 << 20;

pub(crate) struct Demo {
    process: Child,
    lines: Receiver<String>,
    log: Vec<String>,
    address: SocketAddr,
}

impl Demo {
    /// Starts `command` on a free port with its data in `data`, and waits until it says where it listens.
    pub(crate) fn start(context: &Context, command: &str, data: &Path) -> Outcome<Self> {
        // `exec` here and in `cargo run` make the program itself the process that is interrupted below.
        let mut process = context
            .command("sh")
            .args(["-c", &format!("exec {command} \"$@\""), "sh", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|why| format!("cannot start `{command}`: {why}"))?;
        let (sender, lines) = channel();
        if let Some(out) = process.stdout.take() {
            send_lines(out, sender.clone());
        }
        if let Some(err) = process.stderr.take() {
            send_lines(err, sender);
        }
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut demo = Self { process, lines, log: Vec::new(), address: unknown };
        let deadline = Instant::now() + UP_WITHIN;
        loop {
            match demo.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    let address = address_in(&line);
                    demo.log.push(line);
                    if let Some(address) = address {
                        demo.address = address;
                        return Ok(demo);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let limit = UP_WITHIN.as_secs();
                    return Err(
                        demo.complaint(&format!("`{command}` named no http address within {limit} s"))
                    );
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(demo.complaint(&format!("`{command}` ended before it was up")));
                }
            }
        }
    }

    /// Fetches a page that must be there and must not be empty.
    pub(crate) fn get(&mut self, path: &str) -> Outcome {
        let answer = fetch(self.address, path);
        let fault = match answer {
            Ok((200, body)) if !body.is_empty() => return Ok(()),
            Ok((200, _)) => format!("GET {path} answered an empty page"),
            Ok((status, _)) => format!("GET {path} answered {status}, not 200"),
            Err(why) => format!("GET {path}: {why}"),
        };
        Err(self.complaint(&fault))
    }

    /// Interrupts the demo and expects it to end soon, with exit code 0.
    pub(crate) fn interrupt(mut self) -> Outcome {
        let kill = format!("kill -INT {}", self.process.id());
        let sent = std::process::Command::new("sh").args(["-c", &kill]).status();
        if !sent.is_ok_and(|status| status.success()) {
            return Err(self.complaint("the demo was gone before it was interrupted"));
        }
        let deadline = Instant::now() + DOWN_WITHIN;
        while Instant::now() < deadline {
            match self.process.try_wait().map_err(|why| format!("lost the demo: {why}"))? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    return Err(self.complaint(&format!("interrupted, the demo ended with {status}")));
                }
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        Err(self.complaint(&format!("interrupted, the demo went on for {} s", DOWN_WITHIN.as_secs())))
    }

    /// The fault, and the last things the demo said.
    fn complaint(&mut self, fault: &str) -> String {
        self.log.extend(self.lines.try_iter());
        let last = &self.log[self.log.len().saturating_sub(20)..];
        format!("{fault}; it said:\n    {}", last.join("\n    "))
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // Both fail only for a process that has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn send_lines(from: impl Read + Send + 'static, to: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            if to.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
}

/// The address in a line such as `Highwater is up: http://127.0.0.1:7300/`.
fn address_in(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("http://127.0.0.1:")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let port = digits.parse::<u16>().ok().filter(|port| *port != 0)?;
    Some(SocketAddr::from(([127, 0, 0, 1], port)))
}

fn fetch(address: SocketAddr, path: &str) -> Result<(u16, Vec<u8>), String> {
    let failed = |why: std::io::Error| why.to_string();
    let mut stream = TcpStream::connect_timeout(&address, PAGE_WITHIN).map_err(failed)?;
    stream.set_read_timeout(Some(PAGE_WITHIN)).map_err(failed)?;
    stream.set_write_timeout(Some(PAGE_WITHIN)).map_err(failed)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = Vec::new();
    stream.take(PAGE_LIMIT).read_to_end(&mut answer).map_err(failed)?;
    parse(&answer).ok_or_else(|| "the answer is not HTTP".to_owned())
}

/// Status and raw body of an HTTP answer.
fn parse(answer: &[u8]) -> Option<(u16, Vec<u8>)> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer[end + 4..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_address_is_found_in_a_line_for_people() {
        assert_eq!(
            address_in("up: http://127.0.0.1:7300/, stop with Ctrl-C").map(|at| at.port()),
            Some(7300)
        );
        assert_eq!(address_in("listening on http://127.0.0.1:0/"), None);
        assert_eq!(address_in("   Compiling highwater-cli"), None);
    }

    #[test]
    fn an_answer_is_taken_apart() {
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\nx: y\r\n\r\nhello"), Some((200, b"hello".to_vec())));
        assert_eq!(parse(b"HTTP/1.1 404 Not Found\r\n\r\n"), Some((404, Vec::new())));
        assert_eq!(parse(b"nonsense"), None);
    }

    #[test]
    fn a_demo_is_started_asked_and_interrupted() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let answers = ["HTTP/1.1 200 OK\r\n\r\nhello", "HTTP/1.1 404 Not Found\r\n\r\nnothing"];
        let serving = std::thread::spawn(move || answers.map(|answer| answer_once(&server, answer)));

        let mut demo = start(&format!("trap \"exit 0\" INT; echo up: http://{address}/; {WAIT}")).unwrap();
        demo.get("/").unwrap();
        let fault = demo.get("/booking/").unwrap_err();
        assert!(fault.contains("404") && fault.contains("up: "), "{fault}");
        demo.interrupt().unwrap();
        assert_eq!(serving.join().unwrap(), ["GET / HTTP/1.1", "GET /booking/ HTTP/1.1"]);
    }

    #[test]
    fn a_demo_that_dies_of_the_interruption_has_failed() {
        let demo = start(&format!("echo up: http://127.0.0.1:9/; {WAIT}")).unwrap();
        let fault = demo.interrupt().unwrap_err();
        assert!(fault.contains("ended with"), "{fault}");
    }

    #[test]
    fn a_program_that_ends_early_is_reported_with_what_it_said() {
        let fault = start("echo no such folder").err().unwrap();
        assert!(fault.contains("ended before it was up") && fault.contains("no such folder"), "{fault}");
    }

    const WAIT: &str = "while :; do sleep 0.05; done";

    /// Starts a shell script in the place of a demo.
    fn start(script: &str) -> Outcome<Demo> {
        Demo::start(&Context::new(false).unwrap(), &format!("sh -c '{script}' sh"), Path::new("unused"))
    }

    /// Serves one request and returns its first line.
    fn answer_once(server: &TcpListener, answer: &str) -> String {
        let mut lines = BufReader::new(server.accept().unwrap().0);
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let first = line.trim().to_owned();
        while !line.trim().is_empty() {
            line.clear();
            lines.read_line(&mut line).unwrap();
        }
        lines.get_mut().write_all(answer.as_bytes()).unwrap();
        first
    }
}
