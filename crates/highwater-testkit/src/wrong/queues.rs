//! Queues that put and take wrongly.

use crate::TestClock;
use crate::delegate::{DelegateQueue, Gap, lock, with_queue};
use highwater_core::*;
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

struct AcceptsStaleReceipts {
    right: Arc<dyn Queue>,
    /// The receipts of each message in the order in which they were given, those of updates left out.
    given: Mutex<HashMap<(Name, MessageId), Vec<Receipt>>>,
}

impl AcceptsStaleReceipts {
    fn give(&self, receipt: &Receipt) {
        let key = (receipt.queue.clone(), receipt.message);
        lock(&self.given).entry(key).or_default().push(receipt.clone());
    }
}

#[async_trait]
impl DelegateQueue for AcceptsStaleReceipts {
    fn right(&self) -> &dyn Queue {
        &*self.right
    }

    async fn put(&self, queue: &Name, message: NewMessage) -> Result<Put, PutError> {
        let put = self.right().put(queue, message).await?;
        put.receipt.iter().for_each(|receipt| self.give(receipt));
        Ok(put)
    }

    async fn get(&self, queue: &Name, max: usize, visibility: Duration) -> Result<Vec<Delivery>, GetError> {
        let taken = self.right().get(queue, max, visibility).await?;
        taken.iter().for_each(|delivery| self.give(&delivery.receipt));
        Ok(taken)
    }

    async fn delete(&self, receipt: &Receipt) -> Result<(), ReceiptError> {
        let given = lock(&self.given).get(&(receipt.queue.clone(), receipt.message)).cloned();
        let given = given.filter(|given| given.contains(receipt)).unwrap_or_default();
        self.right().delete(given.last().unwrap_or(receipt)).await
    }
}

pub(super) fn accepts_stale_receipts(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_queue(right, AcceptsStaleReceipts { right: right.queue.clone(), given: Mutex::default() })
}

struct DoesNotCount(Arc<dyn Queue>);

#[async_trait]
impl DelegateQueue for DoesNotCount {
    fn right(&self) -> &dyn Queue {
        &*self.0
    }

    async fn get(&self, queue: &Name, max: usize, visibility: Duration) -> Result<Vec<Delivery>, GetError> {
        let mut taken = self.right().get(queue, max, visibility).await?;
        taken.iter_mut().for_each(|delivery| delivery.message.dequeue_count = 1);
        Ok(taken)
    }

    async fn peek(&self, queue: &Name, max: usize) -> Result<Vec<Message>, GetError> {
        let mut messages = self.right().peek(queue, max).await?;
        messages.iter_mut().for_each(|message| message.dequeue_count = message.dequeue_count.min(1));
        Ok(messages)
    }
}

pub(super) fn does_not_count(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_queue(right, DoesNotCount(right.queue.clone()))
}

struct ForgetsIds {
    right: Arc<dyn Queue>,
    deleted: Mutex<HashSet<(Name, MessageId)>>,
}

#[async_trait]
impl DelegateQueue for ForgetsIds {
    fn right(&self) -> &dyn Queue {
        &*self.right
    }

    async fn put(&self, queue: &Name, message: NewMessage) -> Result<Put, PutError> {
        let forgotten = lock(&self.deleted).remove(&(queue.clone(), message.id));
        let message = if forgotten { message.id(MessageId::random()) } else { message };
        self.right().put(queue, message).await
    }

    async fn delete(&self, receipt: &Receipt) -> Result<(), ReceiptError> {
        self.right().delete(receipt).await?;
        lock(&self.deleted).insert((receipt.queue.clone(), receipt.message));
        Ok(())
    }
}

pub(super) fn forgets_the_ids_of_deleted_messages(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_queue(right, ForgetsIds { right: right.queue.clone(), deleted: Mutex::default() })
}

struct PutsDespiteTheCell(Arc<dyn Queue>);

#[async_trait]
impl DelegateQueue for PutsDespiteTheCell {
    fn right(&self) -> &dyn Queue {
        &*self.0
    }

