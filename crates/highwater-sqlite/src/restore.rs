//! Puts a backup back. The store begins another life: what was committed after the backup is lost, and the positions,
//! ETags and receipts of that time must not be taken for those that are given out from here on.

use crate::{
    OpenError,
    backup::{BackupError, Partial, Progress, sync_folder, verify_backup},
    content::{Manifest, heads},
    fault::int,
    layout::{read_info, read_lineage},
    location::Location,
    schema::STORE,
};
use highwater_core::{Clock, Epoch, Partition, Position, StoreId};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

/// Why a backup was not put back. The store that was there is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The backup cannot be used, or the disk failed.
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// A store lies there.
    #[error("{path} exists; to put the backup in its place, and keep the old file beside it, add --replace")]
    Exists {
        /// The file.
        path: String,
    },
    /// A program has the store open.
    #[error("{path} is open in another program; stop all programs that use it, then restore")]
    InUse {
        /// The file.
        path: String,
    },
}

impl From<OpenError> for RestoreError {
    fn from(error: OpenError) -> Self {
        Self::Backup(error.into())
    }
}

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// What was put back.
    pub manifest: Manifest,
    /// The life that begins. The earlier one is shared up to [`Manifest::heads`].
    pub epoch: Epoch,
    /// Where the store that was there before lies, if there was one.
    pub replaced: Option<PathBuf>,
}

/// Checks a backup and makes it the store at `to`, in another life. With `replace`, a store that lies there is kept
/// beside it. Everything is prepared and on disk before the file gets its name.
///
/// # Errors
/// [`RestoreError`].
pub fn restore(
    from: &Path,
    to: &Path,
    replace: bool,
    clock: &dyn Clock,
    progress: &mut dyn FnMut(Progress),
) -> Result<Restored, RestoreError> {
    let remains = remains(to);
    if !remains.is_empty() && !replace {
        return Err(RestoreError::Exists { path: to.display().to_string() });
    }
    let old = if to.exists() { Old::take(to)? } else { Old::default() };
    if !from.exists() {
        return Err(OpenError::File { path: from.display().to_string(), cause: "no such file".into() }.into());
    }
    let partial = Partial::beside(to);
    fs::copy(from, &partial.0).map_err(BackupError::io(&partial.0))?;
    // The copy is checked, not what was copied: this is what will be used.
    let manifest = verify_backup(&partial.0, progress).map_err(|error| match error {
        BackupError::Damaged { found, .. } => {
            BackupError::Damaged { path: from.display().to_string(), found }
        }
        BackupError::Open(_) => match verify_backup(from, &mut |_| {}) {
            Err(error) => error,
            Ok(_) => error,
        },
        other => other,
    })?;
    let epoch = next_epoch(clock, manifest.epoch.max(old.epoch()));
    begin_life(&partial.0, epoch, clock, &old.lives).map_err(BackupError::engine(&partial.0))?;
    let replaced = if remains.is_empty() { None } else { Some(keep(to, epoch)?) };
    partial.become_(to)?;
    drop(old);
    Ok(Restored { manifest, epoch, replaced })
}

/// The epoch after `last`: the time in milliseconds, and twenty random bits, so that two restores of one backup, one
/// after the other or on two machines, do not get the same.
fn next_epoch(clock: &dyn Clock, last: Epoch) -> Epoch {
    let time = u64::try_from(clock.now().as_micros() / 1_000).unwrap_or(0).min(1 << 42);
    let time = time.max((last.0 >> 20) + 1);
    Epoch((time << 20) | fastrand::u64(..1 << 20))
}

/// The lives that a store knows of, its own among them, and what it shares with each.
type Lives = BTreeMap<Epoch, BTreeMap<Partition, Position>>;

fn lives(connection: &Connection) -> rusqlite::Result<(StoreId, Lives)> {
    let info = read_info(connection)?;
    let lineage = read_lineage(connection, info.epoch)?;
    let mut lives: Lives = lineage.earlier().map(|(epoch, shared)| (epoch, shared.clone())).collect();
    lives.insert(info.epoch, heads(connection)?);
    Ok((info.id, lives))
}

/// The store that lies there: no other program can open it until this is dropped.
#[derive(Default)]
struct Old {
    lives: Option<(StoreId, Lives)>,
    _lock: Option<Connection>,
}

