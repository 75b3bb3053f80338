use crate::{
    OpenError, Options, cells,
    commit::{self, Commit},
    engine::StoreEngine,
    feed, item,
    known::Known,
    layout::{Layout, read_info},
    location::Location,
    moment,
    operation::{Simple, Wakes},
    options::check,
    poison, queue, queue_reads,
    readers::{Readers, StartError, in_transaction},
    schema::{STORE, create_log, create_log_view},
    watch::Watch,
    witness,
    writer::Writer,
};
use async_trait::async_trait;
use highwater_core::{
    Batch, Cell, CellError, CellKey, CellWrite, Cells, Change, ChangePage, ChangeRequest, Clock, CommandId,
    CommitError, Committed, Decided, Delivery, Depth, ETag, EngineError, Expect, FeedError, GetError, Item,
    ItemKey, Limits, Lineage, Message, MessageId, Name, NewMessage, Parked, Parking, Partition, PartitionKey,
    Position, Put, PutError, Queue, ReadError, Receipt, ReceiptError, ReplayError, Store, StoreId, StoreInfo,
    Timestamp, Token, Update, Version, Waiting, Wake, Waker,
};
use rusqlite::{Connection, config::DbConfig};
use std::{path::Path, sync::Arc, time::Duration};

/// A store, its queues and its cells in one SQLite file.
///
/// Dropping the last reference finishes the work that was handed over, moves the write-ahead log into the file
/// and closes it, waiting at most half a second; [`Sqlite::close`] waits as long as it takes.
pub struct Sqlite {
    layout: Arc<Layout>,
    limits: Limits,
    clock: Arc<dyn Clock>,
    /// Absent in memory.
    path: Option<std::path::PathBuf>,
    store_waker: Waker,
    queue_waker: Waker,
    watch: Option<Watch>,
    /// Before the writer, so that the readers' connections close first and the last one moves the log.
    readers: Option<Readers<Known>>,
    writer: Writer<StoreEngine>,
}

impl std::fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sqlite").field("info", &self.layout.info).finish_non_exhaustive()
    }
}

impl Sqlite {
    /// Opens the store in a file; makes the file, and its folder, if they are not there.
    ///
    /// # Errors
    /// [`OpenError`], one line that names the file and the way out.
    pub fn open(
        path: impl AsRef<Path>,
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, OpenError> {
        Self::at(Location::file(path.as_ref(), &options), options, clock)
    }

    /// A fresh store in memory, gone with its last reference.
    ///
    /// # Errors
    /// [`OpenError`] when an option is out of its range.
    pub fn in_memory(options: Options, clock: Arc<dyn Clock>) -> Result<Arc<Self>, OpenError> {
        Self::at(Location::Memory, options, clock)
    }

    fn at(location: Location, options: Options, clock: Arc<dyn Clock>) -> Result<Arc<Self>, OpenError> {
        check(&options)?;
        let clock: Arc<dyn Clock> = Arc::new(moment::Forward::new(clock));
        let now = clock.now().as_micros();
        let existed = location.shown().exists();
        if !existed {
            // What was here was removed on purpose. If making the next store is cut short, the old witness would
            // accuse it.
            if let Some(database) = location.durable_file() {
                witness::remove(database);
            }
        }
        let witnessed = location.durable_file().and_then(witness::read);
        let lost = || OpenError::LostWrites { path: location.shown().display().to_string() };
        let mut was_emptied = false;
        let opened = STORE.open(&location, |connection| {
            // A database without a schema, with a witness, is what is left without its log.
            was_emptied = witnessed.is_some();
            if was_emptied {
                return Err(rusqlite::Error::QueryReturnedNoRows);
            }
            create(connection, options.partitions, now)
        });
        let connection = opened.map_err(|error| if was_emptied { lost() } else { error })?;
        let failed = |error: rusqlite::Error| OpenError::from_sqlite(location.shown(), &error);
        let layout = Arc::new(Layout::read(&connection).map_err(failed)?);
        if let Some((store, moment)) = witnessed
            && store == witness::bytes_of(&layout.info)
            && moment > moment::stored(&connection).map_err(failed)?
        {
            // What is left of the log stays where it is, for whoever looks into it.
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed)?;
            return Err(lost());
        }
        let not_started = |error: StartError| error.of(location.shown());
        let info = layout.info;
        let ours = move |connection: &Connection| read_info(connection).is_ok_and(|found| found == info);
        let readers = Readers::start("store", &location, options.readers, ours).map_err(not_started)?;
        let waiting = Waiting::default();
        let (store_waker, queue_waker) = (Waker::counted(&waiting), Waker::counted(&waiting));
        let wakers = (store_waker.clone(), queue_waker.clone());
        let watched = vec![store_waker.clone(), queue_waker.clone()];
        let watch = Watch::start("store", &location, &waiting, watched).map_err(not_started)?;
        let engine =
            StoreEngine::new(Arc::clone(&layout), location.clone(), Arc::clone(&clock), &options, wakers);
        let writer = Writer::start(connection, engine)
            .map_err(|error| OpenError::other(location.shown(), error.to_string()))?;
        let limits = options.limits;
        let path = (!location.in_memory()).then(|| location.shown().to_owned());
        Ok(Arc::new(Self { layout, limits, clock, path, store_waker, queue_waker, watch, readers, writer }))
    }

