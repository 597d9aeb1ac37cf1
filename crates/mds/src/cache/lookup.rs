//! Lookups in the cache: a missing item is a [`Need`].

use super::{Cache, Dir, Inode, Slot, SlotLink};
use crate::authority::{Auth, Hold};
use crate::cap::Late;
use crate::types::{ClientId, Holder, LastChange, Need, Place};
use fsfmt::{Dentry, DentryKey, DirFrag, Ino, InodeData, InodeKey, Link, Update};
use maps::SnapId;
use msgs::cap;
use std::ops::Bound;

impl Cache {
    /// Looks up an inode; marks its entry as used.
    pub fn inode(&self, ino: InodeKey) -> Result<&Inode, Need> {
        let inode = self.inodes.get(&ino).ok_or(Need::Inode(ino))?;
        if let Some((dir, key)) = &inode.place {
            self.touch(*dir, key);
        }
        Ok(inode)
    }

    /// The authority over an inode, and over what is in it if it is a directory.
    pub fn authority(&self, ino: Ino) -> Result<Auth, Need> {
        self.subtrees.of(ino, |ino| self.directory_of(ino))
    }

    /// The root of the nearest subtree around an inode.
    pub fn root_of(&self, ino: Ino) -> Result<Ino, Need> {
        self.subtrees.root_of(ino, |ino| self.directory_of(ino))
    }

    fn directory_of(&self, ino: Ino) -> Result<Option<Ino>, Need> {
        match ino.as_shard() {
            Some(shard) => Ok(Some(shard.ino)),
            None => Ok(self.inode(ino.head())?.place.as_ref().map(|(dir, _)| self.subtrees.keeper(*dir))),
        }
    }

    /// True if nothing about a cached inode may change here: another rank has the authority, or what clients
    /// hold of it is being handed over, or they have not been told yet that it was.
    pub fn is_fixed(&self, ino: InodeKey) -> bool {
        if self.subtrees.is_sole() {
            return false;
        }
        if self.unannounced.contains_key(&ino) {
            return true;
        }
        match self.authority(ino.ino) {
            Ok(Auth::Here) | Err(_) => false,
            Ok(Auth::Frozen(root)) => self.subtrees.hold(root) != Some(Hold::Settling),
            Ok(Auth::Rank(_)) => !self.has_replica(ino),
        }
    }

    /// The update that gives an inode this state where it is.
    pub fn update(&self, data: InodeData) -> Update {
        let place = self.inodes.get(&data.key()).and_then(|inode| inode.place.as_ref());
        match place.filter(|_| !self.subtrees.is_alone(data.ino)) {
            Some(place) => {
                let value = Some(self.dentry(place, Link::Primary(Box::new(data))));
                Update::Dentry { dir: place.0, key: place.1.clone(), value }
            }
            None => Update::Base { inode: Box::new(data) },
        }
    }

    /// The fragment of a directory that holds names of a hash.
    pub fn frag_of(&self, dir: Ino, hash: u32) -> Result<DirFrag, Need> {
        match self.subtrees.shard(dir, hash).and_then(Ino::as_shard) {
            // What is known of the directory's fragments may be older.
            Some(shard) => Ok(shard),
            None => Ok(self.inode(dir.head())?.data.frag_of(hash)),
        }
    }

    /// What has to be loaded before a client's claim on an inode can be decided: the inode, or the next
    /// directory above it that is not cached. Without those nobody knows which rank has the authority over an
    /// inode that replay has put into the cache, nor whether the client's key lets it write there.
    pub fn missing_for_claim(&self, ino: InodeKey) -> Option<InodeKey> {
        if !self.inodes.contains_key(&ino) {
            return Some(ino);
        }
        match self.root_of(ino.ino) {
            Err(Need::Inode(above)) => Some(above),
            Ok(_) | Err(_) => None,
        }
    }

    /// The cached fragments that an inode keeps: those of a directory that are not shards, or the one that is
    /// this shard.
    pub fn frags_of(&self, ino: Ino) -> impl Iterator<Item = (DirFrag, &Dir)> {
        let range = match ino.as_shard() {
            Some(shard) => shard..=shard,
            None => DirFrag::all_of(ino),
        };
        let all = self.dirs.range(range).map(|(dir, d)| (*dir, d));
        all.filter(move |(dir, _)| ino.is_shard() || self.subtrees.keeper(*dir) == ino)
    }

