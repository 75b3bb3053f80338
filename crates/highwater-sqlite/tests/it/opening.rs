use crate::support::{HandClock, open, options, put};
use highwater_core::{Expect, Limits, Store};
use highwater_sqlite::{OpenError, Sqlite, SqliteViews};
use std::{fs, path::Path};

fn refused(path: &Path) -> OpenError {
    Sqlite::open(path, options(), HandClock::at(0)).unwrap_err()
}

/// One line, lower case unless it begins with the path, naming the file.
fn is_clear(error: &OpenError, path: &Path) -> bool {
    let text = error.to_string();
    !text.contains('\n') && text.contains(&path.display().to_string())
}

#[tokio::test]
async fn a_damaged_file_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    for content in [
        &b"not a database, but long enough to have a header of one hundred bytes .............."[..],
        b"x",
        &[0x53; 5_000],
    ] {
        fs::write(&path, content).unwrap();
        let error = refused(&path);
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
        assert!(is_clear(&error, &path), "{error}");
        assert_eq!(fs::read(&path).unwrap(), content);
    }
}

#[tokio::test]
async fn a_damaged_file_of_views_is_refused_as_something_that_can_be_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.views.db");
    fs::write(&path, "no database").unwrap();
    let error = SqliteViews::open(&path, options()).unwrap_err();
    assert!(
        is_clear(&error, &path) && error.to_string().contains("delete it, views are built again"),
        "{error}"
    );
}

#[tokio::test]
async fn a_file_damaged_behind_its_header_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = open(&path);
    store.commit(put("a", "1", Expect::Any)).await.unwrap();
    store.close().await;
    drop(store);
    let mut bytes = fs::read(&path).unwrap();
    bytes[100..8_000].fill(0xA5);
    fs::write(&path, bytes).unwrap();
    let error = refused(&path);
    assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
    assert!(error.to_string().contains("malformed"), "{error}");
}

#[tokio::test]
async fn another_applications_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("photos.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE photo (id)").unwrap();
    let before = fs::read(&path).unwrap();
    let error = refused(&path);
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    assert!(is_clear(&error, &path), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn a_view_store_is_not_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    drop(SqliteViews::open(&path, options()).unwrap());
    let error = refused(&path);
    assert!(error.to_string().contains("it is a Highwater view store"), "{error}");
}

#[tokio::test]
async fn a_file_of_a_later_program_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    open(&path).close().await;
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = refused(&path);
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error}");
}

#[tokio::test]
async fn an_unusable_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    let error = refused(&file.join("store.db"));
    assert!(matches!(error, OpenError::Folder { .. }), "{error}");
    assert!(is_clear(&error, &file), "{error}");
    let error = refused(folder.path());
    assert!(matches!(error, OpenError::File { .. }), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_folder_or_file_without_the_right_to_write_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let path = inner.join("store.db");
    fs::set_permissions(&inner, fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(inner.join("probe"), "x").is_ok() {
        // Root may write anywhere; there is nothing to see here.
        return;
    }
    let error = refused(&path);
    assert!(is_clear(&error, &inner), "{error}");
    fs::set_permissions(&inner, fs::Permissions::from_mode(0o700)).unwrap();
}

#[tokio::test]
async fn options_out_of_range_are_refused() {
    for partitions in [0, 1025] {
        let wrong = options().partitions(partitions);
        let error = Sqlite::in_memory(wrong, HandClock::at(0)).unwrap_err();
        assert!(error.to_string().contains("between 1 and 1024"), "{error}");
    }
    assert!(Sqlite::in_memory(options().readers(0), HandClock::at(0)).is_err());
    let limited = |change: fn(&mut Limits)| {
        let mut limits = Limits::portable();
        change(&mut limits);
        Sqlite::in_memory(options().limits(limits), HandClock::at(0))
            .map(drop)
            .map_err(|error| error.to_string())
    };
    assert_eq!(limited(|limits| limits.events_per_change = 65_535), Ok(()));
    let refused = [
        limited(|limits| limits.events_per_change = 65_536),
        limited(|limits| limits.writes_per_batch = 65_536),
        limited(|limits| limits.change_bytes = usize::MAX),
    ];
    assert!(refused.iter().all(|refused| refused.as_ref().is_err_and(|why| why.contains("must be at most"))));
}

#[tokio::test]
async fn the_number_of_partitions_is_fixed_at_creation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    open(&path).close().await;
    let store = Sqlite::open(&path, options().partitions(99), HandClock::at(0)).unwrap();
    assert_eq!(store.info().partitions, 4);
}

#[tokio::test]
async fn a_store_of_the_most_partitions_works() {
    let store = Sqlite::in_memory(options().partitions(1024), HandClock::at(0)).unwrap();
    store.commit(put("a", "1", Expect::Any)).await.unwrap();
    assert_eq!(store.head().await.unwrap().stores().count(), 1);
}
