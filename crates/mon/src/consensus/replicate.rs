//! The leader's work: replicates entries, counts who has them, keeps the lease.

use crate::consensus::entries::{Entry, Position, Voters};
use crate::consensus::progress::{Progress, ProgressState};
use crate::consensus::raft::{Effect, Raft, Role};
use crate::consensus::voter::VoterId;
use crate::consensus::wire_form::Message;
use std::sync::Arc;
use stdx::Instant;

/// Maximum entries and bytes of one message.
const BATCH: (usize, usize) = (256, 1 << 20);
/// Maximum entries in flight to one voter.
const WINDOW: u64 = 1024;

impl Raft {
    /// Appends an entry; `None` if this voter does not lead. A new leader's owner must propose at once, an
    /// empty entry if necessary: before an entry of its own term is committed, the leader does not know the
    /// commit index. `voters` may differ from the newest ones by one member, and only if
    /// [`Self::may_change_voters`]. [`Self::flush`] sends the entry.
    pub fn propose(&mut self, data: Arc<Vec<u8>>, voters: Option<Voters>) -> Option<u64> {
        let last = self.log.last().index;
        let Role::Leader(leading) = &mut self.role else { return None };
        if let Some(voters) = &voters {
            // Removed voters stay peers until they have heard of their removal: they get no new entries
            // except that one.
            for new in voters.keys().filter(|v| **v != self.own) {
                leading.peers.entry(*new).or_insert_with(|| Progress::new(last + 1));
            }
        }
        let at = Position { term: self.term, index: last + 1 };
        self.push(Entry { at, voters: voters.map(Arc::new), data });
        Some(at.index)
    }

    /// True if the next change of voters may be proposed: the last one is committed, and so is an entry of
    /// this term.
    pub fn may_change_voters(&self) -> bool {
        self.is_active() && self.log.voters_since() <= self.commit
    }

    /// Starts to replicate to a store that does not vote yet.
    pub fn add_learner(&mut self, id: VoterId) {
        let next = self.log.last().index + 1;
        if let Role::Leader(l) = &mut self.role
            && id != self.own
        {
            l.peers.entry(id).or_insert_with(|| Progress::new(next));
        }
    }

    /// Drops non-voting peers for which the owner no longer wants replication.
    pub fn retain_learners(&mut self, wanted: impl Fn(VoterId) -> bool) {
        let voters = self.log.voters().clone();
        if let Role::Leader(l) = &mut self.role {
            l.peers.retain(|id, _| voters.contains_key(id) || wanted(*id));
        }
    }

    /// True if a peer has all committed entries.
    pub fn is_caught_up(&self, id: VoterId) -> bool {
        matches!(&self.role, Role::Leader(l) if l.peers.get(&id).is_some_and(|p| p.matched >= self.commit))
    }

    /// Send time of the newest message that a peer has answered; leaders only.
    pub fn heard(&self, id: VoterId) -> Option<Instant> {
        let Role::Leader(l) = &self.role else { return None };
        l.peers.get(&id)?.acked
    }

    /// Notes that the connection to a peer broke: messages in flight may be lost.
    pub fn lost(&mut self, id: VoterId) {
        if let Role::Leader(l) = &mut self.role
            && let Some(peer) = l.peers.get_mut(&id)
        {
            (peer.state, peer.next) = (ProgressState::Probing, peer.matched + 1);
        }
    }

    /// The largest value that a quorum reaches.
    pub(super) fn quorum_value<T: Ord>(&self, value: impl Fn(VoterId) -> T) -> T {
        let mut values: Vec<T> = self.log.voters().keys().map(|v| value(*v)).collect();
        values.sort_unstable();
        let index = values.len() - self.quorum();
        values.swap_remove(index)
    }

    pub(super) fn tick_leader(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let Role::Leader(l) = &self.role else { return };
        let (since, due) = (l.since, now >= l.heartbeat_at);
        let heard = self.quorum_value(|id| match id == self.own {
            true => now,
            false => l.peers.get(&id).and_then(|p| p.acked).unwrap_or(since),
        });
        if now.since(heard) > self.timing.election_min {
            let term = self.term;
            return self.follow(now, term, None);
        }
        if due {
            self.heartbeat(now, out);
        }
    }

    /// Sends a heartbeat to all peers.
    pub(super) fn heartbeat(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let every = self.timing.heartbeat;
        let Role::Leader(l) = &mut self.role else { return };
        l.heartbeat_at = now + every;
        l.commit_told = self.commit;
        let ids: Vec<VoterId> = l.peers.keys().copied().collect();
        for id in ids {
            self.send_append(now, id, true, out);
        }
    }

    /// Sends entries proposed or committed since the last call. Must be called at the end of each input.
    pub fn flush(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let last = self.log.last().index;
        let Role::Leader(l) = &mut self.role else { return };
        let news = l.commit_told < self.commit;
        l.commit_told = self.commit;
        let streaming = |p: &Progress| p.state == ProgressState::Streaming;
        let due = l.peers.iter().filter(|(_, p)| news || streaming(p) && p.next <= last);
        let ids: Vec<VoterId> = due.map(|(id, _)| *id).collect();
        for id in ids {
            self.send_append(now, id, news, out);
        }
        if !self.is_voter() && self.log.voters_since() <= self.commit {
            // It has led until its own removal was committed.
            let term = self.term;
            self.follow(now, term, None);
        }
    }

