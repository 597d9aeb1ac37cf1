//! An inode and its MDS: what replies and messages about the capability change, and what is sent.

use super::attributes::{Attributes, NewerHere};
use super::capability::{Issued, Needs};
use super::{Inode, WriteBack};
use crate::api::SetAttr;
use maps::MdsRank;
use msgs::{
    CapPeer, CapReconnect, CapReleaseItem, Caps, ClientCaps, ClientQuota, DentryRelease, InodeStat, cap,
    cap_flag, cap_op, small_file,
};
use stdx::Wall;

impl Inode {
    fn newer_here(&self) -> NewerHere {
        let (held, unacknowledged) = (self.caps.held(), self.caps.unacknowledged());
        let writes = cap::FILE_EXCL | cap::FILE_WR | cap::FILE_BUFFER;
        let has_written = || held.has_any(writes) || self.has_unwritten();
        NewerHere {
            owner: (held | unacknowledged).has(cap::AUTH_EXCL),
            file: if self.attrs.is_dir() { self.promised.has_names() } else { has_written() },
            links: self.promised.is_unlinked(),
        }
    }

    /// An MDS has set mode or owner. Its answer is not believed while an earlier change of them that was made
    /// here has no acknowledgement, although it is newer.
    pub(crate) fn owner_set(&mut self, set: &SetAttr, wall: Wall) {
        if self.newer_here().owner && set.changes_owner(self.attrs.mode()) {
            self.attrs.change_owner(set, wall);
        }
    }

    /// Takes a reply's description of the inode, and the capability that came with it from `rank`. Returns
    /// what gives a capability back that is replaced or not taken.
    pub(crate) fn update(&mut self, rank: MdsRank, stat: &InodeStat) -> Option<(MdsRank, CapReleaseItem)> {
        let (newer, replaces) = (self.newer_here(), self.caps.cap().is_none());
        self.data.edit(|data| self.attrs.update(stat, newer, replaces, data.dirty_mut()));
        if !self.key.is_head() {
            self.take_bits_of_snapshot(Caps(stat.cap.caps));
            return None;
        }
        self.caps.set_max_size(stat.max_size);
        if stat.cap.cap_id == 0 || stat.cap.caps == 0 {
            return None;
        }
        if replaces && stat.cap.seq > 1 {
            self.doubt_place_of_data();
        }
        self.take_cap(rank, stat)
    }

    /// The MDS had given us the capability before, and has not heard yet that we gave it back. It may believe
    /// that we know of data that are in its journal only.
    fn doubt_place_of_data(&mut self) {
        if self.attrs.is_file() && (1..=small_file::MAX_BYTES).contains(&self.attrs.size()) {
            self.data.edit(WriteBack::doubt_place);
        }
    }

    /// Takes what is allowed of a state of a snapshot; nothing once that may have been removed.
    pub(crate) fn take_bits_of_snapshot(&mut self, bits: Caps) {
        let issued = self.caps.set_unrecorded(bits);
        self.follow_issued(issued);
    }

    /// Makes this the directory of the snapshots of `dir`.
    pub(crate) fn follow_dir(&mut self, dir: &Attributes) {
        self.attrs = dir.of_snapdir();
    }

    /// Takes what the MDS tells of the tree below this directory, which has a quota.
    pub(crate) fn take_quota(&mut self, msg: &ClientQuota) {
        self.attrs.take_quota(msg);
    }

    fn take_cap(&mut self, rank: MdsRank, stat: &InodeStat) -> Option<(MdsRank, CapReleaseItem)> {
        const IS_AUTHORITY: u8 = 1;
        let ino = self.key.ino();
        let mut given_up = None;
        if let Some(old) = self.caps.cap().filter(|_| self.caps.is_replaced_by(rank, &stat.cap)) {
            let from = old.auth_rank();
            if from != rank {
                if stat.cap.mseq < old.mseq() {
                    // From before it was handed over.
                    return None;
                }
                // Capabilities of several ranks on one inode are not kept: only its authority's.
                if stat.cap.flags & IS_AUTHORITY == 0 {
                    let (cap_id, migrate_seq, seq) = (stat.cap.cap_id, stat.cap.mseq, stat.cap.seq);
                    return Some((rank, CapReleaseItem { ino, cap_id, migrate_seq, seq }));
                }
                given_up = Some((from, old.release_item(ino)));
            }
            self.lose_cap();
        }
        let issued = self.caps.take_reply(rank, &stat.cap);
        self.follow_issued(issued);
        given_up
    }

