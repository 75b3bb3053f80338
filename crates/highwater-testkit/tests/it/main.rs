//! Proves the rules: the right store keeps all of them, and each wrong one breaks exactly its own.

mod given;
mod lock;

use highwater_core::{Backend, async_trait};
use highwater_sqlite::Options;
use highwater_testkit::{Factory, Problem, RULES, TestClock, WRONG, wrong_stores};
use std::{collections::BTreeSet, sync::Arc};

struct InMemory;

#[async_trait]
impl Factory for InMemory {
    async fn fresh(&self, clock: Arc<TestClock>) -> Result<Backend, Problem> {
        Ok(highwater_sqlite::open(":memory:", Options::default(), clock)?)
    }
}

wrong_stores! { in_memory: InMemory }

#[test]
fn the_store_under_the_wrong_ones_is_right() -> Result<(), highwater_testkit::Report> {
    highwater_testkit::run(InMemory).all_kept()
}

#[test]
fn every_rule_has_a_name_of_its_own_and_is_a_sentence() {
    let names: BTreeSet<_> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(names.len(), RULES.len());
    for rule in RULES {
        assert!(rule.says.ends_with('.') && rule.says.len() < 120, "{rule:?}: {}", rule.says);
    }
}

#[test]
fn every_wrong_store_names_the_rule_that_it_breaks_and_no_two_the_same() {
    let rules: BTreeSet<_> = RULES.iter().map(|rule| rule.name).collect();
    let broken: BTreeSet<_> = WRONG.iter().map(|wrong| wrong.breaks).collect();
    assert!(broken.is_subset(&rules), "{:?}", broken.difference(&rules));
    assert_eq!(broken.len(), WRONG.len());
}
