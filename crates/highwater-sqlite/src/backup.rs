//! Backups: a copy of a store in one file, made while programs write it, that can be checked by itself.
//!
//! The copy is one state of the store: its pages are read in one read transaction, which keeps no writer waiting.
//! Meanwhile the write-ahead log keeps what is written, and grows by as much; it is moved into the file again when the
//! copy is done. SQLite's other way, a copy that begins again whenever another connection writes, never ends under load.

use crate::{
    OpenError, Sqlite,
    content::{self, Manifest},
    fault::engine_error,
    location::Location,
    schema::{BACKUP, STORE},
};
use highwater_core::{Clock, EngineError, Timestamp};
use rusqlite::{
    Connection, OpenFlags,
    backup::{Backup, StepResult},
};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// Pages copied in one step; between two steps progress is told.
const STEP: i32 = 1_024;

/// How far a backup, a check or a restore has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// Pages copied, of so many.
    Copied {
        /// Pages copied so far.
        pages: u64,
        /// Pages of the store.
        of: u64,
    },
    /// Rows that were summed.
    Checked {
        /// Rows so far.
        rows: u64,
    },
}

/// Why a backup was not made, or is not one. What was begun leaves no file under the name of the backup.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The store or the backup cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Something has the name of the backup.
    #[error("{path} exists already; choose another name, a backup overwrites nothing")]
    Exists {
        /// The file.
        path: String,
    },
    /// A store in memory has no file.
    #[error("a store in memory cannot be backed up; open a file")]
    InMemory,
    /// The backup is not what was written.
    #[error("{path} is damaged: {found}; use another backup")]
    Damaged {
        /// The file.
        path: String,
        /// What differs.
        found: String,
    },
    /// The store or the disk failed.
    #[error("{path}: {source}")]
    Engine {
        /// The file.
        path: String,
        /// What went wrong.
        source: EngineError,
    },
    /// The file system failed.
    #[error("{path}: {cause}; check the folder, its rights and its free space")]
    Io {
        /// The file.
        path: String,
        /// What the system said.
        cause: io::Error,
    },
}

impl BackupError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Io { path: path.display().to_string(), cause }
    }

    pub(crate) fn engine(path: &Path) -> impl Fn(rusqlite::Error) -> Self {
        move |error| Self::Engine { path: path.display().to_string(), source: engine_error(error) }
    }
}

/// Copies the store in a file into another file, while programs read and write it. The file appears complete, checked
/// and on disk, or not at all; a copy that was interrupted is left under a name that ends in `.partial`.
///
/// The views are not in it: they are built again. Queues, cells, leases and checkpoints are.
///
/// # Errors
/// [`BackupError`]; also when a change of the store is damaged, since a copy of it would be no backup.
pub fn backup(
    store: &Path,
    to: &Path,
    clock: &dyn Clock,
    progress: &mut dyn FnMut(Progress),
) -> Result<Manifest, BackupError> {
    if to.exists() {
        return Err(BackupError::Exists { path: to.display().to_string() });
    }
    let source = open_store(store)?;
    let partial = Partial::beside(to);
    copy(&source, &partial.0, progress).map_err(BackupError::engine(store))?;
    drop(source);
    let manifest = seal(&partial.0, clock.now(), progress)?;
    if to.exists() {
        return Err(BackupError::Exists { path: to.display().to_string() });
    }
    partial.become_(to)?;
    Ok(manifest)
}

/// Compares a backup with the sums in it.
///
/// # Errors
/// [`BackupError::Damaged`] names the first table that is not what was copied.
pub fn verify_backup(file: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Manifest, BackupError> {
    let location = Location::plain(file);
    if !file.exists() {
        return Err(OpenError::File { path: file.display().to_string(), cause: "no such file".into() }.into());
    }
    location.survey()?;
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)
        .map_err(|error| OpenError::from_sqlite(file, &error))?;
    BACKUP.require(&location, &connection)?;
    let mut seen = |rows| progress(Progress::Checked { rows });
    let damaged = |found: String| BackupError::Damaged { path: file.display().to_string(), found };
    content::check(&connection, &mut seen).map_err(|error| damaged(error.to_string()))?.map_err(damaged)
}

