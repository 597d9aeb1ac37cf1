//! The sessions with metadata servers, one for each rank that is in use: opening, requests, forwards, and
//! what happens when another MDS takes a rank over.

mod messages;

use crate::cache::Cache;
use crate::file_locks::FileLocks;
use crate::key::{InodeKey, OpId};
use crate::op::{Attempt, Outs, Stage, Step};
use crate::promise::Promise;
use crate::releases::Release;
use crate::requests::{Interrupted, Recall, Requests};
use crate::services::Services;
use crate::session::{Next, Session, State};
use maps::{Gid, MdsMap, MdsRank, MdsState};
use monc::ConnSpace;
use msgs::{
    Body, ClientReconnect, ClientReply, ClientRequest, ClientSession, FileLockArgs, MdsOp, cap_flag,
    cephfs_feature, lock_kind, lock_rule, session_op,
};
use node::{CloseReason, ConnId, Event, Level, Output, Target};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use stdx::{Instant, Now};
use wire::{EntityType, Errno, Utime};

/// Feature bits 0 to 9, 11 and 12: what the replies that we read need, and nothing that adds duties
/// (docs/protocol.md 6.2); and delegated inode numbers.
const FEATURES: u64 = 0x1bff | 1 << cephfs_feature::DELEG_INO;
const _: () = assert!(FEATURES >> cephfs_feature::REPLY_ENCODING & 1 == 1);

/// The most asynchronous requests to a rank without an answer. Beyond, callers wait.
const PROMISES: usize = 512;

/// The most capabilities on inodes that nobody uses which the next MDS of a rank is asked for.
const MAX_IDLE_CLAIMS: usize = 4096;

/// What happens to those who have lost locks, for the log.
const LOCKERS_FAIL: &str = "what was opened to lock them fails with EIO until it is closed";

/// Something that the client has to act on.
#[derive(Debug)]
pub(crate) enum SessionEvent {
    /// A session serves.
    Opened,
    /// An operation's request was answered.
    Replied { op: OpId, rank: MdsRank, reply: Box<ClientReply>, is_repeat: bool },
    /// An operation may go on.
    Woken(OpId),
    /// An MDS refuses this client, which is on the blocklist; it says so in these words.
    Refused(String),
    /// All sessions are closed: the client ends.
    Closed,
}

/// What was lost with sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Lost {
    /// Files with writes that had not arrived.
    files: usize,
    /// Changes of names that were answered, and are not known to be safe.
    changes: usize,
    /// Files with locks.
    locked_files: usize,
}

/// Everything besides the sessions that handling an input of theirs needs.
pub(crate) struct Env<'a> {
    pub(crate) now: Now,
    pub(crate) cache: &'a mut Cache,
    pub(crate) services: &'a Services,
    pub(crate) locks: &'a mut FileLocks,
    pub(crate) out: &'a mut Outs,
}

/// The sessions, the requests in flight on them, and the map of ranks.
///
/// Invariant: at most one session a rank; the root's rank has one, in whatever state, once there is a map.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// Sessions are wanted at all.
    mounts: bool,
    /// The time for which messages that nobody waits for gather.
    gather: Duration,
    /// The description of this client for REQUEST_OPEN.
    metadata: BTreeMap<String, String>,
    space: ConnSpace,
    map: MdsMap,
    sessions: BTreeMap<MdsRank, Session>,
    requests: Requests,
    /// Ranks to which capabilities move, and with which there is no session yet.
    wanted: BTreeSet<MdsRank>,
    /// Operations that wait for the safe answers to requests, each up to this one.
    journal_waiters: BTreeMap<OpId, u64>,
    /// Changes that were answered and are lost, and nobody who syncs was told so.
    lost: usize,
    /// This client was evicted, and has not come back yet: it opens no session.
    is_evicted: bool,
    events: VecDeque<SessionEvent>,
}

