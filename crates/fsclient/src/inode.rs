//! What the client knows of an inode, and by which right: attributes, the capability, open counts, buffered writes.

use crate::api::{Attr, Ino, SetAttr};
use crate::dirty::Dirty;
use maps::FileLayout;
use msgs::{CapFile, Caps, InodeStat, cap};
use std::collections::{BTreeMap, BTreeSet};
use stdx::Wall;
use wire::{Reader, Timespec};

/// Any of these keeps others from writing, so that cached pages stay true.
const KEEPS_PAGES: u32 = cap::FILE_CACHE | cap::FILE_BUFFER | cap::FILE_EXCL;
/// Invalidations overtaken by readers before a revocation is confirmed nevertheless.
const MAX_ROUNDS: u8 = 3;

/// The capability on an inode, as the MDS last said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cap {
    pub(crate) id: u64,
    /// Of the last message about it.
    pub(crate) seq: u32,
    /// Of the last grant.
    pub(crate) issue_seq: u32,
    /// Counts migrations.
    pub(crate) mseq: u32,
    pub(crate) realm: u64,
    /// What the MDS allows now.
    pub(crate) issued: Caps,
    /// What we may still be using: more than `issued` while a revocation is not acknowledged.
    pub(crate) implemented: Caps,
    /// What we have told the MDS that we want.
    pub(crate) wanted: Caps,
    /// The MDS is lost. Its successor keeps for us what we may have written under, but others may change meanwhile what we
    /// only know: shared bits count for nothing until it has heard our claim.
    pub(crate) is_suspended: bool,
}

/// Bits that an MDS keeps for clients that have not come back to it.
const KEPT: u32 = cap::AUTH_EXCL | cap::XATTR_EXCL | cap::FILE_EXCL | cap::FILE_WR | cap::FILE_BUFFER;

/// How far the MDS knows of a file's growth by writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Growth {
    /// It has the size on stable storage.
    #[default]
    Durable,
    /// It was not told.
    Untold,
    /// It was told by this flush.
    Flushing(u64),
}

/// One inode.
#[derive(Debug, Default)]
pub(crate) struct Inode {
    pub(crate) ino: Ino,
    pub(crate) version: u64,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) nlink: u32,
    pub(crate) rdev: u32,
    pub(crate) size: u64,
    pub(crate) max_size: u64,
    pub(crate) truncate_size: u64,
    pub(crate) truncate_seq: u32,
    pub(crate) time_warp_seq: u32,
    pub(crate) mtime: Timespec,
    pub(crate) atime: Timespec,
    pub(crate) ctime: Timespec,
    pub(crate) btime: Timespec,
    pub(crate) change_attr: u64,
    pub(crate) layout: FileLayout,
    pub(crate) symlink: Vec<u8>,
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) xattr_version: u64,
    pub(crate) nfiles: u64,
    pub(crate) nsubdirs: u64,
    pub(crate) rbytes: u64,
    pub(crate) cap: Option<Cap>,
    /// Where we last saw it: the way to name it to an MDS that has forgotten it.
    pub(crate) parent: Option<(Ino, Vec<u8>)>,
    /// References that local callers hold.
    pub(crate) lookups: u64,
    /// Open handles that read, and that write.
    pub(crate) readers: u32,
    pub(crate) writers: u32,
    /// Reads under way, which need `Fr` until they end.
    pub(crate) reads: u32,
    /// Buffered writes.
    pub(crate) dirty: Dirty,
    /// Bytes of them that are counted in the client's total.
    pub(crate) counted_bytes: u64,
    /// What changed here and the MDS does not know, by the bits it was done under: `Fw` size and times of writes, `Fx` times
    /// that were set, `Ax` mode and owner.
    pub(crate) dirty_caps: Caps,
    /// Flushes of caps on their way: tid to what.
    pub(crate) flushing: BTreeMap<u64, Caps>,
    /// Somebody waits for everything to be durable.
    pub(crate) sync_wanted: bool,
    /// Somebody waits for the data.
    pub(crate) data_wanted: bool,
    /// A size that the MDS may lose again: without it what was written behind the old end is out of reach.
    pub(crate) growth: Growth,
    /// The size that writers wait for.
    pub(crate) wanted_max_size: u64,
    /// The `max_size` asked for last, so that one wish is sent once.
    pub(crate) requested_max_size: u64,
    /// A write that failed and that nobody has been told of: positive errno.
    pub(crate) error: Option<i32>,
    /// Operations to try again when something changes.
    pub(crate) waiters: BTreeSet<u64>,
    /// Caches above us rest on this being unchanged: an invalidation under way, by its id.
    pub(crate) invalidating: Option<u64>,
    /// Local callers may have pages of it.
    pub(crate) pages_cached: bool,
    /// They got more of them while an invalidation was under way.
    pub(crate) pages_again: bool,
    /// The right to keep them was lost since, or was not there: although it may have come back, they are to be dropped.
    pub(crate) pages_unsure: bool,
    /// Invalidations that were overtaken by new pages, in a row.
    pub(crate) invalidation_rounds: u8,
    /// Directories: counts gains and losses of `Fs`; what was learnt under another count is not believed. A name that was learnt
    /// without `Fs` may have gone before it was gained.
    pub(crate) shared_gen: u64,
    /// Directories: counts names that were forgotten although they may be there.
    pub(crate) names_forgotten: u64,
    /// Directories: all names are known, as of this `shared_gen`.
    pub(crate) complete: Option<u64>,
    /// When it was last of use, for trimming.
    pub(crate) used_at: u64,
}

