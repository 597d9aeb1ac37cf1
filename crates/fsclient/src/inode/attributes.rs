//! An inode's attributes as last learnt, and the rules by which a message of the MDS may replace them.

use crate::api::{Attr, Ino, SetAttr};
use crate::dirty::Dirty;
use crate::mode;
use maps::FileLayout;
use msgs::{CapFile, ClientCaps, ClientQuota, InodeStat, QuotaInfo, cap};
use std::collections::BTreeMap;
use stdx::{ConstDefault, Rare, Shared, Wall};
use wire::{Reader, Timespec};

/// The attributes that may be newer here than at the MDS. Its messages then do not replace them.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewerHere {
    /// Mode and owner: `Ax` is held, or was used and the flush is not acknowledged.
    pub(super) owner: bool,
    /// Size and times: writing is allowed, or was and the MDS does not know everything yet. Of a directory:
    /// names in it have changed, and the MDS does not know all of them.
    pub(super) file: bool,
    /// The number of links: the last name has gone, and the MDS does not know.
    pub(super) links: bool,
}

/// Limits of the tree below a directory; 0 means none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Quota {
    pub(crate) max_bytes: u64,
    pub(crate) max_files: u64,
}

impl Quota {
    /// True if there is a limit.
    pub(crate) fn is_enabled(self) -> bool {
        self.max_bytes > 0 || self.max_files > 0
    }
}

impl From<&QuotaInfo> for Quota {
    fn from(info: &QuotaInfo) -> Self {
        let limit = |n: i64| u64::try_from(n).unwrap_or(0);
        Self { max_bytes: limit(info.max_bytes), max_files: limit(info.max_files) }
    }
}

/// The last truncation of a file: requests to OSDs carry it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Truncation {
    pub(crate) seq: u32,
    /// The size after it; all ones for none.
    pub(crate) size: u64,
}

/// What a directory has beyond that.
#[derive(Clone, PartialEq, Debug, Default)]
struct DirAttributes {
    nfiles: u64,
    nsubdirs: u64,
    rbytes: u64,
    rfiles: u64,
    rsubdirs: u64,
    rctime: Timespec,
    quota: Quota,
    /// The number of the function that orders its names.
    hash: u8,
}

impl ConstDefault for DirAttributes {
    fn const_default() -> &'static Self {
        const {
            &Self {
                nfiles: 0,
                nsubdirs: 0,
                rbytes: 0,
                rfiles: 0,
                rsubdirs: 0,
                rctime: Timespec { sec: 0, nsec: 0 },
                quota: Quota { max_bytes: 0, max_files: 0 },
                hash: 0,
            }
        }
    }
}

impl DirAttributes {
    fn update(&mut self, stat: &InodeStat, newer: NewerHere) {
        if !newer.file {
            (self.nfiles, self.nsubdirs) = (stat.nfiles, stat.nsubdirs);
        }
        (self.rbytes, self.rfiles, self.rsubdirs) = (stat.rbytes, stat.rfiles, stat.rsubdirs);
        self.rctime = stat.rctime;
        self.quota = Quota::from(&stat.quota);
        self.hash = stat.dir_layout.hash;
    }
}

/// Attributes. Invariant: `xattrs` is of `xattr_version`, and all file state is of `truncate_seq` or newer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    version: u64,
    mode: u32,
    uid: u32,
    gid: u32,
    nlink: u32,
    rdev: u32,
    size: u64,
    /// The size that the MDS knows.
    told_size: u64,
    truncate_size: u64,
    truncate_seq: u32,
    time_warp_seq: u32,
    mtime: Timespec,
    atime: Timespec,
    ctime: Timespec,
    btime: Timespec,
    change_attr: u64,
    layout: Shared<FileLayout>,
    symlink: Rare<Vec<u8>>,
    xattrs: Rare<BTreeMap<Vec<u8>, Vec<u8>>>,
    xattr_version: u64,
    /// Nothing for files.
    dir: Rare<DirAttributes>,
    /// Names here have changed since, in a way that the MDS has not described yet.
    is_outdated: bool,
    /// The time at which the snapshot was made that this is a state of.
    snap_btime: Timespec,
}

impl Attributes {
    /// True if an MDS lists this directory in the order of `rjenkins`, the default.
    pub(crate) fn hashes_by_rjenkins(&self) -> bool {
        const RJENKINS: u8 = 2;
        self.dir.hash == RJENKINS
    }

