//! Tests for those who build on Highwater and for those who build an engine for it.
//!
//! # Aggregates and views
//!
//! [`given`] tests an aggregate, [`view`] a view, both in a few lines. [`SchemaLock`] watches over what they store.
//!
//! # Engines
//!
//! What every engine has to keep is one list of rules.
//!
//! A *rule* is a sentence and a check. [`RULES`] lists all of them, for [`Store`](highwater_core::Store),
//! [`Queue`](highwater_core::Queue), [`Cells`](highwater_core::Cells) and
//! [`ViewStore`](highwater_core::ViewStore). An engine's test says how to make a fresh backend and gets one
//! `#[test]` for each rule, named after it:
//!
//! ```
//! use highwater_core::{Backend, async_trait};
//! use highwater_testkit::{Factory, Problem, TestClock};
//! use std::sync::Arc;
//!
//! struct OnDisk;
//!
//! #[async_trait]
//! impl Factory for OnDisk {
//!     async fn fresh(&self, clock: Arc<TestClock>) -> Result<Backend, Problem> {
//! #       let _ = clock;
//!         // open the engine here, with `clock` as its clock
//! #       Err("not an engine".into())
//!     }
//! }
//!
//! highwater_testkit::conformance! { on_disk: OnDisk }
//! ```
//!
//! A rule that needs more of the factory than it can do, such as opening a backend again, gets no test;
//! `the_features_of_the_factory_are_those_listed` names it.
//!
//! [`run`] runs all rules at once and reports every broken one with what was expected and what was found.
//!
//! A rule proves something only if a store that breaks it is caught. [`WRONG`] lists deliberately wrong stores,
//! each built around a right one, and the one rule that each breaks; the tests of this crate run the whole list
//! of rules against each of them and accept no rule more and no rule less.
//!
//! Rules wait for gates and drive a [`TestClock`]; none sleeps. Random ones print their seed, which
//! `HIGHWATER_SEED` sets.

mod broken;
mod delegate;
mod factory;
#[cfg(feature = "given")]
mod given;
#[cfg(feature = "lock")]
mod lock;
mod rule;
mod rules;
mod sample;
mod subject;
mod suite;
mod test_clock;
mod wrong;

pub use broken::Broken;
pub use delegate::{Delegate, DelegateCells, DelegateQueue, DelegateStore, DelegateViews};
pub use factory::{Factory, Features, Held, Problem};
#[cfg(feature = "given")]
pub use given::{AggregateTest, Decided, ViewTest, given, view};
#[cfg(feature = "lock")]
pub use lock::SchemaLock;
pub use rule::{Area, Checking, Need, Rule};
pub use rules::RULES;
pub use subject::Subject;
#[doc(hidden)]
pub use suite::same_features;
pub use suite::{Outcome, Report, check, run};
pub use test_clock::TestClock;
pub use wrong::{WRONG, Wrong};
