use crate::{
    OpenError, Options,
    location::Location,
    operation::{Simple, Wakes},
    options::check,
    readers::{Readers, StartError, in_transaction},
    reserve::Reserve,
    schema::VIEWS,
    views,
    watch::Watch,
    writer::{Engine, Writer},
};
use async_trait::async_trait;
use highwater_core::{
    Claim, Document, DocumentKey, EngineError, Epoch, Limits, Lineage, Reached, ReadError, StoreId,
    ViewBatch, ViewName, ViewReached, ViewSlot, ViewStore, ViewWriteError, Waiting, Wake, Waker,
};
use rusqlite::Connection;
use std::{path::Path, sync::Arc};

/// The documents of views in a SQLite file of their own, so that a rebuild never touches the log.
///
/// It is dropped and closed as [`Sqlite`](crate::Sqlite) is.
pub struct SqliteViews {
    limits: Limits,
    waker: Waker,
    watch: Option<Watch>,
    readers: Option<Readers<()>>,
    writer: Writer<ViewEngine>,
}

impl std::fmt::Debug for SqliteViews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteViews").finish_non_exhaustive()
    }
}

/// Groups of a view store share nothing but their transaction.
struct ViewEngine {
    location: Location,
    waker: Waker,
    /// Of the store beside it: while that has given its reserve back, views must not eat it up.
    reserve: Option<Reserve>,
}

impl Engine for ViewEngine {
    const NAME: &'static str = "views";
    const BEFORE_COMMIT: &'static str = "sqlite.views.commit.before";
    const AFTER_COMMIT: &'static str = "sqlite.views.commit.after";

    fn reconnect(&self) -> Result<Option<Connection>, EngineError> {
        self.location.reconnect(|connection| VIEWS.is(connection))
    }

    fn begin(&mut self, _: &Connection, _: i64) -> rusqlite::Result<()> {
        Ok(())
    }

    fn finish(&mut self, _: &Connection) -> rusqlite::Result<()> {
        Ok(())
    }

    fn forget(&mut self) {}

    fn admit(&mut self) -> Result<(), EngineError> {
        self.reserve.as_mut().map_or(Ok(()), Reserve::admit)
    }

    fn wake(&self, wakes: Wakes) {
        if wakes.views {
            self.waker.wake();
        }
    }
}

impl SqliteViews {
    /// Opens the view store in a file; makes the file, and its folder, if they are not there.
    ///
    /// Of the options it heeds `synchronous`, `readers` and `limits`.
    ///
    /// # Errors
    /// [`OpenError`], one line that names the file and the way out.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Arc<Self>, OpenError> {
        Self::at(Location::file(path.as_ref(), &options), options, None).map_err(OpenError::of_views)
    }

    /// Opens the view store that lies beside a store, and refuses one that follows another.
    pub(crate) fn beside(
        store: StoreId,
        store_path: &Path,
        path: &Path,
        options: Options,
    ) -> Result<Arc<Self>, OpenError> {
        let location = Location::file(path, &options);
        Self::at(location, options, Some((store, Reserve::of(store_path)))).map_err(OpenError::of_views)
    }

    /// A fresh view store in memory, gone with its last reference.
    ///
    /// # Errors
    /// [`OpenError`] when an option is out of its range.
    pub fn in_memory(options: Options) -> Result<Arc<Self>, OpenError> {
        Self::at(Location::Memory, options, None)
    }

    fn at(
        location: Location,
        options: Options,
        store: Option<(StoreId, Reserve)>,
    ) -> Result<Arc<Self>, OpenError> {
        check(&options)?;
        let connection = VIEWS.open(&location, |_| Ok(()))?;
        let (store, reserve) = store.unzip();
        if let Some(store) = store {
            let other = views::follows_another(&connection, store)
                .map_err(|error| OpenError::from_sqlite(location.shown(), &error))?;
            if other {
                return Err(OpenError::OtherStore { path: location.shown().display().to_string() });
            }
        }
        let not_started = |error: StartError| error.of(location.shown());
        let readers = Readers::start("views", &location, options.readers, |file| VIEWS.is(file))
            .map_err(not_started)?;
        let waiting = Waiting::default();
        let waker = Waker::counted(&waiting);
        let watch = Watch::start("views", &location, &waiting, vec![waker.clone()]).map_err(not_started)?;
        let engine = ViewEngine { location: location.clone(), waker: waker.clone(), reserve };
        let writer = Writer::start(connection, engine)
            .map_err(|error| OpenError::other(location.shown(), error.to_string()))?;
        Ok(Arc::new(Self { limits: options.limits, waker, watch, readers, writer }))
    }

    /// Finishes the work that was handed over, moves the write-ahead log into the file and closes it.
    pub async fn close(&self) {
        if let Some(watch) = &self.watch {
            watch.close().await;
        }
        if let Some(readers) = &self.readers {
            readers.close().await;
        }
        self.writer.close().await;
    }

    async fn write_one<T: Send + 'static>(
        &self,
        kind: &'static str,
        wakes: Wakes,
        mut run: impl FnMut(&Connection) -> rusqlite::Result<Result<T, ViewWriteError>> + Send + 'static,
    ) -> Result<T, ViewWriteError> {
        let run = move |connection: &Connection, _: &mut ViewEngine| run(connection);
        self.writer.write(Simple { kind, wakes, bytes: 0, run }).await
    }

    async fn read<T, R>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<Result<T, R>> + Send + 'static,
    ) -> Result<T, R>
    where
        T: Send + 'static,
        R: From<EngineError> + Send + 'static,
    {
        match &self.readers {
            Some(readers) => readers.read(move |connection, ()| read(connection)).await,
            None => self.writer.read(move |connection, _| in_transaction(connection, read)).await,
        }
    }
}

