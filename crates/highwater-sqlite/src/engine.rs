//! What the groups of a store share: its time, the ends of its logs, the numbers of its names.

use crate::{
    Options,
    depths::Depths,
    known::Known,
    layout::{Layout, read_info},
    location::Location,
    moment::{self, later},
    operation::Wakes,
    reserve::Reserve,
    sweep::{self, Sweeps},
    witness::Witness,
    writer::{Chore, Engine},
};
use highwater_core::{Clock, ETag, EngineError, Name, Timestamp, Version, Waker, failpoint};
use rusqlite::Connection;
use std::{collections::HashMap, sync::Arc, time::Duration};

pub(crate) struct StoreEngine {
    pub(crate) layout: Arc<Layout>,
    /// What reads on the writer's connection remember.
    pub(crate) known: Known,
    location: Location,
    clock: Arc<dyn Clock>,
    wakers: (Waker, Waker),
    /// SQLite's count of commits by other connections, when the values below were read.
    data_version: Option<i64>,
    /// The store's time when it was last written, and the time of the group that runs.
    moment: i64,
    now: i64,
    /// The machine's steady clock when `now` was found.
    steady: Duration,
    reserve: Option<Reserve>,
    witness: Option<Witness>,
    /// The last position given in each log; absent until it is read.
    ends: Vec<Option<i64>>,
    touched: Vec<u16>,
    containers: HashMap<Name, i64>,
    queues: HashMap<Name, i64>,
    /// How many messages each queue holds.
    pub(crate) depths: Depths,
    /// How long commands and ids of messages are remembered; `None` for ever.
    pub(crate) horizon: Option<Duration>,
    pub(crate) sweeps: Sweeps,
}

impl StoreEngine {
    pub(crate) fn new(
        layout: Arc<Layout>,
        location: Location,
        clock: Arc<dyn Clock>,
        options: &Options,
        wakers: (Waker, Waker),
    ) -> Self {
        let partitions = usize::from(layout.info.partitions);
        let file = Some(location.shown()).filter(|_| !location.in_memory());
        let (reserve, durable) = (file.map(Reserve::of), location.durable_file());
        let witness = durable.map(|file| Witness::of(file, layout.info));
        Self {
            layout,
            known: Known::default(),
            location,
            wakers,
            data_version: None,
            moment: 0,
            now: 0,
            steady: clock.monotonic(),
            reserve,
            witness,
            clock,
            ends: vec![None; partitions],
            touched: Vec::new(),
            containers: HashMap::new(),
            queues: HashMap::new(),
            depths: Depths::default(),
            horizon: options.limits.horizon,
            sweeps: Sweeps::default(),
        }
    }

    /// The store's time, the same for a whole group.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now)
    }

    /// The store's time outside of a group.
    pub(crate) fn clock_now(&self) -> i64 {
        self.clock.now().as_micros().max(self.moment)
    }

    /// A command or an id was recorded that is forgotten after the horizon.
    pub(crate) fn note_remembered(&mut self) {
        if let Some(horizon) = self.horizon {
            self.sweeps.note(Some(moment::later(self.now(), horizon)));
        }
    }

    pub(crate) fn etag(&self, version: Version) -> ETag {
        ETag { epoch: self.layout.info.epoch, version }
    }

    /// The last position given in a log.
    pub(crate) fn end(&mut self, connection: &Connection, partition: u16) -> rusqlite::Result<i64> {
        if let Some(Some(end)) = self.ends.get(usize::from(partition)) {
            return Ok(*end);
        }
        let end = connection
            .prepare_cached("SELECT last FROM partition WHERE partition = ?1")?
            .query_row([partition], |row| row.get(0))?;
        if let Some(slot) = self.ends.get_mut(usize::from(partition)) {
            *slot = Some(end);
        }
        Ok(end)
    }

    /// Gives out positions up to `end`; written when the group ends.
    pub(crate) fn advance(&mut self, partition: u16, end: i64) {
        if let Some(slot) = self.ends.get_mut(usize::from(partition)) {
            *slot = Some(end);
        }
        if !self.touched.contains(&partition) {
            self.touched.push(partition);
        }
    }

    /// The number of a container; `None` while it has none.
    pub(crate) fn container(
        &mut self,
        connection: &Connection,
        name: &Name,
    ) -> rusqlite::Result<Option<i64>> {
        if let Some(id) = self.containers.get(name) {
            return Ok(Some(*id));
        }
        let id = Known::container_id(connection, name)?;
        if let Some(id) = id {
            self.containers.insert(name.clone(), id);
        }
        Ok(id)
    }

    /// The number of a container, which gets one if it has none.
    pub(crate) fn container_or_new(&mut self, connection: &Connection, name: &Name) -> rusqlite::Result<i64> {
        if let Some(id) = self.container(connection, name)? {
            return Ok(id);
        }
        connection.prepare_cached("INSERT INTO container (name) VALUES (?1)")?.execute([name.as_str()])?;
        let id = connection.last_insert_rowid();
        self.containers.insert(name.clone(), id);
        Ok(id)
    }

    /// The number of a queue; `None` while it has none.
    pub(crate) fn queue(&mut self, connection: &Connection, name: &Name) -> rusqlite::Result<Option<i64>> {
        if let Some(id) = self.queues.get(name) {
            return Ok(Some(*id));
        }
        let id = Known::queue_id(connection, name)?;
        if let Some(id) = id {
            self.queues.insert(name.clone(), id);
        }
        Ok(id)
    }

    /// Gives a queue its number.
    pub(crate) fn add_queue(&mut self, connection: &Connection, name: &Name) -> rusqlite::Result<i64> {
        connection.prepare_cached("INSERT INTO queue (name) VALUES (?1)")?.execute([name.as_str()])?;
        let id = connection.last_insert_rowid();
        self.queues.insert(name.clone(), id);
        Ok(id)
    }
}

