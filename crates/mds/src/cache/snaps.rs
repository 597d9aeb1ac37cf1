//! The states of the name space that snapshots keep.
//!
//! A change of an entry that a snapshot contains first copies it: `NAME@S` has the state up to snapshot S,
//! and the live entry begins after it ([`Cache::preserve`]). A directory's own snapshots, and all snapshots
//! of a file with several names, find the state in the inode itself (`old_inodes`), wherever it has moved.

use super::{Cache, Inode, SlotLink};
use crate::types::Place;
use fsfmt::{Dentry, DentryKey, DirFrag, Ino, InodeData, Link, OldInode, Realm, Update};
use maps::{MdsRank, SnapId};
use std::borrow::Cow;
use stdx::Rare;

impl Cache {
    /// Adds to an event's updates the copies of what they replace, as far as snapshots contain it.
    pub fn preserve(&self, updates: Vec<Update>) -> Vec<Update> {
        if self.snaps.last() == SnapId(0) {
            return updates;
        }
        let mut out = Vec::with_capacity(updates.len());
        for update in updates {
            match update {
                Update::Dentry { dir, key, value } if key.is_head() => {
                    let value = value.map(|entry| self.keep_in_inode(entry));
                    self.preserve_entry((dir, key), value, &mut out);
                }
                Update::Base { mut inode } => {
                    self.keep_old_state(&mut inode);
                    out.push(Update::Base { inode });
                }
                other => out.push(other),
            }
        }
        out
    }

    fn preserve_entry(&self, place: Place, mut value: Option<Box<Dentry>>, out: &mut Vec<Update>) {
        let (dir, key) = place;
        let slot = self.slot(dir, &key).filter(|slot| !slot.is_null());
        let newest = self.newest_snap_of_names(dir);
        let keeps = slot.filter(|slot| newest.is_some_and(|newest| slot.first() <= newest));
        let keeps = keeps.filter(|_| !stdx::mutants::is_active("mds_copies_no_entries"));
        if let (Some(slot), Some(newest)) = (keeps, newest)
            && let Some(link) = self.copied_link(slot.link(&key))
        {
            let entry = Dentry { first: slot.first(), link };
            let copy = DentryKey { snap: newest, ..key.clone() };
            out.push(Update::Dentry { dir, key: copy, value: Some(Box::new(entry)) });
        }
        if let Some(entry) = &mut value {
            let is_same =
                slot.is_some_and(|s| s.link(&key).inode().is_some_and(|i| i.ino == entry.link.ino()));
            if !is_same || keeps.is_some() {
                entry.first = self.snaps.next_first();
            }
        }
        out.push(Update::Dentry { dir, key, value });
    }

    /// True while a removed snapshot is being trimmed. Rank 0 does that, and has everything meanwhile.
    pub fn is_trimming(&self) -> bool {
        self.subtrees.own() == MdsRank(0) && self.snaps.trimming().next().is_some()
    }

    /// True if a snapshot of the directory above contains the present state of a directory that is stored in
    /// its entry.
    pub fn is_root_snapped(&self, root: Ino) -> bool {
        if self.subtrees.is_alone(root) {
            return false;
        }
        let Some((dir, key)) = self.inodes.get(&root.head()).and_then(|inode| inode.place.as_ref()) else {
            return false;
        };
        let newest = self.newest_snap_of_names(*dir);
        self.slot(*dir, key).zip(newest).is_some_and(|(slot, newest)| slot.first() <= newest)
    }

    /// The newest snapshot that contains the names of a directory.
    fn newest_snap_of_names(&self, dir: DirFrag) -> Option<SnapId> {
        if dir.ino.is_base() && dir.ino != Ino::ROOT {
            return None;
        }
        let inode = self.inodes.get(&dir.inode())?;
        self.snap_context(self.realm_of(inode)).snaps.first().copied()
    }

    /// The copy of an entry's target. Of a file with several names only the name is copied: the states are in
    /// its inode.
    fn copied_link(&self, link: SlotLink) -> Option<Link> {
        let key = match link {
            SlotLink::Null => return None,
            SlotLink::Remote { ino, dtype } => return Some(Link::Remote { ino, dtype }),
            SlotLink::Primary(key) => key,
        };
        let data = &self.inodes.get(&key)?.data;
        if data.realm == Realm::GLOBAL {
            return Some(Link::Remote { ino: data.ino, dtype: data.dtype() });
        }
        let mut copy = data.clone();
        copy.ranges.clear();
        copy.links = Rare::default();
        copy.truncate_from = 0;
        copy.accounted = copy.rstat.clone();
        Some(Link::Primary(Box::new(copy)))
    }

