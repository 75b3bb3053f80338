//! Keys that sign what a browser or a letter carries away and brings back.
//!
//! The keys lie in a file beside the store, not in it: a copy of the store that is handed on for a look then tells
//! nobody how to sign, and a key is changed with a text editor. All processes of one data folder read the same file.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// The length of a key, in bytes: that of the hash (RFC 2104, 3).
const KEY_BYTES: usize = 32;

/// The most keys that are tried, so that a forged signature costs a bounded amount of work.
const MOST_KEYS: usize = 8;

/// The most bytes that a file of keys can have.
const FILE_BYTES: u64 = 16 * 1024;

/// Signs with HMAC-SHA256 (RFC 2104); knows older keys too, whose signatures are still good.
///
/// ```
/// let keys = highwater_axum::SigningKeys::generate()?;
/// let signature = keys.sign("invitation", b"guest 7");
/// assert!(keys.verifies("invitation", b"guest 7", &signature));
/// assert!(!keys.verifies("password reset", b"guest 7", &signature), "a signature is good for one purpose");
/// # Ok::<(), highwater_axum::KeyError>(())
/// ```
#[derive(Clone)]
pub struct SigningKeys(Arc<[[u8; KEY_BYTES]]>);

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text holds no keys.
    #[error(
        "line {line} is not a key: write 1 to {MOST_KEYS} lines of {KEY_BYTES} random bytes each, in base64url without padding"
    )]
    Invalid {
        /// The line, from 1.
        line: usize,
    },
    /// Others can read the file.
    #[error(
        "{path} can be read by others; take that from them (chmod 600), and replace its keys if somebody did"
    )]
    Exposed {
        /// The file.
        path: String,
    },
    /// The file cannot be read or made.
    #[error("the keys in {path} cannot be used: {source}")]
    File {
        /// The file.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(getrandom::Error),
}

impl SigningKeys {
    /// One fresh key, which nobody else knows: what it signs is good until the program ends.
    ///
    /// # Errors
    /// [`KeyError::Random`].
    pub fn generate() -> Result<Self, KeyError> {
        let mut key = [0; KEY_BYTES];
        getrandom::fill(&mut key).map_err(KeyError::Random)?;
        Ok(Self(Arc::new([key])))
    }

    /// Reads keys: one a line, 32 bytes in base64url without padding; empty lines and lines that begin with `#` count
    /// for nothing. The first one signs, all of them verify: to change the key, put another one before it, and remove
    /// the old one once nothing that it signed matters any more.
    ///
    /// # Errors
    /// [`KeyError::Invalid`].
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let mut keys = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line_text = line.trim();
            if line_text.is_empty() || line_text.starts_with('#') {
                continue;
            }
            let key = BASE64_URL_SAFE_NO_PAD.decode(line_text).ok().and_then(|key| key.try_into().ok());
            let key = key.filter(|_| keys.len() < MOST_KEYS);
            keys.push(key.ok_or(KeyError::Invalid { line: index + 1 })?);
        }
        if keys.is_empty() { Err(KeyError::Invalid { line: 1 }) } else { Ok(Self(keys.into())) }
    }

    /// The keys in this file ([`parse`](Self::parse) says how they are written). If there is none, it is made with a
    /// fresh key, readable by its owner alone; of several processes that do so at once, one wins and all use its key.
    ///
    /// # Errors
    /// [`KeyError`]. On Unix, a file that others may read is refused.
    pub fn in_file(path: &Path) -> Result<Self, KeyError> {
        let failed = |source| KeyError::File { path: path.display().to_string(), source };
        match read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            read => return Self::checked(path, &read.map_err(failed)?),
        }
        let fresh = BASE64_URL_SAFE_NO_PAD.encode(Self::generate()?.0[0]);
        let text = format!(
            "# Signs cookies and links. The first key signs, all verify. Whoever reads this can forge them.\n{fresh}\n"
        );
        make(path, &text, &fresh).map_err(failed)?;
        Self::checked(path, &read(path).map_err(failed)?)
    }

    fn checked(path: &Path, found: &(String, bool)) -> Result<Self, KeyError> {
        let (text, exposed) = found;
        if *exposed {
            return Err(KeyError::Exposed { path: path.display().to_string() });
        }
        Self::parse(text).map_err(|error| match error {
            KeyError::Invalid { .. } => KeyError::File {
                path: path.display().to_string(),
                source: io::Error::new(io::ErrorKind::InvalidData, error.to_string()),
            },
            error => error,
        })
    }

    /// Signs a message for a purpose: 43 characters of base64url.
    pub fn sign(&self, purpose: &str, message: &[u8]) -> String {
        let mac = self.0.first().and_then(|key| mac(key, purpose, message));
        mac.map_or_else(String::new, |mac| BASE64_URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
    }

    /// Whether one of the keys has signed this message for this purpose. Takes as long for a wrong signature as for a
    /// right one.
    pub fn verifies(&self, purpose: &str, message: &[u8], signature: &str) -> bool {
        let Ok(signature) = BASE64_URL_SAFE_NO_PAD.decode(signature) else { return false };
        let mut good = false;
        for key in &*self.0 {
            good |= mac(key, purpose, message).is_some_and(|mac| mac.verify_slice(&signature).is_ok());
        }
        good
    }
}

impl fmt::Debug for SigningKeys {
    /// Never the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} signing keys", self.0.len())
    }
}

/// The purpose goes in with its length, so that no purpose and message read as another pair.
fn mac(key: &[u8], purpose: &str, message: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(&(purpose.len() as u64).to_be_bytes());
    mac.update(purpose.as_bytes());
    mac.update(message);
    Some(mac)
}

/// The file's text, and whether others than its owner may read it.
fn read(path: &Path) -> io::Result<(String, bool)> {
    let file = File::open(path)?;
    #[cfg(unix)]
    let exposed = std::os::unix::fs::PermissionsExt::mode(&file.metadata()?.permissions()) & 0o077 != 0;
    #[cfg(not(unix))]
    let exposed = false;
    let mut text = String::new();
    file.take(FILE_BYTES).read_to_string(&mut text)?;
    Ok((text, exposed))
}

/// Makes the file whole or not at all; one that is there already stays.
fn make(path: &Path, text: &str, unique: &str) -> io::Result<()> {
    let draft = path.with_extension(format!("{}.draft", &unique[..8]));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    // A link, unlike a rename, never replaces what another process has made in the meantime.
    let linked = written.and_then(|()| match fs::hard_link(&draft, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    let _ = fs::remove_file(&draft);
    linked
}
