//! The test of a view, tested.

use highwater::{Aggregate, Context, Decision, Folded, Follow, Recorded, Sources, View};
use highwater_testkit::view;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
enum Never {}

#[derive(Serialize, Deserialize)]
enum Event {
    Deposited { cents: u64 },
}

#[derive(Default, Serialize, Deserialize)]
struct Account;

impl Aggregate for Account {
    const CONTAINER: &'static str = "accounts";
    type Command = Never;
    type Event = Event;
    type Settings = ();
    fn decide(&self, never: Never, _: &Context<Self>) -> Decision<Self> {
        match never {}
    }
    fn apply(&mut self, _: &Event) {}
}

/// The turnover of each account.
struct Turnover;

impl View for Turnover {
    const NAME: &'static str = "turnover";
    type Document = u64;
    fn sources(sources: Sources<Self>) -> Sources<Self> {
        sources.follow::<Account>()
    }
}

impl Follow<Account> for Turnover {
    fn keys(&self, event: &Recorded<Event>) -> Vec<String> {
        vec![event.key().id.to_string()]
    }
    fn fold(&self, _: &str, total: u64, event: &Recorded<Event>) -> Folded<u64> {
        let Event::Deposited { cents } = event.event;
        Folded::Put(total + cents)
    }
}

#[tokio::test]
async fn a_view_is_asked_for_several_documents_and_a_wrong_answer_names_its_line() {
    let turnover = view(Turnover)
        .given::<Account>("barbara", [Event::Deposited { cents: 5 }, Event::Deposited { cents: 2 }])
        .given::<Account>("bernard", [Event::Deposited { cents: 1 }]);
    turnover.then("barbara", Some(7)).await;
    turnover.then("bernard", Some(1)).await;
    turnover.then("nobody", None).await;
    let line = line!() + 1;
    let wrong = tokio::spawn(async move { turnover.then("barbara", Some(8)).await });
    let panic = wrong.await.unwrap_err().into_panic();
    let message = panic.downcast_ref::<String>().unwrap();
    let place = format!("{}:{line}:", file!());
    assert!(message.starts_with(&place) && message.contains("Number(7)"), "{message}");
}
