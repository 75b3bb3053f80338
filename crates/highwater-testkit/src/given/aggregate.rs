use highwater::{Aggregate, CommandId, Context, ItemKey, Timestamp};
use highwater_core::Name;
use serde::Serialize;
use serde_json::Value;

/// An aggregate with a past.
///
/// ```
/// # use highwater::{Aggregate, Context, Decision};
/// # use serde::{Deserialize, Serialize};
/// # #[derive(Serialize, Deserialize)] enum Command { Withdraw { cents: u64 } }
/// # #[derive(Serialize, Deserialize)] enum Event { Deposited { cents: u64 }, Withdrawn { cents: u64 } }
/// # #[derive(Default, Serialize, Deserialize)] struct Account { cents: u64 }
/// # impl Aggregate for Account {
/// #     const CONTAINER: &'static str = "accounts";
/// #     type Command = Command; type Event = Event; type Settings = ();
/// #     fn decide(&self, Command::Withdraw { cents }: Command, _: &Context<Self>) -> Decision<Self> {
/// #         if cents > self.cents { return Decision::reject("not enough money") }
/// #         Decision::accept([Event::Withdrawn { cents }])
/// #     }
/// #     fn apply(&mut self, event: &Event) {
/// #         match event {
/// #             Event::Deposited { cents } => self.cents += cents,
/// #             Event::Withdrawn { cents } => self.cents -= cents,
/// #         }
/// #     }
/// # }
/// use highwater_testkit::given;
///
/// given::<Account>(()).events([Event::Deposited { cents: 5 }])
///     .when(Command::Withdraw { cents: 5 })
///     .then([Event::Withdrawn { cents: 5 }]);
///
/// given::<Account>(()).when(Command::Withdraw { cents: 5 }).then_rejected("not enough money");
/// ```
#[must_use = "nothing is tested before `then`"]
#[derive(Debug)]
pub struct AggregateTest<A: Aggregate> {
    state: A,
    settings: A::Settings,
    now: Timestamp,
    key: String,
}

/// Begins with an aggregate to which nothing has happened, at 2026-01-01T00:00:00Z.
pub fn given<A: Aggregate>(settings: A::Settings) -> AggregateTest<A> {
    let now = Timestamp::from_micros(1_767_225_600_000_000);
    AggregateTest { state: A::default(), settings, now, key: "key".into() }
}

impl<A: Aggregate> AggregateTest<A> {
    /// Lets these events have happened.
    pub fn events(mut self, events: impl IntoIterator<Item = A::Event>) -> Self {
        for event in events {
            self.state.apply(&read_back(&event));
        }
        self
    }

    /// Sets the time of the decision.
    pub fn at(mut self, now: Timestamp) -> Self {
        self.now = now;
        self
    }

    /// Sets the aggregate's key, which is both partition key and id.
    pub fn key(mut self, key: &str) -> Self {
        self.key = key.into();
        self
    }

    /// Asks for a decision. State and command make the way through JSON first, as they do in a store.
    ///
    /// # Panics
    /// When the aggregate's container or key cannot exist, or something does not survive being stored.
    #[track_caller]
    pub fn when(self, command: A::Command) -> Decided<A> {
        let container = Name::new(A::CONTAINER).ok();
        let key = container.and_then(|container| ItemKey::alone(container, &self.key).ok());
        assert!(key.is_some(), "container `{}` or key `{}` cannot exist", A::CONTAINER, self.key);
        let mut state: A = read_back(&self.state);
        let decision = key.map(|key| {
            let context = Context::new(self.now, CommandId::random(), &key, &self.settings);
            state.decide(read_back(&command), &context)
        });
        let verdict = match decision.as_ref().map(|decision| decision.verdict()) {
            Some(Ok(events)) => Ok(events.iter().map(json).collect()),
            Some(Err(reason)) => Err(reason.to_owned()),
            None => Ok(Vec::new()),
        };
        if let Some(Ok(events)) = decision.as_ref().map(|decision| decision.verdict()) {
            events.iter().for_each(|event| state.apply(event));
            state.derive();
        }
        Decided { verdict, state }
    }
}

/// What an aggregate answered.
#[must_use = "nothing is tested before `then`"]
#[derive(Debug)]
pub struct Decided<A: Aggregate> {
    verdict: Result<Vec<Value>, String>,
    state: A,
}

impl<A: Aggregate> Decided<A> {
    /// The command is accepted with exactly these events. Returns the state after them.
    ///
    /// # Panics
    /// When it is not; that is the test's failure.
    #[track_caller]
    pub fn then(self, events: impl IntoIterator<Item = A::Event>) -> A {
        let expected: Vec<Value> = events.into_iter().map(|event| json(&event)).collect();
        assert_eq!(self.verdict, Ok(expected), "found on the left, expected on the right");
        self.state
    }

    /// The command is rejected for exactly this reason.
    ///
    /// # Panics
    /// When it is not; that is the test's failure.
    #[track_caller]
    pub fn then_rejected(self, reason: &str) {
        assert_eq!(self.verdict, Err(reason.to_owned()), "found on the left, expected on the right");
    }
}

#[track_caller]
fn json(value: &impl Serialize) -> Value {
    let written = serde_json::to_value(value);
    assert!(written.is_ok(), "cannot be written as JSON: {written:?}");
    written.unwrap_or_default()
}

/// What a value is after it was written and read.
#[track_caller]
fn read_back<T: Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    let read = serde_json::from_value(json(value));
    match read {
        Ok(value) => value,
        Err(error) => fail(&format!("does not survive being written and read: {error}")),
    }
}

#[track_caller]
#[allow(clippy::panic)] // A failed assertion of a test is a panic.
fn fail(message: &str) -> ! {
    panic!("{message}")
}
