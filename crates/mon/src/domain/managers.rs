//! Managers: which is active and which stand by. They live in the processes of metadata servers and announce
//! themselves by beacons; the first that stands by takes over from an active one that is gone.
//!
//! The map is kept in the key-value store, as a monitor of an older build keeps what it does not know.

use crate::edit::Edit;
use crate::entry::Change;
use maps::{Epoch, Gid, MgrMap, MgrStandby};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{AddrVec, EntityAddr, EntityName, EntityType, Reader, Utime, Writer, wire_structs};

/// The key of the stored map.
const KEY: &str = "mgr/map";

/// Time for which the clients of a lost manager are blocklisted: as for metadata servers.
const BLOCKLIST: Duration = Duration::from_secs(24 * 3600);

/// The epoch before the first beacon. Monitors that know no managers send 1 for ever: managers stay silent
/// there.
const FIRST_EPOCH: Epoch = Epoch(2);

wire_structs! {
    /// One manager.
    pub(crate) struct Manager[v 1/1] {
        /// Its global id.
        pub gid: Gid,
        /// `x` of `mgr.x`.
        pub name: String,
        /// Addresses for clients.
        pub addrs: AddrVec,
        /// Its feature bits.
        pub features: u64,
        /// True once it can let clients in.
        pub available: bool,
        /// Addresses of its own clients.
        pub clients: Vec<EntityAddr>,
    }

    /// All managers.
    pub(crate) struct Managers[v 1/1] {
        /// Of the map; 0 before the first change.
        pub epoch: Epoch,
        /// The active one; at most one.
        pub active: Vec<Manager>,
        /// Time at which the active one took over or was lost.
        pub active_change: Utime,
        /// The others, in the order in which they will take over.
        pub standbys: Vec<Manager>,
    }
}

impl Managers {
    /// The managers in the key-value store.
    pub fn of(kv: &BTreeMap<String, Vec<u8>>) -> Self {
        let stored = kv.get(KEY).and_then(|bytes| Reader::new(bytes).get().ok());
        stored.unwrap_or_else(|| Self { epoch: FIRST_EPOCH, ..Self::default() })
    }

    /// The epoch of the map, without reading the rest.
    pub fn epoch_of(kv: &BTreeMap<String, Vec<u8>>) -> Epoch {
        let stored = kv.get(KEY).and_then(|bytes| Reader::new(bytes).versioned(1, |_, r| r.get()).ok());
        stored.unwrap_or(FIRST_EPOCH)
    }

    /// The active manager.
    pub fn active(&self) -> Option<&Manager> {
        self.active.first()
    }

    /// All managers, the active one first.
    pub fn all(&self) -> impl Iterator<Item = &Manager> {
        self.active.iter().chain(&self.standbys)
    }

    /// True if a manager with this global id is in the map.
    pub fn has(&self, gid: Gid) -> bool {
        self.all().any(|m| m.gid == gid)
    }

    /// The map as clients get it.
    pub fn map(&self) -> MgrMap {
        let active = self.active().cloned().unwrap_or_default();
        let standby = |m: &Manager| (m.gid, MgrStandby { name: m.name.clone(), features: m.features });
        MgrMap {
            epoch: self.epoch,
            active_addrs: active.addrs,
            active_gid: active.gid,
            available: active.available,
            active_name: active.name,
            active_change: self.active_change,
            active_features: active.features,
            standbys: self.standbys.iter().map(standby).collect(),
            ..MgrMap::default()
        }
    }

    /// Takes a beacon's sender in, or what is new of it. An older run of the same name is gone.
    fn take(&mut self, new: Manager, now: Utime) {
        if let Some(known) = self.active.iter_mut().chain(&mut self.standbys).find(|m| m.gid == new.gid) {
            *known = new;
            return;
        }
        let namesakes: Vec<Gid> = self.all().filter(|m| m.name == new.name).map(|m| m.gid).collect();
        for gid in namesakes {
            self.remove(gid, now);
        }
        self.standbys.push(new);
        self.promote(now);
    }

    /// Removes a manager, and puts the next one in its place.
    fn remove(&mut self, gid: Gid, now: Utime) {
        self.standbys.retain(|m| m.gid != gid);
        if self.active().is_some_and(|m| m.gid == gid) {
            self.active.clear();
            self.active_change = now;
            self.promote(now);
        }
    }