impl Sessions {
    /// No session yet. Connections are numbered in `space`; messages that nobody waits for gather for the
    /// time `gather`.
    pub(crate) fn new(mounts: bool, space: u8, gather: Duration, metadata: BTreeMap<String, String>) -> Self {
        Self {
            mounts,
            gather,
            metadata,
            space: ConnSpace::new(space),
            map: MdsMap::default(),
            sessions: BTreeMap::new(),
            requests: Requests::default(),
            wanted: BTreeSet::new(),
            journal_waiters: BTreeMap::new(),
            lost: 0,
            is_evicted: false,
            events: VecDeque::new(),
        }
    }

    pub(crate) fn map(&self) -> &MdsMap {
        &self.map
    }

    /// The state of the session with the rank of the root.
    pub(crate) fn root_state(&self) -> State {
        self.sessions.get(&self.map.root).map_or(State::Closed, Session::state)
    }

    /// True if all MDSs in use take renames with flags, which those of Ceph do not.
    pub(crate) fn renames_with_flags(&self) -> bool {
        self.sessions.values().all(Session::renames_with_flags)
    }

    /// True while the client gives its sessions back.
    pub(crate) fn is_closing(&self) -> bool {
        self.sessions.values().any(|s| s.state() == State::Closing)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.sessions.values().filter_map(Session::deadline).min()
    }

    /// The oldest request without an answer.
    pub(crate) fn oldest_request(&self) -> Option<u64> {
        self.requests.oldest_unanswered()
    }

    pub(crate) fn next_event(&mut self) -> Option<SessionEvent> {
        self.events.pop_front()
    }

    pub(super) fn is_open(&self, rank: MdsRank) -> bool {
        self.sessions.get(&rank).is_some_and(|s| s.state() == State::Open)
    }

    fn send(&mut self, rank: MdsRank, body: impl Into<node::Body>, tid: u64, out: &mut Outs) {
        if let Some(session) = self.sessions.get_mut(&rank) {
            session.send(body, tid, out);
        }
    }

    /// Sends a message that nobody here waits for, soon.
    fn send_soon(&mut self, now: Now, rank: MdsRank, body: node::Body, tid: u64, out: &mut Outs) {
        if let Some(session) = self.sessions.get_mut(&rank) {
            session.send_soon(now, body, tid, out);
        }
    }

    /// Sends the messages that gather: somebody waits for what follows from them.
    pub(crate) fn send_awaited(&mut self, out: &mut Outs) {
        self.sessions.values_mut().for_each(|session| session.send_awaited(out));
    }

    fn session(&mut self, rank: MdsRank) -> &mut Session {
        self.sessions.entry(rank).or_insert_with(|| Session::new(rank, self.gather))
    }

    // Requests.

    /// Sends the request of an operation; the answer is handed to the operation.
    pub(crate) fn ask(&mut self, attempt: &mut Attempt<'_>, cache: &Cache, request: ClientRequest) -> Step {
        let rank = self.choose_rank(cache, &request);
        self.ask_rank(attempt, rank, request)
    }

    /// The same for a request about a fragment of a directory.
    pub(crate) fn ask_fragment(
        &mut self,
        attempt: &mut Attempt<'_>,
        cache: &Cache,
        request: ClientRequest,
        frag: u32,
    ) -> Step {
        let learnt = cache.partition().rank_of_frag(InodeKey::head(request.path.ino), frag);
        let learnt = learnt.filter(|rank| self.has_rank(*rank));
        let rank = learnt.unwrap_or_else(|| self.choose_rank(cache, &request));
        self.ask_rank(attempt, rank, request)
    }

    fn ask_rank(&mut self, attempt: &mut Attempt<'_>, rank: MdsRank, mut request: ClientRequest) -> Step {
        request.head_version = 1;
        request.stamp = Utime::from(attempt.now().wall);
        let op = attempt.op();
        self.enqueue(Some(op), rank, Box::new(request), Recall::NotYet, attempt.out());
        attempt.wait_at(Stage::AtMds)
    }