impl Sqlite {
    /// Copies this store into a file, as [`backup`] does, on a thread of its own.
    ///
    /// # Errors
    /// [`BackupError`].
    pub async fn backup(&self, to: impl Into<PathBuf>) -> Result<Manifest, BackupError> {
        let (to, clock) = (to.into(), self.clock());
        let Some(path) = self.path() else { return Err(BackupError::InMemory) };
        let (reply, answer) = tokio::sync::oneshot::channel();
        let shown = to.clone();
        std::thread::Builder::new()
            .name("highwater-backup".into())
            .spawn(move || drop(reply.send(backup(&path, &to, &*clock, &mut |_| {}))))
            .map_err(BackupError::io(&shown))?;
        let ended = io::Error::other("the thread that copies has ended");
        answer.await.unwrap_or_else(|_| Err(BackupError::io(&shown)(ended)))
    }
}

/// A connection that reads a store and never makes or changes one.
pub(crate) fn open_store(path: &Path) -> Result<Connection, BackupError> {
    let location = Location::plain(path);
    if !path.exists() {
        return Err(OpenError::File { path: path.display().to_string(), cause: "no such file".into() }.into());
    }
    location.survey()?;
    let failed = |error: rusqlite::Error| OpenError::from_sqlite(path, &error);
    let connection = location.reader().map_err(failed)?.ok_or(BackupError::InMemory)?;
    STORE.require(&location, &connection)?;
    Ok(connection)
}

/// Copies all pages, as they are at one moment.
fn copy(source: &Connection, to: &Path, progress: &mut dyn FnMut(Progress)) -> rusqlite::Result<()> {
    let mut target = Connection::open(to)?;
    // Synced once, when it is complete.
    target.pragma_update(None, "synchronous", "OFF")?;
    source.execute_batch("BEGIN")?;
    source.query_row("SELECT count(*) FROM meta", [], |_| Ok(()))?;
    let backup = Backup::new(source, &mut target)?;
    loop {
        let step = backup.step(STEP)?;
        let told = backup.progress();
        let of = u64::try_from(told.pagecount).unwrap_or(0);
        let left = u64::try_from(told.remaining).unwrap_or(0);
        progress(Progress::Copied { pages: of.saturating_sub(left), of });
        match step {
            StepResult::Done => break,
            StepResult::More => {}
            _ => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
    }
    drop(backup);
    source.execute_batch("COMMIT")
}

/// Makes a copy of a store a backup: one file without a write-ahead log, with a manifest.
fn seal(path: &Path, at: Timestamp, progress: &mut dyn FnMut(Progress)) -> Result<Manifest, BackupError> {
    let mut seen = |rows| progress(Progress::Checked { rows });
    let failed = BackupError::engine(path);
    let mut connection = Connection::open(path).map_err(&failed)?;
    let sealed = (|| {
        connection.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        let transaction = connection.transaction()?;
        content::write(&transaction, at, &mut seen)?;
        transaction.pragma_update(None, "application_id", BACKUP.application)?;
        transaction.commit()
    })();
    sealed.map_err(&failed)?;
    drop(connection);
    verify_backup(path, progress)
}

/// A file on its way: gone if it does not get there.
pub(crate) struct Partial(pub(crate) PathBuf);

impl Partial {
    /// A fresh name in the folder of `to`.
    pub(crate) fn beside(to: &Path) -> Self {
        let mut name = to.as_os_str().to_owned();
        name.push(format!(".{:08x}.partial", fastrand::u32(..)));
        Self(name.into())
    }

    /// Moves it to its place, on disk: its content first, then its name.
    pub(crate) fn become_(self, to: &Path) -> Result<(), BackupError> {
        File::open(&self.0).and_then(|file| file.sync_all()).map_err(BackupError::io(&self.0))?;
        fs::rename(&self.0, to).map_err(BackupError::io(to))?;
        sync_folder(to).map_err(BackupError::io(to))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        for end in ["", "-journal", "-wal", "-shm"] {
            let mut name = self.0.as_os_str().to_owned();
            name.push(end);
            let _ = fs::remove_file(name);
        }
    }
}

/// The names in a folder are on disk once the folder is.
pub(crate) fn sync_folder(file: &Path) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all())
}
