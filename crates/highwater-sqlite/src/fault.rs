//! What SQLite reports, in the words of the contract.

use highwater_core::{EngineError, FailureKind, Partition};
use rusqlite::{Error, ErrorCode, types::Type};
use std::borrow::Cow;

/// The engine's error for one of SQLite's.
pub(crate) fn engine_error(error: Error) -> EngineError {
    let (kind, message) = match &error {
        Error::FromSqlConversionFailure(_, _, cause) if cause.is::<DamagedChange>() => {
            (FailureKind::Corrupt, cause.to_string())
        }
        Error::FromSqlConversionFailure(..)
        | Error::InvalidColumnType(..)
        | Error::IntegralValueOutOfRange(..) => {
            (FailureKind::Corrupt, format!("a stored row cannot be read: {error}; restore from a backup"))
        }
        _ => match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                (FailureKind::Busy, "another process holds the database; try again".to_owned())
            }
            Some(ErrorCode::DiskFull) => {
                (FailureKind::OutOfSpace, "no space is left for the database; free some".to_owned())
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                (FailureKind::Corrupt, format!("the database is damaged: {error}; restore from a backup"))
            }
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => {
                (FailureKind::Unavailable, format!("the database cannot be reached: {error}"))
            }
            Some(ErrorCode::ReadOnly) => (
                FailureKind::Other,
                "the database is read-only; give this user the right to write it".to_owned(),
            ),
            _ => (FailureKind::Other, format!("the database refused: {error}")),
        },
    };
    EngineError::new(kind, message).caused_by(error)
}

/// The engine was closed while, or before, something was asked of it.
pub(crate) fn closed() -> EngineError {
    EngineError::new(FailureKind::Closed, "the database was closed; open it again")
}

/// A panic while something was read or written; whatever it had written was rolled back.
pub(crate) fn panicked() -> EngineError {
    EngineError::new(FailureKind::Other, "the database's thread panicked and goes on; please report this")
}

/// A row that no version of this program wrote that way.
pub(crate) fn unreadable(what: &'static str) -> Error {
    Error::FromSqlConversionFailure(0, Type::Blob, what.into())
}

/// A change that is not what was committed.
pub(crate) fn damaged(partition: Partition, position: i64, cause: impl Into<Cow<'static, str>>) -> Error {
    let damaged = DamagedChange { partition, position, cause: cause.into() };
    Error::FromSqlConversionFailure(0, Type::Blob, Box::new(damaged))
}

#[derive(Debug, thiserror::Error)]
#[error(
    "the change at position {position} of partition {partition} is damaged: {cause}; restore from a backup"
)]
struct DamagedChange {
    partition: Partition,
    position: i64,
    cause: Cow<'static, str>,
}

/// A number for SQLite, which has no unsigned ones.
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number that must not be negative.
pub(crate) fn uint(number: i64) -> rusqlite::Result<u64> {
    u64::try_from(number).map_err(|_| unreadable("a number is negative"))
}
