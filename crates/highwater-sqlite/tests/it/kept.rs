//! Files of every released schema, kept in `tests/stores`: this program opens each, reads what is in it and writes on.
//! What is in a store stands beside it, as a text.
//!
//! `KEEP_STORE=1 cargo test -p highwater-sqlite --test it kept` writes those of the present schema anew. Those of an
//! earlier one are never written again.

use crate::support::{HandClock, event, json, key, name, options};
use highwater_core::{
    Batch, Body, CellKey, CellWrite, Cells, ChangeOp, ChangeRequest, CommandId, CommandMark, DocumentWrite,
    Epoch, Expect, Fingerprint, ItemKey, MessageId, NewMessage, Parking, Partition, Position, Queue, Store,
    StoreId, Update, Verdict, ViewBatch, ViewName, ViewSlot, ViewStore, Write,
};
use highwater_sqlite::{Sqlite, SqliteViews};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

const HOUR: Duration = Duration::from_secs(3_600);
const BEGAN: i64 = 1_800_000_000_000_000;
const AGAIN: &str = "KEEP_STORE=1 cargo test -p highwater-sqlite --test it kept";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores")
}

/// The kept files of a kind, by schema.
fn kept(kind: &str) -> BTreeMap<u32, PathBuf> {
    let schema =
        |path: &Path| path.file_stem()?.to_str()?.strip_prefix(kind)?.strip_prefix('-')?.parse().ok();
    let entries = fs::read_dir(folder()).into_iter().flatten();
    let paths = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "db"));
    paths.filter_map(|path| Some((schema(&path)?, path))).collect()
}

/// The schema of a file, and all of its tables and indexes.
fn schema(path: &Path) -> (u32, Vec<String>) {
    let raw = rusqlite::Connection::open(path).unwrap();
    let number = raw.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    let mut all = raw.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").unwrap();
    let all = all.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    (number, all)
}

/// Puts a fresh file among the kept ones if that is asked for, and makes sure that its schema is among them.
fn keep(kind: &str, fresh: &Path, content: &str) {
    let (number, tables) = schema(fresh);
    let place = folder().join(format!("{kind}-{number}.db"));
    if std::env::var_os("KEEP_STORE").is_some_and(|value| value == "1") {
        fs::create_dir_all(folder()).unwrap();
        fs::copy(fresh, &place).unwrap();
        if !content.is_empty() {
            fs::write(place.with_extension("txt"), content).unwrap();
        }
    }
    assert!(place.exists(), "no {kind} of schema {number} is kept. Write it and commit it: {AGAIN}");
    let copy = tempfile::tempdir().unwrap();
    let copied = copy.path().join("kept.db");
    fs::copy(&place, &copied).unwrap();
    let same = schema(&copied).1 == tables;
    let place = place.display();
    assert!(
        same,
        "{place} is not what schema {number} makes. If that schema was released, add a step to the schema instead of \
         changing it; if not, write the file again and commit it: {AGAIN}"
    );
}

fn id(number: u128) -> uuid::Uuid {
    uuid::Uuid::from_u128(number)
}

fn command(number: u128, verdict: Verdict) -> CommandMark {
    CommandMark::new(CommandId(id(number)), Fingerprint::of(&[b"kept"]), verdict)
}

fn one(key: ItemKey, write: impl FnOnce(Write) -> Write) -> Batch {
    Batch::new(key.partition_key, vec![write(Write::keep(key.container, key.id))])
}

fn put(body: &str) -> impl FnOnce(Write) -> Write {
    let op = highwater_core::Op::Put(Body { schema: 3, json: json(body) });
    move |keep| Write::new(keep.container, keep.id, op)
}

