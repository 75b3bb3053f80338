use crate::core::Patience;
use crate::engine::Engine;
use crate::schema::{DecodeError, read_body};
use crate::session::Session;
use crate::view::View;
use highwater_core::{
    Diverged, EngineError, FailureKind, InvalidName, Lineage, Name, Position, ReadError, StoreId, StoreInfo,
    Token, ViewName, ViewReached, failpoint,
};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

/// Reads the documents of a view.
#[derive(Debug)]
pub struct ViewReader<'a, V: View> {
    engine: &'a Engine,
    view: PhantomData<V>,
}

/// How an answer relates to what was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Freshness {
    /// The view had reached the token at once; or no token was given.
    Fresh,
    /// The view reached the token after this time.
    Waited(Duration),
    /// The view has not reached the token within the limit; the document may be old.
    Stale {
        /// How many positions were missing, over all partitions.
        behind: u64,
    },
    /// The token, or the view, is of a life of the store that was lost in a restore, or no store of this kind gave the
    /// token: nothing says how old the document is. A view is built again as soon as a projector runs.
    Diverged(Diverged),
}

/// A document as a view holds it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Answer<D> {
    /// The document; `None` if there is none under the key.
    pub document: Option<D>,
    /// Whether it is as new as was asked for.
    pub freshness: Freshness,
    /// What the view had reached when the document was read.
    pub token: Token,
}

impl<D> Answer<D> {
    /// True when the answer contains everything that the token asked for.
    pub fn is_fresh(&self) -> bool {
        matches!(self.freshness, Freshness::Fresh | Freshness::Waited(_))
    }
}

/// Why a view could not be read.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ViewReadError {
    /// The engine was not given this view.
    #[error("no view `{view}` is registered: add `.view(…)` before `start`")]
    NotRegistered {
        /// Its name.
        view: &'static str,
    },
    /// The view's name is not a name.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The token asks for a store that the view does not follow.
    #[error("the token is of store {found}, the view follows store {follows}")]
    OtherStore {
        /// The store in the token.
        found: StoreId,
        /// The store that the view follows.
        follows: StoreId,
    },
    /// The view holds rows of a life of the store that was lost in a restore. It is built again as soon as a projector
    /// runs.
    #[error("the view has diverged: {0}")]
    Diverged(#[from] Diverged),
    /// The document cannot be read.
    #[error("document {key}: {source}")]
    Document {
        /// Its key.
        key: String,
        /// Why.
        source: DecodeError,
    },
    /// The engine failed.
    #[error("{0}")]
    Engine(#[from] EngineError),
}

impl From<ReadError> for ViewReadError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Engine(error) => Self::Engine(error),
            other => Self::Engine(EngineError::new(FailureKind::Other, other.to_string())),
        }
    }
}

impl<'a, V: View> ViewReader<'a, V> {
    pub(crate) fn new(engine: &'a Engine) -> Self {
        Self { engine, view: PhantomData }
    }

    /// Reads one document; await it.
    pub fn get(&self, key: impl Into<String>) -> GetDocument<'a, V> {
        let (token, limit) = (Token::default(), None);
        GetDocument { engine: self.engine, key: key.into(), token, limit, view: PhantomData }
    }

    /// Reads documents with their keys, in the order of the keys, after `after` if given, at most `max`.
    ///
    /// # Errors
    /// [`ViewReadError`].
    pub async fn list(
        &self,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<(String, V::Document)>, ViewReadError> {
        let (backend, name) = (self.engine.backend(), name::<V>(self.engine)?);
        let reached = backend.views.reached(&name, backend.store.info().id).await?;
        check(&backend.store.lineage(), reached.as_ref())?;
        let found = backend.views.list(&name, after, max).await?;
        let mut documents = Vec::with_capacity(found.len());
        for document in found {
            let Some(body) = document.body else { continue };
            documents.push((document.key.clone(), read::<V>(&document.key, &body)?));
        }
        Ok(documents)
    }
}

fn name<V: View>(engine: &Engine) -> Result<ViewName, ViewReadError> {
    if !engine.has_view(V::NAME) {
        return Err(ViewReadError::NotRegistered { view: V::NAME });
    }
    Ok(ViewName { name: Name::new(V::NAME)?, generation: V::GENERATION })
}

fn read<V: View>(key: &str, body: &highwater_core::Body) -> Result<V::Document, ViewReadError> {
    read_body(body, V::SCHEMA, V::upcast)
        .map_err(|source| ViewReadError::Document { key: key.into(), source })
}

