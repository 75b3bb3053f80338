//! The command lacks `#[derive(Serialize, Deserialize)]`.
use highwater::{Aggregate, Context, Decision};
use serde::{Deserialize, Serialize};

enum Command {
    Deposit,
}

#[derive(Serialize, Deserialize)]
enum Event {
    Deposited,
}

#[derive(Default, Serialize, Deserialize)]
struct Account;

impl Aggregate for Account {
    const CONTAINER: &'static str = "accounts";
    type Command = Command;
    type Event = Event;
    type Settings = ();

    fn decide(&self, _: Command, _: &Context<Self>) -> Decision<Self> {
        Decision::accept([Event::Deposited])
    }

    fn apply(&mut self, _: &Event) {}
}

fn main() {}
