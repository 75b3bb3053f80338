//! The same rows in the same tables with the same indexes, written by plain rusqlite in transactions of a given
//! size: what SQLite and the disk allow, without conditions to look up, callers to answer or threads to cross.

use crate::{
    Outcome,
    workload::{self, ITEMS},
};
use highwater_core::{Clock, Store};
use rusqlite::Connection;
use std::{
    path::Path,
    time::{Duration, Instant},
};
use uuid::Uuid;

/// The frame of so many events as the engine stores it.
fn frame(events: usize) -> Outcome<Vec<u8>> {
    let event = workload::event()?;
    let mut frame = vec![1];
    frame.extend((events as u16).to_le_bytes());
    for _ in 0..events {
        frame.extend((event.name.len() as u16).to_le_bytes());
        frame.extend(event.schema.to_le_bytes());
        frame.extend((event.data.as_bytes().len() as u32).to_le_bytes());
        frame.extend(event.name.as_bytes());
        frame.extend(event.data.as_bytes());
    }
    Ok(frame)
}

/// Commits per second.
pub(crate) fn commits(
    path: &Path,
    clients: usize,
    group: usize,
    events: usize,
    span: Duration,
) -> Outcome<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let store = workload::open(path)?;
    let info = store.info();
    runtime.block_on(store.close());
    drop(store);
    let connection = Connection::open(path)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000;
         PRAGMA cache_size = -64000; PRAGMA temp_store = MEMORY;
         INSERT INTO container (id, name) VALUES (1, 'items');",
    )?;
    connection.set_prepared_statement_cache_capacity(1_024);
    let inserts: Vec<String> = (0..info.partitions)
        .map(|partition| {
            format!(
                "INSERT INTO log_{partition:04} (position, ordinal, count, at, container, partition_key, id, version,
                    op, previous, command, fingerprint, verdict, schema, body, events, checksum)
                 VALUES (?1, 0, 1, ?2, 1, ?3, '', ?4, 1, ?5, ?6, ?7, NULL, 1, ?8, ?9, ?10)"
            )
        })
        .collect();
    let mut items = Vec::new();
    for item in 0..ITEMS {
        for client in 0..clients {
            let text = format!("client-{client:04}-item-{item:04}");
            let partition = info.partition_of(&highwater_core::PartitionKey::new(&text)?).0;
            items.push((text, partition, 0_i64, 0_i64));
        }
    }
    let (body, fingerprint) = (workload::body()?, [7_u8; 16]);
    let frame = if events == 0 { None } else { Some(frame(events)?) };
    let mut ends = vec![0_i64; usize::from(info.partitions)];
    let (mut next, mut done) = (0, 0_u64);
    let started = Instant::now();
    while started.elapsed() < span {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let at = workload::SystemClock.now().as_micros();
        let mut touched = vec![false; usize::from(info.partitions)];
        for _ in 0..group {
            let count = items.len();
            let (text, partition, version, position) = &mut items[next % count];
            next += 1;
            let log = usize::from(*partition);
            ends[log] += 1;
            touched[log] = true;
            let previous = (*version > 0).then_some(*position);
            let command = Uuid::now_v7().into_bytes();
            connection
                .prepare_cached("INSERT INTO mark (command, partition, position) VALUES (?1, ?2, ?3)")?
                .execute((command, log as i64, ends[log]))?;
            connection.prepare_cached(&inserts[log])?.execute((
                ends[log],
                at,
                &*text,
                *version + 1,
                previous,
                command,
                fingerprint,
                body.as_bytes(),
                &frame,
                // Any number of eight bytes: the floor sums nothing.
                i64::MAX - at,
            ))?;
            let written = if *version == 0 {
                connection
                    .prepare_cached(
                        "INSERT INTO head (container, partition_key, id, version, live, position, body_position)
                         VALUES (1, ?1, '', 1, 1, ?2, ?2)",
                    )?
                    .execute((&*text, ends[log]))?
            } else {
                connection
                    .prepare_cached(
                        "UPDATE head SET version = ?3 + 1, live = 1, position = ?2, body_position = ?2
                         WHERE container = 1 AND partition_key = ?1 AND id = '' AND version = ?3",
                    )?
                    .execute((&*text, ends[log], *version))?
            };
            if written != 1 {
                return Err("the floor met a conflict".into());
            }
            (*version, *position) = (*version + 1, ends[log]);
            done += 1;
        }
        for (partition, _) in touched.iter().enumerate().filter(|(_, touched)| **touched) {
            connection
                .prepare_cached("UPDATE partition SET last = ?2 WHERE partition = ?1")?
                .execute([partition as i64, ends[partition]])?;
        }
        connection.prepare_cached("UPDATE moment SET last = ?1")?.execute([at])?;
        connection.prepare_cached("COMMIT")?.execute([])?;
    }
    Ok(done as f64 / started.elapsed().as_secs_f64())
}

/// Rows per second that a scan of all logs reads, every column touched.
pub(crate) fn scan(path: &Path, partitions: u16) -> Outcome<f64> {
    let connection = Connection::open(path)?;
    let (started, mut rows_read, mut bytes) = (Instant::now(), 0_u64, 0_usize);
    for partition in 0..partitions {
        let mut statement = connection.prepare(&format!(
            "SELECT position, ordinal, count, at, container, partition_key, id, version, op, previous, command,
                fingerprint, verdict, schema, body, events FROM log_{partition:04} ORDER BY position"
        ))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            for column in [5, 6, 14, 15] {
                bytes += row.get_ref(column)?.as_bytes_or_null()?.map_or(0, <[u8]>::len);
            }
            for column in [0, 1, 2, 3, 4, 7, 8] {
                bytes += usize::from(row.get_ref(column)?.as_i64()? > 0);
            }
            rows_read += 1;
        }
    }
    let rate = rows_read as f64 / started.elapsed().as_secs_f64();
    if bytes == 0 { Err("the scan read nothing".into()) } else { Ok(rate) }
}
