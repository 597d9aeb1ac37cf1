//! Connections: from a dial, through cephx, to both ends.

use super::{CONNECT_TIMEOUT, Due, HostId, What, World};
use node::{CloseReason, ConnId, Peer, Target};
use wire::EntityAddr;

impl<Req, Rep> World<Req, Rep> {
    pub(super) fn connect(&mut self, host: HostId, conn: ConnId, to: Box<Target>) {
        assert!(conn.0 & ConnId::ACCEPTED == 0, "{conn} has a number that belongs to the world");
        let listener = to.addr.addr.and_then(|addr| self.listeners.get(&addr)).copied();
        let peer = listener.filter(|host| self.hosts[host.0].spec.service == Some(to.service));
        let link = self.links.open(host, self.hosts[host.0].incarnation, conn, peer, to.lossless);
        self.hosts[host.0].open.insert(conn);
        self.targets.insert(link, to);
        let at = self.arrival();
        self.due(at, Due::Handshake { link });
    }

    pub(super) fn handshake(&mut self, link: usize) {
        let (Some(target), Some((from, incarnation, conn, to))) =
            (self.targets.remove(&link), self.links.opening(link))
        else {
            return;
        };
        if self.hosts[from.0].incarnation != incarnation || self.hosts[from.0].node.is_none() {
            return;
        }
        let reachable =
            to.filter(|to| !self.hosts[to.0].dark && !self.is_cut(from, *to) && !self.is_cut(*to, from));
        let Some(to) = reachable else {
            self.links.forget(link);
            let at = self.now + CONNECT_TIMEOUT;
            return self.due_input(at, from, What::Closed { conn, reason: CloseReason::TimedOut });
        };
        match self.authenticate(from, to, *target) {
            Err(reason) => {
                self.links.forget(link);
                let at = self.arrival();
                self.due_input(at, from, What::Closed { conn, reason });
            }
            Ok((accepted, opened)) => {
                self.note_identity(from, incarnation, accepted.global_id);
                let state = &mut self.hosts[to.0];
                state.next_accepted += 1;
                let other = ConnId(state.next_accepted);
                state.open.insert(other);
                self.links.establish(link, to, state.incarnation, other);
                let at = self.links.arrive(link, 1, self.now);
                self.due_input(at, to, What::Connected { conn: other, peer: Box::new(accepted) });
                let back = self.arrival();
                let back = self.links.arrive(link, 0, back);
                self.due_input(back, from, What::Connected { conn, peer: Box::new(opened) });
                for msg in self.links.take_pending(link) {
                    self.transmit(link, 0, msg);
                }
            }
        }
    }

    /// The running node that has a global id.
    pub fn bearer_of(&self, global_id: u64) -> Option<HostId> {
        let (host, incarnation) = *self.identities.get(&global_id)?;
        (self.is_up(host) && self.hosts[host.0].incarnation == incarnation).then_some(host)
    }

    /// Checks that a global id belongs to one incarnation of one node for ever (docs/design.md, decision 12).
    pub(super) fn note_identity(&mut self, host: HostId, incarnation: u64, global_id: u64) {
        // Nodes without a monitor session authenticate with the method `none`, which has no ids. Monitors
        // connect to one another before there are any.
        if global_id == 0 || global_id == auth::GlobalIds::MON {
            return;
        }
        let owner = *self.identities.entry(global_id).or_insert((host, incarnation));
        if owner != (host, incarnation) {
            let name = |s: HostId| self.hosts[s.0].spec.name.clone();
            let text = format!(
                "global id {global_id} of {} (incarnation {}) was given to {} (incarnation \
                 {incarnation}) too",
                name(owner.0),
                owner.1,
                name(host)
            );
            self.violations.push(("global_ids_unique", text));
        }
    }

    pub(super) fn authenticate(
        &mut self,
        from: HostId,
        to: HostId,
        target: Target,
    ) -> Result<(Peer, Peer), CloseReason> {
        let now = self.local_time(to);
        let from_addr = EntityAddr::msgr2(self.hosts[from.0].spec.addr, self.hosts[from.0].nonce);
        let state = &mut self.hosts[to.0];
        if state.node.is_none() || (target.addr.nonce != 0 && target.addr.nonce != state.nonce) {
            return Err(CloseReason::Refused);
        }
        let keys = state.keys.clone().ok_or(CloseReason::Lost)?;
        crate::handshake::run(target, &keys, &state.global_ids, now, from_addr, &mut state.rng)
    }
}
