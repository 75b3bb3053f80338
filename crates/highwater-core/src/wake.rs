use std::sync::Arc;
use tokio::sync::watch;

/// Sends hints that something has changed.
#[derive(Debug, Clone)]
pub struct Waker(Arc<watch::Sender<u64>>);

impl Waker {
    /// A source of hints.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    /// Wakes everyone who waits, and everyone who starts to wait without having seen this hint.
    pub fn wake(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// A receiver of the hints sent from here on.
    pub fn subscribe(&self) -> Wake {
        Wake(Some(self.0.subscribe()))
    }
}

impl Default for Waker {
    fn default() -> Self {
        Self::new()
    }
}

/// Receives hints that something has changed. A hint says neither what nor how often; it may be lost. Whoever
/// waits here must also poll.
#[derive(Debug, Clone)]
pub struct Wake(Option<watch::Receiver<u64>>);

impl Wake {
    /// A receiver that never gets a hint: for engines that have none to give.
    pub fn never() -> Self {
        Self(None)
    }

    /// Returns at the next hint that was not seen yet.
    pub async fn hint(&mut self) {
        if let Some(receiver) = &mut self.0
            && receiver.changed().await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }
}
