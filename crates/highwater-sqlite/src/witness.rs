//! A file beside the store that says when the store was last written.
//!
//! SQLite cannot know that its write-ahead log was removed or cut short while nobody had it open, nor that the file was
//! replaced by an older copy: it opens what is there, and acknowledged writes are silently gone. The witness is written
//! after each group that is on disk, without waiting for the disk itself, so it is never ahead of the store, whatever
//! crashes; if it is, the store has lost something.

use crate::disk::beside;
use highwater_core::StoreInfo;
use std::{
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

const MAGIC: &[u8; 4] = b"HwWt";
const BYTES: usize = 44;

/// The witness of one store.
pub(crate) struct Witness {
    info: StoreInfo,
    path: PathBuf,
    /// Made at the first write.
    file: Option<File>,
}

impl Witness {
    pub(crate) fn of(database: &Path, info: StoreInfo) -> Self {
        Self { info, path: path_of(database), file: None }
    }

    /// The store was on disk at this moment. A witness that cannot be written is no reason to fail.
    pub(crate) fn write(&mut self, moment: i64) {
        if let Err(error) = self.try_write(moment) {
            tracing::debug!(%error, path = %self.path.display(), "cannot note when the store was written");
            self.file = None;
        }
    }

    fn try_write(&mut self, moment: i64) -> io::Result<()> {
        let file = match &self.file {
            Some(file) => file,
            None => {
                let file = OpenOptions::new().create(true).truncate(false).write(true).open(&self.path)?;
                self.file.insert(file)
            }
        };
        write_at_start(file, &encode(&self.info, moment))
    }
}

fn path_of(database: &Path) -> PathBuf {
    beside(database, "-witness")
}

/// What was noted beside a database: the store, as its bytes, and the moment. Nothing if it cannot be read: what is
/// not sure is no accusation. Read it before the store, which others may be writing.
pub(crate) fn read(database: &Path) -> Option<([u8; 24], i64)> {
    let bytes: [u8; BYTES] = std::fs::read(path_of(database)).ok()?.try_into().ok()?;
    let (head, moments) = bytes.split_first_chunk::<28>()?;
    let (moment, check) = moments.split_first_chunk::<8>()?;
    let moment = i64::from_le_bytes(*moment);
    let check = i64::from_le_bytes(check.try_into().ok()?);
    let (magic, store) = head.split_first_chunk::<4>()?;
    (magic == MAGIC && check == !moment).then_some((store.try_into().ok()?, moment))
}

/// Removes the witness of a database that is not there any more.
pub(crate) fn remove(database: &Path) {
    // One that stays accuses the next store if making that is cut short: a refusal, and nothing is lost.
    let _ = std::fs::remove_file(path_of(database));
}

/// A store in one of its lives.
pub(crate) fn bytes_of(info: &StoreInfo) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..16].copy_from_slice(info.id.0.as_bytes());
    bytes[16..].copy_from_slice(&info.epoch.0.to_le_bytes());
    bytes
}

fn encode(info: &StoreInfo, moment: i64) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..4].copy_from_slice(MAGIC);
    bytes[4..28].copy_from_slice(&bytes_of(info));
    bytes[28..36].copy_from_slice(&moment.to_le_bytes());
    bytes[36..].copy_from_slice(&(!moment).to_le_bytes());
    bytes
}

#[cfg(unix)]
fn write_at_start(file: &File, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, 0)
}

#[cfg(not(unix))]
fn write_at_start(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    use io::{Seek, SeekFrom, Write};
    file.seek(SeekFrom::Start(0))?;
    file.write_all(bytes)
}