#[async_trait]
impl ViewStore for SqliteViews {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn claim(&self, slot: &ViewSlot, store_epoch: Epoch) -> Result<Claim, ViewWriteError> {
        let slot = slot.clone();
        self.write_one("claim", Wakes::NOBODY, move |connection| views::claim(connection, &slot, store_epoch))
            .await
    }

    async fn adopt(&self, slot: &ViewSlot, claim: Claim, lineage: &Lineage) -> Result<Claim, ViewWriteError> {
        let (slot, lineage) = (slot.clone(), lineage.clone());
        let adopt = move |connection: &Connection| views::adopt(connection, &slot, claim, &lineage);
        self.write_one("adopt", Wakes::VIEWS, adopt).await
    }

    async fn clear(
        &self,
        slot: &ViewSlot,
        claim: Claim,
        until: &Reached,
        reason: &str,
    ) -> Result<Claim, ViewWriteError> {
        let (slot, until, reason) = (slot.clone(), until.clone(), reason.to_owned());
        let clear = move |connection: &Connection| views::clear(connection, &slot, claim, &until, &reason);
        self.write_one("clear", Wakes::VIEWS, clear).await
    }

    async fn write(&self, batch: ViewBatch) -> Result<(), ViewWriteError> {
        batch.check(&self.limits)?;
        self.write_one("view", Wakes::VIEWS, move |connection| views::write(connection, &batch)).await
    }

    async fn documents(
        &self,
        view: &ViewName,
        keys: &[DocumentKey],
    ) -> Result<Vec<Option<Document>>, ReadError> {
        let (view, keys) = (view.clone(), keys.to_vec());
        self.read(move |connection| views::documents(connection, &view, &keys).map(Ok)).await
    }

    async fn document(
        &self,
        view: &ViewName,
        store: StoreId,
        key: &str,
    ) -> Result<(Option<Document>, Option<ViewReached>), ReadError> {
        let (view, key) = (view.clone(), key.to_owned());
        self.read(move |connection| views::document_and_reached(connection, &view, store, &key).map(Ok)).await
    }

    async fn list(
        &self,
        view: &ViewName,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<Document>, ReadError> {
        let (view, after) = (view.clone(), after.map(str::to_owned));
        self.read(move |connection| views::list(connection, &view, after.as_deref(), max).map(Ok)).await
    }

    async fn reached(&self, view: &ViewName, store: StoreId) -> Result<Option<ViewReached>, ReadError> {
        let view = view.clone();
        self.read(move |connection| views::reached(connection, &view, store).map(Ok)).await
    }

    fn wake(&self) -> Wake {
        self.waker.subscribe()
    }
}
