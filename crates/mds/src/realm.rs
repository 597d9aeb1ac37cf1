//! Snapshot realms: the sets of snapshots that cover inodes. A realm begins at a directory that has, or had,
//! snapshots of its own; an inode belongs to the nearest realm above it. There are no snapshots yet, so all
//! inodes are in the root's realm, which is empty.

use crate::cache::{Cache, Inode};
use fsfmt::Ino;
use maps::SnapId;
use msgs::SnapRealmInfo;

/// The sequence number of a realm without snapshots: the first id of a snapshot is greater.
const EMPTY_SEQ: SnapId = SnapId(1);

/// The snapshots that a write to an inode must preserve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapContext {
    /// The newest snapshot that changed the realm.
    pub seq: SnapId,
    /// The snapshots, newest first.
    pub snaps: Vec<SnapId>,
}

impl Cache {
    /// The realm that an inode belongs to.
    pub fn realm_of(&self, inode: &Inode) -> Ino {
        if !self.may_have_realms {
            return Ino::ROOT;
        }
        if inode.data.realm != Ino(0) {
            return inode.data.realm;
        }
        let mut at = Some(inode);
        while let Some(inode) = at {
            if inode.data.own_realm.is_some() {
                return inode.data.ino;
            }
            // Ancestors of cached inodes are cached.
            at = inode.place.as_ref().and_then(|(dir, _)| self.inodes.get(&dir.inode()));
        }
        Ino::ROOT
    }

    /// The snapshots of a realm.
    pub fn snap_context(&self, realm: Ino) -> SnapContext {
        match self.inodes.get(&realm.head()).and_then(|inode| inode.data.own_realm.as_deref()) {
            Some(own) => {
                SnapContext { seq: own.seq.max(EMPTY_SEQ), snaps: own.snaps.keys().rev().copied().collect() }
            }
            None => SnapContext { seq: EMPTY_SEQ, snaps: Vec::new() },
        }
    }

    /// A realm for a client.
    pub fn realm_trace(&self, realm: Ino) -> Vec<SnapRealmInfo> {
        let SnapContext { seq, snaps } = self.snap_context(realm);
        vec![SnapRealmInfo {
            ino: realm.0,
            created: SnapId(0),
            parent: 0,
            parent_since: SnapId(0),
            seq,
            snaps,
            prior_parent_snaps: Vec::new(),
        }]
    }
}
