//! Small things to write, made in one call.

use crate::Broken;
use highwater_core::*;

pub(crate) fn name(text: &str) -> Result<Name, Broken> {
    Ok(Name::new(text)?)
}

pub(crate) fn pk(text: &str) -> Result<PartitionKey, Broken> {
    Ok(PartitionKey::new(text)?)
}

/// `container/partition key/id`.
pub(crate) fn key(container: &str, partition_key: &str, id: &str) -> Result<ItemKey, Broken> {
    let (container, id) = (name(container)?, ItemId::new(id)?);
    Ok(ItemKey { container, partition_key: pk(partition_key)?, id })
}

/// `{"n":…}`.
pub(crate) fn json(n: u64) -> Result<Json, Broken> {
    Ok(Json::parse(format!("{{\"n\":{n}}}"))?)
}

/// Reads the number back.
pub(crate) fn number(json: &Json) -> Result<u64, Broken> {
    let text = String::from_utf8_lossy(json.as_bytes()).into_owned();
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    digits.parse().map_err(|_| Broken::new("{\"n\":…}", text))
}

pub(crate) fn body(n: u64) -> Result<Body, Broken> {
    Ok(Body::new(json(n)?))
}

/// A body that is this many bytes of JSON.
pub(crate) fn json_of_size(bytes: usize) -> Result<Json, Broken> {
    let text =
        if bytes == 1 { "1".to_owned() } else { format!("\"{}\"", "x".repeat(bytes.saturating_sub(2))) };
    Ok(Json::parse(text)?)
}

pub(crate) fn event(name: &str, n: u64) -> Result<Event, Broken> {
    Ok(Event::new(name, 1, json(n)?))
}

pub(crate) fn write(key: &ItemKey, op: Op) -> Write {
    Write::new(key.container.clone(), key.id.clone(), op)
}

pub(crate) fn put(key: &ItemKey, n: u64) -> Result<Write, Broken> {
    Ok(write(key, Op::Put(body(n)?)))
}

/// A command with this content, accepted.
pub(crate) fn accepted(id: CommandId, content: &str) -> CommandMark {
    CommandMark::new(id, Fingerprint::of(&[content.as_bytes()]), Verdict::Accepted)
}

/// A command with this content, rejected.
pub(crate) fn rejected(id: CommandId, content: &str, reason: &str) -> CommandMark {
    let mut mark = accepted(id, content);
    mark.verdict = Verdict::Rejected { reason: reason.into() };
    mark
}

/// Text that has broken programs: quotes, wildcards, separators, other scripts, four-byte characters, marks that
/// combine, direction overrides, and a key of the greatest length.
pub(crate) fn hostile_keys() -> Vec<String> {
    let mut keys: Vec<String> = [
        "'; drop table items; --",
        "\"",
        "%",
        "%2F",
        "_",
        "a/b",
        "a\\b",
        "../..",
        " a",
        "a ",
        "a",
        "A",
        "null",
        "0",
        "00",
        "\u{e9}",
        "e\u{301}",
        "\u{1f600}",
        "\u{202e}abc",
        "\u{feff}a",
        "#?&=;,:@$",
        "{{7*7}}",
    ]
    .iter()
    .map(ToString::to_string)
    .collect();
    keys.push("k".repeat(255));
    keys.push(format!("{}abc", "\u{1f9e8}".repeat(63)));
    keys
}
