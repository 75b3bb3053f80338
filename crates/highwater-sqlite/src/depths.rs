//! How many messages each queue holds: counted as they come and go, written once for a group, so that neither a depth
//! limit nor a look at a long queue counts them one by one.

use rusqlite::Connection;
use std::collections::HashMap;

/// The counts of the queues that the present group has met. Forgotten with the rest of what the writer remembers
/// whenever the group fails or another process has written.
#[derive(Default)]
pub(crate) struct Depths(HashMap<i64, Depth>);

#[derive(Clone, Copy)]
struct Depth {
    messages: i64,
    /// What the table says.
    stored: i64,
}

impl Depths {
    fn depth(&mut self, connection: &Connection, queue: i64) -> rusqlite::Result<&mut Depth> {
        match self.0.entry(queue) {
            std::collections::hash_map::Entry::Occupied(known) => Ok(known.into_mut()),
            std::collections::hash_map::Entry::Vacant(unknown) => {
                let stored = stored(connection, queue)?;
                Ok(unknown.insert(Depth { messages: stored, stored }))
            }
        }
    }

    /// How many messages a queue holds, those included that have expired and are not swept.
    pub(crate) fn of(&mut self, connection: &Connection, queue: i64) -> rusqlite::Result<i64> {
        self.depth(connection, queue).map(|depth| depth.messages)
    }

    /// Counts messages that came, or, below zero, that went.
    pub(crate) fn add(&mut self, connection: &Connection, queue: i64, change: i64) -> rusqlite::Result<()> {
        self.depth(connection, queue).map(|depth| depth.messages += change)
    }

    /// Writes what has changed; the end of every group.
    pub(crate) fn store(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        for (queue, depth) in &mut self.0 {
            if depth.messages != depth.stored {
                connection
                    .prepare_cached("UPDATE queue SET messages = ?2 WHERE id = ?1")?
                    .execute([*queue, depth.messages])?;
                depth.stored = depth.messages;
            }
        }
        Ok(())
    }
}

/// How many messages a queue held when it was last written.
pub(crate) fn stored(connection: &Connection, queue: i64) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT messages FROM queue WHERE id = ?1")?
        .query_row([queue], |row| row.get(0))
}
