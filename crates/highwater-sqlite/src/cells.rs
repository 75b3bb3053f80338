//! Cells: small records with conditional writes.

use crate::{engine::StoreEngine, fault::int, moment};
use highwater_core::{
    Cell, CellError, CellKey, CellWrite, ETag, Expect, Found, Json, Limits, Name, StoreInfo, Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row};
use std::time::Duration;

pub(crate) fn check(key: &CellKey, value: &Json, limits: &Limits) -> Result<(), CellError> {
    check_key(key, limits)?;
    let (size, limit) = (value.as_bytes().len(), limits.cell_bytes);
    if size > limit {
        Err(CellError::TooLarge { what: "bytes of a cell".into(), size, limit })
    } else {
        Ok(())
    }
}

/// Whether a cell may live as long as that.
pub(crate) fn check_life(span: Option<Duration>, limits: &Limits) -> Result<(), CellError> {
    match limits.life_out_of_range(span) {
        Some(range) => Err(CellError::OutOfRange { what: "the time to live of a cell".into(), range }),
        None => Ok(()),
    }
}

pub(crate) fn check_key(key: &CellKey, limits: &Limits) -> Result<(), CellError> {
    let (size, limit) = (key.key.len(), limits.key_bytes);
    if size > limit {
        return Err(CellError::TooLarge { what: "bytes of a cell's key".into(), size, limit });
    }
    Ok(())
}

fn etag(info: &StoreInfo, version: i64) -> rusqlite::Result<ETag> {
    Ok(ETag { epoch: info.epoch, version: crate::log::version(version)? })
}

/// A row of the table, which may have expired.
struct Stored {
    seq: i64,
    first: i64,
    version: i64,
    expires_at: Option<i64>,
}

impl Stored {
    fn read(connection: &Connection, key: &CellKey) -> rusqlite::Result<Option<Self>> {
        connection
            .prepare_cached("SELECT seq, first, version, expires_at FROM cell WHERE space = ?1 AND key = ?2")?
            .query_row((key.space.as_str(), &key.key), |row| {
                let (version, expires_at) = (row.get(2)?, row.get(3)?);
                Ok(Self { seq: row.get(0)?, first: row.get(1)?, version, expires_at })
            })
            .optional()
    }

    fn lives(&self, now: i64) -> bool {
        self.expires_at.is_none_or(|at| at > now)
    }

    /// What a condition finds.
    fn found(stored: Option<&Self>, info: &StoreInfo, now: i64) -> rusqlite::Result<Found> {
        Ok(match stored {
            Some(cell) if cell.lives(now) => Found::Item(etag(info, cell.version)?),
            _ => Found::Nothing,
        })
    }
}

/// The cell of a row of version, value and expiry.
fn cell(info: &StoreInfo, key: CellKey, row: &Row<'_>) -> rusqlite::Result<Cell> {
    let value = Json::from_stored(row.get::<_, Vec<u8>>(1)?.into());
    let mut cell = Cell::new(key, etag(info, row.get(0)?)?, value);
    cell.expires_at = row.get::<_, Option<i64>>(2)?.map(Timestamp::from_micros);
    Ok(cell)
}

pub(crate) fn read(
    connection: &Connection,
    info: &StoreInfo,
    key: &CellKey,
    clock: Timestamp,
) -> rusqlite::Result<Option<Cell>> {
    let found = connection
        .prepare_cached("SELECT version, value, expires_at FROM cell WHERE space = ?1 AND key = ?2")?
        .query_row((key.space.as_str(), &key.key), |row| cell(info, key.clone(), row))
        .optional()?;
    let Some(Cell { expires_at: Some(at), .. }) = &found else { return Ok(found) };
    let lives = at.as_micros() > moment::seen(connection, clock)?;
    Ok(found.filter(|_| lives))
}

/// One life of a cell: its number in the table, which may be given again after it, and the version it began with.
pub(crate) struct Written {
    pub(crate) seq: i64,
    pub(crate) first: i64,
}

pub(crate) fn write(
    connection: &Connection,
    engine: &mut StoreEngine,
    write: &CellWrite,
) -> rusqlite::Result<Result<ETag, CellError>> {
    Ok(match write_row(connection, engine, write)? {
        Ok((_, version)) => Ok(etag(&engine.layout.info, version)?),
        Err(error) => Err(error),
    })
}

