//! The replicated state: everything that monitors agree on. Only [`State::apply`] changes it.
//!
//! Cloning it is cheap (its parts are shared), because proposals are decided on a copy that runs ahead of the
//! durable state.

mod cluster_log;
mod osdmaps;
mod row;
mod rows;

pub use cluster_log::ClusterLog;
pub use osdmaps::OsdMaps;
pub use row::Row;

use crate::entry::{Change, LogEntry};
use auth::{EntityAuth, RotatingKeys};
use maps::{FsMap, Fscid, MdsMap, MdsState, MonMap, OsdMap};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use wire::{DecodeError, EntityName, EntityType, Errno};

/// Number of completed commands that are remembered.
const MAX_DONE_COMMANDS: usize = 1024;

/// Number of refused commands that are remembered.
const MAX_REFUSED_COMMANDS: usize = 128;

/// A command that was refused: client's global id and tid; error and why.
pub type Refused = ((u64, u64), (Errno, String));

/// Metadata that a daemon reports about itself and its host.
pub type Metadata = BTreeMap<String, String>;

/// The replicated state.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct State {
    /// Index of the last entry applied.
    pub version: u64,
    /// Term of that entry.
    pub term: u64,
    /// The voting stores, with the names of their monitors; empty in stores that predate several monitors.
    pub voters: Arc<BTreeMap<u64, String>>,
    /// The last completed commands that may have changed something: the client's global id and tid.
    pub done: Arc<VecDeque<(u64, u64)>>,
    /// The last refused commands.
    pub refused: Arc<VecDeque<Refused>>,
    /// The monitor map.
    pub monmap: Arc<MonMap>,
    /// OSDs, pools, placement, with history.
    pub osd: OsdMaps,
    /// The map of file systems.
    pub fsmap: Arc<FsMap>,
    /// The last map of each file system in which an MDS let clients reconnect. A client that was away must
    /// see that map before any later one, because it claims its capabilities only on such a map (ADR 0007).
    pub reconnect_maps: Arc<BTreeMap<Fscid, MdsMap>>,
    /// The keys of all entities.
    pub auth: Arc<BTreeMap<EntityName, EntityAuth>>,
    /// Rotating keys by service.
    pub rotating: Arc<BTreeMap<EntityType, RotatingKeys>>,
    /// Global ids below this number may have been given out.
    pub global_ids: u64,
    /// Options by (section, name).
    pub config: Arc<BTreeMap<(String, String), String>>,
    /// The key-value store of `config-key`.
    pub kv: Arc<BTreeMap<String, Vec<u8>>>,
    /// Metadata of OSDs and MDSs.
    pub metadata: Arc<BTreeMap<EntityName, Metadata>>,
    /// The cluster log.
    pub log: Arc<ClusterLog>,
}

impl State {
    /// The newest OSD map.
    pub fn osdmap(&self) -> &Arc<OsdMap> {
        self.osd.map()
    }

    /// True if it does not hold a cluster yet.
    pub fn is_empty(&self) -> bool {
        self.version == 0
    }

    /// Applies the next entry and returns the rows of the stored snapshot that it changed.
    pub fn apply(&mut self, entry: &LogEntry) -> Result<Vec<Row>, DecodeError> {
        assert_eq!(entry.index, self.version + 1, "entries are applied in order");
        let mut rows = Vec::new();
        for change in &entry.changes {
            self.apply_change(change, &mut rows)?;
        }
        (self.version, self.term) = (entry.index, entry.term);
        Ok(rows)
    }

