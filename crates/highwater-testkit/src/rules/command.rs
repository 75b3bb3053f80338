//! Commands and their verdicts.

use crate::{
    Broken, Subject,
    broken::{Given, Kept, only, refused, same, some},
    sample::{accepted, body, key, pk, put, rejected, write},
};
use highwater_core::*;

/// Commits a put of `n` to an item alone under its key, decided by a command.
async fn decide(
    s: &Subject,
    key: &ItemKey,
    n: u64,
    mark: CommandMark,
    expect: Expect,
) -> Result<Committed, CommitError> {
    let put = put(key, n).map_err(|broken| EngineError::new(FailureKind::Other, broken.to_string()))?;
    let batch = Batch::new(key.partition_key.clone(), vec![put.expect(expect)]);
    s.store().commit(batch.command(mark)).await
}

pub(super) async fn a_replayed_command_returns_its_first_result(s: Subject) -> Kept {
    let (a, b, id) = (key("days", "p", "a")?, key("days", "p", "b")?, CommandId::random());
    let batch = Batch::new(pk("p")?, vec![put(&a, 1)?, put(&b, 1)?]);
    let first = s.store().commit(batch.command(accepted(id, "x"))).await?;
    same("replayed, the first time", first.replayed, false)?;
    same("the first verdict", first.verdict.clone(), Some(Verdict::Accepted))?;
    s.put(&a, 2).await?;
    let again = decide(&s, &a, 3, rejected(id, "x", "changed my mind"), Expect::Any).await?;
    same("replayed", again.replayed, true)?;
    same("the verdict", again.verdict, first.verdict)?;
    same("the token", again.token, first.token)?;
    same("the ETags", again.etags, first.etags)
}

pub(super) async fn a_replayed_command_writes_nothing(s: Subject) -> Kept {
    let (item, id) = (key("days", "a", "a")?, CommandId::random());
    decide(&s, &item, 1, accepted(id, "x"), Expect::Any).await?;
    // Whether the second commit says what it should is what another rule is about.
    let _ = decide(&s, &item, 2, accepted(id, "x"), Expect::Any).await;
    let change = only("change in the log", s.log(&pk("a")?).await?)?;
    same("the body in the log", change.op, ChangeOp::Put(body(1)?))
}

pub(super) async fn a_replay_is_answered_before_any_condition_is_looked_at(s: Subject) -> Kept {
    let (item, id) = (key("days", "a", "a")?, CommandId::random());
    let first = decide(&s, &item, 1, accepted(id, "x"), Expect::Absent).await?;
    let again = decide(&s, &item, 1, accepted(id, "x"), Expect::Absent).await?;
    same("the token", again.token, first.token)?;
    let missing = key("days", "a", "b")?;
    let again = decide(&s, &missing, 1, accepted(id, "x"), Expect::Exists).await?;
    same("the ETags", again.etags, first.etags)
}

pub(super) async fn a_reused_command_id_with_other_content_is_refused(s: Subject) -> Kept {
    let (item, id) = (key("days", "a", "a")?, CommandId::random());
    decide(&s, &item, 1, accepted(id, "two seats"), Expect::Any).await?;
    let other = decide(&s, &item, 2, accepted(id, "nine seats"), Expect::Any).await;
    refused!(other, CommitError::CommandIdReused { id: named } if named == id)?;
    let failing = decide(&s, &item, 2, accepted(id, "nine seats"), Expect::Absent).await;
    refused!(failing, CommitError::CommandIdReused { id: named } if named == id)?;
    same("the changes in the log", s.log(&pk("a")?).await?.len(), 1)
}

pub(super) async fn the_same_id_under_another_partition_key_is_another_command(s: Subject) -> Kept {
    let id = CommandId::random();
    let first = pk("0")?;
    let together = (1..10_000_u32)
        .map(|n| n.to_string())
        .find(|text| PartitionKey::new(text).is_ok_and(|other| s.partition(&other) == s.partition(&first)));
    let together = some("another key of the same partition", together)?;
    let apart = (1..10_000_u32)
        .map(|n| n.to_string())
        .find(|text| PartitionKey::new(text).is_ok_and(|other| s.partition(&other) != s.partition(&first)));
    for text in ["0".to_owned(), together].into_iter().chain(apart) {
        let item = key("days", &text, "a")?;
        let committed = decide(&s, &item, 1, accepted(id, &text), Expect::Absent).await?;
        same("replayed", committed.replayed, false)?;
        let decided = some("a decision", s.store().decided(&item.partition_key, id).await?)?;
        same("the decision read", decided.mark, accepted(id, &text))?;
    }
    Ok(())
}