impl Inode {
    /// A new one.
    pub(crate) fn new(ino: Ino) -> Self {
        Self { ino, layout: FileLayout::default(), ..Self::default() }
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.mode & 0o170_000 == 0o040_000
    }

    pub(crate) fn is_file(&self) -> bool {
        self.mode & 0o170_000 == 0o100_000
    }

    /// What the MDS allows now.
    pub(crate) fn issued(&self) -> Caps {
        match &self.cap {
            Some(c) if c.is_suspended && !c.issued.has_any(KEPT) => Caps(c.issued.0 & cap::PIN),
            Some(c) => c.issued,
            None => Caps::NONE,
        }
    }

    /// Notes what the MDS allows from now on.
    pub(crate) fn set_issued(&mut self, bits: Caps) {
        let Some(cap) = &mut self.cap else { return };
        let turned = (cap.issued.0 ^ bits.0) & cap::FILE_SHARED != 0;
        cap.issued = bits;
        cap.implemented = cap.implemented | bits;
        self.pages_unsure |= !self.may_keep_pages();
        if turned {
            self.shared_gen += 1;
            self.complete = None;
        }
    }

    /// The capability is gone, and the belief in whatever rested on it.
    pub(crate) fn lose_cap(&mut self) {
        self.cap = None;
        self.pages_unsure = true;
        self.requested_max_size = 0;
        self.shared_gen += 1;
        self.complete = None;
    }

    /// The MDS has dropped the capability: what was to be written under it is lost, and said so. Gives whether anything was.
    pub(crate) fn lose_all(&mut self) -> bool {
        self.lose_cap();
        let lost = self.dirty_caps != Caps::NONE || !self.dirty.is_empty() || !self.flushing.is_empty();
        self.flushing.clear();
        self.growth = Growth::Durable;
        if lost {
            self.error = Some(msgs::errno::EIO);
            self.dirty.discard();
            self.dirty_caps = Caps::NONE;
        }
        lost
    }

    /// A name in this directory is forgotten that may be there: not all are known any more, also not by a listing under way.
    pub(crate) fn forget_name(&mut self) {
        self.names_forgotten += 1;
        self.complete = None;
    }

    /// Whether pages of it that local callers have stay true: nobody else can write.
    pub(crate) fn may_keep_pages(&self) -> bool {
        self.issued().has_any(KEEPS_PAGES)
    }

    /// Local callers get pages of it.
    pub(crate) fn note_pages(&mut self) {
        self.pages_unsure = self.pages_unsure && self.pages_cached || !self.may_keep_pages();
        self.pages_cached = true;
        self.pages_again = self.invalidating.is_some();
    }

    /// Whether there are pages that are not known to be true, and that nobody has begun to drop.
    pub(crate) fn has_pages_to_drop(&self) -> bool {
        self.pages_cached && self.invalidating.is_none() && (self.pages_unsure || !self.may_keep_pages())
    }

    /// Whether all pages that local callers have are true.
    pub(crate) fn has_true_pages(&self) -> bool {
        self.pages_cached && self.invalidating.is_none() && !self.has_pages_to_drop()
    }

    /// Whether I/O under `bit` may go on although it is revoked: dropping pages may wait for I/O on them, and the revocation
    /// is confirmed only when they are dropped.
    pub(crate) fn may_still(&self, bit: u32) -> bool {
        self.invalidating.is_some() && self.cap.as_ref().is_some_and(|c| c.implemented.has(bit))
    }

    /// Whether the MDS has taken something back that we have not confirmed.
    pub(crate) fn is_revoked(&self) -> bool {
        self.cap.as_ref().is_some_and(|c| c.implemented.0 & !c.issued.0 != 0)
    }

    /// Whether size and times are known here without asking.
    pub(crate) fn knows_size(&self) -> bool {
        self.issued().has_any(cap::FILE_SHARED | cap::FILE_EXCL)
    }

