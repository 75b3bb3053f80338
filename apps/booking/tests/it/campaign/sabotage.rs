//! Every invariant broken on purpose: the campaign must say which, and no other.

use super::house::House;
use super::plan::{Focus, Harm};
use super::{Broken, number, play};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// A round that is not in order after this time is broken. Rounds take about two seconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(12);

/// Houses at a time.
const AT_A_TIME: usize = 4;

/// Within so many rounds the sabotage must be noticed.
const ROUNDS: usize = 24;

/// A sabotage, the invariant that it breaks, and the places and the harm that bring it to light.
type Case = (&'static str, &'static str, &'static [&'static str], Option<Harm>);

const CASES: &[Case] = &[
    ("etag-not-compared", "1", &["worker.decided"], Some(Harm::Falters)),
    ("late-arrival", "2", &[], None),
    ("checkpoint-first", "3", &["processor.read"], Some(Harm::Dies)),
    ("position-first", "4", &["view.folded"], Some(Harm::Dies)),
    ("deleted-first", "5", &["worker.read", "worker.decided"], Some(Harm::Dies)),
    ("acknowledged-first", "5", &["sqlite.commit.before"], Some(Harm::Dies)),
    ("epoch-not-compared", "6", &["view.folded"], Some(Harm::Pauses)),
    ("lease-not-compared", "6", &["processor.handled"], Some(Harm::Pauses)),
    ("mark-not-compared", "7", &["worker.committed"], Some(Harm::Dies)),
    ("outcome-invented", "7", &["worker.read"], Some(Harm::Dies)),
    ("token-not-compared", "8", &["view.folded"], Some(Harm::Pauses)),
    ("no-polling", "9", &["mail.renamed"], Some(Harm::Dies)),
    ("time-backwards", "11", &[], None),
];

/// Plays rounds with a staff that breaks an invariant. Says what is wrong with what the campaign makes of it.
fn unnoticed(&(sabotage, invariant, places, harm): &Case) -> Option<String> {
    let seed = fastrand::u64(..1 << 48);
    println!("{sabotage}: seed {seed}");
    let mut house = House::open(Some(sabotage), PATIENCE);
    let Err(Broken { faults, .. }) = play(&mut house, seed, ROUNDS, Focus { places, harm }) else {
        return Some(format!("{sabotage} was not noticed in {ROUNDS} rounds of seed {seed}"));
    };
    let named: BTreeSet<&str> = faults.iter().map(|fault| number(fault)).collect();
    let exactly = named == BTreeSet::from([invariant]);
    (!exactly).then(|| format!("{sabotage} should break {invariant} in seed {seed}: {faults:#?}"))
}

#[test]
fn every_invariant_that_is_broken_on_purpose_is_named_and_no_other() {
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(case) = CASES.get(next.fetch_add(1, Relaxed)) {
                    wrong.lock().unwrap().extend(unnoticed(case));
                }
            });
        }
    });
    assert_eq!(wrong.into_inner().unwrap(), [""; 0]);
}
