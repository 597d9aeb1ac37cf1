//! Capabilities: taking grants and revocations, giving back what is not in use any more, flushing what changed here.

use crate::api::{Answer, Ino, Invalidate};
use crate::client::{Client, Outs};
use crate::inode::{Growth, Inode};
use msgs::{Body, Caps, ClientCaps, ClientLease, cap, cap_op, lease_action};
use node::{ConnId, Event, Level, Msg, Output, RequestId};
use stdx::Now;

impl Client {
    /// A message from the MDS.
    pub(crate) fn mds_message(&mut self, now: Now, _conn: ConnId, msg: Msg, out: &mut Outs) {
        let node::Body::Client(body) = msg.body else { return };
        match body {
            Body::ClientSession(session) => self.session_message(now, &session, out),
            Body::ClientReply(reply) => self.mds_reply(now, msg.tid, *reply, out),
            Body::ClientCaps(caps) => self.cap_message(msg.tid, &caps, out),
            Body::ClientLease(lease) if lease.action == lease_action::REVOKE => {
                self.lease_revoked(*lease, out)
            }
            Body::MdsMap(map) => {
                if let Ok(decoded) = wire::Reader::new(&map.map).get() {
                    self.mds_map(now, decoded, out);
                }
            }
            // Snapshots, quotas and forwards have no user here yet.
            _ => {}
        }
    }

    fn lease_revoked(&mut self, lease: ClientLease, out: &mut Outs) {
        self.drop_dentry(lease.ino, &lease.dname);
        self.mds.send(Body::from(ClientLease { action: lease_action::REVOKE_ACK, ..lease }), 0, out);
    }

    fn cap_message(&mut self, tid: u64, msg: &ClientCaps, out: &mut Outs) {
        if msg.op == cap_op::FLUSH_ACK {
            if let Some(inode) = self.inodes.get_mut(&msg.ino) {
                inode.flushing.remove(&tid);
                if inode.growth == Growth::Flushing(tid) {
                    inode.growth = Growth::Durable;
                }
                self.touch(msg.ino);
            }
            return;
        }
        let holds = |i: &&mut Inode| i.cap.as_ref().is_some_and(|c| c.id == msg.cap_id);
        let Some(inode) = self.inodes.get_mut(&msg.ino).filter(holds) else {
            // We have given it up; the release that said so may still be on its way. It does not come back with this message:
            // for the MDS it ends with that release.
            if matches!(msg.op, cap_op::REVOKE | cap_op::GRANT) {
                let (cap_id, migrate_seq) = (msg.cap_id, msg.migrate_seq);
                let item = msgs::CapReleaseItem { ino: msg.ino, cap_id, migrate_seq, seq: msg.seq };
                let body = msgs::ClientCapRelease { caps: vec![item], osd_epoch_barrier: maps::Epoch(0) };
                self.mds.send(Body::from(body), 0, out);
            }
            return;
        };
        match msg.op {
            cap_op::GRANT | cap_op::REVOKE | cap_op::TRUNC => {
                if msg.op != cap_op::TRUNC {
                    Self::take_caps(inode, msg);
                }
                inode.update_file(&msg.file());
            }
            // The MDS does not know the capability (any more), and no other rank has it.
            cap_op::EXPORT if inode.lose_all() => {
                let detail = format!("the MDS knows nothing of the capability on {:x}", msg.ino);
                out.push(Output::Event(Event::new(Level::Error, "writes_lost", detail)));
            }
            _ => {}
        }
        self.touch(msg.ino);
    }

    fn take_caps(inode: &mut Inode, msg: &ClientCaps) {
        let Some(cap) = &mut inode.cap else { return };
        let lost = cap.issued & !msg.caps;
        (cap.seq, cap.mseq) = (msg.seq, msg.migrate_seq);
        inode.set_issued(msg.caps);
        if lost.has_any(cap::FILE_BUFFER) && stdx::mutants::is_active("client_drops_dirty_data") {
            inode.dirty.discard();
        }
        inode.set_owner(msg.mode, msg.uid, msg.gid);
        inode.nlink = msg.nlink;
        if msg.xattr_version > inode.xattr_version && !msg.xattrs.is_empty() {
            inode.set_xattrs(&msg.xattrs, msg.xattr_version);
        }
        if msg.change_attr > inode.change_attr {
            inode.change_attr = msg.change_attr;
        }
        if inode.is_dir() && (msg.nfiles | msg.nsubdirs) != 0 {
            (inode.nfiles, inode.nsubdirs) = (msg.nfiles, msg.nsubdirs);
        }
    }

    /// Looks after an inode that something happened to: starts writing back, invalidates caches, tells the MDS.
    pub(crate) fn tend(&mut self, now: Now, ino: Ino, out: &mut Outs) {
        self.write_back(now, ino, out);
        self.recount(ino);
        self.invalidate_pages(ino, out);
        self.tell_mds(ino, out);
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        inode.data_wanted &= !inode.dirty.is_empty();
        if inode.dirty.is_empty() && inode.dirty_caps == Caps::NONE {
            self.dirty_since.remove(&ino);
            // Whoever waits for the acknowledgement needs no more; what is written from now on may stay a while again.
            inode.sync_wanted = false;
        }
        let inode = &*inode;
        if inode.is_idle() && inode.nlink == 0 && ino != crate::cache::ROOT {
            // Removed and of no use to anybody: the MDS may purge it only when we let go.
            self.drop_inodes(std::iter::once(ino), out);
        }
        self.trim_inodes(out);
    }

