//! The after-images of one event, collected by an operation.

use crate::cache::Cache;
use crate::types::{Place, Stop};
use fsfmt::{Counted, DirFrag, Ino, InodeData, InodeKey, Link, NestStat, Update};
use std::collections::BTreeMap;
use wire::Utime;

enum NewLink {
    None,
    Primary(InodeKey),
    Remote { ino: Ino, dtype: u8 },
}

/// Changed copies of inodes and entries.
pub struct Draft<'a> {
    cache: &'a Cache,
    now: Utime,
    inodes: BTreeMap<InodeKey, InodeData>,
    entries: Vec<(Place, NewLink)>,
}

impl<'a> Draft<'a> {
    /// An empty draft.
    pub fn new(cache: &'a Cache, now: Utime) -> Self {
        Self { cache, now, inodes: BTreeMap::new(), entries: Vec::new() }
    }

    /// An inode's new state, at first a copy of the present one.
    pub fn inode(&mut self, ino: InodeKey) -> Result<&mut InodeData, Stop> {
        if !self.inodes.contains_key(&ino) {
            let mut data = self.cache.inode(ino)?.data.clone();
            data.version += 1;
            self.inodes.insert(ino, data);
        }
        Ok(self.inodes.get_mut(&ino).expect("inserted above"))
    }

    /// The new state of an inode, with its change time set.
    pub fn changed(&mut self, ino: InodeKey) -> Result<&mut InodeData, Stop> {
        let now = self.now;
        let data = self.inode(ino)?;
        data.ctime = data.ctime.max(now);
        data.change_attr += 1;
        Ok(data)
    }

    /// Adds a new inode.
    pub fn create(&mut self, data: InodeData) {
        self.inodes.insert(data.key(), data);
    }

    /// The inode that counts what is in a fragment.
    fn keeper(&self, dir: DirFrag) -> InodeKey {
        self.cache.subtrees.keeper(dir).head()
    }

    /// Records that a name in `dir` is added or removed; `files` and `dirs` are the changes of its counts.
    pub fn dir_changed(&mut self, dir: DirFrag, files: i64, dirs: i64) -> Result<(), Stop> {
        let now = self.now;
        let data = self.changed(self.keeper(dir))?;
        data.mtime = data.mtime.max(now);
        let mtime = data.mtime;
        data.dirstat.edit(|stat| {
            stat.mtime = mtime;
            stat.nfiles = stat.nfiles.wrapping_add_signed(files);
            stat.nsubdirs = stat.nsubdirs.wrapping_add_signed(dirs);
        });
        data.rstat.rctime = data.rstat.rctime.max(now);
        Ok(())
    }

    /// Adds the inode of a primary entry to the counts of `dir`.
    pub fn account(&mut self, dir: DirFrag, ino: InodeKey) -> Result<(), Stop> {
        let inode = self.inode(ino)?;
        inode.accounted = inode.rstat.clone();
        let stat = inode.rstat.clone();
        shift(&mut self.inode(self.keeper(dir))?.rstat, &NestStat::default(), &stat);
        Ok(())
    }

    /// Removes it from those counts.
    pub fn unaccount(&mut self, dir: DirFrag, ino: InodeKey) -> Result<(), Stop> {
        let old = std::mem::take(&mut self.inode(ino)?.accounted);
        shift(&mut self.inode(self.keeper(dir))?.rstat, &old, &NestStat::default());
        Ok(())
    }

    /// Removes a name.
    pub fn remove(&mut self, place: Place) {
        self.entries.push((place, NewLink::None));
    }

    /// Makes a name the primary entry of an inode.
    pub fn put(&mut self, place: Place, ino: InodeKey) {
        self.entries.push((place, NewLink::Primary(ino)));
    }

    /// Makes a name a further hard link.
    pub fn put_remote(&mut self, place: Place, ino: Ino, dtype: u8) {
        self.entries.push((place, NewLink::Remote { ino, dtype }));
    }

    /// The event's changes. The last change of a name counts.
    pub fn finish(self) -> Vec<Update> {
        let mut updates = Vec::new();
        let mut inodes = self.inodes;
        let cache = self.cache;
        let mut placed: BTreeMap<Place, NewLink> = BTreeMap::new();
        for (place, link) in self.entries {
            placed.insert(place, link);
        }
        // Removed names come first, so that a moved inode is never in two places.
        let (gone, there): (Vec<_>, Vec<_>) =
            placed.into_iter().partition(|(_, l)| matches!(l, NewLink::None));
        for ((dir, key), link) in gone.into_iter().chain(there) {
            let value = match link {
                NewLink::None => None,
                NewLink::Remote { ino, dtype } => Some(Link::Remote { ino, dtype }),
                NewLink::Primary(ino) => {
                    let data = inodes.remove(&ino).or_else(|| cache.inodes.get(&ino).map(|i| i.data.clone()));
                    Some(Link::Primary(Box::new(data.expect("a linked inode is in the draft or the cache"))))
                }
            };
            let place = (dir, key);
            let value = value.map(|link| cache.dentry(&place, link));
            updates.push(Update::Dentry { dir, key: place.1, value });
        }
        updates.extend(inodes.into_values().map(|data| cache.update(data)));
        updates
    }

    /// Like [`Self::finish`], without inodes of which only the version changed.
    pub fn finish_quietly(mut self) -> Vec<Update> {
        let cache = self.cache;
        self.inodes.retain(|ino, data| {
            cache.inodes.get(ino).is_none_or(|old| {
                let version = std::mem::replace(&mut data.version, old.data.version);
                let has_changed = old.data != *data;
                data.version = version;
                has_changed
            })
        });
        self.finish()
    }
}

/// Adds `new - old` to `total`.
pub fn shift(total: &mut NestStat, old: &NestStat, new: &NestStat) {
    let move_by = |t: u64, o: u64, n: u64| t.wrapping_add(n).wrapping_sub(o);
    total.rbytes = move_by(total.rbytes, old.rbytes, new.rbytes);
    total.rfiles = move_by(total.rfiles, old.rfiles, new.rfiles);
    total.rsubdirs = move_by(total.rsubdirs, old.rsubdirs, new.rsubdirs);
    total.rsnaps = move_by(total.rsnaps, old.rsnaps, new.rsnaps);
    total.rctime = total.rctime.max(new.rctime);
}

/// Has a directory count a subtree in it as `new` instead of `old`.
pub fn count(dir: &mut InodeData, old: &Counted, new: &Counted) {
    shift(&mut dir.rstat, &old.rstat(), &new.rstat());
    if old.dirstat == new.dirstat || stdx::mutants::is_active("mds_counts_no_names_of_shards") {
        return;
    }
    let (old, new) = (&old.dirstat, &new.dirstat);
    dir.mtime = dir.mtime.max(new.mtime);
    dir.ctime = dir.ctime.max(new.mtime);
    dir.change_attr += 1;
    let mtime = dir.mtime;
    dir.dirstat.edit(|stat| {
        stat.mtime = mtime;
        stat.nfiles = stat.nfiles.wrapping_add(new.nfiles).wrapping_sub(old.nfiles);
        stat.nsubdirs = stat.nsubdirs.wrapping_add(new.nsubdirs).wrapping_sub(old.nsubdirs);
    });
}
