//! What happened to a message, and why it was set aside.

use crate::{Message, Timestamp};
use serde::{Deserialize, Serialize};

/// Cuts a text after at most `most` bytes, between two characters.
fn cut(text: impl Into<String>, most: usize) -> String {
    let mut text = text.into();
    if text.len() > most {
        let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

/// What kind of thing happened to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum AttemptKind {
    /// The work failed, or was given up.
    Failed,
    /// It was put off through no fault of its own: what it needs is not there yet. Deliveries up to here do not
    /// count against it.
    Waited,
    /// Somebody brought it back from the poison queue; the note says why it lay there.
    Replayed,
    /// Something that this program has no word for.
    #[serde(other)]
    Other,
}

/// One thing that happened to a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Attempt {
    /// When.
    pub at: Timestamp,
    /// The dequeue count at that time.
    pub dequeue_count: u32,
    /// What kind of thing.
    pub kind: AttemptKind,
    /// What went wrong or was done, for people; at most [`Attempt::NOTE`] bytes.
    pub note: String,
}

impl Attempt {
    /// The longest note, in bytes; the rest of a longer one is cut off.
    pub const NOTE: usize = 1024;

    /// One thing that happened to a message.
    pub fn new(at: Timestamp, dequeue_count: u32, kind: AttemptKind, note: impl Into<String>) -> Self {
        Self { at, dequeue_count, kind, note: cut(note, Self::NOTE) }
    }
}

/// Why a message goes to the poison queue. Each text has at most [`Parking::TEXT`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Parking {
    /// Why, in a few words: `cannot be decoded`, `failed 10 times`.
    pub reason: String,
    /// The last error with its causes, for people.
    pub error: String,
    /// Who parked it.
    pub by: String,
}

impl Parking {
    /// The longest text, in bytes; the rest of a longer one is cut off.
    pub const TEXT: usize = 4 * 1024;

    /// Why, the last error with its causes, and who says so.
    pub fn new(reason: impl Into<String>, error: impl Into<String>, by: impl Into<String>) -> Self {
        let text = |text: String| cut(text, Self::TEXT);
        Self { reason: text(reason.into()), error: text(error.into()), by: text(by.into()) }
    }

    /// The same with every text cut to [`Parking::TEXT`]; engines store nothing longer.
    pub fn bounded(self) -> Self {
        Self::new(self.reason, self.error, self.by)
    }
}

/// A message in the poison queue. It stays until somebody replays or discards it.
#[doc(alias = "dead letter")]
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Parked {
    /// The message, as it was.
    pub message: Message,
    /// Why it is here.
    pub parking: Parking,
    /// Since when.
    pub at: Timestamp,
}

impl Parked {
    /// A parked message as an engine read it.
    pub fn new(message: Message, parking: Parking, at: Timestamp) -> Self {
        Self { message, parking, at }
    }

    /// The message as it goes back into its queue: visible at once, dequeue count 0, and the parking among its
    /// history, so that whoever parks it again sees what happened the first time.
    pub fn replayed(self, now: Timestamp) -> Message {
        let Self { mut message, parking: Parking { reason, error, by }, at } = self;
        let note = format!("parked at {at} by {by}, {reason}: {error}");
        message.note(now, AttemptKind::Replayed, note);
        (message.dequeue_count, message.visible_at) = (0, now);
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_two_characters() {
        let parking = Parking::new("x", "\u{1f600}".repeat(2_000), "ü".repeat(2_049));
        assert_eq!((parking.error.len(), parking.by.len()), (4_096, 4_096));
        let note = format!("x{}", "ü".repeat(1_000));
        let attempt = Attempt::new(Timestamp::from_micros(0), 1, AttemptKind::Failed, note);
        assert_eq!(attempt.note.len(), 1_023);
    }

    #[test]
    fn a_kind_of_a_newer_program_is_another_one() {
        let attempt = r#"{"at":1,"dequeue_count":2,"kind":"moved","note":"n"}"#;
        assert_eq!(serde_json::from_str::<Attempt>(attempt).unwrap().kind, AttemptKind::Other);
        let attempt = r#"{"at":1,"dequeue_count":2,"kind":"waited","note":"n"}"#;
        assert_eq!(serde_json::from_str::<Attempt>(attempt).unwrap().kind, AttemptKind::Waited);
    }
}
