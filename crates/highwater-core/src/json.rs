use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use std::fmt;

/// A JSON text that is known to be well formed, cheap to clone.
///
/// ```
/// use highwater_core::Json;
/// let seats = Json::parse(r#"{"seats": 4}"#)?;
/// let value: serde_json::Value = seats.decode()?;
/// assert_eq!(value["seats"], 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Bytes);

impl Json {
    /// Takes a text after checking that it is one JSON value.
    ///
    /// # Errors
    /// [`InvalidJson`] with the place of the first fault.
    pub fn parse(text: impl Into<Bytes>) -> Result<Self, InvalidJson> {
        let text = text.into();
        serde_json::from_slice::<&serde_json::value::RawValue>(&text)?;
        Ok(Self(text))
    }

    /// Writes a value as JSON.
    ///
    /// # Errors
    /// [`InvalidJson`] when the value cannot be JSON: a map whose keys are not text, a number that is not finite.
    pub fn encode(value: &impl Serialize) -> Result<Self, InvalidJson> {
        Ok(Self(serde_json::to_vec(value)?.into()))
    }

    /// Wraps bytes that an engine itself wrote from a [`Json`] and reads back; they are not checked again.
    pub fn from_stored(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// Reads the value.
    ///
    /// # Errors
    /// [`InvalidJson`] when the text is not a `T`.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, InvalidJson> {
        Ok(serde_json::from_slice(&self.0)?)
    }

    /// The text, as bytes of UTF-8.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, sharing its memory.
    pub fn bytes(&self) -> Bytes {
        self.0.clone()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A text that is not JSON, or a value that is not of the expected shape; says where.
#[derive(Debug, thiserror::Error)]
#[error("not the expected JSON: {0}")]
pub struct InvalidJson(#[from] serde_json::Error);
