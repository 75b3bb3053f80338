//! A folder of letters. Each appears whole or not at all, under the name of the event that it tells of.

use highwater::{EventId, Timestamp, failpoint};
use lettre::address::Envelope;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use uuid::Uuid;

/// The ending of a letter's file name.
const ENDING: &str = ".eml";

/// The ending of the file name of a letter that was set aside: a line of JSON, then the letter.
const PARKED: &str = ".parked";

/// The ending of one that the owner wants to be sent again.
const AGAIN: &str = ".again";

/// The longest file name without ending that is used as it is.
const LONGEST_STEM: usize = 180;

/// The largest letter that is shown, in bytes.
const LARGEST_SHOWN: u64 = 64 * 1024;

/// A folder of letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mailbox {
    folder: PathBuf,
}

/// A letter in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its file name.
    pub name: String,
    /// When the event happened that it tells of.
    pub at: SystemTime,
}

/// Why a letter was set aside, and what is needed to send it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    /// Why, for the owner.
    pub reason: String,
    /// When the event happened that it tells of.
    pub at: Timestamp,
    /// Whom it is from.
    pub from: Option<String>,
    /// Whom it is for.
    pub to: Vec<String>,
}

impl Parked {
    /// A letter that is set aside for a reason.
    pub fn new(reason: String, at: SystemTime, envelope: &Envelope) -> Self {
        let (from, to) = crate::smtp::addresses(envelope);
        let at =
            Timestamp::from_micros(0).plus(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        Self { reason, at, from, to }
    }

    /// What the mail server is told.
    ///
    /// # Errors
    /// When somebody has damaged the file.
    pub fn envelope(&self) -> Result<Envelope, lettre::error::Error> {
        let parse = |text: &String| text.parse().map_err(|_| lettre::error::Error::MissingTo);
        let from = self.from.as_ref().map(parse).transpose()?;
        Envelope::new(from, self.to.iter().map(parse).collect::<Result<_, _>>()?)
    }
}

impl Mailbox {
    /// The letters in this folder, which is made when the first one is written.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The event's id in characters that are safe in a file name, a `Message-ID` and a URL on every system:
    /// `/` becomes `_`, and every other byte but `a-z 0-9 . -` becomes `=` and two hexadecimal digits. An id too long
    /// for a file name is cut and gets a hash of the whole.
    pub fn stem(event: &EventId) -> String {
        let id = event.to_string();
        let mut stem = String::with_capacity(id.len());
        for byte in id.bytes() {
            match byte {
                b'/' => stem.push('_'),
                b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' => stem.push(char::from(byte)),
                other => stem.push_str(&format!("={other:02x}")),
            }
        }
        if stem.len() > LONGEST_STEM {
            stem.truncate(LONGEST_STEM - 40);
            let hash = Uuid::new_v5(&Uuid::NAMESPACE_URL, id.as_bytes());
            stem.push_str(&format!("==={}", hash.simple()));
        }
        stem
    }

    /// Puts the letter about an event into the folder, unless it is there. On return it is on the disk.
    ///
    /// It is written beside its place and moved there in one step. The bytes about one event are always the same,
    /// so that one writer who died and another who was believed dead leave the same file.
    ///
    /// # Errors
    /// What the system says; then it can be put again.
    pub fn put(&self, event: &EventId, at: SystemTime, letter: &[u8]) -> io::Result<()> {
        self.put_stem(&Self::stem(event), at, letter)
    }

    fn put_stem(&self, stem: &str, at: SystemTime, letter: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let place = self.folder.join(format!("{stem}{ENDING}"));
        if place.try_exists()? {
            return self.sync();
        }
        let draft = self.folder.join(format!(".{stem}.draft"));
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(&draft)?;
        file.write_all(letter)?;
        file.set_len(letter.len() as u64)?;
        file.set_modified(at)?;
        file.sync_all()?;
        drop(file);
        failpoint::hit("mail.written");
        fs::rename(&draft, &place)?;
        failpoint::hit("mail.renamed");
        self.sync()
    }

    /// Makes the folder's list of names durable.
    fn sync(&self) -> io::Result<()> {
        // Only Unix lets a folder be opened and synced; elsewhere a rename is journalled by the file system.
        if cfg!(unix) { File::open(&self.folder)?.sync_all() } else { Ok(()) }
    }

