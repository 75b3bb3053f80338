//! The steps of `cargo xtask test`, their order, and the run that announces and times them.
//!
//! What fails fastest comes first. The tests come last, so that their runner's summary closes the log; the run then
//! prints one line that adds up all runners.

use crate::context::{Context, Outcome};
use crate::{checks, files, readme, runner, tools};
use clap::ValueEnum;
use std::time::{Duration, Instant};

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    /// What the other steps need is there, or is installed
    Tools,
    /// The code is formatted
    Fmt,
    /// The files are fit for a public repository
    Files,
    /// The lints are silent
    Clippy,
    /// The documentation builds without a warning
    Docs,
    /// The examples in the documentation run
    DocTests,
    /// The README's commands do what it says
    Readme,
    /// Processes that are killed and paused everywhere break nothing
    Campaign,
    /// The other tests pass: unit, conformance, integration, app and browser
    Test,
}

impl Step {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(|| format!("{self:?}"), |value| value.get_name().to_owned())
    }

    fn run(self, context: &mut Context) -> Outcome {
        match self {
            Self::Tools => tools::run(context),
            Self::Fmt => checks::fmt(context),
            Self::Files => files::run(context),
            Self::Clippy => checks::clippy(context),
            Self::Docs => checks::docs(context),
            Self::DocTests => runner::doc_tests(context),
            Self::Readme => readme::run(context),
            Self::Campaign => runner::run(context, runner::Part::Campaign),
            Self::Test => runner::run(context, runner::Part::Rest),
        }
    }
}

/// Runs the steps in `only`, or all of them if it is empty, up to the first that fails.
pub(crate) fn run(context: &mut Context, only: &[Step]) -> Outcome {
    let steps: Vec<Step> = Step::value_variants()
        .iter()
        .copied()
        .filter(|step| only.is_empty() || only.contains(step))
        .collect();
    let began = Instant::now();
    let mut times = Vec::new();
    let mut failure = None;
    for (index, step) in steps.iter().enumerate() {
        let name = step.name();
        println!("==> [{}/{}] {name}", index + 1, steps.len());
        let started = Instant::now();
        let outcome = step.run(context);
        let took = seconds(started.elapsed());
        match outcome {
            Ok(()) => {
                println!("<== {name}: ok in {took}");
                times.push(format!("{name} {took}"));
            }
            Err(why) => {
                println!("<== {name}: FAILED after {took}");
                failure = Some((name, why, &steps[index + 1..]));
                break;
            }
        }
    }
    println!();
    if !times.is_empty() {
        println!("steps passed: {} ({} in all)", times.join(", "), seconds(began.elapsed()));
    }
    if let Some(total) = context.tally.closing_line() {
        println!("{total}");
    }
    let Some((name, why, rest)) = failure else { return Ok(()) };
    let rest = rest.iter().map(|step| step.name()).collect::<Vec<_>>().join(", ");
    let rest = if rest.is_empty() { "nothing".to_owned() } else { rest };
    Err(format!("step {name} failed: {why}\nnot run: {rest}\nrun it again: cargo xtask test --only {name}"))
}

fn seconds(time: Duration) -> String {
    if time < Duration::from_secs(60) {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} min {:02} s", time.as_secs() / 60, time.as_secs() % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_are_named_as_they_are_typed() {
        let names: Vec<String> = Step::value_variants().iter().map(|step| step.name()).collect();
        assert_eq!(
            names,
            ["tools", "fmt", "files", "clippy", "docs", "doc-tests", "readme", "campaign", "test"]
        );
    }

    #[test]
    fn times_are_shown_in_minutes_from_the_first_minute_on() {
        assert_eq!(seconds(Duration::from_millis(1_240)), "1.2 s");
        assert_eq!(seconds(Duration::from_secs(125)), "2 min 05 s");
    }
}