/// Asks for one document; await it.
#[must_use = "nothing is read until this is awaited"]
#[derive(Debug)]
pub struct GetDocument<'a, V: View> {
    engine: &'a Engine,
    key: String,
    token: Token,
    limit: Option<Duration>,
    view: PhantomData<V>,
}

impl<'a, V: View> GetDocument<'a, V> {
    /// Asks for a document that is at least as new as this token; the answer says whether it is.
    pub fn at_least(mut self, token: &Token) -> Self {
        self.token.merge(token);
        self
    }

    /// Waits for the view to reach the token, at most this long; without it as long as a [`Session`] says, or else not at
    /// all. An engine that a test drives does not wait.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    async fn read(mut self) -> Result<Answer<V::Document>, ViewReadError> {
        let core = self.engine.core();
        let (views, info) = (&core.backend.views, core.backend.store.info());
        if let Some((found, _)) = self.token.stores().find(|(store, _)| *store != info.id) {
            return Err(ViewReadError::OtherStore { found, follows: info.id });
        }
        let session = Session::current();
        if let Some(session) = &session {
            let own = session.of(&info);
            // A token of an older life that was asked for by name stays what it is: one that cannot be compared.
            if self.token.of(info.id).is_none_or(|asked| asked.epoch == info.epoch) {
                self.token.merge(&own);
            }
        }
        let limit = self.limit.or(session.map(|session| session.patience())).unwrap_or_default();
        let (view, lineage) = (name::<V>(self.engine)?, core.backend.store.lineage());
        let began = core.clock.monotonic();
        let mut patience = Patience::new(core, limit, vec![views.wake()]);
        let mut waited = false;
        loop {
            let (document, reached) = views.document(&view, info.id, &self.key).await?;
            let freshness = match gap(&self.token, &info, &lineage, reached.as_ref()) {
                Gap::Behind(_) if failpoint::sabotaged("token-not-compared") => Freshness::Fresh,
                Gap::Diverged(diverged) => Freshness::Diverged(diverged),
                Gap::Behind(0) if waited => Freshness::Waited(core.clock.monotonic().saturating_sub(began)),
                Gap::Behind(0) => Freshness::Fresh,
                Gap::Behind(_) if patience.again().await => {
                    waited = true;
                    continue;
                }
                Gap::Behind(behind) => Freshness::Stale { behind },
            };
            let body = document.and_then(|document| document.body);
            let document = body.map(|body| read::<V>(&self.key, &body)).transpose()?;
            return Ok(Answer { document, freshness, token: token_of(&info, reached.as_ref()) });
        }
    }
}

enum Gap {
    Behind(u64),
    Diverged(Diverged),
}

/// Whether everything that a view has reached is in the log of its store.
fn check(lineage: &Lineage, reached: Option<&ViewReached>) -> Result<(), Diverged> {
    reached.map_or(Ok(()), |reached| {
        let mut positions = reached.positions.iter();
        positions.try_for_each(|(at, position)| lineage.check(reached.epoch, *at, Some(*position)))
    })
}

/// How many positions a view lacks to have reached a token, and to be whole.
fn gap(token: &Token, info: &StoreInfo, lineage: &Lineage, reached: Option<&ViewReached>) -> Gap {
    if let Err(diverged) = check(lineage, reached) {
        return Gap::Diverged(diverged);
    }
    let mut wanted = reached
        .and_then(|reached| reached.healing.clone())
        .map_or_else(BTreeMap::new, |healing| healing.until);
    if let Some(asked) = token.of(info.id) {
        for (partition, position) in &asked.positions {
            if partition.0 >= info.partitions {
                return Gap::Diverged(Diverged::beyond(asked.epoch, *partition, *position, None));
            }
            if let Err(diverged) = lineage.check(asked.epoch, *partition, Some(*position)) {
                return Gap::Diverged(diverged);
            }
            let most = wanted.entry(*partition).or_insert(*position);
            *most = position.max(most).to_owned();
        }
    }
    let missing = wanted.iter().map(|(partition, position)| {
        let has = reached.and_then(|reached| reached.positions.get(partition).copied());
        position.get().saturating_sub(Position::number(has))
    });
    Gap::Behind(missing.fold(0, u64::saturating_add))
}

fn token_of(info: &StoreInfo, reached: Option<&ViewReached>) -> Token {
    let mut token = Token::default();
    if let Some(reached) = reached {
        for (partition, position) in &reached.positions {
            token.raise(info.id, reached.epoch, *partition, *position);
        }
    }
    token
}

impl<'a, V: View> IntoFuture for GetDocument<'a, V> {
    type Output = Result<Answer<V::Document>, ViewReadError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.read())
    }
}
