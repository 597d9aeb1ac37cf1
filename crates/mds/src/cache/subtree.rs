//! Subtrees in the cache: what they contain, and how they come and go.

use super::size::{extra_of_inode, extra_of_name};
use super::{Cache, Dir, Inode, Slot, SlotLink};
use crate::authority::{Auth, Hold};
use crate::types::{LastChange, Place};
use fsfmt::{
    Counted, Dentry, DentryKey, DirFrag, Ino, InodeData, InodeKey, Link, NestStat, PrefixEntry, SubtreeRecord,
};
use maps::{MdsRank, SnapId};
use std::collections::BTreeSet;
use stdx::mutants::is_active;

impl Cache {
    /// The cached inodes of a subtree, its root included, each directory before what is in it. Ancestors of
    /// cached inodes are cached, so these are all. Files in a directory of which this rank has a
    /// replica are no part of it.
    pub fn subtree(&self, root: Ino) -> Vec<InodeKey> {
        self.subtree_up_to(root, usize::MAX)
    }

    /// The first of them, if there are more than `most`.
    pub fn subtree_up_to(&self, root: Ino, most: usize) -> Vec<InodeKey> {
        let mut found = vec![root.head()];
        let mut next = 0;
        while let Some(dir) = found.get(next).copied().filter(|_| found.len() < most) {
            next += 1;
            let is_copied = |ino: &InodeKey| {
                self.replicas.keeps(dir.ino) && self.inodes.get(ino).is_some_and(|i| !i.data.is_dir())
            };
            let inside = self.inside(dir.ino).filter(|ino| !is_copied(ino));
            found.extend(inside.take(most - found.len()));
        }
        found
    }

    /// The cached directories in one that are in the same subtree.
    pub fn dirs_in(&self, dir: Ino) -> impl Iterator<Item = Ino> {
        self.dirs_of(self.slots_in(dir))
    }

    /// Those of them that are found among the next `looks` entries, which are counted down.
    pub fn dirs_in_up_to(&self, dir: Ino, looks: &mut usize) -> impl Iterator<Item = Ino> {
        self.dirs_of(self.slots_in(dir).take(*looks).inspect(move |_| *looks -= 1))
    }

