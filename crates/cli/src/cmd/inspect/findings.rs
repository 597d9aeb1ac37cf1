//! What is damaged: each item with its object, what was found there, and what to do.

use super::text::shown;
use anyhow::{Result, bail};
use serde_json::{Value, json};
use wire::{Decode, Errno, Reader};

/// Bytes of a value that can't be decoded that are shown.
const SHOWN_BYTES: usize = 16;

/// What an object is for: it decides what to do about damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// The journal, or its header.
    Journal,
    /// The object of a fragment.
    Fragment,
    /// One entry of a fragment.
    Entry,
    /// The inode index.
    Index,
    /// An inode that is stored alone.
    Base,
    /// A table of a rank, or that of snapshots.
    Table,
}

impl Part {
    /// The name of the damage: Ceph's `damage_type` where it has one.
    fn damage_type(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::Fragment => "dir_frag",
            Self::Entry => "dentry",
            Self::Index => "backtrace",
            Self::Base => "inode",
            Self::Table => "table",
        }
    }

    /// What it means, and what to do.
    fn advice(self) -> &'static str {
        match self {
            Self::Fragment => {
                "the directory fails with EIO; bring the object back, else `scrub start PATH \
                 recursive,repair,force` empties the directory (docs/damage.md)"
            }
            Self::Entry => {
                "this name fails with EIO; bring the object back, else `scrub start PATH \
                 recursive,repair,force` removes the entry (docs/damage.md)"
            }
            Self::Index => {
                "access by number fails (NFS, hard links); `scrub start / recursive,repair` puts it right \
                 (docs/damage.md)"
            }
            Self::Journal | Self::Base | Self::Table => {
                "the rank does not start with it; keep copies, and bring the object back (docs/damage.md, \
                 \"A rank that does not start\")"
            }
        }
    }
}

/// A damaged item.
#[derive(Debug)]
struct Finding {
    part: Part,
    object: String,
    key: Option<Vec<u8>>,
    what: String,
}

/// Everything that was found damaged, and remarks.
#[derive(Debug)]
pub(super) struct Findings {
    pool: String,
    damage: Vec<Finding>,
    notes: Vec<String>,
}

impl Findings {
    /// Nothing yet, in a pool.
    pub fn new(pool: &str) -> Self {
        Self { pool: pool.to_owned(), damage: Vec::new(), notes: Vec::new() }
    }

    /// Notes damage of an object, or of a key of its omap.
    pub fn damage(&mut self, part: Part, object: &str, key: Option<&[u8]>, what: impl Into<String>) {
        let (object, key, what) = (object.to_owned(), key.map(<[u8]>::to_vec), what.into());
        self.damage.push(Finding { part, object, key, what });
    }

    /// Notes an object that no OSD can read.
    pub fn unreadable(&mut self, part: Part, object: &str, errno: Errno) {
        let why = std::io::Error::from_raw_os_error(errno.get());
        self.damage(part, object, None, format!("no copy of it can be read: {why}"));
    }

    /// Adds a remark that is no damage.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Decodes what an object, or a key of its omap, holds; notes the damage otherwise.
    pub fn decode<T: Decode>(
        &mut self,
        part: Part,
        object: &str,
        key: Option<&[u8]>,
        bytes: &[u8],
    ) -> Option<T> {
        match Reader::new(bytes).get() {
            Ok(value) => Some(value),
            Err(e) => {
                let found = match bytes {
                    [] => "it is empty".to_owned(),
                    _ => {
                        let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
                        let hex: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
                        let more = if shown.len() < bytes.len() { "…" } else { "" };
                        format!("its {} bytes are {hex}{more}", bytes.len())
                    }
                };
                self.damage(part, object, key, format!("it does not decode: {e}; {found}"));
                None
            }
        }
    }

    /// Number of damaged items.
    pub fn count(&self) -> usize {
        self.damage.len()
    }

    /// All of it as lines for people.
    pub fn plain(&self) -> String {
        let mut out = String::new();
        for Finding { part, object, key, what } in &self.damage {
            let key = key.as_ref().map(|key| format!(" key {}", shown(key))).unwrap_or_default();
            out += &format!("DAMAGED: {}/{object}{key}: {what}\n  to do: {}\n", self.pool, part.advice());
        }
        self.notes.iter().for_each(|note| out += &format!("note: {note}\n"));
        out
    }

    /// The damaged items for programs.
    pub fn damage_json(&self) -> Value {
        let one = |Finding { part, object, key, what }: &Finding| {
            json!({
                "damage_type": part.damage_type(),
                "pool": self.pool,
                "object": object,
                "key": key.as_ref().map(|key| shown(key)),
                "why": what,
                "to_do": part.advice(),
            })
        };
        self.damage.iter().map(one).collect()
    }

    /// The remarks for programs.
    pub fn notes_json(&self) -> Value {
        self.notes.clone().into()
    }

    /// Fails if something is damaged, so that scripts notice.
    pub fn into_result(self) -> Result<()> {
        match self.count() {
            0 => Ok(()),
            1 => bail!("damaged in one place"),
            n => bail!("damaged in {n} places"),
        }
    }
}
