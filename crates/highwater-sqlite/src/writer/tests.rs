use super::*;
use highwater_core::CommitError;
use std::path::{Path, PathBuf};

/// An engine whose COMMIT fails, and whose disk keeps what it likes.
struct Fickle {
    path: PathBuf,
    /// What is found on disk when the database is opened again.
    kept: Option<&'static str>,
}

impl Engine for Fickle {
    const NAME: &'static str = "fickle";
    const BEFORE_COMMIT: &'static str = "fickle.before";
    const AFTER_COMMIT: &'static str = "fickle.after";

    fn reconnect(&self) -> Result<Option<Connection>, EngineError> {
        let connection = Connection::open(&self.path).map_err(engine_error)?;
        if let Some(kept) = self.kept {
            connection.execute("INSERT INTO kept VALUES (?1)", [kept]).map_err(engine_error)?;
        }
        Ok(Some(connection))
    }

    fn begin(&mut self, _: &Connection, _: i64) -> rusqlite::Result<()> {
        Ok(())
    }

    fn finish(&mut self, _: &Connection) -> rusqlite::Result<()> {
        Ok(())
    }

    fn forget(&mut self) {}

    fn wake(&self, _: Wakes) {}
}

/// Writes a name; `fatal` makes the COMMIT of its transaction fail, others do what they are called.
struct Keep(&'static str);

impl Operation<Fickle> for Keep {
    type Output = &'static str;
    type Error = CommitError;

    fn kind(&self) -> &'static str {
        "keep"
    }

    fn run(
        &mut self,
        connection: &Connection,
        _: &mut Fickle,
    ) -> rusqlite::Result<Result<&'static str, CommitError>> {
        if self.0 == "refused" {
            return Ok(Err(CommitError::Empty));
        }
        connection.execute("INSERT INTO kept VALUES (?1)", [self.0])?;
        match self.0 {
            "fatal" => connection.execute("INSERT INTO orphan VALUES (1)", []).map(|_| Ok("written")),
            "panics" => panic!("on purpose"),
            "refused late" => Ok(Err(CommitError::Empty)),
            _ => Ok(Ok("written")),
        }
    }

    fn resolve(&mut self, connection: &Connection, _: &mut Fickle) -> rusqlite::Result<Option<&'static str>> {
        let found = "SELECT EXISTS (SELECT 1 FROM kept WHERE name = ?1)";
        let found: bool = connection.query_row(found, [self.0], |row| row.get(0))?;
        Ok(found.then_some("found"))
    }
}

fn database(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE kept (name TEXT);
             CREATE TABLE parent (id INTEGER PRIMARY KEY);
             CREATE TABLE orphan (id REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
             PRAGMA foreign_keys = ON;",
        )
        .unwrap();
    connection
}

/// Runs three as one group, then one more; returns what each was told and what is in the table.
fn outcomes(
    group: [&'static str; 3],
    kept: Option<&'static str>,
) -> (Vec<Result<&'static str, CommitError>>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fickle.db");
    let (_jobs, queue) = mpsc::channel();
    let engine = Fickle { path: path.clone(), kept };
    let mut thread = WriterThread::new(database(&path), engine, queue, Arc::default());
    let mut answers = Vec::new();
    let mut members: Members<Fickle> = Vec::new();
    for name in group {
        let (reply, answer) = oneshot::channel();
        members.push(Box::new(Task::new(Keep(name), reply)));
        answers.push(answer);
    }
    thread.group(&mut members);
    let (reply, answer) = oneshot::channel();
    members.push(Box::new(Task::new(Keep("next"), reply)));
    thread.group(&mut members);
    answers.push(answer);
    let answers = answers.into_iter().map(|answer| answer.blocking_recv().unwrap()).collect();
    let connection = Connection::open(&path).unwrap();
    let mut statement = connection.prepare("SELECT name FROM kept").unwrap();
    let names = statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    (answers, names)
}

fn is_unknown(outcome: &Result<&'static str, CommitError>) -> bool {
    matches!(outcome, Err(CommitError::Engine(error)) if error.kind() == FailureKind::Unavailable)
}

#[test]
fn after_a_failed_commit_nobody_is_told_it_was_written_and_the_next_group_goes_on() {
    let (answers, names) = outcomes(["fatal", "refused", "other"], None);
    assert!(is_unknown(&answers[0]) && is_unknown(&answers[2]), "{answers:?}");
    assert!(matches!(answers[1], Err(CommitError::Empty)), "a refusal stands");
    assert!(matches!(answers[3], Ok("written")));
    assert_eq!(names, ["next"]);
}

#[test]
fn after_a_failed_commit_each_member_is_resolved_by_what_is_on_disk() {
    let (answers, names) = outcomes(["fatal", "refused", "other"], Some("other"));
    assert!(is_unknown(&answers[0]), "{answers:?}");
    assert!(matches!(answers[2], Ok("found")), "{answers:?}");
    assert_eq!(names, ["other", "next"]);
}

#[test]
fn a_member_that_panics_or_breaks_its_word_fails_alone_and_the_thread_goes_on() {
    for culprit in ["panics", "refused late"] {
        let (answers, names) = outcomes(["one", culprit, "two"], None);
        let Err(CommitError::Engine(error)) = &answers[1] else { panic!("{culprit}: {answers:?}") };
        assert_eq!(error.kind(), FailureKind::Other, "{culprit}");
        for index in [0, 2, 3] {
            assert!(matches!(answers[index], Ok("written")), "{culprit}: {answers:?}");
        }
        assert_eq!(names, ["one", "two", "next"], "{culprit}");
    }
}
