//! Rows that are not what was committed.

use crate::support::{key, open, put};
use highwater_core::{ChangeRequest, Expect, FailureKind, FeedError, Position, ReadError, Store};

#[tokio::test]
async fn a_change_that_was_altered_in_the_file_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = open(&path);
    for body in ["1", "2", "3"] {
        store.commit(put("a", body, Expect::Any)).await.unwrap();
    }
    let partition = store.info().partition_of(&key("a").partition_key);
    let set = |what: &str| {
        let sql = format!("UPDATE log_{:04} SET {what} WHERE position = 2", partition.0);
        rusqlite::Connection::open(&path).unwrap().execute(&sql, []).unwrap();
    };
    for (change, back) in [
        ("body = CAST('9' AS BLOB)", "body = CAST('2' AS BLOB)"),
        ("at = at + 1", "at = at - 1"),
        ("version = 7", "version = 2"),
        ("ordinal = 'x'", "ordinal = 0"),
        ("verdict = 'no'", "verdict = NULL"),
    ] {
        set(change);
        let page = store.changes(&ChangeRequest::new(partition, Position::new(1), 10)).await;
        let Err(FeedError::Engine(error)) = page else { panic!("{change}: {page:?}") };
        let history = store.history(&key("a"), None, 10).await;
        let Err(ReadError::Engine(other)) = history else { panic!("{change}: {history:?}") };
        for error in [error, other] {
            assert_eq!(error.kind(), FailureKind::Corrupt, "{change}: {error}");
        }
        set(back);
        assert!(store.changes(&ChangeRequest::new(partition, None, 10)).await.is_ok());
    }
    set("body = NULL");
    let error = store.history(&key("a"), None, 10).await.unwrap_err().to_string();
    let named = format!("the change at position 2 of partition {partition} is damaged");
    assert!(error.contains(&named) && error.contains("restore from a backup"), "{error}");
}