    async fn put(&self, queue: &Name, message: NewMessage) -> Result<Put, PutError> {
        let mut alone = message.clone();
        alone.cell = None;
        let result = self.right().put(queue, message).await;
        if matches!(result, Err(PutError::CellConflict { .. })) {
            self.right().put(queue, alone).await?;
        }
        result
    }
}

pub(super) fn puts_the_message_despite_the_cell(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_queue(right, PutsDespiteTheCell(right.queue.clone()))
}

struct LooksBeforeItTakes {
    right: Arc<dyn Queue>,
    gap: Gap,
}

#[async_trait]
impl DelegateQueue for LooksBeforeItTakes {
    fn right(&self) -> &dyn Queue {
        &*self.right
    }

    async fn get(&self, queue: &Name, max: usize, visibility: Duration) -> Result<Vec<Delivery>, GetError> {
        let seen = self.right().peek(queue, max).await?;
        self.gap.cross().await;
        let taken = self.right().get(queue, max, visibility).await?;
        let mine: HashSet<_> = taken.iter().map(|delivery| delivery.message.id).collect();
        // What others took after it was seen is handed out once more, as if it were taken.
        let more = seen.into_iter().filter(|message| !mine.contains(&message.id)).map(|message| {
            let receipt = Receipt::new(queue.clone(), message.id, "1");
            Delivery::new(message, receipt)
        });
        Ok(more.chain(taken).collect())
    }
}

pub(super) fn looks_before_it_takes(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_queue(right, LooksBeforeItTakes { right: right.queue.clone(), gap: Gap::default() })
}

struct LooksBeforeItPuts {
    right: Arc<dyn Queue>,
    known: Mutex<HashSet<(Name, MessageId)>>,
    gap: Gap,
}

#[async_trait]
impl DelegateQueue for LooksBeforeItPuts {
    fn right(&self) -> &dyn Queue {
        &*self.right
    }

    async fn put(&self, queue: &Name, message: NewMessage) -> Result<Put, PutError> {
        let id = (queue.clone(), message.id);
        let known = lock(&self.known).contains(&id);
        if !known {
            self.gap.cross().await;
        }
        let put = self.right().put(queue, message.clone()).await?;
        lock(&self.known).insert(id);
        if put.receipt.is_none() && !known {
            // Somebody else came between the look and the put.
            return self.right().put(queue, message.id(MessageId::random())).await;
        }
        Ok(put)
    }
}

pub(super) fn looks_for_the_id_before_it_puts(right: &Backend, _: &Arc<TestClock>) -> Backend {
    let (known, gap) = (Mutex::default(), Gap::default());
    with_queue(right, LooksBeforeItPuts { right: right.queue.clone(), known, gap })
}

struct CountsVisible(Arc<dyn Queue>);

#[async_trait]
impl DelegateQueue for CountsVisible {
    fn right(&self) -> &dyn Queue {
        &*self.0
    }

    async fn put(&self, queue: &Name, mut message: NewMessage) -> Result<Put, PutError> {
        let depth = self.right().depth(queue).await.unwrap_or_default();
        message.depth_limit = message.depth_limit.map(|limit| limit + depth.in_flight + depth.delayed);
        self.right().put(queue, message).await
    }
}

pub(super) fn counts_only_what_is_visible(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_queue(right, CountsVisible(right.queue.clone()))
}

struct LooksAtTheDepth {
    right: Arc<dyn Queue>,
    gap: Gap,
}

#[async_trait]
impl DelegateQueue for LooksAtTheDepth {
    fn right(&self) -> &dyn Queue {
        &*self.right
    }

    async fn put(&self, queue: &Name, mut message: NewMessage) -> Result<Put, PutError> {
        let Some(limit) = message.depth_limit else { return self.right().put(queue, message).await };
        let depth = self.right().depth(queue).await.unwrap_or_default();
        // Only where it is a near thing: one who is far from the limit, or over it, does as the right one does.
        if depth.visible < limit && depth.in_flight + depth.delayed == 0 {
            self.gap.cross().await;
            message.depth_limit = None;
        }
        self.right().put(queue, message).await
    }
}

pub(super) fn looks_at_the_depth_before_it_puts(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_queue(right, LooksAtTheDepth { right: right.queue.clone(), gap: Gap::default() })
}