    pub(crate) fn mode(&self) -> u32 {
        self.mode
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.mode & mode::FORMAT == mode::DIR
    }

    pub(crate) fn is_file(&self) -> bool {
        self.mode & mode::FORMAT == mode::FILE
    }

    pub(crate) fn nlink(&self) -> u32 {
        self.nlink
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn mtime(&self) -> Timespec {
        self.mtime
    }

    pub(crate) fn truncation(&self) -> Truncation {
        Truncation { seq: self.truncate_seq, size: self.truncate_size }
    }

    pub(crate) fn layout(&self) -> &FileLayout {
        &self.layout
    }

    /// The target of a symlink, empty if it is not known.
    pub(crate) fn symlink(&self) -> &[u8] {
        &self.symlink
    }

    pub(crate) fn xattrs(&self) -> &BTreeMap<Vec<u8>, Vec<u8>> {
        &self.xattrs
    }

    /// An xattr is gone at the MDS.
    pub(super) fn forget_xattr(&mut self, name: &[u8]) {
        self.xattrs.edit(|xattrs| xattrs.remove(name));
    }

    /// Names here have changed since, in a way that the MDS has not described yet.
    pub(super) fn note_outdated(&mut self) {
        self.is_outdated = true;
    }

    /// True if the MDS is to be asked, whatever bits are held.
    pub(super) fn is_outdated(&self) -> bool {
        self.is_outdated
    }

    /// Files and directories in this directory.
    pub(crate) fn entries(&self) -> (u64, u64) {
        (self.dir.nfiles, self.dir.nsubdirs)
    }

    /// The size that the MDS knows, or is being told.
    pub(crate) fn told_size(&self) -> u64 {
        self.told_size
    }

    /// Limits of the tree below this directory.
    pub(crate) fn quota(&self) -> Quota {
        self.dir.quota
    }

    /// Files and directories below this directory; itself counts.
    pub(crate) fn recursive_counts(&self) -> (u64, u64) {
        (self.dir.rfiles, self.dir.rsubdirs)
    }

    /// Files and directories below this directory together.
    pub(crate) fn recursive_entries(&self) -> u64 {
        self.dir.rfiles.saturating_add(self.dir.rsubdirs)
    }

    /// Bytes of all files below this directory.
    pub(crate) fn rbytes(&self) -> u64 {
        self.dir.rbytes
    }

    /// The last change of anything below this directory.
    pub(crate) fn rctime(&self) -> Timespec {
        self.dir.rctime
    }

    /// The time at which its snapshot was made; zero for a live inode.
    pub(crate) fn snap_btime(&self) -> Timespec {
        self.snap_btime
    }

    /// Those of the directory of this directory's snapshots: owner, mode and times are the same.
    pub(super) fn of_snapdir(&self) -> Self {
        let mut emptied =
            Self { xattrs: Rare::default(), layout: Shared::default(), nlink: 1, ..self.clone() };
        emptied.dir.edit(|dir| {
            (dir.nfiles, dir.nsubdirs, dir.rbytes) = (0, 0, 0);
            dir.quota = Quota::default();
        });
        emptied
    }

    /// Takes a reply's description. `replaces`: no capability keeps an older version from being the newest.
    pub(super) fn update(&mut self, stat: &InodeStat, newer: NewerHere, replaces: bool, dirty: &mut Dirty) {
        if stat.version >= self.version || replaces {
            self.version = stat.version;
            self.is_outdated = false;
            self.set_owner(stat.mode, stat.uid, stat.gid, newer);
            self.set_links(stat.nlink, newer);
            (self.rdev, self.btime) = (stat.rdev, stat.btime);
            self.layout = stat.layout.with_ns(stat.pool_ns.clone()).into();
            self.symlink = stat.symlink.clone().into();
            self.change_attr = stat.change_attr;
            self.snap_btime = stat.snap_btime;
            if self.is_dir() {
                self.dir.edit(|dir| dir.update(stat, newer));
            }
        }
        if stat.xattr_version >= self.xattr_version
            && (!stat.xattrs.is_empty() || stat.xattr_version > self.xattr_version)
        {
            self.set_xattrs(&stat.xattrs, stat.xattr_version);
        }
        let truncation = Truncation { seq: stat.truncate_seq, size: stat.truncate_size };
        self.update_size(stat.size, truncation, newer.file, dirty);
        self.update_times([stat.mtime, stat.atime, stat.ctime], stat.time_warp_seq, newer.file);
    }

    /// Takes what the MDS tells of a tree with a quota.
    pub(super) fn take_quota(&mut self, msg: &ClientQuota) {
        self.dir.edit(|dir| {
            dir.quota = Quota::from(&msg.quota);
            (dir.rbytes, dir.rfiles, dir.rsubdirs) = (msg.rbytes, msg.rfiles, msg.rsubdirs);
            dir.rctime = msg.rctime;
        });
    }

    /// Shares the layout with the inode that had the same one last.
    pub(super) fn share_layout(&mut self, last: &mut Shared<FileLayout>) {
        self.layout.unite(last);
    }

    /// The MDS is told the size.
    pub(super) fn note_size_told(&mut self) {
        self.told_size = self.size;
    }

    /// Takes a grant's or revocation's description of everything but size and times.
    pub(super) fn update_granted(&mut self, msg: &ClientCaps, newer: NewerHere) {
        self.set_owner(msg.mode, msg.uid, msg.gid, newer);
        self.set_links(msg.nlink, newer);
        let layout = msg.file().layout;
        // The layout of an empty file may change; whoever is to write must know.
        if self.is_file() && layout.stripe_unit > 0 && msg.caps.has_any(cap::ANY_FILE_WR | cap::FILE_RD) {
            self.layout = layout.with_ns(msg.pool_ns.clone()).into();
        }
        if msg.xattr_version > self.xattr_version && !msg.xattrs.is_empty() {
            self.set_xattrs(&msg.xattrs, msg.xattr_version);
        }
        self.change_attr = self.change_attr.max(msg.change_attr);
        if self.is_dir() && !newer.file && (msg.nfiles | msg.nsubdirs) != 0 {
            self.dir.edit(|dir| (dir.nfiles, dir.nsubdirs) = (msg.nfiles, msg.nsubdirs));
        }
    }

    /// Takes the size and times of a message about the capability.
    pub(super) fn update_file(&mut self, file: &CapFile, newer: NewerHere, dirty: &mut Dirty) {
        let truncation = Truncation { seq: file.truncate_seq, size: file.truncate_size };
        self.update_size(file.size, truncation, newer.file, dirty);
        self.update_times([file.mtime, file.atime, file.ctime], file.time_warp_seq, newer.file);
    }

    /// The next times that an MDS tells count, whatever was set here.
    pub(super) fn forget_time_warps(&mut self) {
        self.time_warp_seq = 0;
    }

    fn set_owner(&mut self, mode: u32, uid: u32, gid: u32, newer: NewerHere) {
        if self.mode == 0 || !newer.owner {
            (self.mode, self.uid, self.gid) = (mode, uid, gid);
        }
    }

    fn set_links(&mut self, nlink: u32, newer: NewerHere) {
        if !newer.links {
            self.nlink = nlink;
        }
    }

    /// Takes an encoded map of names to values; an empty blob is an empty map.
    fn set_xattrs(&mut self, blob: &[u8], version: u64) {
        let decoded = if blob.is_empty() { Ok(BTreeMap::new()) } else { Reader::new(blob).get() };
        // A blob that cannot be decoded changes nothing.
        if let Ok(xattrs) = decoded {
            self.xattrs = xattrs.into();
            self.xattr_version = version;
        }
    }

    fn update_size(&mut self, size: u64, truncation: Truncation, newer_here: bool, dirty: &mut Dirty) {
        if truncation.seq > self.truncate_seq {
            self.truncate_seq = truncation.seq;
            if size < self.size {
                dirty.truncate(size);
            }
            // Data in flight were written before the truncation, which waited for them or cuts them off.
            self.size = size.max(dirty.waiting_end());
            self.told_size = size;
        } else if truncation.seq == self.truncate_seq {
            // While we may write, only we know of growth; otherwise the MDS knows best.
            self.size = if newer_here { self.size.max(size) } else { size };
            self.told_size = if newer_here { self.told_size.max(size) } else { size };
        }
        if truncation.seq >= self.truncate_seq {
            self.truncate_size = truncation.size;
        }
    }

    fn update_times(&mut self, [mtime, atime, ctime]: [Timespec; 3], warp: u32, newer_here: bool) {
        self.ctime = if newer_here { self.ctime.max(ctime) } else { ctime };
        match warp.cmp(&self.time_warp_seq) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal if newer_here => {
                self.mtime = self.mtime.max(mtime);
                self.atime = self.atime.max(atime);
            }
            _ => (self.mtime, self.atime, self.time_warp_seq) = (mtime, atime, warp),
        }
    }

