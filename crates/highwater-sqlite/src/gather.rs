//! How long a group waits for company.
//!
//! Callers who were just answered are about to come back. If the writer begins at once, half of them wait for a
//! COMMIT while the other half prepares, and each COMMIT serves a half. A short wait lets them share one.

use std::time::{Duration, Instant};

/// The longest wait for more members.
const LONGEST: Duration = Duration::from_micros(500);

/// After a wait in vain so many groups begin at once, then twice as many, and so on.
const IN_VAIN: u32 = 4;
const IN_VAIN_AT_MOST: u32 = 256;

/// What the last groups say about how many callers there are.
#[derive(Default)]
pub(crate) struct Gather {
    /// Callers that had asked or were answered when the last group ended: so many may share the next one.
    callers: usize,
    /// How long COMMIT takes.
    commit: Duration,
    /// The wait that is going on: since there were so many members, until when.
    wait: Option<(usize, Instant)>,
    /// How many groups begin at once, and how many did after the last wait in vain.
    skip: u32,
    skipped: u32,
}

impl Gather {
    /// How much longer a group of `size` members, for which nobody else has asked yet, should wait.
    pub(crate) fn patience(&mut self, size: usize) -> Option<Duration> {
        if self.skip > 0 || size >= enough(self.callers) {
            return None;
        }
        let now = Instant::now();
        let (_, until) = *self.wait.get_or_insert_with(|| (size, now + (self.commit / 2).min(LONGEST)));
        until.checked_duration_since(now).filter(|rest| !rest.is_zero())
    }

    /// A group is complete: whether its wait was worth it.
    pub(crate) fn complete(&mut self, size: usize) {
        self.skip = self.skip.saturating_sub(1);
        let Some((began, _)) = self.wait.take() else { return };
        let came = size.saturating_sub(began) * 2 >= enough(self.callers).saturating_sub(began);
        self.skipped = if came { 0 } else { (self.skipped * 2).clamp(IN_VAIN, IN_VAIN_AT_MOST) };
        self.skip = self.skipped;
    }

    /// COMMIT took so long.
    pub(crate) fn committed(&mut self, took: Duration) {
        self.commit = (self.commit * 7 + took) / 8;
    }

    /// A group is about to be answered while so many callers wait for the next one.
    pub(crate) fn answered(&mut self, size: usize, waiting: usize) {
        self.callers = size + waiting;
    }
}

/// Some callers are late, and some never come back.
fn enough(callers: usize) -> usize {
    callers - callers / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(size: usize, waiting: usize) -> Gather {
        let mut gather = Gather::default();
        (0..64).for_each(|_| gather.committed(Duration::from_secs(1)));
        gather.answered(size, waiting);
        gather
    }

    #[test]
    fn a_caller_alone_never_waits() {
        assert_eq!(after(1, 0).patience(1), None);
    }

    #[test]
    fn callers_that_take_turns_are_waited_for_until_most_are_there() {
        let mut gather = after(33, 31);
        assert!(gather.patience(31).is_some_and(|wait| wait <= LONGEST));
        assert!(gather.patience(55).is_some());
        assert_eq!(gather.patience(56), None);
        gather.complete(56);
        gather.answered(56, 8);
        assert!(gather.patience(8).is_some());
    }

    #[test]
    fn callers_that_do_not_come_back_are_waited_for_less_and_less() {
        let mut gather = after(33, 31);
        let mut waits = 0;
        for _ in 0..1_000 {
            waits += usize::from(gather.patience(31).is_some());
            gather.complete(31);
            gather.answered(33, 31);
        }
        assert!((5..20).contains(&waits), "{waits}");
    }
}
