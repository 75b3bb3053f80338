//! The smallest metrics recorder: sums the group sizes that the engine reports.

use metrics::{Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

#[derive(Default)]
pub(crate) struct Groups {
    members: AtomicU64,
    groups: AtomicU64,
}

impl HistogramFn for Groups {
    fn record(&self, size: f64) {
        self.members.fetch_add(size as u64, Ordering::Relaxed);
        self.groups.fetch_add(1, Ordering::Relaxed);
    }
}

impl Groups {
    /// The mean size of the groups since the last call.
    pub(crate) fn take_mean(&self) -> f64 {
        let members = self.members.swap(0, Ordering::Relaxed);
        members as f64 / self.groups.swap(0, Ordering::Relaxed).max(1) as f64
    }
}

struct OnlyGroups(Arc<Groups>);

impl Recorder for OnlyGroups {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        if key.name() == "highwater_sqlite_group_size" {
            Histogram::from_arc(Arc::clone(&self.0))
        } else {
            Histogram::noop()
        }
    }
}

/// Listens to the engine from here on.
pub(crate) fn install() -> Arc<Groups> {
    let groups = Arc::new(Groups::default());
    // A second call would find the first one's recorder in place; each bench installs it once.
    let _ = metrics::set_global_recorder(OnlyGroups(Arc::clone(&groups)));
    groups
}
