//! Requests to MDSs without their final answer: where each one goes, and which are sent again.

use crate::key::OpId;
use crate::mds_request::open_flag;
use crate::promise::Promise;
use maps::{Epoch, MdsRank};
use msgs::{ClientReply, ClientRequest, FileLockArgs, MdsOp, OpenArgs, request_flag};
use std::collections::{BTreeMap, BTreeSet};

/// Inodes are named by number. An MDS of Ceph finds one that it has dropped from its cache, because nobody
/// has a capability on it, only if it is asked for by LOOKUPINO; until then it answers ESTALE.
#[derive(Debug, Default)]
pub(crate) enum Recall {
    /// Nothing was looked up for the request.
    #[default]
    NotYet,
    /// This is the LOOKUPINO for the boxed request, which is sent again after those of further inodes.
    Finding(Box<ClientRequest>, Vec<u64>),
    /// All its inodes were looked up: a second ESTALE is final.
    Done,
}

/// What becomes of a request whose caller does not want to wait any longer.
#[derive(Debug)]
pub(crate) enum Interrupted {
    /// This rank has it, and is to be told.
    Tell(MdsRank, Box<ClientRequest>),
    /// Its rank was told, or answers soon.
    Told,
    /// No rank has it.
    Dropped,
}

/// A request without its safe answer.
#[derive(Debug)]
struct InFlight {
    request: Box<ClientRequest>,
    /// The operation that waits for the answer; none for an asynchronous request.
    op: Option<OpId>,
    /// The rank that is to carry it out, as far as we know.
    rank: MdsRank,
    /// The number of times that it was sent, in all sessions, to a rank that did not forward it.
    attempts: u32,
    /// Its caller does not want to wait any longer, of which the rank is told.
    interrupted: bool,
    /// The first, unsafe answer has come; the request is kept until the safe one.
    answered: bool,
    recall: Recall,
}

/// A reply that belongs to a request.
#[derive(Debug)]
pub(crate) struct Replied {
    /// The operation that waits for it.
    pub(crate) op: Option<OpId>,
    /// What an asynchronous request had promised, with its first answer.
    pub(crate) promise: Option<Promise>,
    /// True for the first answer, which the operation gets.
    pub(crate) first: bool,
    /// The request was answered, but could not be replayed: its change is lost.
    pub(crate) is_lost: bool,
    /// The request was sent more than once.
    pub(crate) is_repeat: bool,
    /// The request, if this was its final answer.
    pub(crate) ended: Option<(Box<ClientRequest>, Recall)>,
}

fn waits_for_lock(request: &ClientRequest) -> bool {
    request.op == MdsOp::SETFILELOCK && request.args.get::<FileLockArgs>().wait != 0
}

/// True for a request that must not be carried out twice, with others' changes between. Those for file locks
/// end with their session in any case.
fn changes_something(request: &ClientRequest) -> bool {
    match request.op {
        MdsOp::SETFILELOCK => false,
        MdsOp::OPEN => request.args.get::<OpenArgs>().flags & open_flag::TRUNC != 0,
        op => op.writes(),
    }
}

/// Requests in flight by tid. There may be hundreds whose callers wait for nothing, so that what is asked
/// with each input looks only at those that it is about.
///
/// Invariants: an answered request was sent; tids grow; a promise is that of a request without any answer;
/// `unsent` and `unanswered` are of requests in flight.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    last_tid: u64,
    in_flight: BTreeMap<u64, InFlight>,
    /// Those that were not sent in the present session with their rank.
    unsent: BTreeSet<u64>,
    /// Those without any answer.
    unanswered: BTreeSet<u64>,
    /// What asynchronous requests without an answer have promised, by tid.
    promises: BTreeMap<u64, Promise>,
}