    /// Notes a write that ends at `end`; if the file `is_shared`, others tell by the time that there was one.
    /// Returns true if the file has grown.
    pub(super) fn note_write(&mut self, end: u64, wall: Wall, is_shared: bool) -> bool {
        let grown = end > self.size;
        self.size = self.size.max(end);
        let least = if is_shared { self.mtime.next() } else { self.mtime };
        self.mtime = least.max(Timespec::from(wall));
        self.note_change(wall);
        grown
    }

    /// Notes that a name in this directory was given to an inode, or removed from it; `is_of_dir` if that is
    /// a directory.
    pub(super) fn note_name(&mut self, is_given: bool, is_of_dir: bool, wall: Wall) {
        self.dir.edit(|dir| {
            let count = if is_of_dir { &mut dir.nsubdirs } else { &mut dir.nfiles };
            *count = if is_given { *count + 1 } else { count.saturating_sub(1) };
        });
        self.mtime = self.mtime.max(Timespec::from(wall));
        self.note_change(wall);
    }

    /// Notes that the last name has gone.
    pub(super) fn note_unlinked(&mut self, wall: Wall) {
        self.nlink = 0;
        self.note_change(wall);
    }

    /// Replaces a modification time that lies ahead of the clock, since somebody has set it. Returns true if
    /// it did.
    pub(super) fn take_back_mtime(&mut self, wall: Wall) -> bool {
        let is_ahead = self.mtime.is_ahead_of(wall);
        if is_ahead {
            self.mtime = wall.into();
            self.time_warp_seq += 1;
        }
        is_ahead
    }