    /// Finishes the work that was handed over, moves the write-ahead log into the file and closes it. What is
    /// asked of the store from then on is refused as [`Closed`](highwater_core::FailureKind::Closed).
    pub async fn close(&self) {
        if let Some(watch) = &self.watch {
            watch.close().await;
        }
        if let Some(readers) = &self.readers {
            readers.close().await;
        }
        self.writer.close().await;
    }

    pub(crate) fn path(&self) -> Option<std::path::PathBuf> {
        self.path.clone()
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    /// Writes something that is done in a few statements.
    async fn write_one<T, R>(
        &self,
        kind: &'static str,
        wakes: Wakes,
        run: impl FnMut(&Connection, &mut StoreEngine) -> rusqlite::Result<Result<T, R>> + Send + 'static,
    ) -> Result<T, R>
    where
        T: Send + 'static,
        R: From<EngineError> + Send + 'static,
    {
        self.write_sized(kind, wakes, 0, run).await
    }

    /// Writes something of about this many bytes.
    async fn write_sized<T, R>(
        &self,
        kind: &'static str,
        wakes: Wakes,
        bytes: usize,
        run: impl FnMut(&Connection, &mut StoreEngine) -> rusqlite::Result<Result<T, R>> + Send + 'static,
    ) -> Result<T, R>
    where
        T: Send + 'static,
        R: From<EngineError> + Send + 'static,
    {
        self.writer.write(Simple { kind, wakes, bytes, run }).await
    }

    async fn read<T, R>(
        &self,
        read: impl FnOnce(&Connection, &mut Known) -> rusqlite::Result<Result<T, R>> + Send + 'static,
    ) -> Result<T, R>
    where
        T: Send + 'static,
        R: From<EngineError> + Send + 'static,
    {
        match &self.readers {
            Some(readers) => readers.read(read).await,
            None => {
                let read = move |connection: &Connection, engine: &mut StoreEngine| {
                    in_transaction(connection, |connection| read(connection, &mut engine.known))
                };
                self.writer.read(read).await
            }
        }
    }
}

/// Fills a new store.
fn create(connection: &Connection, partitions: u16, now: i64) -> rusqlite::Result<()> {
    let id = StoreId::random().0.into_bytes();
    connection.execute(
        "INSERT INTO meta (one, store, epoch, partitions, created_at, cell_floor) VALUES (1, ?1, 1, ?2, ?3, 0)",
        (id, partitions, now),
    )?;
    connection.execute("INSERT INTO moment (one, last) VALUES (1, ?1)", [now])?;
    for partition in 0..partitions {
        create_log(connection, partition)?;
    }
    create_log_view(connection, partitions)
}

#[async_trait]
impl Store for Sqlite {
    fn info(&self) -> StoreInfo {
        self.layout.info
    }

