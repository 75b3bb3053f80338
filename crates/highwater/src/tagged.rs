//! Commands and events are plain serde enums; the variant's name is the message's name.

use highwater_core::Json;
use serde::de::{self, DeserializeOwned, Deserializer, Visitor};
use serde::{Serialize, forward_to_deserialize_any};
use std::fmt;

/// An enum of commands or events: `#[derive(Serialize, Deserialize)]` is all it takes.
///
/// A variant's name, after serde's renames, is the name of the command or the event in the log, in queues and
/// in CloudEvents. Serde's default representation is needed: no `tag` or `untagged` attribute on the enum.
pub trait Tagged: Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Tagged for T {}

/// Why a value could not be written as, or read from, a name and data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TagError {
    /// The type is not an enum in serde's default representation.
    #[error(
        "{type_name} must be an enum without #[serde(tag)] or #[serde(untagged)]: its variants name the messages"
    )]
    NotAnEnum {
        /// The type.
        type_name: &'static str,
    },
    /// The enum has no such variant.
    #[error("`{name}` is not one of {known}")]
    UnknownName {
        /// The name that was met.
        name: String,
        /// The names that are known, in words.
        known: String,
    },
    /// The data does not fit the variant.
    #[error("the data of `{name}` does not fit: {fault}")]
    Data {
        /// The variant.
        name: String,
        /// What serde says.
        fault: String,
    },
}

/// The names of a type's variants.
pub(crate) fn names<T: Tagged>() -> Result<&'static [&'static str], TagError> {
    match T::deserialize(Probe) {
        Err(Probed::Variants(names)) => Ok(names),
        _ => Err(TagError::NotAnEnum { type_name: std::any::type_name::<T>() }),
    }
}

/// Splits a value into its variant's name and the variant's content.
pub(crate) fn encode<T: Tagged>(value: &T) -> Result<(String, Json), TagError> {
    let not_an_enum = || TagError::NotAnEnum { type_name: std::any::type_name::<T>() };
    let fault = |fault: serde_json::Error| TagError::Data {
        name: std::any::type_name::<T>().into(),
        fault: fault.to_string(),
    };
    let text = serde_json::to_vec(value).map_err(fault)?;
    match text.first() {
        Some(b'"') => {
            let name = serde_json::from_slice(&text).map_err(fault)?;
            Ok((name, Json::from_stored(bytes_of_null())))
        }
        Some(b'{') => {
            // Compact output is exactly `{"name":content}`.
            let mut outer =
                serde_json::Deserializer::from_slice(text.get(1..).unwrap_or_default()).into_iter();
            let name: String = outer.next().and_then(Result::ok).ok_or_else(not_an_enum)?;
            let start = 1 + outer.byte_offset() + 1;
            let content = text.get(start..text.len() - 1).ok_or_else(not_an_enum)?.to_vec();
            Ok((name, Json::parse(content).map_err(|_| not_an_enum())?))
        }
        _ => Err(not_an_enum()),
    }
}

fn bytes_of_null() -> bytes::Bytes {
    bytes::Bytes::from_static(b"null")
}

/// Puts a value together again.
pub(crate) fn decode<T: Tagged>(name: &str, data: &Json) -> Result<T, TagError> {
    let known = names::<T>()?;
    if !known.contains(&name) {
        return Err(TagError::UnknownName { name: name.chars().take(64).collect(), known: known.join(", ") });
    }
    let quoted = format!("\"{name}\"");
    if data.as_bytes() == b"null"
        && let Ok(unit) = serde_json::from_str(&quoted)
    {
        return Ok(unit);
    }
    let mut text = Vec::with_capacity(quoted.len() + data.as_bytes().len() + 3);
    for part in [b"{", quoted.as_bytes(), b":", data.as_bytes(), b"}"] {
        text.extend_from_slice(part);
    }
    serde_json::from_slice(&text)
        .map_err(|fault| TagError::Data { name: name.to_owned(), fault: fault.to_string() })
}

/// Asks a type for the names of its variants instead of giving it data.
struct Probe;

#[derive(Debug)]
enum Probed {
    Variants(&'static [&'static str]),
    Other,
}

impl fmt::Display for Probed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a probe carries no data")
    }
}

impl std::error::Error for Probed {}

impl de::Error for Probed {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::Other
    }
}

impl<'de> Deserializer<'de> for Probe {
    type Error = Probed;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Probed> {
        Err(Probed::Other)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Probed> {
        Err(Probed::Variants(variants))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Fact {
        Reserved {
            seats: u32,
        },
        #[serde(rename = "sold-out")]
        SoldOut,
        Note(Option<String>),
        Pair(u8, String),
    }

    #[test]
    fn every_kind_of_variant_survives_being_split_and_put_together() {
        let facts = [
            Fact::Reserved { seats: 3 },
            Fact::SoldOut,
            Fact::Note(None),
            Fact::Note(Some("\"}: {".into())),
            Fact::Pair(1, "x".into()),
        ];
        for fact in facts {
            let (name, data) = encode(&fact).unwrap();
            assert_eq!(decode::<Fact>(&name, &data).unwrap(), fact);
        }
        assert_eq!(names::<Fact>().unwrap(), ["Reserved", "sold-out", "Note", "Pair"]);
        assert_eq!(encode(&Fact::Reserved { seats: 3 }).unwrap().1.as_bytes(), br#"{"seats":3}"#);
    }

    #[test]
    fn a_struct_or_an_internally_tagged_enum_is_refused() {
        #[derive(Serialize, Deserialize)]
        struct Plain {
            seats: u32,
        }
        #[derive(Serialize, Deserialize)]
        #[serde(tag = "type")]
        enum Inside {
            One,
        }
        assert!(matches!(names::<Plain>(), Err(TagError::NotAnEnum { .. })));
        assert!(matches!(names::<Inside>(), Err(TagError::NotAnEnum { .. })));
    }

    #[test]
    fn an_unknown_name_and_unfitting_data_are_told_apart() {
        let unknown = decode::<Fact>("Vanished", &Json::parse("1").unwrap()).unwrap_err();
        assert!(matches!(unknown, TagError::UnknownName { .. }), "{unknown}");
        let unfitting = decode::<Fact>("Reserved", &Json::parse("[]").unwrap()).unwrap_err();
        assert!(matches!(unfitting, TagError::Data { .. }), "{unfitting}");
    }
}
