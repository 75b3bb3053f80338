use crate::{Broken, Factory, Need, RULES, Rule, Subject, TestClock};
use std::{fmt, sync::Arc, time::Duration};
use tokio::runtime;

/// After this time, real time, a check counts as stuck. Rules take milliseconds; this only ends a hang.
const STUCK: Duration = Duration::from_secs(120);

/// What came of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The backend keeps it.
    Kept,
    /// The backend breaks it.
    Broken(Broken),
    /// It could not be judged, because something failed that another rule is about.
    Unjudged(Broken),
    /// The factory cannot do what the rule needs.
    LeftOut,
}

/// What came of all rules.
#[derive(Clone)]
pub struct Report {
    /// Makes random rules do the same again; `HIGHWATER_SEED` sets it.
    pub seed: u64,
    /// Every rule with its outcome, in the order of [`RULES`].
    pub outcomes: Vec<(Rule, Outcome)>,
}

impl Report {
    /// The names of the broken rules.
    pub fn broken(&self) -> Vec<&'static str> {
        let is_broken = |outcome: &Outcome| matches!(outcome, Outcome::Broken(_));
        self.outcomes.iter().filter(|(_, outcome)| is_broken(outcome)).map(|(rule, _)| rule.name).collect()
    }

    /// The report itself as the error, unless every rule that applies is kept.
    ///
    /// # Errors
    /// The report, when a rule is broken or could not be judged.
    pub fn all_kept(self) -> Result<(), Self> {
        let fine = |outcome: &Outcome| matches!(outcome, Outcome::Kept | Outcome::LeftOut);
        if self.outcomes.iter().all(|(_, outcome)| fine(outcome)) { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Kept).count();
        writeln!(f, "{kept} of {} rules kept (HIGHWATER_SEED={})", self.outcomes.len(), self.seed)?;
        for (rule, outcome) in &self.outcomes {
            match outcome {
                Outcome::Kept => {}
                Outcome::LeftOut => writeln!(f, " left out: {}", rule.name)?,
                Outcome::Broken(how) => writeln!(f, " BROKEN: {}\n   {}\n   {how}", rule.name, rule.says)?,
                Outcome::Unjudged(how) => writeln!(f, " not judged: {}\n   {how}", rule.name)?,
            }
        }
        Ok(())
    }
}

/// Readable, because a test that returns a report as its error shows it this way.
impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Checks every rule, each against a fresh backend, one after the other. Needs no runtime around it.
pub fn run(factory: impl Factory) -> Report {
    judge(Arc::new(factory), RULES)
}

/// Checks the rule of this name.
///
/// # Errors
/// A report of that one rule, unless it is kept; also when the factory cannot do what it needs, or when there is no
/// such rule: a check that was not made proves nothing.
pub fn check(factory: impl Factory, name: &str) -> Result<(), Report> {
    let rules: Vec<Rule> = RULES.iter().filter(|rule| rule.name == name).copied().collect();
    let report = judge(Arc::new(factory), &rules);
    let kept = |(_, outcome): &(Rule, Outcome)| *outcome == Outcome::Kept;
    if !report.outcomes.is_empty() && report.outcomes.iter().all(kept) { Ok(()) } else { Err(report) }
}

/// Whether a factory can do exactly what its tests say it can; prints the rules that are left out.
#[doc(hidden)]
pub fn same_features(factory: impl Factory, listed: &[Need]) -> Result<(), String> {
    let features = factory.features();
    for rule in RULES {
        let can = rule.needs.is_none_or(|need| listed.contains(&need));
        if can != rule.applies(features) {
            let says = if can { "lists" } else { "does not list" };
            return Err(format!("`can` {says} {:?}, Factory::features says otherwise", rule.needs));
        }
        if !can {
            println!("left out, this factory cannot do what it needs: {}", rule.name);
        }
    }
    Ok(())
}

fn judge(factory: Arc<dyn Factory>, rules: &[Rule]) -> Report {
    let seed = std::env::var("HIGHWATER_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    let outcomes = rules.iter().map(|rule| (*rule, outcome(&factory, rule, seed)));
    Report { seed, outcomes: outcomes.collect() }
}

fn outcome(factory: &Arc<dyn Factory>, rule: &Rule, seed: u64) -> Outcome {
    if !rule.applies(factory.features()) {
        return Outcome::LeftOut;
    }
    // A runtime for each rule: whatever a broken engine leaves behind ends with it.
    let runtime = match runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Outcome::Broken(error.into()),
    };
    let checking = rule.check;
    let factory = factory.clone();
    let task = runtime.spawn(async move {
        let clock = Arc::new(TestClock::new());
        let backend = factory.fresh(clock.clone()).await;
        let backend = backend.map_err(|problem| Broken::new("a fresh backend", problem.to_string()))?;
        checking(Subject::new(backend, clock, seed, factory)).await
    });
    let ended = runtime.block_on(async { tokio::time::timeout(STUCK, task).await });
    runtime.shutdown_background();
    match ended {
        Ok(Ok(Ok(()))) => Outcome::Kept,
        Ok(Ok(Err(broken))) if broken.is_given() => Outcome::Unjudged(broken),
        Ok(Ok(Err(broken))) => Outcome::Broken(broken),
        Ok(Err(panic)) => Outcome::Broken(Broken::new("no panic", panic.to_string())),
        Err(_) => Outcome::Broken(Broken::new("an end", format!("none after {STUCK:?}"))),
    }
}

/// Makes one `#[test]` for each rule, named after it, in a module:
/// `conformance! { in_memory: InMemory::default() }`. The expression makes the [`Factory`] and is evaluated
/// for each test.
///
/// What the factory can do besides stands behind it, in the words of [`Need`]:
/// `conformance! { on_disk: OnDisk::new(), can Reopen }`. Rules that need something else have no test: what is not
/// checked does not pass. One test more checks that the list is what [`Factory::features`] says, and names the rules
/// left out.
#[macro_export]
macro_rules! conformance {
    ($module:ident: $factory:expr $(, can $($can:ident),+)?) => {
        mod $module {
            #[allow(unused_imports)]
            use super::*;

            /// What the factory can do is what these tests rely on.
            #[test]
            fn the_features_of_the_factory_are_those_listed() -> Result<(), String> {
                $crate::same_features($factory, &[$($($crate::Need::$can),+)?])
            }

            $crate::__every_rule! { [$crate::__tests] [$factory] [$($($can)+)?] }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ([$factory:expr] $can:tt $($file:ident $area:ident {
        $($name:ident [$($invariant:literal)?] $((needs $need:ident))? $says:literal;)*
    })*) => { $($(
        $crate::__test! { $can [$($need)?] [$factory] $name $says }
    )*)* };
}

/// One rule as a test: `[what the factory can do] [what the rule needs] …`.
#[doc(hidden)]
#[macro_export]
macro_rules! __test {
    ($can:tt [] [$factory:expr] $name:ident $says:literal) => {
        #[doc = $says]
        #[test]
        fn $name() -> Result<(), $crate::Report> {
            $crate::check($factory, stringify!($name))
        }
    };
    ([Reopen $($can:ident)*] [Reopen] $($rest:tt)*) => { $crate::__test! { [] [] $($rest)* } };
    ([Hold $($can:ident)*] [Hold] $($rest:tt)*) => { $crate::__test! { [] [] $($rest)* } };
    ([$other:ident $($can:ident)*] $($rest:tt)*) => { $crate::__test! { [$($can)*] $($rest)* } };
    ([] [$need:ident] $($left_out:tt)*) => {};
}