    /// Whether the letter of this stem went out or was set aside.
    pub(crate) fn is_settled(&self, stem: &str) -> io::Result<bool> {
        for ending in [ENDING, PARKED, AGAIN] {
            if self.folder.join(format!("{stem}{ending}")).try_exists()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn begun(&self, stem: &str) -> PathBuf {
        self.folder.join(format!(".{stem}.sending"))
    }

    /// Notes that the letter is about to be sent.
    pub(crate) fn begin(&self, stem: &str) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        File::create(self.begun(stem))?.sync_all()?;
        self.sync()
    }

    /// Whether somebody has begun to send the letter and did not come to an end.
    pub(crate) fn was_begun(&self, stem: &str) -> io::Result<bool> {
        self.begun(stem).try_exists()
    }

    /// Notes that it is known what became of the letter.
    pub(crate) fn end(&self, stem: &str) -> io::Result<()> {
        match fs::remove_file(self.begun(stem)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Sets a letter aside, whole or not at all. On return it is on the disk.
    pub(crate) fn park(&self, stem: &str, parked: &Parked, letter: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let draft = self.folder.join(format!(".{stem}.parking"));
        let mut file = File::create(&draft)?;
        serde_json::to_writer(&mut file, parked)?;
        file.write_all(b"\n")?;
        file.write_all(letter)?;
        file.sync_all()?;
        fs::rename(&draft, self.folder.join(format!("{stem}{PARKED}")))?;
        self.end(stem)?;
        self.sync()
    }

    /// The letters that were set aside, at most `most`, each with its stem.
    ///
    /// # Errors
    /// What the system says; a folder that is not there yet is an empty one.
    pub fn parked(&self, most: usize) -> io::Result<Vec<(String, Parked)>> {
        let mut parked = Vec::new();
        for stem in self.stems(PARKED)?.into_iter().take(most) {
            if let Some((about, _)) = self.read_parked(&stem, PARKED)? {
                parked.push((stem, about));
            }
        }
        Ok(parked)
    }

    /// Asks for a letter that was set aside to be sent again, by whoever sends letters; false if there is none.
    ///
    /// # Errors
    /// What the system says.
    pub fn ask_again(&self, stem: &str) -> io::Result<bool> {
        if !is_letter(&format!("{stem}{ENDING}")) {
            return Ok(false);
        }
        let of = |ending| self.folder.join(format!("{stem}{ending}"));
        match fs::rename(of(PARKED), of(AGAIN)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            moved => moved.map(|()| true),
        }
    }

    /// The stems of the letters that shall be sent again.
    pub(crate) fn asked_again(&self) -> io::Result<Vec<String>> {
        self.stems(AGAIN)
    }

    /// Takes a letter that shall be sent again: one of several processes gets it. It lies among the parked ones
    /// meanwhile, so that it is seen if this process dies.
    pub(crate) fn claim(&self, stem: &str) -> io::Result<Option<(Parked, String)>> {
        let of = |ending| self.folder.join(format!("{stem}{ending}"));
        match fs::rename(of(AGAIN), of(PARKED)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            moved => moved.and_then(|()| self.read_parked(stem, PARKED)),
        }
    }

    /// Notes that a letter that was set aside went out.
    pub(crate) fn settle(&self, stem: &str, parked: &Parked, letter: &[u8]) -> io::Result<()> {
        let at = SystemTime::UNIX_EPOCH
            + std::time::Duration::from_micros(u64::try_from(parked.at.as_micros()).unwrap_or(0));
        self.put_stem(stem, at, letter)?;
        fs::remove_file(self.folder.join(format!("{stem}{PARKED}")))?;
        self.sync()
    }

    fn read_parked(&self, stem: &str, ending: &str) -> io::Result<Option<(Parked, String)>> {
        let text = match fs::read_to_string(self.folder.join(format!("{stem}{ending}"))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let (about, letter) = text.split_once('\n').unwrap_or((&text, ""));
        Ok(Some((serde_json::from_str(about)?, letter.to_owned())))
    }

    /// The stems of the files with this ending, in order.
    fn stems(&self, ending: &str) -> io::Result<Vec<String>> {
        let folder = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            folder => folder?,
        };
        let mut stems = Vec::new();
        for entry in folder {
            let name = entry?.file_name();
            let stem = name.to_str().and_then(|name| name.strip_suffix(ending));
            stems.extend(stem.filter(|stem| is_letter(&format!("{stem}{ENDING}"))).map(String::from));
        }
        stems.sort_unstable();
        Ok(stems)
    }

    /// The newest letters, at most `most`, newest first.
    ///
    /// # Errors
    /// What the system says; a folder that is not there yet is an empty one.
    pub fn newest(&self, most: usize) -> io::Result<Vec<Entry>> {
        let folder = match fs::read_dir(&self.folder) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut newest = std::collections::BTreeSet::new();
        for entry in folder {
            let entry = entry?;
            let Some(name) = entry.file_name().to_str().filter(|name| is_letter(name)).map(String::from)
            else {
                continue;
            };
            // Letters are files; what else somebody put there is none of them.
            let about = entry.metadata()?;
            if !about.is_file() {
                continue;
            }
            newest.insert((about.modified()?, name));
            if newest.len() > most {
                newest.pop_first();
            }
        }
        Ok(newest.into_iter().rev().map(|(at, name)| Entry { name, at }).collect())
    }

    /// Reads a letter by its file name; `None` if there is none. What is not a letter's name is never opened.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(&self, name: &str) -> io::Result<Option<String>> {
        if !is_letter(name) {
            return Ok(None);
        }
        let file = match File::open(self.folder.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(LARGEST_SHOWN).read_to_end(&mut bytes)?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

/// Whether a text is a name that [`Mailbox::put`] gives: no separator, no leading dot, nothing hidden.
fn is_letter(name: &str) -> bool {
    let safe = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'=');
    name.len() <= LONGEST_STEM + ENDING.len()
        && name.ends_with(ENDING)
        && !name.starts_with('.')
        && name.bytes().all(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> EventId {
        text.parse().unwrap()
    }

    #[test]
    fn every_event_has_a_file_name_of_its_own_that_is_safe() {
        let long = |last: &str| format!("capacity/{}{last}/x/1/0", "y".repeat(250));
        let ids = [
            "capacity/2026-12-24/2026-12-24/3/0",
            "capacity/2026-12-24/2026-12-24/30/0",
            "capacity/A/a/1/0",
            "capacity/a/a/1/0",
            "capacity/a_a/1/1/0",
            "capacity/a/a_1/1/0",
            "capacity/..%2F../x/1/0",
            "capacity/a=41/a/1/0",
            "capacity/ü/a/1/0",
            &long("a"),
            &long("b"),
        ];
        let names: std::collections::BTreeSet<_> =
            ids.iter().map(|text| format!("{}{ENDING}", Mailbox::stem(&id(text)))).collect();
        assert_eq!(names.len(), ids.len(), "{names:?}");
        assert!(names.iter().all(|name| is_letter(name)), "{names:?}");
        assert_eq!(Mailbox::stem(&id(ids[0])), "capacity_2026-12-24_2026-12-24_3_0");
    }

    #[test]
    fn a_letter_put_again_stays_as_it_is_and_a_draft_left_behind_is_completed() {
        let folder = tempfile::tempdir().unwrap();
        let mailbox = Mailbox::in_folder(folder.path().join("mail"));
        assert_eq!(mailbox.newest(9).unwrap(), []);
        let (first, second) = (id("capacity/a/a/1/0"), id("capacity/a/a/2/0"));
        let at = |seconds| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        fs::create_dir_all(mailbox.folder()).unwrap();
        fs::write(mailbox.folder().join(".capacity_a_a_1_0.draft"), "a longer draft of one who died")
            .unwrap();
        mailbox.put(&first, at(2), b"first").unwrap();
        mailbox.put(&first, at(3), b"again").unwrap();
        mailbox.put(&second, at(1), b"second").unwrap();
        assert_eq!(fs::read_dir(mailbox.folder()).unwrap().count(), 2, "no draft is left");
        assert_eq!(mailbox.read("capacity_a_a_1_0.eml").unwrap().as_deref(), Some("first"));
        let names =
            |most| mailbox.newest(most).unwrap().into_iter().map(|entry| entry.name).collect::<Vec<_>>();
        assert_eq!(names(9), ["capacity_a_a_1_0.eml", "capacity_a_a_2_0.eml"]);
        assert_eq!(names(1), ["capacity_a_a_1_0.eml"]);
    }

    #[test]
    fn nothing_outside_the_folder_can_be_read() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret.eml"), "secret").unwrap();
        let mailbox = Mailbox::in_folder(folder.path().join("mail"));
        fs::create_dir_all(mailbox.folder()).unwrap();
        for name in [
            "../secret.eml",
            "..\\secret.eml",
            "/etc/passwd",
            "..",
            "",
            ".eml",
            "a/b.eml",
            "x.eml\0",
            "X.eml",
        ] {
            assert_eq!(mailbox.read(name).unwrap(), None, "{name}");
        }
    }
}