impl Requests {
    /// Adds a request, to be carried out by `rank`. Returns its tid.
    pub(crate) fn add(
        &mut self,
        op: Option<OpId>,
        rank: MdsRank,
        request: Box<ClientRequest>,
        recall: Recall,
    ) -> u64 {
        self.last_tid += 1;
        let entry = InFlight { request, op, rank, attempts: 0, interrupted: false, answered: false, recall };
        self.in_flight.insert(self.last_tid, entry);
        self.unsent.insert(self.last_tid);
        self.unanswered.insert(self.last_tid);
        self.last_tid
    }

    fn remove(&mut self, tid: u64) -> Option<InFlight> {
        self.unsent.remove(&tid);
        self.unanswered.remove(&tid);
        self.in_flight.remove(&tid)
    }

    /// Removes the requests that `is_over`.
    fn extract(&mut self, is_over: impl Fn(&InFlight) -> bool) -> Vec<InFlight> {
        let over: Vec<u64> = self.in_flight.iter().filter(|(_, r)| is_over(r)).map(|(tid, _)| *tid).collect();
        over.into_iter().filter_map(|tid| self.remove(tid)).collect()
    }

    fn unsent_ones(&self) -> impl Iterator<Item = (u64, &InFlight)> {
        self.unsent.iter().filter_map(|tid| Some((*tid, self.in_flight.get(tid)?)))
    }

    /// Adds an asynchronous request. Returns its tid.
    pub(crate) fn add_promise(
        &mut self,
        rank: MdsRank,
        request: Box<ClientRequest>,
        promise: Promise,
    ) -> u64 {
        let tid = self.add(None, rank, request, Recall::Done);
        self.promises.insert(tid, promise);
        tid
    }

    /// True if fewer than `most` asynchronous requests wait for an answer of `rank`.
    pub(crate) fn has_fewer_promises(&self, rank: MdsRank, most: usize) -> bool {
        let is_of_rank = |tid: &&u64| self.in_flight.get(tid).is_some_and(|r| r.rank == rank);
        self.promises.len() < most || self.promises.keys().filter(is_of_rank).count() < most
    }

    /// True if a request may not be sent yet: an asynchronous one before it makes or changes what it is
    /// about.
    pub(crate) fn is_held_back(&self, tid: u64) -> bool {
        let Some(entry) = self.in_flight.get(&tid).filter(|r| r.op.is_some()) else { return false };
        self.promises.range(..tid).any(|(_, promise)| promise.concerns(&entry.request))
    }

    /// The oldest request without an answer.
    pub(crate) fn oldest_unanswered(&self) -> Option<u64> {
        self.unanswered.first().copied()
    }

    /// The last request so far.
    pub(crate) fn last_tid(&self) -> u64 {
        self.last_tid
    }

    /// The ranks that owe a safe answer to a request up to `last` whose caller has one already, which only a
    /// commit of their journal brings.
    pub(crate) fn ranks_with_unsafe(&self, last: u64) -> BTreeSet<MdsRank> {
        let of_caller = |tid: &u64, r: &InFlight| r.answered || self.promises.contains_key(tid);
        self.in_flight.range(..=last).filter(|(tid, r)| of_caller(tid, r)).map(|(_, r)| r.rank).collect()
    }

    /// The ranks to which requests are still to be sent.
    pub(crate) fn ranks_with_unsent(&self) -> BTreeSet<MdsRank> {
        self.unsent_ones().map(|(_, r)| r.rank).collect()
    }

    /// The rank of a request.
    pub(crate) fn rank_of(&self, tid: u64) -> Option<MdsRank> {
        self.in_flight.get(&tid).map(|r| r.rank)
    }

    /// The message of a request, which is sent now.
    pub(crate) fn send(&mut self, tid: u64, epoch: Epoch) -> Option<ClientRequest> {
        let oldest = self.in_flight.first_key_value().map_or(tid, |(t, _)| *t);
        let entry = self.in_flight.get_mut(&tid)?;
        // An MDS of Ceph checks for an earlier execution only if it is told that there may be one.
        entry.request.num_retry = entry.attempts;
        entry.attempts = entry.attempts.saturating_add(1);
        self.unsent.remove(&tid);
        entry.request.oldest_client_tid = oldest;
        entry.request.mdsmap_epoch = epoch;
        Some((*entry.request).clone())
    }

