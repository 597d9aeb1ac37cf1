//! A run of an operation: prepares it, and then carries out its plan or fetches what it lacks.

use super::op::{Op, interrupts};
use super::{Ops, early, reply};
use crate::cache::{Cache, Revocation};
use crate::cap::STRONG;
use crate::locks::Ask;
use crate::ops::{self, Cx, Extra, Plan, Promises};
use crate::rank::caps::Caps;
use crate::rank::commit::commit_for;
use crate::rank::effect::Effect;
use crate::rank::env::{Due, Env};
use crate::rank::popularity;
use crate::rank::sessions::{Refill, Session, Sessions};
use crate::rank::snaps;
use crate::types::{ClientId, Lsn, Need, OpId, Stop};
use fsfmt::{Ino, Update};
use maps::MdsRank;
use msgs::{ClientReply, ClientRequest, ClientRequestForward, MdsOp};
use node::Level;
use wire::Errno;

/// How often a request is sent on to another rank at most: requests carry this number in a byte.
const MOST_FORWARDS: u32 = 250;

/// True if it needs more storage, which is refused while the cluster is full. Renames, truncations and
/// attributes do not.
fn grows(op: MdsOp, plan: &Plan) -> bool {
    let names = matches!(op, MdsOp::LINK | MdsOp::SETXATTR) && !plan.local.is_empty();
    plan.created != Ino(0) || names
}

impl Ops {
    /// Runs the next operation that can run; false if there is none. `inode_numbers` returns the next free
    /// one if changes may be journaled.
    pub fn run_next(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        caps: &mut Caps,
        promises: &Promises,
        (takes_changes, has_absent, ino_next): (bool, bool, u64),
    ) -> bool {
        let Some(mut op) = self.take_ready(takes_changes) else { return false };
        let Some(session) = sessions.get(op.client) else {
            self.end(env, cache, sessions, caps, op);
            return true;
        };
        cache.tick += 1;
        op.last_run = cache.tick;
        cache.locks.end_wait(op.id);
        if op.is_on_damage {
            self.fail(env, cache, sessions, caps, op, (Errno::EIO, 0));
            return true;
        }
        let done = session.completed(op.tid);
        let snap_id = env.snap_id(cache.snaps.last());
        let number = number_for(session, &op.request, ino_next);
        let earlier = |dir| self.under_way.newest_before(op.client, dir, op.id);
        let cx = Cx::new(cache, env.cfg(), op.client, &op.request, &op.missing, &op.pages, number)
            .with_session(session.auth(), done)
            .with_async(session.async_work(), &earlier)
            .with_promises(promises)
            .with_snapshots(snap_id, has_absent)
            .with_sought(&op.sought)
            .at(env.stamp());
        let result = match ops::prepare(&cx) {
            Ok(plan) if cx.must_wait(&plan) => Err(Need::Promised.into()),
            Ok(plan) => match replica_in_the_way(cache, &plan) {
                Some(dir) => Err(Need::Alone(dir).into()),
                None => Ok(plan),
            },
            result => result,
        };
        // A repeated request is not answered before its execution is durable, whatever is left of it.
        let seen = if done.is_some() { env.journal().last() } else { cx.seen() };
        // Room enough is left for what has succeeded already in the eyes of its caller.
        let has_room = !env.cfg().full || cx.is_promised();
        if cx.used_snap_id() && !matches!(result, Err(Stop::Need(_))) {
            env.take_snap_id();
        }
        match result {
            Ok(plan) if !has_room && grows(op.request.op, &plan) => {
                self.fail(env, cache, sessions, caps, op, (Errno::ENOSPC, seen));
            }
            Ok(plan) => self.carry_out(env, cache, sessions, caps, op, (plan, seen, ino_next)),
            Err(Stop::Fail(errno)) => self.fail(env, cache, sessions, caps, op, (errno, seen)),
            // Clients take a number that is no longer one byte for an older forward, and wait for ever.
            Err(Stop::Need(needs)) if remote(&needs).is_some() && op.request.num_fwd >= MOST_FORWARDS => {
                self.fail(env, cache, sessions, caps, op, (Errno::EMULTIHOP, seen));
            }
            Err(Stop::Need(needs)) if remote(&needs).is_some() => {
                let rank = remote(&needs).expect("just asked");
                self.forward(env, cache, sessions, caps, op, rank);
            }
            Err(Stop::Need(needs)) => {
                note_lock_wait(cache, &op, &needs);
                let is_promised = ops::is_async(&op.request);
                let (id, wants) = self.wait(op, needs);
                fetch(env, cache, sessions, caps, (id, is_promised), wants);
            }
        }
        true
    }

