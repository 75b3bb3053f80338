//! Several callers at the same time.

use crate::{
    Broken, Subject,
    broken::{Given, Kept, ensure, only, refused, same, some},
    sample::{accepted, body, json, key, name, number, pk, put},
    subject::ALL,
};
use fastrand::Rng;
use highwater_core::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::sync::Barrier;

/// How many do the same thing at once.
const CROWD: usize = 6;

/// Starts one task for each of the crowd at the same moment and returns what each of them returned.
async fn crowd<T, F>(s: &Subject, task: impl Fn(Subject, usize, Rng) -> F) -> Result<Vec<T>, Broken>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Broken>> + Send + 'static,
{
    let start = Arc::new(Barrier::new(CROWD));
    let tasks: Vec<_> = (0..CROWD)
        .map(|index| {
            let rng = Rng::with_seed(s.seed.wrapping_add(index as u64));
            let (start, task) = (start.clone(), task(s.clone(), index, rng));
            tokio::spawn(async move {
                start.wait().await;
                task.await
            })
        })
        .collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await??);
    }
    Ok(results)
}

/// Lets others run, now and then.
async fn jitter(rng: &mut Rng) {
    for _ in 0..rng.u8(0..3) {
        tokio::task::yield_now().await;
    }
}

pub(super) async fn of_racing_writers_exactly_one_wins_each_version(s: Subject) -> Kept {
    let item = key("days", "p", "a")?;
    let old = s.put(&item, 0).await?;
    let current = s.put(&item, 0).await?;
    let stale = s.write(&item, Op::Put(body(9)?), Expect::ETag(old)).await;
    refused!(stale, CommitError::Conflict { found: Found::Item(etag), .. } if etag == current).given()?;
    let won = crowd(&s, |s, _, mut rng| {
        let item = item.clone();
        async move {
            let mut won = Vec::new();
            for _ in 0..25 {
                let read = s.item(&item).await?;
                let (_, before) = some("a body", read.body)?;
                jitter(&mut rng).await;
                let next = Op::Put(body(number(&before.json)? + 1)?);
                match s.write(&item, next, Expect::ETag(read.etag)).await {
                    Ok(committed) => won.extend(committed.etags.iter().map(|etag| etag.version.get())),
                    Err(CommitError::Conflict { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(won)
        }
    })
    .await?;
    let mut won: Vec<u64> = won.into_iter().flatten().collect();
    won.sort_unstable();
    let expected: Vec<u64> = (3..).take(won.len()).collect();
    same("the versions won, each once", won.clone(), expected)?;
    let (_, last) = some("a body", s.item(&item).await?.body)?;
    same("the counter after that many increments", number(&last.json)?, won.len() as u64)
}

pub(super) async fn of_racing_creators_exactly_one_wins(s: Subject) -> Kept {
    for round in 0..12 {
        let item = key("days", "p", &round.to_string())?;
        let won = crowd(&s, |s, index, _| {
            let item = item.clone();
            async move {
                match s.write(&item, Op::Put(body(index as u64)?), Expect::Absent).await {
                    Ok(_) => Ok(true),
                    Err(CommitError::Conflict { .. }) => Ok(false),
                    Err(error) => Err(error.into()),
                }
            }
        })
        .await?;
        same("how many created the item", won.into_iter().filter(|won| *won).count(), 1)?;
        same("the version of the item", s.item(&item).await?.etag.version.get(), 1)?;
    }
    Ok(())
}

pub(super) async fn of_racing_copies_of_a_command_exactly_one_writes(s: Subject) -> Kept {
    let item = key("days", "p", "a")?;
    let copy = async |s: &Subject, id: CommandId| -> Result<Committed, Broken> {
        let batch = Batch::new(pk("p")?, vec![put(&item, 1)?]);
        Ok(s.store().commit(batch.command(accepted(id, "x"))).await?)
    };
    // A store that decides a command again without any race breaks another rule.
    let id = CommandId::random();
    copy(&s, id).await?;
    copy(&s, id).await?;
    same("changes after two copies, one after the other", s.log(&pk("p")?).await?.len(), 1).given()?;
    for round in 2..14 {
        let id = CommandId::random();
        let results = crowd(&s, |s, _, _| {
            let batch = put(&item, 1).and_then(|put| Ok(Batch::new(pk("p")?, vec![put])));
            async move { Ok(s.store().commit(batch?.command(accepted(id, "x"))).await?) }
        })
        .await?;
        same("changes in the log", s.log(&pk("p")?).await?.len(), round)?;
        same("how many wrote", results.iter().filter(|committed| !committed.replayed).count(), 1)?;
        let tokens: BTreeSet<_> = results.iter().map(|committed| committed.token.to_string()).collect();
        same("how many different tokens", tokens.len(), 1)?;
    }
    Ok(())
}

/// Follows a partition until told to stop and at its end.
async fn follow(s: Subject, partition: Partition, stop: Arc<AtomicBool>) -> Result<Vec<Change>, Broken> {
    let mut request = ChangeRequest::new(partition, None, ALL);
    let mut seen = Vec::new();
    loop {
        let stopped = stop.load(SeqCst);
        let page = s.store().changes(&request).await?;
        let scanned = Position::number(page.scanned);
        let past = page.changes.last().map_or(0, |change| change.position.get());
        ensure("scanned at the last change or after it", scanned >= past, (scanned, past))?;
        seen.extend(page.changes);
        request.after = page.scanned;
        if stopped && page.at_end {
            return Ok(seen);
        }
        tokio::task::yield_now().await;
    }
}

pub(super) async fn a_reader_that_follows_misses_nothing(s: Subject) -> Kept {
    let stop = Arc::new(AtomicBool::new(false));
    let partition = s.partition(&pk("p")?);
    let readers: Vec<_> = (0..2).map(|_| tokio::spawn(follow(s.clone(), partition, stop.clone()))).collect();
    crowd(&s, |s, index, mut rng| async move {
        for n in 0..25 {
            let count = rng.usize(1..4);
            let keys = (0..count).map(|place| key("days", "p", &format!("{index}-{place}")));
            let writes = keys.map(|key| put(&key?, n)).collect::<Result<_, _>>()?;
            jitter(&mut rng).await;
            s.store().commit(Batch::new(pk("p")?, writes)).await?;
        }
        Ok(())
    })
    .await?;
    stop.store(true, SeqCst);
    let all = s.log(&pk("p")?).await?;
    let places = |changes: &[Change]| -> Vec<_> {
        changes.iter().map(|change| (change.position, change.ordinal, change.count)).collect()
    };
    for reader in readers {
        let seen = reader.await??;
        same("what a reader saw, and the log read afterwards", places(&seen), places(&all))?;
        ensure("rising positions", seen.is_sorted_by(|a, b| a.position < b.position), places(&seen))?;
    }
    let mut newest: BTreeMap<&ItemKey, u64> = BTreeMap::new();
    for change in &all {
        let before = newest.insert(&change.key, change.version.get()).unwrap_or(0);
        same(&format!("the version of {} in order", change.key), change.version.get(), before + 1)?;
    }
    Ok(())
}

pub(super) async fn competing_getters_never_hold_the_same_message(s: Subject) -> Kept {
    let queue = name("work")?;
    for n in 0..120 {
        s.queue().put(&queue, NewMessage::new(n.to_string())).await?;
    }
    let taken = crowd(&s, |s, _, mut rng| {
        let queue = queue.clone();
        async move {
            let mut taken = Vec::new();
            loop {
                let got = s.queue().get(&queue, rng.usize(1..6), Duration::from_secs(60)).await?;
                if got.is_empty() {
                    return Ok(taken);
                }
                taken.extend(got.into_iter().map(|delivery| delivery.message.body));
                jitter(&mut rng).await;
            }
        }
    })
    .await?;
    let taken: Vec<_> = taken.into_iter().flatten().collect();
    let different: BTreeSet<_> = taken.iter().collect();
    same("deliveries, and messages among them", (taken.len(), different.len()), (120, 120))
}

pub(super) async fn of_racing_owners_of_a_message_exactly_one_settles_it(s: Subject) -> Kept {
    let queue = name("work")?;
    let mut receipts = Vec::new();
    for n in 0..20 {
        s.queue().put(&queue, NewMessage::new(n.to_string())).await?;
        let taken = s.queue().get(&queue, 1, Duration::from_secs(60)).await?;
        receipts.push(only("message", taken)?.receipt);
    }
    let won = crowd(&s, |s, _, mut rng| {
        let receipts = receipts.clone();
        async move {
            let mut won = 0;
            for receipt in &receipts {
                jitter(&mut rng).await;
                match s.queue().delete(receipt).await {
                    Ok(()) => won += 1,
                    Err(ReceiptError::MessageNotFound { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(won)
        }
    })
    .await?;
    same("messages deleted", won.iter().sum::<usize>(), receipts.len())
}

pub(super) async fn racing_puts_of_one_id_are_one_message(s: Subject) -> Kept {
    let queue = name("work")?;
    for round in 1..=12 {
        let id = MessageId::random();
        let puts = crowd(&s, |s, _, _| {
            let queue = queue.clone();
            async move { Ok(s.queue().put(&queue, NewMessage::new("x").id(id)).await?) }
        })
        .await?;
        same("receipts given", puts.iter().filter(|put| put.receipt.is_some()).count(), 1)?;
        same("messages", s.queue().peek(&queue, 32).await?.len(), round)?;
    }
    Ok(())
}

pub(super) async fn racing_puts_never_exceed_the_depth_limit(s: Subject) -> Kept {
    for round in 1..=6_u64 {
        let (queue, limit) = (name(&format!("work-{round}"))?, round);
        let puts = crowd(&s, |s, _, _| {
            let queue = queue.clone();
            async move { Ok(s.queue().put(&queue, NewMessage::new("x").depth_limit(limit)).await) }
        })
        .await?;
        let put = puts.iter().filter(|put| put.is_ok()).count() as u64;
        same("messages put", put, limit.min(puts.len() as u64))?;
        same("messages", s.queue().depth(&queue).await?.visible, put)?;
    }
    Ok(())
}

pub(super) async fn of_racing_writers_of_a_cell_exactly_one_wins_each_version(s: Subject) -> Kept {
    let cell = CellKey::new(name("leases")?, "a");
    let old = s.cells().write(CellWrite::new(cell.clone(), Expect::Any, json(0)?)).await?;
    s.cells().write(CellWrite::new(cell.clone(), Expect::Any, json(0)?)).await?;
    let stale = s.cells().write(CellWrite::new(cell.clone(), Expect::ETag(old), json(9)?)).await;
    refused!(stale, CellError::Conflict { .. }).given()?;
    let won = crowd(&s, |s, _, mut rng| {
        let cell = cell.clone();
        async move {
            let mut won = 0;
            for _ in 0..20 {
                let read = some("the cell", s.cells().read(&cell).await?)?;
                jitter(&mut rng).await;
                let next = json(number(&read.value)? + 1)?;
                match s.cells().write(CellWrite::new(cell.clone(), Expect::ETag(read.etag), next)).await {
                    Ok(_) => won += 1,
                    Err(CellError::Conflict { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(won)
        }
    })
    .await?;
    let last = some("the cell", s.cells().read(&cell).await?)?;
    same("the counter after that many increments", number(&last.value)?, won.iter().sum::<u64>())
}

pub(super) async fn racing_owners_of_a_view_apply_each_change_once(s: Subject) -> Kept {
    let view = ViewName { name: name("totals")?, generation: 1 };
    let slot = ViewSlot { view: view.clone(), store: s.store().info().id, partition: Partition(0) };
    let applied = crowd(&s, |s, _, mut rng| {
        let (slot, view) = (slot.clone(), view.clone());
        async move {
            let mut applied = 0;
            for _ in 0..20 {
                let claim = s.views().claim(&slot, Epoch(1)).await?;
                jitter(&mut rng).await;
                let (before, _) = s.views().document(&view, slot.store, "total").await?;
                let expected = before.as_ref().map_or(0, |document| document.version);
                let total = before.and_then(|document| document.body).map(|body| number(&body.json));
                let total = total.transpose()?.unwrap_or(0) + 1;
                let body = Some(body(total)?);
                let document = DocumentWrite::new("total", expected, body, Marks::new());
                let position = some("a position", Position::new(Position::number(claim.position) + 1))?;
                let batch = ViewBatch::new(slot.clone(), claim, position, vec![document]);
                match s.views().write(batch).await {
                    Ok(()) => applied += 1,
                    Err(ViewWriteError::Fenced { .. } | ViewWriteError::Conflict { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(applied)
        }
    })
    .await?;
    let applied: u64 = applied.into_iter().sum();
    let (document, reached) = s.views().document(&view, slot.store, "total").await?;
    let total = document.and_then(|document| document.body).map(|body| number(&body.json)).transpose()?;
    same("the total of so many writes", total.unwrap_or(0), applied)?;
    let position = reached.and_then(|reached| reached.positions.get(&Partition(0)).copied());
    same("the position after so many writes", Position::number(position), applied)
}
