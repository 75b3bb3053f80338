//! Queues that park wrongly.

use crate::TestClock;
use crate::delegate::{DelegateQueue, lock, with_queue};
use highwater_core::*;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

struct LosesTheHistory(Arc<dyn Queue>);

fn without_history(mut parked: Parked) -> Parked {
    parked.message.history.clear();
    parked
}

#[async_trait]
impl DelegateQueue for LosesTheHistory {
    fn right(&self) -> &dyn Queue {
        &*self.0
    }

    async fn parked(
        &self,
        queue: &Name,
        after: Option<MessageId>,
        max: usize,
    ) -> Result<Vec<Parked>, GetError> {
        let parked = self.right().parked(queue, after, max).await?;
        Ok(parked.into_iter().map(without_history).collect())
    }

    async fn parked_message(&self, queue: &Name, id: MessageId) -> Result<Option<Parked>, GetError> {
        Ok(self.right().parked_message(queue, id).await?.map(without_history))
    }
}

pub(super) fn loses_the_history_when_parking(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_queue(right, LosesTheHistory(right.queue.clone()))
}

struct ParksByDeleting(Arc<dyn Queue>);

#[async_trait]
impl DelegateQueue for ParksByDeleting {
    fn right(&self) -> &dyn Queue {
        &*self.0
    }

    async fn park(&self, receipt: &Receipt, _: Parking) -> Result<(), ReceiptError> {
        self.right().delete(receipt).await
    }
}

pub(super) fn parks_by_deleting(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_queue(right, ParksByDeleting(right.queue.clone()))
}

struct CannotParkWhatIsLarge {
    right: Arc<dyn Queue>,
    sizes: Mutex<HashMap<MessageId, usize>>,
    limit: usize,
}

#[async_trait]
impl DelegateQueue for CannotParkWhatIsLarge {
    fn right(&self) -> &dyn Queue {
        &*self.right
    }

    async fn get(&self, queue: &Name, max: usize, visibility: Duration) -> Result<Vec<Delivery>, GetError> {
        let taken = self.right().get(queue, max, visibility).await?;
        let sizes = taken.iter().map(|delivery| (delivery.message.id, delivery.message.body.len()));
        lock(&self.sizes).extend(sizes);
        Ok(taken)
    }

    async fn park(&self, receipt: &Receipt, parking: Parking) -> Result<(), ReceiptError> {
        let size = lock(&self.sizes).get(&receipt.message).copied().unwrap_or(0);
        if size + parking.error.len() + parking.reason.len() > self.limit {
            return self.right().delete(receipt).await;
        }
        self.right().park(receipt, parking).await
    }
}

pub(super) fn cannot_park_what_is_large(right: &Backend, _: &Arc<TestClock>) -> Backend {
    let (limit, sizes) = (right.queue.limits().message_bytes, Mutex::default());
    with_queue(right, CannotParkWhatIsLarge { right: right.queue.clone(), sizes, limit })
}

struct ClearsThePoison(Arc<dyn Queue>);

#[async_trait]
impl DelegateQueue for ClearsThePoison {
    fn right(&self) -> &dyn Queue {
        &*self.0
    }

    async fn clear(&self, queue: &Name) -> Result<u64, GetError> {
        for parked in self.right().parked(queue, None, 1_000).await? {
            // Gone already is as good.
            let _ = self.right().discard(queue, parked.message.id).await;
        }
        self.right().clear(queue).await
    }
}

pub(super) fn clears_the_poison_too(right: &Backend, _: &Arc<TestClock>) -> Backend {
    with_queue(right, ClearsThePoison(right.queue.clone()))
}
