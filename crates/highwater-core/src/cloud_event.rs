use crate::{Change, Json, StoreInfo, key::escape};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::BTreeMap};

/// The JSON envelope of CloudEvents 1.0 (`application/cloudevents+json`), in which commands travel through
/// queues and events leave the store. Source: *CloudEvents, version 1.0.2* and its *JSON Event Format*.
///
/// ```
/// use highwater_core::CloudEvent;
/// let text = br#"{"specversion":"1.0","id":"1","source":"/web","type":"Reserve","data":{"seats":2}}"#;
/// let event = CloudEvent::parse(text)?;
/// assert_eq!(event.kind, "Reserve");
/// # Ok::<(), highwater_core::CloudEventError>(())
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CloudEvent {
    specversion: String,
    /// Unique within `source`.
    pub id: String,
    /// Where it comes from, a URI reference.
    pub source: String,
    /// What it is: the name of a command or an event.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// When it happened, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// `application/json`, or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datacontenttype: Option<String>,
    /// The payload.
    #[serde(default)]
    pub data: Option<Box<serde_json::value::RawValue>>,
    /// Extension attributes; lower-case names, values text, whole numbers or booleans.
    #[serde(flatten)]
    pub extensions: BTreeMap<String, serde_json::Value>,
}

/// Bytes that are not a CloudEvents envelope we can read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloudEventError {
    /// Not JSON, or not of the shape of an envelope.
    #[error("not a CloudEvents envelope: {0}")]
    Shape(#[from] serde_json::Error),
    /// Another version of the specification.
    #[error("CloudEvents {0} is not supported; send specversion 1.0")]
    Version(String),
    /// A required attribute is empty.
    #[error("the CloudEvents attribute `{0}` must not be empty")]
    Empty(Cow<'static, str>),
    /// The payload is not JSON.
    #[error("data of type {0} is not supported; send application/json")]
    ContentType(String),
}

impl CloudEvent {
    /// An envelope with the required attributes and a JSON payload.
    pub fn new(
        id: impl Into<String>,
        source: impl Into<String>,
        kind: impl Into<String>,
        data: &Json,
    ) -> Self {
        Self {
            specversion: "1.0".into(),
            id: id.into(),
            source: source.into(),
            kind: kind.into(),
            subject: None,
            time: None,
            datacontenttype: Some("application/json".into()),
            data: serde_json::from_slice(data.as_bytes()).ok(),
            extensions: BTreeMap::new(),
        }
    }

    /// Adds an extension attribute.
    pub fn with(mut self, name: &str, value: impl Into<serde_json::Value>) -> Self {
        self.extensions.insert(name.into(), value.into());
        self
    }

    /// The envelope of the event at `index` of a change; `None` if it has no such event. The id is that of the
    /// event, the subject the item (`partition key/id`, escaped as in the id); `partition`, `sequence` (the position) and `schemaversion` are extensions.
    pub fn of(store: &StoreInfo, change: &Change, index: usize) -> Option<Self> {
        let event = change.events.get(index)?;
        let source = format!("/stores/{}/containers/{}", store.id, change.key.container);
        let mut envelope = Self::new(change.event_id(index).to_string(), source, &*event.name, &event.data)
            .with("partition", change.partition.0)
            .with("sequence", change.position.get())
            .with("schemaversion", event.schema);
        envelope.subject =
            Some(format!("{}/{}", escape(change.key.partition_key.as_str()), escape(change.key.id.as_str())));
        envelope.time = Some(change.at.to_string());
        Some(envelope)
    }

    /// Reads and checks an envelope.
    ///
    /// # Errors
    /// [`CloudEventError`], which names the first fault.
    pub fn parse(bytes: &[u8]) -> Result<Self, CloudEventError> {
        let event: Self = serde_json::from_slice(bytes)?;
        if event.specversion != "1.0" {
            return Err(CloudEventError::Version(event.specversion));
        }
        for (name, value) in [("id", &event.id), ("source", &event.source), ("type", &event.kind)] {
            if value.is_empty() {
                return Err(CloudEventError::Empty(name.into()));
            }
        }
        match &event.datacontenttype {
            Some(kind) if kind != "application/json" && !kind.ends_with("+json") => {
                Err(CloudEventError::ContentType(kind.clone()))
            }
            _ => Ok(event),
        }
    }

    /// The payload; `null` if there is none.
    pub fn data(&self) -> Json {
        let text = self.data.as_ref().map_or("null", |raw| raw.get());
        Json::from_stored(text.to_owned().into())
    }

    /// An extension attribute as text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.extensions.get(name)?.as_str()
    }

    /// An extension attribute as a whole number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.extensions.get(name)?.as_u64()
    }
}
