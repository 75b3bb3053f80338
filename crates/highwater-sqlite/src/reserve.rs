//! Room for deletions and acknowledgements on a full disk: a file beside the store that holds nothing.
//!
//! Deleting needs space too: its pages go into the write-ahead log first, and moving that may lengthen the database.
//! Free pages inside the database would help neither of the two, and a check of the free space could not stop other
//! programs from filling the disk to the last byte. So a file of its own is given back to the disk when the disk is
//! full, and with it gone the store takes no new work: whatever becomes larger is refused, what makes it smaller or
//! finishes work goes on. When there is space again the file is made anew, and new work is taken.
//!
//! Whether the file stands is the only state, so all processes on the store, and the one that starts after a crash,
//! agree about it.

use crate::disk::{beside, folder_of, is_full};
use highwater_core::{EngineError, FailureKind};
use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// As much as the write-ahead log holds before it is moved: as much as moving it can lengthen the database by.
const BYTES: u64 = 16 * 1024 * 1024;

/// The time between two attempts to make it anew.
const RETRY: Duration = Duration::from_millis(250);

/// The reserve of one store.
pub(crate) struct Reserve {
    database: PathBuf,
    path: PathBuf,
    tried: Option<Instant>,
}

impl Reserve {
    pub(crate) fn of(database: &Path) -> Self {
        Self { database: database.to_owned(), path: beside(database, "-reserve"), tried: None }
    }

    fn stands(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|file| file.len() >= BYTES)
    }

    /// Refuses new work on a full disk. Makes the reserve if it is not there and can be made.
    pub(crate) fn admit(&mut self) -> Result<(), EngineError> {
        if self.stands() {
            return Ok(());
        }
        if self.tried.is_none_or(|tried| tried.elapsed() >= RETRY) {
            self.tried = Some(Instant::now());
            match self.make() {
                Ok(()) => return Ok(()),
                Err(error) => {
                    tracing::debug!(%error, path = %self.path.display(), "the reserve cannot be made");
                    let _ = fs::remove_file(&self.path);
                }
            }
        }
        let message = format!(
            "no space is left for {}: until {} MiB are free on its disk it takes no commits and messages; \
             deletions and acknowledgements go on",
            self.database.display(),
            BYTES / 1024 / 1024
        );
        Err(EngineError::new(FailureKind::OutOfSpace, message))
    }

    fn make(&self) -> io::Result<()> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&self.path)?;
        allocate(&file)
    }

    /// Gives the reserve back to the disk; false if there was none.
    pub(crate) fn release(&mut self) -> bool {
        // What was freed is not taken back at once.
        self.tried = Some(Instant::now());
        let stood = self.stands();
        let released = fs::remove_file(&self.path).is_ok() && stood;
        if released {
            tracing::error!(
                database = %self.database.display(),
                "the disk is full: new commits and messages are refused until there is space"
            );
        }
        released
    }

    /// Whether the disk of the store is full.
    pub(crate) fn is_needed(&self) -> bool {
        is_full(folder_of(&self.path))
    }

    /// Whether the reserve was given back and not made anew.
    pub(crate) fn is_spent(&self) -> bool {
        self.tried.is_some() && !self.stands()
    }
}

#[cfg(target_os = "linux")]
fn allocate(file: &File) -> io::Result<()> {
    use rustix::{
        fs::{FallocateFlags, fallocate},
        io::Errno,
    };
    match fallocate(file, FallocateFlags::empty(), 0, BYTES) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => fill(file),
        outcome => Ok(outcome?),
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate(file: &File) -> io::Result<()> {
    fill(file)
}

/// Fills the file with what no file system can store in less space.
fn fill(mut file: &File) -> io::Result<()> {
    use io::Write;
    let mut random = fastrand::Rng::with_seed(1);
    let mut piece = vec![0; 1024 * 1024];
    for _ in 0..BYTES / piece.len() as u64 {
        random.fill(&mut piece);
        file.write_all(&piece)?;
    }
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_takes_its_space_in_every_way_it_can_be_made() {
        for make in [allocate, fill] {
            let file = tempfile::tempfile().unwrap();
            make(&file).unwrap();
            assert_eq!(file.metadata().unwrap().len(), BYTES);
            #[cfg(unix)]
            {
                use std::os::unix::fs::MetadataExt;
                assert!(file.metadata().unwrap().blocks() * 512 >= BYTES);
            }
        }
    }
}
