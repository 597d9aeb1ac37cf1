//! Messages of clients about capabilities: updates, flushes, releases.

use super::{Rank, stat};
use crate::cap::STRONG;
use crate::session::SessionState;
use crate::types::{ClientId, Need};
use fsfmt::{ClientRange, Dentry, Ino, InodeData, InodeKey, Link, Update};
use msgs::{CapReleaseItem, ClientCapRelease, ClientCaps, DentryRelease, cap, cap_op};
use node::Level;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::Reader;

/// How long a client may keep write and exclusive bits that it does not want: Ceph's clients give them back after
/// `client_caps_release_delay`, 5 s, themselves.
const UNWANTED_FOR: Duration = Duration::from_secs(5);

impl Rank {
    /// A cap message.
    pub(super) fn client_caps(&mut self, client: ClientId, tid: u64, m: &ClientCaps) {
        let ino = Ino(m.ino).head();
        if !self.sessions.map.contains_key(&client) {
            return;
        }
        self.trim_flushed(client, m.oldest_flush_tid);
        match m.op {
            cap_op::FLUSHSNAP => return self.ack_snap_flush(client, tid, m),
            cap_op::UPDATE | cap_op::FLUSH | cap_op::DROP | cap_op::RELEASE => {}
            _ => return,
        }
        if m.dirty.0 != 0 {
            if !self.cache.inodes.contains_key(&ino) {
                // It comes again after a restart of ours, from a client that holds nothing of the inode any more.
                self.late_flushes.entry(ino).or_default().push((client, tid, m.clone()));
                return self.load(Need::Inode(ino), None, None);
            }
            self.flush(client, tid, m);
        }
        if self.cap_of(ino, client, m.cap_id).is_none() {
            return;
        }
        let wanted = if self.may_write(ino, client) { m.wanted.0 } else { m.wanted.0 & !STRONG };
        let Some(inode) = self.cache.inodes.get_mut(&ino) else { return };
        let Some(c) = inode.caps.get_mut(&client) else { return };
        c.confirm(m.seq, m.caps.0 | cap::PIN);
        if m.issue_seq == c.issue_seq {
            c.wanted = wanted;
        } else {
            // It may not know of what it was given since: believe only that it wants more.
            c.wanted |= wanted;
        }
        if c.wanted & STRONG == 0 && c.pending & STRONG != 0 {
            self.unwanted.push_back((self.now.mono, ino, client));
        }
        let asks = m.file().max_size;
        if inode.data.is_file() && wanted & STRONG != 0 {
            self.grow_range(ino, client, asks);
        }
        self.strike_record(ino, client);
        self.caps_changed(ino);
    }

    /// A client that neither holds nor wants write and exclusive bits, nor a lock, is not recorded in the inode any more.
    fn strike_record(&mut self, ino: InodeKey, client: ClientId) {
        let Some(inode) = self.cache.inodes.get(&ino) else { return };
        let holds = inode.caps.get(&client).is_some_and(|c| (c.held() | c.wanted) & STRONG != 0);
        let locks = inode.locks.as_ref().is_some_and(|l| l.has_client(client));
        if !inode.data.ranges.contains_key(&client.0) || holds || locks {
            return;
        }
        let mut data = inode.data.clone();
        data.ranges.remove(&client.0);
        self.put_inode("strike record", data, Vec::new());
    }

    /// Takes back write and exclusive bits that nobody has wanted for a while, so that few files are kept for a client
    /// that dies. It may keep what it has cached.
    pub(super) fn take_unwanted(&mut self) {
        let now = self.now.mono;
        while let Some((since, ino, client)) = self.unwanted.front().copied()
            && now.since(since) >= UNWANTED_FOR
        {
            self.unwanted.pop_front();
            let Some(inode) = self.cache.inodes.get_mut(&ino) else { continue };
            let grantable = inode.grantable(client);
            let Some(c) = inode.caps.get_mut(&client).filter(|c| !c.is_presumed) else { continue };
            if c.wanted & STRONG != 0 || c.pending & STRONG == 0 {
                continue;
            }
            c.give(c.pending & !STRONG | grantable & (cap::FILE_CACHE | cap::FILE_RD), now);
            self.send_cap(cap_op::REVOKE, ino, client);
        }
    }

    /// An inode was loaded, or is gone: flushes of it that wait.
    pub(super) fn settle_flushes(&mut self, ino: InodeKey) {
        for (client, tid, m) in self.late_flushes.remove(&ino).unwrap_or_default() {
            self.flush(client, tid, &m);
        }
    }