    fn apply_change(&mut self, change: &Change, rows: &mut Vec<Row>) -> Result<(), DecodeError> {
        match change {
            Change::OsdMap { inc, nacre } => {
                let oldest = self.osd.oldest();
                self.osd.apply(inc, nacre)?;
                rows.extend([Row::OsdFull, Row::Nacre, Row::OsdInc(self.osd.epoch())]);
                if self.osd.oldest() != oldest {
                    rows.push(Row::OsdOldest);
                    rows.extend((oldest.0..=self.osd.oldest().0).map(|e| Row::OsdInc(maps::Epoch(e))));
                }
            }
            Change::MonMap(map) => {
                self.monmap = Arc::new((**map).clone());
                rows.push(Row::MonMap);
            }
            Change::FsMap(map) => {
                self.fsmap = Arc::new((**map).clone());
                rows.push(Row::FsMap);
                self.keep_reconnect_maps(rows);
            }
            Change::Auth(name, auth) => {
                set(&mut self.auth, name, auth.as_ref());
                rows.push(Row::Auth(name.clone()));
            }
            Change::Rotating(service, keys) => {
                set(&mut self.rotating, service, Some(keys));
                rows.push(Row::Rotating(*service));
            }
            Change::GlobalIds(end) => {
                self.global_ids = self.global_ids.max(*end);
                rows.push(Row::GlobalIds);
            }
            Change::Config(who, name, value) => {
                set(&mut self.config, &(who.clone(), name.clone()), value.as_ref());
                rows.push(Row::Config(who.clone(), name.clone()));
            }
            Change::Kv(key, value) => {
                set(&mut self.kv, key, value.as_ref());
                rows.push(Row::Kv(key.clone()));
            }
            Change::Done(client, tid) => {
                remember(&mut self.done, (*client, *tid), MAX_DONE_COMMANDS);
                rows.push(Row::Done);
            }
            Change::Refused(client, tid, errno, text) => {
                remember(&mut self.refused, ((*client, *tid), (*errno, text.clone())), MAX_REFUSED_COMMANDS);
                rows.push(Row::Refused);
            }
            Change::Log { first, lines } => {
                let log = Arc::make_mut(&mut self.log);
                for line in lines {
                    let segment = Row::Log(log.push(line.clone()));
                    if rows.last() != Some(&segment) {
                        rows.push(segment);
                    }
                }
                rows.extend(log.trim(*first).into_iter().map(Row::Log));
            }
            Change::Voters(voters) => {
                self.voters = Arc::new(voters.clone());
                rows.push(Row::Voters);
            }
            Change::Metadata(name, values) => {
                set(&mut self.metadata, name, values.as_ref());
                rows.push(Row::Metadata(name.clone()));
            }
        }
        Ok(())
    }
}

impl State {
    fn keep_reconnect_maps(&mut self, rows: &mut Vec<Row>) {
        let fsmap = self.fsmap.clone();
        let gone: Vec<Fscid> =
            self.reconnect_maps.keys().filter(|id| !fsmap.filesystems.contains_key(id)).copied().collect();
        for id in gone {
            set(&mut self.reconnect_maps, &id, None);
            rows.push(Row::ReconnectMap(id));
        }
        for (id, fs) in &fsmap.filesystems {
            let reconnects = fs.mds_map.mds_info.values().any(|info| info.state == MdsState::RECONNECT);
            // The epoch is the file system's own: other file systems' changes leave it as it is.
            let is_kept = self.reconnect_maps.get(id).is_some_and(|m| m.epoch == fs.mds_map.epoch);
            if reconnects && !is_kept {
                set(&mut self.reconnect_maps, id, Some(&fs.mds_map));
                rows.push(Row::ReconnectMap(*id));
            }
        }
    }
}

/// Remembers `new`, and at most `most` in all.
fn remember<T: Clone>(all: &mut Arc<VecDeque<T>>, new: T, most: usize) {
    let all = Arc::make_mut(all);
    all.push_back(new);
    if all.len() > most {
        all.pop_front();
    }
}

fn set<K: Ord + Clone, V: Clone>(map: &mut Arc<BTreeMap<K, V>>, key: &K, value: Option<&V>) {
    let map = Arc::make_mut(map);
    match value {
        Some(value) => {
            map.insert(key.clone(), value.clone());
        }
        None => {
            map.remove(key);
        }
    }
}