pub(super) async fn a_rejection_is_decided_once_too(s: Subject) -> Kept {
    let (item, id) = (key("days", "a", "a")?, CommandId::random());
    let no = rejected(id, "x", "no seats left");
    let keep = write(&item, Op::Keep).expect(Expect::Absent);
    let first = s.store().commit(Batch::new(pk("a")?, vec![keep]).command(no.clone())).await?;
    same("the verdict", first.verdict, Some(no.verdict.clone()))?;
    let decided = some("a decision", s.store().decided(&pk("a")?, id).await?)?;
    same("the decision read", decided.mark, no.clone())?;
    let again = decide(&s, &item, 1, accepted(id, "x"), Expect::Any).await;
    let again = again.map_err(Broken::from)?;
    same("the verdict of a second attempt", again.verdict, Some(no.verdict)).given()?;
    same("the item exists", s.item(&item).await?.exists, false).given()
}

pub(super) async fn a_command_is_undecided_until_it_is_committed(s: Subject) -> Kept {
    let (item, id) = (key("days", "a", "a")?, CommandId::random());
    same("the decision", s.store().decided(&pk("a")?, id).await?, None)?;
    s.put(&item, 1).await?;
    let failing = decide(&s, &item, 2, accepted(id, "x"), Expect::Absent).await;
    refused!(failing, CommitError::Conflict { .. }).given()?;
    same("the decision after a conflict", s.store().decided(&pk("a")?, id).await?, None)?;
    let committed = decide(&s, &item, 3, accepted(id, "x"), Expect::Any).await?;
    same("replayed", committed.replayed, false)
}

pub(super) async fn a_decision_read_back_is_what_the_commit_returned(s: Subject) -> Kept {
    let (a, b, id) = (key("days", "p", "a")?, key("days", "p", "b")?, CommandId::random());
    s.put(&a, 1).await?;
    let mark = accepted(id, "x");
    let batch = Batch::new(pk("p")?, vec![put(&a, 2)?, put(&b, 2)?]).command(mark.clone());
    let committed = s.store().commit(batch).await?;
    s.put(&a, 3).await?;
    let decided = some("a decision", s.store().decided(&pk("p")?, id).await?)?;
    same("the mark", decided.mark, mark)?;
    same("the token", decided.token, committed.token)?;
    same("the ETags", decided.etags, committed.etags)?;
    let log = s.log(&pk("p")?).await?;
    let position = log.get(1).map(|change| change.position);
    same("the position of the first change", Some(decided.position), position)
}

pub(super) async fn the_mark_stands_on_the_first_change_of_its_commit(s: Subject) -> Kept {
    let (a, b) = (key("days", "p", "a")?, key("days", "p", "b")?);
    s.put(&a, 1).await?;
    let mark = accepted(CommandId::random(), "x");
    let batch = Batch::new(pk("p")?, vec![put(&a, 2)?, put(&b, 2)?]);
    s.store().commit(batch.command(mark.clone())).await?;
    let marks: Vec<_> = s.log(&pk("p")?).await?.into_iter().map(|change| change.command).collect();
    same("the marks in the log", marks, [None, Some(mark), None])
}

pub(super) async fn a_decision_is_remembered_after_opening_again(s: Subject) -> Kept {
    let (item, id) = (key("days", "a", "a")?, CommandId::random());
    let first = decide(&s, &item, 1, accepted(id, "x"), Expect::Any).await?;
    let s = s.reopen().await?;
    let again = decide(&s, &item, 2, accepted(id, "x"), Expect::Any).await?;
    same("replayed", again.replayed, true)?;
    same("the token", again.token, first.token)
}
