//! What two programs that write the same schema version would misunderstand.

use super::shape::{Shape, Types};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Lists what a program with the shape `new` and one with the shape `old` would not understand of each other. Either
/// may read what the other wrote: they run side by side while one replaces the other.
pub(super) fn compare(path: &str, old: (&Shape, &Types), new: (&Shape, &Types)) -> Vec<String> {
    let mut comparing = Comparing { old: old.1, new: new.1, seen: BTreeSet::new(), faults: Vec::new() };
    comparing.shapes(path, old.0, new.0);
    comparing.faults
}

struct Comparing<'a> {
    old: &'a Types,
    new: &'a Types,
    seen: BTreeSet<(String, String)>,
    faults: Vec<String>,
}

type Fields = BTreeMap<String, Shape>;

impl<'a> Comparing<'a> {
    fn fault(&mut self, path: &str, what: impl AsRef<str>) {
        self.faults.push(format!("{path}{}", what.as_ref()));
    }

    /// What a name stands for.
    fn resolve(types: &'a Types, shape: &'a Shape) -> &'a Shape {
        let mut shape = shape.bare();
        for _ in 0..types.len() {
            let Shape::Named(name) = shape else { break };
            shape = types.get(name).map_or(shape, Shape::bare);
        }
        shape
    }

    fn shapes(&mut self, path: &str, old: &'a Shape, new: &'a Shape) {
        if let (Shape::Named(was), Shape::Named(is)) = (old.bare(), new.bare())
            && !self.seen.insert((was.clone(), is.clone()))
        {
            return;
        }
        match (Self::resolve(self.old, old), Self::resolve(self.new, new)) {
            (Shape::Nullable(old), Shape::Nullable(new))
            | (Shape::List(old), Shape::List(new))
            | (Shape::Map(old), Shape::Map(new)) => self.shapes(path, old, new),
            (Shape::Tuple(old), Shape::Tuple(new)) if old.len() == new.len() => {
                for (n, (old, new)) in old.iter().zip(new).enumerate() {
                    self.shapes(&format!("{path}, part {n}"), old, new);
                }
            }
            (Shape::Fields { required: needed, optional: allowed }, Shape::Fields { required, optional }) => {
                self.fields(path, (needed, allowed), (required, optional))
            }
            (Shape::Variants(old), Shape::Variants(new)) => self.variants(path, old, new),
            (Shape::Schema(old), Shape::Schema(new)) if old == new => {
                for name in names_in(old) {
                    if let (Some(old), Some(new)) = (self.old.get(&name), self.new.get(&name))
                        && self.seen.insert((name.clone(), name.clone()))
                    {
                        self.shapes(&format!("{path}, `{name}`"), old, new);
                    }
                }
            }
            (old, new) if old == new => {}
            (old, new) => {
                let text = |shape| serde_json::to_string(shape).unwrap_or_default();
                self.fault(path, format!(" was {} and is {}", text(old), text(new)));
            }
        }
    }

    fn fields(&mut self, path: &str, old: (&'a Fields, &'a Fields), new: (&'a Fields, &'a Fields)) {
        let is_new = |name: &str| !old.0.contains_key(name) && !old.1.contains_key(name);
        for (name, was) in old.0 {
            match new.0.get(name).or_else(|| new.1.get(name)) {
                Some(is) => self.shapes(&format!("{path}, field `{name}`"), was, is),
                None => self.fault(path, format!(", field `{name}` is gone, and older programs need it")),
            }
        }
        for (name, was) in old.1 {
            let renamed = || new.1.iter().find(|(name, is)| is_new(name) && *is == was);
            if let Some(is) = new.1.get(name) {
                self.shapes(&format!("{path}, field `{name}`"), was, is);
            } else if new.0.contains_key(name) {
                let why = "must be there, and older data may lack it: it needs a `#[serde(default)]`";
                self.fault(path, format!(", field `{name}` {why}"));
            } else if let Some((renamed, _)) = renamed() {
                let why = "what older programs wrote would be lost";
                self.fault(path, format!(", field `{name}` seems to have become `{renamed}`: {why}"));
            }
        }
        for name in new.0.keys().filter(|name| is_new(name)) {
            let why = "is new and must be there, and older data lack it: give it a `#[serde(default)]`, or";
            self.fault(path, format!(", field `{name}` {why} raise the version"));
        }
    }

    fn variants(&mut self, path: &str, old: &'a Fields, new: &'a Fields) {
        for (name, was) in old {
            match new.get(name) {
                Some(is) => self.shapes(&format!("{path}, variant `{name}`"), was, is),
                None => self.fault(path, format!(", variant `{name}` is gone, and older programs wrote it")),
            }
        }
        for name in new.keys().filter(|name| !old.contains_key(*name)) {
            self.fault(path, format!(", variant `{name}` is new, and older programs cannot read it"));
        }
    }
}

/// The types that a JSON Schema names.
fn names_in(schema: &Value) -> Vec<String> {
    match schema {
        Value::Object(object) => object
            .iter()
            .flat_map(|(word, part)| match part.as_str() {
                Some(path) if word == "$ref" => vec![path.rsplit('/').next().unwrap_or(path).to_owned()],
                _ => names_in(part),
            })
            .collect(),
        Value::Array(parts) => parts.iter().flat_map(names_in).collect(),
        _ => Vec::new(),
    }
}
