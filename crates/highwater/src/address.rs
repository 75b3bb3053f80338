use highwater_core::{InvalidKey, ItemId, ItemKey, Name, PartitionKey};

/// The address of an aggregate within its container. A plain text is both partition key and id; a pair names
/// them one by one, for aggregates that share a partition key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    partition_key: String,
    id: String,
}

impl From<&str> for Address {
    fn from(key: &str) -> Self {
        Self { partition_key: key.into(), id: key.into() }
    }
}

impl From<&String> for Address {
    fn from(key: &String) -> Self {
        key.as_str().into()
    }
}

impl From<String> for Address {
    fn from(key: String) -> Self {
        key.as_str().into()
    }
}

impl From<(&str, &str)> for Address {
    fn from((partition_key, id): (&str, &str)) -> Self {
        Self { partition_key: partition_key.into(), id: id.into() }
    }
}

impl Address {
    pub(crate) fn within(&self, container: &Name) -> Result<ItemKey, InvalidKey> {
        let (partition_key, id) = (PartitionKey::new(&self.partition_key)?, ItemId::new(&self.id)?);
        Ok(ItemKey { container: container.clone(), partition_key, id })
    }
}
