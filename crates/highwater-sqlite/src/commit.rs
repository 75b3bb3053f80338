//! A commit: conditions first, then the expiries of what it writes over, then a change for each write.

use crate::{
    append::{Entry, Head, Item, Place, append},
    engine::StoreEngine,
    log::{self, LogSql},
    operation::{Operation, Wakes},
};
use highwater_core::{
    Batch, CommandId, CommandMark, CommitError, Committed, Decided, ETag, Expect, Found, Partition,
    PartitionKey, StoreInfo, Token, Write, failpoint,
};
use rusqlite::{Connection, OptionalExtension};
use std::sync::Arc;

pub(crate) struct Commit {
    batch: Batch,
    partition: Partition,
    weight: usize,
}

impl Commit {
    /// A batch that was checked against the limits.
    pub(crate) fn new(batch: Batch, info: &StoreInfo) -> Self {
        let weight = batch.writes.iter().map(|write| write.size() + 256).sum::<usize>();
        let weight = weight + batch.command.as_ref().map_or(0, |mark| mark.size());
        Self { partition: info.partition_of(&batch.partition_key), batch, weight }
    }

    fn conflict(&self, write: &Write, found: Found) -> CommitError {
        let key = self.batch.key(write);
        match write.expect {
            Expect::Exists => CommitError::NotFound { key },
            expected => CommitError::Conflict { key, expected, found },
        }
    }
}

impl Operation<StoreEngine> for Commit {
    type Output = Committed;
    type Error = CommitError;

    fn kind(&self) -> &'static str {
        "commit"
    }

    fn wakes(&self) -> Wakes {
        Wakes::STORE
    }

    fn run(
        &mut self,
        connection: &Connection,
        engine: &mut StoreEngine,
    ) -> rusqlite::Result<Result<Committed, CommitError>> {
        let partition_key = self.batch.partition_key.as_str();
        let layout = Arc::clone(&engine.layout);
        let sql = layout.log(self.partition)?;
        if let Some(mark) = &self.batch.command
            && !failpoint::sabotaged("mark-not-compared")
            && let Some(decided) = decided(connection, sql, &layout.info, &self.batch.partition_key, mark.id)?
        {
            let same = decided.mark.fingerprint == mark.fingerprint;
            return Ok(if same {
                Ok(Committed::replayed(decided))
            } else {
                Err(CommitError::CommandIdReused { id: mark.id })
            });
        }
        let now = engine.now();
        let mut found = Vec::with_capacity(self.batch.writes.len());
        for write in &self.batch.writes {
            let container = engine.container(connection, &write.container)?;
            let head = match container {
                Some(container) => Head::read(connection, container, partition_key, write.id.as_str())?,
                None => None,
            };
            let state = Head::found(head, now.as_micros(), |version| engine.etag(version))?;
            if !state.fits(write.expect) && !failpoint::sabotaged("etag-not-compared") {
                return Ok(Err(self.conflict(write, state)));
            }
            found.push((container, head));
        }
        let mut end = engine.end(connection, self.partition.0)?;
        // Each expiry is a commit of its own right before this one, whose changes are then the writes and no others.
        for (write, (container, head)) in self.batch.writes.iter().zip(&mut found) {
            if let (Some(container), Some(expired)) =
                (*container, head.filter(|head| head.is_expired(now.as_micros())))
            {
                end += 1;
                let item =
                    Item { container, name: write.container.as_str(), partition_key, id: write.id.as_str() };
                let place = Place { ordinal: 0, count: 1, position: end, at: now };
                *head = Some(append(
                    connection,
                    sql,
                    &mut engine.known.memory,
                    item,
                    Some(expired),
                    &Entry::expiry(),
                    place,
                )?);
            }
        }
        let count = self.batch.writes.len();
        let (start, end) = place(connection, sql, end, count)?;
        let mut etags = Vec::with_capacity(count);
        for (ordinal, (write, (container, head))) in self.batch.writes.iter().zip(found).enumerate() {
            let container = match container {
                Some(container) => container,
                None => engine.container_or_new(connection, &write.container)?,
            };
            let mark = self.batch.command.as_ref().filter(|_| ordinal == 0);
            let item =
                Item { container, name: write.container.as_str(), partition_key, id: write.id.as_str() };
            let place = Place { ordinal, count, position: start + 1 + ordinal as i64, at: now };
            let head = append(
                connection,
                sql,
                &mut engine.known.memory,
                item,
                head,
                &Entry::new(write, mark)?,
                place,
            )?;
            engine.sweeps.note(head.expires_at);
            etags.push(engine.etag(head.version));
        }
        if self.batch.command.is_some() {
            engine.note_remembered();
        }
        engine.advance(self.partition.0, end);
        let last = log::position(start + count as i64)?;
        let token = layout.info.token(self.partition, last);
        let verdict = self.batch.command.as_ref().map(|mark| mark.verdict.clone());
        Ok(Ok(Committed::new(token, etags, verdict)))
    }

    fn resolve(
        &mut self,
        connection: &Connection,
        engine: &mut StoreEngine,
    ) -> rusqlite::Result<Option<Committed>> {
        let Some(mark) = &self.batch.command else { return Ok(None) };
        let layout = &engine.layout;
        let sql = layout.log(self.partition)?;
        let found = decided(connection, sql, &layout.info, &self.batch.partition_key, mark.id)?;
        let ours = found.filter(|decided| decided.mark.fingerprint == mark.fingerprint);
        Ok(ours.map(|decided| Committed::new(decided.token, decided.etags, Some(decided.mark.verdict))))
    }

    fn weight(&self) -> usize {
        self.weight
    }
}

/// The position before the first of a commit, and the log's last one afterwards, if it was `end` so far.
fn place(connection: &Connection, sql: &LogSql, end: i64, count: usize) -> rusqlite::Result<(i64, i64)> {
    let count = count as i64;
    if failpoint::sabotaged("late-arrival") && count <= 2 && end > 0 {
        // Room for two is left before every commit, and taken by the next.
        let mut at = connection.prepare_cached(&sql.at)?;
        let ordinal: i64 = at.query_row([end], |row| row.get(1))?;
        let room = end - ordinal - 3;
        let taken = room < 0 || at.exists([room + 1])? || at.exists([room + 2])?;
        return Ok(if taken { (end + 2, end + 2 + count) } else { (room, end) });
    }
    Ok((end, end + count))
}

/// How a command was decided.
pub(crate) fn decided(
    connection: &Connection,
    sql: &LogSql,
    info: &StoreInfo,
    key: &PartitionKey,
    command: CommandId,
) -> rusqlite::Result<Option<Decided>> {
    let row = connection
        .prepare_cached(&sql.by_command)?
        .query_row((command.0.into_bytes(), key.as_str()), |row| {
            let fingerprint = log::fingerprint(log::blob(row, 2)?)?;
            let mark = CommandMark::new(command, fingerprint, log::verdict(row.get(3)?));
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, mark))
        })
        .optional()?;
    let Some((first, count, mark)) = row else { return Ok(None) };
    let mut statement = connection.prepare_cached(&sql.versions)?;
    let etags = statement
        .query_map([first, count], |row| Ok(ETag { epoch: info.epoch, version: log::version(row.get(0)?)? }))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let token: Token = info.token(sql.partition, log::position(first + count - 1)?);
    Ok(Some(Decided::new(mark, log::position(first)?, token, etags)))
}
