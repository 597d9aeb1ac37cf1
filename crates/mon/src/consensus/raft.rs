//! The state, its inputs, and what is to be written.

use crate::consensus::entries::{Entries, Entry, Position, Voters};
use crate::consensus::progress::Progress;
use crate::consensus::voter::VoterId;
use crate::consensus::wire_form::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use stdx::{Instant, Rng};

/// Timing parameters. All refer to local monotonic clocks, which may differ in speed by some percent.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Interval between a leader's heartbeats.
    pub heartbeat: Duration,
    /// A voter that heard from a leader votes for nobody else for this long. A leader that hears from no
    /// quorum for this long steps down.
    pub election_min: Duration,
    /// A voter that hears nothing stands for election after a time between `election_min` and this.
    pub election_max: Duration,
    /// A leader may answer reads for this long after it *sent* a message that a quorum has answered. Shorter
    /// than `election_min` by more than the clocks can drift apart.
    pub lease: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let ms = Duration::from_millis;
        Self { heartbeat: ms(150), election_min: ms(800), election_max: ms(1600), lease: ms(600) }
    }
}

/// The durable state found at start.
#[derive(Debug, Default)]
pub struct Restored {
    /// The newest term.
    pub term: u64,
    /// The vote in it.
    pub vote: Option<VoterId>,
    /// Last position that the snapshot covers.
    pub base: Position,
    /// Voters after the base.
    pub voters: Voters,
    /// The entries after the base.
    pub entries: Vec<Entry>,
}

/// An effect for the owner to carry out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Send it; it may be lost.
    Send(VoterId, Message),
    /// Send a snapshot: what this one needs is not in the log any more.
    Snapshot(VoterId),
    /// [`Raft::committed`] has moved.
    Committed,
}

/// Unsaved changes, to be written in one transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unsaved {
    /// Term and vote, if they changed.
    pub hard: Option<(u64, Option<VoterId>)>,
    /// Entries from here on are replaced by `entries`.
    pub truncate: Option<u64>,
    /// Entries to append.
    pub entries: Vec<Entry>,
    /// Mark to pass to [`Raft::saved`].
    pub mark: u64,
}

/// The voter's role in its term.
#[derive(Debug)]
pub(super) enum Role {
    Follower,
    /// Asks whether an election would succeed.
    PreCandidate(BTreeSet<VoterId>),
    Candidate(BTreeSet<VoterId>),
    Leader(Leadership),
}

/// State that only a leader keeps.
#[derive(Debug)]
pub(super) struct Leadership {
    pub peers: BTreeMap<VoterId, Progress>,
    /// Its first entry's index: before it is committed, how far the log is committed is not known.
    pub first: u64,
    pub heartbeat_at: Instant,
    /// The commit index that peers were told last.
    pub commit_told: u64,
    pub since: Instant,
    /// Change with which the leader's own vote becomes durable. A leader that elected itself alone may send
    /// nothing before that: after a crash it could start the same term again with other entries.
    pub mark: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Raft {
    pub(super) own: VoterId,
    pub(super) timing: Timing,
    pub(super) rng: Rng,
    pub(super) term: u64,
    pub(super) vote: Option<VoterId>,
    pub(super) log: Entries,
    pub(super) commit: u64,
    pub(super) role: Role,
    pub(super) leader: Option<VoterId>,
    /// No vote for anybody before this.
    pub(super) loyal_until: Instant,
    pub(super) election_at: Instant,
    /// Number of elections it has stood for since it last heard a leader.
    pub(super) attempts: u32,
    /// The elections that it has stood for and won, since the start.
    pub(super) elections: (u64, u64),
    /// Equal to the leader's log up to here; followers only.
    pub(super) verified: u64,
    /// The last `matched` sent to the leader.
    pub(super) told: u64,
    /// Number of changes of durable state so far.
    pub(super) changes: u64,
    pub(super) saved_changes: u64,
    hard_changed: bool,
    truncate: Option<u64>,
    /// The first entry that was not yet taken by [`Raft::take_unsaved`].
    unsaved_from: u64,
    /// The last index being saved, among entries that were not replaced since.
    saving_to: u64,
    /// Entries up to here are durable.
    pub(super) saved_to: u64,
    /// Messages to send once changes up to a number are durable.
    pub(super) held: Vec<(u64, VoterId, Message)>,
}

impl Raft {
    /// Starts from the durable state. `now` starts the wait before the first vote.
    pub fn new(own: VoterId, timing: Timing, rng: Rng, restored: Restored, now: Instant) -> Self {
        let Restored { term, vote, base, voters, entries } = restored;
        let mut log = Entries::new(base, Arc::new(voters));
        entries.into_iter().for_each(|e| log.push(e));
        let last = log.last().index;
        let mut raft = Self {
            own,
            timing,
            rng,
            term: term.max(log.last().term),
            vote,
            log,
            commit: base.index,
            role: Role::Follower,
            leader: None,
            // Perhaps a leader was heard just before the end.
            loyal_until: now + timing.election_min,
            election_at: now,
            attempts: 0,
            elections: (0, 0),
            verified: 0,
            told: 0,
            changes: 0,
            saved_changes: 0,
            hard_changed: false,
            truncate: None,
            unsaved_from: last + 1,
            saving_to: last,
            saved_to: last,
            held: Vec::new(),
        };
        raft.reset_election(now);
        if raft.is_alone() {
            // Nobody else can hold a promise.
            (raft.loyal_until, raft.election_at) = (now, now);
        }
        raft
    }

