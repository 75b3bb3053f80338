use crate::{OpenError, Options, Sqlite, SqliteViews};
use highwater_core::{Backend, Clock, Store};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Opens a store and the view store beside it, making what is not there yet: what follows `sqlite:` in a URL.
///
/// `booking.db` has its views in `booking.views.db`; `:memory:` has both in memory, gone with the last reference.
/// Options may follow a question mark and then count instead of those given: `booking.db?partitions=64&readers=4`.
/// They are `partitions`, `synchronous` (`full` or `normal`), `readers` and `horizon` (`30d`, `36h` or seconds); see
/// [`Options`].
///
/// # Errors
/// [`OpenError`], one line that names the file and the way out.
pub fn open(url_path: &str, options: Options, clock: Arc<dyn Clock>) -> Result<Backend, OpenError> {
    let (url_path, query) = url_path.split_once('?').unwrap_or((url_path, ""));
    let options = options.with_query(query)?;
    let (store, views) = if url_path == ":memory:" {
        (Sqlite::in_memory(options.clone(), clock)?, SqliteViews::in_memory(options)?)
    } else {
        // What looks like memory misspelt, or like nothing, is not taken for a file's name.
        if url_path.is_empty() || url_path.starts_with(':') {
            return Err(OpenError::NoPath { path: url_path.into() });
        }
        let store = Sqlite::open(url_path, options.clone(), clock)?;
        let path = Path::new(url_path);
        let views = SqliteViews::beside(store.info().id, path, &views_path(path), options)?;
        (store, views)
    };
    Ok(Backend { store: store.clone(), queue: store.clone(), cells: store, views })
}

/// `booking.db` → `booking.views.db`; a name without extension gets `.views.db`.
fn views_path(store: &Path) -> PathBuf {
    let extension = store.extension().map_or("db".into(), |extension| extension.to_string_lossy());
    store.with_extension(format!("views.{extension}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_core::{Epoch, Name, Partition, Timestamp, ViewName, ViewSlot, ViewStore, async_trait};
    use std::time::Duration;

    struct Stopped;

    #[async_trait]
    impl Clock for Stopped {
        fn now(&self) -> Timestamp {
            Timestamp::from_micros(0)
        }
        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }
        async fn sleep(&self, _: Duration) {}
    }

    fn open_at(path: &str) -> Result<Backend, OpenError> {
        open(path, Options::default(), Arc::new(Stopped))
    }

    #[test]
    fn a_url_that_names_no_file_is_refused_and_nothing_is_made() {
        for path in ["", ":memory", ":", "?readers=2"] {
            let error = open_at(path).unwrap_err().to_string();
            assert!(error.contains("sqlite::memory:"), "{error}");
        }
        assert!(open_at(":memory:").is_ok());
    }

    #[tokio::test]
    async fn views_of_another_store_are_refused_with_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db").display().to_string();
        let first = open_at(&path).unwrap();
        let view = ViewName { name: Name::new("month").unwrap(), generation: 1 };
        let slot = ViewSlot { view, store: first.store.info().id, partition: Partition(0) };
        ViewStore::claim(&*first.views, &slot, Epoch(1)).await.unwrap();
        drop(first);
        assert!(open_at(&path).is_ok());
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{path}{end}"));
        }
        let error = open_at(&path).unwrap_err().to_string();
        assert!(error.contains("a.views.db holds the views of another store"), "{error}");
    }

    #[test]
    fn the_views_lie_beside_the_store() {
        for (store, views) in [
            ("booking.db", "booking.views.db"),
            ("/a.b/booking", "/a.b/booking.views.db"),
            ("x/y.z.sqlite", "x/y.z.views.sqlite"),
        ] {
            assert_eq!(views_path(Path::new(store)), Path::new(views));
        }
    }
}
