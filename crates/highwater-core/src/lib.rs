//! The contract of Highwater: its words as types, its engines as traits.
//!
//! A *store* keeps *items* (JSON documents at container, partition key and id) and, in the same write, the
//! *events* that explain each change and the verdict of the *command* that caused it. Every commit is appended
//! to one of the store's partitions at rising *positions*; reading a partition in order is the *change feed*.
//! *Queues* hold work, *cells* hold small unlogged records, *view stores* hold read models.
//!
//! | trait | what it keeps |
//! | --- | --- |
//! | [`Store`] | containers of items, their log, the change feed |
//! | [`Queue`] | at-least-once work lists with a poison queue each |
//! | [`Cells`] | small records with conditional writes, outside every feed |
//! | [`ViewStore`] | documents of read models and how far they have come |
//! | [`Clock`] | time, so that tests can drive it |
//!
//! All of them are object safe: a URL can choose the engine. This crate does no I/O and knows no engine.
//! The rules that an implementation must keep are the conformance suite of `highwater-testkit`.

mod backend;
mod batch;
mod cells;
mod change;
mod clock;
mod cloud_event;
mod command;
mod error;
pub mod failpoint;
mod feed;
mod item;
mod json;
mod key;
mod limits;
mod lineage;
mod name;
mod parking;
mod position;
mod queue;
mod store;
mod token;
mod view_store;
mod wake;

pub use async_trait::async_trait;
pub use backend::Backend;
pub use batch::{Batch, Committed, Expect, Op, Write};
pub use cells::{Cell, CellError, CellKey, CellWrite, Cells};
pub use change::{Change, ChangeOp, Event, EventId};
pub use clock::{Clock, Timestamp};
pub use cloud_event::{CloudEvent, CloudEventError};
pub use command::{CommandId, CommandMark, Decided, Fingerprint, Verdict};
pub use error::{CommitError, EngineError, FailureKind, FeedError, Found, ReadError};
pub use feed::{ChangePage, ChangeRequest, FeedMode};
pub use item::{Body, ETag, Item, ItemKey, Version};
pub use json::{InvalidJson, Json};
pub use key::{InvalidKey, ItemId, PartitionKey};
pub use limits::Limits;
pub use lineage::{Diverged, Lineage};
pub use name::{InvalidName, Name};
pub use parking::{Attempt, AttemptKind, Parked, Parking};
pub use position::{Epoch, Partition, Position};
pub use queue::{
    Delivery, Depth, GetError, Message, MessageId, NewMessage, Put, PutError, Queue, Receipt, ReceiptError,
    ReplayError, Update,
};
pub use store::{Store, StoreId, StoreInfo};
pub use token::{InvalidToken, Reached, Token};
pub use view_store::{
    Claim, Document, DocumentKey, DocumentWrite, Healing, Marks, ViewBatch, ViewName, ViewReached, ViewSlot,
    ViewStore, ViewWriteError,
};
pub use wake::{Waiting, Wake, Waker};
