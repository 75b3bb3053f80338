//! The checks that are one cargo command each.

use crate::context::{Context, Outcome, run};

pub(crate) fn fmt(context: &Context) -> Outcome {
    run(context.command("cargo").args(["fmt", "--all", "--check"]))
}

pub(crate) fn clippy(context: &Context) -> Outcome {
    run(context.cargo_workspace(&["clippy"]).args(["--all-targets", "--", "-D", "warnings"]))
}

pub(crate) fn docs(context: &Context) -> Outcome {
    run(context.cargo_workspace(&["doc"]).arg("--no-deps").env("RUSTDOCFLAGS", "-D warnings"))
}