    /// Cached pages must go before the capability may that they rest on.
    fn invalidate_pages(&mut self, ino: Ino, out: &mut Outs) {
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        if inode.has_pages_to_drop() {
            let id = self.next_invalidation;
            self.next_invalidation += 1;
            inode.invalidating = Some(id);
            inode.pages_unsure = false;
            self.invalidations.insert(id, ino);
            let what = Invalidate::Inode { ino, offset: 0, len: 0 };
            out.push(Output::Reply { id: RequestId(0), reply: Ok(Answer::Invalidate { id, what }) });
        }
    }

    /// Local callers have dropped their pages.
    pub(crate) fn invalidated(&mut self, id: u64) {
        let Some(ino) = self.invalidations.remove(&id) else { return };
        if let Some(inode) = self.inodes.get_mut(&ino)
            && inode.invalidating == Some(id)
        {
            inode.invalidating = None;
            inode.pages_cached = std::mem::take(&mut inode.pages_again);
            // Pages that are true overtake nothing.
            let overtaken = inode.pages_cached && !inode.has_true_pages();
            inode.invalidation_rounds =
                if overtaken { inode.invalidation_rounds.saturating_add(1) } else { 0 };
            self.touch(ino);
        }
    }

    /// Sends at most one message about the inode's capability: acknowledges a revocation, flushes, asks, wants less.
    pub(crate) fn tell_mds(&mut self, ino: Ino, out: &mut Outs) {
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        if self.mds.state != crate::mds::State::Open {
            return;
        }
        let (wanted, in_use, issued) = (inode.wanted(), inode.in_use(), inode.issued());
        let revoked = inode.is_revoked();
        // Size and times follow the data that they are about; mode and owner need not wait.
        let clean = inode.dirty.is_empty();
        let ready = if clean { inode.dirty_caps.0 } else { inode.dirty_caps.0 & cap::AUTH_EXCL };
        let flushes = ready != 0 && (revoked || clean && (inode.sync_wanted || inode.writers == 0));
        let unflushed = inode.dirty_caps.0 & !if flushes { ready } else { 0 };
        let Some(cap) = &mut inode.cap else { return };
        // A revocation is confirmed whole.
        let gives_back = revoked && cap.implemented.0 & (in_use.0 | unflushed) & !cap.issued.0 == 0;
        let asks = wanted != Caps::NONE && wanted.0 & !cap.wanted.0 != 0;
        let wants_less =
            wanted == Caps::NONE && cap.wanted.has_any(cap::ANY_FILE_WR | cap::FILE_RD | cap::FILE_CACHE);
        let more_room =
            inode.wanted_max_size > inode.max_size && inode.wanted_max_size > inode.requested_max_size;
        // The MDS gives no room to who does not want to write: that wish waits for the next writer.
        let more_room = more_room && issued.has(cap::FILE_WR) && wanted.has_any(cap::ANY_FILE_WR);
        if !(gives_back || asks || wants_less || flushes || more_room) {
            return;
        }
        if gives_back {
            cap.implemented = cap.issued;
        }
        let keep = cap.implemented;
        cap.wanted = wanted;
        let (cap_id, seq, issue_seq, mseq, realm) = (cap.id, cap.seq, cap.issue_seq, cap.mseq, cap.realm);
        let mut file = inode.cap_file();
        if more_room {
            file.max_size = inode.wanted_max_size;
            inode.requested_max_size = inode.wanted_max_size;
        }
        let (mut tid, mut dirty) = (0, Caps::NONE);
        if flushes {
            tid = self.next_flush_tid;
            self.next_flush_tid += 1;
            dirty = Caps(ready);
            inode.dirty_caps = Caps(inode.dirty_caps.0 & !ready);
            inode.flushing.insert(tid, dirty);
            if inode.growth != Growth::Durable && dirty.has_any(cap::FILE_WR) {
                inode.growth = Growth::Flushing(tid);
            }
            self.changed.insert(ino);
        }
        let oldest_flush_tid = if flushes { inode.flushing.keys().next().copied().unwrap_or(tid) } else { 0 };
        let body = ClientCaps {
            op: if flushes { cap_op::FLUSH } else { cap_op::UPDATE },
            ino,
            realm,
            cap_id,
            seq,
            issue_seq,
            caps: keep,
            wanted,
            dirty,
            migrate_seq: mseq,
            uid: inode.uid,
            gid: inode.gid,
            mode: inode.mode,
            nlink: inode.nlink,
            xattr_version: inode.xattr_version,
            body: msgs::CapBody::File(file),
            inline_version: u64::MAX,
            oldest_flush_tid,
            btime: inode.btime,
            change_attr: inode.change_attr,
            // Others wait for what is revoked: an MDS of Ceph journals it at its next tick only, up to 5 s later, unless asked.
            flags: if inode.sync_wanted || revoked { msgs::cap_flag::SYNC } else { 0 },
            ..ClientCaps::default()
        };
        self.mds.send(Body::from(body), tid, out);
    }
}
