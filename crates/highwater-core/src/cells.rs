use crate::{ETag, EngineError, Expect, Found, Json, Limits, Name, ReadError, Timestamp};
use async_trait::async_trait;
use std::{borrow::Cow, fmt, time::Duration};

/// The address of a cell.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellKey {
    /// What the cell is for: `leases`, `commands`, …
    pub space: Name,
    /// Its key within the space: any text of at most 512 bytes.
    pub key: String,
}

impl CellKey {
    /// The address of a cell.
    pub fn new(space: Name, key: impl Into<String>) -> Self {
        Self { space, key: key.into() }
    }
}

impl fmt::Display for CellKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.space, self.key)
    }
}

/// A small record outside every feed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Cell {
    /// Its address.
    pub key: CellKey,
    /// Identifies this state.
    pub etag: ETag,
    /// What it holds.
    pub value: Json,
    /// When it expires; `None` if it stays.
    pub expires_at: Option<Timestamp>,
}

impl Cell {
    /// A cell as an engine read it, without an expiry; set that afterwards.
    pub fn new(key: CellKey, etag: ETag, value: Json) -> Self {
        Self { key, etag, value, expires_at: None }
    }
}

/// A conditional write of one cell.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CellWrite {
    /// Which cell.
    pub key: CellKey,
    /// The condition.
    pub expect: Expect,
    /// What it shall hold.
    pub value: Json,
    /// After how long it expires, at least 1 s and at most [`Limits::longest_life`]; without it the cell stays, also
    /// one that would have expired.
    pub time_to_live: Option<Duration>,
}

impl CellWrite {
    /// A write under a condition, of a cell that stays.
    pub fn new(key: CellKey, expect: Expect, value: Json) -> Self {
        Self { key, expect, value, time_to_live: None }
    }

    /// Lets the cell expire after this time.
    pub fn time_to_live(mut self, span: Duration) -> Self {
        self.time_to_live = Some(span);
        self
    }
}

/// Why a cell was not written or deleted.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CellError {
    /// The condition did not hold; also [`Expect::Exists`] on a cell that is not there.
    #[error("conflict on cell {key}: found {found}")]
    Conflict {
        /// The cell.
        key: CellKey,
        /// What was there.
        found: Found,
    },
    /// The key or the value is too large.
    #[error("{what}: {size} is over the limit of {limit}")]
    TooLarge {
        /// What is too large.
        what: Cow<'static, str>,
        /// How large it is, in bytes.
        size: usize,
        /// How large it may be.
        limit: usize,
    },
    /// The time to live is out of its range.
    #[error("{what} must be {range}")]
    OutOfRange {
        /// Which time.
        what: Cow<'static, str>,
        /// What is allowed.
        range: Cow<'static, str>,
    },
    /// The engine failed.
    #[error("{0}")]
    Engine(#[from] EngineError),
}

/// Small records with conditional writes: leases, the state of processors, commands on their way.
///
/// A deleted cell leaves nothing that could be read or expected ([`Found::Nothing`]); but when it is written again
/// its version is above all it ever had, so that no ETag from before fits. A cell whose time to live has passed is
/// the same as a deleted one, from that moment on.
#[async_trait]
pub trait Cells: Send + Sync + 'static {
    /// What the cells accept: `cell_bytes`, `key_bytes` and `longest_life`. The other fields say nothing here.
    fn limits(&self) -> &Limits;

    /// Reads one cell.
    async fn read(&self, key: &CellKey) -> Result<Option<Cell>, ReadError>;

    /// Writes one cell if the condition holds, and returns its new ETag once that is durable.
    async fn write(&self, write: CellWrite) -> Result<ETag, CellError>;

    /// Deletes one cell if the condition holds. Deleting what is not there is fine with [`Expect::Any`].
    async fn delete(&self, key: &CellKey, expect: Expect) -> Result<(), CellError>;

    /// Reads the cells of a space in the order of their keys, after `after` if given, at most `max`.
    async fn list(&self, space: &Name, after: Option<&str>, max: usize) -> Result<Vec<Cell>, ReadError>;
}