    /// Id of this voter.
    pub fn own(&self) -> VoterId {
        self.own
    }

    /// The elections that it has stood for and won, since the start.
    pub fn elections(&self) -> (u64, u64) {
        self.elections
    }

    /// The newest term known.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Entries up to here are committed.
    pub fn committed(&self) -> u64 {
        self.commit
    }

    /// The last position in the log.
    pub fn last(&self) -> Position {
        self.log.last()
    }

    /// The position before the log's first entry.
    #[cfg(test)]
    pub fn base(&self) -> Position {
        self.log.base()
    }

    /// An entry of the log.
    pub fn entry(&self, index: u64) -> Option<&Entry> {
        self.log.get(index)
    }

    /// The newest voters in the log.
    pub fn voters(&self) -> &Arc<Voters> {
        self.log.voters()
    }

    /// The leader, if known. This voter may name itself before it is allowed to answer.
    pub fn leader(&self) -> Option<VoterId> {
        self.leader
    }

    /// True if this voter leads.
    pub fn is_leader(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }

    /// True if it leads and knows everything that was ever committed. Only then may it decide.
    pub fn is_active(&self) -> bool {
        matches!(&self.role, Role::Leader(l) if self.commit >= l.first)
    }

    /// True if an entry of this term is known to be committed; the leader may then decide.
    pub fn is_settled(&self) -> bool {
        self.log.term_at(self.commit) == Some(self.term)
    }

    /// True if this one is a voter.
    pub fn is_voter(&self) -> bool {
        self.log.voters().contains_key(&self.own)
    }

    /// True if it is the only voter.
    pub(super) fn is_alone(&self) -> bool {
        self.is_voter() && self.log.voters().len() == 1
    }

    pub(super) fn quorum(&self) -> usize {
        self.log.voters().len() / 2 + 1
    }

    /// Time at which [`Self::tick`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        match &self.role {
            Role::Leader(l) if l.peers.is_empty() => None,
            Role::Leader(l) => Some(l.heartbeat_at),
            _ => self.is_voter().then_some(self.election_at),
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Instant, out: &mut Vec<Effect>) {
        match &self.role {
            Role::Leader(_) => self.tick_leader(now, out),
            _ if self.is_voter() && now >= self.election_at => self.stand(now, out),
            _ => {}
        }
    }

    /// A message has come.
    pub fn step(&mut self, now: Instant, from: VoterId, message: Message, out: &mut Vec<Effect>) {
        match message {
            Message::PreVote { term, last } => self.asked_before_vote(now, from, term, last, out),
            Message::PreVoteReply { term, granted } => self.pre_vote_answered(now, from, term, granted, out),
            Message::Vote { term, last } => self.asked_for_vote(now, from, term, last, out),
            Message::VoteReply { term, granted } => self.vote_answered(now, from, term, granted, out),
            Message::Append { term, prev, commit, sent, entries } => {
                self.append(now, from, (term, prev, commit, sent), entries, out);
            }
            Message::AppendReply { term, sent, agrees, matched } => {
                self.append_answered(now, from, (term, sent, agrees, matched), out);
            }
            Message::Resign { term, stand } => self.leader_resigned(now, from, term, stand, out),
        }
    }

    /// True if there are changes to write.
    pub fn has_unsaved(&self) -> bool {
        self.hard_changed || self.truncate.is_some() || self.unsaved_from <= self.log.last().index
    }

    /// The changes to write, returned once. The owner asks again only after it has reported these as durable
    /// by [`Self::saved`].
    pub fn take_unsaved(&mut self) -> Unsaved {
        let entries = self.log.batch(self.unsaved_from, usize::MAX, usize::MAX);
        self.unsaved_from = self.log.last().index + 1;
        self.saving_to = self.log.last().index;
        let hard = std::mem::take(&mut self.hard_changed).then_some((self.term, self.vote));
        Unsaved { hard, truncate: self.truncate.take(), entries, mark: self.changes }
    }

