//! Somebody who looks at the files all the time, with SQL of his own: what may only rise must never be seen to
//! fall, and a reader of the feed must never have been passed by.

use highwater::{Change, Engine, Token};
use rusqlite::{Connection, OpenFlags};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(4);

/// What was seen so far.
#[derive(Default)]
struct Seen {
    /// What may only rise: its name, its last value and the invariant that says so.
    rising: BTreeMap<String, i64>,
    faults: Vec<String>,
    /// The changes that a reader of the feed was given, by partition, in the order in which it got them.
    read: BTreeMap<u16, Vec<Change>>,
}

impl Seen {
    fn rises(&mut self, invariant: &str, name: String, value: i64) {
        let last = self.rising.entry(name.clone()).or_insert(value);
        if value < *last {
            self.faults.push(format!("{invariant}: {name} fell from {last} to {value}"));
        }
        *last = value.max(*last);
    }
}

pub(super) struct Witness {
    seen: Arc<Mutex<Seen>>,
    over: Arc<AtomicBool>,
    looks: Option<std::thread::JoinHandle<()>>,
}

/// A connection that only looks.
pub(super) fn look_at(file: &Path) -> Connection {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    connection.busy_timeout(Duration::from_secs(20)).unwrap();
    connection
}

impl Witness {
    /// Begins to look at the files of a house, and to read its feed.
    pub(super) fn begin(data: &Path, engine: &Engine, runtime: &tokio::runtime::Handle) -> Self {
        let (seen, over) = (Arc::new(Mutex::new(Seen::default())), Arc::new(AtomicBool::new(false)));
        let (store, views) = (look_at(&data.join("booking.db")), look_at(&data.join("booking.views.db")));
        let looks = std::thread::spawn({
            let (seen, over) = (seen.clone(), over.clone());
            move || {
                while !over.load(Relaxed) {
                    look_at_store(&store, &seen);
                    look_at_views(&views, &seen);
                    std::thread::sleep(LOOK);
                }
            }
        });
        let (engine, reader, ended) = (engine.clone(), seen.clone(), over.clone());
        runtime.spawn(async move {
            let mut feed = engine.feed(&[]).unwrap();
            while !ended.load(Relaxed) {
                // A page that cannot be read is read again: the place in the feed has not moved.
                for change in feed.page(100).await.map(|page| page.changes).unwrap_or_default() {
                    reader.lock().unwrap().read.entry(change.partition.0).or_default().push(change);
                }
                tokio::time::sleep(LOOK).await;
            }
        });
        Self { seen, over, looks: Some(looks) }
    }

    /// What was wrong with what it saw, given what the log says at the end.
    pub(super) fn faults(&self, log: &[Change]) -> Vec<String> {
        let mut at_end: BTreeMap<u16, Vec<&Change>> = BTreeMap::new();
        for change in log {
            at_end.entry(change.partition.0).or_default().push(change);
        }
        let seen = self.seen.lock().unwrap();
        let mut faults = seen.faults.clone();
        for (partition, changes) in &at_end {
            let read = seen.read.get(partition).map_or(&[][..], Vec::as_slice);
            if let Some((index, change)) =
                changes.iter().enumerate().find(|(index, change)| read.get(*index) != Some(**change))
            {
                let got = read.get(index).map(|change| change.position);
                // Not there yet is no fault: it is read a moment later.
                if got.is_some() {
                    faults.push(format!(
                        "2, no late arrivals: partition {partition} has {} at {}, where a reader was given {got:?}",
                        change.key, change.position
                    ));
                }
            }
        }
        faults.extend(order(&at_end));
        faults
    }

    /// Whether the reader has been given as many changes as the log holds.
    pub(super) fn has_read(&self, log: &[Change]) -> bool {
        self.seen.lock().unwrap().read.values().map(Vec::len).sum::<usize>() >= log.len()
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        if let Some(looks) = self.looks.take() {
            let _ = looks.join();
        }
    }
}

/// Within a partition positions rise, and time does not run backwards.
fn order(log: &BTreeMap<u16, Vec<&Change>>) -> Vec<String> {
    let mut faults = Vec::new();
    for (partition, changes) in log {
        for pair in changes.windows(2) {
            let (one, next) = (pair[0], pair[1]);
            if next.position <= one.position {
                faults.push(format!("2, in order: partition {partition} has {} twice", next.position));
            }
            if next.at < one.at {
                faults.push(format!(
                    "11, the store's time never runs backwards: {} of partition {partition} is earlier than {}",
                    next.position, one.position
                ));
            }
        }
    }
    faults
}

fn look_at_store(store: &Connection, seen: &Mutex<Seen>) {
    let fenced = "6, fenced ownership";
    let mut leases = store.prepare_cached("SELECT key, value FROM cell WHERE space = 'leases'").unwrap();
    let leases = leases
        .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?)))
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .unwrap();
    let number = |sql: &str| store.prepare_cached(sql).unwrap().query_row([], |row| row.get(0)).unwrap();
    let moment: i64 = number("SELECT last FROM moment");
    let given: i64 = number("SELECT sum(last) FROM partition");
    let mut seen = seen.lock().unwrap();
    for (key, value) in leases {
        let lease: serde_json::Value = serde_json::from_slice(&value).unwrap();
        seen.rises(fenced, format!("the owner epoch of lease {key}"), lease["owner_epoch"].as_i64().unwrap());
        let checkpoint = lease["checkpoint"].as_i64().unwrap_or(0);
        seen.rises(fenced, format!("the checkpoint of lease {key}"), checkpoint);
    }
    seen.rises("11, the store's time never runs backwards", "the store's time".into(), moment);
    seen.rises("2, positions are never given again", "the positions given".into(), given);
}

fn look_at_views(views: &Connection, seen: &Mutex<Seen>) {
    let mut slots = views
        .prepare_cached(
            "SELECT name || '/' || partition, owner_epoch, coalesce(position, 0)
             FROM slot JOIN view ON view.id = slot.view",
        )
        .unwrap();
    let slots = slots
        .query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)))
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .unwrap();
    let mut seen = seen.lock().unwrap();
    for (name, epoch, position) in slots {
        seen.rises("6, fenced ownership", format!("the owner epoch of view {name}"), epoch);
        seen.rises("6, fenced ownership", format!("the position of view {name}"), position);
    }
}

/// Whether a view has come to a token, by its rows.
pub(super) fn has_come_to(views: &Connection, view: &str, token: &Token) -> bool {
    let mut slots = views
        .prepare_cached(
            "SELECT partition, coalesce(position, 0) FROM slot JOIN view ON view.id = slot.view WHERE name = ?1",
        )
        .unwrap();
    let reached = slots
        .query_map([view], |row| Ok((row.get::<_, u16>(0)?, row.get::<_, i64>(1)?)))
        .and_then(Iterator::collect::<Result<BTreeMap<_, _>, _>>)
        .unwrap();
    token.stores().flat_map(|(_, wanted)| &wanted.positions).all(|(partition, position)| {
        reached.get(&partition.0).is_some_and(|reached| reached.unsigned_abs() >= position.get())
    })
}
