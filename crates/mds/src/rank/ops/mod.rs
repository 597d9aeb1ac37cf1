//! Running operations (docs/design.md, decision 8): `prepare` reads the cache and either lacks something,
//! fails or has a plan. What it lacks is fetched and it starts again from scratch. A plan is carried out at
//! once: its event is journaled and applied, its reply queued behind the event.

mod counters;
mod early;
mod op;
mod reply;
mod run;
mod under_way;

pub(super) use reply::empty as empty_reply;

use super::caps::Caps;
use super::env::{Env, Loaded};
use super::sessions::Sessions;
use crate::cache::Cache;
use crate::cap::Late;
use crate::types::{ClientId, Need, OpId};
use counters::Counters;
use fsfmt::InodeKey;
use msgs::{ClientRequest, MdsOp};
use op::Op;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stdx::Instant;
use under_way::UnderWay;
use wire::Errno;

/// Operations under way.
///
/// Invariants: between inputs each operation waits for something: for needs, or for space in the journal. An
/// operation that runs is taken out of the table, so that nothing else changes it meanwhile.
#[derive(Default)]
pub(super) struct Ops {
    ops: BTreeMap<OpId, Op>,
    ready: VecDeque<OpId>,
    /// Operations that wait for space in the journal.
    space_waiters: BTreeSet<OpId>,
    /// True if operations wait for absent clients.
    waits_for_absent: bool,
    /// True if operations wait for repeated requests.
    waits_for_promises: bool,
    under_way: UnderWay,
    last_id: u64,
    counters: Counters,
}

impl Ops {
    /// Starts a client's request.
    pub fn start(&mut self, now: Instant, client: ClientId, tid: u64, request: ClientRequest) {
        self.counters.count(&request);
        self.last_id += 1;
        let id = OpId(self.last_id);
        let op = Op::new(now, id, client, tid, request);
        self.under_way.begin(&op);
        self.ops.insert(id, op);
        self.ready.push_back(id);
    }

    /// The next operation that can run; one that `changes` something only if the journal takes changes.
    fn take_ready(&mut self, takes_changes: bool) -> Option<Op> {
        while let Some(id) = self.ready.pop_front() {
            let Some(op) = self.ops.remove(&id) else { continue };
            if takes_changes || !op.request.op.writes() {
                return Some(op);
            }
            self.space_waiters.insert(id);
            self.ops.insert(id, op);
        }
        None
    }

