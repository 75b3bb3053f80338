//! The log, read in order.

use crate::{
    Broken, Subject,
    broken::{Kept, ensure, only, refused, same, some},
    sample::{accepted, body, event, key, name, pk, put, write},
    subject::ALL,
};
use highwater_core::*;
use std::time::Duration;

fn positions(changes: &[Change]) -> Vec<Position> {
    changes.iter().map(|change| change.position).collect()
}

/// Commits a batch of this many puts under a partition key.
async fn commit_of(s: &Subject, partition_key: &str, container: &str, count: usize) -> Result<(), Broken> {
    let keys = (0..count).map(|n| key(container, partition_key, &n.to_string()));
    let writes = keys.map(|key| put(&key?, 1)).collect::<Result<_, _>>()?;
    s.store().commit(Batch::new(pk(partition_key)?, writes)).await?;
    Ok(())
}

/// Reads pages until one says that it is the last.
async fn follow(s: &Subject, mut request: ChangeRequest) -> Result<Vec<Change>, Broken> {
    let mut changes = Vec::new();
    for _ in 0..1_000 {
        let page = s.store().changes(&request).await?;
        let (before, after) = (Position::number(request.after), Position::number(page.scanned));
        changes.extend(page.changes);
        if page.at_end {
            return Ok(changes);
        }
        ensure("a page that is not the last to move on", after > before, (before, after))?;
        request.after = page.scanned;
    }
    Err(Broken::new("the end of the log after some pages", "none after 1,000"))
}

pub(super) async fn an_empty_log_has_nothing_and_is_at_its_end(s: Subject) -> Kept {
    for partition in Partition::all(s.store().info().partitions) {
        let page = s.store().changes(&ChangeRequest::new(partition, None, 10)).await?;
        same("the page", page, ChangePage::new(Vec::new(), None, true))?;
    }
    same("the head", s.store().head().await?, Token::default())
}

pub(super) async fn a_change_carries_what_was_committed(s: Subject) -> Kept {
    let item = key("days", "a", "b")?;
    s.put(&item, 1).await?;
    s.pass(5);
    let events = vec![event("Opened", 1)?, event("Reserved", 2)?];
    let mark = accepted(CommandId::random(), "x");
    let batch = Batch::new(pk("a")?, vec![put(&item, 2)?.events(events.clone())]).command(mark.clone());
    let committed = s.store().commit(batch).await?;
    let log = s.log(&pk("a")?).await?;
    let found = some("a second change", log.get(1).cloned())?;
    let version = some("a version", Version::new(2))?;
    let position = some("a position", s.reached(&committed.token, &pk("a")?))?;
    let mut change = Change::new(s.partition(&pk("a")?), position, s.now(), item, version);
    change.op = ChangeOp::Put(body(2)?);
    (change.events, change.command) = (events, Some(mark));
    same("the change", found, change)
}

pub(super) async fn changes_stand_in_commit_order_at_rising_positions(s: Subject) -> Kept {
    let mut expected = Vec::new();
    for n in 0..20 {
        let item = key("days", "p", &(n % 3).to_string())?;
        s.put(&item, n).await?;
        expected.push((item, ChangeOp::Put(body(n)?)));
    }
    let log = s.log(&pk("p")?).await?;
    let rising = positions(&log).is_sorted_by(|a, b| a < b);
    ensure("positions that rise", rising, positions(&log))?;
    let found: Vec<_> = log.into_iter().map(|change| (change.key, change.op)).collect();
    same("the changes in order", found, expected)
}

pub(super) async fn the_changes_of_a_commit_are_numbered_and_stand_together(s: Subject) -> Kept {
    commit_of(&s, "p", "days", 1).await?;
    commit_of(&s, "p", "days", 3).await?;
    let log = s.log(&pk("p")?).await?;
    let numbers: Vec<_> = log.iter().map(|change| (change.ordinal, change.count)).collect();
    same("ordinal and count of each change", numbers, [(0, 1), (0, 3), (1, 3), (2, 3)])?;
    let ids: Vec<_> = log.iter().map(|change| change.key.id.as_str()).collect();
    same("the order of the writes", ids, ["0", "0", "1", "2"])?;
    let first = some("a first change", log.get(1))?.position.get();
    let found: Vec<_> = log.iter().skip(1).map(|change| change.position.get()).collect();
    same("consecutive positions", found, [first, first + 1, first + 2])
}

