//! Folds a page of changes into documents and writes them together with the view's progress.

use crate::core::{Core, back_off};
use crate::guard::guard;
use crate::handler::HandlerError;
use crate::schema::read_body;
use crate::view::{Folded, Folding, Sources, View};
use crate::view_claim::claim;
use highwater_core::{
    Body, Change, ChangePage, Claim, Document, DocumentKey, DocumentWrite, Json, Marks, Name, Partition,
    Position, ViewBatch, ViewName, ViewSlot, ViewWriteError, async_trait, failpoint,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::Mutex;

/// How many locks keep partitions that meet in one document apart.
const DOCUMENT_LOCKS: usize = 64;

/// How often a batch is folded again because another process wrote one of its documents in between.
const CONFLICT_RETRIES: u32 = 20;

/// Why a batch was not applied.
pub(crate) enum NotApplied {
    /// Somebody else owns the slot.
    Fenced,
    /// Something went wrong.
    Failed(HandlerError),
}

impl<E: Into<HandlerError>> From<E> for NotApplied {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// A view, whatever its documents.
#[async_trait]
pub(crate) trait ViewSink: Send + Sync {
    fn containers(&self) -> Vec<&'static str>;
    fn view(&self) -> &ViewName;
    async fn claim(&self, core: &Core, partition: Partition) -> Result<Claim, NotApplied>;
    /// Writes what a page changes, in as many batches as it takes; the claim moves on with each of them, also when
    /// a later one fails.
    async fn apply(
        &self,
        core: &Core,
        partition: Partition,
        claim: &mut Claim,
        page: &ChangePage,
    ) -> Result<(), NotApplied>;
}

pub(crate) struct DocumentSink<V: View> {
    view: V,
    name: ViewName,
    sources: Sources<V>,
    locks: Vec<Mutex<()>>,
}

/// A change that concerns a view, with its events.
type Relevant<'c, V> = (&'c Change, Vec<Folding<V>>);

/// A document while a batch is folded into it.
struct Working<D> {
    expected: u64,
    body: Option<D>,
    marks: Marks,
    changed: bool,
}

impl<V: View> DocumentSink<V> {
    pub(crate) fn new(view: V) -> Result<Self, highwater_core::InvalidName> {
        let name = ViewName { name: Name::new(V::NAME)?, generation: V::GENERATION };
        let locks = (0..DOCUMENT_LOCKS).map(|_| Mutex::new(())).collect();
        Ok(Self { view, name, sources: Sources::of_view(), locks })
    }

    fn slot(&self, core: &Core, partition: Partition) -> ViewSlot {
        ViewSlot { view: self.name.clone(), store: core.backend.store.info().id, partition }
    }

    fn steps<'c>(&self, page: &'c ChangePage) -> Result<Vec<Relevant<'c, V>>, HandlerError> {
        let mut steps = Vec::with_capacity(page.changes.len());
        for change in &page.changes {
            for (container, read) in &self.sources.readers {
                if change.key.container.as_str() == *container && !change.events.is_empty() {
                    steps.push((change, guard(|| read(&self.view, change))??));
                }
            }
        }
        Ok(steps)
    }

    fn open(&self, found: Option<Document>) -> Result<Working<V::Document>, HandlerError> {
        let Some(found) = found else {
            return Ok(Working { expected: 0, body: None, marks: Marks::new(), changed: false });
        };
        let body = found.body.map(|body| read_body(&body, V::SCHEMA, V::upcast)).transpose()?;
        Ok(Working { expected: found.version, body, marks: found.marks, changed: false })
    }

    /// Folds every event into every document that has not had it yet.
    fn fold(
        &self,
        steps: &[Relevant<'_, V>],
        documents: &mut BTreeMap<DocumentKey, Working<V::Document>>,
    ) -> Result<(), HandlerError> {
        for (change, steps) in steps {
            let (source, version) = (change.key.to_string(), change.version.get());
            for step in steps {
                for key in &step.keys {
                    let Some(document) = documents.get_mut(key) else { continue };
                    if document.marks.get(&source).is_some_and(|applied| *applied >= version) {
                        metrics::counter!("highwater_view_duplicates_total", "view" => V::NAME).increment(1);
                        continue;
                    }
                    let before = document.body.take().unwrap_or_default();
                    document.body = match guard(|| (step.fold)(&self.view, key, before))? {
                        Folded::Put(body) => Some(body),
                        Folded::Delete => None,
                    };
                    document.changed = true;
                }
            }
            // Marked once the whole change is folded: all its events carry the same version.
            for key in steps.iter().flat_map(|step| &step.keys) {
                if let Some(document) = documents.get_mut(key) {
                    let mark = document.marks.entry(source.clone()).or_default();
                    *mark = version.max(*mark);
                }
            }
        }
        Ok(())
    }

    async fn write(
        &self,
        core: &Core,
        slot: ViewSlot,
        claim: Claim,
        position: Position,
        steps: &[Relevant<'_, V>],
        keys: &[DocumentKey],
    ) -> Result<Result<(), ViewWriteError>, HandlerError> {
        let found = core.backend.views.documents(&self.name, keys).await?;
        let mut documents = BTreeMap::new();
        for (key, found) in keys.iter().zip(found) {
            documents.insert(key.clone(), self.open(found)?);
        }
        self.fold(steps, &mut documents)?;
        let mut writes = Vec::new();
        for (key, Working { expected, body, marks, changed }) in documents {
            if changed {
                let body = body.map(|body| Json::encode(&body)).transpose()?;
                let body = body.map(|json| Body { schema: V::SCHEMA, json });
                writes.push(DocumentWrite::new(key, expected, body, marks));
            }
        }
        let mut claim = claim;
        if failpoint::sabotaged("position-first") {
            let first = ViewBatch::new(slot.clone(), claim, position, Vec::new());
            if let Err(error) = core.backend.views.write(first).await {
                return Ok(Err(error));
            }
            claim = claim.at(position);
        }
        failpoint::hit("view.folded");
        let result = core.backend.views.write(ViewBatch::new(slot, claim, position, writes)).await;
        failpoint::hit("view.written");
        Ok(result)
    }
}

#[async_trait]
impl<V: View> ViewSink for DocumentSink<V> {
    fn containers(&self) -> Vec<&'static str> {
        self.sources.readers.iter().map(|(container, _)| *container).collect()
    }

    fn view(&self) -> &ViewName {
        &self.name
    }

    async fn claim(&self, core: &Core, partition: Partition) -> Result<Claim, NotApplied> {
        claim(core, &self.slot(core, partition)).await
    }

    async fn apply(
        &self,
        core: &Core,
        partition: Partition,
        claim: &mut Claim,
        page: &ChangePage,
    ) -> Result<(), NotApplied> {
        let Some(scanned) = page.scanned else { return Ok(()) };
        let steps = self.steps(page)?;
        let most = core.backend.views.limits().documents_per_batch;
        for (position, stretch) in stretches(&steps, scanned, most) {
            let position = claim.position.map_or(position, |reached| reached.max(position));
            self.apply_stretch(core, partition, *claim, position, stretch).await?;
            *claim = claim.at(position);
        }
        Ok(())
    }
}