    /// Notes that some of an operation's needs are satisfied.
    fn satisfy(&mut self, id: OpId, is_satisfied: impl Fn(&Need) -> bool) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        let before = op.needs.len();
        op.needs.retain(|need| !is_satisfied(need));
        if before > 0 && op.needs.is_empty() {
            self.ready.push_back(id);
        }
    }

    /// Handles a completed load.
    pub fn loaded(&mut self, cache: &Cache, loaded: &Loaded) {
        for id in &loaded.ops {
            let Some(op) = self.ops.get_mut(id) else { continue };
            op.pages.extend(loaded.page.clone());
            match &loaded.need {
                Need::Inode(ino) if loaded.is_damaged => drop(op.missing.insert(*ino, Errno::EIO)),
                Need::Inode(ino) if !cache.inodes.contains_key(ino) => {
                    op.missing.insert(*ino, Errno::ESTALE);
                }
                _ => op.is_on_damage |= loaded.is_damaged,
            }
            self.satisfy(*id, |need| *need == loaded.need);
        }
    }

    /// Resumes operations that waited for this inode and lack nothing of it any more.
    pub fn wake(&mut self, cache: &Cache, ino: InodeKey) {
        let Some(inode) = cache.inodes.get(&ino) else { return };
        for id in &inode.under_way.waiters {
            self.satisfy(*id, |need| match need {
                Need::Revoke { ino: i, except, mask } if *i == ino => {
                    cache.revocation(ino, *except, *mask).is_none()
                }
                Need::Truncated(i) | Need::Stored(i) | Need::Lock(i) | Need::Announced(i) => *i == ino,
                _ => false,
            });
        }
    }

    /// Resumes operations that waited for absent clients.
    pub fn nobody_is_absent(&mut self) {
        if std::mem::take(&mut self.waits_for_absent) {
            self.wake_for(&Need::Absent);
        }
    }

    /// Resumes operations that waited for repeated requests, some of which were carried out.
    pub fn promises_kept(&mut self) {
        if std::mem::take(&mut self.waits_for_promises) {
            self.wake_for(&Need::Promised);
        }
    }

    /// Resumes operations with this need.
    pub fn wake_for(&mut self, need: &Need) {
        let ids: Vec<OpId> =
            self.ops.iter().filter(|(_, op)| op.needs.contains(need)).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.satisfy(id, |n| n == need));
    }

    /// The partition has changed: operations that wait for that run again, and if `all`, also those that wait
    /// for anything else, which may not be here any more.
    pub fn partition_changed(&mut self, all: bool) {
        for (id, op) in &mut self.ops {
            if !op.needs.is_empty() && (all || op.needs.iter().any(Need::is_of_ranks)) {
                op.needs.clear();
                self.ready.push_back(*id);
            }
        }
    }

    /// Resumes operations that did not find an inode: other ranks have stored what they have.
    pub fn all_is_stored(&mut self, ino: InodeKey) {
        for op in self.ops.values_mut().filter(|op| op.needs.contains(&Need::Sought(ino))) {
            *op.sought.entry(ino).or_default() += 1;
        }
        self.wake_for(&Need::Sought(ino));
    }

    /// Resumes operations that waited for journal space.
    pub fn wake_space_waiters(&mut self) {
        self.ready.extend(std::mem::take(&mut self.space_waiters));
    }

    /// Ends all operations of a client without answers.
    pub fn drop_client(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        caps: &mut Caps,
        client: ClientId,
    ) {
        let of_client = |(id, op): (&OpId, &Op)| (op.client == client).then_some(*id);
        let ids: Vec<OpId> = self.ops.iter().filter_map(of_client).collect();
        for op in ids.iter().filter_map(|id| self.ops.remove(id)).collect::<Vec<_>>() {
            self.end(env, cache, sessions, caps, op);
        }
    }

    /// Ends an operation that was taken out of the table.
    fn end(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, caps: &mut Caps, op: Op) {
        self.space_waiters.remove(&op.id);
        cache.locks.end_wait(op.id);
        for waiter in self.under_way.end(&op) {
            self.satisfy(waiter, |need| *need == Need::Earlier(op.id));
        }
        sessions.end_request(op.client, op.tid);
        caps.end_revocations(env, cache, sessions, op.id, op.touched);
    }

    /// What operations wait for longest that this client does not give back.
    pub fn late_revocation(&self, cache: &Cache, client: ClientId) -> Option<Late> {
        let needs = self.ops.values().flat_map(|op| &op.needs);
        let revoked = needs.filter_map(|need| match need {
            Need::Revoke { ino, except, .. } if *except != Some(client.into()) => Some(*ino),
            _ => None,
        });
        revoked.filter_map(|ino| cache.late(ino, client)).min()
    }

    /// The first run on whose loads an operation relies.
    pub fn oldest_run(&self) -> Option<u64> {
        self.ops.values().filter(|op| op.waits_for_loads()).map(Op::needs_since).min()
    }

    /// True if operations are to make or remove snapshots.
    pub fn change_snapshots(&self) -> bool {
        self.ops.values().any(|op| matches!(op.request.op, MdsOp::MKSNAP | MdsOp::RMSNAP))
    }

    /// True if no operation is under way.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Counts a message of another rank.
    pub fn note_rank(&mut self) {
        self.counters.count_rank();
    }

    /// Counts of requests.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Operations for people, with their needs.
    pub fn describe(&self) -> Vec<serde_json::Value> {
        self.ops.values().map(Op::describe).collect()
    }

    /// Asserts what holds between inputs.
    pub fn check(&self) {
        assert!(self.ready.is_empty(), "what can run has run");
        assert!(self.space_waiters.len() <= self.ops.len(), "what waits for space is under way");
        assert!(self.under_way.len() <= self.ops.len(), "asynchronous requests are among them");
    }

    /// Asserts the rest by a walk over all operations.
    pub fn check_all(&self) {
        let waits = |(id, op): (&OpId, &Op)| !op.needs.is_empty() || self.space_waiters.contains(id);
        assert!(self.ops.iter().all(waits), "each operation waits for something");
        assert!(self.space_waiters.iter().all(|id| self.ops.contains_key(id)));
    }
}