    /// Puts an operation back that lacks something; returns what to fetch.
    fn wait(&mut self, mut op: Op, needs: Vec<Need>) -> (OpId, Vec<Need>) {
        assert!(!needs.is_empty(), "an operation that lacks nothing has a plan");
        op.needs.extend(needs.iter().cloned());
        if !op.waits_for_loads() {
            // A long wait: loaded entries may be evicted meanwhile.
            op.pages.clear();
        }
        for need in &needs {
            if let Need::Earlier(earlier) = need {
                self.under_way.wait(op.id, *earlier);
            }
            if let Need::Revoke { ino, .. }
            | Need::Truncated(ino)
            | Need::Stored(ino)
            | Need::Lock(ino)
            | Need::Announced(ino) = need
            {
                op.touched.insert(*ino);
            }
            // What was not found is loaded again.
            match need {
                Need::Sought(ino) => drop(op.missing.remove(ino)),
                Need::Thaw(_) => op.missing.clear(),
                _ => {}
            }
        }
        self.waits_for_absent |= needs.contains(&Need::Absent);
        self.waits_for_promises |= needs.contains(&Need::Promised);
        let id = op.id;
        self.ops.insert(id, op);
        (id, needs)
    }

    /// Has the client ask another rank. Nothing of the request was carried out here.
    fn forward(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        caps: &mut Caps,
        op: Op,
        rank: MdsRank,
    ) {
        let (client, tid, num_fwd) = (op.client, op.tid, op.request.num_fwd + 1);
        self.counters.count_forward();
        env.due(Due::Answered(client, tid, None));
        self.end(env, cache, sessions, caps, op);
        let forward = ClientRequestForward { dest_mds: rank.0, num_fwd, client_must_resend: true };
        sessions.send(env, client, 0, tid, forward);
    }

    fn fail(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        caps: &mut Caps,
        op: Op,
        (errno, seen): (Errno, Lsn),
    ) {
        let (client, tid, asked) = (op.client, op.tid, op.asked());
        env.due(Due::Answered(client, tid, Some(errno)));
        env.due(Due::Used(ops::base(&op.request.path).ino, popularity::READ));
        if errno == Errno::EACCES {
            report_denied(env, sessions, client, &op.request);
        }
        if ops::is_async(&op.request) && !ops::is_replay(&op.request) {
            report_async_failure(env, sessions, client, &op.request, errno);
        }
        self.end(env, cache, sessions, caps, op);
        let answer = ClientReply { result: errno.to_result_code(), ..reply::empty(env, asked.op) };
        sessions.answer(env, client, seen, (tid, asked), answer);
    }