    fn dirs_of<'a>(
        &'a self,
        slots: impl Iterator<Item = (&'a DentryKey, &'a Slot)>,
    ) -> impl Iterator<Item = Ino> {
        let is_dir = |ino: &InodeKey| self.inodes.get(ino).is_some_and(|inode| inode.data.is_dir());
        self.inodes_of(slots).filter(is_dir).map(|ino| ino.ino)
    }

    /// The inodes with their names in a directory, as they are now, that are in the same subtree.
    fn inside(&self, dir: Ino) -> impl Iterator<Item = InodeKey> {
        self.inodes_of(self.slots_in(dir))
    }

    fn slots_in(&self, dir: Ino) -> impl Iterator<Item = (&DentryKey, &Slot)> {
        self.frags_of(dir).flat_map(|(_, d)| &d.slots)
    }

    fn inodes_of<'a>(
        &'a self,
        slots: impl Iterator<Item = (&'a DentryKey, &'a Slot)>,
    ) -> impl Iterator<Item = InodeKey> {
        let slots = slots.filter(|(_, slot)| slot.is_primary());
        let inside = slots.filter_map(|(key, slot)| slot.link(key).inode()).filter(|ino| ino.is_head());
        inside.filter(|ino| self.subtrees.hold(ino.ino).is_none())
    }

    /// True if names in a subtree have changed that are not stored.
    pub fn has_unstored_names(&self, root: Ino) -> bool {
        let is_in_it = |dir: &DirFrag| {
            let shard = Ino::shard(*dir) == Some(root);
            shard || self.root_of(self.subtrees.keeper(*dir)).is_ok_and(|around| around == root)
        };
        self.dirty_dirs.keys().any(is_in_it)
    }

    /// The record of a subtree that this rank is about to hand over to another; `None` if its directories up
    /// to the root of the file system are not all cached, or it is in none of them.
    pub fn new_record(&self, root: Ino, own: MdsRank, to: MdsRank) -> Option<SubtreeRecord> {
        let was_alone = self.subtrees.is_alone(root);
        if let Some(shard) = root.as_shard() {
            let prefix = self.prefix_of(shard.ino)?;
            let record =
                SubtreeRecord { rank: to, from: Some(own), was_alone, dir: shard, ..Default::default() };
            return Some(SubtreeRecord { prefix, ..record });
        }
        let Some((dir, key)) = self.inodes.get(&root.head())?.place.clone() else {
            let dir = DirFrag::whole(Ino::mdsdir(root.owner()));
            let record =
                SubtreeRecord { rank: to, from: Some(own), was_alone, dir, ..SubtreeRecord::default() };
            return root.is_stray().then_some(record);
        };
        let prefix = self.prefix_of(dir.ino)?;
        let (name, first) = (key.name.to_vec(), self.first_of(&(dir, key)));
        Some(SubtreeRecord { rank: to, from: Some(own), was_alone, dir, name, prefix, first })
    }

    /// The directories above a subtree, the root of the file system first; `None` if they are not all cached,
    /// or not visible.
    fn prefix_of(&self, dir: Ino) -> Option<Vec<PrefixEntry>> {
        let (mut prefix, mut at) = (Vec::new(), dir);
        loop {
            let inode = self.inodes.get(&at.head())?;
            let place = inode.place.as_ref();
            let name = place.map(|(_, key)| key.name.to_vec()).unwrap_or_default();
            let first = place.map_or(SnapId(0), |place| self.first_of(place));
            let dir = place.map(|(dir, _)| *dir);
            prefix.push(PrefixEntry { dir, name, inode: inode.data.clone(), first });
            match place {
                Some((above, _)) => at = above.ino,
                None => break,
            }
        }
        prefix.reverse();
        (at == Ino::ROOT).then_some(prefix)
    }

    /// The first snapshot that a cached entry is in.
    pub fn first_of(&self, (dir, key): &Place) -> SnapId {
        self.slot(*dir, key).map_or(SnapId(0), Slot::first)
    }

    /// The directories of strays that this rank has the authority over: its own, and those of ranks that have
    /// stopped.
    pub fn stray_dirs(&self) -> Vec<Ino> {
        let all = self.subtrees.iter().map(|(root, ..)| root).filter(|root| root.is_stray());
        let own = Ino::stray(self.subtrees.own().0 as u32);
        let all: BTreeSet<Ino> = all.chain([own]).collect();
        all.into_iter().filter(|dir| matches!(self.authority(*dir), Ok(Auth::Here))).collect()
    }

    /// Forgets everything below the root of a subtree: it is stored, and nobody holds anything of it. What
    /// leads to subtrees of this rank further down stays, as copies.
    pub fn drop_subtree(&mut self, root: Ino) {
        let kept = self.leading_to_own(root);
        let inside = self.subtree(root);
        let dirs = inside.iter().filter(|dir| !self.replicas.keeps(dir.ino));
        let frags = dirs.flat_map(|dir| self.frags_of(dir.ino));
        let frags: Vec<DirFrag> = frags.map(|(dir, _)| dir).collect();
        frags.into_iter().for_each(|frag| self.forget_entries(frag, &kept));
    }

    /// Forgets all that is in directories of other ranks, but for what leads to subtrees of this one. It may
    /// have changed since it was read, which matters when such a directory comes to this rank.
    pub fn drop_copies(&mut self) {
        let kept = self.leading_to_own(Ino(0));
        let is_foreign = |dir: &DirFrag, d: &Dir| match self.authority(self.subtrees.keeper(*dir)) {
            Ok(Auth::Here | Auth::Frozen(_)) => false,
            Ok(Auth::Rank(_)) => !self.replicas.keeps(dir.ino),
            // Of a directory that has left there may be entries without its inode, which were being loaded;
            // of one here that was not loaded since a restart, changes from the journal, and what absent
            // clients hold.
            Err(_) => d.dirty.is_empty() && d.commit.is_none() && !self.is_held_in(d),
        };
        let frags = self.dirs.iter().filter(|(dir, d)| is_foreign(dir, d));
        let frags: Vec<DirFrag> = frags.map(|(dir, _)| *dir).collect();
        frags.into_iter().for_each(|frag| self.forget_entries(frag, &kept));
    }

    fn is_held_in(&self, dir: &Dir) -> bool {
        let mut entries = dir.slots.iter().filter_map(|(key, slot)| match slot.link(key) {
            SlotLink::Primary(ino) => self.inodes.get(&ino),
            _ => None,
        });
        entries.any(|inode| !inode.caps.is_empty())
    }

    /// The roots of this rank's subtrees but one, the directories of which it has a replica, and those above
    /// them.
    pub(super) fn leading_to_own(&self, but: Ino) -> BTreeSet<Ino> {
        let own =
            self.subtrees.iter().filter(|(ino, hold, _)| *ino != but && !matches!(hold, Hold::Foreign(_)));
        let above = |record: Option<&SubtreeRecord>| {
            let prefix = record.into_iter().flat_map(|record| &record.prefix);
            prefix.map(|entry| entry.inode.ino).collect::<Vec<_>>()
        };
        let kept = self.replicas.all_kept().filter_map(|(dir, _)| self.inodes.get(&dir.head()));
        let kept = kept.flat_map(|dir| self.upwards(dir)).map(|inode| inode.data.ino);
        own.flat_map(|(ino, _, record)| above(record).into_iter().chain([ino])).chain(kept).collect()
    }

    /// Forgets the entries of a fragment, but for those of inodes to be kept.
    pub(super) fn forget_entries(&mut self, dir: DirFrag, kept: &BTreeSet<Ino>) {
        let Some(d) = self.dirs.get_mut(&dir) else { return };
        assert!(d.dirty.is_empty() && d.commit.is_none(), "changes of {dir} are forgotten");
        (d.complete, d.known_to) = (false, None);
        let is_kept = |link: SlotLink| matches!(link, SlotLink::Primary(ino) if kept.contains(&ino.ino));
        let all = std::mem::take(&mut d.slots).into_iter();
        let (stays, gone): (Vec<_>, Vec<_>) = all.partition(|(key, slot)| is_kept(slot.link(key)));
        d.slots = stays.into_iter().collect();
        if d.slots.is_empty() {
            self.dirs.remove(&dir);
        }
        self.entries -= gone.len();
        for (key, slot) in gone {
            self.size.remove(extra_of_name(&key));
            if let SlotLink::Primary(ino) = slot.link(&key) {
                assert!(self.inodes.get(&ino).is_none_or(|i| i.caps.is_empty()), "{ino} is held");
                self.remove_inode(ino);
            }
        }
    }

    /// The directories above a subtree, with whether each is this rank's. What it is about to hand over is
    /// its own still, and newer than what the record says.
    fn above<'a>(&self, record: &'a SubtreeRecord) -> impl Iterator<Item = (&'a PrefixEntry, bool)> {
        let mut is_ours = false;
        record.prefix.iter().map(move |entry| {
            let ino = entry.inode.ino;
            // It may be in a shard of the directory before it.
            let shard = entry.dir.and_then(|dir| {
                let keeper = self.subtrees.keeper_of_name(dir.ino, &entry.name);
                self.subtrees.hold(keeper).filter(|_| keeper.is_shard())
            });
            is_ours = match self.subtrees.hold(ino).or(shard) {
                Some(hold) => !matches!(hold, Hold::Foreign(_)),
                None if ino.is_base() => ino.owner() == self.subtrees.own().0 as u32,
                None => is_ours,
            };
            (entry, is_ours)
        })
    }

    /// The lowest directory above a subtree that is this rank's, if it is not cached: it has to be, with all
    /// above it, before the subtree comes.
    pub fn missing_above(&self, record: &SubtreeRecord) -> Option<InodeKey> {
        let own = self.above(record).filter(|(_, is_ours)| *is_ours);
        let lowest = own.map(|(entry, _)| entry.inode.ino.head()).last();
        lowest.filter(|ino| !self.inodes.contains_key(ino))
    }

    /// The root of a subtree and the directories below it that lead to others, if they are not cached. The
    /// rest of them stays while these are loaded.
    pub fn missing_between(&self, root: Ino) -> BTreeSet<InodeKey> {
        let below = self.subtrees.below(root).filter_map(|(other, _)| self.subtrees.record(other));
        let between = below.flat_map(|record| {
            let names = record.prefix.iter().map(|entry| entry.inode.ino);
            let top = root.as_shard().map_or(root, |shard| shard.ino);
            names.skip_while(move |ino| *ino != top).skip(1)
        });
        let needed = between.chain(Some(root).filter(|root| !root.is_base())).map(Ino::head);
        needed.filter(|ino| self.inode(*ino).is_err()).collect()
    }

    /// The roots of this rank's own subtrees that are part of the subtree of `root`, once that is here. Its
    /// own shards join it later: its inode can't change before it is stored here.
    pub fn own_within(&self, root: Ino) -> Vec<Ino> {
        let own = self.subtrees.iter().filter(|(_, hold, _)| *hold == Hold::Own);
        let within = own.filter(|(other, _, record)| {
            record.is_some_and(|record| {
                let dir = self.subtrees.around(*other, record);
                let is_its_shard = other.is_shard() && dir == root;
                !is_its_shard && self.root_of(dir).is_ok_and(|around| around == root)
            })
        });
        within.map(|(other, ..)| other).collect()
    }

    /// Takes in the directories above a subtree that is this rank's from now on, unless they are its own.
    pub fn put_prefix(&mut self, record: &SubtreeRecord) {
        let is_copy = |(entry, is_ours): &(&PrefixEntry, bool)| {
            // Of a replica it has the present state.
            !is_ours && !self.replicas.keeps(entry.inode.ino)
        };
        let copies = self.above(record).filter(is_copy).map(|(entry, _)| entry);
        for entry in copies.collect::<Vec<_>>() {
            let place = entry.dir.map(|dir| self.place_now(dir, &entry.name));
            self.put_copy(entry.inode.clone(), place, entry.first);
        }
    }

    /// The place of a name that was in this fragment: the directory may have been split since.
    fn place_now(&self, dir: DirFrag, name: &[u8]) -> Place {
        let key = DentryKey::new(name);
        (self.frag_of(dir.ino, key.hash).unwrap_or(dir), key)
    }

    /// Takes in the root of a subtree, under its name in the directory above. Directories of strays have no
    /// name.
    pub fn put_root(&mut self, data: InodeData, record: &SubtreeRecord) {
        if data.ino.is_base() || data.ino.is_shard() {
            return self.put_copy(data, None, SnapId(0));
        }
        self.put_copy(data, Some(self.place_now(record.dir, &record.name)), record.first);
    }

    /// Takes in the root of a shard that begins.
    pub fn put_shard(&mut self, root: Ino) {
        self.put_copy(InodeData::new_shard(root), None, SnapId(0));
    }

    /// Takes in an entry as another rank has it.
    pub fn put_entry(&mut self, place: Place, dentry: Dentry) {
        match dentry.link {
            Link::Primary(data) => self.put_copy(*data, Some(place), dentry.first),
            Link::Remote { ino, dtype } => {
                self.set_slot(&place, (SlotLink::Remote { ino, dtype }, dentry.first), None)
            }
        }
    }

    /// Adds the loaded root of a subtree, if the directory above it is cached.
    pub fn loaded_root(&mut self, data: InodeData, record: &SubtreeRecord) {
        if !self.inodes.contains_key(&data.key()) && self.inodes.contains_key(&record.dir.inode()) {
            self.put_root(data, record);
        }
    }

    /// Renews the copy of the root of another rank's subtree, or of the file system.
    pub fn renew_copy(&mut self, data: InodeData) {
        if matches!(self.authority(data.ino), Ok(Auth::Rank(_)))
            && !self.replicas.keeps(data.ino)
            && let Some(place) = self.inodes.get(&data.key()).map(|inode| inode.place.clone())
        {
            let first = place.as_ref().map_or(SnapId(0), |place| self.first_of(place));
            self.put_copy(data, place, first);
        }
    }

    /// What the directory above an inode counts of it.
    pub fn counted(&self, inode: &Inode) -> Counted {
        let ino = inode.data.ino;
        let is_apart = self.subtrees.record(ino).is_some() && !is_active("mds_forgets_what_is_counted");
        let counted = self.borders.counted(ino).filter(|_| is_apart);
        counted.cloned().unwrap_or_else(|| inode.data.counted_so_far())
    }

    /// Renews the recursive statistics in the copy of another rank's directory.
    pub fn renew_stat(&mut self, dir: InodeKey, rstat: NestStat) {
        if matches!(self.authority(dir.ino), Ok(Auth::Rank(_)))
            && let Some(inode) = self.inodes.get_mut(&dir)
        {
            inode.data.rstat = rstat;
        }
    }

    /// Replaces what is cached of an inode by what another rank has.
    fn put_copy(&mut self, data: InodeData, place: Option<Place>, first: SnapId) {
        let key = data.key();
        let old = self.inodes.get(&key).and_then(|inode| inode.place.clone());
        if let Some(old) = old.filter(|old| Some(old) != place.as_ref()) {
            self.forget_slot(&old);
        }
        let other =
            place.as_ref().and_then(|(dir, name)| self.dirs.get(dir)?.slots.get(name)?.link(name).inode());
        if let Some(other) = other.filter(|other| *other != key) {
            self.drop_subtree(other.ino);
            self.remove_inode(other);
        }
        match self.inodes.get(&key) {
            Some(_) => {
                self.note_kind(&data);
                self.note_inode(key, &data);
                let inode = self.inodes.get_mut(&key).expect("just found");
                self.size.add(extra_of_inode(&data));
                self.size.remove(extra_of_inode(&inode.data));
                (inode.data, inode.place, inode.change) = (data, place.clone(), LastChange::default());
            }
            None => self.insert(data, place.clone(), LastChange::default()),
        }
        if let Some(place) = &place {
            self.set_slot(place, (SlotLink::Primary(key), first), None);
        }
    }

    fn forget_slot(&mut self, (dir, key): &Place) {
        let Some(d) = self.dirs.get_mut(dir) else { return };
        if d.slots.remove(key).is_some() {
            self.entries -= 1;
            self.size.remove(extra_of_name(key));
            d.note_gap(key);
        }
        if d.is_idle() {
            self.dirs.remove(dir);
        }
    }

    /// An inode is not stored alone any more. The root of a shard is nothing else.
    pub fn forget_base(&mut self, ino: Ino) {
        self.dirty_bases.remove(&ino);
        if ino.is_shard() {
            self.remove_inode(ino.head());
        }
    }

    /// Forgets the root of a subtree that another rank has, and that has no name in a directory of this one,
    /// unless it leads to subtrees of this one. In a replica of the directory that it is in it stays, as a
    /// copy: a replica shows all names.
    pub fn drop_root(&mut self, root: Ino) {
        if self.leading_to_own(root).contains(&root) {
            return;
        }
        self.dirty_bases.remove(&root);
        let place = self.inodes.get(&root.head()).and_then(|inode| inode.place.clone());
        if let Some(place) = place {
            if self.replicas.keeps(place.0.ino) {
                return;
            }
            self.forget_slot(&place);
        }
        self.remove_inode(root.head());
    }
}