    /// The requests without an answer that are to be sent to `rank` now.
    pub(crate) fn unsent(&self, rank: MdsRank) -> Vec<u64> {
        let due = self.unsent_ones().filter(|(_, r)| r.rank == rank && !r.answered).map(|(tid, _)| tid);
        due.filter(|tid| !self.is_held_back(*tid)).collect()
    }

    /// The requests whose callers have an answer, an unsafe one or a promise: `rank` is to replay them, in
    /// this order.
    pub(crate) fn replays(&self, rank: MdsRank) -> Vec<u64> {
        let is_promised = |tid: &u64| self.promises.contains_key(tid) && !forgets_promises();
        let due = self.unsent_ones().filter(|(tid, r)| r.rank == rank && (r.answered || is_promised(tid)));
        due.map(|(tid, _)| tid).collect()
    }

    /// The caller of `op` does not want to wait for its lock any longer. A request that is with no rank is
    /// dropped.
    pub(crate) fn interrupt(&mut self, op: OpId) -> Interrupted {
        let own = self.in_flight.iter_mut().find(|(_, r)| r.op == Some(op) && !r.answered);
        match own {
            Some((tid, entry)) if self.unsent.contains(tid) && !entry.interrupted => {
                let tid = *tid;
                self.remove(tid);
                Interrupted::Dropped
            }
            Some((_, entry)) if !entry.interrupted && waits_for_lock(&entry.request) => {
                entry.interrupted = true;
                Interrupted::Tell(entry.rank, entry.request.clone())
            }
            Some(_) => Interrupted::Told,
            None => Interrupted::Dropped,
        }
    }

    /// Drops the requests to `rank` whose callers do not want to wait any longer, and what it was told of
    /// that: its session is lost, and what waits for locks there is forgotten. Returns their operations.
    pub(crate) fn drop_interrupted(&mut self, rank: MdsRank) -> Vec<OpId> {
        // Of an asynchronous request nobody waits for the answer either, but it must reach the next MDS.
        let tells = |r: &InFlight| r.op.is_none() && r.request.op == MdsOp::SETFILELOCK;
        let is_over = |r: &InFlight| r.rank == rank && (r.interrupted || tells(r));
        self.extract(is_over).into_iter().filter_map(|r| r.op).collect()
    }

    /// Drops the requests to `rank` for file locks: the session can't be had back, and with it goes what a
    /// lock rests on. Returns their operations.
    pub(crate) fn drop_locks(&mut self, rank: MdsRank) -> Vec<OpId> {
        let is_lock = |r: &InFlight| r.rank == rank && r.request.op == MdsOp::SETFILELOCK;
        self.extract(is_lock).into_iter().filter_map(|r| r.op).collect()
    }

    /// Drops the requests to `rank` that change something, and that it may have carried out without an
    /// answer. Returns their operations.
    pub(crate) fn drop_unknown(&mut self, rank: MdsRank) -> Vec<(OpId, MdsOp)> {
        let is_unknown = |r: &InFlight| r.rank == rank && r.attempts > 0 && !r.answered;
        let unknown = self.extract(|r| is_unknown(r) && r.op.is_some() && changes_something(&r.request));
        unknown.into_iter().filter_map(|r| Some((r.op?, r.request.op))).collect()
    }

    /// The session with `rank` is lost: its requests are to be sent again.
    pub(crate) fn session_lost(&mut self, rank: MdsRank) {
        for (tid, entry) in self.in_flight.iter_mut().filter(|(_, r)| r.rank == rank) {
            if entry.answered {
                entry.request.flags |= request_flag::REPLAY;
            }
            self.unsent.insert(*tid);
        }
    }

