//! What happens in a round: who is struck where, and what guests do meanwhile. All of it follows from the seed.

use fastrand::Rng;
use std::time::Duration;

/// The processes on one data folder, by the names of their roles.
pub(super) const STAFF: [&str; 5] = ["web", "worker", "worker", "projector", "projector"];

/// Where in the code each role can be struck: around read, decide, commit, outcome, delete, fold, view write,
/// checkpoint and mail.
pub(super) const PLACES: &[(&str, &str)] = &[
    ("web", "sqlite.commit.before"),
    ("web", "sqlite.commit.after"),
    ("worker", "worker.read"),
    ("worker", "worker.decided"),
    ("worker", "worker.committed"),
    ("worker", "worker.deleted"),
    ("worker", "sqlite.commit.before"),
    ("worker", "sqlite.commit.after"),
    ("projector", "view.folded"),
    ("projector", "view.written"),
    ("projector", "processor.read"),
    ("projector", "processor.handled"),
    ("projector", "mail.written"),
    ("projector", "mail.renamed"),
    ("projector", "sqlite.views.commit.before"),
    ("projector", "sqlite.views.commit.after"),
    ("projector", "sqlite.commit.before"),
    ("projector", "sqlite.commit.after"),
];

/// What befalls a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Harm {
    /// SIGKILL.
    Dies,
    /// SIGSTOP, and SIGCONT once others have taken over its work.
    Pauses,
    /// The same, but it goes on before anybody has noticed.
    Falters,
}

impl Harm {
    const ALL: [Self; 3] = [Self::Dies, Self::Pauses, Self::Falters];
}

/// When it befalls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// At this place, when it comes there for this time.
    At(&'static str, u32),
    /// After this time.
    After(Duration),
}

/// What a guest does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Deed {
    /// Asks for a table.
    Book { day: String, quantity: u32 },
    /// Sends an earlier form again.
    SendAgain,
    /// Sends an earlier form's number with something else.
    ReuseNumber,
    /// The network delivers the message once more, under a name of its own, after this time.
    Deliver { after: Duration },
    /// Gives an accepted table back.
    Cancel,
}

/// One round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// Who, as an index into [`STAFF`].
    pub(super) victim: usize,
    pub(super) harm: Harm,
    pub(super) when: When,
    pub(super) deeds: Vec<Deed>,
}

/// Which rounds a campaign draws from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Focus {
    /// Only these places; all of them if empty.
    pub(super) places: &'static [&'static str],
    /// Only this harm.
    pub(super) harm: Option<Harm>,
}

impl Focus {
    pub(super) const EVERYTHING: Self = Self { places: &[], harm: None };
}

/// The plans of one house, without an end.
pub(super) struct Plans {
    random: Rng,
    focus: Focus,
    /// What was drawn and not yet played: every place and harm comes before any comes again.
    deck: Vec<(&'static str, Harm, Option<&'static str>)>,
    /// Days that were used up by earlier rounds.
    days: u32,
}

impl Plans {
    pub(super) fn new(seed: u64, focus: Focus) -> Self {
        Self { random: Rng::with_seed(seed), focus, deck: Vec::new(), days: 0 }
    }

    fn deal(&mut self) -> (&'static str, Harm, Option<&'static str>) {
        if self.deck.is_empty() {
            for harm in Harm::ALL {
                if self.focus.harm.is_some_and(|only| only != harm) {
                    continue;
                }
                for (role, place) in PLACES {
                    if self.focus.places.is_empty() || self.focus.places.contains(place) {
                        self.deck.push((role, harm, Some(place)));
                    }
                }
                if self.focus.places.is_empty() {
                    self.deck.extend(["web", "worker", "projector"].map(|role| (role, harm, None)));
                }
            }
            self.random.shuffle(&mut self.deck);
        }
        self.deck.pop().unwrap()
    }

    /// One that other rounds have not touched, or the one before, or rarely the same in another month: those who
    /// are at work at the same time shall meet.
    fn day(&mut self) -> String {
        let number = (self.days + self.random.u32(0..2)) % 28 + 1;
        format!("2999-{:02}-{number:02}", if self.random.u8(0..4) == 0 { 11 } else { 12 })
    }

    fn deeds(&mut self) -> Vec<Deed> {
        let mut deeds = Vec::new();
        for _ in 0..self.random.usize(4..9) {
            deeds.push(Deed::Book { day: self.day(), quantity: self.random.u32(1..=super::SEATS) });
            match self.random.u32(0..8) {
                0 => deeds.push(Deed::SendAgain),
                1 => deeds.push(Deed::ReuseNumber),
                2 | 3 => {
                    deeds.push(Deed::Deliver { after: Duration::from_millis(self.random.u64(0..1_500)) });
                }
                4 => deeds.push(Deed::Cancel),
                _ => {}
            }
        }
        self.days += 1;
        deeds
    }
}

impl Iterator for Plans {
    type Item = Plan;

    fn next(&mut self) -> Option<Plan> {
        let (role, harm, place) = self.deal();
        let colleagues: Vec<usize> = (0..STAFF.len()).filter(|index| STAFF[*index] == role).collect();
        let victim = colleagues[self.random.usize(0..colleagues.len())];
        let when = match place {
            Some(place) => When::At(place, self.random.u32(1..=4)),
            None => When::After(Duration::from_micros(self.random.u64(0..40_000))),
        };
        Some(Plan { victim, harm, when, deeds: self.deeds() })
    }
}

mod tests {
    use super::*;
    use crate::crashes::POINTS;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_gives_the_same_rounds_again_and_a_deck_strikes_every_place_in_every_way() {
        let plans: Vec<Plan> = Plans::new(7, Focus::EVERYTHING).take(3 * (PLACES.len() + 3)).collect();
        assert_eq!(plans, Plans::new(7, Focus::EVERYTHING).take(plans.len()).collect::<Vec<_>>());
        for harm in Harm::ALL {
            for (role, place) in PLACES {
                let struck = |plan: &&Plan| {
                    STAFF[plan.victim] == *role
                        && plan.harm == harm
                        && matches!(plan.when, When::At(at, _) if at == *place)
                };
                assert_eq!(plans.iter().filter(struck).count(), 1, "{role} {harm:?} at {place}");
            }
        }
    }

    #[test]
    fn the_campaign_strikes_at_every_crash_point() {
        let name = |point: &&'static str| point.split(':').next().unwrap();
        let there: BTreeSet<&str> = POINTS.iter().map(name).collect();
        assert_eq!(PLACES.iter().map(|(_, place)| *place).collect::<BTreeSet<_>>(), there);
    }
}
