//! How many messages a queue holds is counted as they come and go.

use crate::support::{HandClock, name, options};
use highwater_core::{Delivery, NewMessage, Parking, Queue, Update};
use highwater_sqlite::Sqlite;
use std::{sync::Arc, time::Duration};

const SECOND: i64 = 1_000_000;

#[tokio::test]
async fn the_count_of_a_queue_is_the_number_of_its_rows_whatever_two_processes_do() {
    let seed =
        std::env::var("HIGHWATER_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("HIGHWATER_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let clock = HandClock::at(0);
    let stores = [(); 2].map(|()| Sqlite::open(&path, options(), clock.clone()).unwrap());
    let queues = [name("a"), name("b")];
    let mut held: Vec<Delivery> = Vec::new();
    let mut time = 0;
    for step in 0..400 {
        let store: &Arc<Sqlite> = &stores[rng.usize(..2)];
        let queue = &queues[rng.usize(..2)];
        match rng.u8(..12) {
            0..4 => {
                let mut message = NewMessage::new("x").depth_limit(rng.u64(1..30));
                if rng.bool() {
                    message = message.time_to_live(Duration::from_secs(rng.u64(1..9)));
                }
                let _ = store.put(queue, message.delay(Duration::from_secs(rng.u64(..4)))).await;
            }
            4..6 => held.extend(store.get(queue, 3, Duration::from_secs(5)).await.unwrap()),
            6..8 if !held.is_empty() => {
                let taken = held.swap_remove(rng.usize(..held.len()));
                let _ = match rng.u8(..3) {
                    0 => store.park(&taken.receipt, Parking::new("r", "e", "b")).await,
                    1 => Queue::delete(&**store, &taken.receipt).await,
                    _ => Queue::update(&**store, &taken.receipt, Update::visible_in(Duration::ZERO))
                        .await
                        .map(|_| ()),
                };
            }
            8 => {
                for parked in store.parked(queue, None, 2).await.unwrap() {
                    let _ = match rng.bool() {
                        true => store.replay(queue, parked.message.id).await,
                        false => store.discard(queue, parked.message.id).await,
                    };
                }
            }
            9 if rng.u8(..10) == 0 => {
                store.clear(queue).await.unwrap();
            }
            _ => {
                time += SECOND;
                clock.set(time);
            }
        }
        let raw = rusqlite::Connection::open(&path).unwrap();
        let counts = "SELECT messages, (SELECT count(*) FROM message WHERE queue = queue.id) FROM queue";
        let mut counts = raw.prepare(counts).unwrap();
        let mut rows = counts.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let (counted, there): (i64, i64) = (row.get(0).unwrap(), row.get(1).unwrap());
            assert_eq!(counted, there, "seed {seed}, step {step}");
        }
        for (queue, store) in queues.iter().zip(&stores) {
            let depth = store.depth(queue).await.unwrap();
            let live = "SELECT count(*) FROM message JOIN queue ON queue.id = queue
                WHERE name = ?1 AND (expires_at IS NULL OR expires_at > ?2)";
            let live: i64 = raw.query_row(live, (queue.as_str(), time), |row| row.get(0)).unwrap();
            let sum = depth.visible + depth.in_flight + depth.delayed;
            assert_eq!(sum as i64, live, "seed {seed}, step {step}: {depth:?}");
        }
    }
}