    fn enqueue(
        &mut self,
        op: Option<OpId>,
        rank: MdsRank,
        request: Box<ClientRequest>,
        recall: Recall,
        out: &mut Outs,
    ) {
        let tid = self.requests.add(op, rank, request, recall);
        self.transmit(tid, out);
    }

    /// Sends a request if its rank serves; otherwise it waits until that does.
    fn transmit(&mut self, tid: u64, out: &mut Outs) {
        let Some(rank) = self.requests.rank_of(tid) else { return };
        // A session that does not exist yet is opened at the end of the input, and what is held back is sent
        // then.
        if self.serves(rank) && !self.requests.is_held_back(tid) {
            self.transmit_now(rank, tid, out);
        }
    }

    fn serves(&self, rank: MdsRank) -> bool {
        self.sessions.get(&rank).is_some_and(|session| session.serves(&self.map))
    }

    /// True if `rank` serves, is the authority of what an asynchronous request is about, and owes few
    /// answers.
    pub(crate) fn takes_promises(&self, cache: &Cache, rank: MdsRank, request: &ClientRequest) -> bool {
        self.requests.has_fewer_promises(rank, PROMISES) && self.is_asked_next(cache, rank, request)
    }

    /// True if `rank` takes the data of small new files.
    pub(crate) fn takes_small_files(&self, rank: MdsRank) -> bool {
        self.sessions.get(&rank).is_some_and(Session::takes_small_files)
    }

    /// True if `rank` takes asynchronous requests about directories.
    pub(crate) fn takes_async_dirs(&self, rank: MdsRank) -> bool {
        self.sessions.get(&rank).is_some_and(Session::takes_async_dirs)
    }

    /// True if a request would go to `rank` next.
    pub(crate) fn is_asked_next(&self, cache: &Cache, rank: MdsRank, request: &ClientRequest) -> bool {
        self.serves(rank) && self.choose_rank(cache, request) == rank
    }

    /// Takes a number for an inode that is created asynchronously, if `rank` has delegated any.
    pub(crate) fn take_number(
        &mut self,
        cache: &Cache,
        rank: MdsRank,
        create: &ClientRequest,
    ) -> Option<u64> {
        if !self.takes_promises(cache, rank, create) {
            return None;
        }
        self.sessions.get_mut(&rank)?.take_number()
    }

    /// Sends an asynchronous request: its caller has the answer.
    pub(crate) fn send_promise(
        &mut self,
        now: Now,
        rank: MdsRank,
        mut request: ClientRequest,
        promise: Promise,
        out: &mut Outs,
    ) {
        request.head_version = 1;
        request.stamp = Utime::from(now.wall);
        let tid = self.requests.add_promise(rank, Box::new(request), promise);
        if let Some(message) = self.requests.send(tid, self.map.epoch) {
            self.send_soon(now, rank, node::Body::from(Body::from(message)), tid, out);
        }
    }

    fn transmit_now(&mut self, rank: MdsRank, tid: u64, out: &mut Outs) {
        if let Some(message) = self.requests.send(tid, self.map.epoch) {
            self.send(rank, Body::from(message), tid, out);
        }
    }

    /// The rank that is the authority of what a request is about, as far as we know; the root's rank
    /// otherwise.
    fn choose_rank(&self, cache: &Cache, request: &ClientRequest) -> MdsRank {
        let base = InodeKey::head(request.path.ino);
        let name = &request.path.path;
        // Of a path through a snapshot, only the live directory is known to have an authority.
        let by_name = || cache.partition().rank_of_name(base, name);
        let by_replica =
            || cache.partition().replica_for_name(base, name).filter(|_| request.op == MdsOp::LOOKUP);
        let is_name = !name.is_empty() && !name.contains(&b'/');
        let by_name = if is_name { by_replica().or_else(by_name) } else { None };
        // Without a capability the last rank is asked: one that never knew the inode has to search for it.
        let by_cap = || cache.inode(base)?.caps().last_rank();
        by_name.or_else(by_cap).filter(|rank| self.has_rank(*rank)).unwrap_or(self.map.root)
    }

