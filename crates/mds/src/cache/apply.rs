//! Changes of the cache: by events of this rank and of its journal, and by loads.

use super::size::{extra_of_inode, extra_of_name};
use super::{Cache, Dir, Inode, Slot, SlotLink};
use crate::types::{LastChange, Origin, Place};
use fsfmt::{Dentry, DirFrag, Event, InodeData, InodeKey, Link, Realm, Update};
use maps::SnapId;

/// Changes of an event that concern owners other than the cache.
#[derive(Default, Debug)]
pub struct Applied {
    /// Inodes that it changed.
    pub inodes: Vec<InodeKey>,
    /// Changes of tables, in order.
    pub tables: Vec<Update>,
}

impl Cache {
    /// Applies an event, live or at replay.
    pub fn apply(&mut self, event: Event, origin: Origin) -> Applied {
        let mut applied = Applied::default();
        for update in event.updates {
            match update {
                Update::Dentry { dir, key, value } => {
                    applied.inodes.extend(self.set_entry((dir, key), value, origin));
                }
                Update::Base { inode } => applied.inodes.extend(self.set_base(*inode, origin)),
                Update::Forget { inode } => self.forget(inode, origin),
                Update::Refragment { dir, bits, is_done } => {
                    if !self.refragment(dir, bits, is_done, origin) {
                        applied.tables.push(Update::Refragment { dir, bits, is_done });
                    }
                }
                Update::Border { root, counted } => self.borders.apply(root, counted, origin),
                table => applied.tables.extend(self.snaps.apply(table, origin.lsn, origin.segment)),
            }
        }
        applied
    }

    /// Sets an inode that is stored alone. The root of a subtree that is not this rank's any more stays as it
    /// is: the journal is replayed from before it was handed over.
    fn set_base(&mut self, data: InodeData, origin: Origin) -> Option<InodeKey> {
        let key = data.key();
        if !key.is_base() && !self.subtrees.is_alone(key.ino) {
            return None;
        }
        self.dirty_bases.mark(key.ino, origin.segment);
        let place = self.inodes.get(&key).and_then(|inode| inode.place.clone());
        self.put_inode(data, place.as_ref(), origin);
        Some(key)
    }

    /// Removes an inode for good.
    fn forget(&mut self, inode: InodeKey, origin: Origin) {
        self.remove_inode(inode);
        self.locks.forget(inode);
        if !inode.is_head() {
            return;
        }
        let idle = self.dirs.range(DirFrag::all_of(inode.ino)).filter(|(_, d)| d.commit.is_none());
        for dir in idle.map(|(dir, _)| *dir).collect::<Vec<_>>() {
            self.drop_dir(dir);
        }
        self.change_index(inode.ino, None, origin);
    }

    /// Sets an entry; returns the inode that it now leads to.
    fn set_entry(&mut self, place: Place, value: Option<Box<Dentry>>, origin: Origin) -> Option<InodeKey> {
        let first = value.as_ref().map_or(SnapId(0), |dentry| dentry.first);
        let (link, data) = match value.map(|dentry| dentry.link) {
            None => (SlotLink::Null, None),
            Some(Link::Primary(data)) => (SlotLink::Primary(data.key_at(place.1.snap)), Some(data)),
            Some(Link::Remote { ino, dtype }) => (SlotLink::Remote { ino, dtype }, None),
        };
        let old = self.slot(place.0, &place.1).map(|s| s.link(&place.1));
        if let Some(SlotLink::Primary(inode)) = old
            && link != SlotLink::Primary(inode)
        {
            self.leave_place(inode, &place);
        }
        let inode = data.map(|data| self.put_primary(&place, *data, origin));
        self.set_slot(&place, (link, first), Some(origin));
        let (dir, key) = place;
        self.mark_entry(dir, key, origin);
        inode
    }

    /// Adds an inode whose primary entry is set.
    fn put_primary(&mut self, place: &Place, data: InodeData, origin: Origin) -> InodeKey {
        let key = data.key_at(place.1.snap);
        // The index has the live inode's place; a snapshot's state is found by the name it is kept under.
        if key.is_head() && self.inodes.get(&key).is_none_or(|i| i.place.as_ref() != Some(place)) {
            self.index_place(data.ino, place, data.version, origin);
        }
        if key.is_head() && data.is_dir() && data.version == 1 {
            // The directory is new: it contains only what this journal puts there.
            for frag in data.fragtree.leaves() {
                let dir = DirFrag { ino: data.ino, frag };
                self.dirs.entry(dir).or_insert_with(|| Dir { complete: true, ..Dir::default() });
            }
        }
        self.put_inode(data, Some(place), origin);
        key
    }

    /// Removes an inode's primary entry: unless the same event gives it another, it is about to be removed.
    fn leave_place(&mut self, ino: InodeKey, place: &Place) {
        if let Some(inode) = self.inodes.get_mut(&ino)
            && inode.place.as_ref() == Some(place)
        {
            inode.place = None;
        }
    }