    fn cap_of(&self, ino: InodeKey, client: ClientId, id: u64) -> Option<&crate::cap::Cap> {
        self.cache.inodes.get(&ino)?.caps.get(&client).filter(|c| c.id == id)
    }

    /// Lets a writer write further, where it asks for more than it has or has nothing yet.
    fn grow_range(&mut self, ino: InodeKey, client: ClientId, asks: u64) {
        let inode = &self.cache.inodes[&ino];
        let data = &inode.data;
        let has = data.ranges.get(&client.0).map_or(0, |r| r.max_size);
        let max_size = self.new_max_size(data.size, asks);
        if (has == 0 || asks > has) && max_size > has {
            let mut next = data.clone();
            next.ranges.insert(client.0, ClientRange { max_size, follows: 0 });
            next.max_size_ever = next.max_size_ever.max(max_size);
            let tells = has > 0 || inode.caps.get(&client).is_some_and(|c| c.pending & cap::FILE_WR != 0);
            self.put_inode("grow range", next, Vec::new());
            if tells {
                self.tell_range(ino, client);
            }
        } else if asks > 0 && has > 0 {
            // It has it and asks: a former life of ours gave it and died before it said so.
            self.tell_range(ino, client);
        }
    }

    fn tell_range(&mut self, ino: InodeKey, client: ClientId) {
        let now = self.now.mono;
        if let Some(c) = self.cache.inodes.get_mut(&ino).and_then(|i| i.caps.get_mut(&client)) {
            c.give(c.pending, now);
        }
        self.send_cap(cap_op::GRANT, ino, client);
    }

    /// Journals an inode that changed without moving.
    pub(super) fn put_inode(&mut self, what: &str, mut data: InodeData, mut more: Vec<Update>) {
        data.version += 1;
        let place = self.cache.inodes.get(&data.key()).and_then(|i| i.place.clone());
        let first = match place {
            Some((dir, key)) => {
                let value = Some(Box::new(Dentry::head(Link::Primary(Box::new(data)))));
                Update::Dentry { dir, key, value }
            }
            None => Update::Base { inode: Box::new(data) },
        };
        more.insert(0, first);
        self.commit_event(what, more);
    }

    /// Whether a client may be given write and exclusive bits: it has them recorded, as the request that it opened the file
    /// with was allowed to, or its key lets it write here.
    fn may_write(&self, ino: InodeKey, client: ClientId) -> bool {
        let Some(auth) = self.sessions.map.get(&client).map(|s| &s.auth) else { return false };
        let recorded = self.cache.inodes.get(&ino).is_some_and(|i| i.is_recorded(client));
        let path = || self.cache.path_of(ino).ok().flatten().unwrap_or_default();
        let here = || auth.lets_somebody_write(&self.cfg.fs_name, &String::from_utf8_lossy(&path()));
        auth.is_allow_all() || recorded || here()
    }

    /// A flush of dirty attributes: durable before it is acknowledged, applied once. The client need not hold the bits
    /// any more: it gives them up with the flush, and sends the flush again after a restart of ours. But only who is recorded
    /// can have held them.
    fn flush(&mut self, client: ClientId, tid: u64, m: &ClientCaps) {
        let ino = Ino(m.ino).head();
        let done = self.sessions.map.get(&client).is_some_and(|s| s.record.flushed.contains(&tid));
        let inode = self.cache.inodes.get(&ino).filter(|_| !done);
        if let Some(inode) = inode.filter(|i| i.is_recorded(client)) {
            let mut data = inode.data.clone();
            merge(&mut data, m.dirty.0, m);
            self.put_inode("flush", data, vec![Update::Flushed { client: client.0, tid }]);
        } else if inode.is_some() {
            self.note_ignored_flush(client, ino);
        }
        let realm = self.realm_of(ino);
        let ack = ClientCaps {
            op: cap_op::FLUSH_ACK,
            ino: m.ino,
            realm,
            cap_id: m.cap_id,
            seq: m.seq,
            caps: m.caps,
            dirty: m.dirty,
            migrate_seq: m.migrate_seq,
            body: m.body,
            ..ClientCaps::default()
        };
        let lsn = self.journal.last;
        self.send(client, lsn, tid, ack);
    }

    /// Says once for each session that it flushes what it cannot have changed.
    fn note_ignored_flush(&mut self, client: ClientId, ino: InodeKey) {
        self.say_once(client, Level::Warn, "flush_ignored", |who| {
            format!("{who} flushes {ino}, of which it held nothing that it could have changed")
        });
    }

