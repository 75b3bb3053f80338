//! Runs the README's commands as a stranger would, beside whatever else runs on this machine: on a free port of the
//! loopback interface and with a folder of its own.

use crate::context::{Context, Outcome, run as run_command};
use crate::demo::Demo;
use crate::markdown;

/// The pages a stranger opens first.
const PAGES: [&str; 2] = ["/", "/booking/"];

pub(crate) fn run(context: &Context) -> Outcome {
    let text = std::fs::read_to_string(context.root.join("README.md"))
        .map_err(|why| format!("cannot read README.md: {why}"))?;
    let demo = demo_command(&text)?;
    // Built first, so that the time limits below are about the program and not about the compiler.
    run_command(context.command("cargo").args(["build", "--release", "--locked"]))?;

    let data = context.fresh_folder("readme")?;
    let mut running = Demo::start(context, &demo, &data)?;
    for page in PAGES {
        running.get(page)?;
    }
    running.interrupt()?;
    let kept =
        std::fs::read_dir(&data).map_err(|why| format!("cannot list {}: {why}", data.display()))?.count();
    if kept == 0 {
        return Err(format!("`{demo}` left nothing in the folder given with --data"));
    }
    println!("    `{demo}` came up, answered {} and stopped cleanly", PAGES.join(" and "));
    Ok(())
}

/// The README's command that starts the demo, after a look whether the other one is there too.
fn demo_command(readme: &str) -> Outcome<String> {
    let commands = markdown::commands(readme);
    let starts_demo = |command: &&String| command.starts_with("cargo run ") && command.ends_with(" demo");
    let demo = commands.iter().find(starts_demo).ok_or("README.md has no fenced `cargo run … demo`")?;
    if commands.iter().any(|command| command == "cargo xtask test") {
        Ok(demo.clone())
    } else {
        Err("README.md has no fenced `cargo xtask test`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_commands_must_be_fenced() {
        let both =
            "# H\n\n```sh\ncargo run --release -- demo   # then open the page\ncargo xtask test\n```\n";
        assert_eq!(demo_command(both).as_deref(), Ok("cargo run --release -- demo"));
        let one = "```sh\ncargo run --release -- demo\n```\n\nand `cargo xtask test`\n";
        assert!(demo_command(one).unwrap_err().contains("cargo xtask test"));
        assert!(demo_command("```sh\ncargo xtask test\n```").unwrap_err().contains("demo"));
    }
}
