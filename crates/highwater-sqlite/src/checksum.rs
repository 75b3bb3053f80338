//! The checksum of a change: tells a row that a disk, a cable or a hand has altered from the one that was committed.
//!
//! It is the XXH3 (64 bit, seed 0) of these bytes, numbers little-endian: a format byte (1); position, ordinal,
//! count, time, version and operation (i64 each); container name, partition key and item id (length as u32, then the
//! bytes); command id, fingerprint and verdict (a byte 0 for null, or 1, length as u32 and the bytes); schema (a byte
//! 0, or 1 and an i64); body and events (a byte 0, or 1, length as u64 and the XXH3 of the bytes); and at the end, of an item that expires, when
//! (i64).
//!
//! Left out is what may change after the commit: `previous`, and the container's number.

use xxhash_rust::xxh3::xxh3_64;

const FORMAT: u8 = 1;

/// What is summed of one row.
#[derive(Default)]
pub(crate) struct Fixed<'a> {
    pub(crate) position: i64,
    pub(crate) ordinal: i64,
    pub(crate) count: i64,
    pub(crate) at: i64,
    pub(crate) container: &'a str,
    pub(crate) partition_key: &'a str,
    pub(crate) id: &'a str,
    pub(crate) version: i64,
    pub(crate) op: i64,
    pub(crate) command: Option<&'a [u8]>,
    pub(crate) fingerprint: Option<&'a [u8]>,
    pub(crate) verdict: Option<&'a [u8]>,
    pub(crate) schema: Option<i64>,
    pub(crate) body: Option<&'a [u8]>,
    pub(crate) events: Option<&'a [u8]>,
    pub(crate) expires_at: Option<i64>,
}

impl Fixed<'_> {
    /// The checksum as it is stored; `memory` is reused from row to row.
    pub(crate) fn checksum(&self, memory: &mut Vec<u8>) -> i64 {
        memory.clear();
        memory.push(FORMAT);
        for number in [self.position, self.ordinal, self.count, self.at, self.version, self.op] {
            memory.extend_from_slice(&number.to_le_bytes());
        }
        for text in [self.container, self.partition_key, self.id] {
            bytes(memory, text.as_bytes());
        }
        for blob in [self.command, self.fingerprint, self.verdict] {
            memory.push(u8::from(blob.is_some()));
            if let Some(blob) = blob {
                bytes(memory, blob);
            }
        }
        memory.push(u8::from(self.schema.is_some()));
        memory.extend_from_slice(self.schema.map(i64::to_le_bytes).as_ref().map_or(&[], |schema| schema));
        for large in [self.body, self.events] {
            memory.push(u8::from(large.is_some()));
            if let Some(large) = large {
                memory.extend_from_slice(&(large.len() as u64).to_le_bytes());
                memory.extend_from_slice(&xxh3_64(large).to_le_bytes());
            }
        }
        if let Some(at) = self.expires_at {
            memory.extend_from_slice(&at.to_le_bytes());
        }
        xxh3_64(memory).cast_signed()
    }
}

fn bytes(memory: &mut Vec<u8>, bytes: &[u8]) {
    memory.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    memory.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_fixed_for_ever_and_every_part_counts() {
        let row = || Fixed {
            position: 7,
            ordinal: 0,
            count: 1,
            at: 1_700_000_000_000_000,
            container: "days",
            partition_key: "2026-12-24",
            id: "2026-12-24",
            version: 3,
            op: 1,
            command: Some(&[1; 16]),
            fingerprint: Some(&[2; 16]),
            verdict: None,
            schema: Some(1),
            body: Some(b"{}"),
            events: None,
            expires_at: None,
        };
        let sum = |row: Fixed<'_>| row.checksum(&mut Vec::new());
        let first = sum(row());
        assert_eq!(first, FIXED);
        let others = [
            Fixed { position: 8, ..row() },
            Fixed { ordinal: 1, ..row() },
            Fixed { count: 2, ..row() },
            Fixed { at: 0, ..row() },
            Fixed { container: "day", partition_key: "s2026-12-24", ..row() },
            Fixed { partition_key: "2026-12-25", ..row() },
            Fixed { id: "2026-12-25", ..row() },
            Fixed { version: 4, ..row() },
            Fixed { op: 2, ..row() },
            Fixed { command: None, ..row() },
            Fixed { fingerprint: Some(&[3; 16]), ..row() },
            Fixed { verdict: Some(b""), ..row() },
            Fixed { schema: None, ..row() },
            Fixed { body: Some(b"[]"), ..row() },
            Fixed { body: None, events: Some(b"{}"), ..row() },
            Fixed { events: Some(b""), ..row() },
            Fixed { expires_at: Some(0), ..row() },
        ];
        for (index, other) in others.into_iter().enumerate() {
            assert_ne!(sum(other), first, "row {index}");
        }
    }

    const FIXED: i64 = 5_078_564_940_182_768_609;
}
