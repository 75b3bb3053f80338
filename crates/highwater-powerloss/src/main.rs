//! The program that loses power: writes to a store, and says on standard output what was acknowledged.
//!
//! `highwater-powerloss PATH SEED FIRST [CUT]`: numbers its work from FIRST on, and loses power after CUT writes and
//! syncs, or wherever it is killed.

use highwater_core::{
    Backend, Batch, Body, CellKey, CellWrite, DocumentWrite, Event, Expect, ItemKey, Json, MessageId, Name,
    NewMessage, Partition, Position, ViewBatch, ViewName, ViewSlot, Write,
};
use highwater_powerloss::WallClock;
use highwater_sqlite::Options;
use std::{collections::BTreeMap, error::Error, sync::Arc, time::Duration};
use uuid::Uuid;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, path, seed, first, cut @ ..] = arguments.as_slice() else {
        return Err("PATH SEED FIRST [CUT]".into());
    };
    let cut = cut.first().map(|count| count.parse()).transpose()?;
    highwater_powerloss::register(seed.parse()?, cut).map_err(|code| format!("SQLite refuses: {code}"))?;
    let backend = highwater_sqlite::open(path, Options::default(), Arc::new(WallClock::default()))?;
    move_logs(path.split('?').next().unwrap_or(path));
    let first = first.parse()?;
    tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
        tokio::try_join!(
            commits(&backend, first),
            messages(&backend, first),
            cells(&backend, first),
            views(&backend, first)
        )
        .map(|_| ())
    })
}

/// Moves the write-ahead logs into their databases all the time, so that cuts hit that too.
fn move_logs(path: &str) {
    let paths = [path.to_owned(), path.replace(".db", ".views.db")];
    std::thread::spawn(move || {
        for mode in ["PASSIVE", "RESTART", "TRUNCATE"].iter().cycle() {
            for path in &paths {
                if let Ok(connection) = rusqlite::Connection::open(path) {
                    let _ = connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()));
                }
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    });
}

fn json(number: u64) -> Outcome<Json> {
    let text = format!(r#"{{"number": {number}, "text": "{}"}}"#, "x".repeat(number as usize % 3_000));
    Json::parse(text).map_err(|error| error.to_string().into())
}

async fn commits(backend: &Backend, first: u64) -> Outcome {
    for number in first.. {
        let key = ItemKey::alone(Name::new("days")?, &format!("day-{number}"))?;
        let event = Event::new("opened", 1, json(number)?);
        let write =
            Write::put(key.container, key.id, json(number)?).expect(Expect::Absent).events(vec![event]);
        backend.store.commit(Batch::new(key.partition_key, vec![write])).await?;
        println!("committed {number}");
    }
    Ok(())
}

/// Odd ones stay, even ones are taken away again.
async fn messages(backend: &Backend, first: u64) -> Outcome {
    let (stay, go) = (Name::new("stay")?, Name::new("go")?);
    for number in first.. {
        let message = NewMessage::new(number.to_string()).id(MessageId(Uuid::from_u128(u128::from(number))));
        let queue = if number % 2 == 1 { &stay } else { &go };
        backend.queue.put(queue, message).await?;
        if queue == &stay {
            println!("put {number}");
            continue;
        }
        for delivery in backend.queue.get(queue, 1, Duration::from_secs(600)).await? {
            backend.queue.delete(&delivery.receipt).await?;
            println!("deleted {}", delivery.message.id.0.as_u128());
        }
    }
    Ok(())
}

async fn cells(backend: &Backend, first: u64) -> Outcome {
    for number in first.. {
        let key = CellKey::new(Name::new("marks")?, number.to_string());
        backend.cells.write(CellWrite::new(key, Expect::Absent, json(number)?)).await?;
        println!("marked {number}");
    }
    Ok(())
}

async fn views(backend: &Backend, first: u64) -> Outcome {
    let view = ViewName { name: Name::new("month")?, generation: 1 };
    let info = backend.store.info();
    let slot = ViewSlot { view, store: info.id, partition: Partition(0) };
    let mut claim = backend.views.claim(&slot, info.epoch).await?;
    for number in first.. {
        let position = Position::new(number).ok_or("positions begin with 1")?;
        let document =
            DocumentWrite::new(number.to_string(), 0, Some(Body::new(json(number)?)), BTreeMap::new());
        backend.views.write(ViewBatch::new(slot.clone(), claim, position, vec![document])).await?;
        claim = claim.at(position);
        println!("viewed {number}");
    }
    Ok(())
}
