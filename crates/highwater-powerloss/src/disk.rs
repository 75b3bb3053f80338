//! What a file holds in memory and what of it was not synced; where the power is cut.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError},
};

/// Disks write whole sectors; a longer write may reach them in part.
const SECTOR: usize = 512;

/// One change of a file that was not synced.
pub(crate) enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    Cut { length: u64 },
}

/// A file as its readers see it, and how the disk's differs.
pub(crate) struct Content {
    pub(crate) bytes: Vec<u8>,
    pub(crate) unsynced: Vec<Change>,
}

impl Content {
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset..end].copy_from_slice(bytes);
        self.unsynced.push(Change::Write { offset: offset as u64, bytes: bytes.to_vec() });
    }

    pub(crate) fn cut(&mut self, length: u64) {
        self.bytes.truncate(length as usize);
        self.unsynced.push(Change::Cut { length });
    }
}

type Files = HashMap<Vec<u8>, Arc<Mutex<Content>>>;

/// The content of every file that is open or was written, by its path: all connections of the process share it.
static FILES: LazyLock<Mutex<Files>> = LazyLock::new(Mutex::default);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The content of a file, read by `load` if nobody has opened it yet.
pub(crate) fn content(path: &[u8], load: impl FnOnce() -> Option<Vec<u8>>) -> Option<Arc<Mutex<Content>>> {
    let mut files = lock(&FILES);
    if let Some(known) = files.get(path) {
        return Some(Arc::clone(known));
    }
    let fresh = Arc::new(Mutex::new(Content { bytes: load()?, unsynced: Vec::new() }));
    files.insert(path.to_vec(), Arc::clone(&fresh));
    Some(fresh)
}

/// How long a file is that is known here.
pub(crate) fn length(path: &[u8]) -> Option<usize> {
    let known = lock(&FILES).get(path).cloned()?;
    Some(lock(&known).bytes.len())
}

pub(crate) fn forget(path: &[u8]) {
    lock(&FILES).remove(path);
}

/// Chance, and the count down to the cut.
pub(crate) struct Fate {
    random: fastrand::Rng,
    /// How many more writes and syncs there are; `None` without an end.
    left: Option<u32>,
}

static FATE: OnceLock<Mutex<Fate>> = OnceLock::new();

pub(crate) fn begin(seed: u64, cut_after: Option<u32>) {
    let _ = FATE.set(Mutex::new(Fate { random: fastrand::Rng::with_seed(seed), left: cut_after }));
}

/// Uses chance.
fn with<T>(act: impl FnOnce(&mut Fate) -> T) -> T {
    act(&mut lock(FATE.get_or_init(|| Mutex::new(Fate { random: fastrand::Rng::with_seed(0), left: None }))))
}

/// A write or sync begins: true if the power is cut here.
pub(crate) fn is_last() -> bool {
    with(|fate| match &mut fate.left {
        Some(0) => true,
        Some(left) => {
            *left -= 1;
            false
        }
        None => false,
    })
}

/// The power is cut: says so and does nothing more, until the process is killed.
pub(crate) fn stop() -> ! {
    eprintln!("power cut reached");
    loop {
        std::thread::park();
    }
}

/// Which pieces of the latest change reach the disk at once: most often none.
pub(crate) fn early(change: &Change) -> Vec<Change> {
    with(|fate| if fate.random.u8(..8) == 0 { pieces(change, &mut fate.random) } else { Vec::new() })
}

/// What of the unsynced reaches the disk when a sync does not end: some of it, in any order.
pub(crate) fn torn(unsynced: &[Change]) -> Vec<Change> {
    with(|fate| {
        let mut order: Vec<&Change> = unsynced.iter().filter(|_| fate.random.bool()).collect();
        fate.random.shuffle(&mut order);
        order.into_iter().flat_map(|change| pieces(change, &mut fate.random)).collect()
    })
}

/// A change whole, or those of its sectors that chance picks.
fn pieces(change: &Change, random: &mut fastrand::Rng) -> Vec<Change> {
    let Change::Write { offset, bytes } = change else {
        let Change::Cut { length } = change else { return Vec::new() };
        return vec![Change::Cut { length: *length }];
    };
    let whole = random.bool();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let place = offset + at as u64;
        let end = bytes.len().min(at + SECTOR - place as usize % SECTOR);
        if whole || random.bool() {
            found.push(Change::Write { offset: place, bytes: bytes[at..end].to_vec() });
        }
        at = end;
    }
    found
}
