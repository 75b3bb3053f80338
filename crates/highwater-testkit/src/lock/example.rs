//! Examples of a shape: what an older program could have written.

use super::shape::{Shape, Types};
use serde_json::{Map, Value, json};

/// How deep a type may hold itself.
const DEEPEST: usize = 12;

/// How many examples one shape has at most.
const MOST: usize = 24;

/// Keys that maps of different types accept.
const KEYS: [&str; 3] = ["018f2d3e-5b6a-7c8d-9e0f-1a2b3c4d5e6f", "1", "text"];

/// Examples of a shape: every variant, every field there, every field missing that may be.
pub(super) fn examples(shape: &Shape, types: &Types) -> Vec<Value> {
    let mut all = Vec::new();
    for key in KEYS {
        for example in (Maker { types, key }).of(shape, DEEPEST) {
            if !all.contains(&example) {
                all.push(example);
            }
        }
    }
    all
}

struct Maker<'a> {
    types: &'a Types,
    key: &'a str,
}

impl Maker<'_> {
    fn of(&self, shape: &Shape, depth: usize) -> Vec<Value> {
        let Some(deeper) = depth.checked_sub(1) else { return Vec::new() };
        let mut examples = match shape {
            Shape::Scalar(name) => scalar(name),
            Shape::Like { examples, .. } => examples.clone(),
            Shape::Named(name) => {
                self.types.get(name).map(|named| self.of(named, deeper)).unwrap_or_default()
            }
            Shape::Nullable(inner) => self.of(inner, deeper).into_iter().chain([Value::Null]).collect(),
            Shape::List(inner) => {
                self.of(inner, deeper).into_iter().map(|one| json!([one])).chain([json!([])]).collect()
            }
            Shape::Map(inner) => {
                let one = |value| json!({ self.key: value });
                self.of(inner, deeper).into_iter().map(one).chain([json!({})]).collect()
            }
            Shape::Tuple(parts) => {
                let parts: Vec<_> = parts.iter().map(|part| self.of(part, deeper)).collect();
                let most = parts.iter().map(Vec::len).max().unwrap_or(1);
                let nth = |n: usize| parts.iter().map(|part| cycled(part, n).cloned()).collect();
                (0..most).filter_map(nth).collect()
            }
            Shape::Fields { required, optional } => {
                let made = |(name, field): (&String, &Shape)| (name.clone(), self.of(field, deeper));
                self.fields(required.iter().map(made).collect(), optional.iter().map(made).collect())
            }
            Shape::Variants(variants) => {
                variants.iter().flat_map(|(name, content)| self.variant(name, content, deeper)).collect()
            }
            Shape::Schema(schema) => {
                let parts = ["oneOf", "anyOf"].iter().filter_map(|word| schema.get(*word)?.as_array());
                parts.flatten().flat_map(|part| self.of(&Shape::of(part), deeper)).collect()
            }
        };
        examples.truncate(MOST);
        examples
    }

    fn variant(&self, name: &str, content: &Shape, depth: usize) -> Vec<Value> {
        if *content.bare() == Shape::scalar("null") {
            return vec![name.into()];
        }
        self.of(content, depth).into_iter().map(|content| json!({ name: content })).collect()
    }

    fn fields(&self, required: Vec<(String, Vec<Value>)>, optional: Vec<(String, Vec<Value>)>) -> Vec<Value> {
        if required.iter().any(|(_, values)| values.is_empty()) {
            return Vec::new();
        }
        let nth = |n: usize, fields: &[(String, Vec<Value>)]| {
            let one =
                |(name, values): &(String, Vec<Value>)| Some((name.clone(), cycled(values, n)?.clone()));
            fields.iter().filter_map(one).collect::<Map<_, _>>()
        };
        let most = required.iter().chain(&optional).map(|(_, values)| values.len()).max().unwrap_or(1);
        let mut examples = Vec::new();
        for n in 0..most.clamp(1, MOST - 1) {
            let mut example = nth(n, &required);
            example.extend(nth(n, &optional));
            examples.push(Value::Object(example));
        }
        if !optional.is_empty() {
            examples.push(Value::Object(nth(0, &required)));
        }
        examples
    }
}

/// The value at a place, counted round and round.
fn cycled(values: &[Value], n: usize) -> Option<&Value> {
    values.get(n.checked_rem(values.len())?)
}

fn scalar(name: &str) -> Vec<Value> {
    let value = match name {
        "null" | "any" => Value::Null,
        "boolean" => return vec![true.into(), false.into()],
        "number" | "double" | "float" => json!(1.5),
        "char" => "x".into(),
        "uuid" => KEYS[0].into(),
        "date" => "2026-01-02".into(),
        "time" | "partial-time" => "03:04:05".into(),
        "date-time" => "2026-01-02T03:04:05Z".into(),
        "partial-date-time" => "2026-01-02T03:04:05".into(),
        "duration" => "PT1H".into(),
        "uri" => "https://example.org/".into(),
        "email" => "somebody@example.org".into(),
        "ip" | "ipv4" => "192.0.2.1".into(),
        "ipv6" => "2001:db8::1".into(),
        number if number.contains("int") => json!(1),
        _ => "text".into(),
    };
    vec![value]
}
