//! Cells: small records with conditional writes.

use crate::{engine::StoreEngine, fault::int};
use highwater_core::{
    Cell, CellError, CellKey, CellWrite, ETag, Expect, Found, Json, Limits, Name, StoreInfo,
};
use rusqlite::{Connection, OptionalExtension};

pub(crate) fn check(key: &CellKey, value: &Json, limits: &Limits) -> Result<(), CellError> {
    check_key(key, limits)?;
    let (size, limit) = (value.as_bytes().len(), limits.cell_bytes);
    if size > limit {
        Err(CellError::TooLarge { what: "bytes of a cell".into(), size, limit })
    } else {
        Ok(())
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

/// What a condition finds.
fn found(connection: &Connection, info: &StoreInfo, key: &CellKey) -> rusqlite::Result<Found> {
    let version = connection
        .prepare_cached("SELECT version FROM cell WHERE space = ?1 AND key = ?2")?
        .query_row((key.space.as_str(), &key.key), |row| row.get(0))
        .optional()?;
    Ok(match version {
        Some(version) => Found::Item(etag(info, version)?),
        None => Found::Nothing,
    })
}

pub(crate) fn read(
    connection: &Connection,
    info: &StoreInfo,
    key: &CellKey,
) -> rusqlite::Result<Option<Cell>> {
    let row = connection
        .prepare_cached("SELECT version, value FROM cell WHERE space = ?1 AND key = ?2")?
        .query_row((key.space.as_str(), &key.key), |row| Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?)))
        .optional()?;
    let Some((version, value)) = row else { return Ok(None) };
    Ok(Some(Cell::new(key.clone(), etag(info, version)?, Json::from_stored(value.into()))))
}

pub(crate) fn write(
    connection: &Connection,
    engine: &StoreEngine,
    write: &CellWrite,
) -> rusqlite::Result<Result<ETag, CellError>> {
    let info = &engine.layout.info;
    let version = match found(connection, info, &write.key)? {
        found if !found.fits(write.expect) => {
            return Ok(Err(CellError::Conflict { key: write.key.clone(), found }));
        }
        Found::Item(before) => set(connection, write, int(before.version.get() + 1))?,
        _ => create(connection, &write.key, &write.value)?,
    };
    Ok(Ok(etag(info, version)?))
}

/// Writes a cell that is not there. Its version is above that of every cell that was ever deleted, so that one
/// that comes again goes on counting and nothing of the deleted ones has to be kept.
pub(crate) fn create(connection: &Connection, key: &CellKey, value: &Json) -> rusqlite::Result<i64> {
    connection
        .prepare_cached(
            "INSERT INTO cell (space, key, version, value) SELECT ?1, ?2, cell_floor + 1, ?3 FROM meta
             RETURNING version",
        )?
        .query_row((key.space.as_str(), &key.key, value.as_bytes()), |row| row.get(0))
}

fn set(connection: &Connection, write: &CellWrite, version: i64) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("UPDATE cell SET version = ?3, value = ?4 WHERE space = ?1 AND key = ?2")?
        .execute((write.key.space.as_str(), &write.key.key, version, write.value.as_bytes()))?;
    Ok(version)
}

pub(crate) fn delete(
    connection: &Connection,
    engine: &StoreEngine,
    key: &CellKey,
    expect: Expect,
) -> rusqlite::Result<Result<(), CellError>> {
    let found = found(connection, &engine.layout.info, key)?;
    if !found.fits(expect) {
        return Ok(Err(CellError::Conflict { key: key.clone(), found }));
    }
    if let Found::Item(etag) = found {
        connection
            .prepare_cached("DELETE FROM cell WHERE space = ?1 AND key = ?2")?
            .execute((key.space.as_str(), &key.key))?;
        connection
            .prepare_cached("UPDATE meta SET cell_floor = max(cell_floor, ?1)")?
            .execute([int(etag.version.get())])?;
    }
    Ok(Ok(()))
}

pub(crate) fn list(
    connection: &Connection,
    info: &StoreInfo,
    space: &Name,
    after: Option<&str>,
    max: usize,
) -> rusqlite::Result<Vec<Cell>> {
    // An empty key is a key too, so "from the beginning" is not "after the empty key".
    let comparison = if after.is_some() { ">" } else { ">=" };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT key, version, value FROM cell
         WHERE space = ?1 AND key {comparison} ?2 ORDER BY key LIMIT ?3"
    ))?;
    let mut cells = Vec::new();
    let mut rows = statement.query((space.as_str(), after.unwrap_or(""), int(max as u64)))?;
    while let Some(row) = rows.next()? {
        let key = CellKey::new(space.clone(), row.get::<_, String>(0)?);
        let value = Json::from_stored(row.get::<_, Vec<u8>>(2)?.into());
        cells.push(Cell::new(key, etag(info, row.get(1)?)?, value));
    }
    Ok(cells)
}
