use crate::{Broken, Features, Subject};
use std::{fmt, future::Future, pin::Pin};

/// A check on its way.
pub type Checking = Pin<Box<dyn Future<Output = Result<(), Broken>> + Send>>;

/// Something that every engine keeps.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Rule {
    /// The rule in a name, `a_replayed_command_returns_its_first_result`.
    pub name: &'static str,
    /// The rule in a sentence.
    pub says: &'static str,
    /// The invariant of the design that it belongs to.
    pub invariant: Option<u8>,
    /// What it is about.
    pub area: Area,
    /// What the factory must be able to do so that the rule can be checked.
    pub needs: Option<Need>,
    /// Checks the rule against a fresh backend.
    pub check: fn(Subject) -> Checking,
}

impl Rule {
    /// Whether the rule can be checked with these features.
    pub fn applies(&self, features: Features) -> bool {
        match self.needs {
            None => true,
            Some(Need::Reopen) => features.reopen,
            Some(Need::Hold) => features.hold,
        }
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Area {
    /// Conditional writes of items.
    Commit,
    /// Commands and their verdicts.
    Command,
    /// Items and their histories, read.
    Item,
    /// The log, read in order.
    Feed,
    /// What ends in time, and how the feed shows it.
    Life,
    /// What is too large, and what is just small enough.
    Limits,
    /// Messages and their receipts.
    Queue,
    /// Parked messages.
    Poison,
    /// Small records outside the feed.
    Cells,
    /// Documents of views and how far they have come.
    Views,
    /// Several callers at the same time.
    Races,
}

/// A feature of the factory without which a rule cannot be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Need {
    /// [`Features::reopen`].
    Reopen,
    /// [`Features::hold`].
    Hold,
}
