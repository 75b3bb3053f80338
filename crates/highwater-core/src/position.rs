use crate::PartitionKey;
use serde::{Deserialize, Serialize};
use std::{fmt, num::NonZeroU64};
use xxhash_rust::xxh3::xxh3_64;

/// One of a store's ordered logs; the unit of parallelism. Numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Partition(pub u16);

impl Partition {
    /// The partition of a key in a store of `count` partitions: XXH3 (64 bit, seed 0) of the key's bytes, modulo
    /// `count`. Fixed for the life of a store.
    pub fn of(key: &PartitionKey, count: u16) -> Self {
        let slot = xxh3_64(key.as_str().as_bytes()) % u64::from(count.max(1));
        // The remainder of a u16 divisor fits a u16.
        Self(slot as u16)
    }

    /// All partitions of a store that has `count` of them.
    pub fn all(count: u16) -> impl Iterator<Item = Self> + Clone {
        (0..count).map(Self)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Where a change stands in its partition, from 1. Positions rise in commit order; holes may exist, late
/// arrivals may not; within an epoch none is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Position(NonZeroU64);

impl Position {
    /// The position of this number; `None` for 0, which is before every position.
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// The number, at least 1.
    pub fn get(self) -> u64 {
        self.0.get()
    }

    /// The number of an optional position, 0 for "before the first".
    pub fn number(position: Option<Self>) -> u64 {
        position.map_or(0, Self::get)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Names one life of a store; 1 is the first. A restore or a fail-over begins another one with a higher number, which
/// no other life of that store has: positions beyond the place where the two part mean something else in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keys_partition_is_fixed_for_ever() {
        let partition = |key: &str| Partition::of(&PartitionKey::new(key).unwrap(), 16).0;
        assert_eq!([partition("2026-12-24"), partition("barbara"), partition("ü")], [14, 15, 14]);
    }
}