    /// Whether all of `bits` may be used.
    pub(crate) fn may(&self, bits: u32) -> bool {
        self.issued().has(bits)
    }

    /// What open handles and buffered writes want.
    pub(crate) fn wanted(&self) -> Caps {
        let mut bits = 0;
        if self.readers > 0 {
            bits |= cap::FILE_SHARED | cap::FILE_RD | cap::FILE_CACHE;
        }
        if self.writers > 0 {
            bits |= cap::FILE_SHARED | cap::FILE_EXCL | cap::FILE_WR | cap::FILE_BUFFER;
        }
        if !self.dirty.is_empty() {
            bits |= cap::FILE_WR | cap::FILE_BUFFER;
        }
        // What attributes rest on comes with answers; wanting it would bring it back before what it was given up for.
        if bits != 0 { Caps(bits | cap::PIN) } else { Caps::NONE }
    }

    /// Bits that may not be given back yet: something under way rests on them.
    pub(crate) fn in_use(&self) -> Caps {
        let mut bits = cap::PIN;
        if self.reads > 0 {
            bits |= cap::FILE_RD;
        }
        if !self.dirty.is_empty() {
            bits |= cap::FILE_WR | cap::FILE_BUFFER;
        }
        // Who reads without pause gets new pages during each invalidation: after some rounds others come first, and the pages
        // are dropped once more afterwards.
        if self.pages_cached && !self.may_keep_pages() && self.invalidation_rounds < MAX_ROUNDS {
            bits |= KEEPS_PAGES | cap::FILE_RD | cap::FILE_WR;
        }
        Caps(bits)
    }

    /// Whether nothing local needs it: it may be forgotten.
    pub(crate) fn is_idle(&self) -> bool {
        self.lookups == 0
            && self.readers + self.writers + self.reads == 0
            && self.dirty.is_empty()
            && self.dirty_caps == Caps::NONE
            && self.flushing.is_empty()
            && self.waiters.is_empty()
            && self.invalidating.is_none()
    }

    /// Takes what a reply says. Fields that an exclusive cap of ours makes ours are kept where they are newer.
    pub(crate) fn update(&mut self, stat: &InodeStat) {
        let writing = self.is_ahead();
        if stat.version >= self.version || self.cap.is_none() {
            self.version = stat.version;
            self.set_owner(stat.mode, stat.uid, stat.gid);
            (self.nlink, self.rdev, self.btime) = (stat.nlink, stat.rdev, stat.btime);
            self.layout = stat.layout.with_ns(stat.pool_ns.clone());
            self.symlink.clone_from(&stat.symlink);
            self.change_attr = stat.change_attr;
            (self.nfiles, self.nsubdirs, self.rbytes) = (stat.nfiles, stat.nsubdirs, stat.rbytes);
        }
        if stat.xattr_version >= self.xattr_version
            && (!stat.xattrs.is_empty() || stat.xattr_version > self.xattr_version)
        {
            self.set_xattrs(&stat.xattrs, stat.xattr_version);
        }
        self.update_size(stat.size, stat.truncate_seq, stat.truncate_size, writing);
        self.update_times(stat.mtime, stat.atime, stat.ctime, stat.time_warp_seq, writing);
        self.set_max_size(stat.max_size);
    }

    /// Whether size and times may be newer here than at the MDS: we may write, or did and it does not know yet. A revocation
    /// ends that only when everything was flushed.
    fn is_ahead(&self) -> bool {
        let writes = cap::FILE_EXCL | cap::FILE_WR | cap::FILE_BUFFER;
        let may = self.cap.as_ref().is_some_and(|c| (c.issued | c.implemented).has_any(writes));
        may || self.dirty_caps != Caps::NONE || !self.dirty.is_empty() || !self.flushing.is_empty()
    }

    /// Takes what a message about the cap says of the file.
    pub(crate) fn update_file(&mut self, file: &CapFile) {
        let writing = self.is_ahead();
        self.update_size(file.size, file.truncate_seq, file.truncate_size, writing);
        self.update_times(file.mtime, file.atime, file.ctime, file.time_warp_seq, writing);
        self.set_max_size(file.max_size);
    }

    /// Takes mode and owner as the MDS has them, unless ours may be newer.
    pub(crate) fn set_owner(&mut self, mode: u32, uid: u32, gid: u32) {
        let held = self.cap.as_ref().map_or(Caps::NONE, |c| c.issued | c.implemented);
        let ours = self.flushing.values().fold(held | self.dirty_caps, |all, caps| all | *caps);
        if self.mode == 0 || !ours.has(cap::AUTH_EXCL) {
            (self.mode, self.uid, self.gid) = (mode, uid, gid);
        }
    }

    pub(crate) fn set_max_size(&mut self, max_size: u64) {
        if max_size != self.max_size {
            self.max_size = max_size;
            self.requested_max_size = 0;
        }
    }

