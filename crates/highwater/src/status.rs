use highwater_core::{Partition, Timestamp, Token};
use serde::Serialize;

/// What an engine is doing, for people and for monitoring.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Status {
    /// This process.
    pub instance: String,
    /// The end of the log.
    pub head: Token,
    /// The command queue and the worker of this process.
    pub worker: WorkerStatus,
    /// The processors that run in this process: views, subscribers and others.
    pub processors: Vec<ProcessorStatus>,
    /// The recurring commands that this program declares.
    pub recurring: Vec<RecurringStatus>,
}

/// A command that is sent again and again.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct RecurringStatus {
    /// The name it recurs under.
    pub name: String,
    /// The cron expression.
    pub expression: String,
    /// The time zone that the expression is read in.
    pub time_zone: String,
    /// Whether this process sends it.
    pub running: bool,
    /// When it comes next; in the past while it is overdue.
    pub next: Option<Timestamp>,
    /// What it was last sent for, by any process: the planned time.
    pub last: Option<Timestamp>,
    /// Why this process could not send it.
    pub failure: Option<Failure>,
}

/// The command queue and the worker of this process.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct WorkerStatus {
    /// The queue.
    pub queue: String,
    /// Whether this process takes commands.
    pub running: bool,
    /// Commands waiting.
    pub visible: u64,
    /// Commands taken by some worker.
    pub in_flight: u64,
    /// Commands whose time has not come.
    pub delayed: u64,
    /// Commands in the poison queue.
    pub parked: u64,
    /// Since when the longest waiting command has been waiting.
    pub oldest_waiting: Option<Timestamp>,
    /// Commands that this process decides at this moment.
    pub deciding: usize,
    /// Commands that this process has decided since it started.
    pub decided: u64,
    /// Attempts that failed or were parked since this process started.
    pub failed: u64,
}

/// A processor of this process.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ProcessorStatus {
    /// Its name.
    pub name: String,
    /// Why it is being built again from the beginning, while it is: only a view that knew more than its store.
    pub healing: Option<String>,
    /// All partitions of the store. One that this process does not own says who does.
    pub partitions: Vec<PartitionStatus>,
}

/// One partition of a processor.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct PartitionStatus {
    /// The partition.
    pub partition: Partition,
    /// Who works on it; nobody, if none.
    pub owner: Option<String>,
    /// How often it has changed hands.
    pub owner_epoch: u64,
    /// Since when its owner has it.
    pub since: Option<Timestamp>,
    /// Up to where it is handled, 0 for nothing; known for partitions of this process only.
    pub position: Option<u64>,
    /// How many positions it is behind the end of the log.
    pub behind: Option<u64>,
    /// When it last moved.
    pub last_progress: Option<Timestamp>,
    /// What went wrong since then.
    pub failure: Option<Failure>,
}

/// A failure that keeps a partition or a recurring command from moving.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Failure {
    /// When it last happened.
    pub at: Timestamp,
    /// How often in a row.
    pub attempt: u32,
    /// The position of the first change of the batch, of a partition.
    pub position: Option<u64>,
    /// What went wrong.
    pub error: String,
}

/// Sets the gauges, so that whoever scrapes metrics after asking for the status sees the same figures.
pub(crate) fn publish(now: Timestamp, worker: &WorkerStatus, processors: &[ProcessorStatus]) {
    let queue = worker.queue.clone();
    let states = [
        ("visible", worker.visible),
        ("in-flight", worker.in_flight),
        ("delayed", worker.delayed),
        ("parked", worker.parked),
    ];
    for (state, count) in states {
        metrics::gauge!("highwater_queue_messages", "queue" => queue.clone(), "state" => state)
            .set(count as f64);
    }
    let oldest = worker.oldest_waiting.map_or(0.0, |since| now.since(since).as_secs_f64());
    metrics::gauge!("highwater_queue_oldest_seconds", "queue" => queue).set(oldest);
    for processor in processors {
        let behind: u64 = processor.partitions.iter().filter_map(|row| row.behind).sum();
        let failing = processor.partitions.iter().filter(|row| row.failure.is_some()).count();
        let name = processor.name.clone();
        metrics::gauge!("highwater_processor_behind", "processor" => name.clone()).set(behind as f64);
        metrics::gauge!("highwater_processor_failing_partitions", "processor" => name).set(failing as f64);
    }
}
