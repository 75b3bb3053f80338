use std::{error::Error, fmt, fmt::Debug, panic::Location};

/// How a rule was broken: what it expected, what it found, and where in the rule.
///
/// Every error converts into it, so that a rule writes `?` after what it expects to succeed.
#[derive(Clone, PartialEq, Eq)]
pub struct Broken {
    /// What the rule expected.
    pub expected: String,
    /// What it found instead.
    pub found: String,
    at: &'static Location<'static>,
    given: bool,
}

/// What a rule's check returns.
pub(crate) type Kept = Result<(), Broken>;

impl Broken {
    /// A broken rule, at the place that calls this.
    #[track_caller]
    pub fn new(expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { expected: expected.into(), found: found.into(), at: Location::caller(), given: false }
    }

    /// True when the rule did not come as far as its own sentence, because something failed that another rule is
    /// about.
    pub fn is_given(&self) -> bool {
        self.given
    }
}

impl<E: Error> From<E> for Broken {
    #[track_caller]
    fn from(error: E) -> Self {
        let mut found = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            found = format!("{found}: {cause}");
            source = cause.source();
        }
        Self::new("success", found)
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.given { "expected beforehand" } else { "expected" };
        let at = format_args!("{}:{}", self.at.file(), self.at.line());
        write!(f, "{what} {}\n   found {}\n   at {at}", self.expected, self.found)
    }
}

impl Debug for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Marks what a rule needs but is not about. If it fails, the rule is not judged: another rule is about it, and
/// a backend that breaks none and leaves one unjudged does not pass either.
pub(crate) trait Given {
    fn given(self) -> Self;
}

impl<T> Given for Result<T, Broken> {
    fn given(self) -> Self {
        self.map_err(|broken| Broken { given: true, ..broken })
    }
}

/// Checks that two values are the same.
#[track_caller]
pub(crate) fn same<T: PartialEq<U> + Debug, U: Debug>(what: &str, found: T, expected: U) -> Kept {
    if found == expected {
        return Ok(());
    }
    Err(Broken::new(format!("{what}: {expected:?}"), format!("{found:?}")))
}

/// Checks what a sentence says; `found` is shown if it is not so.
#[track_caller]
pub(crate) fn ensure(says: &str, holds: bool, found: impl Debug) -> Kept {
    if holds { Ok(()) } else { Err(Broken::new(says, format!("{found:?}"))) }
}

/// Takes what should be there.
#[track_caller]
pub(crate) fn some<T>(what: &str, found: Option<T>) -> Result<T, Broken> {
    found.ok_or_else(|| Broken::new(what, "nothing"))
}

/// Takes the only one.
#[track_caller]
pub(crate) fn only<T: Debug>(what: &str, found: Vec<T>) -> Result<T, Broken> {
    match <[T; 1]>::try_from(found) {
        Ok([one]) => Ok(one),
        Err(found) => Err(Broken::new(format!("exactly one {what}"), format!("{found:?}"))),
    }
}

/// Checks that a result is an error of this pattern.
macro_rules! refused {
    ($result:expr, $pattern:pat $(if $guard:expr)?) => {
        match $result {
            Err($pattern) $(if $guard)? => Ok(()),
            other => Err($crate::Broken::new(
                concat!("an error ", stringify!($pattern) $(, " where ", stringify!($guard))?),
                format!("{other:?}"),
            )),
        }
    };
}
pub(crate) use refused;