    /// The rank has handed the capability over to another one, which is about to say so.
    pub(crate) fn move_cap(&mut self, next: &CapPeer) {
        self.caps.move_to(next);
    }

    /// The capability comes from further ranks than the one that has it here.
    pub(crate) fn catch_up(&mut self, msg: &ClientCaps) {
        self.caps.catch_up(msg);
    }

    /// Another rank has the capability now. Returns false if it is not held any more.
    pub(crate) fn take_moved_cap(&mut self, rank: MdsRank, msg: &ClientCaps) -> bool {
        let is_held = self.caps.arrive(rank, msg);
        if is_held {
            self.take_cap_message(msg);
        }
        is_held
    }

    /// True while the rank that has the capability from now on has said nothing of it.
    pub(crate) fn is_moving(&self) -> bool {
        self.caps.is_moving()
    }

    /// Takes a grant, revocation or truncation of the capability that is held.
    pub(crate) fn take_cap_message(&mut self, msg: &ClientCaps) {
        // What was changed under bits that the message revokes is newer here. Bits that it grants say nothing
        // of that: it tells what others have changed before.
        let newer = self.newer_here();
        if msg.op != cap_op::TRUNC {
            let (lost, issued) = self.caps.take_message(msg);
            self.follow_issued(issued);
            if lost.has_any(cap::DIR_CREATE | cap::DIR_UNLINK) {
                // Others may work here alone as long as this client does not.
                self.stop_work();
            }
            if lost.has_any(cap::FILE_WR | cap::FILE_BUFFER) {
                self.data.edit(WriteBack::not_fresh);
            }
            if drops_dirty_data(lost) {
                self.data.edit(|data| data.dirty_mut().discard());
            }
            self.attrs.update_granted(msg, newer);
        }
        let file = msg.file();
        self.data.edit(|data| self.attrs.update_file(&file, newer, data.dirty_mut()));
        self.caps.set_max_size(file.max_size);
    }

    fn follow_issued(&mut self, issued: Issued) {
        if issued == Issued::Ignored {
            return;
        }
        self.pages.note_right(self.may_keep_pages());
        self.trust.note_right(self.knows_attributes());
        let may_believe = self.may(cap::FILE_SHARED);
        self.told_names.edit(|told| told.note_right(may_believe));
        if issued == Issued::SharedTurned {
            self.names.turned();
        }
        self.update_file_layout();
    }

    /// Takes the acknowledgement of a flush.
    pub(crate) fn take_flush_ack(&mut self, tid: u64, ack: &ClientCaps) {
        self.caps.take_flush_ack(tid);
        let is_taken = ack.inline_version == small_file::IN_JOURNAL;
        let keeps = self.usage.access().writes && self.may(cap::FILE_WR | cap::FILE_BUFFER);
        let keeps = keeps && !self.caps.is_revoked();
        self.data.edit(|data| data.take_flush_ack(tid, is_taken, keeps));
    }

    /// The capability is gone, and with it the belief in everything that rested on it.
    pub(crate) fn lose_cap(&mut self) {
        self.caps.lose_cap();
        self.data.edit(WriteBack::keep_from_journal);
        self.pages.note_right(false);
        self.withdraw_belief();
        self.names.turned();
        self.file_layout = None;
    }

    /// The MDS has dropped the capability: changes made under it are lost, which the next fsync or close
    /// reports. Returns true if there were any.
    pub(crate) fn lose_all(&mut self) -> bool {
        self.lose_cap();
        let changes = self.caps.discard();
        // Times that were set here and are lost must not pass for newer than those of the MDS.
        self.attrs.forget_time_warps();
        let lost = changes || !self.data.dirty().is_empty();
        if lost {
            self.data.edit(WriteBack::lose);
        }
        lost
    }

    /// True if the inode's state rests on the session with `rank`, or on none.
    pub(crate) fn rests_on(&self, rank: MdsRank) -> bool {
        self.caps.cap().is_none_or(|cap| cap.auth_rank() == rank)
    }

