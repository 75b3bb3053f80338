//! What the disk can do, and whether there is one.

use crate::Outcome;
use std::{fs::File, io::Write, path::Path, time::Instant};

/// Refuses a folder whose files live in memory: an fsync there costs nothing and proves nothing.
pub(crate) fn refuse_memory(folder: &Path) -> Outcome {
    let folder = folder.canonicalize()?;
    let Ok(mounts) = std::fs::read_to_string("/proc/self/mounts") else { return Ok(()) };
    let mount = mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            Some((fields.next()?, fields.next()?))
        })
        .filter(|(point, _)| folder.starts_with(point))
        .max_by_key(|(point, _)| point.len());
    match mount {
        Some((point, kind @ ("tmpfs" | "ramfs"))) => {
            Err(format!("{} is on {kind} ({point}); choose a folder on a disk with --dir", folder.display())
                .into())
        }
        _ => Ok(()),
    }
}

/// Microseconds that appending 4 KiB and syncing it takes.
pub(crate) struct SyncLatency {
    pub(crate) median: f64,
    pub(crate) high: f64,
}

pub(crate) fn sync_latency(folder: &Path) -> Outcome<SyncLatency> {
    let mut file = File::create(folder.join("sync"))?;
    let page = [7; 4096];
    let mut took = Vec::new();
    for _ in 0..400 {
        file.write_all(&page)?;
        let started = Instant::now();
        file.sync_data()?;
        took.push(started.elapsed().as_secs_f64() * 1e6);
    }
    took.sort_by(f64::total_cmp);
    let at = |part: usize| took.get(took.len() * part / 100).copied().unwrap_or(f64::NAN);
    Ok(SyncLatency { median: at(50), high: at(99) })
}