    fn has_rank(&self, rank: MdsRank) -> bool {
        self.map.r#in.contains(&rank) || self.map.up.contains_key(&rank)
    }

    /// Opens the sessions that requests wait for and that do not exist yet.
    pub(crate) fn open_needed(&mut self, env: &mut Env<'_>) {
        self.redirect_requests(env.cache);
        let is_there = |rank: &MdsRank| self.sessions.get(rank).is_some_and(|session| !session.is_closed());
        let wanted = std::mem::take(&mut self.wanted).into_iter().filter(|rank| !is_there(rank)).collect();
        self.wanted = wanted;
        let mut needed = self.requests.ranks_with_unsent();
        needed.extend(&self.wanted);
        for rank in needed {
            let session = self.session(rank);
            let is_idle = session.is_closed() && session.deadline().is_none();
            let is_open = session.state() == State::Open;
            match self.map.state_of(rank).serves() {
                true if is_open => self.resend(rank, env.out),
                true if is_idle => self.open_session(rank, env),
                _ => {}
            }
        }
    }

    /// Waits until everything that was answered unsafely before the operation's first call is safe. Returns
    /// false if it is.
    pub(crate) fn wait_for_journal(&mut self, op: OpId, out: &mut Outs) -> bool {
        let is_new = !self.journal_waiters.contains_key(&op);
        let last = *self.journal_waiters.entry(op).or_insert(self.requests.last_tid());
        let ranks = self.requests.ranks_with_unsafe(last);
        if ranks.is_empty() {
            self.journal_waiters.remove(&op);
            return false;
        }
        if is_new {
            for rank in ranks {
                self.session(rank).send_op(session_op::REQUEST_FLUSH_MDLOG, out);
            }
        }
        true
    }

    /// Wakes the operations that wait for no safe answer any more.
    fn wake_journal_waiters(&mut self) {
        let Self { journal_waiters, requests, events, .. } = self;
        let ready = journal_waiters.iter().filter(|(_, last)| requests.ranks_with_unsafe(**last).is_empty());
        events.extend(ready.map(|(op, _)| SessionEvent::Woken(*op)));
    }

