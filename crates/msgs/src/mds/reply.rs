//! Answers to metadata operations (MClientReply).

use crate::{DirStat, InodeStat, LeaseStat, MdsOp};
use maps::{Epoch, IntervalSet, SnapId};
use std::collections::BTreeMap;
use wire::{Decode, DecodeError, Encode, Message, RawMsg, Reader, Sample, Writer, wire_structs};

/// Bits of [`ReaddirReply::flags`].
pub mod readdir_flag {
    /// These are the last entries of the fragment.
    pub const FRAG_END: u16 = 1;
    /// These are all entries of the fragment.
    pub const FRAG_COMPLETE: u16 = 1 << 8;
    /// Entries are in order of hash.
    pub const HASH_ORDER: u16 = 1 << 9;
    /// The next position is a hash.
    pub const OFFSET_HASH: u16 = 1 << 10;
}

/// The dentry of a trace: the directory, the name in it and the lease on it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ReplyDentry {
    /// The directory's inode.
    pub dir: InodeStat,
    /// Its fragment.
    pub dir_stat: DirStat,
    /// The name.
    pub name: Vec<u8>,
    /// The lease.
    pub lease: LeaseStat,
}

/// Dentry and inode in a reply. A dentry without a target is a name that does not exist.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ReplyTrace {
    /// Dentry.
    pub dentry: Option<Box<ReplyDentry>>,
    /// Inode.
    pub target: Option<Box<InodeStat>>,
}

wire_structs! {
    struct SnapRealmHead[plain] {
        ino: u64,
        created: SnapId,
        parent: u64,
        parent_since: SnapId,
        seq: SnapId,
        num_snaps: u32,
        num_prior_parent_snaps: u32,
    }

    /// One entry of a listing.
    pub struct ReaddirEntry[plain] {
        /// Name.
        pub name: Vec<u8>,
        /// Lease on the dentry.
        pub lease: LeaseStat,
        /// Inode.
        pub inode: InodeStat,
    }

    /// The inode of a CREATE and the numbers delegated with it, if the session has DELEG_INO.
    pub struct CreatedInode[v 1/1] {
        /// Its number.
        pub ino: u64,
        /// Numbers that the client may give to files that it creates asynchronously.
        pub delegated: IntervalSet,
    }

    /// The bulk argument of MKSNAP.
    pub struct SnapPayload[v 1/1] {
        /// What the maker says of the snapshot, for whoever reads it.
        pub metadata: BTreeMap<String, String>,
    }

    /// The extra part of GETFILELOCK and of a granted SETFILELOCK.
    #[derive(Copy, Eq)]
    pub struct FileLock[plain] {
        /// First byte.
        pub start: u64,
        /// Bytes; 0 to the end.
        pub length: u64,
        /// Client that holds it.
        pub client: u64,
        /// Owner within the client.
        pub owner: u64,
        /// Process.
        pub pid: u64,
        /// 1 shared, 2 exclusive, 4 unlocked.
        pub kind: u8,
    }
}

/// The extra part of READDIR and LSSNAP.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ReaddirReply {
    /// The fragment listed.
    pub dir: DirStat,
    /// [`readdir_flag`] bits.
    pub flags: u16,
    /// In order of hash, then name.
    pub entries: Vec<ReaddirEntry>,
}

impl Encode for ReaddirReply {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.dir);
        w.count(self.entries.len());
        w.put(&self.flags);
        self.entries.iter().for_each(|e| w.put(e));
    }
}

impl Decode for ReaddirReply {
    const MIN_SIZE: usize = 12;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let dir = r.get()?;
        let n: u32 = r.get()?;
        let flags = r.get()?;
        // Entries stop at the first that does not fit into what is there: a false count allocates nothing.
        let entries = (0..n).map(|_| r.get()).collect::<Result<_, _>>()?;
        Ok(Self { dir, flags, entries })
    }
}

/// One snapshot realm of a trace, which goes from an inode's realm up to the root.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SnapRealmInfo {
    /// Directory of the realm.
    pub ino: u64,
    /// Snapshot sequence when it was made.
    pub created: SnapId,
    /// Directory of the parent realm; 0 for none.
    pub parent: u64,
    /// Snapshot sequence since which that is the parent.
    pub parent_since: SnapId,
    /// Newest snapshot sequence that concerns it.
    pub seq: SnapId,
    /// Its own snapshots, descending.
    pub snaps: Vec<SnapId>,
    /// Snapshots of former parents, descending.
    pub prior_parent_snaps: Vec<SnapId>,
}

impl Encode for SnapRealmInfo {
    fn encode(&self, w: &mut Writer) {
        let count = |v: &[SnapId]| u32::try_from(v.len()).expect("a realm has few snapshots");
        w.put(&SnapRealmHead {
            ino: self.ino,
            created: self.created,
            parent: self.parent,
            parent_since: self.parent_since,
            seq: self.seq,
            num_snaps: count(&self.snaps),
            num_prior_parent_snaps: count(&self.prior_parent_snaps),
        });
        self.snaps.iter().chain(&self.prior_parent_snaps).for_each(|snap| w.put(snap));
    }
}

