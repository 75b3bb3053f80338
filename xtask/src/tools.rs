//! What the other steps need: installed where it is missing, or named in one line where it cannot be installed.

use crate::context::{Context, Outcome, said};
use std::path::PathBuf;
use std::process::Command;

/// The programs that the browser tests start, and the Debian packages that bring them.
const BROWSER: [(&str, &str); 2] = [("chromium", "chromium"), ("chromedriver", "chromium-driver")];

/// How long another package manager on this machine may keep its lock, in seconds.
const APT_WAIT: &str = "DPkg::Lock::Timeout=300";

pub(crate) fn run(context: &Context) -> Outcome {
    components(context)?;
    let missing: Vec<&str> =
        BROWSER.into_iter().filter(|(name, _)| !present(name)).map(|(_, of)| of).collect();
    if !missing.is_empty() {
        install(context, &missing)?;
    }
    for (name, package) in BROWSER {
        if !present(name) {
            return Err(format!("the package {package} is installed, but {name} is not on the PATH"));
        }
        println!("    {}", said(context.command(name).arg("--version"))?);
    }
    match nextest(context) {
        Some(version) => println!("    {version}"),
        None => println!(
            "    no cargo-nextest: `cargo test` runs the same tests, one test program after the other"
        ),
    }
    Ok(())
}

/// The version of cargo-nextest, if there is one.
///
/// It is used, but never installed: building it takes longer than it saves, and `cargo test` runs the same tests.
pub(crate) fn nextest(context: &Context) -> Option<String> {
    let version = said(context.command("cargo").args(["nextest", "--version"])).ok()?;
    version.lines().next().map(str::to_owned)
}

fn components(context: &Context) -> Outcome {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        said(context.command("cargo").args([subcommand, "--version"])).map_err(|_| {
            format!("the toolchain lacks {component}: install it with `rustup component add {component}`")
        })?;
    }
    println!("    {}", said(context.command("rustc").arg("--version"))?);
    Ok(())
}

fn install(context: &Context, packages: &[&str]) -> Outcome {
    let list = packages.join(" ");
    if !present("apt-get") {
        return Err(format!("missing, and no apt-get to install it with: {list} (these are Debian's names)"));
    }
    let root = said(context.command("id").arg("-u"))? == "0";
    if !root && said(context.command("sudo").args(["-n", "true"])).is_err() {
        return Err(format!("missing, and only root can install it: apt-get install {list}"));
    }
    let apt = |arguments: &[&str]| -> Command {
        let mut command = context.command(if root { "env" } else { "sudo" });
        if !root {
            command.args(["-n", "env"]);
        }
        command
            .args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", "-o", APT_WAIT])
            .args(arguments);
        command
    };
    println!("    installing {list}");
    // What apt-get says is shown only if it explains a failure. One broken source fails the whole update, but need
    // not be the one that has the packages.
    if let Err(why) = said(&mut apt(&["update"])) {
        println!("    warning: {why}");
    }
    said(apt(&["install", "--no-install-recommends"]).args(packages)).map(drop)
}

fn present(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).any(|file: PathBuf| file.is_file())
}