    /// Changes mode and owner here, without the MDS.
    pub(super) fn change_owner(&mut self, set: &SetAttr, wall: Wall) {
        self.mode = set
            .new_mode(self.mode)
            .map_or(self.mode, |m| self.mode & !mode::CHANGEABLE | m & mode::CHANGEABLE);
        self.uid = set.uid.unwrap_or(self.uid);
        self.gid = set.gid.unwrap_or(self.gid);
        self.note_change(wall);
    }

    /// Changes times here, without the MDS.
    pub(super) fn change_times(&mut self, set: &SetAttr, wall: Wall) {
        self.mtime = set.mtime.map_or(self.mtime, Timespec::from);
        self.atime = set.atime.map_or(self.atime, Timespec::from);
        // Times that are set may lie before those that the MDS has: the counter tells which are newer.
        self.time_warp_seq += 1;
        self.note_change(wall);
    }

    fn note_change(&mut self, wall: Wall) {
        self.ctime = self.ctime.max(Timespec::from(wall));
        self.change_attr += 1;
    }

    /// The attributes for local callers.
    pub(crate) fn attr(&self, ino: Ino) -> Attr {
        let dir = self.is_dir();
        let size = if dir { self.dir.nfiles + self.dir.nsubdirs } else { self.size };
        Attr {
            ino,
            mode: self.mode,
            // As other file systems count: a directory's own entry, its name, and each subdirectory's `..`.
            nlink: if dir && self.nlink > 0 { 2 + self.dir.nsubdirs as u32 } else { self.nlink },
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

    /// The part of a message to the MDS that describes the inode, with `max_size` as a request.
    pub(super) fn fill_cap_message(&self, message: ClientCaps, max_size: u64) -> ClientCaps {
        let file = CapFile {
            size: self.size,
            max_size,
            truncate_size: self.truncate_size,
            truncate_seq: self.truncate_seq,
            mtime: self.mtime,
            atime: self.atime,
            ctime: self.ctime,
            layout: (&*self.layout).into(),
            time_warp_seq: self.time_warp_seq,
        };
        ClientCaps {
            uid: self.uid,
            gid: self.gid,
            mode: self.mode,
            nlink: self.nlink,
            xattr_version: self.xattr_version,
            body: msgs::CapBody::File(file),
            inline_version: u64::MAX,
            btime: self.btime,
            change_attr: self.change_attr,
            ..message
        }
    }
}