    fn keep_in_inode(&self, mut entry: Box<Dentry>) -> Box<Dentry> {
        if let Link::Primary(data) = &mut entry.link {
            self.keep_old_state(data);
        }
        entry
    }

    /// Keeps the present state in the new one, if snapshots need to find it there.
    fn keep_old_state(&self, data: &mut InodeData) {
        let Some(old) = self.inodes.get(&data.key()).map(|inode| &inode.data) else { return };
        let Some(realm) = self.realm_with_states(old) else { return };
        let context = self.snap_context(realm);
        let live =
            |last: &SnapId, old: &mut OldInode| context.snaps.iter().any(|s| old.first <= *s && s <= last);
        data.old_inodes.edit(|states| states.retain(live));
        let first = self.state_first(old);
        if let Some(newest) = context.snaps.first()
            && first <= *newest
        {
            data.old_inodes.edit(|states| states.insert(*newest, old_state(old, first)));
        }
    }

    /// The realm for whose snapshots an inode keeps its old states itself: its own, or that of all files with
    /// several names.
    fn realm_with_states(&self, data: &InodeData) -> Option<Ino> {
        if data.realm == Realm::GLOBAL {
            Some(Realm::GLOBAL)
        } else if data.own_realm.is_some() {
            Some(data.ino)
        } else {
            None
        }
    }

    /// The first snapshot that the present state may be in.
    fn state_first(&self, data: &InodeData) -> SnapId {
        match data.old_inodes.keys().next_back() {
            Some(last) => SnapId(last.0 + 1).max(data.first),
            None => data.first,
        }
    }

    /// An inode as of a snapshot. The state of the inode given is that of the entry that leads to it.
    pub fn state_at<'a>(&self, inode: &'a Inode, snap: SnapId) -> Cow<'a, InodeData> {
        match inode.data.old_inodes.range(snap..).next() {
            Some((_, old)) if old.first <= snap => Cow::Owned(with_state(&inode.data, old)),
            _ => Cow::Borrowed(&inode.data),
        }
    }

    /// True if snapshots find an inode without a name here: a directory, in which they find entries, or a
    /// file that had several names. Of all others they have copies.
    pub fn is_kept(&self, data: &InodeData) -> bool {
        let past = data.own_realm.iter().flat_map(|own| &own.past_parent_snaps);
        (data.is_dir() || data.realm == Realm::GLOBAL)
            && past.into_iter().any(|snap| self.snaps.live(*snap).is_some())
    }

    /// The snapshots that contain an inode, newest first.
    pub fn snaps_of(&self, inode: &Inode) -> Vec<SnapId> {
        let is_removed =
            inode.place.as_ref().is_some_and(|(dir, _)| dir.ino.is_base() && dir.ino != Ino::ROOT);
        if is_removed && inode.data.own_realm.is_none() && inode.data.realm != Realm::GLOBAL {
            // It was removed when no snapshot contained it.
            return Vec::new();
        }
        let mut snaps = self.snap_context(self.realm_of(inode)).snaps;
        snaps.retain(|snap| inode.data.first <= *snap);
        snaps
    }
}

fn old_state(data: &InodeData, first: SnapId) -> OldInode {
    OldInode {
        first,
        version: data.version,
        mode: data.mode,
        uid: data.uid,
        gid: data.gid,
        nlink: data.nlink,
        size: data.size,
        mtime: data.mtime,
        ctime: data.ctime,
        atime: data.atime,
        btime: data.btime,
        layout: data.layout.clone(),
        xattrs: data.xattrs.clone(),
        xattr_version: data.xattr_version,
        truncate_seq: data.truncate_seq,
        truncate_size: data.truncate_size,
        time_warp_seq: data.time_warp_seq,
        change_attr: data.change_attr,
        dirstat: data.dirstat.clone(),
        rstat: data.rstat.clone(),
        accounted: data.accounted.clone(),
        quota: data.quota.clone(),
        packed: data.packed.clone(),
    }
}

fn with_state(data: &InodeData, old: &OldInode) -> InodeData {
    InodeData {
        version: old.version,
        mode: old.mode,
        uid: old.uid,
        gid: old.gid,
        nlink: old.nlink,
        size: old.size,
        mtime: old.mtime,
        ctime: old.ctime,
        atime: old.atime,
        btime: old.btime,
        layout: old.layout.clone(),
        xattrs: old.xattrs.clone(),
        xattr_version: old.xattr_version,
        truncate_seq: old.truncate_seq,
        truncate_size: old.truncate_size,
        time_warp_seq: old.time_warp_seq,
        change_attr: old.change_attr,
        dirstat: old.dirstat.clone(),
        rstat: old.rstat.clone(),
        quota: old.quota.clone(),
        ..data.clone()
    }
}
