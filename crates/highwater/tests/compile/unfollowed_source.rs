//! The view names a source whose events it does not fold.
use highwater::{Aggregate, Context, Decision, Folded, Follow, Recorded, Sources, View};
use serde::{Deserialize, Serialize};

macro_rules! aggregate {
    ($name:ident, $event:ident, $container:literal) => {
        #[derive(Serialize, Deserialize)]
        pub enum $event {
            Happened,
        }

        #[derive(Default, Serialize, Deserialize)]
        pub struct $name;

        impl Aggregate for $name {
            const CONTAINER: &'static str = $container;
            type Command = $event;
            type Event = $event;
            type Settings = ();

            fn decide(&self, event: $event, _: &Context<Self>) -> Decision<Self> {
                Decision::accept([event])
            }

            fn apply(&mut self, _: &$event) {}
        }
    };
}

aggregate!(Account, AccountEvent, "accounts");
aggregate!(Order, OrderEvent, "orders");

struct Turnover;

impl View for Turnover {
    const NAME: &'static str = "turnover";
    type Document = u64;

    fn sources(sources: Sources<Self>) -> Sources<Self> {
        sources.follow::<Order>()
    }
}

impl Follow<Account> for Turnover {
    fn keys(&self, _: &Recorded<OrderEvent>) -> Vec<String> {
        vec![]
    }

    fn fold(&self, _: &str, total: u64, _: &Recorded<AccountEvent>) -> Folded<u64> {
        Folded::Put(total + 1)
    }
}

fn main() {}