async fn write_items(store: &Sqlite) {
    let rejected = Verdict::Rejected { reason: "sold out".into() };
    let batches = [
        one(key("a"), |keep| put(r#"{"seats":1}"#)(keep).events(vec![event("Reserved")]))
            .command(command(1, Verdict::Accepted)),
        one(key("a"), |keep| keep.events(vec![event("Moved"), event("Shaken")])),
        one(key("a"), |keep| keep).command(command(2, rejected)),
        one(key("gone"), put("1")),
        one(key("gone"), |keep| Write::delete(keep.container, keep.id)),
        one(key("short"), |keep| put("2")(keep).time_to_live(HOUR)),
        one(key("told"), |keep| keep.events(vec![event("Began")])),
    ];
    for batch in batches {
        store.commit(batch).await.unwrap();
    }
}

async fn write_work(store: &Sqlite) {
    let (work, cells) = (name("work"), name("cells"));
    let message = |number, body: &'static str| NewMessage::new(body).id(MessageId(id(number)));
    store.put(&work, message(11, "parked")).await.unwrap();
    let taken = store.get(&work, 1, HOUR).await.unwrap().remove(0);
    store.park(&taken.receipt, Parking::new("cannot be decoded", "at byte 7", "a worker")).await.unwrap();
    store.put(&work, message(12, "tried")).await.unwrap();
    let taken = store.get(&work, 1, HOUR).await.unwrap().remove(0);
    let update = Update::visible_in(Duration::ZERO).note(highwater_core::AttemptKind::Failed, "no answer");
    store.update(&taken.receipt, update).await.unwrap();
    let with_cell = CellKey::new(cells.clone(), "with a message");
    store.put(&work, message(13, "with a cell").cell(with_cell, json("[13]"))).await.unwrap();
    store.put(&work, message(14, "later").delay(HOUR)).await.unwrap();
    store.put(&work, message(15, "short").time_to_live(2 * HOUR)).await.unwrap();
    for (cell, value) in [("gone", "1"), ("stays", "2"), ("stays", "3")] {
        let cell = CellKey::new(cells.clone(), cell);
        store.write(CellWrite::new(cell, Expect::Any, json(value))).await.unwrap();
    }
    Cells::delete(store, &CellKey::new(cells.clone(), "gone"), Expect::Any).await.unwrap();
    let short = CellWrite::new(CellKey::new(cells, "short"), Expect::Any, json("4"));
    store.write(short.time_to_live(HOUR)).await.unwrap();
}

/// What is read from a store, one line each.
async fn content(store: &Sqlite) -> String {
    let mut lines = Vec::new();
    for which in ["a", "gone", "short", "told"] {
        let Some(item) = store.item(&key(which)).await.unwrap() else { continue };
        let body =
            item.body.map(|(version, body)| format!("{}:{}:{}", version.get(), body.schema, body.json));
        let (later, expires) = (item.later.len(), item.expires_at.map(|at| at.as_micros() - BEGAN));
        let (etag, exists) = (item.etag, item.exists);
        lines.push(format!("item {which} {etag} {exists} {body:?} {later} {expires:?}"));
    }
    for partition in Partition::all(store.info().partitions) {
        let request = ChangeRequest::new(partition, None, 99);
        for change in store.changes(&request).await.unwrap().changes {
            let events: Vec<_> = change.events.iter().map(|event| &*event.name).collect();
            let command = change.command.map(|mark| (mark.id.0.as_u128(), mark.verdict));
            let (op, at) = (change.op, change.at.as_micros() - BEGAN);
            let op = if let ChangeOp::Put(body) = op { body.json.to_string() } else { format!("{op:?}") };
            let place = (partition.0, change.position.get(), change.version.get());
            lines.push(format!("change {place:?} {at} {} {op} {events:?} {command:?}", change.key.id));
        }
    }
    let decided = store.decided(&key("a").partition_key, CommandId(id(2))).await.unwrap().unwrap();
    lines.push(format!("decided {:?} {:?}", decided.mark.verdict, decided.position));
    for number in 11..=15 {
        let read = store.message(&name("work"), MessageId(id(number))).await.unwrap();
        let parked = store.parked_message(&name("work"), MessageId(id(number))).await.unwrap();
        for message in read.iter().chain(parked.iter().map(|parked| &parked.message)) {
            let (body, visible) =
                (String::from_utf8_lossy(&message.body), message.visible_at.as_micros() - BEGAN);
            let history: Vec<_> =
                message.history.iter().map(|attempt| (attempt.kind, &attempt.note)).collect();
            lines.push(format!("message {number} {body} {visible} {} {history:?}", message.dequeue_count));
        }
        lines.extend(parked.map(|parked| format!("parked {:?}", parked.parking)));
    }
    for cell in store.list(&name("cells"), None, 99).await.unwrap() {
        let expires = cell.expires_at.map(|at| at.as_micros() - BEGAN);
        lines.push(format!("cell {:?} {} {} {expires:?}", cell.key.key, cell.etag, cell.value));
    }
    lines.join("\n") + "\n"
}

fn open(path: &Path) -> Arc<Sqlite> {
    Sqlite::open(path, options().partitions(2), HandClock::at(BEGAN)).unwrap()
}

#[tokio::test]
async fn a_store_of_every_schema_is_opened_read_and_written_on() {
    let temporary = tempfile::tempdir().unwrap();
    let fresh = temporary.path().join("fresh.db");
    let store = open(&fresh);
    write_items(&store).await;
    write_work(&store).await;
    let written = content(&store).await;
    store.close().await;
    keep("store", &fresh, &written);
    for (schema, path) in kept("store") {
        let copy = temporary.path().join(format!("{schema}.db"));
        let known = fs::read_to_string(path.with_extension("txt")).unwrap();
        fs::copy(path, &copy).unwrap();
        let store = open(&copy);
        assert_eq!(content(&store).await, known, "schema {schema}");
        go_on(&store).await;
        store.close().await;
        let store = open(&copy);
        assert_eq!(store.item(&key("a")).await.unwrap().unwrap().etag.version.get(), 4, "schema {schema}");
        assert!(store.message(&name("work"), MessageId(id(12))).await.unwrap().is_none(), "schema {schema}");
        store.close().await;
    }
}

/// Work on a kept store: commit on what is there, repeat a command, take and delete a message, replay a parked one.
async fn go_on(store: &Sqlite) {
    let etag = store.item(&key("a")).await.unwrap().unwrap().etag;
    let batch = one(key("a"), |keep| put(r#"{"seats":2}"#)(keep).expect(Expect::ETag(etag)));
    store.commit(batch).await.unwrap();
    let again = one(key("a"), |keep| keep).command(command(1, Verdict::Accepted));
    assert!(store.commit(again).await.unwrap().replayed);
    let again = NewMessage::new("with a cell").id(MessageId(id(13)));
    assert!(store.put(&name("work"), again).await.unwrap().receipt.is_none());
    let taken = store.get(&name("work"), 9, HOUR).await.unwrap();
    assert_eq!(taken.len(), 3);
    for delivery in taken {
        Queue::delete(store, &delivery.receipt).await.unwrap();
    }
    store.replay(&name("work"), MessageId(id(11))).await.unwrap();
    assert_eq!(store.get(&name("work"), 9, HOUR).await.unwrap().len(), 1);
    let cell = Cells::read(store, &CellKey::new(name("cells"), "stays")).await.unwrap().unwrap();
    store.write(CellWrite::new(cell.key, Expect::ETag(cell.etag), json("5"))).await.unwrap();
}

fn slot() -> ViewSlot {
    let view = ViewName { name: name("months"), generation: 2 };
    ViewSlot { view, store: StoreId(id(7)), partition: Partition(1) }
}

async fn write_views(views: &SqliteViews) {
    let claim = views.claim(&slot(), Epoch(1)).await.unwrap();
    let marks = |position| BTreeMap::from([("days/a/a".to_owned(), position)]);
    let document = DocumentWrite::new("2026-12", 0, Some(Body { schema: 3, json: json("[24]") }), marks(5));
    let tombstone = DocumentWrite::new("2027-01", 0, None, marks(4));
    let batch = ViewBatch::new(slot(), claim, Position::new(5).unwrap(), vec![document, tombstone]);
    views.write(batch).await.unwrap();
}

#[tokio::test]
async fn views_of_every_schema_are_opened_read_and_written_on() {
    let temporary = tempfile::tempdir().unwrap();
    let fresh = temporary.path().join("fresh.views.db");
    let views = SqliteViews::open(&fresh, options()).unwrap();
    write_views(&views).await;
    views.close().await;
    keep("views", &fresh, "");
    for (schema, path) in kept("views") {
        let copy = temporary.path().join(format!("{schema}.views.db"));
        fs::copy(path, &copy).unwrap();
        let views = SqliteViews::open(&copy, options()).unwrap();
        let slot = slot();
        let (document, reached) = views.document(&slot.view, slot.store, "2026-12").await.unwrap();
        let document = document.unwrap();
        let body = document.body.unwrap();
        assert_eq!(
            (document.version, body.schema, &*body.json.to_string()),
            (1, 3, "[24]"),
            "schema {schema}"
        );
        assert_eq!(document.marks, BTreeMap::from([("days/a/a".to_owned(), 5)]), "schema {schema}");
        assert_eq!(reached.unwrap().positions[&slot.partition].get(), 5, "schema {schema}");
        let keys = ["2026-12".into(), "2027-01".into(), "2027-02".into()];
        let documents = views.documents(&slot.view, &keys).await.unwrap();
        let bodies: Vec<_> = documents.iter().map(|one| one.as_ref().map(|one| one.body.is_some())).collect();
        assert_eq!(bodies, [Some(true), Some(false), None], "schema {schema}");
        let claim = views.claim(&slot, Epoch(1)).await.unwrap();
        assert_eq!((claim.owner_epoch, claim.position), (2, Position::new(5)), "schema {schema}");
        let write = DocumentWrite::new("2026-12", 1, Some(Body::new(json("[25]"))), document.marks);
        let batch = ViewBatch::new(slot, claim, Position::new(6).unwrap(), vec![write]);
        views.write(batch).await.unwrap();
        views.close().await;
    }
}
