//! Ids and small types of the rank.

use fsfmt::{DentryKey, DirFrag, InodeKey};

stdx::ids! {
    /// A client, by its global id.
    pub struct ClientId(u64) = "client.{}";
    /// A running operation.
    pub struct OpId(u64) = "op{}";
    /// An object operation in flight.
    pub struct IoId(u64) = "io{}";
}

/// The sequence number of a journal event; 0 before the first.
pub type Lsn = u64;
/// The number of a journal object.
pub type Segment = u64;

/// Where a dentry is: the directory's fragment, and the key in it.
pub type Place = (DirFrag, DentryKey);

/// A positive errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub i32);

/// What an operation lacks before it can be decided.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Need {
    /// One entry of a fragment.
    Dentry(DirFrag, DentryKey),
    /// The entries of a fragment behind an omap key.
    Page(DirFrag, Vec<u8>),
    /// An inode, found through the inode index.
    Inode(InodeKey),
    /// Cap bits must be given back by all clients but one.
    Revoke {
        /// Of which inode.
        ino: InodeKey,
        /// Who may keep them.
        except: Option<ClientId>,
        /// Which bits.
        mask: u32,
    },
    /// The truncation of a file's objects must end.
    Truncated(InodeKey),
    /// A file lock must become free.
    Lock(InodeKey),
}

/// Why an operation is not decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// It lacks something.
    Need(Vec<Need>),
    /// It fails.
    Fail(Errno),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Fail(errno)
    }
}

impl From<Need> for Stop {
    fn from(need: Need) -> Self {
        Self::Need(vec![need])
    }
}
