use rusqlite::ErrorCode;
use std::{io, path::Path};

/// Why a database file was not opened. Each message is one line that names the file and the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder of the file can neither be used nor made.
    #[error("cannot use the folder {path}: {cause}; choose a folder that this user may write to")]
    Folder {
        /// The folder.
        path: String,
        /// What the system said.
        cause: io::Error,
    },
    /// The file cannot be opened.
    #[error("cannot open {path}: {cause}; check that it is a file and that this user may read and write it")]
    File {
        /// The file.
        path: String,
        /// What SQLite or the system said.
        cause: String,
    },
    /// The file, or its folder, can be read but not written.
    #[error("{path} is read-only; give this user the right to write the file and its folder")]
    ReadOnly {
        /// The file.
        path: String,
    },
    /// Another program keeps the file locked.
    #[error("{path} is locked by another program; end it, or open another file")]
    Locked {
        /// The file.
        path: String,
    },
    /// The file is a database of another application.
    #[error("{path} is not a Highwater {expected}: {found}; choose another file")]
    Foreign {
        /// The file.
        path: String,
        /// What was wanted: `store` or `view store`.
        expected: &'static str,
        /// What it seems to be.
        found: &'static str,
    },
    /// The file is no SQLite database, or a broken one.
    #[error("{path} is damaged: {cause}; restore it from a backup, or open another file")]
    Damaged {
        /// The file.
        path: String,
        /// What SQLite said.
        cause: String,
    },
    /// The file of the views is no SQLite database, or a broken one.
    #[error("{path} is damaged: {cause}; stop all programs and delete it, views are built again")]
    DamagedViews {
        /// The file.
        path: String,
        /// What SQLite said.
        cause: String,
    },
    /// A later version of this program wrote the file.
    #[error("{path} has schema {found}, this program knows up to {known}; use the newer program")]
    Newer {
        /// The file.
        path: String,
        /// The schema of the file.
        found: u32,
        /// The latest schema this program knows.
        known: u32,
    },
    /// The file lies on a file system that several machines share, where SQLite loses data.
    #[error(
        "{path} lies in a network folder ({found}), where several machines would destroy it; move it to a local disk"
    )]
    NetworkFolder {
        /// The file.
        path: String,
        /// The kind of file system.
        found: String,
    },
    /// The store is older than what was acknowledged from it: its write-ahead log was removed or cut short while no
    /// program had it open, or an older copy lies in its place.
    #[error(
        "{path} has lost acknowledged writes: put {path}-wal back, or restore a backup; to go on with what is left, \
         delete {path}-witness and the file of the views"
    )]
    LostWrites {
        /// The file.
        path: String,
    },
    /// Write-ahead logging does not work there.
    #[error("{path} cannot use a write-ahead log ({found}); move it to a local disk")]
    NoWriteAheadLog {
        /// The file.
        path: String,
        /// The journal mode that SQLite chose instead, or what it said.
        found: String,
    },
    /// The disk is full.
    #[error("no space is left on the disk of {path}; free some")]
    Full {
        /// The file.
        path: String,
    },
    /// An option is out of its range.
    #[error("{what} is {value}, must be {range}")]
    OutOfRange {
        /// Which option.
        what: &'static str,
        /// What was asked for.
        value: usize,
        /// What is allowed.
        range: &'static str,
    },
    /// The views beside the store were built from another store.
    #[error(
        "{path} holds the views of another store; stop all programs and delete it, views are built again"
    )]
    OtherStore {
        /// The file of the views.
        path: String,
    },
    /// The URL names no file.
    #[error(
        "`{path}` is no path of a file; use sqlite:PATH, or sqlite::memory: to keep everything in memory"
    )]
    NoPath {
        /// What stands where the path should be.
        path: String,
    },
    /// The URL has an option that does not exist or a value that it does not take.
    #[error(
        "the store URL's option `{option}` is unknown; use partitions=1…1024, synchronous=full|normal, readers=1…64"
    )]
    UnknownOption {
        /// The option with its value.
        option: String,
    },
    /// Anything else.
    #[error("cannot open {path}: {cause}")]
    Other {
        /// The file.
        path: String,
        /// What SQLite or the system said.
        cause: String,
    },
}

/// What SQLite says when a file is longer than nothing and does not begin as a database does.
const NOT_A_DATABASE: &str = "file is not a database";

impl OpenError {
    pub(crate) fn damaged(path: &Path, cause: impl Into<String>) -> Self {
        Self::Damaged { path: path.display().to_string(), cause: cause.into() }
    }

    /// The same about a file of views, which can be built again from the store.
    pub(crate) fn of_views(self) -> Self {
        match self {
            Self::Damaged { path, cause } => Self::DamagedViews { path, cause },
            other => other,
        }
    }

    pub(crate) fn other(path: &Path, cause: impl Into<String>) -> Self {
        Self::Other { path: path.display().to_string(), cause: cause.into() }
    }

    pub(crate) fn not_a_database(path: &Path) -> Self {
        Self::damaged(path, NOT_A_DATABASE)
    }

    pub(crate) fn from_sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        let (shown, cause) = (path.display().to_string(), error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Self::damaged(path, cause),
            Some(ErrorCode::ReadOnly) => Self::ReadOnly { path: shown },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked { path: shown },
            Some(ErrorCode::DiskFull) => Self::Full { path: shown },
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => Self::File { path: shown, cause },
            // A table or row that must be there is not.
            None if matches!(error, rusqlite::Error::QueryReturnedNoRows) => Self::damaged(path, cause),
            _ => Self::Other { path: shown, cause },
        }
    }
}