    fn lineage(&self) -> Lineage {
        self.layout.lineage.clone()
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, CommitError> {
        batch.check(&self.limits)?;
        self.writer.write(Commit::new(batch, &self.layout.info)).await
    }

    async fn item(&self, key: &ItemKey) -> Result<Option<Item>, ReadError> {
        let (key, layout, now) = (key.clone(), Arc::clone(&self.layout), self.clock.now());
        self.read(move |connection, known| item::item(connection, known, &layout, &key, now).map(Ok)).await
    }

    async fn history(
        &self,
        key: &ItemKey,
        before: Option<Version>,
        max: usize,
    ) -> Result<Vec<Change>, ReadError> {
        let (key, layout) = (key.clone(), Arc::clone(&self.layout));
        self.read(move |connection, known| {
            item::history(connection, known, &layout, &key, before, max).map(Ok)
        })
        .await
    }

    async fn decided(&self, key: &PartitionKey, command: CommandId) -> Result<Option<Decided>, ReadError> {
        let (key, layout) = (key.clone(), Arc::clone(&self.layout));
        self.read(move |connection, _| {
            commit::decided(connection, layout.log_of(&key)?, &layout.info, &key, command).map(Ok)
        })
        .await
    }

    async fn changes(&self, request: &ChangeRequest) -> Result<ChangePage, FeedError> {
        let (request, layout, now) = (request.clone(), Arc::clone(&self.layout), self.clock.now());
        self.read(move |connection, known| feed::changes(connection, known, &layout, &request, now)).await
    }

    async fn position_before(
        &self,
        partition: Partition,
        at: Timestamp,
    ) -> Result<Option<Position>, FeedError> {
        let (layout, partitions) = (Arc::clone(&self.layout), self.layout.info.partitions);
        if partition.0 >= partitions {
            return Err(FeedError::NoPartition { asked: partition.0, partitions });
        }
        self.read(move |connection, _| feed::position_before(connection, layout.log(partition)?, at).map(Ok))
            .await
    }

    async fn head(&self) -> Result<Token, ReadError> {
        let info = self.layout.info;
        self.read(move |connection, _| feed::head(connection, &info).map(Ok)).await
    }

    fn wake(&self) -> Wake {
        self.store_waker.subscribe()
    }
}

#[async_trait]
impl Queue for Sqlite {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn put(&self, queue: &Name, message: NewMessage) -> Result<Put, PutError> {
        queue::check_put(&message, &self.limits)?;
        let queue = queue.clone();
        self.write_sized("put", Wakes::QUEUE, message.body.len(), move |connection, engine| {
            queue::put(connection, engine, &queue, &message)
        })
        .await
    }

    async fn get(&self, queue: &Name, max: usize, visibility: Duration) -> Result<Vec<Delivery>, GetError> {
        queue::check_get(max, Some(visibility), &self.limits)?;
        let queue = queue.clone();
        self.write_one("get", Wakes::NOBODY, move |connection, engine| {
            queue::get(connection, engine, &queue, max, visibility).map(Ok)
        })
        .await
    }

    async fn peek(&self, queue: &Name, max: usize) -> Result<Vec<Message>, GetError> {
        queue::check_get(max, None, &self.limits)?;
        let (queue, now) = (queue.clone(), self.clock.now());
        self.read(move |connection, _| {
            let Some(number) = Known::queue_id(connection, &queue)? else { return Ok(Ok(Vec::new())) };
            queue_reads::peek(connection, number, moment::seen(connection, now)?, max).map(Ok)
        })
        .await
    }

    async fn update(&self, receipt: &Receipt, update: Update) -> Result<Receipt, ReceiptError> {
        queue::check_update(&update, &self.limits)?;
        let receipt = receipt.clone();
        self.write_one("update", Wakes::QUEUE, move |connection, engine| {
            queue::update(connection, engine, &receipt, &update)
        })
        .await
    }

    async fn delete(&self, receipt: &Receipt) -> Result<(), ReceiptError> {
        let receipt = receipt.clone();
        self.write_one("delete", Wakes::NOBODY, move |connection, engine| {
            queue::delete(connection, engine, &receipt)
        })
        .await
    }

    async fn park(&self, receipt: &Receipt, parking: Parking) -> Result<(), ReceiptError> {
        let receipt = receipt.clone();
        self.write_one("park", Wakes::NOBODY, move |connection, engine| {
            poison::park(connection, engine, &receipt, &parking)
        })
        .await
    }

