//! A disk that forgets: SQLite writes to memory, and only what it syncs reaches the file.
//!
//! [`register`] puts a layer over SQLite's own file system for this whole process. To kill the process is then what a
//! power cut is to a machine: writes that were not synced are gone, but for some of them, chosen by the seed, that
//! reached the file before their turn, whole or in pieces of 512 bytes. Locks and the shared index of the write-ahead
//! log are SQLite's own; whoever cuts the power removes the index, which a machine would lose with its memory.
//!
//! What it does not model: entries of folders. A file that is made or removed is so at once.

mod disk;
mod vfs;

use highwater_core::{Clock, Timestamp, async_trait};
use std::time::{Duration, Instant};

pub use vfs::register;

/// The machine's clock.
pub struct WallClock(Instant);

impl Default for WallClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

#[async_trait]
impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(0).plus(std::time::UNIX_EPOCH.elapsed().unwrap_or_default())
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    /// Nothing here waits on this clock.
    async fn sleep(&self, _: Duration) {
        std::future::pending().await
    }
}
