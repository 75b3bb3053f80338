//! Pages of one partition's log.

use crate::{
    append::Head,
    fault::{damaged, unreadable},
    known::Known,
    layout::Layout,
    log::{self, LogSql, Memory},
    moment,
};
use highwater_core::{
    Change, ChangeOp, ChangePage, ChangeRequest, FeedError, FeedMode, Position, StoreInfo, Timestamp, Token,
};
use rusqlite::{Connection, OptionalExtension, Row};
use std::time::{Duration, Instant};

/// A page ends when it holds this many bytes of bodies and events, whatever was asked for.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The changes of a page share memory in pieces of this size.
const PIECE_BYTES: usize = 16 * 1024;

/// A page looks at most at this many rows, when few of them fit what was asked for.
const PAGE_ROWS: usize = 16_384;

/// A page ends when it has taken this long: an open read keeps the write-ahead log from being moved into the file
/// and begun anew. Rows are looked at in one go of this many; with them a page stays below 50 ms.
const PAGE_TIME: Duration = Duration::from_millis(40);
const ROWS_IN_ONE_GO: usize = 64;

pub(crate) fn changes(
    connection: &Connection,
    known: &mut Known,
    layout: &Layout,
    request: &ChangeRequest,
    clock: Timestamp,
) -> rusqlite::Result<Result<ChangePage, FeedError>> {
    let started = Instant::now();
    page(connection, known, layout, request, clock, || started.elapsed() >= PAGE_TIME)
}

/// A page that ends at the next commit once its time `is_over`.
fn page(
    connection: &Connection,
    known: &mut Known,
    layout: &Layout,
    request: &ChangeRequest,
    clock: Timestamp,
    is_over: impl Fn() -> bool,
) -> rusqlite::Result<Result<ChangePage, FeedError>> {
    let (partition, partitions) = (request.partition, layout.info.partitions);
    if partition.0 >= partitions {
        return Ok(Err(FeedError::NoPartition { asked: partition.0, partitions }));
    }
    let (last, pruned): (i64, i64) = connection
        .prepare_cached("SELECT last, pruned FROM partition WHERE partition = ?1")?
        .query_row([partition.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let after = log::number(request.after);
    if let Some(after) = request.after.filter(|_| after > last) {
        return Ok(Err(FeedError::Diverged { after, head: last.unsigned_abs() }));
    }
    if after < pruned {
        return Ok(Err(FeedError::Gone { first: log::position(pruned + 1)? }));
    }
    let mut containers = Vec::new();
    for name in &request.containers {
        containers.extend(Known::container_id(connection, name)?);
    }
    let all = request.containers.is_empty();
    let key = request.partition_key.as_ref().map(|key| key.as_str());

    let sql = layout.log(partition)?;
    let latest = match request.mode {
        FeedMode::AllVersions => None,
        FeedMode::Latest => Some(Latest { connection, sql, now: moment::seen(connection, clock)? }),
        _ => return Err(unreadable("a mode of the feed is unknown")),
    };
    let max = request.max.max(1);
    let mut changes = Vec::with_capacity(max.min(1_024));
    let (mut seen, mut scanned, mut late) = (0, after, false);
    let mut memory = Memory::new(PIECE_BYTES);
    let mut container = None;
    let mut statement = connection.prepare_cached(&sql.after)?;
    let mut rows = statement.query([after])?;
    let mut at_end = true;
    while let Some(row) = rows.next()? {
        let position = row.get(0)?;
        let counted = || Ok::<(u16, u16), rusqlite::Error>((row.get(1)?, row.get(2)?));
        let (ordinal, count) = counted().map_err(|error| damaged(partition, position, error.to_string()))?;
        // Only between two commits may a page end.
        late = late || (seen > 0 && seen % ROWS_IN_ONE_GO == 0 && is_over());
        let is_full = changes.len() >= max || memory.used() >= PAGE_BYTES || seen >= PAGE_ROWS;
        if ordinal == 0 && (is_full || late) {
            at_end = false;
            break;
        }
        seen += 1;
        let number: i64 = row.get(4)?;
        let fits =
            (all || containers.contains(&number)) && key.is_none_or(|key| log::text(row, 5) == Ok(key));
        let current = match &latest {
            Some(latest) if fits => latest.head(row)?,
            _ => None,
        };
        if fits && (latest.is_none() || current.is_some()) {
            let name = match container.take() {
                Some((last, name)) if last == number => name,
                _ => known.container(connection, number)?,
            };
            container = Some((number, name.clone()));
            let mut change = log::change(row, partition, name, known, &mut memory)?;
            match (&latest, current) {
                (Some(latest), Some(head)) => latest.complete(&mut change, head, known, &mut memory)?,
                _ if request.previous => {
                    change.previous = previous_body(connection, sql, row, known, &mut memory)?
                }
                _ => {}
            }
            changes.push(change);
        }
        if ordinal + 1 >= count {
            scanned = position;
        }
    }
    if at_end {
        scanned = scanned.max(last);
    }
    Ok(Ok(ChangePage::new(changes, Position::new(scanned.unsigned_abs()), at_end)))
}

/// What the latest mode looks at besides the log.
struct Latest<'a> {
    connection: &'a Connection,
    sql: &'a LogSql,
    now: i64,
}

impl Latest<'_> {
    /// The item of a row, if the row is its last change and the item is there.
    fn head(&self, row: &Row<'_>) -> rusqlite::Result<Option<Head>> {
        if !matches!(row.get(8)?, log::PUT | log::KEEP) {
            return Ok(None);
        }
        let (position, partition_key) = (row.get(0)?, log::text(row, 5)?);
        let id = match log::text(row, 6)? {
            "" => partition_key,
            id => id,
        };
        let head = Head::read(self.connection, row.get(4)?, partition_key, id)?;
        Ok(head.filter(|head| head.live && head.position == Some(position) && !head.is_expired(self.now)))
    }

    /// Gives a change that kept the document the one it kept.
    fn complete(
        &self,
        change: &mut Change,
        head: Head,
        known: &mut Known,
        memory: &mut Memory,
    ) -> rusqlite::Result<()> {
        if change.op == ChangeOp::Keep
            && let Some(position) = head.body_position
        {
            let body = self.sql.body_as_of(self.connection, known, position, memory)?;
            change.op = body.map_or(ChangeOp::Keep, ChangeOp::Put);
        }
        Ok(())
    }
}

