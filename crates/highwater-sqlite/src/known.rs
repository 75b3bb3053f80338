//! What a thread remembers between reads: names behind numbers, and texts that come again and again.

use crate::fault::unreadable;
use highwater_core::Name;
use rusqlite::{Connection, OptionalExtension};
use std::{collections::HashMap, sync::Arc};

/// Texts that are remembered at most; a program has a few dozen event names.
const TEXTS: usize = 1_024;

#[derive(Default)]
pub(crate) struct Known {
    containers: HashMap<i64, Name>,
    texts: HashMap<Box<str>, Arc<str>>,
    /// What was asked for last is asked for next.
    last_text: Option<Arc<str>>,
    /// Where checksums gather what they sum.
    pub(crate) memory: Vec<u8>,
}

impl Known {
    /// The container of this number.
    pub(crate) fn container(&mut self, connection: &Connection, id: i64) -> rusqlite::Result<Name> {
        if let Some(name) = self.containers.get(&id) {
            return Ok(name.clone());
        }
        let text: String = connection
            .prepare_cached("SELECT name FROM container WHERE id = ?1")?
            .query_row([id], |row| row.get(0))
            .optional()?
            .ok_or_else(|| unreadable("a change names a container that does not exist"))?;
        let name = Name::new(text).map_err(|_| unreadable("a container's name is not a name"))?;
        self.containers.insert(id, name.clone());
        Ok(name)
    }

    /// The number of a container; `None` while it has none.
    pub(crate) fn container_id(connection: &Connection, name: &Name) -> rusqlite::Result<Option<i64>> {
        connection
            .prepare_cached("SELECT id FROM container WHERE name = ?1")?
            .query_row([name.as_str()], |row| row.get(0))
            .optional()
    }

    /// The number of a queue; `None` while it has none.
    pub(crate) fn queue_id(connection: &Connection, name: &Name) -> rusqlite::Result<Option<i64>> {
        connection
            .prepare_cached("SELECT id FROM queue WHERE name = ?1")?
            .query_row([name.as_str()], |row| row.get(0))
            .optional()
    }

    /// One shared copy of a text.
    pub(crate) fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(last) = self.last_text.as_ref().filter(|last| ***last == *text) {
            return Arc::clone(last);
        }
        let shared = match self.texts.get(text) {
            Some(known) => Arc::clone(known),
            None => text.into(),
        };
        if self.texts.len() < TEXTS && !self.texts.contains_key(text) {
            self.texts.insert(text.into(), Arc::clone(&shared));
        }
        self.last_text = Some(Arc::clone(&shared));
        shared
    }
}
