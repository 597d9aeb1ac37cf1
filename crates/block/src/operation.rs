//! Operations on whole images, and answers to requests.

use crate::format::ParentSpec;
use stdx::Bufs;

/// An operation on a whole image, which needs its lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Takes a snapshot.
    SnapCreate {
        /// Its name.
        name: String,
    },
    /// Removes a snapshot.
    SnapRemove {
        /// Its name.
        name: String,
    },
    /// Removes a snapshot that is in the trash and has no clones any more.
    SnapRemoveTrashed {
        /// Its id.
        id: u64,
    },
    /// Makes the image what it was at a snapshot.
    Rollback {
        /// The snapshot's name.
        name: String,
    },
    /// Changes the size.
    Resize {
        /// The new size in bytes.
        size: u64,
        /// It may become smaller, and lose data.
        allow_shrink: bool,
    },
    /// Makes a clone independent of its parent. If another client has the lock, it is asked to do that.
    /// Changes go on meanwhile.
    Flatten,
    /// Removes the image. Afterwards it can only be closed.
    Remove,
}

/// The answer to a request.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    /// Of reads.
    Data(Bufs),
    /// Of all others.
    Done,
    /// Of [`Operation::SnapRemove`]: the snapshot has clones, and will go with the last of them.
    KeptForClones(u32),
    /// Of [`Operation::Remove`], [`Operation::Flatten`] and [`Operation::SnapRemove`]: the image was the last
    /// clone of this snapshot, which is in the trash and can go by [`Operation::SnapRemoveTrashed`].
    LastClone(ParentSpec),
}
