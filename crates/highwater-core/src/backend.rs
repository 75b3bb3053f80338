use crate::{Cells, Queue, Store, ViewStore};
use std::{fmt, sync::Arc};

/// The four engines that an application runs on. They may be one object or four.
#[derive(Clone)]
pub struct Backend {
    /// Containers and their feed.
    pub store: Arc<dyn Store>,
    /// Queues.
    pub queue: Arc<dyn Queue>,
    /// Cells.
    pub cells: Arc<dyn Cells>,
    /// View documents.
    pub views: Arc<dyn ViewStore>,
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").field("store", &self.store.info()).finish_non_exhaustive()
    }
}
