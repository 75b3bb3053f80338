use highwater::{Aggregate, Context, Decision, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

const TWO_WEEKS: Duration = Duration::from_secs(14 * 24 * 60 * 60);

#[derive(Serialize, Deserialize)]
enum Command {
    Acquire { copies: usize },
    Lend { to: String },
    TakeBack { from: String },
}

#[derive(Serialize, Deserialize)]
enum Event {
    Acquired { copies: usize },
    Lent { to: String, until: Timestamp },
    TakenBack { from: String },
}

#[derive(Default, Serialize, Deserialize)]
struct Book {
    copies: usize,
    readers: BTreeSet<String>,
}

impl Aggregate for Book {
    const CONTAINER: &'static str = "books";
    type Command = Command;
    type Event = Event;
    type Settings = Duration; // how long a loan lasts

    fn decide(&self, command: Command, context: &Context<Self>) -> Decision<Self> {
        match command {
            Command::Acquire { copies } => Decision::accept([Event::Acquired { copies }]),
            Command::Lend { to } if self.readers.contains(&to) => {
                Decision::reject(format!("{to} has a copy already"))
            }
            Command::Lend { .. } if self.readers.len() >= self.copies => {
                Decision::reject("every copy is lent")
            }
            Command::Lend { to } => {
                let until = context.now.plus(*context.settings);
                Decision::accept([Event::Lent { to, until }])
            }
            Command::TakeBack { from } if !self.readers.contains(&from) => {
                Decision::reject(format!("{from} has no copy"))
            }
            Command::TakeBack { from } => Decision::accept([Event::TakenBack { from }]),
        }
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::Acquired { copies } => self.copies += copies,
            Event::Lent { to, .. } => {
                self.readers.insert(to.clone());
            }
            Event::TakenBack { from } => {
                self.readers.remove(from);
            }
        }
    }
}
