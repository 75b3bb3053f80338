//! What was acknowledged survives a power cut: a program that writes dies again and again on a disk that forgets what
//! was not synced, and after each death everything it was told is looked for on the plain file.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper of a test may fail as the test itself may")]

use highwater_core::{Backend, CellKey, ItemKey, MessageId, Name, ViewName};
use highwater_powerloss::WallClock;
use highwater_sqlite::Options;
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};
use uuid::Uuid;

/// A program that is not dead by then hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// How the power is cut.
#[derive(Debug)]
enum Cut {
    /// After so many writes and syncs, in the middle of the next.
    After(u32),
    /// Where the engine passes a crash point for the so-manieth time.
    At(&'static str, u32),
}

/// What the program said was acknowledged until its power was cut.
fn lose_power(path: &str, options: &str, seed: u64, first: u64, cut: &Cut) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater-powerloss"));
    command.args([format!("{path}{options}"), seed.to_string(), first.to_string()]);
    match cut {
        Cut::After(count) => command.arg(count.to_string()),
        Cut::At(place, time) => command.env("HIGHWATER_FAILPOINT", format!("{place}:{time}")),
    };
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (said, errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let said = std::thread::spawn(move || BufReader::new(said).lines().map_while(Result::ok).collect());
    let (reached, reaching) = mpsc::channel();
    let listening = std::thread::spawn(move || {
        let mut all = Vec::new();
        for line in BufReader::new(errors).lines().map_while(Result::ok) {
            if line.ends_with(" reached") {
                let _ = reached.send(());
            }
            all.push(line);
        }
        all
    });
    let was_reached = reaching.recv_timeout(PATIENCE);
    let _ = child.kill();
    child.wait().unwrap();
    let errors = listening.join().unwrap();
    assert!(was_reached.is_ok(), "seed {seed}, {cut:?}: the program never came to its cut: {errors:#?}");
    // What was in memory is gone: the index of the write-ahead logs.
    for database in databases(path) {
        let _ = std::fs::remove_file(format!("{database}-shm"));
    }
    said.join().unwrap()
}

fn databases(path: &str) -> [String; 2] {
    [path.to_owned(), path.replace(".db", ".views.db")]
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// What was acknowledged and is not there.
async fn missing(backend: &Backend, acknowledged: &[String]) -> Vec<String> {
    let store = backend.store.info().id;
    let view = ViewName { name: name("month"), generation: 1 };
    let mut missing = Vec::new();
    for line in acknowledged {
        let (what, number) = line.split_once(' ').unwrap();
        let message = MessageId(Uuid::from_u128(number.parse().unwrap()));
        let holds = match what {
            "committed" => {
                let key = ItemKey::alone(name("days"), &format!("day-{number}")).unwrap();
                backend.store.item(&key).await.unwrap().is_some_and(|item| item.exists)
            }
            "put" => backend.queue.message(&name("stay"), message).await.unwrap().is_some(),
            "deleted" => backend.queue.message(&name("go"), message).await.unwrap().is_none(),
            "marked" => backend.cells.read(&CellKey::new(name("marks"), number)).await.unwrap().is_some(),
            "viewed" => {
                let (document, reached) = backend.views.document(&view, store, number).await.unwrap();
                let position = reached.and_then(|reached| reached.positions.into_values().next());
                let least = number.parse().ok().and_then(highwater_core::Position::new);
                document.is_some() && position >= least
            }
            _ => panic!("the program says {line}"),
        };
        if !holds {
            missing.push(line.clone());
        }
    }
    missing
}

/// Opens the files as after a power cut, and says what is missing.
fn look(path: &str, acknowledged: &[String], context: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let clock = Arc::new(WallClock::default());
    let backend = highwater_sqlite::open(path, Options::default(), clock)
        .unwrap_or_else(|error| panic!("{context}: {error}"));
    let missing = runtime.block_on(missing(&backend, acknowledged));
    for database in databases(path) {
        let raw = rusqlite::Connection::open(database).unwrap();
        let sound: String = raw.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok", "{context}");
    }
    missing
}

fn path_in(folder: &Path) -> String {
    folder.join("store.db").display().to_string()
}

fn seed() -> u64 {
    let given = std::env::var("HIGHWATER_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("again with HIGHWATER_SEED={seed}");
    seed
}

/// Loses power in each of these ways, one after the other on one store.
fn survive(seed: u64, cuts: impl IntoIterator<Item = Cut>) {
    let folder = tempfile::tempdir().unwrap();
    let path = path_in(folder.path());
    let (mut first, mut acknowledged) = (1, Vec::new());
    for (round, cut) in (0..).zip(cuts) {
        let said = lose_power(&path, "", seed.wrapping_add(round), first, &cut);
        first += 1_000_000;
        acknowledged.extend(said);
        let context = format!("HIGHWATER_SEED={seed}, round {round}, {cut:?}");
        // Now and then nobody looks before the next start, which then recovers by itself.
        if round % 3 != 2 {
            let missing = look(&path, &acknowledged, &context);
            assert!(missing.is_empty(), "{context}: lost {missing:?}");
        }
    }
    let missing = look(&path, &acknowledged, "at the end");
    assert!(missing.is_empty(), "HIGHWATER_SEED={seed}: lost {missing:?}");
    assert!(acknowledged.len() > 20, "little was acknowledged: {acknowledged:?}");
}

#[test]
fn what_was_acknowledged_survives_a_cut_at_every_crash_point() {
    let places = [
        "sqlite.commit.before",
        "sqlite.commit.after",
        "sqlite.views.commit.before",
        "sqlite.views.commit.after",
    ];
    survive(seed(), [1, 2, 5, 40].into_iter().flat_map(|time| places.map(|place| Cut::At(place, time))));
}

#[test]
fn what_was_acknowledged_survives_a_cut_at_any_write_or_sync() {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let cuts: Vec<Cut> = (0..40).map(|_| Cut::After(random.u32(..1_500))).collect();
    survive(seed, cuts);
}

#[test]
fn a_store_whose_making_was_cut_at_any_write_or_sync_is_made_or_made_anew() {
    let seed = seed();
    let started = Instant::now();
    for count in 0..60 {
        let folder = tempfile::tempdir().unwrap();
        let path = path_in(folder.path());
        let cut = Cut::After(count);
        let acknowledged = lose_power(&path, "", seed.wrapping_add(u64::from(count)), 1, &cut);
        let context = format!("HIGHWATER_SEED={seed}, {cut:?}");
        let missing = look(&path, &acknowledged, &context);
        assert!(missing.is_empty(), "{context}: lost {missing:?}");
    }
    println!("took {:?}", started.elapsed());
}

/// Otherwise the tests above prove nothing.
#[test]
fn without_syncs_acknowledged_writes_are_lost_and_it_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = path_in(folder.path());
    let cut = Cut::At("sqlite.commit.after", 60);
    let acknowledged = lose_power(&path, "?synchronous=normal", seed(), 1, &cut);
    let missing = look(&path, &acknowledged, "without syncs");
    assert!(!missing.is_empty(), "nothing is lost of {acknowledged:?}");
}