pub(super) async fn a_commit_is_delivered_whole_even_past_the_page_size(s: Subject) -> Kept {
    commit_of(&s, "p", "days", 5).await?;
    commit_of(&s, "p", "days", 5).await?;
    for max in 1..=9 {
        let page = s.store().changes(&ChangeRequest::new(s.partition(&pk("p")?), None, max)).await?;
        let last = some("a change", page.changes.last())?;
        same(&format!("the end of a page of {max}"), last.position, last.commit_end())?;
        let enough = page.changes.len() >= 5;
        ensure("at least the whole first commit", enough, page.changes.len())?;
    }
    Ok(())
}

pub(super) async fn pages_neither_repeat_nor_skip(s: Subject) -> Kept {
    for n in 0..23 {
        s.put(&key("days", "p", &n.to_string())?, n).await?;
    }
    let log = s.log(&pk("p")?).await?;
    for max in [1, 2, 3, 7, 22, 23, 24] {
        let pages = follow(&s, ChangeRequest::new(s.partition(&pk("p")?), None, max)).await?;
        same(&format!("all pages of {max}"), positions(&pages), positions(&log))?;
    }
    Ok(())
}

pub(super) async fn a_page_says_whether_more_follows(s: Subject) -> Kept {
    for n in 0..6 {
        s.put(&key("days", "p", &n.to_string())?, n).await?;
    }
    let partition = s.partition(&pk("p")?);
    let page = s.store().changes(&ChangeRequest::new(partition, None, 2)).await?;
    same("the end after 2 of 6 changes", page.at_end, false)?;
    let page = s.store().changes(&ChangeRequest::new(partition, None, ALL)).await?;
    same("the end after all changes", page.at_end, true)?;
    let page = s.store().changes(&ChangeRequest::new(partition, page.scanned, 2)).await?;
    same("the end after the end", page.at_end, true)?;
    same("changes after the end", page.changes, Vec::new())?;
    same("scanned after the end", page.scanned, s.reached(&s.store().head().await?, &pk("p")?))
}

pub(super) async fn narrowing_returns_what_fits_and_nothing_else(s: Subject) -> Kept {
    let (a, b, c) = (key("days", "p", "a")?, key("notes", "p", "b")?, key("logs", "p", "c")?);
    s.store().commit(Batch::new(pk("p")?, vec![put(&a, 1)?, put(&b, 1)?, put(&c, 1)?])).await?;
    let partition = s.partition(&pk("p")?);
    let neighbour = (0..10_000_u32)
        .map(|n| n.to_string())
        .find(|text| PartitionKey::new(text).is_ok_and(|other| s.partition(&other) == partition));
    let neighbour = key("days", &some("another key of the partition", neighbour)?, "n")?;
    s.put(&neighbour, 1).await?;
    let all = ChangeRequest::new(partition, None, ALL);
    let read = async |request: ChangeRequest| -> Result<Vec<ItemKey>, Broken> {
        Ok(s.store().changes(&request).await?.changes.into_iter().map(|change| change.key).collect())
    };
    let days = all.clone().containers(vec![name("days")?]);
    same("one container", read(days.clone()).await?, [a.clone(), neighbour.clone()])?;
    let two = all.clone().containers(vec![name("notes")?, name("days")?]);
    same("two containers", read(two).await?, [a.clone(), b, neighbour.clone()])?;
    let near = all.clone().partition_key(neighbour.partition_key.clone());
    same("one partition key", read(near).await?, [neighbour])?;
    same("a container and a key", read(days.partition_key(pk("p")?)).await?, [a])?;
    let narrow = all.containers(vec![name("notes")?]);
    let change = only("change", s.store().changes(&narrow).await?.changes)?;
    same("ordinal and count in a narrowed page", (change.ordinal, change.count), (1, 3))
}

