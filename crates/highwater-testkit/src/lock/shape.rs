//! What JSON a type reads: as much of a JSON Schema as decides whether two programs understand each other.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The types that shapes name, by their names.
pub(super) type Types = BTreeMap<String, Shape>;

/// What JSON a type reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Shape {
    /// That, or null.
    Nullable(Box<Shape>),
    /// Any number of one shape.
    List(Box<Shape>),
    /// A list of fixed length.
    Tuple(Vec<Shape>),
    /// An object with keys of all kinds.
    Map(Box<Shape>),
    /// A struct.
    Fields {
        /// What must be there.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        required: BTreeMap<String, Shape>,
        /// What may be missing.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        optional: BTreeMap<String, Shape>,
    },
    /// An enum in serde's default representation. A variant without content is `null`.
    Variants(BTreeMap<String, Shape>),
    /// One of the [`Types`].
    Named(String),
    /// A shape with examples of its author's.
    Like {
        /// The shape.
        shape: Box<Shape>,
        /// The examples.
        examples: Vec<Value>,
    },
    /// Anything else, as a JSON Schema.
    Schema(Value),
    /// `string`, `uint32`, `uuid`, …: the format, or else the type.
    #[serde(untagged)]
    Scalar(String),
}

impl Shape {
    pub(super) fn scalar(name: &str) -> Self {
        Self::Scalar(name.into())
    }

    /// The shape behind examples.
    pub(super) fn bare(&self) -> &Self {
        if let Self::Like { shape, .. } = self { shape.bare() } else { self }
    }

    /// The shape that a JSON Schema as of schemars describes.
    pub(super) fn of(schema: &Value) -> Self {
        match schema.get("examples").and_then(Value::as_array) {
            Some(examples) if !examples.is_empty() => {
                Self::Like { shape: Box::new(without_examples(schema)), examples: examples.clone() }
            }
            _ => without_examples(schema),
        }
    }
}

fn without_examples(schema: &Value) -> Shape {
    let Some(object) = schema.as_object() else { return Shape::scalar("any") };
    if let Some(path) = object.get("$ref").and_then(Value::as_str) {
        return Shape::Named(path.rsplit('/').next().unwrap_or(path).into());
    }
    if let Some(values) = strings_of(object) {
        let variants =
            values.iter().filter_map(|value| Some((value.as_str()?.to_owned(), Shape::scalar("null"))));
        let shape = Shape::Variants(variants.collect());
        let null = values.iter().any(Value::is_null);
        return if null { Shape::Nullable(Box::new(shape)) } else { shape };
    }
    let parts = ["oneOf", "anyOf"].iter().find_map(|word| object.get(*word)?.as_array());
    match (parts, object.get("type")) {
        (Some(parts), None) => of_parts(parts).unwrap_or_else(|| raw(schema)),
        (None, Some(Value::Array(types))) => of_types(object, types).unwrap_or_else(|| raw(schema)),
        (None, Some(Value::String(name))) => match &**name {
            "object" => of_object(object).unwrap_or_else(|| raw(schema)),
            "array" => of_array(object).unwrap_or_else(|| raw(schema)),
            "string" if object.get("maxLength") == Some(&1.into()) => Shape::scalar("char"),
            _ => Shape::scalar(object.get("format").and_then(Value::as_str).unwrap_or(name)),
        },
        _ => match raw(schema) {
            Shape::Schema(Value::Object(empty)) if empty.is_empty() => Shape::scalar("any"),
            raw => raw,
        },
    }
}

/// The strings that are allowed, if only those are; null may be among them.
fn strings_of(object: &Map<String, Value>) -> Option<Vec<Value>> {
    let values = match (object.get("const"), object.get("enum")) {
        (Some(value), _) => vec![value.clone()],
        (None, Some(Value::Array(values))) => values.clone(),
        _ => return None,
    };
    values.iter().all(|value| value.is_string() || value.is_null()).then_some(values)
}

/// `Option<T>`, or an enum.
fn of_parts(parts: &[Value]) -> Option<Shape> {
    let is_null = |part: &&Value| part.get("type").and_then(Value::as_str) == Some("null");
    let others: Vec<&Value> = parts.iter().filter(|part| !is_null(part)).collect();
    if others.len() == 1 && parts.len() == 2 {
        return Some(Shape::Nullable(Box::new(Shape::of(others.first()?))));
    }
    let mut variants = BTreeMap::new();
    for part in parts {
        match (without_examples(part), part.get("additionalProperties")) {
            (Shape::Variants(more), _) => variants.extend(more),
            (Shape::Fields { required, optional }, Some(Value::Bool(false)))
                if required.len() == 1 && optional.is_empty() =>
            {
                variants.extend(required);
            }
            _ => return None,
        }
    }
    Some(Shape::Variants(variants))
}

fn of_types(object: &Map<String, Value>, types: &[Value]) -> Option<Shape> {
    let (null, others): (Vec<&Value>, Vec<&Value>) = types.iter().partition(|name| *name == "null");
    let (1, [one]) = (null.len(), &*others) else { return None };
    let mut object = object.clone();
    object.insert("type".into(), (*one).clone());
    Some(Shape::Nullable(Box::new(without_examples(&Value::Object(object)))))
}

fn of_object(object: &Map<String, Value>) -> Option<Shape> {
    let rest = object.get("additionalProperties");
    let patterns = object.get("patternProperties").and_then(Value::as_object);
    match (object.get("properties").and_then(Value::as_object), patterns, rest) {
        (None, Some(patterns), _) if patterns.len() == 1 => {
            Some(Shape::Map(Box::new(Shape::of(patterns.values().next()?))))
        }
        (None, None, Some(values)) if *values != Value::Bool(false) => {
            Some(Shape::Map(Box::new(Shape::of(values))))
        }
        (properties, None, None | Some(Value::Bool(false))) => {
            let needed = object.get("required").and_then(Value::as_array);
            let is_needed = |name: &str| needed.is_some_and(|names| names.iter().any(|one| one == name));
            let fields = properties.into_iter().flatten();
            let (required, optional) = fields
                .map(|(name, field)| (name.clone(), Shape::of(field)))
                .partition(|(name, _)| is_needed(name));
            Some(Shape::Fields { required, optional })
        }
        _ => None,
    }
}

fn of_array(object: &Map<String, Value>) -> Option<Shape> {
    if let Some(items) = object.get("prefixItems").and_then(Value::as_array) {
        return Some(Shape::Tuple(items.iter().map(Shape::of).collect()));
    }
    let each = object.get("items").map_or_else(|| Shape::scalar("any"), Shape::of);
    let length = |word: &str| object.get(word).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    match (length("minItems"), length("maxItems")) {
        (Some(least), Some(most)) if least == most && most <= 64 => Some(Shape::Tuple(vec![each; most])),
        _ => Some(Shape::List(Box::new(each))),
    }
}

/// The schema without what is said for people.
fn raw(schema: &Value) -> Shape {
    fn strip(schema: &Value, are_names: bool) -> Value {
        const FOR_PEOPLE: [&str; 5] = ["title", "description", "default", "examples", "$schema"];
        match schema {
            Value::Object(object) => object
                .iter()
                .filter(|(word, _)| are_names || !FOR_PEOPLE.contains(&&***word))
                .map(|(word, part)| {
                    let names = !are_names && matches!(&**word, "properties" | "patternProperties");
                    (word.clone(), strip(part, names))
                })
                .collect::<Map<_, _>>()
                .into(),
            Value::Array(parts) => parts.iter().map(|part| strip(part, false)).collect(),
            other => other.clone(),
        }
    }
    Shape::Schema(strip(schema, false))
}