    /// Sends entries to one peer; if there are none, sends a heartbeat if `anyway`.
    fn send_append(&mut self, now: Instant, id: VoterId, anyway: bool, out: &mut Vec<Effect>) {
        let (term, base) = (self.term, self.log.base());
        let (commit, saved) = (self.commit, self.saved_changes);
        let Role::Leader(l) = &mut self.role else { return };
        if l.mark > saved {
            return;
        }
        let Some(peer) = l.peers.get_mut(&id) else { return };
        if peer.state != ProgressState::Snapshot && peer.next <= base.index {
            peer.state = ProgressState::Snapshot;
            out.push(Effect::Snapshot(id));
        }
        let (prev, entries) = match peer.state {
            // A position that agrees with every log and asserts nothing.
            ProgressState::Snapshot => (Position::default(), Vec::new()),
            state => {
                let index = peer.next - 1;
                let term = self.log.term_at(index).expect("from the base on, terms are known");
                let full = state == ProgressState::Streaming && peer.next > peer.matched + WINDOW;
                let batch = if full { Vec::new() } else { self.log.batch(peer.next, BATCH.0, BATCH.1) };
                if state == ProgressState::Streaming {
                    peer.next += batch.len() as u64;
                }
                (Position { term, index }, batch)
            }
        };
        if anyway || !entries.is_empty() {
            let message = Message::Append { term, prev, commit, sent: now.0, entries };
            out.push(Effect::Send(id, message));
        }
    }

    pub(super) fn append_answered(
        &mut self,
        now: Instant,
        from: VoterId,
        (term, sent, agrees, matched): (u64, u64, bool, u64),
        out: &mut Vec<Effect>,
    ) {
        if term > self.term {
            return self.follow(now, term, None);
        }
        let (last, own_term) = (self.log.last().index, self.term);
        let Role::Leader(l) = &mut self.role else { return };
        let Some(peer) = l.peers.get_mut(&from).filter(|_| term == own_term) else { return };
        if sent != 0 {
            peer.acked = peer.acked.max(Some(Instant(sent.min(now.0))));
        }
        if !agrees {
            if peer.state != ProgressState::Snapshot {
                peer.state = ProgressState::Probing;
                peer.next = matched.saturating_add(1).clamp(peer.matched + 1, last + 1);
                self.send_append(now, from, true, out);
            }
            return;
        }
        peer.matched = peer.matched.max(matched.min(last));
        let covered = peer.matched >= self.log.base().index;
        // An answer to such a message says nothing about the point up to which the logs agree.
        if covered && matched > 0 && peer.state != ProgressState::Streaming
            || peer.state == ProgressState::Probing
        {
            peer.state = ProgressState::Streaming;
            peer.next = peer.next.max(peer.matched + 1);
        }
        self.advance(out);
        self.send_append(now, from, false, out);
    }

    /// Advances the commit index to what a quorum has.
    pub(super) fn advance(&mut self, out: &mut Vec<Effect>) {
        let Role::Leader(l) = &self.role else { return };
        let reached = self.quorum_value(|id| match id == self.own {
            true => self.saved_to,
            false => l.peers.get(&id).map_or(0, |p| p.matched),
        });
        // Entries of earlier terms are committed by those of this one, never by counting (paper, figure 3.7).
        if reached <= self.commit || self.log.term_at(reached) != Some(self.term) {
            return;
        }
        self.commit = reached;
        out.push(Effect::Committed);
    }

    pub(super) fn append(
        &mut self,
        now: Instant,
        from: VoterId,
        (term, prev, commit, sent): (u64, Position, u64, u64),
        entries: Vec<Entry>,
        out: &mut Vec<Effect>,
    ) {
        if term < self.term {
            let reply = Message::AppendReply { term: self.term, sent: 0, agrees: false, matched: 0 };
            return out.push(Effect::Send(from, reply));
        }
        if !self.hear(now, from, term) {
            return;
        }
        let base = self.log.base();
        // Entries before the base are committed, so they agree.
        let agrees = prev.index < base.index || self.log.term_at(prev.index) == Some(prev.term);
        if !agrees {
            let reply = Message::AppendReply { term, sent, agrees, matched: self.log.hint(prev.index) };
            return out.push(Effect::Send(from, reply));
        }
        let end = prev.index + entries.len() as u64;
        for entry in entries.into_iter().filter(|e| e.at.index > base.index) {
            match self.log.term_at(entry.at.index) {
                Some(term) if term == entry.at.term => continue,
                Some(_) => self.truncate_from(entry.at.index),
                None => {}
            }
            self.push(entry);
        }
        // The leader has all committed entries.
        self.verified = self.verified.max(end).max(self.commit);
        let commit = commit.min(self.verified);
        if commit > self.commit {
            self.commit = commit;
            out.push(Effect::Committed);
        }
        self.told = self.verified.min(self.saved_to);
        let reply = Message::AppendReply { term, sent, agrees, matched: self.told };
        out.push(Effect::Send(from, reply));
    }

    /// Notes a heartbeat of a leader, also while it sends a snapshot. Returns true if it comes from the
    /// current one.
    pub fn hear(&mut self, now: Instant, from: VoterId, term: u64) -> bool {
        if term < self.term || from == self.own || term == self.term && self.is_leader() {
            return false;
        }
        if term > self.term || self.leader != Some(from) || !matches!(self.role, Role::Follower) {
            self.follow(now, term, Some(from));
        }
        self.loyal_until = now + self.timing.election_min;
        self.reset_election(now);
        true
    }

    /// Tells the leader that more of its log is durable here.
    pub(super) fn tell_matched(&mut self, out: &mut Vec<Effect>) {
        let matched = self.verified.min(self.saved_to);
        if let Some(leader) = self.leader
            && matched > self.told
        {
            self.told = matched;
            let reply = Message::AppendReply { term: self.term, sent: 0, agrees: true, matched };
            out.push(Effect::Send(leader, reply));
        }
    }
}