    fn carry_out(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        caps: &mut Caps,
        op: Op,
        (mut plan, mut seen, ino_next): (Plan, Lsn, u64),
    ) {
        let is_early = sessions.get(op.client).is_some_and(|s| early::allows(s, cache, &op.request, &plan));
        let mut own = None;
        let mut refill = Refill::default();
        if !plan.local.is_empty() {
            seen = seen.max(early::replaced(cache, op.client, &plan.local));
            let mut updates = std::mem::take(&mut plan.local);
            updates.push(Update::Completed { client: op.client.0, tid: op.tid, ino: plan.created });
            if plan.created.0 != 0 {
                seen = seen.max(sessions.reserved_by(op.client, plan.created));
                let tells = matches!(plan.reply.extra, Extra::Created(_)) && !ops::is_replay(&op.request);
                refill = sessions.refill(op.client, plan.created, ino_next, tells);
                seen = seen.max(refill.after);
                updates.append(&mut refill.updates);
            }
            let name = op.request.op.name().unwrap_or("operation");
            let author = is_early.then_some(op.client);
            let lsn = commit_for(env, cache, sessions, author, name, updates);
            own = Some(lsn);
            seen = if refill.is_news { lsn } else { seen };
        }
        let used = plan.reply.dentry.as_ref().map(|(dir, _)| cache.subtrees.keeper(*dir));
        let used = used.or(plan.reply.target.map(|ino| ino.ino));
        let weight = if own.is_some() { popularity::CHANGE } else { popularity::READ };
        env.due(Due::Used(used.unwrap_or_else(|| ops::base(&op.request.path).ino), weight));
        if let Some(lock) = plan.lock {
            cache.locks.set(&lock);
            env.due(Due::Wake(lock.ino));
        }
        if let (Some(change), Some(own)) = (plan.realm.take(), own) {
            snaps::tell(env, cache, sessions, own, change);
        }
        env.due(Due::Answered(op.client, op.tid, None));
        Caps::tell_barrier(env, cache, sessions, op.client);
        let answer = if ops::is_replay(&op.request) {
            reply::empty(env, op.request.op)
        } else {
            reply::build(env, cache, sessions, caps, op.client, (&op.request, &plan.reply, &refill.delegated))
        };
        match own {
            Some(own) if is_early => {
                sessions.answer_early(env, op.client, (seen, own), (op.tid, op.asked()), answer);
            }
            own => sessions.answer(env, op.client, own.unwrap_or(seen), (op.tid, op.asked()), answer),
        }
        if ops::is_async(&op.request) {
            Caps::note_removed(cache, op.client, &plan.touched);
        }
        self.end(env, cache, sessions, caps, op);
        plan.touched.into_iter().for_each(|ino| env.due(Due::CapsChanged(ino)));
    }

    /// True if a request interrupts one that waits for a lock; the latter is answered with EINTR, the former
    /// at once.
    pub fn interrupt_lock(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        caps: &mut Caps,
        client: ClientId,
        (tid, request): (u64, &ClientRequest),
    ) -> bool {
        let Some(asked) = interrupts(request) else { return false };
        let waiting = self.ops.iter().find(|(_, op)| op.is_interrupted_by(client, (&request.path, &asked)));
        if let Some(id) = waiting.map(|(id, _)| *id) {
            let op = self.ops.remove(&id).expect("just found");
            self.fail(env, cache, sessions, caps, op, (Errno::EINTR, 0));
        }
        sessions.end_request(client, tid);
        let answer = reply::empty(env, request.op);
        sessions.send(env, client, 0, tid, answer);
        true
    }
}

/// The number of the inode that a request may create. A client that repeats a create, or creates
/// asynchronously, names one that is reserved for it. It may use the others in the same way, so nothing else
/// is given those then.
fn number_for(session: &Session, request: &ClientRequest, ino_next: u64) -> u64 {
    let number = match ops::is_replay(request) || ops::is_async(request) {
        true => Some(Ino(request.ino)).filter(|ino| session.has_reserved(*ino)),
        false => session.next_number(),
    };
    number.map_or(ino_next, |ino| ino.0)
}

/// The directory that a plan changes, or of which it lets a file be changed, although others may have a
/// replica of it.
fn replica_in_the_way(cache: &Cache, plan: &Plan) -> Option<Ino> {
    if stdx::mutants::is_active("mds_changes_what_has_replicas") {
        return None;
    }
    let opened = plan.reply.target.filter(|_| plan.reply.want & STRONG != 0);
    cache.replica_in_the_way(&plan.local, [opened, plan.lock.as_ref().map(|lock| lock.ino)])
}

