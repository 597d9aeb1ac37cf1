//! Elections: first a question whether one would succeed, so that a monitor that was cut off disturbs nobody
//! when it is back; then the vote.

use crate::consensus::entries::Position;
use crate::consensus::progress::Progress;
use crate::consensus::raft::{Effect, Leadership, Raft, Role};
use crate::consensus::voter::VoterId;
use crate::consensus::wire_form::Message;
use std::collections::{BTreeMap, BTreeSet};
use stdx::Instant;

impl Raft {
    /// Stands for election: asks the others whether it could win.
    pub(super) fn stand(&mut self, now: Instant, out: &mut Vec<Effect>) {
        self.leader = None;
        self.elections.0 += 1;
        self.retry_election(now);
        if self.is_alone() {
            // Nothing is sent before the vote is durable, see `Leadership::mark`: it is written with the
            // first entry.
            self.set_hard(self.term + 1, Some(self.own));
            return self.lead(now, out);
        }
        self.role = Role::PreCandidate(BTreeSet::from([self.own]));
        let (term, last) = (self.term + 1, self.log.last());
        self.ask_all(out, |_, to, out| out.push(Effect::Send(to, Message::PreVote { term, last })));
    }

    fn ask_all(&mut self, out: &mut Vec<Effect>, mut ask: impl FnMut(&mut Self, VoterId, &mut Vec<Effect>)) {
        let others: Vec<VoterId> = self.log.voters().keys().copied().filter(|v| *v != self.own).collect();
        others.into_iter().for_each(|to| ask(self, to, out));
    }

    /// Gives up leadership because the process ends. The most up-to-date voter is asked to stand at once
    /// instead of after a timeout.
    pub fn resign(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let Role::Leader(l) = &self.role else { return };
        let voters = self.log.voters();
        let others: Vec<_> = l.peers.iter().filter(|(id, _)| voters.contains_key(id)).collect();
        let next = others.iter().max_by_key(|(_, p)| (p.matched, p.acked)).map(|(id, _)| **id);
        let others: Vec<VoterId> = others.into_iter().map(|(id, _)| *id).collect();
        let term = self.term;
        // Its lease ends here, before anybody hears that it may be replaced.
        self.follow(now, term, None);
        for to in others {
            out.push(Effect::Send(to, Message::Resign { term, stand: Some(to) == next }));
        }
    }

    pub(super) fn leader_resigned(
        &mut self,
        now: Instant,
        from: VoterId,
        term: u64,
        stand: bool,
        out: &mut Vec<Effect>,
    ) {
        // A resignation of another leader means nothing here: this voter may still owe its own leader
        // something.
        if term != self.term || self.leader != Some(from) || !matches!(self.role, Role::Follower) {
            return;
        }
        (self.leader, self.loyal_until) = (None, now);
        if stand && self.is_voter() {
            self.stand(now, out);
        }
    }

    pub(super) fn asked_before_vote(
        &mut self,
        now: Instant,
        from: VoterId,
        term: u64,
        last: Position,
        out: &mut Vec<Effect>,
    ) {
        let granted = term > self.term && last >= self.log.last() && !self.is_loyal(now);
        let term = if granted { term } else { self.term };
        out.push(Effect::Send(from, Message::PreVoteReply { term, granted }));
    }

    pub(super) fn pre_vote_answered(
        &mut self,
        now: Instant,
        from: VoterId,
        term: u64,
        granted: bool,
        out: &mut Vec<Effect>,
    ) {
        if !granted {
            if term > self.term {
                self.follow(now, term, None);
            }
            return;
        }
        let (quorum, known) = (self.quorum(), self.log.voters().contains_key(&from));
        let Role::PreCandidate(yes) = &mut self.role else { return };
        if term != self.term + 1 || !known {
            return;
        }
        yes.insert(from);
        if yes.len() < quorum {
            return;
        }
        self.role = Role::Candidate(BTreeSet::new());
        self.set_hard(term, Some(self.own));
        self.retry_election(now);
        let last = self.log.last();
        self.ask_all(out, |raft, to, out| raft.send_saved(to, Message::Vote { term, last }, out));
    }

    pub(super) fn asked_for_vote(
        &mut self,
        now: Instant,
        from: VoterId,
        term: u64,
        last: Position,
        out: &mut Vec<Effect>,
    ) {
        if term < self.term {
            return out.push(Effect::Send(from, Message::VoteReply { term: self.term, granted: false }));
        }
        if self.is_loyal(now) {
            return;
        }
        if term > self.term {
            self.follow(now, term, None);
        }
        let free = self.vote.is_none_or(|v| v == from);
        let stands = matches!(self.role, Role::Candidate(_) | Role::Leader(_));
        if !free || stands || last < self.log.last() {
            return out.push(Effect::Send(from, Message::VoteReply { term, granted: false }));
        }
        (self.role, self.leader) = (Role::Follower, None);
        self.set_hard(term, Some(from));
        self.reset_election(now);
        self.send_saved(from, Message::VoteReply { term, granted: true }, out);
    }

    pub(super) fn vote_answered(
        &mut self,
        now: Instant,
        from: VoterId,
        term: u64,
        granted: bool,
        out: &mut Vec<Effect>,
    ) {
        if term > self.term {
            return self.follow(now, term, None);
        }
        let known = self.log.voters().contains_key(&from);
        if let Role::Candidate(yes) = &mut self.role
            && term == self.term
            && granted
            && known
        {
            yes.insert(from);
            self.count_votes(now, out);
        }
    }

    /// Takes the lead once a quorum has voted for it; its own vote counts when it is durable.
    pub(super) fn count_votes(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let own = usize::from(self.saved_changes == self.changes && self.is_voter());
        let quorum = self.quorum();
        if matches!(&self.role, Role::Candidate(yes) if yes.len() + own >= quorum) {
            self.lead(now, out);
        }
    }

    fn lead(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let last = self.log.last().index;
        let others = self.log.voters().keys().filter(|v| **v != self.own);
        let peers: BTreeMap<_, _> = others.map(|v| (*v, Progress::new(last + 1))).collect();
        self.leader = Some(self.own);
        self.elections.1 += 1;
        let (first, mark) = (last + 1, self.changes);
        let (heartbeat_at, since) = (now, now);
        self.role = Role::Leader(Leadership { peers, first, heartbeat_at, commit_told: 0, since, mark });
        self.heartbeat(now, out);
    }
}
