//! Clients hear that what they hold has moved: EXPORT from the one rank, IMPORT from the other. A large
//! subtree has very many such messages, and operations in it do not wait for all of them: directories, and
//! what is asked for, come first, the others in parts, and requests have their turn between these. What a
//! client has not been told of does not change before (`Cache::unannounced`).

use super::Rank;
use crate::rank::caps::send_import;
use crate::rank::env::Due;
use crate::rank::migration::Exported;
use fsfmt::InodeKey;
use msgs::{CapBody, CapPeer, ClientCaps, cap_op};
use stdx::mutants::is_active;

impl Rank {
    /// Tells clients of some of what has left.
    pub(super) fn tell_exported(&mut self) {
        let Self { env, sessions, migration, .. } = self;
        let count = migration.exported.len().min(migration.pace.at_once());
        for exported in migration.exported.drain(..count) {
            sessions.send(env, exported.client, 0, 0, export_message(&exported));
        }
    }

    /// Tells clients what has come that others wait for: directories, since anything in them may be next; and
    /// files with several names, which rank 0 may want to be sure of.
    pub(super) fn announce_first(&mut self) {
        let cache = &self.cache;
        let is_first = |ino: &InodeKey| {
            let inode = cache.inodes.get(ino);
            inode.is_none_or(|inode| inode.data.is_dir()) || cache.global.contains(ino)
        };
        let first: Vec<InodeKey> = cache.unannounced.keys().copied().filter(is_first).collect();
        first.into_iter().for_each(|ino| self.announce(ino));
        self.announce_more();
    }

    /// Tells clients some more of what has come.
    pub(super) fn announce_more(&mut self) {
        if is_active("mds_announces_directories_only") {
            return;
        }
        let count = self.migration.pace.at_once();
        let next: Vec<InodeKey> = self.cache.unannounced.keys().copied().take(count).collect();
        next.into_iter().for_each(|ino| self.announce(ino));
    }

    /// Tells clients of all that they have not heard of yet: operations in something that comes would wait
    /// for that.
    pub(super) fn tell_rest(&mut self) {
        while !self.migration.exported.is_empty() {
            self.tell_exported();
        }
        while let Some(ino) = self.cache.unannounced.keys().next().copied() {
            self.announce(ino);
        }
    }

    /// Tells clients about an inode that has come, if they do not know yet: one has sent something about it.
    pub(in crate::rank) fn announce_if_new(&mut self, ino: InodeKey) {
        if self.cache.unannounced.contains_key(&ino) {
            self.announce(ino);
        }
    }

    /// Tells clients that what they hold of an inode is here. Operations that wait for that go on.
    pub(in crate::rank) fn announce(&mut self, ino: InodeKey) {
        let Self { env, cache, sessions, reconnect, .. } = self;
        if let Some(caps) = cache.unannounced.remove(&ino) {
            for moved in caps {
                send_import(env, cache, sessions, ino, &moved);
                reconnect.keep_import(ino, moved);
            }
            env.due(Due::InodeLoaded(ino));
        }
        env.due(Due::Wake(ino));
    }
}

/// Tells a client which rank has its capability from now on. If that rank can't tell the capability's number
/// any more, the client drops it, and asks anew for what it needs.
fn export_message(exported: &Exported) -> ClientCaps {
    let nowhere = CapPeer { mds: -1, ..CapPeer::default() };
    let peer = exported.taken.map_or(nowhere, |taken| CapPeer {
        cap_id: taken.id,
        issue_seq: taken.seq,
        mseq: taken.migrate_seq,
        mds: exported.to.0,
        flags: 0,
    });
    ClientCaps {
        op: cap_op::EXPORT,
        ino: exported.ino.0,
        cap_id: exported.cap_id,
        migrate_seq: exported.migrate_seq,
        body: CapBody::Peer(peer),
        ..ClientCaps::default()
    }
}