    /// Encoded map of names to values; an empty blob is an empty map.
    pub(crate) fn set_xattrs(&mut self, blob: &[u8], version: u64) {
        let decoded = if blob.is_empty() { Ok(BTreeMap::new()) } else { Reader::new(blob).get() };
        // An MDS that sends nonsense here keeps its nonsense: the xattrs known before stay.
        if let Ok(xattrs) = decoded {
            self.xattrs = xattrs;
            self.xattr_version = version;
        }
    }

    fn update_size(&mut self, size: u64, truncate_seq: u32, truncate_size: u64, writing: bool) {
        let truncated = truncate_seq > self.truncate_seq;
        if truncated {
            self.truncate_seq = truncate_seq;
            if size < self.size {
                self.dirty.truncate(size);
            }
            // Data on their way were written before the truncation, which waited for them or cuts them off.
            self.size = size.max(self.dirty.waiting_end());
        } else if truncate_seq == self.truncate_seq {
            // While we may write, only we know of growth; otherwise the MDS knows best.
            self.size = if writing { self.size.max(size) } else { size };
        }
        if truncate_seq >= self.truncate_seq {
            self.truncate_size = truncate_size;
        }
    }

    fn update_times(&mut self, mtime: Timespec, atime: Timespec, ctime: Timespec, warp: u32, writing: bool) {
        self.ctime = if writing { self.ctime.max(ctime) } else { ctime };
        match warp.cmp(&self.time_warp_seq) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal if writing => {
                self.mtime = self.mtime.max(mtime);
                self.atime = self.atime.max(atime);
            }
            _ => {
                (self.mtime, self.atime, self.time_warp_seq) = (mtime, atime, warp);
            }
        }
    }

    /// Notes a write that ends at `end`.
    pub(crate) fn wrote(&mut self, end: u64, wall: Wall) {
        if end > self.size {
            self.size = end;
            self.growth = Growth::Untold;
        }
        self.mtime = self.mtime.max(Timespec::from(wall));
        self.changed(cap::FILE_WR, wall);
    }

    /// Changes mode, owner and times here, where that needs nobody; gives whether it could.
    pub(crate) fn set_here(&mut self, set: &SetAttr, wall: Wall) -> bool {
        let owner = set.mode.is_some() || set.uid.is_some() || set.gid.is_some();
        let times = set.mtime.is_some() || set.atime.is_some();
        let may = (!owner || self.may(cap::AUTH_EXCL)) && (!times || self.may(cap::FILE_EXCL));
        if !may || !self.is_file() || set.size.is_some() || set.ctime.is_some() {
            return false;
        }
        if owner {
            let mode = set.mode.map_or(self.mode, |m| self.mode & !0o7777 | m & 0o7777);
            (self.mode, self.uid, self.gid) =
                (mode, set.uid.unwrap_or(self.uid), set.gid.unwrap_or(self.gid));
            self.changed(cap::AUTH_EXCL, wall);
        }
        if times {
            self.mtime = set.mtime.map_or(self.mtime, Timespec::from);
            self.atime = set.atime.map_or(self.atime, Timespec::from);
            // Times that are set may lie before those that the MDS has: the count says which are newer.
            self.time_warp_seq += 1;
            self.changed(cap::FILE_EXCL, wall);
        }
        true
    }

    fn changed(&mut self, bit: u32, wall: Wall) {
        self.ctime = self.ctime.max(Timespec::from(wall));
        self.change_attr += 1;
        self.dirty_caps = self.dirty_caps | Caps(bit);
    }

    /// For local callers.
    pub(crate) fn attr(&self) -> Attr {
        let dir = self.is_dir();
        let size = if dir { self.nfiles + self.nsubdirs } else { self.size };
        Attr {
            ino: self.ino,
            mode: self.mode,
            // As other file systems count: a directory's own entry, its name, and each subdirectory's `..`.
            nlink: if dir { 2 + self.nsubdirs as u32 } else { self.nlink },
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            size,
            blocks: if dir { 1 } else { size.div_ceil(512) },
            blksize: self.layout.object_size.clamp(4096, 4 << 20),
            atime: self.atime.into(),
            mtime: self.mtime.into(),
            ctime: self.ctime.into(),
            btime: self.btime.into(),
        }
    }

    /// The file state for a message to the MDS.
    pub(crate) fn cap_file(&self) -> CapFile {
        CapFile {
            size: self.size,
            max_size: 0,
            truncate_size: self.truncate_size,
            truncate_seq: self.truncate_seq,
            mtime: self.mtime,
            atime: self.atime,
            ctime: self.ctime,
            layout: (&self.layout).into(),
            time_warp_seq: self.time_warp_seq,
        }
    }
}
