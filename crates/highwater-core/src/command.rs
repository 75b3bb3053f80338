use crate::{ETag, Position, Token};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{fmt, str::FromStr};
use uuid::Uuid;

/// The id of a command, chosen by its sender, unique per store and partition key. Sending again with the same id
/// and the same content is the same command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct CommandId(pub Uuid);

impl CommandId {
    /// A fresh id (UUID version 7, so that ids made later sort later).
    pub fn random() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for CommandId {
    type Err = uuid::Error;
    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        text.parse().map(Self)
    }
}

/// Tells two commands with the same id apart by their content: the first 16 bytes of the SHA-256 of its parts,
/// each preceded by its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 16]);

impl Fingerprint {
    /// The fingerprint of a command's parts (target, type, content, …), in order.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let mut short = [0; 16];
        for (to, from) in short.iter_mut().zip(hash.finalize()) {
            *to = from;
        }
        Self(short)
    }
}

/// How a command was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
pub enum Verdict {
    /// The command was carried out.
    Accepted,
    /// The command was refused; its sender is told why.
    Rejected {
        /// Why, for people.
        reason: String,
    },
}

/// A command's trace in the commit that decided it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandMark {
    /// The command.
    pub id: CommandId,
    /// Its content, in short.
    pub fingerprint: Fingerprint,
    /// How it was decided.
    pub verdict: Verdict,
}

impl CommandMark {
    /// The trace of a command that was decided.
    pub fn new(id: CommandId, fingerprint: Fingerprint, verdict: Verdict) -> Self {
        Self { id, fingerprint, verdict }
    }

    /// What it adds to the size of the first change, in bytes: the reason of a rejection.
    pub fn size(&self) -> usize {
        match &self.verdict {
            Verdict::Accepted => 0,
            Verdict::Rejected { reason } => reason.len(),
        }
    }
}

/// A decision read back from the log.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Decided {
    /// The command, its content and its verdict.
    pub mark: CommandMark,
    /// The position of the first change of the commit.
    pub position: Position,
    /// What the commit returned.
    pub token: Token,
    /// The ETags the commit gave, in the order of its writes.
    pub etags: Vec<ETag>,
}

impl Decided {
    /// A decision as an engine found it.
    pub fn new(mark: CommandMark, position: Position, token: Token, etags: Vec<ETag>) -> Self {
        Self { mark, position, token, etags }
    }
}
