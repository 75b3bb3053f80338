//! Highwater on SQLite: a store, its queues and cells in one file, the documents of views in another.
//!
//! [`open`] opens both, as the URL `sqlite:booking.db` does; [`Sqlite`] and [`SqliteViews`] are the two by
//! themselves.
//!
//! * **Bodies stand once**, in the log of their partition; a small table says for each item where its newest
//!   change and its body stand. A partition is one table, so that reading a feed is one sequential scan.
//! * **One thread writes.** Whatever is waiting (commits, messages, cells) goes into one transaction with one
//!   fsync; nobody is answered before that. It never holds more than one transaction open.
//! * **Readers have connections of their own** and see committed states only, each read one state.
//! * **Several processes** may open one file: their writers take turns, busy for longer than five seconds is an
//!   error ([`FailureKind::Busy`](highwater_core::FailureKind)). While somebody waits for a hint
//!   ([`Wake`](highwater_core::Wake)), the file is looked at every 20 ms for commits of other processes. It must be
//!   on a local disk.
//!
//! ```
//! use highwater_core::{Batch, Clock, ItemId, ItemKey, Json, Name, PartitionKey, Store, Timestamp, Write};
//! use highwater_sqlite::{Options, Sqlite};
//! use std::{sync::Arc, time::Duration};
//!
//! # struct SystemClock;
//! # #[highwater_core::async_trait]
//! # impl Clock for SystemClock {
//! #     fn now(&self) -> Timestamp { Timestamp::from_micros(0) }
//! #     fn monotonic(&self) -> Duration { Duration::ZERO }
//! #     async fn sleep(&self, _: Duration) {}
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Sqlite::in_memory(Options::default(), Arc::new(SystemClock))?;
//! let key = ItemKey::alone(Name::new("days")?, "2026-12-24")?;
//! let write = Write::put(key.container.clone(), key.id.clone(), Json::parse(r#"{"seats": 10}"#)?);
//! store.commit(Batch::new(key.partition_key.clone(), vec![write])).await?;
//! assert!(store.item(&key).await?.is_some_and(|item| item.exists));
//! # Ok(())
//! # }
//! ```

mod append;
mod backup;
mod cells;
mod checksum;
mod commit;
mod content;
mod depths;
mod disk;
mod engine;
mod fault;
mod feed;
mod frame;
mod gather;
mod item;
mod known;
mod layout;
mod location;
mod log;
mod moment;
mod open;
mod open_error;
mod operation;
mod options;
mod poison;
mod queue;
mod queue_reads;
mod readers;
mod reserve;
mod restore;
mod schema;
mod store;
mod sweep;
mod turns;
mod view_store;
mod views;
mod watch;
mod witness;
mod write_ahead_log;
mod writer;

pub use backup::{BackupError, Progress, backup, verify_backup};
pub use content::Manifest;
pub use open::open;
pub use open_error::OpenError;
pub use options::{Options, Synchronous};
pub use restore::{RestoreError, Restored, restore};
pub use store::Sqlite;
pub use view_store::SqliteViews;
