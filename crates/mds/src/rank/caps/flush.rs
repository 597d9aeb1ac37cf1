//! Flushes of attributes that clients changed under write and exclusive bits.

use super::{Caps, small_files};
use crate::cache::{Cache, Inode};
use crate::rank::commit::commit_inode;
use crate::rank::env::{Due, Env};
use crate::rank::popularity;
use crate::rank::sessions::Sessions;
use crate::rank::stat;
use crate::types::ClientId;
use fsfmt::{Ino, InodeData, InodeKey, Update};
use msgs::{ClientCaps, cap, cap_flag, cap_op, small_file};
use node::Level;
use std::collections::BTreeMap;
use wire::Reader;

impl Caps {
    /// Resumes flushes that waited for an inode, which was loaded or is gone.
    pub fn resume_flushes(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        ino: InodeKey,
    ) {
        for (client, tid, m) in self.late_flushes.remove(&ino).unwrap_or_default() {
            self.flush(env, cache, sessions, client, tid, &m);
        }
    }

    /// Carries out a flush of dirty attributes: acknowledged when durable, applied once. The client need not
    /// hold the bits any more: it gives them up with the flush, and repeats the flush after our restart. But
    /// only a client that the inode records can have held them, or one that has a directory for itself.
    pub(super) fn flush(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        client: ClientId,
        tid: u64,
        m: &ClientCaps,
    ) {
        let ino = Ino(m.ino).head();
        // The client repeats it to the rank that has the authority when that tells it so. One that is not to
        // be found may have got another name there.
        let is_elsewhere = match cache.inodes.contains_key(&ino) {
            true => cache.is_fixed(ino),
            false => !cache.subtrees.is_sole(),
        };
        if is_elsewhere {
            return;
        }
        let done = sessions.get(client).is_some_and(|s| s.has_flushed(tid));
        let inode = cache.inodes.get(&ino).filter(|_| !done);
        let mut takes_data = done && cache.unstored.contains(ino);
        let has_alone =
            |i: &Inode| i.data.is_dir() && i.caps.get(client).is_some_and(|c| c.held() & cap::FILE_EXCL != 0);
        if let Some(inode) = inode.filter(|i| i.is_recorded(client) || has_alone(i)) {
            let mut data = inode.data.clone();
            // Linux writes at a coarse time: others may have seen it between two of its writes.
            let is_alone = inode.caps.clients().all(|holder| holder == client);
            merge(&mut data, m, is_alone && inode.change.is_by(client), env.cfg().max_file_size);
            takes_data = small_files::take(env, cache, inode, client, &mut data, m);
            self.small_files += u64::from(takes_data);
            env.due(Due::Used(ino.ino, popularity::CHANGE));
            let more = vec![Update::Flushed { client: client.0, tid }];
            commit_inode(env, cache, sessions, Some(client), "flush", data, more);
        } else if inode.is_some() {
            sessions.report_once(env, client, Level::Warn, "flush_ignored", |who| {
                format!("{who} flushes {ino}, of which it held nothing that it could have changed")
            });
        }
        let ack = ClientCaps {
            op: cap_op::FLUSH_ACK,
            ino: m.ino,
            realm: realm_of(cache, ino),
            cap_id: m.cap_id,
            seq: m.seq,
            caps: m.caps,
            dirty: m.dirty,
            migrate_seq: m.migrate_seq,
            body: m.body,
            inline_version: if takes_data { small_file::IN_JOURNAL } else { 0 },
            ..ClientCaps::default()
        };
        let lsn = env.journal().last();
        // Somebody waits for it, in fsync for instance.
        if m.flags & cap_flag::SYNC != 0 {
            env.want_durable(lsn);
        }
        sessions.confirm(client, lsn, tid, ack);
    }

    /// Acknowledges a flush for a snapshot. There are none, so nothing is stored, but the client waits.
    pub(super) fn ack_snap_flush(
        &self,
        env: &mut Env,
        cache: &Cache,
        sessions: &mut Sessions,
        client: ClientId,
        tid: u64,
        m: &ClientCaps,
    ) {
        let ack = ClientCaps {
            op: cap_op::FLUSHSNAP_ACK,
            ino: m.ino,
            realm: realm_of(cache, Ino(m.ino).head()),
            cap_id: m.cap_id,
            dirty: m.dirty,
            snap_follows: m.snap_follows,
            ..ClientCaps::default()
        };
        let lsn = env.journal().durable();
        sessions.send(env, client, lsn, tid, ack);
    }
}

/// The number of an inode's realm; the root's if it is gone.
fn realm_of(cache: &Cache, inode: InodeKey) -> u64 {
    cache.inodes.get(&inode).map_or(Ino::ROOT, |inode| cache.realm_of(inode)).0
}

/// True if the file was truncated after the size that a flush tells. A truncation takes all bits back: a
/// client that repeats a flush from before must not undo it. Linux leaves `truncate_seq` out.
fn was_cut_since(data: &InodeData, m: &ClientCaps) -> bool {
    let seq = m.file().truncate_seq;
    seq != 0 && seq < data.truncate_seq
}

/// Merges what a client changed under exclusive or write caps; `is_its_own` if nobody else has seen or
/// changed the inode since it did. No file becomes larger than `largest`.
fn merge(data: &mut InodeData, m: &ClientCaps, is_its_own: bool, largest: u64) {
    let (file, dirty) = (m.file(), m.dirty.0);
    if dirty & cap::AUTH_EXCL != 0 {
        data.uid = m.uid;
        data.gid = m.gid;
        data.mode = data.mode & fsfmt::mode::FORMAT | m.mode & !fsfmt::mode::FORMAT;
        if m.btime.sec != 0 {
            data.btime = stat::utime(m.btime);
        }
    }
    if dirty & cap::XATTR_EXCL != 0 && !m.xattrs.is_empty() && m.xattr_version > data.xattr_version {
        // An undecodable blob changes nothing.
        if let Ok(xattrs) = Reader::new(&m.xattrs).get::<BTreeMap<Vec<u8>, Vec<u8>>>() {
            data.xattrs = xattrs.into();
            data.xattr_version = m.xattr_version;
        }
    }
    if dirty & (cap::FILE_WR | cap::FILE_EXCL) != 0 {
        let (mtime, atime) = (stat::utime(file.mtime), stat::utime(file.atime));
        let exact = dirty & cap::FILE_EXCL != 0;
        let is_later = mtime > data.mtime || mtime == data.mtime && is_its_own;
        data.mtime = match exact || is_later {
            true => mtime,
            // Clients see by the time that others have written, whose clocks may be behind.
            false => data.mtime.next(),
        };
        if exact {
            data.atime = atime;
            data.time_warp_seq = data.time_warp_seq.max(file.time_warp_seq);
            if data.is_dir() {
                let mtime = data.mtime;
                data.dirstat.edit(|stat| stat.mtime = mtime);
            }
        }
        // Nobody was let write further than this. Who has it alone also lets it grow (`ftruncate`) by itself.
        let size = file.size.min(if exact { largest } else { data.max_size_ever });
        if data.is_file() && size > data.size && !was_cut_since(data, m) {
            data.size = size;
            data.max_size_ever = data.max_size_ever.max(size);
            data.rstat.rbytes = size;
        }
    }
    data.ctime = data.ctime.max(stat::utime(file.ctime));
    data.change_attr = data.change_attr.max(m.change_attr) + 1;
}
