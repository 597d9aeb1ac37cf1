//! Promises: what an asynchronous change of a name has told its caller before an MDS has carried it out
//! (docs/adr/0017-asynchronous-creates.md).

use crate::key::InodeKey;
use msgs::{ClientRequest, FilePath};

/// A promised change of a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Promise {
    /// A name was given to a new file or directory.
    Create {
        /// Directory and name.
        name: (InodeKey, Vec<u8>),
        /// The file or directory.
        inode: InodeKey,
    },
    /// A name was removed: the only one of a file, or that of an empty directory.
    Remove {
        /// Directory and name.
        name: (InodeKey, Vec<u8>),
        /// The inode that had the name.
        inode: InodeKey,
    },
}

impl Promise {
    /// The name that changes.
    pub(crate) fn name(&self) -> (InodeKey, &[u8]) {
        let (Self::Create { name, .. } | Self::Remove { name, .. }) = self;
        (name.0, &name.1)
    }

    /// The inode that gets or loses the name.
    pub(crate) fn inode(&self) -> InodeKey {
        let (Self::Create { inode, .. } | Self::Remove { inode, .. }) = self;
        *inode
    }

    /// True if the answer to a request depends on it: the request is about the same name, the inode, or the
    /// directory as a whole. An MDS need not carry requests out in their order.
    pub(crate) fn concerns(&self, request: &ClientRequest) -> bool {
        let (dir, name) = self.name();
        let is_about = |path: &FilePath| {
            let is_in_dir = path.ino == dir.ino() && (path.path.is_empty() || path.path == name);
            is_in_dir || path.ino == self.inode().ino()
        };
        is_about(&request.path) || is_about(&request.path2)
    }
}
