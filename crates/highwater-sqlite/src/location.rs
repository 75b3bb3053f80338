//! Where a database is and how connections to it are made.

use crate::{OpenError, Options, Synchronous, disk, fault::engine_error};
use highwater_core::{EngineError, FailureKind};
use rusqlite::{Connection, OpenFlags, config::DbConfig};
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// How long a reader, or the opening of a file, waits for another process.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Prepared statements that a connection keeps: a few for each partition and some dozens more.
const STATEMENTS: usize = 4_096;

/// No database is smaller than one page of the smallest size, in bytes.
const SMALLEST: u64 = 512;

/// A file, or memory.
#[derive(Debug, Clone)]
pub(crate) enum Location {
    File { path: PathBuf, synchronous: Synchronous },
    Memory,
}

impl Location {
    pub(crate) fn file(path: &Path, options: &Options) -> Self {
        Self::File { path: path.to_owned(), synchronous: options.synchronous }
    }

    /// A file that is not opened for writing.
    pub(crate) fn plain(path: &Path) -> Self {
        Self::file(path, &Options::default())
    }

    /// What messages call it.
    pub(crate) fn shown(&self) -> &Path {
        match self {
            Self::File { path, .. } => path,
            Self::Memory => Path::new(":memory:"),
        }
    }

    /// The file of a store whose writes are on disk when they are acknowledged.
    pub(crate) fn durable_file(&self) -> Option<&Path> {
        match self {
            Self::File { path, synchronous: Synchronous::Full } => Some(path),
            _ => None,
        }
    }

    pub(crate) fn in_memory(&self) -> bool {
        matches!(self, Self::Memory)
    }

    /// Looks at the file without SQLite: whether its folder is there, and whether it can be a database at all.
    pub(crate) fn survey(&self) -> Result<(), OpenError> {
        let Self::File { path, .. } = self else { return Ok(()) };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)
                .map_err(|cause| OpenError::Folder { path: folder.display().to_string(), cause })?;
        }
        if let Some(found) = disk::refusal(disk::folder_of(path)) {
            return Err(OpenError::NetworkFolder { path: path.display().to_string(), found });
        }
        if disk::is_read_only(path) {
            return Err(OpenError::ReadOnly { path: path.display().to_string() });
        }
        // It is not opened here: closing it would end the locks of every connection that this process has to it
        // (fcntl(2), on record locks). What is longer than this SQLite recognises by itself.
        match std::fs::metadata(path) {
            Ok(file) if file.is_dir() => {
                let cause = io::Error::from(io::ErrorKind::IsADirectory).to_string();
                Err(OpenError::File { path: path.display().to_string(), cause })
            }
            Ok(file) if (1..SMALLEST).contains(&file.len()) => Err(OpenError::not_a_database(path)),
            _ => Ok(()),
        }
    }

    /// A connection that writes; makes the file if it is not there.
    pub(crate) fn writer(&self) -> rusqlite::Result<Connection> {
        self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)
    }

    fn connect(&self, flags: OpenFlags) -> rusqlite::Result<Connection> {
        let connection = match self {
            Self::File { path, .. } => {
                Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?
            }
            Self::Memory => Connection::open_in_memory()?,
        };
        connection.busy_timeout(PATIENCE)?;
        keep_statements(&connection)?;
        Ok(connection)
    }

    /// Settings of a writing connection that hold until it is closed. Returns the journal mode.
    pub(crate) fn prepare_writer(&self, connection: &Connection) -> rusqlite::Result<String> {
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        connection.pragma_update(None, "cache_size", -64_000)?;
        let Self::File { synchronous, .. } = self else { return Ok("wal".to_owned()) };
        let mode =
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0))?;
        connection.pragma_update(None, "synchronous", synchronous.pragma())?;
        // Done by the writer between two groups: inside COMMIT it would keep callers waiting.
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
        Ok(mode)
    }

    /// A connection that reads; a database in memory has none.
    ///
    /// It does not map the file into memory: that was not measurably faster, and a disk that fails to read a
    /// mapped page kills the process instead of returning an error.
    pub(crate) fn reader(&self) -> rusqlite::Result<Option<Connection>> {
        let Self::File { path, .. } = self else { return Ok(None) };
        // Opened for writing because a reader may have to create the index of the write-ahead log.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(PATIENCE)?;
        keep_statements(&connection)?;
        connection.pragma_update(None, "query_only", true)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        Ok(Some(connection))
    }
}

/// Statements are prepared once. Without the stability guarantee SQLite prepares a statement anew at every
/// binding when a partial index might fit the bound value: a quarter of the writer's time, measured.
fn keep_statements(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(|_| ())
}

impl Location {
    /// A writing connection to a database that was open before; `None` if it is gone with its connection. A file
    /// that is not there any more is not made, and one that is not `ours` is left as it is.
    pub(crate) fn reconnect(
        &self,
        ours: impl FnOnce(&Connection) -> bool,
    ) -> Result<Option<Connection>, EngineError> {
        if self.in_memory() {
            return Ok(None);
        }
        let connection = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(engine_error)?;
        if !ours(&connection) {
            let message = format!(
                "another database lies at {}; put the right one there and start again",
                self.shown().display()
            );
            return Err(EngineError::new(FailureKind::Closed, message));
        }
        self.prepare_writer(&connection).map_err(engine_error)?;
        connection.busy_timeout(Duration::ZERO).map_err(engine_error)?;
        Ok(Some(connection))
    }
}
