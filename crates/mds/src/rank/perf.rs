//! Performance counters: what this rank has done since it started, and what there is, under the names and
//! with the meaning that Ceph's metadata servers give them.

use super::Rank;
use super::sessions::{SessionState, Sessions};
use decl::perf::{Group, Groups};
use msgs::MdsOp;

/// The times of requests, by what they ask for.
const KINDS: [(MdsOp, &str); 29] = [
    (MdsOp::LOOKUPHASH, "req_lookuphash_latency"),
    (MdsOp::LOOKUPINO, "req_lookupino_latency"),
    (MdsOp::LOOKUPPARENT, "req_lookupparent_latency"),
    (MdsOp::LOOKUPNAME, "req_lookupname_latency"),
    (MdsOp::LOOKUP, "req_lookup_latency"),
    (MdsOp::LOOKUPSNAP, "req_lookupsnap_latency"),
    (MdsOp::GETATTR, "req_getattr_latency"),
    (MdsOp::SETATTR, "req_setattr_latency"),
    (MdsOp::SETLAYOUT, "req_setlayout_latency"),
    (MdsOp::SETDIRLAYOUT, "req_setdirlayout_latency"),
    (MdsOp::GETVXATTR, "req_getvxattr_latency"),
    (MdsOp::SETXATTR, "req_setxattr_latency"),
    (MdsOp::RMXATTR, "req_rmxattr_latency"),
    (MdsOp::READDIR, "req_readdir_latency"),
    (MdsOp::SETFILELOCK, "req_setfilelock_latency"),
    (MdsOp::GETFILELOCK, "req_getfilelock_latency"),
    (MdsOp::CREATE, "req_create_latency"),
    (MdsOp::OPEN, "req_open_latency"),
    (MdsOp::MKNOD, "req_mknod_latency"),
    (MdsOp::LINK, "req_link_latency"),
    (MdsOp::UNLINK, "req_unlink_latency"),
    (MdsOp::RMDIR, "req_rmdir_latency"),
    (MdsOp::RENAME, "req_rename_latency"),
    (MdsOp::MKDIR, "req_mkdir_latency"),
    (MdsOp::SYMLINK, "req_symlink_latency"),
    (MdsOp::LSSNAP, "req_lssnap_latency"),
    (MdsOp::MKSNAP, "req_mksnap_latency"),
    (MdsOp::RMSNAP, "req_rmsnap_latency"),
    (MdsOp::RENAMESNAP, "req_renamesnap_latency"),
];

impl Rank {
    /// Lists all counters.
    pub fn put_perf(&self, out: &mut Groups) {
        let (stats, replies) = (self.cache.stats(), self.sessions.replies());
        let counters = self.ops.counters();
        let (exported, imported) = self.migration.moved();
        out.group("mds")
            .count("request", counters.requests(), "Requests of clients")
            .count("reply", replies.all().count, "Answers to them")
            .mean("reply_latency", replies.all(), "Time until requests are answered")
            .count("forward", counters.forwards(), "Requests sent on to another rank")
            .gauge("inodes", stats.inodes as u64, "Inodes in the cache")
            .gauge("caps", stats.capabilities as u64, "Capabilities that clients hold")
            .gauge("subtrees", self.cache.subtrees.count_own() as u64, "Subtrees of this rank")
            .count("exported", exported.subtrees, "Subtrees handed over to other ranks")
            .count("exported_inodes", exported.inodes, "Inodes handed over to other ranks")
            .count("imported", imported.subtrees, "Subtrees taken over from other ranks")
            .count("imported_inodes", imported.inodes, "Inodes taken over from other ranks");
        self.put_server(out.group("mds_server"));
        out.group("mds_mem")
            .gauge("ino", stats.inodes as u64, "Inodes in the cache")
            .gauge("dir", stats.dirs as u64, "Directories of which something is in the cache")
            .gauge("dn", stats.entries as u64, "Entries in the cache")
            .gauge("cap", stats.capabilities as u64, "Capabilities that clients hold");
        self.env.journal().put_perf(out.group("mds_log"));
        put_sessions(&self.sessions, out.group("mds_sessions"));
    }

    fn put_server(&self, group: &mut Group) {
        self.ops.counters().put_perf(group);
        group.count(
            "small_files_journaled",
            self.caps.small_files(),
            "Small files whose data came with a flush",
        );
        for (op, name) in KINDS {
            group.mean(name, self.sessions.replies().of(op), "Time until such requests are answered");
        }
    }
}

fn put_sessions(sessions: &Sessions, group: &mut Group) {
    let count = |state| sessions.iter().filter(|(_, session)| session.state() == state).count() as u64;
    let (added, removed) = sessions.turnover();
    group
        .gauge("session_count", sessions.iter().count() as u64, "Sessions")
        .gauge("sessions_open", count(SessionState::Open), "Sessions whose clients are heard of")
        .gauge("sessions_stale", count(SessionState::Stale), "Sessions whose clients are silent")
        .count("session_add", added, "Sessions begun")
        .count("session_remove", removed, "Sessions ended");
}