/// Writes a cell, and says which life of it this is and what version it has.
pub(crate) fn write_row(
    connection: &Connection,
    engine: &mut StoreEngine,
    write: &CellWrite,
) -> rusqlite::Result<Result<(Written, i64), CellError>> {
    let now = engine.now().as_micros();
    let stored = Stored::read(connection, &write.key)?;
    let found = Stored::found(stored.as_ref(), &engine.layout.info, now)?;
    if !found.fits(write.expect) {
        return Ok(Err(CellError::Conflict { key: write.key.clone(), found }));
    }
    let expires_at = write.time_to_live.map(|span| moment::later(engine.now(), span));
    engine.sweeps.note(expires_at);
    let Some(stored) = stored else {
        return create(connection, &write.key, &write.value, expires_at).map(Ok);
    };
    let (seq, version) = (stored.seq, stored.version + 1);
    let first = if stored.lives(now) { stored.first } else { version };
    connection
        .prepare_cached(
            "UPDATE cell SET first = ?2, version = ?3, value = ?4, expires_at = ?5 WHERE seq = ?1",
        )?
        .execute((seq, first, version, write.value.as_bytes(), expires_at))?;
    Ok(Ok((Written { seq, first }, version)))
}

/// Writes a cell that is not there. Its version is above that of every cell that was ever deleted, so that one
/// that comes again goes on counting and nothing of the deleted ones has to be kept.
fn create(
    connection: &Connection,
    key: &CellKey,
    value: &Json,
    expires_at: Option<i64>,
) -> rusqlite::Result<(Written, i64)> {
    connection
        .prepare_cached(
            "INSERT INTO cell (space, key, first, version, value, expires_at)
             SELECT ?1, ?2, cell_floor + 1, cell_floor + 1, ?3, ?4 FROM meta RETURNING seq, version",
        )?
        .query_row((key.space.as_str(), &key.key, value.as_bytes(), expires_at), |row| {
            let (seq, version) = (row.get(0)?, row.get(1)?);
            Ok((Written { seq, first: version }, version))
        })
}

pub(crate) fn delete(
    connection: &Connection,
    engine: &StoreEngine,
    key: &CellKey,
    expect: Expect,
) -> rusqlite::Result<Result<(), CellError>> {
    let stored = Stored::read(connection, key)?;
    let found = Stored::found(stored.as_ref(), &engine.layout.info, engine.now().as_micros())?;
    if !found.fits(expect) {
        return Ok(Err(CellError::Conflict { key: key.clone(), found }));
    }
    if let Some(Stored { seq, first, .. }) = stored {
        remove(connection, Written { seq, first })?;
    }
    Ok(Ok(()))
}

/// Removes a cell, if it is still in this life.
pub(crate) fn remove(connection: &Connection, written: Written) -> rusqlite::Result<()> {
    let version = connection
        .prepare_cached("DELETE FROM cell WHERE seq = ?1 AND first = ?2 RETURNING version")?
        .query_row([written.seq, written.first], |row| row.get(0))
        .optional()?;
    version.map_or(Ok(()), |version| raise_floor(connection, version))
}

fn raise_floor(connection: &Connection, version: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE meta SET cell_floor = max(cell_floor, ?1)")?
        .execute([version])
        .map(|_| ())
}

/// Removes some cells that have expired, and returns how many.
pub(crate) fn sweep(connection: &Connection, now: i64, max: i64) -> rusqlite::Result<usize> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM cell WHERE seq IN
            (SELECT seq FROM cell WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2) RETURNING version",
    )?;
    let versions =
        statement.query_map([now, max], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
    if let Some(highest) = versions.iter().max() {
        raise_floor(connection, *highest)?;
    }
    Ok(versions.len())
}

pub(crate) fn list(
    connection: &Connection,
    info: &StoreInfo,
    space: &Name,
    after: Option<&str>,
    max: usize,
    clock: Timestamp,
) -> rusqlite::Result<Vec<Cell>> {
    // An empty key is a key too, so "from the beginning" is not "after the empty key".
    let comparison = if after.is_some() { ">" } else { ">=" };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT version, value, expires_at, key FROM cell
         WHERE space = ?1 AND key {comparison} ?2 AND (expires_at IS NULL OR expires_at > ?4)
         ORDER BY key LIMIT ?3"
    ))?;
    let now = moment::seen(connection, clock)?;
    let mut cells = Vec::new();
    let mut rows = statement.query((space.as_str(), after.unwrap_or(""), int(max as u64), now))?;
    while let Some(row) = rows.next()? {
        let key = CellKey::new(space.clone(), row.get::<_, String>(3)?);
        cells.push(cell(info, key, row)?);
    }
    Ok(cells)
}
