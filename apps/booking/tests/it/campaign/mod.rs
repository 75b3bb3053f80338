//! The kill campaign: real processes on one store, killed and paused at every crash point and at random moments,
//! while messages are delivered twice and late. After each round everything must have come to rest, and nothing
//! may be broken.
//!
//! A round that breaks something names the invariant and the seed; `HIGHWATER_SEED=… HIGHWATER_ROUNDS=…` plays the
//! rounds of that seed again. Every invariant is also broken on purpose, to see that exactly it is named.

mod house;
mod plan;
mod sabotage;
mod witness;

use house::House;
use plan::{Focus, PLACES, Plan, Plans};
use std::collections::BTreeSet;
use std::time::Duration;

const SEATS: u32 = 4;

/// Rounds in one house. Then it is left, with the log of so many rounds, for a fresh one.
const ROUNDS: usize = 25;

/// Houses at a time: they wait most of the time, for the dead to count as dead.
const HOUSES: u64 = 4;

/// What a campaign has found broken.
#[derive(Debug)]
struct Broken {
    round: usize,
    plan: Plan,
    faults: Vec<String>,
}

/// The invariant that a fault names.
fn number(fault: &str) -> &str {
    fault.split([',', ':']).next().unwrap_or_default()
}

/// The faults that explain the others: a log that is wrong makes everything wrong that is made of it.
fn first_causes(faults: Vec<String>) -> Vec<String> {
    let layers: [&[&str]; 9] =
        [&["10"], &["2"], &["6"], &["11"], &["7"], &["1"], &["9"], &["5", "8"], &["3", "4"]];
    let layer = layers.iter().find(|layer| faults.iter().any(|fault| layer.contains(&number(fault))));
    let layer = layer.copied().unwrap_or_default();
    faults.into_iter().filter(|fault| layer.contains(&number(fault))).collect()
}

/// Plays rounds in one house, and returns the places that were come to.
fn play(house: &mut House, seed: u64, rounds: usize, focus: Focus) -> Result<BTreeSet<&'static str>, Broken> {
    for (round, plan) in Plans::new(seed, focus).take(rounds).enumerate() {
        let began = std::time::Instant::now();
        let faults = house.play(&plan);
        println!(
            "seed {seed} round {round}: {:?} {:?} {:?}, {:?}",
            plan::STAFF[plan.victim],
            plan.harm,
            plan.when,
            began.elapsed()
        );
        if !faults.is_empty() {
            return Err(Broken { round, plan, faults });
        }
    }
    Ok(std::mem::take(&mut house.reached))
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Plays at least so many rounds, in several houses at a time.
fn campaign(rounds: usize) {
    let chosen = variable("HIGHWATER_SEED");
    let rounds = variable("HIGHWATER_ROUNDS").map_or(rounds, |rounds| rounds as usize);
    let first = chosen.unwrap_or_else(|| fastrand::u64(..1 << 48));
    let houses = if chosen.is_some() { 1 } else { rounds.div_ceil(ROUNDS) as u64 };
    let each = if chosen.is_some() { rounds } else { ROUNDS };
    println!("{houses} houses of {each} rounds, seeds from {first}");
    let next = std::sync::atomic::AtomicU64::new(0);
    let reached = std::sync::Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for _ in 0..HOUSES.min(houses) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if number >= houses {
                        return;
                    }
                    let seed = first + number;
                    let mut house = House::open(None, Duration::from_secs(60));
                    match play(&mut house, seed, each, Focus::EVERYTHING) {
                        Ok(places) => reached.lock().unwrap().extend(places),
                        Err(Broken { round, plan, faults }) => panic!(
                            "round {round} of seed {seed} broke {faults:#?}\n{plan:?}\nagain: HIGHWATER_SEED={seed} \
                             HIGHWATER_ROUNDS={} cargo test -p booking --features failpoints --test it \
                             campaign::a_campaign -- --nocapture",
                            round + 1
                        ),
                    }
                }
            });
        }
    });
    let places: BTreeSet<_> = PLACES.iter().map(|(_, place)| *place).collect();
    if chosen.is_none() && rounds >= 200 {
        assert_eq!(reached.into_inner().unwrap(), places, "every place is come to");
    }
}

#[test]
fn a_campaign_of_deaths_pauses_and_repeated_deliveries_breaks_nothing() {
    campaign(200);
}

/// Takes about half an hour.
#[test]
#[ignore = "long; part of cargo xtask test --full"]
fn a_long_campaign_breaks_nothing() {
    campaign(3_000);
}