    /// There are no snapshots: nothing to keep, but the client waits.
    fn ack_snap_flush(&mut self, client: ClientId, tid: u64, m: &ClientCaps) {
        let ack = ClientCaps {
            op: cap_op::FLUSHSNAP_ACK,
            ino: m.ino,
            realm: self.realm_of(Ino(m.ino).head()),
            cap_id: m.cap_id,
            dirty: m.dirty,
            snap_follows: m.snap_follows,
            ..ClientCaps::default()
        };
        let lsn = self.journal.durable;
        self.send(client, lsn, tid, ack);
    }

    /// The number of an inode's realm; the root's if it is gone.
    fn realm_of(&self, inode: InodeKey) -> u64 {
        self.cache.inodes.get(&inode).map_or(Ino::ROOT, |inode| self.cache.realm_of(inode)).0
    }

    fn trim_flushed(&mut self, client: ClientId, oldest: u64) {
        if let Some(s) = self.sessions.map.get_mut(&client)
            && oldest > 0
        {
            s.record.flushed = s.record.flushed.split_off(&oldest);
        }
    }

    /// Caps given back outside of any request.
    pub(super) fn client_release(&mut self, client: ClientId, m: &ClientCapRelease) {
        for CapReleaseItem { ino, cap_id, seq, .. } in &m.caps {
            let ino = Ino(*ino).head();
            let Some(c) = self.cap_of(ino, client, *cap_id) else { continue };
            if *seq >= c.issue_seq {
                self.remove_cap(ino, client);
                continue;
            }
            // A newer answer with the cap is on its way to the client: only what came before that is given back. No other
            // confirmation of it will come.
            if let Some(c) = self.cache.inodes.get_mut(&ino).and_then(|i| i.caps.get_mut(&client)) {
                c.confirm(*seq, cap::PIN);
            }
            self.caps_changed(ino);
        }
    }

    /// Caps given up on the way of a request.
    pub(super) fn embedded_release(&mut self, client: ClientId, r: &DentryRelease) {
        let ino = Ino(r.ino).head();
        if self.cap_of(ino, client, r.cap_id).is_none() {
            return;
        }
        let Some(inode) = self.cache.inodes.get_mut(&ino) else { return };
        let Some(c) = inode.caps.get_mut(&client) else { return };
        c.confirm(r.seq, r.caps | cap::PIN);
        if r.issue_seq == c.issue_seq {
            c.wanted = r.wanted;
        } else {
            c.wanted |= r.wanted;
        }
        self.wake_waiters(ino);
    }

    /// Whether a client may be given anything.
    pub(super) fn is_open(&self, client: ClientId) -> bool {
        self.sessions.map.get(&client).is_some_and(|s| s.state == SessionState::Open)
    }
}

/// Merges what a client changed under exclusive or write caps.
fn merge(data: &mut InodeData, dirty: u32, m: &ClientCaps) {
    let file = m.file();
    if dirty & cap::AUTH_EXCL != 0 {
        data.uid = m.uid;
        data.gid = m.gid;
        data.mode = data.mode & fsfmt::mode::FORMAT | m.mode & !fsfmt::mode::FORMAT;
        if m.btime.sec != 0 {
            data.btime = stat::utime(m.btime);
        }
    }
    if dirty & cap::XATTR_EXCL != 0 && !m.xattrs.is_empty() && m.xattr_version > data.xattr_version {
        // A blob that does not decode changes nothing.
        if let Ok(xattrs) = Reader::new(&m.xattrs).get::<BTreeMap<Vec<u8>, Vec<u8>>>() {
            data.xattrs = xattrs;
            data.xattr_version = m.xattr_version;
        }
    }
    if dirty & (cap::FILE_WR | cap::FILE_EXCL) != 0 {
        let (mtime, atime) = (stat::utime(file.mtime), stat::utime(file.atime));
        let exact = dirty & cap::FILE_EXCL != 0;
        if mtime > data.mtime || exact && mtime != data.mtime {
            data.mtime = mtime;
        }
        if exact {
            data.atime = atime;
            data.time_warp_seq = data.time_warp_seq.max(file.time_warp_seq);
        }
        // Linux leaves truncate_seq out of its flushes. None can be older than a truncation: that takes back all caps.
        // Nobody was let write further than this.
        let size = file.size.min(data.max_size_ever);
        if data.is_file() && size > data.size {
            data.size = size;
            data.rstat.rbytes = size;
        }
    }
    data.ctime = data.ctime.max(stat::utime(file.ctime));
    data.change_attr = data.change_attr.max(m.change_attr) + 1;
}