impl Engine for StoreEngine {
    const NAME: &'static str = "store";
    const BEFORE_COMMIT: &'static str = "sqlite.commit.before";
    const AFTER_COMMIT: &'static str = "sqlite.commit.after";

    fn reconnect(&self) -> Result<Option<Connection>, EngineError> {
        let ours = |connection: &Connection| read_info(connection).is_ok_and(|info| info == self.layout.info);
        self.location.reconnect(ours)
    }

    fn begin(&mut self, connection: &Connection, version: i64) -> rusqlite::Result<()> {
        if self.data_version != Some(version) {
            self.forget();
            self.moment = moment::stored(connection)?;
            self.data_version = Some(version);
        }
        // A clock that was set back while nobody had the store open, by an hour, must not stop the store's time for an
        // hour: timers go on.
        let steady = self.clock.monotonic();
        let went_on = later(self.now(), steady.saturating_sub(self.steady));
        self.now = self.clock.now().as_micros().max(self.moment).max(went_on);
        self.steady = steady;
        if failpoint::sabotaged("time-backwards") {
            self.now = self.clock.now().as_micros() - fastrand::i64(0..1_000_000);
        }
        Ok(())
    }

    fn finish(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        for partition in std::mem::take(&mut self.touched) {
            let end = self.end(connection, partition)?;
            connection
                .prepare_cached("UPDATE partition SET last = ?2 WHERE partition = ?1")?
                .execute([i64::from(partition), end])?;
        }
        self.depths.store(connection)?;
        if self.now > self.moment {
            moment::store(connection, self.now)?;
            self.moment = self.now;
        }
        Ok(())
    }

    fn committed(&mut self) {
        if let Some(witness) = &mut self.witness {
            witness.write(self.moment);
        }
    }

    fn admit(&mut self) -> Result<(), EngineError> {
        self.reserve.as_mut().map_or(Ok(()), Reserve::admit)
    }

    fn make_room(&mut self, certain: bool) -> bool {
        self.reserve.as_mut().is_some_and(|reserve| (certain || reserve.is_needed()) && reserve.release())
    }

    fn is_short(&self) -> bool {
        self.reserve.as_ref().is_some_and(Reserve::is_spent)
    }

    fn chore(&mut self, connection: &Connection) -> rusqlite::Result<Option<Chore<Self>>> {
        sweep::chore(connection, self)
    }

    fn forget(&mut self) {
        self.data_version = None;
        self.ends.fill(None);
        self.touched.clear();
        self.containers.clear();
        self.queues.clear();
        self.depths = Depths::default();
        self.known = Known::default();
    }

    fn wake(&self, wakes: Wakes) {
        if wakes.store {
            self.wakers.0.wake();
        }
        if wakes.queue {
            self.wakers.1.wake();
        }
    }
}
