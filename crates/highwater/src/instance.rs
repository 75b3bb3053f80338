//! A running process, as others see it: a cell with a counter that moves.
//!
//! One heartbeat per process keeps all its leases alive, so an idle fleet writes one small cell per process and
//! interval, however many partitions it holds. Nobody compares clocks: each observer notes on its own monotonic
//! clock when a counter last moved.

use crate::send::constant;
use highwater_core::{CellError, CellKey, CellWrite, Cells, Clock, EngineError, Expect, Json, ReadError};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// A cell whose process died and that nobody observed goes by itself after this time. It is far longer than any process
/// pauses, and a process that paused for longer writes it anew: whoever finds it gone takes its owner for dead.
const LIFE: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug, Serialize, Deserialize)]
struct Heartbeat {
    counter: u64,
}

fn cell(incarnation: &str) -> Result<CellKey, EngineError> {
    Ok(CellKey::new(constant("instances")?, incarnation))
}

/// This process.
pub(crate) struct Instance {
    cells: Arc<dyn Cells>,
    clock: Arc<dyn Clock>,
    /// The instance's name and a random part: a second process of the same name is another one.
    pub(crate) incarnation: String,
    beat: tokio::sync::Mutex<Beat>,
}

#[derive(Default)]
struct Beat {
    counter: u64,
    last: Option<Duration>,
}

impl Instance {
    pub(crate) fn new(cells: Arc<dyn Cells>, clock: Arc<dyn Clock>, name: &str) -> Self {
        let random = uuid::Uuid::new_v4().simple().to_string();
        let incarnation = format!("{name}.{}", random.get(..12).unwrap_or(&random));
        Self { cells, clock, incarnation, beat: tokio::sync::Mutex::default() }
    }

    /// Moves the counter.
    pub(crate) async fn beat(&self) -> Result<(), CellError> {
        let mut beat = self.beat.lock().await;
        let began = self.clock.monotonic();
        let heartbeat = Heartbeat { counter: beat.counter + 1 };
        let value = Json::encode(&heartbeat).unwrap_or(Json::from_stored(bytes::Bytes::from_static(b"{}")));
        // The cell is this process's alone; `Any` also heals an answer that was lost.
        let write = CellWrite::new(cell(&self.incarnation)?, Expect::Any, value).time_to_live(LIFE);
        self.cells.write(write).await?;
        *beat = Beat { counter: heartbeat.counter, last: Some(began) };
        Ok(())
    }

    /// Whether the last heartbeat is recent enough that nobody can have taken this process for dead.
    pub(crate) async fn is_alive(&self, expire: Duration) -> bool {
        let last = self.beat.lock().await.last;
        last.is_some_and(|last| self.clock.monotonic().saturating_sub(last) < expire.mul_f64(0.8))
    }

    /// Beats until told to stop.
    pub(crate) async fn run(&self, every: Duration, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            tokio::select! {
                () = self.clock.sleep(every) => {}
                _ = stop.changed() => break,
            }
            if let Err(error) = self.beat().await {
                tracing::warn!(%error, "heartbeat failed");
            }
        }
    }

    /// Removes the cell, so that others need not wait for it to expire.
    pub(crate) async fn leave(&self) -> Result<(), CellError> {
        self.cells.delete(&cell(&self.incarnation)?, Expect::Any).await
    }
}

/// What this process has seen of others.
#[derive(Default)]
pub(crate) struct Observer {
    seen: Mutex<HashMap<String, (u64, Duration)>>,
}

impl Observer {
    /// Whether `incarnation` counts as dead: its cell is gone, or its counter has not moved for `expire` on this
    /// process's clock. One never seen before is alive.
    pub(crate) async fn is_dead(
        &self,
        cells: &dyn Cells,
        clock: &dyn Clock,
        incarnation: &str,
        expire: Duration,
    ) -> Result<bool, ReadError> {
        let Some(found) = cells.read(&cell(incarnation)?).await? else {
            return Ok(true);
        };
        let counter = found.value.decode::<Heartbeat>().map_or(0, |heartbeat| heartbeat.counter);
        let now = clock.monotonic();
        let dead = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let entry = seen.entry(incarnation.to_owned()).or_insert((counter, now));
            if entry.0 != counter {
                *entry = (counter, now);
            }
            now.saturating_sub(entry.1) >= expire
        };
        if dead {
            // Nobody else will remove it. If it moved after all, it belongs to a living process.
            let _ = cells.delete(&found.key, Expect::ETag(found.etag)).await;
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(incarnation);
        }
        Ok(dead)
    }
}