/// The rank to which a request goes that lacks this.
fn remote(needs: &[Need]) -> Option<MdsRank> {
    needs.iter().find_map(|need| if let Need::Remote(rank) = need { Some(*rank) } else { None })
}

/// Notes the lock that an operation waits for, of which deadlocks are made.
fn note_lock_wait(cache: &mut Cache, op: &Op, needs: &[Need]) {
    let lock = needs.iter().find_map(|need| match need {
        Need::Lock(ino) => Ask::new(*ino, op.client, &op.request.args.get()).ok(),
        _ => None,
    });
    if let Some(ask) = lock.filter(|_| op.request.op == MdsOp::SETFILELOCK) {
        cache.locks.wait(op.id, ask);
    }
}

/// Fetches or revokes what an operation lacks.
fn fetch(
    env: &mut Env,
    cache: &mut Cache,
    sessions: &mut Sessions,
    caps: &mut Caps,
    (id, is_promised): (OpId, bool),
    needs: Vec<Need>,
) {
    for need in needs {
        match need {
            Need::Dentry(..) | Need::Page(..) | Need::Inode(_) => env.due(Due::Load(need, Some(id))),
            Need::Revoke { ino, except, mask } => {
                caps.revoke_for(env, cache, sessions, id, (ino, Revocation { except, mask }));
                // A listing asks for what is in the directory, and checks the authority over that alone.
                if cache.unannounced.contains_key(&ino) {
                    env.due(Due::Announce(ino));
                }
            }
            Need::SnapId => env.effect(Effect::TakeSnapId),
            // Each return or eviction of an absent client, or the end of the request, wakes them.
            Need::Absent | Need::Promised | Need::Earlier(_) => {}
            Need::Remote(_) => unreachable!("such a request is forwarded"),
            // Each change of the partition wakes them.
            Need::Thaw(_) => {}
            Need::Together { here, there } => env.due(Due::Together { here, there, is_promised }),
            Need::Alone(dir) => env.due(Due::Alone(dir)),
            Need::Fence => env.due(Due::Fence),
            Need::Sought(ino) => env.due(Due::Seek(ino.ino)),
            Need::Truncated(ino) | Need::Stored(ino) | Need::Lock(ino) | Need::Announced(ino) => {
                let Some(inode) = cache.inodes.get_mut(&ino) else { continue };
                let is_first = inode.under_way.edit(|at| at.waiters.insert(id));
                match need {
                    Need::Lock(_) => {}
                    Need::Announced(_) => env.due(Due::Announce(ino)),
                    _ if is_first => env.due(Due::InodeAwaited(ino)),
                    _ => {}
                }
            }
        }
    }
}

/// Logs a denied request with its sender, once for each session.
fn report_denied(env: &mut Env, sessions: &mut Sessions, client: ClientId, request: &ClientRequest) {
    let (op, uid, gid) = (request.op, request.caller_uid, request.caller_gid);
    sessions.report_once(env, client, Level::Info, "request_denied", |who| {
        format!("{op} by {who} (uid {uid}, gid {gid}): its key does not allow it")
    });
}

/// Logs an asynchronous request that fails, although its caller was told of success, once for each session.
fn report_async_failure(
    env: &mut Env,
    sessions: &mut Sessions,
    client: ClientId,
    request: &ClientRequest,
    errno: Errno,
) {
    let (op, ino, why) = (request.op, Ino(request.ino), errno.name().unwrap_or("an error"));
    let (sent, forwarded) = (request.num_retry + 1, request.num_fwd);
    let is_reserved = sessions.get(client).is_some_and(|s| s.has_reserved(ino));
    sessions.report_once(env, client, Level::Warn, "async_request_failed", |who| {
        let is_its = if is_reserved { "reserved for it" } else { "not reserved for it" };
        format!(
            "{op} by {who} below inode {} fails with {why}, but its caller was told that it succeeded \
             (inode {ino}, {is_its}; sent {sent} times, forwarded {forwarded} times)",
            ops::base(&request.path).ino
        )
    });
}
