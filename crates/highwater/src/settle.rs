use crate::handler::HandlerError;
use highwater_core::{CommandId, MessageId, Partition, Timestamp, Verdict};

/// One thing that an engine did.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Step {
    /// A command was decided, now or before.
    Decided {
        /// The message that carried it.
        message: MessageId,
        /// The command's name.
        name: String,
        /// How it was decided the first time.
        verdict: Verdict,
    },
    /// A command went to the poison queue.
    Parked {
        /// The message.
        message: MessageId,
        /// Why.
        reason: String,
    },
    /// A command failed and will be tried again later.
    Failed {
        /// The message.
        message: MessageId,
        /// Why.
        error: HandlerError,
    },
    /// A delayed command came before its time and waits on.
    PutOff {
        /// The message.
        message: MessageId,
    },
    /// A command was taken over by another worker.
    Lost {
        /// The message.
        message: MessageId,
    },
    /// A recurring command was sent, perhaps once more under the same id.
    Fired {
        /// The name it recurs under.
        recurring: String,
        /// When it was planned for.
        planned: Timestamp,
        /// Its id.
        command: CommandId,
    },
    /// A recurring command could not be sent and will be tried again later.
    NotFired {
        /// The name it recurs under.
        recurring: String,
        /// Why.
        error: HandlerError,
    },
    /// A worker cannot go on.
    Fatal {
        /// Why.
        error: HandlerError,
    },
    /// A processor dealt with a batch.
    Processed {
        /// The processor.
        processor: String,
        /// The partition.
        partition: Partition,
        /// How many changes the batch had.
        changes: usize,
    },
    /// A processor's batch failed and will be tried again later.
    ProcessorFailed {
        /// The processor.
        processor: String,
        /// The partition.
        partition: Partition,
        /// Why.
        error: HandlerError,
    },
}

/// What [`Engine::settle`](crate::Engine::settle) did until nothing was left to do.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Settled {
    /// Everything, in order.
    pub steps: Vec<Step>,
}

impl Settled {
    /// The names of the commands that were decided, in order.
    pub fn decided(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for step in &self.steps {
            if let Step::Decided { name, .. } = step {
                names.push(&**name);
            }
        }
        names
    }

    /// What was parked or failed, in order; empty if all went well.
    pub fn trouble(&self) -> Vec<&Step> {
        let well = |step: &&Step| {
            !matches!(
                step,
                Step::Decided { .. } | Step::PutOff { .. } | Step::Processed { .. } | Step::Fired { .. }
            )
        };
        self.steps.iter().filter(well).collect()
    }
}
