use crate::address::Address;
use crate::aggregate::Aggregate;
use crate::core::Core;
use crate::cron::Cron;
use crate::decide::RawCommand;
use crate::send::{SendError, raw};
use highwater_core::{CommandId, Name, Timestamp};

/// What becomes of times at which no process was there to send a recurring command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Missed {
    /// It is sent once for all of them, as planned for the last one.
    #[default]
    Once,
    /// It is not sent for those that lie more than a minute back.
    Skip,
    /// It is sent for each of them, oldest first.
    All {
        /// For no more than this, 1 to 1,000: the last ones.
        at_most: u32,
    },
}

/// The time that a recurring command is sent for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Planned {
    /// The time.
    pub at: Timestamp,
    /// The same in the time zone of the recurring command, RFC 3339 with the offset: `2026-03-30T03:00:00+02:00`.
    pub local: String,
}

impl Planned {
    /// The day in the time zone of the recurring command: `2026-03-30`.
    pub fn day(&self) -> String {
        self.local.chars().take(10).collect()
    }
}

type Make<C> = Box<dyn Fn(&Planned) -> (Address, C) + Send + Sync>;

/// A command that is sent again and again, for [`EngineBuilder::recurring`](crate::EngineBuilder::recurring).
///
/// The expression has the five fields of cron: minute, hour, day of month, month, day of week; with lists, ranges,
/// steps, names of months and days, and the `L`, `W` and `#` of [croner](https://docs.rs/croner). Where both day
/// fields are set, either will do.
///
/// The time zone is a name of the IANA database. Where it puts clocks forward, a fixed time that is left out comes when
/// the clock has jumped; where it puts them back, a fixed time that is repeated comes the first time only. What comes
/// every hour or every few minutes goes on evenly through both.
///
/// Each time has one command id, made of the store's id, the name and the time. So it is decided once, however many
/// processes send it, and however often one dies while doing so. For that the command must depend on nothing but the
/// planned time.
///
/// The first start of a program with a name, an expression and a time zone begins: what lies before it was not missed.
/// A changed expression or time zone begins in the same way; a changed name is another recurring command.
///
/// ```
/// # use highwater::{Aggregate, Context, Decision, Engine};
/// # use serde::{Deserialize, Serialize};
/// use highwater::{Missed, Recurring};
/// # #[derive(Serialize, Deserialize)]
/// # enum Command { Write { day: String } }
/// # #[derive(Serialize, Deserialize)]
/// # enum Event {}
/// # #[derive(Default, Serialize, Deserialize)]
/// # struct Report {}
/// # impl Aggregate for Report {
/// #     const CONTAINER: &'static str = "reports";
/// #     type Command = Command;
/// #     type Event = Event;
/// #     type Settings = ();
/// #     fn decide(&self, _: Command, _: &Context<Self>) -> Decision<Self> { Decision::accept([]) }
/// #     fn apply(&mut self, _: &Event) {}
/// # }
/// # async fn start() -> Result<(), highwater::StartError> {
/// let nightly = Recurring::<Report>::new("nightly-report", "0 3 * * *", "Europe/Zurich", |planned| {
///     (planned.day(), Command::Write { day: planned.day() })
/// });
/// # let _ =
/// Engine::in_memory().aggregate::<Report>(()).recurring(nightly.missed(Missed::Skip)).start().await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias("cron", "schedule", "scheduled", "every", "job"))]
#[must_use = "a recurring command does nothing until an engine has it"]
pub struct Recurring<A: Aggregate> {
    name: String,
    expression: String,
    time_zone: String,
    missed: Missed,
    make: Make<A::Command>,
}

impl<A: Aggregate> std::fmt::Debug for Recurring<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recurring")
            .field("name", &self.name)
            .field("expression", &self.expression)
            .field("time_zone", &self.time_zone)
            .finish_non_exhaustive()
    }
}

impl<A: Aggregate> Recurring<A> {
    /// A command that `command` makes, with the address it goes to, whenever the expression comes round in the time
    /// zone.
    pub fn new<T: Into<Address>>(
        name: impl Into<String>,
        expression: impl Into<String>,
        time_zone: impl Into<String>,
        command: impl Fn(&Planned) -> (T, A::Command) + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            expression: expression.into(),
            time_zone: time_zone.into(),
            missed: Missed::default(),
            make: Box::new(move |planned| {
                let (to, command) = command(planned);
                (to.into(), command)
            }),
        }
    }

    /// Sets what becomes of times at which no process was there; [`Missed::Once`] by default.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// Checks it, and forgets which aggregate it is for.
    pub(crate) fn declare(self) -> Result<Declared, Vec<String>> {
        let Self { name, expression, time_zone, missed, make } = self;
        let mut faults = Vec::new();
        if let Err(error) = Name::new(&name) {
            faults.push(error.to_string());
        }
        if matches!(missed, Missed::All { at_most } if !(1..=1_000).contains(&at_most)) {
            faults.push("`at_most` must be 1 to 1000".into());
        }
        let cron = Cron::new(&expression, &time_zone).map_err(|more| faults.extend(more));
        let (Ok(cron), true) = (cron, faults.is_empty()) else {
            return Err(faults.iter().map(|fault| format!("recurring command `{name}`: {fault}")).collect());
        };
        let make = Box::new(move |core: &Core, planned: &Planned, id: CommandId| {
            let (to, command) = make(planned);
            raw::<A>(core, &to, &command, id)
        });
        let expression = expression.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Declared { name, expression, time_zone, cron, missed, container: A::CONTAINER, make })
    }
}

/// A recurring command whose aggregate is forgotten.
pub(crate) struct Declared {
    pub(crate) name: String,
    pub(crate) expression: String,
    pub(crate) time_zone: String,
    pub(crate) cron: Cron,
    pub(crate) missed: Missed,
    pub(crate) container: &'static str,
    pub(crate) make: MakeRaw,
}

type MakeRaw = Box<dyn Fn(&Core, &Planned, CommandId) -> Result<RawCommand, SendError> + Send + Sync>;
