//! Ids and small types that all of the metadata server shares.

use fsfmt::{DentryKey, DirFrag, InodeKey, TxnId};
use maps::MdsRank;
use wire::Errno;

stdx::ids! {
    /// A client, by its global id.
    pub struct ClientId(u64) = "client.{}";
    /// A running operation.
    pub struct OpId(u64) = "op{}";
    /// An object operation in flight.
    pub struct IoId(u64) = "io{}";
}

/// Another rank of the file system, as a message of it comes in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RankPeer {
    /// Number of the rank.
    pub rank: MdsRank,
    /// Number of servers that have held it.
    pub incarnation: i32,
}

/// The sequence number of a journal event; 0 before the first.
pub type Lsn = u64;
/// The number of a journal object.
pub type Segment = u64;

/// Place of a dentry: the directory's fragment, and the key in it.
pub type Place = (DirFrag, DentryKey);

/// A holder of a capability: a client, or a rank that keeps a replica of the inode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Holder {
    /// A client's session.
    Client(ClientId),
    /// A rank; there is none yet that keeps replicas.
    Rank(MdsRank),
}

impl Holder {
    /// The client, if it is one.
    pub fn client(self) -> Option<ClientId> {
        match self {
            Self::Client(client) => Some(client),
            Self::Rank(_) => None,
        }
    }
}

impl From<ClientId> for Holder {
    fn from(client: ClientId) -> Self {
        Self::Client(client)
    }
}

impl From<MdsRank> for Holder {
    fn from(rank: MdsRank) -> Self {
        Self::Rank(rank)
    }
}

impl From<&ClientId> for Holder {
    fn from(client: &ClientId) -> Self {
        Self::Client(*client)
    }
}

/// Something that an operation lacks for its decision.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Need {
    /// One entry of a fragment.
    Dentry(DirFrag, DentryKey),
    /// The entries of a fragment after an omap key.
    Page(DirFrag, Vec<u8>),
    /// An inode, found through the inode index.
    Inode(InodeKey),
    /// All holders but one must give up cap bits of an inode.
    Revoke {
        /// The inode concerned.
        ino: InodeKey,
        /// The holder that may keep them.
        except: Option<Holder>,
        /// Bits to be given back.
        mask: u32,
    },
    /// The truncation of a file's objects must end.
    Truncated(InodeKey),
    /// A file lock must become free.
    Lock(InodeKey),
    /// Another rank has the authority over a fragment: a replica of it, or the client asks that rank. Never
    /// with one rank, as the next two are.
    Remote(MdsRank, DirFrag),
    /// The migration of a fragment must be decided.
    Thaw(DirFrag),
    /// A transaction of several ranks that changes what is needed must be decided.
    Prepared(TxnId),
}

/// The reason why an operation is not decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// It lacks something.
    Need(Vec<Need>),
    /// The operation fails.
    Fail(Errno),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Fail(errno)
    }
}

impl From<TxnId> for Need {
    fn from(txn: TxnId) -> Self {
        Self::Prepared(txn)
    }
}

impl From<Need> for Stop {
    fn from(need: Need) -> Self {
        Self::Need(vec![need])
    }
}