pub(super) async fn a_page_without_any_fit_still_moves_on(s: Subject) -> Kept {
    for n in 0..9 {
        s.put(&key("days", "p", &n.to_string())?, n).await?;
    }
    let head = s.reached(&s.store().head().await?, &pk("p")?);
    let others = vec![name("others")?];
    let mut request = ChangeRequest::new(s.partition(&pk("p")?), None, ALL).containers(others);
    let page = s.store().changes(&request).await?;
    same("the page", page, ChangePage::new(Vec::new(), head, true))?;
    request.max = 1;
    same("what fits in pages of 1", follow(&s, request).await?, Vec::new())
}

pub(super) async fn narrowed_pages_skip_no_fit(s: Subject) -> Kept {
    for n in 0..40 {
        let container = if n % 7 == 3 { "rare" } else { "days" };
        s.put(&key(container, "p", &n.to_string())?, n).await?;
    }
    let all = ChangeRequest::new(s.partition(&pk("p")?), None, ALL).containers(vec![name("rare")?]);
    let expected = positions(&s.store().changes(&all).await?.changes);
    same("how many fit", expected.len(), 6)?;
    for max in [1, 2, 5] {
        // Unlike `follow`, this goes on after the last change of a page: pages of fits are read that way too.
        let mut found = Vec::new();
        let mut request = all.clone();
        request.max = max;
        for _ in 0..100 {
            let page = s.store().changes(&request).await?;
            found.extend(positions(&page.changes));
            request.after = page.changes.last().map(|change| change.position).or(page.scanned);
            if page.at_end || found.len() >= expected.len() {
                break;
            }
        }
        same(&format!("what fits in pages of {max}"), found, expected.clone())?;
    }
    Ok(())
}

pub(super) async fn a_position_beyond_the_end_has_diverged(s: Subject) -> Kept {
    let partition = s.partition(&pk("p")?);
    let beyond = some("a position", Position::new(1))?;
    let result = s.store().changes(&ChangeRequest::new(partition, Some(beyond), 10)).await;
    refused!(result, FeedError::Diverged { after, head: 0 } if after == beyond)?;
    s.put(&key("days", "p", "a")?, 1).await?;
    let end = some("a head", s.reached(&s.store().head().await?, &pk("p")?))?;
    s.store().changes(&ChangeRequest::new(partition, Some(end), 10)).await?;
    let beyond = some("a position", Position::new(end.get() + 1))?;
    let result = s.store().changes(&ChangeRequest::new(partition, Some(beyond), 10)).await;
    refused!(result, FeedError::Diverged { after, head } if after == beyond && head == end.get())
}

pub(super) async fn a_partition_that_does_not_exist_is_named(s: Subject) -> Kept {
    let count = s.store().info().partitions;
    let result = s.store().changes(&ChangeRequest::new(Partition(count), None, 10)).await;
    refused!(result, FeedError::NoPartition { asked, partitions } if asked == count && partitions == count)?;
    let result = s.store().position_before(Partition(u16::MAX), s.now()).await;
    refused!(result, FeedError::NoPartition { asked: u16::MAX, partitions } if partitions == count)
}

pub(super) async fn the_head_is_the_end_of_every_partition_with_changes(s: Subject) -> Kept {
    let mut merged = Token::default();
    for text in ["a", "b", "c", "a", "d"] {
        let item = key("days", text, text)?;
        merged.merge(&s.write(&item, Op::Put(body(1)?), Expect::Any).await?.token);
        same("the head", s.store().head().await?, merged.clone())?;
    }
    Ok(())
}

pub(super) async fn the_token_of_a_commit_is_its_last_position(s: Subject) -> Kept {
    let (a, b) = (key("days", "p", "a")?, key("days", "p", "b")?);
    let committed = s.store().commit(Batch::new(pk("p")?, vec![put(&a, 1)?, put(&b, 1)?])).await?;
    let last = some("a last change", s.log(&pk("p")?).await?.last().map(|change| change.position))?;
    let expected = s.store().info().token(s.partition(&pk("p")?), last);
    same("the token", committed.token, expected)
}

pub(super) async fn a_key_has_its_changes_in_one_partition(s: Subject) -> Kept {
    for text in ["a", "b", "c", "d", "e", "f"] {
        s.put(&key("days", text, "1")?, 1).await?;
        s.put(&key("notes", text, "2")?, 1).await?;
    }
    for partition in Partition::all(s.store().info().partitions) {
        for change in s.store().changes(&ChangeRequest::new(partition, None, ALL)).await?.changes {
            let expected = s.partition(&change.key.partition_key);
            same("partition read and stored", (partition, change.partition), (expected, expected))?;
        }
    }
    Ok(())
}

