//! Giving and revoking capabilities (PROTOCOL.md 6.5). There are no lock states: what a client may have follows from
//! what all clients want ([`crate::cap::policy`]), from what operations under way forbid, and from what others still hold.

use super::{Effect, Rank, stat};
use crate::cap::{Cap, STRONG};
use crate::session::SessionState;
use crate::types::{ClientId, Holder, Lsn, Need, OpId};
use fsfmt::InodeKey;
use msgs::{InodeStat, cap, cap_op};

/// Bits that a client gets without asking, because they save it a round trip and cost nobody anything.
const LIKES: u32 = cap::PIN | cap::ANY_SHARED;

impl Rank {
    /// Gives `client` what it may have of an inode, in a reply: the inode as it will see it. `want` are bits that it
    /// wants from now on. Whatever that takes from others is revoked first.
    pub(super) fn issue(&mut self, ino: InodeKey, client: ClientId, want: u32) -> InodeStat {
        let next = self.next_cap;
        let Some(inode) = self.cache.inodes.get_mut(&ino) else {
            unreachable!("replies are about cached inodes")
        };
        let known = inode.caps.contains_key(&client);
        let cap = inode.caps.get_or_insert_with(client, || Cap::new(next));
        cap.wanted |= want;
        if !known {
            self.next_cap += 1;
            if let Some(s) = self.sessions.map.get_mut(&client) {
                s.inodes.insert(ino);
            }
        }
        self.eval(ino, Some(client));
        let now = self.now.mono;
        let Some(inode) = self.cache.inodes.get_mut(&ino) else { unreachable!("eval removes no inode") };
        let grantable = inode.grantable(client);
        let Some(cap) = inode.caps.get_mut(&client) else { unreachable!("eval removes no cap") };
        let bits = cap.pending | (grantable & (LIKES | cap.wanted));
        if bits & !cap.pending & STRONG != 0 {
            self.missing.note_change(ino);
        }
        cap.give(bits, now);
        cap.issue_seq = cap.seq;
        self.bare_stat(ino, client)
    }

    /// Revokes what clients must not have any more, and grants what waiting ones may have now; `skip` gets no grant,
    /// because a reply will carry it.
    pub(super) fn eval(&mut self, ino: InodeKey, skip: Option<ClientId>) {
        let Some(inode) = self.cache.inodes.get(&ino) else { return };
        let clients: Vec<ClientId> = inode.caps.clients().collect();
        for client in &clients {
            self.revoke_excess(ino, *client);
        }
        for client in clients.into_iter().filter(|c| Some(*c) != skip) {
            self.grant_wanted(ino, client);
        }
    }

    fn revoke_excess(&mut self, ino: InodeKey, client: ClientId) {
        let now = self.now.mono;
        let Some(inode) = self.cache.inodes.get_mut(&ino) else { return };
        let allowed = inode.allowed(client);
        let Some(cap) = inode.caps.get_mut(&client) else { return };
        if cap.pending & !allowed == 0 {
            return;
        }
        cap.give(cap.pending & allowed, now);
        if stdx::mutants::is_active("mds_loses_revocation") {
            cap.confirm(cap.seq, cap.pending);
            return;
        }
        self.send_cap(cap_op::REVOKE, ino, client);
    }

    fn grant_wanted(&mut self, ino: InodeKey, client: ClientId) {
        let open = self.sessions.map.get(&client).is_some_and(|s| s.state == SessionState::Open);
        let now = self.now.mono;
        let Some(inode) = self.cache.inodes.get_mut(&ino) else { return };
        let grantable = inode.grantable(client);
        let Some(cap) = inode.caps.get_mut(&client) else { return };
        let missing = cap.wanted & grantable & !cap.pending;
        if missing == 0 || !open || inode.data.is_dir() {
            return;
        }
        let bits = cap.pending | (grantable & (LIKES | cap.wanted));
        if bits & !cap.pending & STRONG != 0 {
            self.missing.note_change(ino);
        }
        cap.give(bits, now);
        self.send_cap(cap_op::GRANT, ino, client);
    }

    /// Sends what a client's cap and the inode are now.
    pub(super) fn send_cap(&mut self, op: u32, ino: InodeKey, client: ClientId) {
        let Some(inode) = self.cache.inodes.get(&ino) else { return };
        let Some(cap) = inode.caps.get(&client) else { return };
        let message = stat::caps_message(op, &inode.data, client, cap, self.cache.realm_of(inode));
        let lsn = inode.lsn;
        self.send(client, lsn, 0, message);
    }

    /// Queues a message for a client.
    pub(super) fn send(&mut self, client: ClientId, lsn: Lsn, tid: u64, body: impl Into<msgs::Body>) {
        if let Some(s) = self.sessions.map.get_mut(&client) {
            // Who is missing is told everything anew when it comes.
            if s.state != SessionState::Absent {
                s.send(lsn, tid, body);
            }
        } else {
            self.out.push(Effect::Send(client, tid, body.into()));
        }
    }

    /// A client's cap is gone.
    pub(super) fn remove_cap(&mut self, ino: InodeKey, client: ClientId) {
        if let Some(s) = self.sessions.map.get_mut(&client) {
            s.inodes.remove(&ino);
        }
        let Some(inode) = self.cache.inodes.get_mut(&ino) else { return };
        if inode.caps.remove(&client).is_none() {
            return;
        }
        self.caps_changed(ino);
    }

    /// What clients hold of an inode has changed: others may get it, operations may go on.
    pub(super) fn caps_changed(&mut self, ino: InodeKey) {
        self.eval(ino, None);
        self.wake_waiters(ino);
        self.note_inode(ino);
    }

    /// Runs operations that waited for this inode and lack nothing of it any more.
    pub(super) fn wake_waiters(&mut self, ino: InodeKey) {
        let Some(inode) = self.cache.inodes.get(&ino) else { return };
        for id in inode.waiters.clone() {
            let satisfied = |need: &Need| match need {
                Need::Revoke { ino: i, except, mask } if *i == ino => {
                    self.cache.revocation(ino, *except, *mask).is_none()
                }
                Need::Truncated(i) | Need::Lock(i) => *i == ino,
                _ => false,
            };
            let Some(op) = self.ops.get(&id) else { continue };
            let done: Vec<Need> = op.waiting.iter().filter(|n| satisfied(n)).cloned().collect();
            self.satisfy(id, &done);
        }
    }

    /// Forbids bits while an operation needs them.
    pub(super) fn restrict(&mut self, id: OpId, ino: InodeKey, except: Option<Holder>, mask: u32) {
        let Some(inode) = self.cache.inodes.get_mut(&ino) else { return };
        let list = inode.restrictions.entry(id).or_default();
        let r = crate::cache::Restriction { except, mask };
        if !list.contains(&r) {
            list.push(r);
        }
        inode.waiters.insert(id);
        self.eval(ino, None);
    }

    /// An operation is over: what it forbade is free again.
    pub(super) fn unrestrict(&mut self, id: OpId, inodes: impl IntoIterator<Item = InodeKey>) {
        for ino in inodes {
            let Some(inode) = self.cache.inodes.get_mut(&ino) else { continue };
            inode.waiters.remove(&id);
            if inode.restrictions.remove(&id).is_some() {
                self.eval(ino, None);
            }
        }
    }

    /// How far a client may write that asks for `asked` bytes.
    pub(super) fn new_max_size(&self, size: u64, asked: u64) -> u64 {
        crate::ops::max_size_step(size, asked, self.cfg.max_file_size)
    }
}