impl Old {
    fn take(path: &Path) -> Result<Self, RestoreError> {
        let shown = || path.display().to_string();
        let location = Location::plain(path);
        let failed = |error: rusqlite::Error| match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                RestoreError::InUse { path: shown() }
            }
            _ => OpenError::from_sqlite(path, &error).into(),
        };
        let broken = |error: &RestoreError| {
            matches!(error, RestoreError::Backup(BackupError::Open(OpenError::Damaged { .. })))
        };
        let take = || {
            location.survey()?;
            let connection =
                Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(failed)?;
            connection.busy_timeout(Duration::ZERO).map_err(failed)?;
            STORE.require(&location, &connection)?;
            // SQLite gives up the write-ahead log only if nobody else has the file open, and moves it into the file:
            // what is kept is one whole file.
            connection.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(())).map_err(failed)?;
            connection.execute_batch("BEGIN EXCLUSIVE").map_err(failed)?;
            // A store that cannot say what it was is replaced all the same.
            Ok(Self { lives: lives(&connection).ok(), _lock: Some(connection) })
        };
        match take() {
            Err(error) if broken(&error) => Ok(Self::default()),
            outcome => outcome,
        }
    }

    fn epoch(&self) -> Epoch {
        let newest = self.lives.as_ref().and_then(|(_, lives)| lives.keys().next_back());
        newest.copied().unwrap_or(Epoch(0))
    }
}

/// Turns a checked copy of a backup into a store in the life `epoch`.
fn begin_life(
    path: &Path,
    epoch: Epoch,
    clock: &dyn Clock,
    replaced: &Option<(StoreId, Lives)>,
) -> rusqlite::Result<()> {
    let mut connection = Connection::open(path)?;
    let transaction = connection.transaction()?;
    let (store, mut shared) = lives(&transaction)?;
    if let Some((_, other)) = replaced.as_ref().filter(|(id, _)| *id == store) {
        let common = common(&shared, other);
        for (epoch, theirs) in other {
            let least = |(at, position): (&Partition, &Position)| Some((*at, *common.get(at)?.min(position)));
            shared.entry(*epoch).or_insert_with(|| theirs.iter().filter_map(least).collect());
        }
    }
    transaction.execute("DELETE FROM lineage", [])?;
    let row = "INSERT OR REPLACE INTO lineage (epoch, partition, shared) VALUES (?1, ?2, ?3)";
    for (earlier, positions) in shared {
        transaction.execute(row, (int(earlier.0), 0, 0))?;
        for (partition, position) in positions {
            transaction.execute(row, (int(earlier.0), partition.0, int(position.get())))?;
        }
    }
    let now = clock.now().as_micros();
    transaction.execute("UPDATE meta SET epoch = ?1", [int(epoch.0)])?;
    transaction.execute("UPDATE moment SET last = max(last, ?1)", [now])?;
    // Numbers of deliveries follow the clock: none given out before is valid from here on.
    transaction.execute("UPDATE message SET delivery = max(delivery + 1, ?1)", [now])?;
    transaction.execute("UPDATE parked SET delivery = max(delivery + 1, ?1)", [now])?;
    transaction.execute_batch("DROP TABLE manifest; DROP TABLE manifest_table")?;
    transaction.pragma_update(None, "application_id", STORE.application)?;
    transaction.commit()
}

/// The history that two stores share: up to where both agree with a life that both know.
fn common(one: &Lives, other: &Lives) -> BTreeMap<Partition, Position> {
    let mut common = BTreeMap::new();
    for (epoch, ours) in one {
        for (partition, theirs) in other.get(epoch).into_iter().flatten() {
            if let Some(ours) = ours.get(partition) {
                let shared = *ours.min(theirs);
                let most = common.entry(*partition).or_insert(shared);
                *most = shared.max(*most);
            }
        }
    }
    common
}

/// The files of a store that lie at a place. A write-ahead log without its file would be taken for the new file's.
fn remains(to: &Path) -> Vec<PathBuf> {
    let ends = ["", "-wal", "-shm", "-journal"];
    ends.into_iter().map(|end| named(to, end)).filter(|path| path.exists()).collect()
}

fn named(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Keeps what lies there beside it. The file keeps its own name too, until the new one takes it: nobody who opens it in
/// between finds nothing and makes an empty store.
fn keep(to: &Path, epoch: Epoch) -> Result<PathBuf, BackupError> {
    let aside = named(to, &format!(".before-{:x}", epoch.0));
    for end in ["-wal", "-shm", "-journal", ""] {
        let (file, kept) = (named(to, end), named(&aside, end));
        let moved = match fs::metadata(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            _ if end.is_empty() => fs::hard_link(&file, &kept).or_else(|_| fs::rename(&file, &kept)),
            _ => fs::rename(&file, &kept),
        };
        moved.map_err(BackupError::io(&file))?;
    }
    sync_folder(to).map_err(BackupError::io(to))?;
    Ok(aside)
}
