use crate::{Epoch, Partition, Position};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// The lives of a store: the one it is in, and up to which position of each partition it shares the history of
/// earlier ones. A position that was given in another life means the same change in this one up to there, and
/// nothing at all beyond.
///
/// ```
/// use highwater_core::{Epoch, Lineage, Partition, Position};
/// use std::collections::BTreeMap;
///
/// let (three, five) = (Position::new(3), Position::new(5));
/// let shared = BTreeMap::from_iter(three.map(|three| (Partition(0), three)));
/// let lineage = Lineage::first(Epoch(9)).sharing(Epoch(1), shared);
/// assert!(lineage.check(Epoch(1), Partition(0), three).is_ok());
/// assert!(lineage.check(Epoch(1), Partition(0), five).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage {
    epoch: Epoch,
    shared: Arc<BTreeMap<Epoch, BTreeMap<Partition, Position>>>,
}

impl Lineage {
    /// The life that this epoch names, which goes on from no other.
    pub fn first(epoch: Epoch) -> Self {
        Self { epoch, shared: Arc::default() }
    }

    /// Adds an earlier life: everything up to and with these positions was committed in it, or before it, and is there
    /// still. A partition that is not listed shares nothing.
    pub fn sharing(mut self, earlier: Epoch, shared: BTreeMap<Partition, Position>) -> Self {
        Arc::make_mut(&mut self.shared).insert(earlier, shared);
        self
    }

    /// The life that the store is in.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The earlier lives, and what is shared with each.
    pub fn earlier(&self) -> impl Iterator<Item = (Epoch, &BTreeMap<Partition, Position>)> {
        self.shared.iter().map(|(epoch, shared)| (*epoch, shared))
    }

    /// Whether the store knows of this life.
    pub fn knows(&self, epoch: Epoch) -> bool {
        epoch == self.epoch || self.shared.contains_key(&epoch)
    }

    /// Whether a position that was given in the life `epoch` means the same in this one. One of this life always does.
    ///
    /// # Errors
    /// [`Diverged`] when it lies beyond what the two lives share.
    pub fn check(
        &self,
        epoch: Epoch,
        partition: Partition,
        position: Option<Position>,
    ) -> Result<(), Diverged> {
        let Some(position) = position.filter(|_| epoch != self.epoch) else { return Ok(()) };
        let life = self.shared.get(&epoch);
        let shared = life.and_then(|shared| shared.get(&partition)).copied();
        if Some(position) <= shared {
            return Ok(());
        }
        let known = life.is_some();
        Err(Diverged { partition, position, found: epoch, epoch: self.epoch, known, shared })
    }
}

/// A place beyond what two lives of a store have in common: it belongs to changes that this life does not have, and
/// other changes may stand at its positions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diverged {
    /// The partition of the place.
    pub partition: Partition,
    /// The position.
    pub position: Position,
    /// The life in which it was given.
    pub found: Epoch,
    /// The life that the store is in.
    pub epoch: Epoch,
    /// Whether the store knows of the life in which it was given.
    pub known: bool,
    /// The last position of that partition that both lives have; `None` if there is none.
    pub shared: Option<Position>,
}

impl Diverged {
    /// A position beyond the end of the log of the very life in which it was given: the store's file was replaced by an
    /// older one without a restore.
    pub fn beyond(epoch: Epoch, partition: Partition, position: Position, head: Option<Position>) -> Self {
        Self { partition, position, found: epoch, epoch, known: true, shared: head }
    }
}

impl fmt::Display for Diverged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partition, position, found, epoch, known, shared } = self;
        write!(f, "position {position} of partition {partition} is of epoch {found}")?;
        let shared = Position::number(*shared);
        match (known, found == epoch) {
            (false, _) => write!(f, ", of which the store, in epoch {epoch}, knows nothing")?,
            (true, true) => {
                write!(f, " and beyond the end of its log, {shared}: an older file was put back")?
            }
            (true, false) => {
                write!(
                    f,
                    "; the store was restored into epoch {epoch} and shares that history up to {shared}"
                )?;
            }
        }
        f.write_str("; what stood beyond is lost: read again and go on from there")
    }
}

impl std::error::Error for Diverged {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_of_an_unknown_life_has_diverged_and_none_has_not() {
        let lineage = Lineage::first(Epoch(5)).sharing(Epoch(1), BTreeMap::new());
        let check = |epoch, position| lineage.check(Epoch(epoch), Partition(3), Position::new(position));
        assert!(check(5, 900).is_ok() && check(1, 0).is_ok() && check(4, 0).is_ok());
        assert!(!check(4, 1).unwrap_err().known);
        let error = check(1, 1).unwrap_err();
        assert_eq!((error.known, error.shared), (true, None));
    }
}
