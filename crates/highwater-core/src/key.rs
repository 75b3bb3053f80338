use std::{borrow::Cow, fmt, sync::Arc};

/// The longest key part in bytes. A part of this length is still allowed.
const MAX: usize = 255;

/// A part of a key that is empty, too long or holds a control character.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{part}` is not a {what}: use 1 to 255 bytes without control characters")]
pub struct InvalidKey {
    /// Which part was refused: `partition key` or `item id`.
    pub what: Cow<'static, str>,
    /// The refused text, escaped, cut after 64 characters.
    pub part: String,
}

fn check(what: &'static str, part: &str) -> Result<Arc<str>, InvalidKey> {
    // Nearly every key is ASCII, and keys are checked whenever a change is read.
    let control = if part.is_ascii() {
        part.bytes().any(|byte| byte.is_ascii_control())
    } else {
        part.chars().any(char::is_control)
    };
    if part.is_empty() || part.len() > MAX || control {
        let part = part.chars().take(64).flat_map(char::escape_debug).collect();
        return Err(InvalidKey { what: what.into(), part });
    }
    Ok(part.into())
}

/// Writes parts of a key so that `/` can stand between them: `%` and `/` inside become `%25` and `%2F`.
pub(crate) fn escape(part: &str) -> Cow<'_, str> {
    if part.contains(['%', '/']) { part.replace('%', "%25").replace('/', "%2F").into() } else { part.into() }
}

/// Reads what [`escape`] wrote.
pub(crate) fn unescape(part: &str) -> String {
    part.replace("%2F", "/").replace("%25", "%")
}

macro_rules! key_part {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and wraps the text.
            ///
            /// # Errors
            /// [`InvalidKey`] when it is empty, longer than 255 bytes or holds a control character.
            pub fn new(part: impl AsRef<str>) -> Result<Self, InvalidKey> {
                check($what, part.as_ref()).map(Self)
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = InvalidKey;
            fn try_from(part: &str) -> Result<Self, InvalidKey> {
                Self::new(part)
            }
        }
    };
}

key_part! {
    /// What the user groups items by: items of one partition key can be committed together and are ordered
    /// among themselves. 1 to 255 bytes without control characters.
    PartitionKey, "partition key"
}

key_part! {
    /// The id of an item, unique within its container and partition key. 1 to 255 bytes without control
    /// characters.
    ItemId, "item id"
}

/// The id of the item that is alone under its partition key; shares its memory.
impl From<&PartitionKey> for ItemId {
    fn from(key: &PartitionKey) -> Self {
        Self(key.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_refused_in_ascii_and_beyond() {
        for part in ["", "a\nb", "\u{7f}", "\u{80}ü", "ü\u{9f}", "\0", &"x".repeat(256)] {
            assert!(PartitionKey::new(part).is_err(), "{part:?}");
        }
        for part in ["a", "Zürich", "𝒽", "'; drop table", &"x".repeat(255)] {
            assert_eq!(PartitionKey::new(part).unwrap().as_str(), part);
        }
    }
}
