//! Adds up what the test runners say they ran.

/// Tests passed, failed and skipped, over all runners of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    /// Whether any runner came as far as a summary.
    pub(crate) counted: bool,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.counted |= other.counted;
    }

    /// The line that ends a run in which any test runner came to its end.
    pub(crate) fn closing_line(&self) -> Option<String> {
        let Self { passed, failed, skipped, counted } = *self;
        counted.then(|| match skipped {
            0 => format!("{passed} passed, {failed} failed"),
            _ => format!("{passed} passed, {failed} failed, {skipped} skipped"),
        })
    }
}

/// A test runner, by the form of its summary. Only its own form counts: the output of a failed test, which both
/// runners repeat, may hold a summary in the other one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    Nextest,
    CargoTest,
}

impl Runner {
    /// What a line of the runner's output counts, if it is a summary.
    pub(crate) fn summary(self, line: &str) -> Option<Tally> {
        let line = without_colour(line);
        match self {
            Self::Nextest => nextest_summary(&line),
            Self::CargoTest => libtest_summary(&line),
        }
    }
}

/// `Summary [ 0.112s] 3 tests run: 1 passed (1 slow), 1 failed, 1 timed out, 1 skipped`; `2/3 tests run` if it was
/// cut short. Whatever ran and did not pass has failed.
fn nextest_summary(line: &str) -> Option<Tally> {
    let (_, rest) = line.trim_start().strip_prefix("Summary [")?.split_once(']')?;
    let (ran, counts) = rest.split_once(" run:")?;
    let ran = ran.split_whitespace().next()?.split('/').next()?.parse::<u64>().ok()?;
    let passed = number_before(counts, "passed").unwrap_or(0);
    let skipped = number_before(counts, "skipped").unwrap_or(0);
    Some(Tally { passed, failed: ran.saturating_sub(passed), skipped, counted: true })
}

/// `test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`
fn libtest_summary(line: &str) -> Option<Tally> {
    let counts = line.trim_start().strip_prefix("test result: ")?;
    Some(Tally {
        passed: number_before(counts, "passed")?,
        failed: number_before(counts, "failed")?,
        skipped: number_before(counts, "ignored").unwrap_or(0),
        counted: true,
    })
}

fn number_before(text: &str, word: &str) -> Option<u64> {
    let words: Vec<&str> =
        text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.windows(2).find(|pair| pair[1] == word).and_then(|pair| pair[0].parse().ok())
}

fn without_colour(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' {
            rest.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(runner: Runner, line: &str) -> Option<(u64, u64, u64)> {
        runner.summary(line).map(|tally| (tally.passed, tally.failed, tally.skipped))
    }

    #[test]
    fn the_summary_of_nextest_is_read() {
        for (line, counts) in [
            ("     Summary [   0.008s] 2 tests run: 2 passed, 1 skipped", (2, 0, 1)),
            ("     Summary [   0.008s] 1 test run: 1 passed (1 slow), 0 skipped", (1, 0, 0)),
            ("     Summary [   9.100s] 9 tests run: 6 passed, 1 failed, 2 timed out, 0 skipped", (6, 3, 0)),
            ("     Summary [   9.100s] 2/9 tests run: 1 passed, 1 failed, 4 skipped", (1, 1, 4)),
        ] {
            assert_eq!(read(Runner::Nextest, line), Some(counts), "{line}");
        }
    }

    #[test]
    fn colour_does_not_hide_a_summary() {
        let line = "\u{1b}[32;1m     Summary\u{1b}[0m [   0.008s] \u{1b}[1m2\u{1b}[0m tests run: \u{1b}[1m2\u{1b}[0m \
                    \u{1b}[32;1mpassed\u{1b}[0m, \u{1b}[1m1\u{1b}[0m \u{1b}[33;1mskipped\u{1b}[0m";
        assert_eq!(read(Runner::Nextest, line), Some((2, 0, 1)));
    }

    #[test]
    fn the_summary_of_cargo_test_is_read() {
        let ok =
            "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        let bad = "test result: FAILED. 0 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(read(Runner::CargoTest, ok), Some((2, 0, 1)));
        assert_eq!(read(Runner::CargoTest, bad), Some((0, 3, 0)));
        assert_eq!(read(Runner::CargoTest, "test a_test_result ... ok"), None);
    }

    #[test]
    fn a_summary_in_the_output_of_a_failed_test_is_not_counted() {
        let repeated = "    test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 40 filtered out";
        assert_eq!(read(Runner::Nextest, repeated), None);
    }

    #[test]
    fn a_run_without_a_runner_has_no_closing_line() {
        let mut tally = Tally::default();
        assert_eq!(tally.closing_line(), None);
        tally.add(Tally { passed: 2, counted: true, ..Tally::default() });
        assert_eq!(tally.closing_line().as_deref(), Some("2 passed, 0 failed"));
        tally.add(Tally { failed: 1, skipped: 3, counted: true, ..Tally::default() });
        assert_eq!(tally.closing_line().as_deref(), Some("2 passed, 1 failed, 3 skipped"));
    }
}