    /// Looks up a name: its target, and the events that changed it last.
    pub fn entry(&self, dir: DirFrag, key: &DentryKey) -> Result<(SlotLink, LastChange), Need> {
        if let Some(d) = self.dirs.get(&dir) {
            if let Some(slot) = d.slots.get(key) {
                slot.touch(self.tick);
                return Ok((slot.link(key), slot.change()));
            }
            if d.knows(key) {
                return Ok((SlotLink::Null, d.change));
            }
        }
        Err(Need::Dentry(dir, key.clone()))
    }

    /// The inode at a path from the root, slashes before and behind it ignored; `None` if a name of it does
    /// not exist.
    pub fn find(&self, path: &[u8]) -> Result<Option<InodeKey>, Need> {
        let mut at = Ino::ROOT.head();
        for name in path.split(|b| *b == b'/').filter(|name| !name.is_empty()) {
            let key = DentryKey::new(name);
            let (link, _) = self.entry(self.frag_of(at.ino, key.hash)?, &key)?;
            let Some(ino) = link.inode() else { return Ok(None) };
            at = self.inode(ino).map(|_| ino)?;
        }
        Ok(Some(at))
    }

    /// A cached entry.
    pub fn slot(&self, dir: DirFrag, key: &DentryKey) -> Option<&Slot> {
        self.dirs.get(&dir)?.slots.get(key)
    }

    /// The entry for a name with this link; if the name led to the same inode before, the entry stays in its
    /// snapshots.
    pub fn dentry(&self, place: &Place, link: Link) -> Box<Dentry> {
        let slot = self.slot(place.0, &place.1);
        let leads_to = |s: &&Slot| s.link(&place.1).inode().is_some_and(|inode| inode.ino == link.ino());
        Box::new(Dentry { first: slot.filter(leads_to).map_or(SnapId(0), Slot::first), link })
    }

    /// Marks an entry as used in this run.
    pub fn touch(&self, dir: DirFrag, key: &DentryKey) {
        if let Some(slot) = self.slot(dir, key) {
            slot.touch(self.tick);
        }
    }

    /// Marks a part of a directory, after an omap key up to an entry or to the end, as used in this run.
    pub fn touch_page(&self, dir: DirFrag, after: &[u8], last: Option<&DentryKey>) {
        let Some(d) = self.dirs.get(&dir) else { return };
        let start = DentryKey::from_omap(after).map_or(Bound::Unbounded, Bound::Included);
        let in_page =
            d.slots.range((start, Bound::Unbounded)).take_while(|(key, _)| last.is_none_or(|l| *key <= l));
        in_page.for_each(|(_, slot)| slot.touch(self.tick));
    }

    /// True if a fragment of this directory is being written back.
    pub fn has_commit(&self, dir: Ino) -> bool {
        self.dirs.range(DirFrag::all_of(dir)).any(|(_, d)| d.commit.is_some())
    }

    /// The directories from `ino` up to the root, `ino` excluded.
    pub fn ancestors(&self, ino: InodeKey) -> Result<Vec<InodeKey>, Need> {
        let mut out = Vec::new();
        let mut at = ino;
        while let Some((dir, _)) = &self.inode(at)?.place {
            at = dir.ino.head();
            out.push(at);
        }
        Ok(out)
    }

    /// A cached inode and the directories above it. Ancestors of cached inodes are cached.
    pub fn upwards<'a>(&'a self, inode: &'a Inode) -> impl Iterator<Item = &'a Inode> {
        std::iter::successors(Some(inode), |inode| {
            let (dir, _) = inode.place.as_ref()?;
            Some(&**self.inodes.get(&dir.inode())?)
        })
    }

    /// The path of an inode from the root, without a leading slash; `None` where it lies in no visible
    /// directory.
    pub fn path_of(&self, ino: InodeKey) -> Result<Option<Vec<u8>>, Need> {
        let (mut names, mut at) = (Vec::new(), ino);
        while let Some((dir, key)) = &self.inode(at)?.place {
            names.push(key.name.to_vec());
            at = dir.ino.head();
        }
        names.reverse();
        Ok((at == Ino::ROOT.head()).then(|| names.join(&b'/')))
    }

    /// What a client has been asked for of an inode and has not given back.
    pub fn late(&self, ino: InodeKey, client: ClientId) -> Option<Late> {
        self.inodes.get(&ino)?.caps.get(client)?.late(ino)
    }

    /// The revocation after which nobody but `except` holds bits of `mask`; `None` if that is already so.
    pub fn revocation(&self, ino: InodeKey, except: Option<Holder>, mask: u32) -> Option<Need> {
        let mask = mask & !cap::PIN;
        let held = self.inodes.get(&ino)?.held_by_others(except);
        (held & mask != 0).then_some(Need::Revoke { ino, except, mask })
    }
}
