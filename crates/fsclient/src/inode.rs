//! What the client knows of an inode, and by which right: attributes, the capability, open counts, buffered writes.

use crate::api::{Attr, Ino};
use crate::dirty::Dirty;
use maps::FileLayout;
use msgs::{CapFile, Caps, InodeStat, cap};
use std::collections::{BTreeMap, BTreeSet};
use stdx::Wall;
use wire::{Reader, Timespec};

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
    /// `Fw` where size or times changed here and the MDS does not know.
    pub(crate) dirty_caps: Caps,
    /// Flushes of caps on their way: tid to what.
    pub(crate) flushing: BTreeMap<u64, Caps>,
    /// Somebody waits for everything to be durable.
    pub(crate) sync_wanted: bool,
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
    /// Directories: counts losses of `Fs`; what was learnt under an older count is not believed.
    pub(crate) shared_gen: u64,
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
        self.cap.as_ref().map_or(Caps::NONE, |c| c.issued)
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
        if bits != 0 {
            Caps(bits | cap::PIN | cap::AUTH_SHARED | cap::LINK_SHARED | cap::XATTR_SHARED)
        } else {
            Caps::NONE
        }
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
        if self.pages_cached {
            bits |= cap::FILE_CACHE;
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
            (self.mode, self.uid, self.gid) = (stat.mode, stat.uid, stat.gid);
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
            self.size = size.max(self.dirty.end());
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
        self.size = self.size.max(end);
        self.mtime = self.mtime.max(Timespec::from(wall));
        self.ctime = self.ctime.max(Timespec::from(wall));
        self.change_attr += 1;
        self.dirty_caps = self.dirty_caps | Caps(cap::FILE_WR);
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
