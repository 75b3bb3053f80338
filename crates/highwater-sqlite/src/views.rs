//! Documents of views and how far each view has come, inside a transaction.

use crate::fault::{int, uint, unreadable};
use highwater_core::{
    Body, Claim, Document, Epoch, Healing, Json, Lineage, Marks, Partition, Position, Reached, StoreId,
    ViewBatch, ViewName, ViewReached, ViewSlot, ViewWriteError, failpoint,
};
use rusqlite::{Connection, OptionalExtension, Row};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The number of a view; `None` while nothing was written of it.
fn view_id(connection: &Connection, view: &ViewName) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT id FROM view WHERE name = ?1 AND generation = ?2")?
        .query_row((view.name.as_str(), view.generation), |row| row.get(0))
        .optional()
}

/// The row of a slot: owner epoch, store epoch, position.
fn slot_row(
    connection: &Connection,
    view: i64,
    slot: &ViewSlot,
) -> rusqlite::Result<Option<(i64, i64, Option<i64>)>> {
    connection
        .prepare_cached(
            "SELECT owner_epoch, store_epoch, position FROM slot
             WHERE view = ?1 AND store = ?2 AND partition = ?3",
        )?
        .query_row((view, slot.store.0.into_bytes(), slot.partition.0), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .optional()
}

/// A store other than `store` that the view was built from.
fn other_store(connection: &Connection, view: i64, store: StoreId) -> rusqlite::Result<Option<StoreId>> {
    connection
        .prepare_cached("SELECT store FROM slot WHERE view = ?1 AND store <> ?2 LIMIT 1")?
        .query_row((view, store.0.into_bytes()), |row| {
            let id: [u8; 16] = row.get(0)?;
            Ok(StoreId(Uuid::from_bytes(id)))
        })
        .optional()
}

pub(crate) fn claim(
    connection: &Connection,
    slot: &ViewSlot,
    store_epoch: Epoch,
) -> rusqlite::Result<Result<Claim, ViewWriteError>> {
    let view = match view_id(connection, &slot.view)? {
        Some(view) => {
            if let Some(found) = other_store(connection, view, slot.store)? {
                let (view, asked) = (slot.view.clone(), slot.store);
                return Ok(Err(ViewWriteError::OtherStore { view, found, asked }));
            }
            view
        }
        None => {
            connection
                .prepare_cached("INSERT INTO view (name, generation) VALUES (?1, ?2)")?
                .execute((slot.view.name.as_str(), slot.view.generation))?;
            connection.last_insert_rowid()
        }
    };
    connection
        .prepare_cached(
            "INSERT INTO slot (view, store, partition, owner_epoch, store_epoch) VALUES (?1, ?2, ?3, 1, ?4)
             ON CONFLICT (view, store, partition) DO UPDATE SET owner_epoch = owner_epoch + 1",
        )?
        .execute((view, slot.store.0.into_bytes(), slot.partition.0, int(store_epoch.0)))?;
    let row = slot_row(connection, view, slot)?;
    let (owner_epoch, epoch, position) = row.ok_or_else(|| unreadable("a slot is not there"))?;
    let position = position.and_then(|number| Position::new(number.unsigned_abs()));
    Ok(Ok(Claim::new(uint(owner_epoch)?, Epoch(uint(epoch)?), position)))
}

/// The number of the view, if the claim holds.
fn held(connection: &Connection, slot: &ViewSlot, claim: &Claim) -> rusqlite::Result<Option<i64>> {
    let Some(view) = view_id(connection, &slot.view)? else { return Ok(None) };
    let Some((owner_epoch, store_epoch, position)) = slot_row(connection, view, slot)? else {
        return Ok(None);
    };
    let position = position.and_then(|number| Position::new(number.unsigned_abs()));
    let holds = uint(owner_epoch)? == claim.owner_epoch
        && Epoch(uint(store_epoch)?) == claim.store_epoch
        && position == claim.position;
    Ok((holds || failpoint::sabotaged("epoch-not-compared")).then_some(view))
}

pub(crate) fn adopt(
    connection: &Connection,
    slot: &ViewSlot,
    claim: Claim,
    lineage: &Lineage,
) -> rusqlite::Result<Result<Claim, ViewWriteError>> {
    let Some(view) = held(connection, slot, &claim)? else {
        return Ok(Err(ViewWriteError::Fenced { slot: Box::new(slot.clone()) }));
    };
    let (store, epoch) = (slot.store.0.into_bytes(), int(lineage.epoch().0));
    let mut others = connection.prepare_cached(
        "SELECT store_epoch, partition, position FROM slot WHERE view = ?1 AND store = ?2 AND store_epoch <> ?3
         ORDER BY partition",
    )?;
    let mut rows = others.query((view, store, epoch))?;
    while let Some(row) = rows.next()? {
        let position = Position::new(row.get::<_, Option<i64>>(2)?.unwrap_or(0).unsigned_abs());
        if let Err(diverged) = lineage.check(Epoch(uint(row.get(0)?)?), Partition(row.get(1)?), position) {
            return Ok(Err(ViewWriteError::Diverged { view: slot.view.clone(), diverged }));
        }
    }
    connection
        .prepare_cached(
            "UPDATE slot SET store_epoch = ?3 WHERE view = ?1 AND store = ?2 AND store_epoch <> ?3",
        )?
        .execute((view, store, epoch))?;
    Ok(Ok(Claim::new(claim.owner_epoch, lineage.epoch(), claim.position)))
}

pub(crate) fn clear(
    connection: &Connection,
    slot: &ViewSlot,
    claim: Claim,
    until: &Reached,
    reason: &str,
) -> rusqlite::Result<Result<Claim, ViewWriteError>> {
    let Some(view) = held(connection, slot, &claim)? else {
        return Ok(Err(ViewWriteError::Fenced { slot: Box::new(slot.clone()) }));
    };
    let (store, epoch) = (slot.store.0.into_bytes(), int(until.epoch.0));
    connection.prepare_cached("DELETE FROM document WHERE view = ?1")?.execute([view])?;
    connection
        .prepare_cached(
            "UPDATE slot SET position = NULL, until = NULL, store_epoch = ?2, owner_epoch = owner_epoch + 1
             WHERE view = ?1",
        )?
        .execute((view, epoch))?;
    let mut aim = connection.prepare_cached(
        "INSERT INTO slot (view, store, partition, owner_epoch, store_epoch, until) VALUES (?1, ?2, ?3, 1, ?4, ?5)
         ON CONFLICT (view, store, partition) DO UPDATE SET until = ?5",
    )?;
    for (partition, position) in &until.positions {
        aim.execute((view, store, partition.0, epoch, int(position.get())))?;
    }
    connection.prepare_cached("UPDATE view SET healing = ?2 WHERE id = ?1")?.execute((view, reason))?;
    let row = slot_row(connection, view, slot)?;
    let (owner_epoch, ..) = row.ok_or_else(|| unreadable("a slot is not there"))?;
    Ok(Ok(Claim::new(uint(owner_epoch)?, until.epoch, None)))
}

pub(crate) fn write(
    connection: &Connection,
    batch: &ViewBatch,
) -> rusqlite::Result<Result<(), ViewWriteError>> {
    let (slot, claim) = (&batch.slot, &batch.claim);
    let fenced = || Ok(Err(ViewWriteError::Fenced { slot: Box::new(slot.clone()) }));
    let Some(view) = held(connection, slot, claim)? else { return fenced() };
    let mut version =
        connection.prepare_cached("SELECT version FROM document WHERE view = ?1 AND key = ?2")?;
    for document in &batch.documents {
        let found: Option<i64> = version.query_row((view, &document.key), |row| row.get(0)).optional()?;
        if found.unwrap_or(0) != int(document.expected) {
            return Ok(Err(ViewWriteError::Conflict { key: document.key.clone() }));
        }
    }
    let mut upsert = connection.prepare_cached(
        "INSERT INTO document (view, key, version, schema, body, marks) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (view, key) DO UPDATE SET version = ?3, schema = ?4, body = ?5, marks = ?6",
    )?;
    for document in &batch.documents {
        let marks = serde_json::to_string(&document.marks)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        upsert.execute((
            view,
            &document.key,
            int(document.expected) + 1,
            document.body.as_ref().map(|body| body.schema),
            document.body.as_ref().map(|body| body.json.as_bytes()),
            marks,
        ))?;
    }
    connection
        .prepare_cached("UPDATE slot SET position = ?4 WHERE view = ?1 AND store = ?2 AND partition = ?3")?
        .execute((view, slot.store.0.into_bytes(), slot.partition.0, int(batch.position.get())))?;
    Ok(Ok(()))
}

/// Whether any view was built from another store than this one.
pub(crate) fn follows_another(connection: &Connection, store: StoreId) -> rusqlite::Result<bool> {
    connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM slot WHERE store <> ?1)",
        [store.0.into_bytes()],
        |row| row.get(0),
    )
}