    async fn message(&self, queue: &Name, message: MessageId) -> Result<Option<Message>, GetError> {
        let (queue, now) = (queue.clone(), self.clock.now());
        self.read(move |connection, _| {
            let Some(number) = Known::queue_id(connection, &queue)? else { return Ok(Ok(None)) };
            queue_reads::one(connection, number, message, moment::seen(connection, now)?).map(Ok)
        })
        .await
    }

    async fn parked(
        &self,
        queue: &Name,
        after: Option<MessageId>,
        max: usize,
    ) -> Result<Vec<Parked>, GetError> {
        let queue = queue.clone();
        self.read(move |connection, _| {
            let Some(number) = Known::queue_id(connection, &queue)? else { return Ok(Ok(Vec::new())) };
            poison::parked_after(connection, number, after, max).map(Ok)
        })
        .await
    }

    async fn parked_message(&self, queue: &Name, message: MessageId) -> Result<Option<Parked>, GetError> {
        let queue = queue.clone();
        self.read(move |connection, _| {
            let Some(number) = Known::queue_id(connection, &queue)? else { return Ok(Ok(None)) };
            Ok(Ok(poison::parked_row(connection, number, message)?.map(|(parked, _)| parked)))
        })
        .await
    }

    async fn replay(&self, queue: &Name, message: MessageId) -> Result<(), ReplayError> {
        let queue = queue.clone();
        self.write_one("replay", Wakes::QUEUE, move |connection, engine| {
            poison::replay(connection, engine, &queue, message)
        })
        .await
    }

    async fn discard(&self, queue: &Name, message: MessageId) -> Result<(), ReplayError> {
        let queue = queue.clone();
        self.write_one("discard", Wakes::NOBODY, move |connection, engine| {
            poison::discard(connection, engine, &queue, message)
        })
        .await
    }

    async fn clear(&self, queue: &Name) -> Result<u64, GetError> {
        let queue = queue.clone();
        self.write_one("clear", Wakes::NOBODY, move |connection, engine| {
            queue::clear(connection, engine, &queue).map(Ok)
        })
        .await
    }

    async fn depth(&self, queue: &Name) -> Result<Depth, GetError> {
        let (queue, now) = (queue.clone(), self.clock.now());
        self.read(move |connection, _| {
            let Some(number) = Known::queue_id(connection, &queue)? else { return Ok(Ok(Depth::default())) };
            queue_reads::depth(connection, number, moment::seen(connection, now)?).map(Ok)
        })
        .await
    }

    fn wake(&self) -> Wake {
        self.queue_waker.subscribe()
    }
}

#[async_trait]
impl Cells for Sqlite {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn read(&self, key: &CellKey) -> Result<Option<Cell>, ReadError> {
        let (key, info, now) = (key.clone(), self.layout.info, self.clock.now());
        self.read(move |connection, _| cells::read(connection, &info, &key, now).map(Ok)).await
    }

    async fn write(&self, write: CellWrite) -> Result<ETag, CellError> {
        cells::check(&write.key, &write.value, &self.limits)?;
        cells::check_life(write.time_to_live, &self.limits)?;
        self.write_sized("cell", Wakes::NOBODY, write.value.as_bytes().len(), move |connection, engine| {
            cells::write(connection, engine, &write)
        })
        .await
    }

    async fn delete(&self, key: &CellKey, expect: Expect) -> Result<(), CellError> {
        cells::check_key(key, &self.limits)?;
        let key = key.clone();
        self.write_one("cell-delete", Wakes::NOBODY, move |connection, engine| {
            cells::delete(connection, engine, &key, expect)
        })
        .await
    }

    async fn list(&self, space: &Name, after: Option<&str>, max: usize) -> Result<Vec<Cell>, ReadError> {
        let (space, after, info) = (space.clone(), after.map(str::to_owned), self.layout.info);
        let now = self.clock.now();
        self.read(move |connection, _| {
            cells::list(connection, &info, &space, after.as_deref(), max, now).map(Ok)
        })
        .await
    }
}