    /// The session is lost: nothing shared is believed until the next MDS has our claim.
    pub(crate) fn suspend(&mut self) {
        self.caps.prepare_claim();
        self.caps.set_suspended(true);
    }

    /// The session serves again.
    pub(crate) fn resume(&mut self) {
        self.caps.set_suspended(false);
    }

    /// The flush `tid` for the next MDS, if it has no acknowledgement.
    pub(crate) fn repeat_flush(&self, tid: u64) -> Option<ClientCaps> {
        let mut flush = self.caps.repeat_flush(tid, self.wanted())?;
        self.data.add_whole(tid, &mut flush);
        Some(flush)
    }

    /// The claim on the capability for the next MDS.
    pub(crate) fn claim(&mut self) -> Option<CapReconnect> {
        let wanted = self.wanted();
        self.caps.claim(self.key.ino(), wanted)
    }

    /// Gives up `Ls`, of which the MDS is told with the next message.
    pub(crate) fn give_up_link_count(&mut self) {
        self.caps.give_up(cap::LINK_SHARED);
    }

    /// Gives up, with a request, what removing a name of this inode takes away: `Ls`, and the right to work
    /// alone in a directory. None if it can't, because others' requests rest on it.
    pub(crate) fn release_link_count(&mut self) -> Option<DentryRelease> {
        let bits = cap::LINK_SHARED | if self.attrs.is_dir() { cap::DIR_ASYNC } else { 0 };
        if self.promised.is_any() || self.caps.unacknowledged().has_any(bits) {
            return None;
        }
        self.stop_work();
        let release = self.caps.release(self.key.ino(), bits);
        self.trust.note_right(self.knows_attributes());
        release
    }

    /// True if the MDS believes that the file is wanted, and it is not any more.
    pub(crate) fn is_unwanted_file(&self) -> bool {
        self.attrs.is_file() && self.caps.wants_less(self.wanted())
    }

    /// Composes the message about the capability that is due, if one is: it acknowledges a revocation,
    /// flushes, asks, or (`tells_unwanted`) says that nobody here wants the file any more, which every other
    /// message says too. `tid` is that of a flush.
    pub(crate) fn cap_message(&mut self, tid: u64, tells_unwanted: bool) -> Option<ClientCaps> {
        let is_leaving = self.data.is_leaving();
        let needs = Needs {
            wanted: self.wanted(),
            in_use: self.in_use(),
            clean: self.data.dirty().is_empty(),
            hurries: (self.is_synced_by_caller() || is_leaving) && self.data.dirty().waiting_bytes() == 0,
            flush: self.data.is_sync_wanted() || is_leaving || !self.usage.access().writes,
            is_removed: self.promised.is_unlinked(),
            tells_unwanted: tells_unwanted || !self.attrs.is_file(),
        };
        let revoked = self.caps.is_revoked();
        let due = self.caps.due(needs)?;
        let flushes = due.flushes != Caps::NONE;
        if due.flushes.has_any(cap::FILE_WR) {
            self.attrs.note_size_told();
        }
        let max_size = self.caps.request_size(&due);
        let message = ClientCaps {
            op: if flushes { cap_op::FLUSH } else { cap_op::UPDATE },
            ino: self.key.ino(),
            // Others wait for a revocation: an MDS of Ceph journals it only at its next tick, up to 5 s
            // later, unless the message asks for more.
            flags: if self.data.is_sync_wanted() || revoked { cap_flag::SYNC } else { 0 },
            ..self.caps.sent(&due)
        };
        let mut message = self.attrs.fill_cap_message(message, max_size);
        if flushes {
            self.caps.flush_sent(tid, &message);
        }
        if due.flushes.has_any(cap::FILE_WR) {
            self.data.edit(|data| data.send_whole(tid));
            self.data.add_whole(tid, &mut message);
        }
        Some(message)
    }
}

/// A planted fault: buffered data are forgotten when the right to buffer is revoked.
fn drops_dirty_data(lost: Caps) -> bool {
    lost.has_any(cap::FILE_BUFFER) && stdx::mutants::is_active("client_drops_dirty_data")
}