impl<V: View> DocumentSink<V> {
    /// Folds some commits and writes their documents with the position of the last of them.
    async fn apply_stretch(
        &self,
        core: &Core,
        partition: Partition,
        claim: Claim,
        position: Position,
        steps: &[Relevant<'_, V>],
    ) -> Result<(), NotApplied> {
        let keys: Vec<DocumentKey> = keys(steps).cloned().collect::<BTreeSet<_>>().into_iter().collect();
        // Taken in rising order, so that two partitions never wait for each other.
        let mut slots: Vec<usize> = keys.iter().map(|key| lock_of(key)).collect();
        slots.sort_unstable();
        slots.dedup();
        let mut held = Vec::with_capacity(slots.len());
        for lock in slots.into_iter().filter_map(|slot| self.locks.get(slot)) {
            held.push(lock.lock().await);
        }
        let mut attempt = 0;
        loop {
            let slot = self.slot(core, partition);
            match self.write(core, slot, claim, position, steps, &keys).await? {
                Ok(()) => return Ok(()),
                Err(ViewWriteError::Fenced { .. }) => return Err(NotApplied::Fenced),
                Err(ViewWriteError::Conflict { key }) if attempt < CONFLICT_RETRIES => {
                    attempt += 1;
                    tracing::debug!(view = %self.name, key, attempt, "document changed meanwhile, folding again");
                    core.pause(back_off(attempt, Duration::from_millis(1), Duration::from_millis(50))).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The documents that some changes fold into.
fn keys<'s, V: View>(steps: &'s [Relevant<'_, V>]) -> impl Iterator<Item = &'s DocumentKey> {
    steps.iter().flat_map(|(_, foldings)| foldings).flat_map(|folding| &folding.keys)
}

/// Cuts the changes of a page between two commits so that each stretch has at most `most` documents, and says up
/// to which position each goes. A commit that has more by itself is a stretch alone, for the view store to refuse.
fn stretches<'s, 'c, V: View>(
    steps: &'s [Relevant<'c, V>],
    scanned: Position,
    most: usize,
) -> Vec<(Position, &'s [Relevant<'c, V>])> {
    let mut stretches = Vec::new();
    let (mut begin, mut end, mut documents) = (0, 0, BTreeSet::new());
    for commit in steps.chunk_by(|(one, _), (other, _)| one.commit_end() == other.commit_end()) {
        let more: BTreeSet<_> = keys(commit).filter(|key| !documents.contains(*key)).collect();
        let before = steps.get(begin..end).unwrap_or_default();
        if documents.len() + more.len() > most
            && let Some((last, _)) = before.last()
        {
            stretches.push((last.commit_end(), before));
            begin = end;
            documents = keys(commit).collect();
        } else {
            documents.extend(more);
        }
        end += commit.len();
    }
    stretches.push((scanned, steps.get(begin..).unwrap_or_default()));
    stretches
}

fn lock_of(key: &str) -> usize {
    // FNV-1a; only spreads keys over locks.
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash % DOCUMENT_LOCKS as u64) as usize
}
