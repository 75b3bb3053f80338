//! Cells: small records with conditional writes.

use crate::engine::StoreEngine;
use highwater_core::{
    Cell, CellError, CellKey, CellWrite, ETag, Expect, Found, Json, Limits, Name, StoreInfo,
};
use rusqlite::{Connection, OptionalExtension};

/// A row of the table: its version, and its value unless it was deleted.
type CellRow = (i64, Option<Vec<u8>>);

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

fn row(connection: &Connection, key: &CellKey) -> rusqlite::Result<Option<CellRow>> {
    connection
        .prepare_cached("SELECT version, value FROM cell WHERE space = ?1 AND key = ?2")?
        .query_row((key.space.as_str(), &key.key), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

fn etag(info: &StoreInfo, version: i64) -> rusqlite::Result<ETag> {
    Ok(ETag { epoch: info.epoch, version: crate::log::version(version)? })
}

fn found(info: &StoreInfo, row: Option<&CellRow>) -> rusqlite::Result<Found> {
    Ok(match row {
        None => Found::Nothing,
        Some((version, None)) => Found::Gone(etag(info, *version)?),
        Some((version, Some(_))) => Found::Item(etag(info, *version)?),
    })
}

pub(crate) fn read(
    connection: &Connection,
    info: &StoreInfo,
    key: &CellKey,
) -> rusqlite::Result<Option<Cell>> {
    let Some((version, Some(value))) = row(connection, key)? else { return Ok(None) };
    let value = Json::from_stored(value.into());
    Ok(Some(Cell::new(key.clone(), etag(info, version)?, value)))
}

pub(crate) fn write(
    connection: &Connection,
    engine: &StoreEngine,
    write: &CellWrite,
) -> rusqlite::Result<Result<ETag, CellError>> {
    let row = row(connection, &write.key)?;
    let found = found(&engine.info, row.as_ref())?;
    if !found.fits(write.expect) {
        return Ok(Err(CellError::Conflict { key: write.key.clone(), found }));
    }
    let version = row.map_or(1, |(version, _)| version + 1);
    store(connection, &write.key, version, &write.value)?;
    Ok(Ok(etag(&engine.info, version)?))
}

/// Writes a cell that is not there.
pub(crate) fn create(connection: &Connection, key: &CellKey, value: &Json) -> rusqlite::Result<()> {
    let version = row(connection, key)?.map_or(1, |(version, _)| version + 1);
    store(connection, key, version, value)
}

fn store(connection: &Connection, key: &CellKey, version: i64, value: &Json) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO cell (space, key, version, value) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (space, key) DO UPDATE SET version = ?3, value = ?4",
        )?
        .execute((key.space.as_str(), &key.key, version, value.as_bytes()))
        .map(|_| ())
}

pub(crate) fn delete(
    connection: &Connection,
    engine: &StoreEngine,
    key: &CellKey,
    expect: Expect,
) -> rusqlite::Result<Result<(), CellError>> {
    let row = row(connection, key)?;
    let found = found(&engine.info, row.as_ref())?;
    if !found.fits(expect) {
        return Ok(Err(CellError::Conflict { key: key.clone(), found }));
    }
    if let Found::Item(etag) = found {
        connection
            .prepare_cached("UPDATE cell SET version = ?3, value = NULL WHERE space = ?1 AND key = ?2")?
            .execute((key.space.as_str(), &key.key, crate::fault::int(etag.version.get() + 1)))?;
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
         WHERE space = ?1 AND key {comparison} ?2 AND value IS NOT NULL ORDER BY key LIMIT ?3"
    ))?;
    let mut cells = Vec::new();
    let mut rows = statement.query((space.as_str(), after.unwrap_or(""), crate::fault::int(max as u64)))?;
    while let Some(row) = rows.next()? {
        let key = CellKey::new(space.clone(), row.get::<_, String>(0)?);
        let value = Json::from_stored(row.get::<_, Vec<u8>>(2)?.into());
        cells.push(Cell::new(key, etag(info, row.get(1)?)?, value));
    }
    Ok(cells)
}