/// A row of key, version, schema, body, marks.
fn document_from(row: &Row<'_>) -> rusqlite::Result<Document> {
    let body = match (row.get::<_, Option<u32>>(2)?, row.get::<_, Option<Vec<u8>>>(3)?) {
        (Some(schema), Some(json)) => Some(Body { schema, json: Json::from_stored(json.into()) }),
        _ => None,
    };
    let marks: Marks = serde_json::from_str(row.get_ref(4)?.as_str()?)
        .map_err(|_| unreadable("the marks of a document are not readable"))?;
    Ok(Document::new(row.get(0)?, uint(row.get(1)?)?, body, marks))
}

fn document(connection: &Connection, view: i64, key: &str) -> rusqlite::Result<Option<Document>> {
    connection
        .prepare_cached(
            "SELECT key, version, schema, body, marks FROM document WHERE view = ?1 AND key = ?2",
        )?
        .query_row((view, key), document_from)
        .optional()
}

pub(crate) fn documents(
    connection: &Connection,
    view: &ViewName,
    keys: &[String],
) -> rusqlite::Result<Vec<Option<Document>>> {
    let Some(view) = view_id(connection, view)? else { return Ok(vec![None; keys.len()]) };
    keys.iter().map(|key| document(connection, view, key)).collect()
}