/// The body that the item of a row had before.
fn previous_body(
    connection: &Connection,
    sql: &LogSql,
    row: &Row<'_>,
    known: &mut Known,
    memory: &mut Memory,
) -> rusqlite::Result<Option<highwater_core::Body>> {
    match row.get(17)? {
        Some(previous) => sql.body_as_of(connection, known, previous, memory),
        None => Ok(None),
    }
}

/// The last position committed before a moment, found by halving: times rise with positions.
pub(crate) fn position_before(
    connection: &Connection,
    sql: &LogSql,
    at: Timestamp,
) -> rusqlite::Result<Option<Position>> {
    let last: i64 = connection
        .prepare_cached("SELECT last FROM partition WHERE partition = ?1")?
        .query_row([sql.partition.0], |row| row.get(0))?;
    let mut statement = connection.prepare_cached(&sql.moment)?;
    // Every change at or below `low` was committed before `at`; none at or above `high` was.
    let (mut low, mut high) = (0, last + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        let found: Option<(i64, i64)> =
            statement.query_row([middle], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        match found {
            Some((position, moment)) if moment < at.as_micros() => low = position,
            _ => high = middle,
        }
    }
    Ok(Position::new(low.unsigned_abs()))
}

/// The end of every log.
pub(crate) fn head(connection: &Connection, info: &StoreInfo) -> rusqlite::Result<Token> {
    let mut token = Token::default();
    let mut statement = connection
        .prepare_cached("SELECT partition, last FROM partition WHERE last > 0 ORDER BY partition")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let partition = highwater_core::Partition(row.get(0)?);
        token.raise(info.id, info.epoch, partition, log::position(row.get(1)?)?);
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checksum::Fixed, schema::create_log};
    use highwater_core::Partition;

    #[test]
    fn a_page_whose_time_is_over_ends_between_two_commits_and_says_how_far_it_looked() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("../migrations/store-1.sql")).unwrap();
        let meta = "INSERT INTO meta (one, store, epoch, partitions, created_at, cell_floor) VALUES (1, ?1, 1, 1, 0, 0)";
        connection.execute(meta, [[7_u8; 16]]).unwrap();
        create_log(&connection, 0).unwrap();
        connection
            .execute_batch("INSERT INTO container (name) VALUES ('days'); UPDATE partition SET last = 300")
            .unwrap();
        let row = "INSERT INTO log_0000
            (position, ordinal, count, at, container, partition_key, id, version, op, checksum)
            VALUES (?1, ?2, 3, 0, 1, 'k', 'i', ?1, 0, ?3)";
        for position in 1..=300_i64 {
            let ordinal = (position - 1) % 3;
            let fixed = Fixed {
                position,
                ordinal,
                count: 3,
                container: "days",
                partition_key: "k",
                id: "i",
                version: position,
                ..Fixed::default()
            };
            connection.execute(row, [position, ordinal, fixed.checksum(&mut Vec::new())]).unwrap();
        }
        let layout = Layout::read(&connection).unwrap();
        let (mut known, mut after, mut seen) = (Known::default(), None, Vec::new());
        loop {
            let request = ChangeRequest::new(Partition(0), after, 1_000);
            let page = page(&connection, &mut known, &layout, &request, Timestamp::from_micros(0), || true)
                .unwrap()
                .unwrap();
            seen.push(page.changes.len());
            assert_eq!(page.scanned, page.changes.last().map(|change| change.position), "{seen:?}");
            after = page.scanned;
            if page.at_end {
                break;
            }
        }
        // The commit that holds row 64 is finished first.
        assert_eq!(seen, [66, 66, 66, 66, 36]);
    }
}