impl Decode for SnapRealmInfo {
    const MIN_SIZE: usize = 48;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let head: SnapRealmHead = r.get()?;
        let mut list = |n: u32| (0..n).map(|_| r.get()).collect::<Result<Vec<SnapId>, _>>();
        Ok(Self {
            ino: head.ino,
            created: head.created,
            parent: head.parent,
            parent_since: head.parent_since,
            seq: head.seq,
            snaps: list(head.num_snaps)?,
            prior_parent_snaps: list(head.num_prior_parent_snaps)?,
        })
    }
}

impl SnapRealmInfo {
    /// Encodes a trace: realms one after another, the innermost first.
    pub fn encode_trace(trace: &[Self]) -> Vec<u8> {
        let mut w = Writer::new();
        trace.iter().for_each(|realm| w.put(realm));
        w.into_vec()
    }

    /// Reads a trace to the end of `bytes`.
    pub fn decode_trace(bytes: &[u8]) -> Result<Vec<Self>, DecodeError> {
        let mut r = Reader::new(bytes);
        let mut out = Vec::new();
        while !r.is_empty() {
            out.push(r.get()?);
        }
        Ok(out)
    }
}

impl Sample for SnapRealmInfo {
    fn sample(rng: &mut stdx::Rng) -> Self {
        Self {
            ino: Sample::sample(rng),
            created: Sample::sample(rng),
            parent: Sample::sample(rng),
            parent_since: Sample::sample(rng),
            seq: Sample::sample(rng),
            snaps: Sample::sample(rng),
            prior_parent_snaps: Sample::sample(rng),
        }
    }
}

/// The answer to a [`crate::ClientRequest`]. Its message carries the request's tid.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ClientReply {
    /// As in the request.
    pub op: MdsOp,
    /// 0 or a negative errno.
    pub result: i32,
    /// Of the MDS.
    pub mdsmap_epoch: Epoch,
    /// True if the change is durable; an unsafe answer is followed by a safe one.
    pub safe: bool,
    /// Dentry and inode.
    pub trace: ReplyTrace,
    /// Depends on `op`: encoded [`ReaddirReply`], [`CreatedInode`] or a bare u64, [`FileLock`], …
    pub extra: Vec<u8>,
    /// Realms of the inodes that come with caps, the innermost first.
    pub snap_trace: Vec<SnapRealmInfo>,
}

impl Message for ClientReply {
    const KIND: u16 = 26;
    const NAME: &'static str = "client_reply";
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode_parts(&self, raw: &mut RawMsg) {
        let mut w = Writer::new();
        w.put(&self.op);
        w.put(&self.result);
        w.put(&self.mdsmap_epoch);
        w.put(&self.safe);
        w.put(&self.trace.dentry.is_some());
        w.put(&self.trace.target.is_some());
        w.sized(|w| {
            if let Some(dentry) = &self.trace.dentry {
                w.put(&dentry.dir);
                w.put(&dentry.dir_stat);
                w.put(&dentry.name);
                w.put(&dentry.lease);
            }
            if let Some(target) = &self.trace.target {
                w.put(target);
            }
        });
        w.blob(&self.extra);
        w.blob(&SnapRealmInfo::encode_trace(&self.snap_trace));
        raw.front = w.into_vec();
    }

    fn decode_parts(raw: &RawMsg) -> Result<Self, DecodeError> {
        let r = &mut Reader::new(&raw.front);
        let (op, result, mdsmap_epoch, safe) = (r.get()?, r.get()?, r.get()?, r.get()?);
        let (has_dentry, has_target): (bool, bool) = r.get()?;
        let t = &mut r.sub()?;
        let mut trace = ReplyTrace::default();
        if has_dentry {
            let (dir, dir_stat, name, lease) = (t.get()?, t.get()?, t.get()?, t.get()?);
            trace.dentry = Some(Box::new(ReplyDentry { dir, dir_stat, name, lease }));
        }
        if has_target {
            trace.target = Some(t.get()?);
        }
        let extra = r.get()?;
        let snap_trace = SnapRealmInfo::decode_trace(r.blob()?)?;
        Ok(Self { op, result, mdsmap_epoch, safe, trace, extra, snap_trace })
    }
}

impl Sample for ReplyDentry {
    fn sample(rng: &mut stdx::Rng) -> Self {
        Self {
            dir: Sample::sample(rng),
            dir_stat: Sample::sample(rng),
            name: Sample::sample(rng),
            lease: Sample::sample(rng),
        }
    }
}

impl Sample for ClientReply {
    fn sample(rng: &mut stdx::Rng) -> Self {
        Self {
            op: Sample::sample(rng),
            result: Sample::sample(rng),
            mdsmap_epoch: Sample::sample(rng),
            safe: Sample::sample(rng),
            trace: ReplyTrace { dentry: Sample::sample(rng), target: Sample::sample(rng) },
            extra: Sample::sample(rng),
            snap_trace: Sample::sample(rng),
        }
    }
}
