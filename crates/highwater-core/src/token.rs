use crate::{Epoch, Partition, Position, StoreId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{collections::BTreeMap, fmt, str::FromStr};

/// How far one store has come, partition by partition. A partition that is not listed is not asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// The life of the store in which the positions were given.
    pub epoch: Epoch,
    /// The position in each partition.
    pub positions: BTreeMap<Partition, Position>,
}

/// A set of positions that a reader can be asked to have reached: what a commit returns, what a view is asked
/// with. Tokens of several commits and several stores can be merged into one.
///
/// Written as text for cookies and headers; whoever holds one should not look inside.
///
/// ```
/// use highwater_core::{Epoch, Partition, Position, StoreId, Token};
/// let mut token = Token::default();
/// token.raise(StoreId::random(), Epoch(1), Partition(3), Position::new(17).unwrap());
/// assert_eq!(token.to_string().parse::<Token>()?, token);
/// # Ok::<(), highwater_core::InvalidToken>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Token {
    stores: BTreeMap<StoreId, Reached>,
}

impl Token {
    /// What the token asks of each store.
    pub fn stores(&self) -> impl Iterator<Item = (StoreId, &Reached)> {
        self.stores.iter().map(|(store, reached)| (*store, reached))
    }

    /// What the token asks of one store.
    pub fn of(&self, store: StoreId) -> Option<&Reached> {
        self.stores.get(&store)
    }

    /// Asks for at least this position too. Of two epochs of one store the later one counts.
    pub fn raise(&mut self, store: StoreId, epoch: Epoch, partition: Partition, position: Position) {
        let reached =
            self.stores.entry(store).or_insert_with(|| Reached { epoch, positions: BTreeMap::new() });
        if epoch > reached.epoch {
            *reached = Reached { epoch, positions: BTreeMap::new() };
        }
        if epoch == reached.epoch {
            let highest = reached.positions.entry(partition).or_insert(position);
            *highest = position.max(*highest);
        }
    }

    /// Asks for everything that `other` asks for too.
    pub fn merge(&mut self, other: &Self) {
        for (store, reached) in &other.stores {
            for (partition, position) in &reached.positions {
                self.raise(*store, reached.epoch, *partition, *position);
            }
        }
    }
}

/// Writes `1` (the format), then for each store `~store.epoch.partition:position,…`.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("1")?;
        for (store, reached) in &self.stores {
            write!(f, "~{}.{:x}.", store.0.simple(), reached.epoch.0)?;
            for (index, (partition, position)) in reached.positions.iter().enumerate() {
                let comma = if index == 0 { "" } else { "," };
                write!(f, "{comma}{:x}:{:x}", partition.0, position.get())?;
            }
        }
        Ok(())
    }
}

/// The longest text that is looked at, in bytes.
const MAX_TEXT: usize = 64 * 1024;

impl FromStr for Token {
    type Err = InvalidToken;
    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        if text.len() > MAX_TEXT {
            return Err(InvalidToken);
        }
        let mut token = Self::default();
        let mut parts = text.split('~');
        if parts.next() != Some("1") {
            return Err(InvalidToken);
        }
        for part in parts {
            token.parse_store(part).ok_or(InvalidToken)?;
        }
        Ok(token)
    }
}

impl Token {
    fn parse_store(&mut self, text: &str) -> Option<()> {
        let mut fields = text.splitn(3, '.');
        let store = StoreId(fields.next()?.parse().ok()?);
        let epoch = Epoch(u64::from_str_radix(fields.next()?, 16).ok()?);
        for pair in fields.next()?.split(',') {
            let (partition, position) = pair.split_once(':')?;
            let partition = Partition(u16::from_str_radix(partition, 16).ok()?);
            let position = Position::new(u64::from_str_radix(position, 16).ok()?)?;
            self.raise(store, epoch, partition, position);
        }
        Some(())
    }
}

impl Serialize for Token {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A text that is not a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a token: send back exactly what a commit or an outcome returned")]
pub struct InvalidToken;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_epochs_the_later_one_counts() {
        let (store, position) = (StoreId::random(), |n| Position::new(n).unwrap());
        let mut token = Token::default();
        token.raise(store, Epoch(2), Partition(0), position(5));
        token.raise(store, Epoch(1), Partition(1), position(900));
        token.raise(store, Epoch(2), Partition(0), position(4));
        let reached = token.of(store).unwrap();
        assert_eq!(reached.epoch, Epoch(2));
        assert_eq!(reached.positions, BTreeMap::from([(Partition(0), position(5))]));
    }

    #[test]
    fn hostile_text_is_not_a_token() {
        for text in ["", "2", "1~", "1~x.1.0:1", "1~00000000000000000000000000000000.1.0:0", "'; drop table"]
        {
            assert_eq!(text.parse::<Token>(), Err(InvalidToken), "{text}");
        }
        assert_eq!("1".parse::<Token>(), Ok(Token::default()));
    }
}