    /// True if changes that were answered are lost, and no caller of this was told so yet.
    pub(crate) fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.lost) > 0
    }

    // The map.

    /// A newer MDS map.
    pub(crate) fn take_map(&mut self, map: MdsMap, env: &mut Env<'_>) {
        if map.epoch <= self.map.epoch {
            return;
        }
        self.map = map;
        if !self.mounts {
            return;
        }
        self.follow_all(env);
        let needed = self.requests.ranks_with_unsent();
        let map = &self.map;
        self.sessions.retain(|rank, session| {
            *rank == map.root || !session.is_closed() || map.r#in.contains(rank) || needed.contains(rank)
        });
    }

    fn follow_all(&mut self, env: &mut Env<'_>) {
        self.redirect_requests(env.cache);
        let root = self.map.root;
        let mut ranks = self.requests.ranks_with_unsent();
        ranks.extend(self.sessions.keys().chain([&root]));
        for rank in ranks {
            self.follow_map(rank, env);
        }
    }

    /// Chooses another rank for requests whose rank does not exist any more.
    fn redirect_requests(&mut self, cache: &Cache) {
        let mut requests = std::mem::take(&mut self.requests);
        requests.redirect_unsent(|rank, request| {
            (!self.has_rank(rank)).then(|| self.choose_rank(cache, request))
        });
        self.requests = requests;
    }

    fn follow_map(&mut self, rank: MdsRank, env: &mut Env<'_>) {
        let Self { sessions, map, .. } = self;
        let session = sessions.entry(rank).or_insert_with(|| Session::new(rank, self.gather));
        if session.state() == State::Closing {
            return;
        }
        // What came to a rank without a session is claimed: it may have been restarted since. Ceph's servers
        // take no claims once they serve, but give the session that they have recorded.
        let (is_closed, serves, is_lost) =
            (session.is_closed(), map.state_of(rank).serves(), session.is_lost_by(map));
        let is_ours = self.sessions.values().any(Session::takes_async_dirs);
        let claims = is_closed && (!serves || is_ours) && env.cache.holds_of(rank);
        if is_lost || claims {
            self.lose_session(rank, env);
        }
        if claims && serves {
            self.session(rank).claim_now();
        }
        let is_open = !self.session(rank).is_closed();
        if is_open && !self.has_rank(rank) && rank != self.map.root {
            return self.forget_session(rank, "the rank has stopped", env);
        }
        let Self { sessions, map, .. } = self;
        let next = sessions.get_mut(&rank).map_or(Next::Nothing, |session| session.follow_map(map));
        self.go_on(rank, next, env);
    }

    fn go_on(&mut self, rank: MdsRank, next: Next, env: &mut Env<'_>) {
        match next {
            Next::Nothing => {}
            Next::Open => self.open_session(rank, env),
            Next::Reopen(why) => {
                self.forget_session(rank, why, env);
                self.open_session(rank, env);
            }
            Next::Reconnect => self.reconnect_session(rank, env),
            Next::Resend => self.resend(rank, env.out),
            Next::Left => self.session_left(rank),
        }
    }

    // Opening and losing sessions.

    fn connect(&mut self, rank: MdsRank, state: State, env: &mut Env<'_>) -> bool {
        let Some(holder) = self.map.holder(rank) else { return false };
        let (gid, Some(addr)): (Gid, _) = (holder.gid, holder.addrs.msgr2()) else { return false };
        let conn = self.space.next_id();
        let old = self.session(rank).connect(state, conn, gid);
        env.out.extend(old.map(|conn| Output::Close { conn }));
        let auth = env.services.mds_auth();
        let to = Box::new(Target { service: EntityType::MDS, addr, lossless: true, auth });
        env.out.push(Output::Connect { conn, to });
        true
    }

    /// New tickets: a connection may have to be dialled again when the one that it began with has ended.
    pub(crate) fn renew_tickets(&self, services: &Services, out: &mut Outs) {
        for conn in self.sessions.values().filter_map(Session::conn) {
            out.push(Output::Renew { conn, auth: services.mds_auth() });
        }
    }

    fn open_session(&mut self, rank: MdsRank, env: &mut Env<'_>) {
        if !self.is_evicted && self.connect(rank, State::Opening, env) {
            let (metadata, features) = (self.metadata.clone(), ClientSession::feature_bytes(FEATURES));
            let open = ClientSession::of(session_op::REQUEST_OPEN, 0);
            self.send(rank, Body::from(ClientSession { metadata, features, ..open }), 0, env.out);
        }
    }

    fn reconnect_session(&mut self, rank: MdsRank, env: &mut Env<'_>) {
        self.requests.session_lost(rank);
        if self.connect(rank, State::Reconnecting, env) {
            // Before the claims, some of which are on what these make.
            // Asynchronous requests are among them, those too that were not answered at all.
            for tid in self.requests.replays(rank) {
                self.transmit_now(rank, tid, env.out);
            }
            for (tid, flush) in env.cache.repeat_flushes(rank) {
                self.send(rank, Body::from(flush), tid, env.out);
            }
            env.cache.give_up_idle(rank, MAX_IDLE_CLAIMS);
            let mut caps = env.cache.claims(rank);
            env.locks.add_to_claims(&mut caps);
            let claims = ClientReconnect { caps, realms: Vec::new(), more: false };
            self.send(rank, Body::from(claims), 0, env.out);
        }
    }

    fn lose_session(&mut self, rank: MdsRank, env: &mut Env<'_>) {
        let conn = self.session(rank).lose(env.now, env.cache.holds_of(rank));
        env.out.extend(conn.map(|conn| Output::Close { conn }));
        self.requests.session_lost(rank);
        let Env { cache, locks, .. } = env;
        locks.mds_lost(|key| cache.inode(key).is_some_and(|inode| inode.rests_on(rank)));
        self.end_interrupted(rank);
        env.cache.suspend(rank);
    }

    /// The session can't be had back: its capabilities are void, and what was buffered under them is lost,
    /// which is logged.
    fn forget_session(&mut self, rank: MdsRank, why: &str, env: &mut Env<'_>) {
        let Lost { files, changes, locked_files } = self.void_session(rank, env);
        if locked_files > 0 {
            let detail = format!("on {locked_files} files; {LOCKERS_FAIL}");
            env.out.push(Output::Event(Event::new(Level::Warn, "file_locks_lost", detail)));
        }
        // A rank that stops closes its sessions when it has handed everything over.
        let level = match files + changes {
            0 if self.map.state_of(rank) != MdsState::ACTIVE => Level::Info,
            0 => Level::Warn,
            _ => Level::Error,
        };
        let detail =
            format!("{why}; files with lost writes: {files}; changes of names that may be lost: {changes}");
        env.out.push(Output::Event(Event::new(level, "mds_session_lost", detail)));
        self.wake_journal_waiters();
    }

    /// Drops all that rests on a session. Returns what is lost.
    fn void_session(&mut self, rank: MdsRank, env: &mut Env<'_>) -> Lost {
        self.session(rank).forget();
        self.end_interrupted(rank);
        self.refuse_locks(rank);
        let Env { cache, locks, .. } = env;
        let locked_files = locks.lose(|key| cache.inode(key).is_none_or(|inode| inode.rests_on(rank)));
        let files = env.cache.lose_session(rank);
        let (changes, promises) = self.requests.session_forgotten(rank);
        promises.iter().for_each(|promise| env.cache.end_promise(promise, false));
        self.lost += changes;
        Lost { files, changes, locked_files }
    }

    // Evictions.

    /// True until a client that was evicted is back.
    pub(crate) fn is_evicted(&self) -> bool {
        self.is_evicted
    }

    /// This client was evicted, for the reason `why`: others may have what it held. It opens no session
    /// before [`Self::come_back`]. What is lost is logged in one line.
    pub(crate) fn evicted(&mut self, why: &str, env: &mut Env<'_>) {
        self.is_evicted = true;
        let (mut all, mut calls) = (Lost::default(), 0);
        for rank in self.sessions.keys().copied().collect::<Vec<_>>() {
            let conn = self.session(rank).disconnect();
            env.out.extend(conn.map(|conn| Output::Close { conn }));
            calls += self.fail_unknown(rank);
            let lost = self.void_session(rank, env);
            all.files += lost.files;
            all.changes += lost.changes;
            all.locked_files += lost.locked_files;
        }
        let Lost { files, changes, locked_files } = all;
        let mut detail = format!(
            "{why}; it comes back as a new client; files with lost writes: {files}; changes of names that \
             may be lost: {changes}; calls that failed: {calls}"
        );
        if locked_files > 0 {
            detail.push_str(&format!("; files with lost locks: {locked_files}; {LOCKERS_FAIL}"));
        }
        let level = if files + changes > 0 { Level::Error } else { Level::Warn };
        env.out.push(Output::Event(Event::new(level, "evicted", detail)));
        self.wake_journal_waiters();
    }

    /// The next instance of this client may open sessions.
    pub(crate) fn come_back(&mut self, env: &mut Env<'_>) {
        self.is_evicted = false;
        if self.mounts {
            self.follow_all(env);
        }
    }

    /// Requests that change something, and may have been carried out without an answer, fail: carried out
    /// again for the next instance, they would undo what others have done since. Returns their number.
    fn fail_unknown(&mut self, rank: MdsRank) -> usize {
        let unknown = self.requests.drop_unknown(rank);
        let calls = unknown.len();
        unknown.into_iter().for_each(|(op, what)| self.fail(op, rank, what));
        calls
    }

    /// Operations whose callers do not want to wait for a lock any longer go on: `rank` has forgotten them.
    fn end_interrupted(&mut self, rank: MdsRank) {
        self.events.extend(self.requests.drop_interrupted(rank).into_iter().map(SessionEvent::Woken));
    }

    /// Who waits for a lock is not given it in another session: the capability that it was to rest on is
    /// gone.
    fn refuse_locks(&mut self, rank: MdsRank) {
        for op in self.requests.drop_locks(rank) {
            self.fail(op, rank, MdsOp::SETFILELOCK);
        }
    }

    /// The operation gets EIO as if `rank` had answered its request.
    fn fail(&mut self, op: OpId, rank: MdsRank, what: MdsOp) {
        let result = Errno::EIO.to_result_code();
        let reply = Box::new(ClientReply { op: what, safe: true, result, ..ClientReply::default() });
        self.events.push_back(SessionEvent::Replied { op, rank, reply, is_repeat: false });
    }

    /// The caller of `op` does not want to wait for its lock any longer. Returns true if the MDS has yet to
    /// say what came first, the lock or that.
    pub(crate) fn interrupt(&mut self, op: OpId, out: &mut Outs) -> bool {
        match self.requests.interrupt(op) {
            Interrupted::Told => true,
            Interrupted::Dropped => false,
            Interrupted::Tell(rank, mut request) => {
                let mut args: FileLockArgs = request.args.get();
                args.rule += lock_rule::INTERRUPT;
                (args.kind, args.wait) = (lock_kind::UNLOCK, 0);
                (request.args, request.num_retry) = (args.into(), 0);
                self.enqueue(None, rank, request, Recall::Done, out);
                true
            }
        }
    }

    /// Sends a rank the requests without an answer, once it is active.
    fn resend(&mut self, rank: MdsRank, out: &mut Outs) {
        if self.map.state_of(rank).serves() {
            for tid in self.requests.unsent(rank) {
                self.transmit_now(rank, tid, out);
            }
        }
    }

    /// A connection has ended.
    pub(crate) fn closed(&mut self, conn: ConnId, reason: CloseReason, env: &mut Env<'_>) {
        let Some(rank) = self.rank_of_conn(conn) else { return };
        let session = self.session(rank);
        match session.disconnected() {
            State::Closing => self.session_left(rank),
            State::Opening | State::Closed => session.failed_to_open(env.now),
            was => {
                let event = Event::new(Level::Info, "mds_connection_lost", reason.to_string());
                env.out.push(Output::Event(event));
                self.lose_session(rank, env);
                self.session(rank).wait_after(env.now, was, reason);
            }
        }
    }

    fn rank_of_conn(&self, conn: ConnId) -> Option<MdsRank> {
        self.sessions.iter().find(|(_, s)| s.conn() == Some(conn)).map(|(rank, _)| *rank)
    }

    /// Timers of the sessions.
    pub(crate) fn timer(&mut self, env: &mut Env<'_>) {
        let ranks: Vec<MdsRank> = self.sessions.keys().copied().collect();
        for rank in ranks {
            let Self { sessions, map, .. } = self;
            let Some(session) = sessions.get_mut(&rank) else { continue };
            let next = session.timer(env.now, map, env.out);
            self.go_on(rank, next, env);
        }
    }

    /// Gives all sessions back; [`SessionEvent::Closed`] follows.
    pub(crate) fn close(&mut self, now: Now, out: &mut Outs) {
        let waits = self.sessions.values_mut().map(|session| session.close(now, out));
        // Every session is told, hence no `any`.
        if waits.filter(|waits| *waits).count() == 0 {
            self.events.push_back(SessionEvent::Closed);
        }
    }

    /// A session has ended while the client leaves.
    fn session_left(&mut self, rank: MdsRank) {
        self.session(rank).forget();
        if !self.is_closing() {
            self.events.push_back(SessionEvent::Closed);
        }
    }

    // Capabilities.

    /// Sends the message about an inode's capability that is due, if its session is open.
    pub(crate) fn send_cap_message(&mut self, now: Now, cache: &mut Cache, key: InodeKey, out: &mut Outs) {
        // No MDS is told anything of an inode that it does not know yet.
        let inode = cache.inode(key).filter(|inode| !inode.promised().is_new());
        let Some(cap) = inode.and_then(|inode| inode.caps().cap()) else { return };
        let rank = cap.auth_rank();
        if self.is_open(rank)
            && let Some((tid, message)) = cache.take_cap_message(key)
        {
            // It may give back what an MDS waits for.
            let hurries = message.flags & cap_flag::SYNC != 0;
            self.send_soon(now, rank, node::Body::from(Body::from(message)), tid, out);
            if hurries {
                self.send_awaited(out);
            }
        }
    }

    /// Gives back the capabilities that the cache has dropped.
    pub(crate) fn send_releases(&mut self, now: Now, cache: &mut Cache, out: &mut Outs) {
        let mut sooner = BTreeSet::new();
        for Release { rank, item, is_awaited } in cache.take_releases() {
            let Some(session) = self.sessions.get_mut(&rank) else { continue };
            if session.release_later(now, item) || is_awaited {
                sooner.insert(rank);
            }
        }
        for rank in sooner {
            self.session(rank).send_releases(now, out);
        }
    }

    /// Asserts the invariants after an input.
    pub(crate) fn check(&self) {
        self.sessions.values().for_each(Session::check);
        self.requests.check();
    }
}