/// The document and how far the view has come, at one moment.
pub(crate) fn document_and_reached(
    connection: &Connection,
    view: &ViewName,
    store: StoreId,
    key: &str,
) -> rusqlite::Result<(Option<Document>, Option<ViewReached>)> {
    let Some(number) = view_id(connection, view)? else { return Ok((None, None)) };
    Ok((document(connection, number, key)?, reached(connection, view, store)?))
}

pub(crate) fn list(
    connection: &Connection,
    view: &ViewName,
    after: Option<&str>,
    max: usize,
) -> rusqlite::Result<Vec<Document>> {
    let Some(view) = view_id(connection, view)? else { return Ok(Vec::new()) };
    // An empty key is a key too, so "from the beginning" is not "after the empty key".
    let comparison = if after.is_some() { ">" } else { ">=" };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT key, version, schema, body, marks FROM document
         WHERE view = ?1 AND key {comparison} ?2 AND body IS NOT NULL ORDER BY key LIMIT ?3"
    ))?;
    statement.query_map((view, after.unwrap_or(""), int(max as u64)), document_from)?.collect()
}

pub(crate) fn reached(
    connection: &Connection,
    view: &ViewName,
    store: StoreId,
) -> rusqlite::Result<Option<ViewReached>> {
    let Some(view) = view_id(connection, view)? else { return Ok(None) };
    let mut statement = connection.prepare_cached(
        "SELECT partition, store_epoch, position, until FROM slot WHERE view = ?1 AND store = ?2",
    )?;
    let mut rows = statement.query((view, store.0.into_bytes()))?;
    let (mut epoch, mut positions, mut until) = (None, BTreeMap::new(), BTreeMap::new());
    while let Some(row) = rows.next()? {
        let slot_epoch = uint(row.get(1)?)?;
        epoch = Some(epoch.map_or(slot_epoch, |lowest: u64| lowest.min(slot_epoch)));
        let (row_partition, position): (u16, Option<i64>) = (row.get(0)?, row.get(2)?);
        if let Some(position) = position.and_then(|number| Position::new(number.unsigned_abs())) {
            positions.insert(Partition(row_partition), position);
        }
        let aim: Option<i64> = row.get(3)?;
        if let Some(aim) = aim.filter(|aim| *aim > position.unwrap_or(0)) {
            until.extend(Position::new(uint(aim)?).map(|aim| (Partition(row_partition), aim)));
        }
    }
    let healing = if until.is_empty() {
        None
    } else {
        healing(connection, view)?.map(|reason| Healing { reason, until })
    };
    Ok(epoch.map(|epoch| ViewReached { epoch: Epoch(epoch), positions, healing }))
}

/// Why a view was cleared last.
fn healing(connection: &Connection, view: i64) -> rusqlite::Result<Option<String>> {
    connection.prepare_cached("SELECT healing FROM view WHERE id = ?1")?.query_row([view], |row| row.get(0))
}
