//! A running `highwater` command.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};

pub(crate) fn highwater(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    command.args(arguments).env_remove("RUST_LOG");
    command
}

/// Runs a command that ends by itself.
pub(crate) fn run(arguments: &[&str]) -> Output {
    highwater(arguments).output().unwrap()
}

/// A demo that runs until it is stopped; killed if the test ends before.
pub(crate) struct Demo {
    child: Child,
    out: BufReader<ChildStdout>,
    /// What it said when it was ready.
    pub(crate) line: String,
}

impl Demo {
    /// Starts it and waits until it says that it runs.
    pub(crate) fn start(data: &Path, more: &[&str]) -> Self {
        let mut arguments = vec!["demo", "--data", data.to_str().unwrap()];
        if !more.contains(&"worker") && !more.contains(&"projector") {
            arguments.extend(["--listen", "127.0.0.1:0"]);
        }
        arguments.extend(more);
        let mut child = highwater(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        Self { child, out, line: line.trim_end().to_owned() }
    }

    /// The address in the line, `127.0.0.1:43919`.
    pub(crate) fn address(&self) -> &str {
        let address =
            self.line.split("http://").nth(1).unwrap_or_else(|| panic!("no address: {}", self.line));
        address.split('/').next().unwrap()
    }

    /// Status line, headers and body of an answer.
    pub(crate) fn get(&self, path: &str) -> String {
        self.get_as(self.address(), path)
    }

    /// The same under another name of the host.
    pub(crate) fn get_as(&self, host: &str, path: &str) -> String {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"))
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> String {
        let kind = "content-type: application/x-www-form-urlencoded";
        let (host, length) = (self.address(), body.len());
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{kind}\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
    }

    fn send(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Asks it to stop, which it must say; returns how it ended and what it wrote to standard error.
    pub(crate) fn stop(mut self, signal: &str) -> (ExitStatus, String) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        let (ended, mut said) = (self.child.wait().unwrap(), String::new());
        self.out.read_to_string(&mut said).unwrap();
        // A process with pages also tells the password that it has made up.
        let said: Vec<_> =
            said.lines().filter(|line| !line.contains("/booking/owner/ opens with ")).collect();
        assert_eq!(said, ["highwater: stopping…", "highwater: stopped"]);
        (ended, log)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