    fn put_inode(&mut self, mut data: InodeData, place: Option<&Place>, origin: Origin) {
        self.note_kind(&data);
        data.layout.unite(&mut self.last_layout);
        self.note_inode(key_of(&data, place), &data);
        match self.inodes.get_mut(&key_of(&data, place)) {
            Some(inode) => {
                let is_moved = inode.place.as_ref() != place || inode.data.layout != data.layout;
                if self.may_have_layouts && data.is_dir() && is_moved {
                    self.layouts_changed.note(origin);
                }
                self.size.add(extra_of_inode(&data));
                self.size.remove(extra_of_inode(&inode.data));
                inode.data = data;
                if inode.place.as_ref() != place {
                    inode.place = place.cloned();
                }
                inode.change.note(origin);
            }
            None => self.insert(data, place.cloned(), LastChange::new(origin)),
        }
    }

    /// Notes what is to be found again without a walk over all inodes.
    pub(super) fn note_inode(&mut self, key: InodeKey, data: &InodeData) {
        match key.is_head() && data.realm == Realm::GLOBAL {
            true => self.global.insert(key),
            false => self.global.remove(&key),
        };
        self.unstored.note(key, data);
    }

    pub(super) fn note_kind(&mut self, data: &InodeData) {
        self.may_have_ephemeral_pins |= data.pin.is_distributed || data.pin.random_ppm > 0;
        self.may_have_realms |= data.own_realm.is_some() || data.realm.0 != 0;
        self.may_have_quotas |= data.quota.is_enabled();
        self.may_have_layouts |= data.is_dir() && data.layout.stripe_unit > 0;
    }

    /// Adds an inode that is not cached.
    pub(super) fn insert(&mut self, mut data: InodeData, place: Option<Place>, change: LastChange) {
        self.note_kind(&data);
        data.layout.unite(&mut self.last_layout);
        self.size.add(extra_of_inode(&data));
        self.note_inode(key_of(&data, place.as_ref()), &data);
        self.inodes.insert(key_of(&data, place.as_ref()), Box::new(Inode::new(data, place, change)));
    }

    pub(super) fn remove_inode(&mut self, key: InodeKey) {
        if let Some(inode) = self.inodes.remove(&key) {
            self.size.remove(extra_of_inode(&inode.data));
            self.global.remove(&key);
            self.unstored.remove(key);
        }
    }

    pub(super) fn set_slot(
        &mut self,
        place: &Place,
        (link, first): (SlotLink, SnapId),
        origin: Option<Origin>,
    ) {
        let tick = self.tick;
        let d = self.dirs.entry(place.0).or_default();
        match d.slots.get_mut(&place.1) {
            Some(slot) => {
                slot.set(link, first, origin);
                slot.touch(tick);
            }
            None => {
                let change = origin.map_or_else(LastChange::default, LastChange::new);
                d.slots.insert(place.1.clone(), Slot::new(link, first, change, tick));
                self.entries += 1;
                self.size.add(extra_of_name(&place.1));
                self.fresh += 1;
                self.queue.push(place.0, place.1.hash, tick);
            }
        }
    }

    /// Adds a loaded entry. A cached one is newer and stays.
    pub fn loaded(&mut self, place: &Place, value: Option<Dentry>) {
        let is_known = self.dirs.get(&place.0).is_some_and(|d| d.slots.contains_key(&place.1));
        // What is stored of a directory of which this rank has a replica may be older than that.
        if is_known || self.replicas.keeps(place.0.ino) {
            return;
        }
        let first = value.as_ref().map_or(SnapId(0), |dentry| dentry.first);
        let link = match value.map(|d| d.link) {
            None => SlotLink::Null,
            Some(Link::Remote { ino, dtype }) => SlotLink::Remote { ino, dtype },
            Some(Link::Primary(data)) => {
                let ino = data.key_at(place.1.snap);
                if self.inodes.contains_key(&ino) {
                    // It has moved since this entry was read.
                    return;
                }
                self.insert(*data, Some(place.clone()), LastChange::default());
                SlotLink::Primary(ino)
            }
        };
        self.set_slot(place, (link, first), None);
    }

    /// Adds a loaded base inode.
    pub fn loaded_base(&mut self, data: InodeData) {
        if !self.inodes.contains_key(&data.key()) {
            self.insert(data, None, LastChange::default());
        }
    }

    pub(super) fn drop_dir(&mut self, dir: DirFrag) {
        if let Some(d) = self.dirs.remove(&dir) {
            self.entries -= d.slots.len();
            self.dirty_entries -= d.dirty.len();
            for (key, slot) in &d.slots {
                self.size.remove(extra_of_name(key));
                if let SlotLink::Primary(ino) = slot.link(key) {
                    let is_cached = self.inodes.contains_key(&ino);
                    assert!(!is_cached || !ino.is_head(), "a directory with inode {ino} in it is forgotten");
                    // A state that no snapshot contains any more.
                    self.remove_inode(ino);
                }
            }
        }
        self.dirty_dirs.remove(&dir);
    }
}

/// The key of an inode that is stored at `place`: of the live one, or of a snapshot's state.
fn key_of(data: &InodeData, place: Option<&Place>) -> InodeKey {
    place.map_or_else(|| data.key(), |(_, name)| data.key_at(name.snap))
}
