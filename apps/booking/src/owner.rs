//! Who may see the day sheets and change the days: whoever knows the password.
//!
//! The password is kept as it is, by whoever starts the program: in a file that only they can read, or in the
//! environment. A hash would protect it only from a reader of that file, who reads the guests in the store beside it too.

use highwater::Timestamp;
use highwater_axum::SigningKeys;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What the signatures are good for.
const PASSWORD: &str = "owner's password";
const SESSION: &str = "owner's session";
const FORM: &str = "owner's form";

/// How long somebody stays logged in.
pub const SESSION_TIME: Duration = Duration::from_secs(8 * 3_600);

/// How many wrong passwords are answered in [`WINDOW`]; more have to wait.
const WRONG: usize = 10;
const WINDOW: Duration = Duration::from_secs(60);

/// The shortest password, in bytes.
const SHORTEST: usize = 8;

/// The longest password, in bytes.
const LONGEST: usize = 1_024;

/// The owner's password; never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Takes a password without the line break at its end.
    ///
    /// # Errors
    /// A sentence saying what it must be.
    pub fn new(text: &str) -> Result<Self, String> {
        let text = text.trim_end_matches(['\r', '\n']);
        if !(SHORTEST..=LONGEST).contains(&text.len()) || text.contains(['\r', '\n']) {
            return Err(format!("the owner's password must be one line of {SHORTEST} to {LONGEST} bytes"));
        }
        Ok(Self(text.into()))
    }

    /// The password itself, for whoever made it up and has to tell it.
    pub(crate) fn tell(&self) -> &str {
        &self.0
    }

    /// Whether this is it. Takes the same time for every wrong one of one length.
    pub fn is(&self, typed: &str, keys: &SigningKeys) -> bool {
        typed.len() <= LONGEST && keys.verifies(PASSWORD, typed.as_bytes(), &self.tag(keys))
    }

    /// Stands for the password without telling it.
    fn tag(&self, keys: &SigningKeys) -> String {
        keys.sign(PASSWORD, self.0.as_bytes())
    }

    /// What a browser that has logged in brings back. Another password makes it worthless.
    pub fn session(&self, now: Timestamp, keys: &SigningKeys) -> String {
        let until = now.plus(SESSION_TIME).as_micros();
        let signature = keys.sign(SESSION, self.said(until, keys).as_bytes());
        format!("{until}.{signature}")
    }

    /// Whether a browser has logged in and may still come.
    pub fn admits(&self, session: &str, now: Timestamp, keys: &SigningKeys) -> bool {
        let Some((until, signature)) = session.split_once('.') else { return false };
        let until = until.parse().ok().filter(|until| *until > now.as_micros());
        until.is_some_and(|until| keys.verifies(SESSION, self.said(until, keys).as_bytes(), signature))
    }

    fn said(&self, until: i64, keys: &SigningKeys) -> String {
        format!("{until}.{}", self.tag(keys))
    }
}

/// What a form of this session carries, so that no other page can make the browser send one (CSRF).
pub fn form_key(session: &str, keys: &SigningKeys) -> String {
    keys.sign(FORM, session.as_bytes())
}

/// Whether a form was made for this session.
pub fn is_form_key(key: &str, session: &str, keys: &SigningKeys) -> bool {
    keys.verifies(FORM, session.as_bytes(), key)
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

/// Counts wrong passwords, whoever sends them: behind a proxy all come from one address.
#[derive(Debug, Default)]
pub struct Attempts(Mutex<VecDeque<Timestamp>>);

impl Attempts {
    /// Whether another password may be tried.
    pub fn allows(&self, now: Timestamp) -> bool {
        let mut wrong = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while wrong.front().is_some_and(|at| now.since(*at) >= WINDOW) {
            wrong.pop_front();
        }
        wrong.len() < WRONG
    }

    /// Notes a wrong one.
    pub fn failed(&self, now: Timestamp) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_with_its_time_its_password_and_its_keys() {
        let (keys, others) = (SigningKeys::generate().unwrap(), SigningKeys::generate().unwrap());
        let (password, other) =
            (Password::new("open sesame\n").unwrap(), Password::new("open sesame!").unwrap());
        let now = Timestamp::from_micros(1_000_000);
        let session = password.session(now, &keys);
        assert!(password.admits(&session, now, &keys));
        assert!(password.admits(&session, now.plus(SESSION_TIME - Duration::from_secs(1)), &keys));
        assert!(!password.admits(&session, now.plus(SESSION_TIME), &keys));
        assert!(!other.admits(&session, now, &keys) && !password.admits(&session, now, &others));
        let longer = format!("9{session}");
        for forged in [&*longer, "", ".", "1", "9999999999999999."] {
            assert!(!password.admits(forged, now, &keys), "{forged}");
        }
        assert!(password.is("open sesame", &keys) && !password.is("open sesam", &keys));
        assert!(is_form_key(&form_key(&session, &keys), &session, &keys));
        assert!(!is_form_key(&form_key(&session, &keys), &longer, &keys));
        assert_eq!(format!("{password:?}"), "Password(…)");
        assert!(Password::new("short\n").is_err() && Password::new("two\nlines of it").is_err());
    }

    #[test]
    fn after_ten_wrong_passwords_one_has_to_wait() {
        let (attempts, now) = (Attempts::default(), Timestamp::from_micros(1_000_000));
        for _ in 0..WRONG {
            assert!(attempts.allows(now));
            attempts.failed(now);
        }
        assert!(!attempts.allows(now.plus(WINDOW - Duration::from_secs(1))));
        assert!(attempts.allows(now.plus(WINDOW)));
    }
}
