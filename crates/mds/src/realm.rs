//! Snapshot realms: the sets of snapshots that cover inodes. A realm begins at a directory that has, or had,
//! snapshots of its own or a quota, or that came from another realm; an inode belongs to the nearest realm
//! above it. The files with several names are in a realm that all snapshots cover ([`Realm::GLOBAL`]): a
//! superset costs clones that nobody reads, and is right wherever their names are.

use crate::cache::{Cache, Inode};
use crate::types::SnapContext;
use fsfmt::{Ino, Realm};
use maps::SnapId;
use msgs::SnapRealmInfo;

/// The sequence number of a realm without snapshots: the first id of a snapshot is greater.
const EMPTY_SEQ: SnapId = SnapId(1);

impl Cache {
    /// The realm that an inode belongs to.
    pub fn realm_of(&self, inode: &Inode) -> Ino {
        if !self.may_have_realms {
            return Ino::ROOT;
        }
        if inode.data.realm != Ino(0) {
            // Without snapshots that realm is like the root's. The first one tells clients what is in it.
            return if self.snaps.last() == SnapId(0) { Ino::ROOT } else { inode.data.realm };
        }
        let nearest = self.upwards(inode).find(|inode| inode.data.own_realm.is_some());
        nearest.map_or(Ino::ROOT, |inode| inode.data.ino)
    }

    /// The realm around one that is not the root's.
    pub fn parent_realm(&self, realm: Ino) -> Option<Ino> {
        if realm == Ino::ROOT || realm == Realm::GLOBAL {
            return None;
        }
        let (dir, _) = self.inodes.get(&realm.head())?.place.as_ref()?;
        if dir.ino.is_base() && dir.ino != Ino::ROOT {
            // What has been removed is in no later snapshot.
            return None;
        }
        self.inodes.get(&dir.inode()).map(|dir| self.realm_of(dir))
    }

    /// True if the description of realm `inner` includes `realm`: it is the same, or one around it.
    pub fn is_realm_around(&self, realm: Ino, inner: Ino) -> bool {
        let mut at = Some(inner);
        while let Some(one) = at {
            if one == realm {
                return true;
            }
            at = self.parent_realm(one);
        }
        false
    }

    /// The snapshots of a realm.
    pub fn snap_context(&self, realm: Ino) -> SnapContext {
        if realm == Realm::GLOBAL {
            let snaps = self.snaps.all_live().rev().collect();
            return SnapContext { seq: self.snaps.last().max(EMPTY_SEQ), snaps };
        }
        let Some(own) = self.own_realm(realm) else {
            return SnapContext { seq: EMPTY_SEQ, snaps: Vec::new() };
        };
        let mut snaps: Vec<SnapId> = own.snaps.keys().copied().collect();
        snaps.extend(own.past_parent_snaps.iter().filter(|snap| self.snaps.live(**snap).is_some()));
        let mut seq = own.seq.max(EMPTY_SEQ);
        if let Some(parent) = self.parent_realm(realm) {
            let above = self.snap_context(parent);
            seq = seq.max(above.seq);
            snaps.extend(above.snaps.into_iter().filter(|snap| *snap >= own.parent_since));
        }
        snaps.sort_unstable_by(|a, b| b.cmp(a));
        snaps.dedup();
        SnapContext { seq, snaps }
    }

    /// The realm that begins at an inode.
    pub fn own_realm(&self, ino: Ino) -> Option<&Realm> {
        self.inodes.get(&ino.head())?.data.own_realm.as_deref()
    }

    /// A realm for a client, with those around it, the innermost first.
    pub fn realm_trace(&self, realm: Ino) -> Vec<SnapRealmInfo> {
        let mut trace = Vec::new();
        let mut at = Some(realm);
        while let Some(realm) = at {
            at = self.parent_realm(realm);
            trace.push(self.realm_info(realm, at.unwrap_or(Ino(0))));
        }
        trace
    }

    fn realm_info(&self, realm: Ino, parent: Ino) -> SnapRealmInfo {
        if realm == Realm::GLOBAL {
            let SnapContext { seq, snaps } = self.snap_context(realm);
            let created = self.snaps.last();
            return SnapRealmInfo { ino: realm.0, created, seq, snaps, ..empty(realm) };
        }
        let Some(own) = self.own_realm(realm) else { return empty(realm) };
        let past = own.past_parent_snaps.iter().rev().copied();
        SnapRealmInfo {
            ino: realm.0,
            created: own.created,
            parent: parent.0,
            parent_since: own.parent_since,
            seq: own.seq.max(EMPTY_SEQ),
            snaps: own.snaps.keys().rev().copied().collect(),
            prior_parent_snaps: past.filter(|snap| self.snaps.live(*snap).is_some()).collect(),
        }
    }
}

fn empty(realm: Ino) -> SnapRealmInfo {
    SnapRealmInfo {
        ino: realm.0,
        created: SnapId(0),
        parent: 0,
        parent_since: SnapId(0),
        seq: EMPTY_SEQ,
        snaps: Vec::new(),
        prior_parent_snaps: Vec::new(),
    }
}
