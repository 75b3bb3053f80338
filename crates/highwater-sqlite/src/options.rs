use crate::OpenError;
use highwater_core::Limits;
use std::time::Duration;

/// When a write counts as durable. The words are SQLite's (`PRAGMA synchronous`, in WAL mode).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Synchronous {
    /// Every group of writes is on disk before it is acknowledged. The default; lower it only where a power cut
    /// may lose acknowledged writes.
    #[default]
    Full,
    /// Written at once, on disk some time later: a power cut may lose the last acknowledged writes, a crash of
    /// the program does not. The file stays sound. For views, which can be rebuilt, and for tests.
    Normal,
}

impl Synchronous {
    pub(crate) fn pragma(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Normal => "NORMAL",
        }
    }
}

/// How a store is opened. Every field has a default that suits most applications.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// How many partitions a store gets when it is created, 1 to 1024 (default 16); ignored for one that exists.
    /// Raise it when more than 16 instances shall share the work of one processor; every partition costs two
    /// pages and a little time at each read of all of them.
    pub partitions: u16,
    /// When a write counts as durable (default [`Synchronous::Full`]).
    pub synchronous: Synchronous,
    /// How many threads read, 1 to 64 (default 2). Raise it when reads wait for one another while cores are idle.
    /// In memory the writer's thread reads.
    pub readers: usize,
    /// What the store accepts, and how long commands and ids of messages are remembered (default
    /// [`Limits::portable`]).
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self { partitions: 16, synchronous: Synchronous::Full, readers: 2, limits: Limits::portable() }
    }
}

impl Options {
    /// Sets how many partitions a store gets when it is created.
    pub fn partitions(mut self, partitions: u16) -> Self {
        self.partitions = partitions;
        self
    }

    /// Sets when a write counts as durable.
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// Sets how many threads read.
    pub fn readers(mut self, readers: usize) -> Self {
        self.readers = readers;
        self
    }

    /// Sets how long decided commands, and the ids of messages that are gone, are remembered: at least a second, as
    /// long as the log by default ([`Limits::horizon`]). Set it when their tables must not grow with the log; raise it
    /// when a sender may repeat itself later than that.
    pub fn horizon(mut self, span: Duration) -> Self {
        self.limits.horizon = Some(span);
        self
    }

    /// Sets what the store accepts.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

impl Options {
    /// Takes over the options of a URL, `partitions=64&synchronous=normal`.
    pub(crate) fn with_query(mut self, query: &str) -> Result<Self, OpenError> {
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let unknown = || OpenError::UnknownOption { option: option.chars().take(64).collect() };
            match option.split_once('=').ok_or_else(unknown)? {
                ("partitions", count) => self.partitions = count.parse().map_err(|_| unknown())?,
                ("horizon", span) => self.limits.horizon = Some(horizon(span).ok_or_else(unknown)?),
                ("readers", count) => self.readers = count.parse().map_err(|_| unknown())?,
                ("synchronous", "full") => self.synchronous = Synchronous::Full,
                ("synchronous", "normal") => self.synchronous = Synchronous::Normal,
                _ => return Err(unknown()),
            }
        }
        Ok(self)
    }
}

/// A span as a URL says it: `90` or `90s`, `36h`, `30d`.
fn horizon(text: &str) -> Option<Duration> {
    let (number, unit) = match text.as_bytes().last()? {
        b'd' => (text.strip_suffix('d')?, 24 * 60 * 60),
        b'h' => (text.strip_suffix('h')?, 60 * 60),
        b's' => (text.strip_suffix('s')?, 1),
        _ => (text, 1),
    };
    number.parse::<u32>().ok().map(|number| Duration::from_secs(u64::from(number) * unit))
}

/// The changes of a commit and the events of a change are numbered in 16 bits.
const COUNTED: usize = u16::MAX as usize;

/// SQLite refuses rows of more than a billion bytes (`SQLITE_MAX_LENGTH`).
const LARGEST: usize = 256 * 1024 * 1024;

/// Whether every option is in its range.
pub(crate) fn check(options: &Options) -> Result<(), OpenError> {
    let partitions = usize::from(options.partitions);
    if !(1..=1024).contains(&partitions) {
        let (what, range) = ("the number of partitions", "between 1 and 1024");
        return Err(OpenError::OutOfRange { what, value: partitions, range });
    }
    if !(1..=64).contains(&options.readers) {
        let (what, range) = ("the number of readers", "between 1 and 64");
        return Err(OpenError::OutOfRange { what, value: options.readers, range });
    }
    if options.limits.horizon.is_some_and(|span| span < Limits::SHORTEST_LIFE) {
        let (what, range) = ("the horizon, in seconds,", "at least 1");
        return Err(OpenError::OutOfRange { what, value: 0, range });
    }
    let Limits { writes_per_batch, events_per_change, change_bytes, .. } = options.limits;
    let counts = [
        ("the limit of writes of a batch", writes_per_batch),
        ("the limit of events of a change", events_per_change),
    ];
    if let Some((what, value)) = counts.into_iter().find(|(_, value)| *value > COUNTED) {
        return Err(OpenError::OutOfRange { what, value, range: "at most 65535" });
    }
    if change_bytes > LARGEST {
        let (what, range) = ("the limit of bytes of a change", "at most 256 MiB");
        return Err(OpenError::OutOfRange { what, value: change_bytes, range });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_horizon_is_written_in_days_hours_or_seconds() {
        for (text, seconds) in [("30d", 30 * 86_400), ("36h", 36 * 3_600), ("90s", 90), ("90", 90)] {
            let options = Options::default().with_query(&format!("horizon={text}")).unwrap();
            assert_eq!(options.limits.horizon, Some(Duration::from_secs(seconds)));
        }
        for text in ["", "d", "1w", "-1", "1.5d", "99999999999d"] {
            assert!(Options::default().with_query(&format!("horizon={text}")).is_err(), "{text}");
        }
        let too_short = check(&Options::default().horizon(Duration::ZERO)).unwrap_err().to_string();
        assert!(too_short.contains("at least 1"), "{too_short}");
    }

    #[test]
    fn a_url_may_carry_options_and_what_it_does_not_know_is_named() {
        let options = Options::default().with_query("partitions=64&synchronous=normal&readers=4").unwrap();
        let expected = Options::default().partitions(64).synchronous(Synchronous::Normal).readers(4);
        assert_eq!(options, expected);
        for query in ["partition=3", "partitions=many", "synchronous=off", "readers", "partitions=-1"] {
            let error = Options::default().with_query(query).unwrap_err().to_string();
            assert!(error.contains(query), "{error}");
        }
    }
}
