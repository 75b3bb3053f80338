//! What is fixed in a store: who it is, and the statements of its logs. Made once, shared by all threads.

use crate::{
    fault::{uint, unreadable},
    log::LogSql,
};
use highwater_core::{Epoch, Lineage, Partition, PartitionKey, Position, StoreId, StoreInfo};
use rusqlite::Connection;
use std::collections::BTreeMap;
use uuid::Uuid;

pub(crate) struct Layout {
    pub(crate) info: StoreInfo,
    pub(crate) lineage: Lineage,
    logs: Vec<LogSql>,
}

impl Layout {
    pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let info = read_info(connection)?;
        let lineage = read_lineage(connection, info.epoch)?;
        Ok(Self { info, lineage, logs: (0..info.partitions).map(LogSql::new).collect() })
    }

    /// The statements of one partition's log.
    pub(crate) fn log(&self, partition: Partition) -> rusqlite::Result<&LogSql> {
        self.logs.get(usize::from(partition.0)).ok_or_else(|| unreadable("a partition is not there"))
    }

    /// The statements of the log that holds a key.
    pub(crate) fn log_of(&self, key: &PartitionKey) -> rusqlite::Result<&LogSql> {
        self.log(self.info.partition_of(key))
    }
}

/// Who the store says it is.
pub(crate) fn read_info(connection: &Connection) -> rusqlite::Result<StoreInfo> {
    connection.query_row("SELECT store, epoch, partitions FROM meta", [], |row| {
        let id = StoreId(Uuid::from_bytes(row.get(0)?));
        Ok(StoreInfo::new(id, row.get(2)?, Epoch(uint(row.get(1)?)?)))
    })
}

/// The lives that the store goes on from.
pub(crate) fn read_lineage(connection: &Connection, epoch: Epoch) -> rusqlite::Result<Lineage> {
    let mut lives: BTreeMap<Epoch, BTreeMap<Partition, Position>> = BTreeMap::new();
    let mut statement = connection.prepare("SELECT epoch, partition, shared FROM lineage")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let life = lives.entry(Epoch(uint(row.get(0)?)?)).or_default();
        let partition = Partition(row.get(1)?);
        life.extend(Position::new(uint(row.get(2)?)?).map(|shared| (partition, shared)));
    }
    let lineage = Lineage::first(epoch);
    Ok(lives.into_iter().fold(lineage, |lineage, (epoch, shared)| lineage.sharing(epoch, shared)))
}
