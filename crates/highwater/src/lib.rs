#![doc = include_str!("../../../README.md")]
//!
//! # Where to go on
//!
//! * deciding: [`Aggregate`], [`Decision`], [`Engine::send`], [`Engine::execute`], [`Outcome`], [`Recurring`]
//! * reading: [`View`], [`Follow`], [`ViewReader`], [`Freshness`], [`Token`], [`Session`]
//! * following: [`Subscriber`], [`Processor`], [`Feed`]
//! * testing: [`Engine::in_memory`], [`Engine::settle`], [`ManualClock`]

mod address;
mod aggregate;
mod builder;
mod clock;
mod core;
mod cron;
mod decide;
#[cfg(doctest)]
mod doctests;
mod engine;
mod execute;
mod feed;
mod follower;
mod guard;
mod handler;
mod instance;
mod lease;
mod load;
mod open;
mod outcome;
mod processor;
mod recorded;
mod recurring;
mod schedule;
mod schema;
mod send;
mod session;
mod settle;
mod status;
mod subscriber;
mod tagged;
mod tend;
mod timer;
mod unique;
mod view;
mod view_claim;
mod view_reader;
mod view_sink;
mod worker;

pub use address::Address;
pub use aggregate::{Aggregate, Context, Decision, Storage};
pub use builder::{EngineBuilder, Role, StartError, UnknownRole};
pub use clock::{ManualClock, SystemClock};
pub use decide::encode_event;
pub use engine::{Engine, Stopped};
pub use execute::{Execute, ExecuteError};
pub use feed::{Cursor, Feed, FeedPage, InvalidCursor, PullError, Start};
pub use handler::{ErrorClass, Failed, HandlerError};
/// The contract that engines implement, whole.
pub use highwater_core as contract;
pub use highwater_core::{
    Backend, Batch, Change, ChangeOp, Clock, CloudEvent, CommandId, Diverged, EngineError, EventId,
    FailureKind, FeedMode, ItemId, ItemKey, Json, MessageId, Name, NewMessage, Parked, Partition,
    PartitionKey, Position, Timestamp, Token, Verdict, Version, Write, failpoint,
};
pub use lease::LeaseTimes;
pub use outcome::{Outcome, OutcomeError, OutcomeRequest};
pub use processor::{BatchContext, Changes, Processor};
pub use recorded::Recorded;
pub use recurring::{Missed, Planned, Recurring};
pub use schema::{DecodeError, Old, OldKind, Upcaster};
pub use send::{Send, SendError, Sent};
pub use session::Session;
pub use settle::{Settled, Step};
pub use status::{Failure, PartitionStatus, ProcessorStatus, RecurringStatus, Status, WorkerStatus};
pub use subscriber::Subscriber;
pub use tagged::{TagError, Tagged};
pub use timer::{Cancelling, Retiming, Timer, TimerError};
pub use unique::{Claim, Holder, Reservation, Unique, UniqueError};
pub use view::{Folded, Follow, Sources, View};
pub use view_reader::{Answer, Freshness, GetDocument, ViewReadError, ViewReader};
pub use worker::WorkerOptions;
