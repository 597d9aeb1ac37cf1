//! Membership of voters. A cluster begins with one voter, the first monitor of the configuration, as soon as
//! a majority of the monitors says that there is no cluster yet. All others join in the same way, whether
//! new, late or with a lost store: a monitor says hello with the number of its store, receives the state, and
//! becomes a voter once it has it.

use crate::consensus::VoterId;
use crate::entry::Change;
use crate::mon::Mon;
use crate::storage::Storage;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Now;
use wire::{EntityName, EntityType};

/// If a voter's monitor says hello from another store, the voter is replaced after this much silence.
const REPLACE_AFTER: Duration = Duration::from_secs(2);

impl<S: Storage> Mon<S> {
    /// True if this monitor is to found the cluster now.
    pub(super) fn may_found(&self) -> bool {
        let map = &self.config.monmap;
        if !self.log.is_blank()
            || self.config.joined.is_some()
            || map.ranks.first() != Some(&self.config.name)
        {
            return false;
        }
        let others = map.ranks.iter().filter(|name| **name != self.config.name);
        let words: Vec<bool> = others.filter_map(|name| self.links.hello(name)).map(|h| h.is_blank).collect();
        words.iter().all(|empty| *empty) && words.len() + 1 > map.ranks.len() / 2
    }

    /// Maintains the set of voters; leader only.
    pub(super) fn maintain_members(&mut self, now: Now) {
        if !self.log.leads() {
            return;
        }
        let map = self.log.state().monmap.clone();
        let own = self.own_store();
        let joining: Vec<(String, VoterId)> = (map.ranks.iter())
            .filter_map(|name| self.links.hello(name).map(|h| (name.clone(), h.store)))
            .filter(|(_, store)| *store != own)
            .collect();
        self.log.steer(|raft| {
            raft.retain_learners(|id| joining.iter().any(|(_, store)| *store == id));
            joining.iter().for_each(|(_, store)| raft.add_learner(*store));
        });
        self.keep_metadata(now, &map);
        let Some(raft) = self.log.raft().filter(|r| r.may_change_voters()) else { return };
        let voters = raft.voters();
        for (name, store) in joining.into_iter().filter(|(_, store)| !voters.contains_key(store)) {
            let mut next: BTreeMap<u64, String> = voters.iter().map(|(id, n)| (id.0, n.clone())).collect();
            match voters.iter().find(|(_, n)| **n == name) {
                Some((old, _)) => {
                    let silent = raft.heard(*old).is_none_or(|at| now.mono.since(at) > REPLACE_AFTER);
                    if !silent || *old == own {
                        continue;
                    }
                    next.remove(&old.0);
                }
                None if raft.is_caught_up(store) => drop(next.insert(store.0, name.clone())),
                None => continue,
            }
            self.log.propose(now.wall, vec![Change::Voters(next)]);
            return;
        }
    }

    /// Proposes the host metadata of monitors that has changed.
    fn keep_metadata(&mut self, now: Now, map: &maps::MonMap) {
        let known = self.log.tail().metadata.clone();
        let mut changes = Vec::new();
        for name in &map.ranks {
            let said = match *name == self.config.name {
                true => Some(self.own_metadata()),
                false => self.links.hello(name).map(|h| h.metadata.clone()),
            };
            let entity = EntityName::new(EntityType::MON, name.clone());
            if let Some(said) = said.filter(|said| known.get(&entity) != Some(said)) {
                changes.push(Change::Metadata(entity, Some(said)));
            }
        }
        if !changes.is_empty() {
            self.log.propose(now.wall, changes);
        }
    }
}