    /// Notes that everything up to this mark is durable.
    pub fn saved(&mut self, now: Instant, mark: u64, out: &mut Vec<Effect>) {
        self.saved_changes = self.saved_changes.max(mark);
        self.saved_to = self.saved_to.max(self.saving_to);
        let (ready, held) = std::mem::take(&mut self.held).into_iter().partition(|(m, ..)| *m <= mark);
        self.held = held;
        let ready: Vec<(u64, VoterId, Message)> = ready;
        for (_, to, message) in ready {
            self.release(to, message, out);
        }
        match &self.role {
            Role::Candidate(_) => self.count_votes(now, out),
            Role::Leader(_) => self.advance(out),
            _ => self.tell_matched(out),
        }
    }

    /// Sends a message that waited for durability, unless it belongs to an earlier term.
    fn release(&mut self, to: VoterId, message: Message, out: &mut Vec<Effect>) {
        if message.term() == self.term {
            out.push(Effect::Send(to, message));
        }
    }

    /// Sends a message once all changes so far are durable.
    pub(super) fn send_saved(&mut self, to: VoterId, message: Message, out: &mut Vec<Effect>) {
        if self.saved_changes == self.changes || stdx::mutants::is_active("mon_votes_before_durable") {
            out.push(Effect::Send(to, message));
        } else {
            self.held.push((self.changes, to, message));
        }
    }

    pub(super) fn set_hard(&mut self, term: u64, vote: Option<VoterId>) {
        if (self.term, self.vote) != (term, vote) {
            (self.term, self.vote) = (term, vote);
            self.hard_changed = true;
            self.changes += 1;
        }
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.log.push(entry);
        self.changes += 1;
    }

    pub(super) fn truncate_from(&mut self, index: u64) {
        assert!(index > self.commit, "entry {index} is committed and would be replaced");
        self.log.truncate(index);
        self.truncate = Some(self.truncate.map_or(index, |t| t.min(index)));
        self.unsaved_from = self.unsaved_from.min(index);
        self.saving_to = self.saving_to.min(index - 1);
        self.saved_to = self.saved_to.min(index - 1);
        self.verified = self.verified.min(index - 1);
        self.changes += 1;
    }

    /// Forgets entries up to `index`, which the owner's durable snapshot covers.
    pub fn compact(&mut self, index: u64) {
        if index > self.log.base().index && index <= self.commit.min(self.saved_to) {
            self.log.compact(index);
        }
    }

    /// Notes that the owner took over a snapshot from a leader and writes it before anything that follows.
    /// Returns false if the snapshot covers nothing new; the owner must then discard it.
    pub fn install(&mut self, base: Position, voters: Voters) -> bool {
        if base.index <= self.commit {
            return false;
        }
        self.log = Entries::new(base, Arc::new(voters));
        (self.commit, self.verified) = (base.index, base.index);
        // A write in progress no longer counts.
        (self.saved_to, self.saving_to) = (0, 0);
        self.unsaved_from = base.index + 1;
        // The owner removes all entries together with the old snapshot.
        self.truncate = None;
        self.changes += 1;
        true
    }

    /// Becomes a follower of `leader`, of a term that is not older.
    pub(super) fn follow(&mut self, now: Instant, term: u64, leader: Option<VoterId>) {
        assert!(term >= self.term, "terms only grow");
        if term > self.term || self.leader != leader || !matches!(self.role, Role::Follower) {
            // Also if the same leader leads again: its log need not be the same.
            (self.verified, self.told) = (0, 0);
        }
        if term > self.term {
            self.set_hard(term, None);
        }
        let led = self.is_leader();
        self.role = Role::Follower;
        self.leader = leader;
        if led {
            // The next candidate may be elected at once: this voter has no leader to be loyal to.
            self.loyal_until = now;
        }
        self.reset_election(now);
    }

    pub(super) fn reset_election(&mut self, now: Instant) {
        self.attempts = 0;
        self.wait_for_election(now, self.timing.election_min, self.timing.election_max);
    }

    /// Retries an election that nobody won. Split votes, or a voter that was loyal for a moment longer, must
    /// not cost a whole timeout. The delay grows with each attempt, because votes may take long to become
    /// durable.
    pub(super) fn retry_election(&mut self, now: Instant) {
        self.attempts = (self.attempts + 1).min(8);
        let least = (self.timing.heartbeat * (1 << self.attempts)).min(self.timing.election_min);
        let most = (least * 2).min(self.timing.election_max);
        self.wait_for_election(now, least, most);
    }

    fn wait_for_election(&mut self, now: Instant, least: Duration, most: Duration) {
        let wait = self.rng.range(least.as_nanos() as u64, most.as_nanos() as u64);
        self.election_at = now + Duration::from_nanos(wait);
    }
}
