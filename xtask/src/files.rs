//! What a public repository must not hold, and what it must: files without traces of one machine, source files of a
//! readable length, links that lead somewhere, a lock file that is committed and names the public registry only.

use crate::context::{Context, Outcome, said};
use crate::markdown;
use std::path::{Component, Path, PathBuf};

/// Folders that exist on some machine of ours and nowhere else. Written without slashes, so that this file passes.
const MACHINE_FOLDERS: [&str; 3] = ["work", "root", "farm"];

/// Hosts of package registries, as (first label, domain): code goes through the package managers, which know them.
const REGISTRY_HOSTS: [(&str, &str); 6] = [
    ("index", "crates.io"),
    ("static", "crates.io"),
    ("deb", "debian.org"),
    ("security", "debian.org"),
    ("registry", "npmjs.org"),
    ("files", "pythonhosted.org"),
];

const PUBLIC_REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Lines of a Rust source file: from the first on it is mentioned, from the second on refused.
const LONG: usize = 500;
const TOO_LONG: usize = 600;

pub(crate) fn run(context: &Context) -> Outcome {
    let names =
        said(context.command("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))?;
    let names: Vec<&Path> = names.split('\0').filter(|name| !name.is_empty()).map(Path::new).collect();
    let mut faults = Vec::new();
    for name in &names {
        // What is no text, and what was deleted but is still tracked, holds nothing to look at.
        let Ok(text) = std::fs::read_to_string(context.root.join(name)) else { continue };
        faults.extend(traces(&text).into_iter().map(|fault| format!("{}:{fault}", name.display())));
        match name.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => faults.extend(length(name, text.lines().count())),
            Some("md") => faults.extend(dead_links(&context.root, name, &text)),
            _ => {}
        }
    }
    faults.extend(lock(context));
    if faults.is_empty() {
        println!("    {} files", names.len());
        return Ok(());
    }
    Err(format!("{} found:\n    {}", faults.len(), faults.join("\n    ")))
}

/// Lines that name a path of one machine or the host of a registry.
fn traces(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for folder in MACHINE_FOLDERS {
            if starts_path(line, &format!("/{folder}/")) {
                faults.push(format!("{}: names a path of one machine, /{folder}/…", index + 1));
            }
        }
        for (label, domain) in REGISTRY_HOSTS {
            if line.contains(&format!("{label}.{domain}")) {
                faults.push(format!("{}: names a registry's host, {label}.{domain}", index + 1));
            }
        }
    }
    faults
}

/// Whether `path` occurs as the beginning of a path, and not as the middle of a longer one or of a URL.
fn starts_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~/})".contains(c))
    })
}

fn length(name: &Path, lines: usize) -> Option<String> {
    if lines > TOO_LONG {
        return Some(format!(
            "{}: {lines} lines; {TOO_LONG} at most, {LONG} as a rule: split it",
            name.display()
        ));
    }
    if lines >= LONG {
        println!("    warning: {} has {lines} lines; {LONG} as a rule", name.display());
    }
    None
}

fn dead_links(root: &Path, name: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (line, target) in markdown::links(text) {
        if let Some(why) = dead(root, name, text, &target) {
            faults.push(format!("{}:{line}: the link to {target} {why}", name.display()));
        }
    }
    faults
}

/// Why a link leads nowhere, if it does. Links to other sites and to Rust items are not followed.
fn dead(root: &Path, from: &Path, text: &str, target: &str) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") || target.contains("::") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    if path.is_empty() {
        return anchor
            .filter(|anchor| !markdown::anchors(text).contains(*anchor))
            .map(|_| "names no heading here");
    }
    let base = if path.starts_with('/') { Path::new("") } else { from.parent().unwrap_or(Path::new("")) };
    let Some(inside) = flattened(&base.join(path.trim_start_matches('/'))) else {
        return Some("leads out of the repository");
    };
    let file = root.join(&inside);
    if !file.exists() {
        return Some("leads nowhere");
    }
    let anchor = anchor.filter(|_| inside.extension().is_some_and(|extension| extension == "md"))?;
    let there = std::fs::read_to_string(file).unwrap_or_default();
    if markdown::anchors(&there).contains(anchor) { None } else { Some("names no heading there") }
}

/// The path without `.` and `..`; nothing if it climbs above where it starts.
fn flattened(path: &Path) -> Option<PathBuf> {
    let mut flat = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => flat.push(name),
            Component::ParentDir if flat.pop() => {}
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(flat)
}

/// Every cargo command of a run is given `--locked`: what is right here stays so until the end.
fn lock(context: &Context) -> Vec<String> {
    let mut faults = Vec::new();
    if said(context.command("git").args(["ls-files", "--error-unmatch", "Cargo.lock"])).is_err() {
        faults.push("Cargo.lock is not committed".to_owned());
    }
    // Elsewhere than in CI a change that is about to be committed may be under test.
    if context.ci
        && said(context.command("git").args(["diff", "--exit-code", "HEAD", "--", "Cargo.lock"])).is_err()
    {
        faults.push(
            "Cargo.lock differs from the committed one: the manifests ask for more than it holds".to_owned(),
        );
    }
    let text = std::fs::read_to_string(context.root.join("Cargo.lock")).unwrap_or_default();
    faults.extend(foreign_sources(&text).map(|source| format!("Cargo.lock names another source: {source}")));
    faults
}

fn foreign_sources(lock: &str) -> impl Iterator<Item = &str> {
    let sources = lock.lines().filter_map(|line| line.strip_prefix("source = \"")?.strip_suffix('"'));
    sources.filter(|source| *source != PUBLIC_REGISTRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_one_machine_is_found_wherever_it_starts() {
        let path = format!("/{}/main", MACHINE_FOLDERS[0]);
        for line in [path.clone(), format!("see `{path}`"), format!("({path})"), format!("DIR={path}")] {
            assert_eq!(traces(&line).len(), 1, "{line}");
        }
        for line in [format!("src{path}"), format!("https://example.org{path}"), format!("{{base}}{path}")] {
            assert!(traces(&line).is_empty(), "{line}");
        }
    }

    #[test]
    fn the_host_of_a_registry_is_found_and_its_name_is_not() {
        let (label, domain) = REGISTRY_HOSTS[0];
        assert_eq!(traces(&format!("https://{label}.{domain}/x")).len(), 1);
        assert!(traces("published on crates.io").is_empty());
    }

    #[test]
    fn a_file_may_be_long_but_not_too_long() {
        assert_eq!(length(Path::new("a.rs"), TOO_LONG), None);
        assert!(length(Path::new("a.rs"), TOO_LONG + 1).is_some());
    }

    #[test]
    fn a_link_must_lead_to_a_file_and_a_heading_of_this_repository() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("docs")).unwrap();
        std::fs::write(root.path().join("README.md"), "# Two commands\n").unwrap();
        let dead = |target| dead(root.path(), Path::new("docs/page.md"), "# Here\n", target);
        let alive = [
            "../README.md",
            "../README.md#two-commands",
            "#here",
            "/README.md",
            "https://example.org/x",
            "..",
        ];
        for target in alive {
            assert_eq!(dead(target), None, "{target}");
        }
        for target in ["README.md", "../README.md#three", "#there", "../../README.md"] {
            assert!(dead(target).is_some(), "{target}");
        }
    }

    #[test]
    fn a_lock_file_names_the_public_registry_only() {
        let lock =
            format!("source = \"{PUBLIC_REGISTRY}\"\nsource = \"registry+https://mirror.example/index\"\n");
        assert_eq!(foreign_sources(&lock).collect::<Vec<_>>(), ["registry+https://mirror.example/index"]);
    }
}
