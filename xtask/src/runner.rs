//! The tests, by whichever runner is there, and the examples in the documentation.

use crate::context::{Context, Outcome, shown};
use crate::tally::{Runner, Tally};
use crate::tools;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::process::{Command, Stdio};

/// Which tests are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The kill campaign. It has the machine to itself: it counts processes as dead that are slow for a second.
    Campaign,
    /// All the others.
    Rest,
}

/// The module of the kill campaign's tests.
const CAMPAIGN: &str = "campaign::";

pub(crate) fn run(context: &mut Context, part: Part) -> Outcome {
    let nextest = tools::nextest(context).is_some();
    let tally = if nextest { with_nextest(context, part) } else { with_cargo_test(context, part) }?;
    if tally.passed == 0 { Err("no test was run".to_owned()) } else { Ok(()) }
}

/// The examples always run under `cargo test`: nextest cannot run them.
pub(crate) fn doc_tests(context: &mut Context) -> Outcome {
    let mut command = context.cargo_workspace(&["test", "--doc"]);
    command.arg("--no-fail-fast");
    counted(context, command, Runner::CargoTest).map(drop)
}

fn with_nextest(context: &mut Context, part: Part) -> Outcome<Tally> {
    let mut command = context.cargo_workspace(&["nextest", "run"]);
    command.arg("--no-fail-fast");
    match part {
        Part::Campaign => command.args(["--test-threads", "1", "--filterset", &format!("test({CAMPAIGN})")]),
        Part::Rest => command.args(["--filterset", &format!("not test({CAMPAIGN})")]),
    };
    if context.full {
        command.args(["--profile", "full", "--run-ignored", "all"]);
    }
    if std::io::stderr().is_terminal() {
        command.args(["--color", "always"]);
    }
    counted(context, command, Runner::Nextest)
}

/// The same tests as [`with_nextest`]; there too the benches are left out.
fn with_cargo_test(context: &mut Context, part: Part) -> Outcome<Tally> {
    let mut command = context.cargo_workspace(&["test"]);
    command.args(["--no-fail-fast", "--lib", "--bins", "--tests", "--examples", "--"]);
    match part {
        Part::Campaign => command.args([CAMPAIGN, "--test-threads", "1"]),
        Part::Rest => command.args(["--skip", CAMPAIGN]),
    };
    if context.full {
        command.arg("--include-ignored");
    }
    counted(context, command, Runner::CargoTest)
}

/// Runs a test runner, shows what it says, and counts.
fn counted(context: &mut Context, mut command: Command, runner: Runner) -> Outcome<Tally> {
    let mut tally = Tally::default();
    match runner {
        Runner::CargoTest => command.stdout(Stdio::piped()),
        Runner::Nextest => command.stderr(Stdio::piped()),
    };
    let mut take_in = |line: &str| {
        if let Some(counts) = runner.summary(line) {
            tally.add(counts);
        }
    };
    let mut child = command.spawn().map_err(|why| format!("cannot start `{}`: {why}", shown(&command)))?;
    let read = match (child.stdout.take(), child.stderr.take()) {
        (Some(out), _) => pass_on(out, std::io::stdout(), &mut take_in),
        (_, Some(err)) => pass_on(err, std::io::stderr(), &mut take_in),
        (None, None) => Ok(()),
    };
    let status = child.wait().map_err(|why| format!("lost `{}`: {why}", shown(&command)))?;
    context.tally.add(tally);
    read.map_err(|why| format!("cannot read what `{}` says: {why}", shown(&command)))?;
    match (status.success(), tally.failed) {
        (true, 0) => Ok(tally),
        (_, 0) => Err(format!("`{}` failed: {status}", shown(&command))),
        (_, failed) => Err(format!("{failed} failed of {}", failed + tally.passed)),
    }
}

fn pass_on(from: impl Read, mut to: impl Write, take_in: &mut dyn FnMut(&str)) -> std::io::Result<()> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        take_in(&String::from_utf8_lossy(&line));
        line.clear();
    }
    to.flush()
}
