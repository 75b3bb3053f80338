//! What every step is given: where things are, how the run was asked for, and how to start a program.

use crate::tally::Tally;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A step's result. Its error is a message for a person: nobody tells one failure from another, so it has no type.
pub(crate) type Outcome<T = ()> = Result<T, String>;

/// The feature under which every crate compiles its crash points in. All steps use it, so that what one of them
/// has built serves the next.
const FEATURES: [&str; 2] = ["--features", "failpoints"];

/// What `cargo run` sets for the program it starts. Handed on, it would make build scripts that watch one of these
/// run again, and a build started by hand would not share its results with a build started here.
const LEFT_BY_CARGO: [&str; 3] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"];

/// One run of `cargo xtask`.
pub(crate) struct Context {
    /// The workspace's folder.
    pub(crate) root: PathBuf,
    /// Whether a machine is watching: `CI` is set and is not `false`.
    pub(crate) ci: bool,
    /// Whether the long campaigns were asked for.
    pub(crate) full: bool,
    /// What the test runners have counted.
    pub(crate) tally: Tally,
    scratch: PathBuf,
}

impl Context {
    pub(crate) fn new(full: bool) -> Outcome<Self> {
        let own =
            std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
        let root =
            Path::new(&own).parent().ok_or("this program's package has no workspace around it")?.to_owned();
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir));
        Ok(Self {
            scratch: target.join(format!("xtask-{}", std::process::id())),
            ci: std::env::var("CI").is_ok_and(|ci| !ci.is_empty() && ci != "false"),
            root,
            full,
            tally: Tally::default(),
        })
    }

    /// A program started in the workspace's folder, without input and without what cargo told this one.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| LEFT_BY_CARGO.iter().any(|start| name.starts_with(start))) {
                command.env_remove(name);
            }
        }
        command.env_remove("CARGO");
        if self.ci {
            // What is compiled once gains nothing from being prepared for the second time.
            command.env("CARGO_INCREMENTAL", "0");
        }
        command
    }

    /// `cargo NAME…` over the whole workspace with the crash points in, its lock file fixed.
    pub(crate) fn cargo_workspace(&self, subcommand: &[&str]) -> Command {
        let mut command = self.command("cargo");
        command.args(subcommand).args(["--workspace", "--locked"]).args(FEATURES);
        command
    }

    /// An empty folder that lives as long as this run.
    pub(crate) fn fresh_folder(&self, name: &str) -> Outcome<PathBuf> {
        let folder = self.scratch.join(name);
        std::fs::create_dir_all(&folder).map_err(|why| format!("cannot make {}: {why}", folder.display()))?;
        Ok(folder)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // A folder that cannot be removed spoils no result, and `cargo clean` removes it.
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

/// How a command looks in a message.
pub(crate) fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a command whose output is for the reader, and fails if it fails.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|why| format!("cannot start `{}`: {why}", shown(command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed: {status}", shown(command))) }
}

/// Runs a command for what it says on standard output, with nothing shown. Fails if it fails.
pub(crate) fn said(command: &mut Command) -> Outcome<String> {
    let output = command
        .stderr(Stdio::piped())
        .output()
        .map_err(|why| format!("cannot start `{}`: {why}", shown(command)))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        let why = String::from_utf8_lossy(&output.stderr);
        Err(format!("`{}` failed: {}: {}", shown(command), output.status, why.trim()))
    }
}
