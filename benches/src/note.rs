//! An aggregate and a view of it, as small as they can be.

use highwater::{Aggregate, Context, Decision, Folded, Follow, Recorded, Sources, View};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub(crate) enum Command {
    Write { text: String },
}

impl Command {
    /// A command, an event and a state of about 250 bytes each.
    pub(crate) fn write() -> Self {
        Self::Write { text: "x".repeat(239) }
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Event {
    Written { text: String },
}

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Note {
    text: String,
}

impl Aggregate for Note {
    const CONTAINER: &'static str = "notes";
    type Command = Command;
    type Event = Event;
    type Settings = ();

    fn decide(&self, Command::Write { text }: Command, _: &Context<'_, Self>) -> Decision<Self> {
        Decision::accept([Event::Written { text }])
    }

    fn apply(&mut self, Event::Written { text }: &Event) {
        self.text.clone_from(text);
    }
}

/// One document for each note: how often it was written, and what it says.
pub(crate) struct Board;

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Card {
    written: u64,
    text: String,
}

impl View for Board {
    const NAME: &'static str = "board";
    type Document = Card;

    fn sources(sources: Sources<Self>) -> Sources<Self> {
        sources.follow::<Note>()
    }
}

impl Follow<Note> for Board {
    fn keys(&self, event: &Recorded<Event>) -> Vec<String> {
        vec![event.key().id.to_string()]
    }

    fn fold(&self, _: &str, card: Card, event: &Recorded<Event>) -> Folded<Card> {
        let Event::Written { text } = &event.event;
        Folded::Put(Card { written: card.written + 1, text: text.clone() })
    }
}