pub(super) async fn a_moment_leads_to_the_last_position_before_it(s: Subject) -> Kept {
    let partition = s.partition(&pk("p")?);
    let start = s.now();
    same("before anything", s.store().position_before(partition, start).await?, None)?;
    for n in 0..4 {
        s.put(&key("days", "p", "a")?, n).await?;
        // The second and the third are committed at the same moment.
        if n != 1 {
            s.pass(10);
        }
    }
    let log = positions(&s.log(&pk("p")?).await?);
    let at = |seconds| s.store().position_before(partition, start.plus(Duration::from_secs(seconds)));
    same("before the first", at(0).await?, None)?;
    same("between first and second", at(5).await?, log.first().copied())?;
    same("at the second", at(10).await?, log.first().copied())?;
    same("after the third", at(11).await?, log.get(2).copied())?;
    same("after the last", at(1_000).await?, log.get(3).copied())
}

pub(super) async fn the_time_of_changes_never_runs_backwards(s: Subject) -> Kept {
    let item = key("days", "p", "a")?;
    s.pass(3_600);
    let late = s.now();
    s.put(&item, 1).await?;
    s.clock.set(Timestamp::from_micros(late.as_micros() - 3_600_000_000));
    s.put(&item, 2).await?;
    s.put(&key("days", "elsewhere", "a")?, 2).await?;
    let times: Vec<_> = s.log(&pk("p")?).await?.into_iter().map(|change| change.at).collect();
    ensure("times that do not fall", times.is_sorted(), &times)?;
    let elsewhere = some("a change", s.log(&pk("elsewhere")?).await?.into_iter().next())?;
    ensure("no earlier time in another partition", elsewhere.at >= late, (elsewhere.at, late))
}

pub(super) async fn time_does_not_run_backwards_over_a_restart(s: Subject) -> Kept {
    let item = key("days", "p", "a")?;
    s.put(&item, 1).await?;
    s.clock.set(Timestamp::from_micros(0));
    let s = s.reopen().await?;
    s.put(&item, 2).await?;
    let times: Vec<_> = s.log(&pk("p")?).await?.into_iter().map(|change| change.at).collect();
    ensure("times that do not fall", times.is_sorted(), &times)
}

pub(super) async fn cells_messages_and_views_enter_no_feed(s: Subject) -> Kept {
    let keep = write(&key("days", "p", "a")?, Op::Keep);
    s.store().commit(Batch::new(pk("p")?, vec![keep])).await?;
    let head = s.store().head().await?;
    let cell = CellKey::new(name("days")?, "p");
    s.cells().write(CellWrite::new(cell, Expect::Any, crate::sample::json(1)?)).await?;
    s.queue().put(&name("days")?, NewMessage::new("x")).await?;
    same("the head", s.store().head().await?, head)
}

pub(super) async fn a_commit_held_open_is_not_passed_by_readers(s: Subject) -> Kept {
    s.put(&key("days", "p", "a")?, 1).await?;
    let mut held = s.hold_next_commit().await?;
    let commit = |id: &'static str| {
        let s = s.clone();
        tokio::spawn(async move { s.put(&key("days", "p", id)?, 2).await })
    };
    let open = commit("held");
    held.reached().await;
    let behind = commit("behind");
    let mut request = ChangeRequest::new(s.partition(&pk("p")?), None, ALL);
    let mut seen = Vec::new();
    for _ in 0..3 {
        let page = s.store().changes(&request).await?;
        seen.extend(positions(&page.changes));
        request.after = page.scanned;
        let head = s.reached(&s.store().head().await?, &pk("p")?);
        ensure("a head that no open commit is below", head <= page.scanned, (head, page.scanned))?;
        tokio::task::yield_now().await;
    }
    drop(held);
    open.await??;
    behind.await??;
    seen.extend(positions(&s.store().changes(&request).await?.changes));
    same("what a reader saw", seen, positions(&s.log(&pk("p")?).await?))
}
