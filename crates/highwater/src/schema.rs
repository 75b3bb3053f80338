//! Reading what older programs wrote, and knowing what newer ones did.

use crate::tagged::{self, TagError, Tagged};
use highwater_core::{Body, Json};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Which kind of thing is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OldKind {
    /// A command, from a queue.
    Command,
    /// An event, from the log.
    Event,
    /// The state of an aggregate or the document of a view.
    Body,
}

/// Something that an older version of the program wrote, on its way to the present schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Old {
    /// What it is.
    pub kind: OldKind,
    /// The name of the command or event; empty for a body. May be changed.
    pub name: String,
    /// The schema version that `data` has.
    pub schema: u32,
    /// The content. To be changed in place into that of version `schema + 1`.
    pub data: Value,
}

/// Takes [`Old`] data one schema version further; an error says why that cannot be done.
pub type Upcaster = fn(&mut Old) -> Result<(), String>;

/// Why something stored could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A newer program wrote it. Not an error of the data: a newer program will read it.
    #[error("written with schema {found}, this program knows up to {known}: start a newer program")]
    Newer {
        /// The schema version it has.
        found: u32,
        /// The newest one that this program knows.
        known: u32,
    },
    /// The upcaster does not know how to go on.
    #[error("no upcaster from schema {schema} of {what}: {why}")]
    NoUpcaster {
        /// What was being read.
        what: String,
        /// The version it has.
        schema: u32,
        /// What the upcaster says.
        why: String,
    },
    /// The name or the data does not fit the type.
    #[error(transparent)]
    Tag(#[from] TagError),
    /// The body does not fit the type.
    #[error("the stored body does not fit: {0}")]
    Body(String),
}

fn raise(
    kind: OldKind,
    name: &str,
    schema: u32,
    data: &Json,
    known: u32,
    upcast: Upcaster,
) -> Result<Old, DecodeError> {
    let fault = |fault: String| DecodeError::Body(fault);
    let data = data.decode().map_err(|error| fault(error.to_string()))?;
    let mut old = Old { kind, name: name.to_owned(), schema, data };
    while old.schema < known {
        upcast(&mut old).map_err(|why| DecodeError::NoUpcaster {
            what: if old.name.is_empty() { "the body".into() } else { old.name.clone() },
            schema: old.schema,
            why,
        })?;
        old.schema += 1;
    }
    Ok(old)
}

/// Reads a command or an event of any schema version up to `known`.
pub(crate) fn read_tagged<T: Tagged>(
    kind: OldKind,
    name: &str,
    schema: u32,
    data: &Json,
    known: u32,
    upcast: Upcaster,
) -> Result<T, DecodeError> {
    if schema > known {
        return Err(DecodeError::Newer { found: schema, known });
    }
    if schema == known {
        return Ok(tagged::decode(name, data)?);
    }
    let old = raise(kind, name, schema, data, known, upcast)?;
    let data = Json::encode(&old.data).map_err(|error| DecodeError::Body(error.to_string()))?;
    Ok(tagged::decode(&old.name, &data)?)
}

/// Reads a body of any schema version up to `known`.
pub(crate) fn read_body<T: DeserializeOwned>(
    body: &Body,
    known: u32,
    upcast: Upcaster,
) -> Result<T, DecodeError> {
    if body.schema > known {
        return Err(DecodeError::Newer { found: body.schema, known });
    }
    if body.schema == known {
        return body.json.decode().map_err(|error| DecodeError::Body(error.to_string()));
    }
    let old = raise(OldKind::Body, "", body.schema, &body.json, known, upcast)?;
    serde_json::from_value(old.data).map_err(|error| DecodeError::Body(error.to_string()))
}
