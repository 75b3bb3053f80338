//! What is fixed in a store: who it is, and the statements of its logs. Made once, shared by all threads.

use crate::{fault::unreadable, log::LogSql};
use highwater_core::{Epoch, Partition, PartitionKey, StoreId, StoreInfo};
use rusqlite::Connection;
use uuid::Uuid;

pub(crate) struct Layout {
    pub(crate) info: StoreInfo,
    logs: Vec<LogSql>,
}

impl Layout {
    pub(crate) fn new(info: StoreInfo) -> Self {
        Self { info, logs: (0..info.partitions).map(LogSql::new).collect() }
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
        Ok(StoreInfo::new(id, row.get(2)?, Epoch(row.get(1)?)))
    })
}