    fn promote(&mut self, now: Utime) {
        if self.active.is_empty() && !self.standbys.is_empty() {
            self.active.push(self.standbys.remove(0));
            self.active_change = now;
        }
    }
}

/// The name under which a manager's metadata is stored.
pub(crate) fn entity(name: &str) -> EntityName {
    EntityName::new(EntityType::MGR, name)
}

/// Takes a beacon into the map.
pub(crate) fn beacon(edit: &mut Edit<'_>, m: &peer::MgrBeacon) {
    let is_new = !Managers::of(&edit.base.kv).has(m.gid);
    let manager = Manager {
        gid: m.gid,
        name: m.name.clone(),
        addrs: m.addrs.clone(),
        features: m.features,
        available: m.available,
        clients: m.clients.clone(),
    };
    change(edit, |all, now| all.take(manager, now));
    if is_new {
        edit.push(Change::Metadata(entity(&m.name), Some(m.metadata.clone())));
    }
}

/// Removes managers from the map.
pub(crate) fn remove(edit: &mut Edit<'_>, gone: &[Gid]) {
    change(edit, |all, now| {
        // Those that stand by first: they must not be promoted.
        all.standbys.retain(|m| !gone.contains(&m.gid));
        gone.iter().for_each(|gid| all.remove(*gid, now));
    });
}

fn change(edit: &mut Edit<'_>, change: impl FnOnce(&mut Managers, Utime)) {
    let old = Managers::of(&edit.base.kv);
    let mut new = old.clone();
    change(&mut new, edit.stamp());
    if new == old {
        return;
    }
    new.epoch = old.epoch.next();
    let names = |all: &Managers| all.active().map(|m| (m.gid, m.name.clone()));
    if names(&new) != names(&old) {
        edit.notes.push(match new.active() {
            Some(active) => format!("Activating manager daemon {}", active.name),
            None => "No manager daemon is active".to_owned(),
        });
    }
    for manager in old.all().filter(|m| !new.has(m.gid)) {
        if !new.all().any(|other| other.name == manager.name) {
            edit.push(Change::Metadata(entity(&manager.name), None));
        }
        // What it has under way must not meet what its successor does, and metadata servers do not wait for
        // its sessions.
        let until = edit.now.wall + BLOCKLIST;
        for addr in &manager.clients {
            edit.osd().new_blocklist.insert(*addr, until.into());
        }
    }
    edit.push(Change::Kv(KEY.to_owned(), Some(Writer::encode(&new))));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manager(gid: u64, name: &str) -> Manager {
        Manager { gid: Gid(gid), name: name.to_owned(), ..Manager::default() }
    }

    fn at(sec: u32) -> Utime {
        Utime { sec, nsec: 0 }
    }

    fn shown(all: &Managers) -> (Option<u64>, Vec<u64>, u32) {
        let gids = all.standbys.iter().map(|m| m.gid.0).collect();
        (all.active().map(|m| m.gid.0), gids, all.active_change.sec)
    }

    #[test]
    fn the_epoch_is_read_without_the_rest() {
        let all = Managers { epoch: Epoch(7), active: vec![manager(1, "a")], ..Managers::default() };
        let kv = [(KEY.to_owned(), Writer::encode(&all))].into();
        assert_eq!((Managers::epoch_of(&kv), Managers::of(&kv)), (Epoch(7), all));
        assert_eq!(Managers::epoch_of(&BTreeMap::new()), FIRST_EPOCH);
    }

    #[test]
    fn the_first_is_active_and_the_others_take_over_in_their_order() {
        let mut all = Managers::default();
        for (gid, name) in [(1, "a"), (2, "b"), (3, "c")] {
            all.take(manager(gid, name), at(gid as u32));
        }
        assert_eq!(shown(&all), (Some(1), vec![2, 3], 1));
        all.take(Manager { available: true, ..manager(1, "a") }, at(9));
        assert_eq!((shown(&all), all.map().available), ((Some(1), vec![2, 3], 1), true));
        all.remove(Gid(1), at(10));
        assert_eq!(shown(&all), (Some(2), vec![3], 10));
        all.take(manager(4, "b"), at(11));
        assert_eq!(shown(&all), (Some(3), vec![4], 11), "mgr.b was started again");
        all.remove(Gid(4), at(12));
        all.remove(Gid(3), at(13));
        assert_eq!(shown(&all), (None, vec![], 13));
        assert_eq!(all.map().active_gid, Gid(0));
    }
}
