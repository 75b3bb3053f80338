//! Given what happened, when this is asked, then that follows: tests of aggregates and views in their own words.

mod aggregate;
mod view;

pub use aggregate::{AggregateTest, Decided, given};
pub use view::{ViewTest, view};
