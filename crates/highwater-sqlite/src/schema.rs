//! What a file must look like, and how a new or older one gets there.

use crate::{
    OpenError,
    location::{Location, PATIENCE},
};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use std::{
    thread,
    time::{Duration, Instant},
};

/// One kind of file: how it is told apart and the steps that lead to its latest schema.
pub(crate) struct Schema {
    /// What messages call it.
    pub(crate) what: &'static str,
    /// SQLite's `application_id`.
    pub(crate) application: i32,
    /// Step n leads from schema n to schema n + 1. A released step never changes.
    pub(crate) steps: &'static [&'static str],
}

/// A store: `HwSt`.
pub(crate) const STORE: Schema =
    Schema { what: "store", application: 0x4877_5374, steps: &[include_str!("../migrations/store-1.sql")] };

/// A backup of a store, which nobody may open as one: `HwBk`. Its schema is that of the store.
pub(crate) const BACKUP: Schema = Schema { what: "backup", application: 0x4877_426b, steps: STORE.steps };

/// A view store: `HwVw`.
pub(crate) const VIEWS: Schema = Schema {
    what: "view store",
    application: 0x4877_5677,
    steps: &[include_str!("../migrations/views-1.sql")],
};

impl Schema {
    /// Opens the database for writing, brings it to the latest schema and returns the connection. `create` fills
    /// a new one, in the same transaction.
    pub(crate) fn open(
        &self,
        location: &Location,
        create: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<Connection, OpenError> {
        location.survey()?;
        let failed = |error: rusqlite::Error| OpenError::from_sqlite(location.shown(), &error);
        let mut connection = location.writer().map_err(failed)?;
        // Before anything is written: a file of somebody else is left exactly as it is.
        self.recognise(location, &connection)?;
        let mode = prepare(location, &connection).map_err(failed)?;
        if mode != "wal" {
            let path = location.shown().display().to_string();
            return Err(OpenError::NoWriteAheadLog { path, found: format!("journal mode {mode}") });
        }
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let done = self.recognise(location, &transaction)?;
        for step in self.steps.iter().skip(done) {
            transaction.execute_batch(step).map_err(failed)?;
        }
        if done == 0 {
            create(&transaction).map_err(failed)?;
        }
        if done < self.steps.len() {
            let latest = i64::try_from(self.steps.len()).unwrap_or(i64::MAX);
            transaction.pragma_update(None, "application_id", self.application).map_err(failed)?;
            transaction.pragma_update(None, "user_version", latest).map_err(failed)?;
        }
        transaction.commit().map_err(failed)?;
        // From here on the writer does its own waiting.
        connection.busy_timeout(Duration::ZERO).map_err(failed)?;
        Ok(connection)
    }

    /// Refuses a database that is not one of this kind and of the latest schema.
    pub(crate) fn require(&self, location: &Location, connection: &Connection) -> Result<(), OpenError> {
        let path = || location.shown().display().to_string();
        match self.recognise(location, connection)? {
            found if found == self.steps.len() => Ok(()),
            0 => Err(OpenError::Foreign { path: path(), expected: self.what, found: "it is empty" }),
            _ => Err(OpenError::other(
                location.shown(),
                "its schema is old; open it once with this program's engine",
            )),
        }
    }

    /// Whether a database is one of this kind and schema.
    pub(crate) fn is(&self, connection: &Connection) -> bool {
        let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        let latest = i64::try_from(self.steps.len()).unwrap_or(i64::MAX);
        number("PRAGMA application_id") == Ok(i64::from(self.application))
            && number("PRAGMA user_version") == Ok(latest)
    }

    /// The schema of the file: 0 for an empty one.
    fn recognise(&self, location: &Location, connection: &Connection) -> Result<usize, OpenError> {
        let failed = |error: rusqlite::Error| OpenError::from_sqlite(location.shown(), &error);
        let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(failed);
        let path = || location.shown().display().to_string();
        let (application, schema) = (number("PRAGMA application_id")?, number("PRAGMA user_version")?);
        let objects = number("SELECT count(*) FROM sqlite_schema")?;
        let foreign = |found| Err(OpenError::Foreign { path: path(), expected: self.what, found });
        if application == 0 && schema == 0 && objects == 0 {
            return Ok(0);
        }
        if application != i64::from(self.application) {
            return foreign(match application {
                id if id == i64::from(STORE.application) => "it is a Highwater store",
                id if id == i64::from(VIEWS.application) => "it is a Highwater view store",
                id if id == i64::from(BACKUP.application) => {
                    "it is a backup, to be put back with `highwater restore`"
                }
                _ => "it is another application's SQLite database",
            });
        }
        let found = u32::try_from(schema).unwrap_or(0);
        let known = u32::try_from(self.steps.len()).unwrap_or(u32::MAX);
        if found > known {
            return Err(OpenError::Newer { path: path(), found, known });
        }
        Ok(found as usize)
    }
}

/// Of several processes that open a new file at once only one can switch the journal mode, and SQLite's own
/// waiting does not cover that.
fn prepare(location: &Location, connection: &Connection) -> rusqlite::Result<String> {
    let started = Instant::now();
    loop {
        match location.prepare_writer(connection) {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && started.elapsed() < PATIENCE =>
            {
                thread::sleep(Duration::from_millis(fastrand::u64(2..20)));
            }
            outcome => return outcome,
        }
    }
}

/// The table of one partition's log. `previous` is where the item's previous change with a body, events or a
/// deletion stands. The id is empty where it is the same as the partition key. The command stands in the first row of
/// its commit; `verdict` is null for "accepted". `expires_at` is when the item expires as of this change; in an expiry,
/// when its time was over. `checksum` is what `checksum.rs` makes of the columns that never change.
pub(crate) fn create_log(connection: &Connection, partition: u16) -> rusqlite::Result<()> {
    let log = log_table(partition);
    connection.execute_batch(&format!(
        "CREATE TABLE {log} (
            position      INTEGER PRIMARY KEY,
            ordinal       INTEGER NOT NULL,
            count         INTEGER NOT NULL,
            at            INTEGER NOT NULL,
            container     INTEGER NOT NULL,
            partition_key TEXT    NOT NULL,
            id            TEXT    NOT NULL,
            version       INTEGER NOT NULL,
            op            INTEGER NOT NULL,
            previous      INTEGER,
            command       BLOB,
            fingerprint   BLOB,
            verdict       TEXT,
            schema        INTEGER,
            body          BLOB,
            events        BLOB,
            checksum      INTEGER NOT NULL,
            expires_at    INTEGER
        );
        INSERT INTO partition (partition, last) VALUES ({partition}, 0);"
    ))
}

/// SQLite takes at most this many terms in a compound select (`SQLITE_MAX_COMPOUND_SELECT` is 500), and a view
/// over more tables than this helps nobody.
const VIEWED: u16 = 64;

/// A view over all logs, for people with a SQLite client.
pub(crate) fn create_log_view(connection: &Connection, partitions: u16) -> rusqlite::Result<()> {
    if partitions > VIEWED {
        return Ok(());
    }
    let one = |partition: u16| {
        format!(
            "SELECT {partition} AS partition, position, ordinal, count, at, name AS container, partition_key,
                iif(log.id = '', partition_key, log.id) AS id, version,
                CASE op WHEN 1 THEN 'put' WHEN 2 THEN 'delete' WHEN 3 THEN 'expire' ELSE 'keep' END AS op,
                hex(command) AS command, verdict, schema, CAST(body AS TEXT) AS body, expires_at
             FROM {} AS log LEFT JOIN container ON container.id = log.container",
            log_table(partition)
        )
    };
    let all: Vec<String> = (0..partitions).map(one).collect();
    connection.execute_batch(&format!("CREATE VIEW log AS {}", all.join(" UNION ALL ")))
}

pub(crate) fn log_table(partition: u16) -> String {
    format!("log_{partition:04}")
}
