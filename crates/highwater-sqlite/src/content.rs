//! The manifest of a backup: what it was made of, and a sum of every table.
//!
//! The sum of a table is the XXH3 (128 bit, seed 0) of its rows in the order of their keys. A row is the number of its
//! columns (u32) and each value: a type byte (0 null, 1 integer, 2 real, 3 text, 4 blob), for text and blob the length
//! (u64), and the bytes; numbers are little-endian.

use crate::{
    fault::{damaged, uint, unreadable},
    known::Known,
    layout::Layout,
    log,
};
use highwater_core::{Epoch, Partition, Position, StoreId, Timestamp};
use rusqlite::{Connection, types::ValueRef};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::Xxh3;

/// What a backup holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Manifest {
    /// The store it was made of.
    pub store: StoreId,
    /// The life that the store was in.
    pub epoch: Epoch,
    /// When it was made.
    pub created_at: Timestamp,
    /// The end of each log that has changes: everything up to there, and nothing beyond, is in the backup.
    pub heads: BTreeMap<Partition, Position>,
    /// How many rows all its tables have.
    pub rows: u64,
}

const TABLES: &str = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'
     AND name NOT IN ('manifest', 'manifest_table') ORDER BY name";

/// Every table with its number of rows and its sum, and `schema` for how they are made.
fn sums(connection: &Connection, seen: &mut dyn FnMut(u64)) -> rusqlite::Result<Vec<(String, i64, i128)>> {
    let mut tables: Vec<(String, String)> = connection
        .prepare(TABLES)?
        .query_map([], |row| row.get::<_, String>(0))?
        .map(|name| name.map(|name| (format!("SELECT * FROM \"{name}\" NOT INDEXED"), name)))
        .collect::<rusqlite::Result<_>>()?;
    let schema = "SELECT name, sql FROM sqlite_schema WHERE name NOT IN ('manifest', 'manifest_table')
         AND name NOT LIKE 'sqlite%' ORDER BY name";
    tables.push((schema.to_owned(), "schema".to_owned()));
    let mut all = 0;
    tables
        .into_iter()
        .map(|(sql, name)| {
            let (rows, sum) = sum(connection, &sql)?;
            all += rows.unsigned_abs();
            seen(all);
            Ok((name, rows, sum))
        })
        .collect()
}

fn sum(connection: &Connection, sql: &str) -> rusqlite::Result<(i64, i128)> {
    let (mut hash, mut memory, mut count) = (Xxh3::new(), Vec::new(), 0);
    let mut statement = connection.prepare(sql)?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        memory.clear();
        memory.extend_from_slice(&u32::try_from(columns).unwrap_or(u32::MAX).to_le_bytes());
        for column in 0..columns {
            let (kind, number, bytes) = match row.get_ref(column)? {
                ValueRef::Null => (0, None, None),
                ValueRef::Integer(number) => (1, Some(number.to_le_bytes()), None),
                ValueRef::Real(number) => (2, Some(number.to_le_bytes()), None),
                ValueRef::Text(bytes) => (3, None, Some(bytes)),
                ValueRef::Blob(bytes) => (4, None, Some(bytes)),
            };
            memory.push(kind);
            memory.extend(number.iter().flatten());
            if let Some(bytes) = bytes {
                memory.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
                memory.extend_from_slice(bytes);
            }
        }
        hash.update(&memory);
        count += 1;
    }
    Ok((count, hash.digest128().cast_signed()))
}

/// Writes the manifest into a copy of a store.
pub(crate) fn write(
    connection: &Connection,
    at: Timestamp,
    seen: &mut dyn FnMut(u64),
) -> rusqlite::Result<()> {
    let layout = Layout::read(connection)?;
    check_changes(connection, &layout)?;
    let sums = sums(connection, seen)?;
    connection.execute_batch(
        "CREATE TABLE manifest (one INTEGER PRIMARY KEY CHECK (one = 1), created_at INTEGER NOT NULL);
         CREATE TABLE manifest_table (name TEXT PRIMARY KEY, rows INTEGER NOT NULL, sum BLOB NOT NULL) WITHOUT ROWID;",
    )?;
    connection.execute("INSERT INTO manifest (one, created_at) VALUES (1, ?1)", [at.as_micros()])?;
    let mut insert =
        connection.prepare("INSERT INTO manifest_table (name, rows, sum) VALUES (?1, ?2, ?3)")?;
    for (name, rows, sum) in sums {
        insert.execute((name, rows, sum.to_le_bytes()))?;
    }
    Ok(())
}

/// Compares a backup with its manifest; the first table that differs is named.
pub(crate) fn check(
    connection: &Connection,
    seen: &mut dyn FnMut(u64),
) -> rusqlite::Result<Result<Manifest, String>> {
    let created_at: i64 = connection.query_row("SELECT created_at FROM manifest", [], |row| row.get(0))?;
    let mut expected: BTreeMap<String, (i64, Vec<u8>)> = connection
        .prepare("SELECT name, rows, sum FROM manifest_table")?
        .query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?
        .collect::<rusqlite::Result<_>>()?;
    let mut all = 0;
    for (name, rows, sum) in sums(connection, seen)? {
        match expected.remove(&name) {
            Some((wanted, made)) if wanted == rows && made == sum.to_le_bytes() => all += rows.unsigned_abs(),
            Some((wanted, _)) if wanted != rows => {
                return Ok(Err(format!("table {name} has {rows} rows, not {wanted}")));
            }
            Some(_) => return Ok(Err(format!("table {name} is not what was copied"))),
            None => return Ok(Err(format!("table {name} was not copied"))),
        }
    }
    if let Some(name) = expected.keys().next() {
        return Ok(Err(format!("table {name} is missing")));
    }
    let layout = Layout::read(connection)?;
    let heads = heads(connection)?;
    let (store, epoch) = (layout.info.id, layout.info.epoch);
    Ok(Ok(Manifest { store, epoch, created_at: Timestamp::from_micros(created_at), heads, rows: all }))
}

/// The end of each log.
pub(crate) fn heads(connection: &Connection) -> rusqlite::Result<BTreeMap<Partition, Position>> {
    let mut heads = BTreeMap::new();
    let mut statement = connection.prepare("SELECT partition, last FROM partition WHERE last > 0")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let last = Position::new(uint(row.get(1)?)?).ok_or_else(|| unreadable("a position is zero"))?;
        heads.insert(Partition(row.get(0)?), last);
    }
    Ok(heads)
}

/// Compares every change with its checksum; a copy of what is damaged is no backup.
fn check_changes(connection: &Connection, layout: &Layout) -> rusqlite::Result<()> {
    let mut known = Known::default();
    for partition in Partition::all(layout.info.partitions) {
        let mut statement = connection.prepare(&layout.log(partition)?.after)?;
        let mut rows = statement.query([0])?;
        while let Some(row) = rows.next()? {
            let position = row.get(0)?;
            let container = known.container(connection, row.get(4)?)?;
            if !log::is_sound(row, &container, &mut known.memory) {
                return Err(damaged(partition, position, "its checksum does not fit"));
            }
        }
    }
    Ok(())
}
