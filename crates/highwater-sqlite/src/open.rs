use crate::{OpenError, Options, Sqlite, SqliteViews};
use highwater_core::{Backend, Clock};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Opens a store and the view store beside it, making what is not there yet: what follows `sqlite:` in a URL.
///
/// `booking.db` has its views in `booking.views.db`; `:memory:` has both in memory, gone with the last reference.
/// Options may follow a question mark and then count instead of those given: `booking.db?partitions=64&readers=4`.
/// They are `partitions`, `synchronous` (`full` or `normal`) and `readers`; see [`Options`].
///
/// # Errors
/// [`OpenError`], one line that names the file and the way out.
pub fn open(url_path: &str, options: Options, clock: Arc<dyn Clock>) -> Result<Backend, OpenError> {
    let (url_path, query) = url_path.split_once('?').unwrap_or((url_path, ""));
    let options = options.with_query(query)?;
    let (store, views) = if url_path == ":memory:" {
        (Sqlite::in_memory(options.clone(), clock)?, SqliteViews::in_memory(options)?)
    } else {
        let store = Sqlite::open(url_path, options.clone(), clock)?;
        (store, SqliteViews::open(views_path(Path::new(url_path)), options)?)
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