#[cfg(test)]
impl Sessions {
    /// A session with the root's rank in this state, on a new connection.
    pub(crate) fn pretend(&mut self, state: State) -> ConnId {
        let (conn, root) = (self.space.next_id(), self.map.root);
        self.session(root).pretend(state, conn);
        conn
    }

    /// The map as if it named an active MDS for `rank`, with the gid of its session.
    pub(crate) fn pretend_active(&mut self, rank: MdsRank, gid: Option<Gid>) {
        let gid = gid.unwrap_or_else(|| self.session(rank).gid());
        let addrs = wire::EntityAddr::msgr2(([127, 0, 0, 1], 6800).into(), 1).into();
        let info = maps::MdsInfo { gid, state: MdsState::ACTIVE, rank, addrs, ..maps::MdsInfo::default() };
        self.map.mds_info.insert(gid, info);
        self.map.up.insert(rank, gid);
    }

    /// The session of the root's rank as if its server had announced this.
    pub(crate) fn pretend_announced(&mut self, what: &str) {
        let root = self.map.root;
        self.session(root).pretend_announced(what);
    }

    /// The session of the root's rank as if messages that nobody waits for gathered for this time.
    pub(crate) fn pretend_gathering(&mut self, time: Duration) {
        let root = self.map.root;
        self.session(root).pretend_gathering(time);
    }

    /// Numbers as if the root's rank had delegated them.
    pub(crate) fn pretend_delegated(&mut self, first: u64, count: u64) {
        let mut numbers = maps::IntervalSet::new();
        numbers.insert(first, count);
        let root = self.map.root;
        self.session(root).add_numbers(&numbers);
    }

    /// What a new MDS of a rank is sent again before the claims.
    pub(crate) fn repeats(&mut self, rank: MdsRank) -> Vec<(u64, ClientRequest)> {
        let tids = self.requests.replays(rank).into_iter();
        tids.filter_map(|tid| Some((tid, self.requests.send(tid, self.map.epoch)?))).collect()
    }

    pub(crate) fn set_max_file_size(&mut self, size: u64) {
        self.map.max_file_size = size;
    }
}
