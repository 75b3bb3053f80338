//! The file: for each aggregate and view, for each schema version, what was stored.

use super::example::examples;
use super::shape::{Shape, Types};
use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The whole file: `aggregate NAME` or `view NAME`, then the schema version.
pub(super) type File = BTreeMap<String, BTreeMap<u32, Entry>>;

/// What one schema version of an aggregate or a view stores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The state, or the document.
    pub(super) body: Stored,
    /// The commands, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) commands: BTreeMap<String, Stored>,
    /// The events, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) events: BTreeMap<String, Stored>,
    /// What the shapes name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) types: Types,
}

/// One thing that is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Stored {
    pub(super) shape: Shape,
    /// What programs of this version could have written; whoever comes later has to read it.
    pub(super) examples: Vec<Value>,
}

impl Entry {
    /// Whether both say the same of the types; examples aside.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let shapes = |stored: &BTreeMap<String, Stored>| {
            stored
                .iter()
                .map(|(name, stored)| (name.clone(), stored.shape.clone()))
                .collect::<BTreeMap<_, _>>()
        };
        self.body.shape == other.body.shape
            && shapes(&self.commands) == shapes(&other.commands)
            && shapes(&self.events) == shapes(&other.events)
            && self.types == other.types
    }

    /// Takes over the examples of an earlier form of the same version: they are data that may lie around.
    pub(super) fn remember(&mut self, earlier: &Self) {
        let both = |now: &mut Stored, then: &Stored| {
            let fresh = std::mem::replace(&mut now.examples, then.examples.clone());
            now.examples.extend(fresh.into_iter().filter(|one| !then.examples.contains(one)));
        };
        both(&mut self.body, &earlier.body);
        for (now, then) in [(&mut self.commands, &earlier.commands), (&mut self.events, &earlier.events)] {
            for (name, stored) in now {
                then.get(name).into_iter().for_each(|then| both(stored, then));
            }
        }
    }
}

/// Makes an [`Entry`] of the types of this program.
pub(super) struct Describe(SchemaGenerator);

impl Describe {
    pub(super) fn new() -> Self {
        Self(SchemaSettings::draft2020_12().for_deserialize().into_generator())
    }

    pub(super) fn shape<T: JsonSchema>(&mut self) -> Shape {
        Shape::of(T::json_schema(&mut self.0).as_value())
    }

    /// The entry, with the examples that are read.
    pub(super) fn entry(
        mut self,
        [body, commands, events]: [Shape; 3],
        reads: impl Fn(super::Kind, &str, &Value) -> Result<(), String>,
    ) -> Entry {
        use super::Kind;
        let definitions = self.0.take_definitions(true);
        let types: Types =
            definitions.iter().map(|(name, schema)| (name.clone(), Shape::of(schema))).collect();
        let stored = |kind, name: &str, shape: Shape| {
            let mut examples = examples(&shape, &types);
            examples.retain(|example| reads(kind, name, example).is_ok());
            Stored { shape, examples }
        };
        let each = |kind, shape: Shape| {
            let variants =
                if let Shape::Variants(variants) = shape.bare() { variants.clone() } else { BTreeMap::new() };
            variants.into_iter().map(|(name, shape)| (name.clone(), stored(kind, &name, shape))).collect()
        };
        Entry {
            body: stored(Kind::Body, "", body),
            commands: each(Kind::Command, commands),
            events: each(Kind::Event, events),
            types,
        }
    }
}
