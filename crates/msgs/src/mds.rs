//! Messages between clients and metadata servers (docs/protocol.md 6).

mod args;
mod cap_bits;
mod caps;
mod inode;
mod other;
mod reconnect;
mod reply;
mod request;
mod session;

pub use args::{
    ArgBytes, FileLockArgs, GetattrArgs, LookupInoArgs, MkdirArgs, MknodArgs, OpenArgs, ReaddirArgs,
    RenameArgs, RequestArgs, SetattrArgs, SetlayoutArgs, SetxattrArgs, lock_kind, lock_rule, rename_flag,
    setattr_mask,
};
pub use cap_bits::{Caps, cap};
pub use caps::{CapBody, CapFile, CapPeer, ClientCaps, cap_flag, cap_op};
pub use inode::{DirLayout, DirStat, FragTreeSplit, InodeStat, InodeStatCap, LeaseStat, QuotaInfo};
pub use other::{
    CapReleaseItem, ClientCapRelease, ClientLease, ClientMetrics, ClientQuota, ClientReclaim,
    ClientReclaimReply, ClientRequestForward, ClientSnap, lease_action, reclaim_flag, snap_op,
};
pub use reconnect::{CapReconnect, ClientReconnect, SnapRealmReconnect};
pub use reply::{
    ClientReply, CreatedInode, FileLock, ReaddirEntry, ReaddirReply, ReplyDentry, ReplyTrace, SnapPayload,
    SnapRealmInfo, readdir_flag,
};
pub use request::{ClientRequest, DentryRelease, FilePath, MdsOp, request_flag};
pub use session::{
    CLIENT_TIMEOUT, CLIENT_UUID, ClientSession, RefusedLock, SessionHead, cephfs_feature, session_flag,
    session_metadata, session_op,
};

/// The version of inline data that means "there is none" (CEPH_INLINE_NONE).
pub const INLINE_NONE: u64 = u64::MAX;

/// Data of small new files that go through a server's journal: Nacre's extension, in the fields of Ceph's
/// inline data. Only servers that announce it (`session_metadata::SMALL_FILES`) are sent such data, and no
/// server sends any.
pub mod small_file {
    /// The version of inline data in a FLUSH of a capability that has the whole content of a new file, and in
    /// its FLUSH_ACK if the server has taken it. In any other ack the client has to write the data itself.
    pub const IN_JOURNAL: u64 = 1;
    /// The most bytes of such a file.
    pub const MAX_BYTES: u64 = 16 << 10;
}
