//! As much of Markdown as the checks need: fenced commands, links, headings.

use std::collections::{HashMap, HashSet};

/// The command lines in fenced blocks, without prompt and without comment. Only what cargo runs is a command here.
pub(crate) fn commands(text: &str) -> Vec<String> {
    let fenced = lines(text).filter(|line| line.fenced);
    fenced.filter_map(|line| command(line.text)).collect()
}

fn command(line: &str) -> Option<String> {
    let line = line.trim();
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let line = line.split(" #").next().unwrap_or(line).trim_end();
    line.starts_with("cargo ").then(|| line.to_owned())
}

/// The targets of links and pictures outside code, with the numbers of their lines.
pub(crate) fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for line in lines(text).filter(|line| !line.fenced) {
        let plain = without_code(line.text);
        let mut targets = Vec::new();
        for (at, _) in plain.match_indices("](") {
            targets.extend(up_to_closing(&plain[at + 2..]));
        }
        if let Some((label, target)) = plain.trim_start().split_once("]: ")
            && label.starts_with('[')
        {
            targets.push(target);
        }
        for attribute in ["href=\"", "src=\""] {
            let values = plain.split(attribute).skip(1);
            targets.extend(values.filter_map(|value| value.split('"').next()));
        }
        let targets = targets.into_iter().filter_map(|target| target.split_whitespace().next());
        found.extend(targets.map(|target| (line.number, target.trim_matches(['<', '>']).to_owned())));
    }
    found
}

/// The names that headings can be linked by, made as the usual hosts make them.
pub(crate) fn anchors(text: &str) -> HashSet<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut anchors = HashSet::new();
    for line in lines(text).filter(|line| !line.fenced) {
        let Some((marks, heading)) = line.text.split_once(' ') else { continue };
        if marks.is_empty() || marks.len() > 6 || !marks.bytes().all(|mark| mark == b'#') {
            continue;
        }
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let slug: String =
            kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect();
        let times = seen.entry(slug.clone()).or_insert(0);
        anchors.insert(if *times == 0 { slug } else { format!("{slug}-{times}") });
        *times += 1;
    }
    anchors
}

struct Line<'a> {
    number: usize,
    text: &'a str,
    /// Inside a fenced block, or one of its two fences.
    fenced: bool,
}

fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().map(move |(index, line)| {
        let trimmed = line.trim();
        let marks = trimmed.len() - trimmed.trim_start_matches(['`', '~']).len();
        let inside = fence.is_some();
        match fence {
            None if trimmed.starts_with("```") || trimmed.starts_with("~~~") => {
                fence = Some(&trimmed[..marks])
            }
            Some(open) if trimmed.len() == marks && trimmed.starts_with(open) => fence = None,
            _ => {}
        }
        Line { number: index + 1, text: line, fenced: inside || fence.is_some() }
    })
}

/// The line with its code spans blanked out.
fn without_code(line: &str) -> String {
    let mut parts = line.split('`');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    let rest: Vec<&str> = parts.collect();
    for (index, part) in rest.iter().enumerate() {
        let opens_a_span = index % 2 == 0 && index + 1 < rest.len();
        plain.push_str(if opens_a_span { " " } else { part });
    }
    plain
}

/// What stands before the parenthesis that closes a link; the target may hold pairs of its own.
fn up_to_closing(text: &str) -> Option<&str> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return Some(&text[..at]),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_taken_from_fences_without_prompt_and_comment() {
        let text = "`cargo no`\ncargo no\n\n```sh\n$ cargo run -- demo   # opens\ncargo xtask test\nls\n```\ncargo no\n";
        assert_eq!(commands(text), ["cargo run -- demo", "cargo xtask test"]);
    }

    #[test]
    fn a_longer_fence_holds_a_shorter_one() {
        let text = "````md\n```sh\ncargo a\n```\n[no](no.md)\n````\n[yes](yes.md)\n";
        assert_eq!(links(text), [(7, "yes.md".to_owned())]);
    }

    #[test]
    fn links_of_every_kind_are_found_outside_code() {
        let text = "[a](a.md) ![b](b(1).png \"title\") `[no](no.md)` [c]\n\n[c]: c.md\n<img src=\"d.svg\">\n[e](<e.md>)";
        let targets: Vec<String> = links(text).into_iter().map(|(_, target)| target).collect();
        assert_eq!(targets, ["a.md", "b(1).png", "c.md", "d.svg", "e.md"]);
    }

    #[test]
    fn a_single_backtick_opens_no_code() {
        assert_eq!(links("a ` b [c](d)"), [(1, "d".to_owned())]);
    }

    #[test]
    fn headings_are_linked_by_their_words() {
        let found =
            anchors("# Two commands\n## When *not* to use `this`?\n# Two commands\n```\n# code\n```\n#tag\n");
        let expected = ["two-commands", "when-not-to-use-this", "two-commands-1"];
        assert_eq!(found, expected.into_iter().map(str::to_owned).collect());
    }
}