    /// The session with `rank` can't be had back: nothing is replayed. Returns the number of requests whose
    /// changes may be lost although their callers have an answer, and the promises among them.
    pub(crate) fn session_forgotten(&mut self, rank: MdsRank) -> (usize, Vec<Promise>) {
        let of_rank = self.in_flight.iter().filter(|(_, r)| r.rank == rank);
        self.unsent.extend(of_rank.map(|(tid, _)| *tid));
        let lost = self.extract(|r| r.rank == rank && (r.answered || r.op.is_none())).len();
        let Self { in_flight, promises, .. } = self;
        let broken = promises.extract_if(.., |tid, _| !in_flight.contains_key(tid));
        let broken = broken.map(|(_, promise)| promise).collect();
        (lost, broken)
    }

    /// Chooses another rank for each unsent request that `choose` has one for.
    pub(crate) fn redirect_unsent(&mut self, choose: impl Fn(MdsRank, &ClientRequest) -> Option<MdsRank>) {
        for tid in &self.unsent {
            if let Some(entry) = self.in_flight.get_mut(tid).filter(|r| !r.answered)
                && let Some(rank) = choose(entry.rank, &entry.request)
            {
                entry.rank = rank;
            }
        }
    }

    /// Rank `from` has forwarded a request to `to`, as its forward number `num_fwd`: it is to be sent there.
    /// Returns false for a forward that is not newer than the last one, or of a request that is not with
    /// `from`.
    pub(crate) fn forwarded(&mut self, tid: u64, from: MdsRank, to: MdsRank, num_fwd: u32) -> bool {
        let Some(entry) = self.in_flight.get_mut(&tid) else { return false };
        let is_unsent = self.unsent.contains(&tid);
        if entry.rank != from || is_unsent || entry.answered || num_fwd <= entry.request.num_fwd {
            return false;
        }
        entry.request.num_fwd = num_fwd;
        entry.rank = to;
        self.unsent.insert(tid);
        // A rank that forwards a request has not carried it out.
        entry.attempts = entry.attempts.saturating_sub(1);
        true
    }

    /// Rank `from` has answered.
    pub(crate) fn answered(&mut self, tid: u64, from: MdsRank, reply: &ClientReply) -> Option<Replied> {
        let entry = self.in_flight.get_mut(&tid).filter(|r| r.rank == from)?;
        let (op, first, is_repeat) = (entry.op, !entry.answered, entry.attempts > 1);
        let promise = self.promises.remove(&tid);
        if reply.safe {
            let ended = self.remove(tid).map(|entry| (entry.request, entry.recall));
            let is_lost = (!first || promise.is_some()) && reply.result < 0;
            return Some(Replied { op, promise, first, is_lost, is_repeat, ended });
        }
        entry.answered = true;
        self.unanswered.remove(&tid);
        // A replay tells the inode number that the request was given.
        entry.request.ino = reply.trace.target.as_ref().map_or(0, |t| t.ino);
        Some(Replied { op, promise, first, is_lost: false, is_repeat, ended: None })
    }

    /// Asserts the invariants.
    pub(crate) fn check(&self) {
        assert!(self.in_flight.keys().next_back().is_none_or(|tid| *tid <= self.last_tid));
        assert!(
            self.unanswered.len() <= self.in_flight.len() && self.promises.len() <= self.unanswered.len()
        );
        if cfg!(debug_assertions) {
            self.check_all();
        }
    }

    fn check_all(&self) {
        assert!(self.unsent.iter().all(|tid| self.in_flight.contains_key(tid)), "nothing is left to be sent");
        let unanswered = self.in_flight.iter().filter(|(_, r)| !r.answered).map(|(tid, _)| tid);
        assert!(unanswered.eq(&self.unanswered), "the requests without an answer");
        assert!(self.in_flight.values().all(|r| !r.answered || r.attempts > 0), "an answer to no question");
        let is_open = |tid| self.in_flight.get(tid).is_some_and(|r: &InFlight| !r.answered);
        assert!(self.promises.keys().all(is_open), "a promise of no request");
    }
}

/// A planted fault: a new MDS is not told first what callers were promised.
fn forgets_promises() -> bool {
    stdx::mutants::is_active("client_forgets_promises")
}
