//! What was found damaged in the stored metadata. Operations on it fail with EIO, and everything else goes
//! on. A look at it that succeeds again, or a repair, leaves the record for an administrator to remove
//! (`damage rm`), as in Ceph.

use super::env::Env;
use crate::cache::Cache;
use crate::types::{Damage, Damaged};
use fsfmt::InodeKey;
use node::Level;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Records that are kept; Ceph's `mds_damage_table_max_entries`.
const MAX_RECORDS: usize = 10_000;

impl Damaged {
    /// The inode by whose path people find it.
    fn inode(&self) -> InodeKey {
        match self {
            Self::Frag(dir) | Self::Entry(dir, _) => dir.inode(),
            Self::Inode(ino) | Self::BackTrace(ino) => *ino,
        }
    }

    /// The item with Ceph's keys (`damage ls`).
    fn describe(&self) -> Value {
        let ino = self.inode().ino.0;
        match self {
            Self::Frag(dir) => json!({ "damage_type": "dir_frag", "ino": ino, "frag": dir.frag.to_string() }),
            Self::Entry(dir, key) => json!({
                "damage_type": "dentry",
                "ino": ino,
                "frag": dir.frag.to_string(),
                "dname": String::from_utf8_lossy(&key.name),
                "snap_id": if key.is_head() { "head".to_owned() } else { key.snap.0.to_string() },
            }),
            Self::Inode(_) => json!({ "damage_type": "inode", "ino": ino }),
            Self::BackTrace(_) => json!({ "damage_type": "backtrace", "ino": ino }),
        }
    }
}

struct Record {
    item: Damaged,
    why: String,
    /// Path of the directory, or of the inode, when it was found; empty where that was not known.
    path: String,
}

/// The table of damage.
///
/// Invariants: an item has at most one record; there are at most [`MAX_RECORDS`].
#[derive(Default)]
pub(super) struct DamageTable {
    records: BTreeMap<u64, Record>,
    ids: BTreeMap<Damaged, u64>,
    last_id: u64,
}

impl DamageTable {
    /// Notes damage, and logs what is new.
    pub fn note(&mut self, env: &mut Env, cache: &Cache, damage: Damage) {
        let Damage { item, why } = damage;
        if self.ids.contains_key(&item) || self.records.len() >= MAX_RECORDS {
            return;
        }
        let path = cache.path_of(item.inode()).ok().flatten();
        let path = path.map(|path| format!("/{}", String::from_utf8_lossy(&path))).unwrap_or_default();
        env.log(
            Level::Error,
            "damaged_metadata_seen",
            format!("{item:?} {path}: {why}; operations on it fail"),
        );
        self.last_id += 1;
        self.ids.insert(item.clone(), self.last_id);
        self.records.insert(self.last_id, Record { item, why, path });
    }

    /// Forgets a record, if there is one of that number.
    pub fn remove(&mut self, id: u64) {
        if let Some(record) = self.records.remove(&id) {
            self.ids.remove(&record.item);
        }
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// All records for people.
    pub fn list(&self) -> Vec<Value> {
        let describe = |(id, record): (&u64, &Record)| {
            let mut value = record.item.describe();
            value["id"] = (*id).into();
            value["path"] = record.path.clone().into();
            value["why"] = record.why.clone().into();
            value
        };
        self.records.iter().map(describe).collect()
    }

    /// Asserts the invariants.
    pub fn check(&self) {
        assert!(self.ids.len() == self.records.len() && self.ids.len() <= MAX_RECORDS);
    }
}
