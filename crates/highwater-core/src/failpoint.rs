//! Places at which a test can stop a program, to kill it there.
//!
//! Compiled in only with the feature `failpoints`; otherwise [`hit`] is nothing.
//!
//! A process started with `HIGHWATER_FAILPOINT=name` writes `failpoint name reached` to standard error when it
//! comes to that place and stops there for ever: whoever started it kills it. `name:3` stops at the third time.
//! With `name:3:pause` the whole process pauses there, as with SIGSTOP, until it gets SIGCONT; then it goes on and
//! never pauses again. Within one process a test can [`hold`] a place and let go of it.
//!
//! A process started with `HIGHWATER_SABOTAGE=name` breaks one invariant on purpose, so that a test can see that its
//! checks notice: the places that carry an invariant ask [`sabotaged`].

/// Stops here if a test asked for it.
#[inline]
pub fn hit(name: &str) {
    #[cfg(feature = "failpoints")]
    armed::hit(name);
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
}

/// Whether a test wants the invariant that stands here to be broken. Always false without the feature.
#[inline]
pub fn sabotaged(name: &str) -> bool {
    #[cfg(feature = "failpoints")]
    return armed::sabotaged(name);
    #[cfg(not(feature = "failpoints"))]
    {
        let _ = name;
        false
    }
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

    /// The place that the environment names.
    struct Deadly {
        name: String,
        /// How many passes are left before it stops; 0 once a pause is over.
        left: Mutex<u32>,
        pauses: bool,
    }

    static DEADLY: LazyLock<Option<Deadly>> = LazyLock::new(|| {
        let text = std::env::var("HIGHWATER_FAILPOINT").ok()?;
        let mut parts = text.split(':');
        let name = parts.next()?.to_owned();
        let left = parts.next().and_then(|count| count.parse().ok()).unwrap_or(1);
        Some(Deadly { name, left: Mutex::new(left), pauses: parts.next() == Some("pause") })
    });

    static SABOTAGE: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("HIGHWATER_SABOTAGE").ok());

    pub(super) fn sabotaged(name: &str) -> bool {
        SABOTAGE.as_deref() == Some(name)
    }

    fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    impl Deadly {
        fn pass(&self) {
            let mut left = lock(&self.left);
            if *left == 0 {
                return;
            }
            *left -= 1;
            if *left > 0 {
                return;
            }
            eprintln!("failpoint {} reached", self.name);
            if self.pauses {
                // The program that sends signals spares this crate a system call.
                let process = std::process::id().to_string();
                let _ = std::process::Command::new("kill").args(["-STOP", &process]).status();
            } else {
                // The lock is kept: whoever comes here later stops too.
                loop {
                    std::thread::park();
                }
            }
        }
    }

    pub(super) fn hit(name: &str) {
        if let Some(deadly) = &*DEADLY
            && deadly.name == name
        {
            deadly.pass();
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
