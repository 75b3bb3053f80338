//! Places at which a test can stop a program, to kill it there.
//!
//! Compiled in only with the feature `failpoints`; otherwise [`hit`] is nothing.
//!
//! A process started with `HIGHWATER_FAILPOINT=name` writes `failpoint name reached` to standard error when it
//! comes to that place and stops there for ever: whoever started it kills it. `name:3` stops at the third time.
//! Within one process a test can [`hold`] a place and let go of it.

/// Stops here if a test asked for it.
#[inline]
pub fn hit(name: &str) {
    #[cfg(feature = "failpoints")]
    armed::hit(name);
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
}

#[cfg(feature = "failpoints")]
pub use armed::{Hold, hold};

#[cfg(feature = "failpoints")]
mod armed {
    use std::collections::HashMap;
    use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

    #[derive(Default)]
    struct Gate {
        state: Mutex<GateState>,
        changed: Condvar,
    }

    #[derive(Default)]
    struct GateState {
        arrived: bool,
        open: bool,
    }

    static GATES: LazyLock<Mutex<HashMap<String, Arc<Gate>>>> = LazyLock::new(Mutex::default);

    /// The place that the environment names, and how many passes are left before it stops.
    static DEADLY: LazyLock<Option<(String, Mutex<u32>)>> = LazyLock::new(|| {
        let text = std::env::var("HIGHWATER_FAILPOINT").ok()?;
        let (name, count) = text.split_once(':').unwrap_or((&text, "1"));
        Some((name.to_owned(), Mutex::new(count.parse().unwrap_or(1))))
    });

    fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn hit(name: &str) {
        if let Some((deadly, left)) = &*DEADLY
            && deadly == name
        {
            let mut left = lock(left);
            *left = left.saturating_sub(1);
            if *left == 0 {
                eprintln!("failpoint {name} reached");
                loop {
                    std::thread::park();
                }
            }
        }
        let gate = lock(&GATES).get(name).cloned();
        if let Some(gate) = gate {
            let mut state = lock(&gate.state);
            state.arrived = true;
            gate.changed.notify_all();
            while !state.open {
                state = gate.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Keeps whoever comes to a place there until it is dropped.
    pub struct Hold {
        name: String,
        gate: Arc<Gate>,
    }

    /// Holds the next to come to `name`, and all who follow.
    pub fn hold(name: &str) -> Hold {
        let gate = Arc::new(Gate::default());
        lock(&GATES).insert(name.to_owned(), gate.clone());
        Hold { name: name.to_owned(), gate }
    }

    impl Hold {
        /// Blocks this thread until somebody is held.
        pub fn wait_until_held(&self) {
            let mut state = lock(&self.gate.state);
            while !state.arrived {
                state = self.gate.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    impl Drop for Hold {
        fn drop(&mut self) {
            lock(&GATES).remove(&self.name);
            lock(&self.gate.state).open = true;
            self.gate.changed.notify_all();
        }
    }
}
