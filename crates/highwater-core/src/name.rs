use std::{fmt, sync::Arc};

/// The name of a container, a queue, a view, a processor or a space of cells: 1 to 48 characters of
/// `a` to `z`, `0` to `9` and `-`.
///
/// ```
/// use highwater_core::Name;
/// assert_eq!(Name::new("orders")?.as_str(), "orders");
/// assert!(Name::new("Orders!").is_err());
/// # Ok::<(), highwater_core::InvalidName>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// The longest name, in bytes. A name of this length is still allowed.
    pub const MAX: usize = 48;

    /// Checks and wraps a name.
    ///
    /// # Errors
    /// [`InvalidName`] when the text is empty, longer than [`Name::MAX`] or has another character.
    pub fn new(name: impl AsRef<str>) -> Result<Self, InvalidName> {
        let name = name.as_ref();
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || name.len() > Self::MAX || !name.bytes().all(allowed) {
            return Err(InvalidName { name: name.chars().take(Self::MAX + 1).collect() });
        }
        Ok(Self(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A name that breaks the rule of [`Name`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a name: use 1 to {max} characters of a-z, 0-9 and -", max = Name::MAX)]
pub struct InvalidName {
    /// The refused text, cut after a few characters more than a name may have.
    pub name: String,
}
