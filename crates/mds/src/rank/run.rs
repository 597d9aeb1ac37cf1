//! Running operations (DESIGN, decision 8): `prepare` reads the cache and either lacks something, fails or has a plan.
//! What it lacks is fetched and it starts again from scratch. A plan is carried out at once: its event is journaled and
//! applied, its reply queued behind the event.

use super::load::Page;
use super::{Rank, stat};
use crate::ops::{self, Cx, Extra, Plan};
use crate::types::{ClientId, Lsn, Need, OpId, Stop};
use fsfmt::{DirFrag, Frag, Ino, InodeKey, Update};
use msgs::{ClientReply, ClientRequest, MdsOp, ReplyDentry, ReplyTrace};
use node::Level;
use std::collections::BTreeSet;
use std::rc::Rc;
use wire::Errno;
use wire::Writer;

/// A running operation.
pub(super) struct Op {
    /// Whose.
    pub client: ClientId,
    /// Its tid.
    pub tid: u64,
    /// What.
    pub request: Rc<ClientRequest>,
    /// What it waits for.
    pub waiting: BTreeSet<Need>,
    /// Inodes that it restricts or waits on.
    pub touched: BTreeSet<InodeKey>,
    /// Inodes that turned out not to exist.
    pub missing: BTreeSet<InodeKey>,
    /// Parts of directories that are cached without gaps since its last run.
    pub pages: Vec<Page>,
    /// Its last run.
    pub last_run: u64,
}

impl Op {
    /// Whether what it has loaded so far must stay in the cache.
    pub fn waits_for_loads(&self) -> bool {
        self.waiting.iter().any(|n| matches!(n, Need::Dentry(..) | Need::Page(..) | Need::Inode(_)))
    }

    /// The first run of whose loads it relies on what has come: its last run may not have looked at all of a page.
    pub fn needs_since(&self) -> u64 {
        self.pages.iter().map(|p| p.since).min().unwrap_or(self.last_run).min(self.last_run)
    }
}

/// Whether more is stored afterwards, which is refused while the cluster is full. Renaming, truncating and attributes are not.
fn grows(op: MdsOp, plan: &Plan) -> bool {
    let names = matches!(op, MdsOp::LINK | MdsOp::SETXATTR) && !plan.local.is_empty();
    plan.created != Ino(0) || names
}

impl Rank {
    /// Starts a client's request.
    pub(super) fn start_op(&mut self, client: ClientId, tid: u64, request: ClientRequest) {
        let id = OpId(self.next_op);
        self.next_op += 1;
        let op = Op {
            client,
            tid,
            request: Rc::new(request),
            waiting: BTreeSet::new(),
            touched: BTreeSet::new(),
            missing: BTreeSet::new(),
            pages: Vec::new(),
            last_run: 0,
        };
        self.ops.insert(id, op);
        self.ready.push_back(id);
    }

    /// Some of what an operation waited for is there.
    pub(super) fn satisfy(&mut self, id: OpId, needs: &[Need]) {
        let Some(op) = self.ops.get_mut(&id) else { return };
        let before = op.waiting.len();
        for need in needs {
            op.waiting.remove(need);
        }
        if before > 0 && op.waiting.is_empty() {
            self.ready.push_back(id);
        }
    }

    /// Runs what can run.
    pub(super) fn run_ready(&mut self) {
        while let Some(id) = self.ready.pop_front() {
            self.run(id);
        }
    }

    fn run(&mut self, id: OpId) {
        let Some(op) = self.ops.get(&id) else { return };
        let (client, tid, request) = (op.client, op.tid, op.request.clone());
        if !self.sessions.map.contains_key(&client) {
            self.drop_op(id);
            return;
        }
        if request.op.writes() && (self.draining || self.journal.is_full()) {
            self.space_waiters.insert(id);
            return;
        }
        self.cache.tick += 1;
        let op = &self.ops[&id];
        let done = self.sessions.map[&client].record.completed.get(&tid).copied();
        let done = done.filter(|_| !stdx::mutants::is_active("mds_forgets_completed_requests"));
        let cx = Cx::new(&self.cache, &self.cfg, client, &request, &op.missing, &op.pages, self.ino_next)
            .with_session(&self.sessions.map[&client], done)
            .at(self.stamp());
        let result = ops::prepare(&cx);
        // What was carried out before is not told before it is durable, whatever is left of it.
        let seen = if done.is_some() { self.journal.last } else { cx.seen() };
        if let Some(op) = self.ops.get_mut(&id) {
            op.last_run = self.cache.tick;
        }
        match result {
            Ok(plan) if self.cfg.full && grows(request.op, &plan) => {
                self.drop_op(id);
                self.fail(client, tid, request.op, Errno::ENOSPC, seen);
            }
            Ok(plan) => self.carry_out(id, plan, seen),
            Err(Stop::Fail(errno)) => {
                self.drop_op(id);
                if errno == Errno::EACCES {
                    self.note_denied(client, &request);
                }
                self.fail(client, tid, request.op, errno, seen);
            }
            Err(Stop::Need(needs)) => self.fetch(id, needs),
        }
    }

    /// Counts it, and says once for each session who asked for what from where.
    fn note_denied(&mut self, client: ClientId, request: &ClientRequest) {
        let (op, uid, gid) = (request.op, request.caller_uid, request.caller_gid);
        self.say_once(client, Level::Info, "request_denied", |who| {
            format!("{op} by {who} (uid {uid}, gid {gid}): its key does not allow it")
        });
    }

    fn fetch(&mut self, id: OpId, needs: Vec<Need>) {
        assert!(!needs.is_empty(), "an operation that lacks nothing has a plan");
        if let Some(op) = self.ops.get_mut(&id) {
            op.waiting.extend(needs.iter().cloned());
            if !op.waits_for_loads() {
                // A long wait: what was loaded may leave the cache meanwhile.
                op.pages.clear();
            }
        }
        for need in needs {
            match need {
                Need::Dentry(..) | Need::Page(..) | Need::Inode(_) => self.load(need, Some(id), None),
                Need::Revoke { ino, except, mask } => {
                    self.note_touched(id, ino);
                    self.restrict(id, ino, except, mask);
                }
                Need::Remote(..) | Need::Thaw(_) | Need::Prepared(_) => {
                    unreachable!("one rank has the authority over everything, and migrates nothing")
                }
                Need::Truncated(ino) | Need::Lock(ino) => {
                    self.note_touched(id, ino);
                    if let Some(inode) = self.cache.inodes.get_mut(&ino) {
                        inode.waiters.insert(id);
                    }
                }
            }
        }
    }

    fn note_touched(&mut self, id: OpId, ino: InodeKey) {
        if let Some(op) = self.ops.get_mut(&id) {
            op.touched.insert(ino);
        }
    }

    /// Ends an operation without an answer.
    pub(super) fn drop_op(&mut self, id: OpId) {
        let Some(op) = self.ops.remove(&id) else { return };
        self.space_waiters.remove(&id);
        self.end_running(op.client, op.tid);
        self.unrestrict(id, op.touched);
    }

    fn end_running(&mut self, client: ClientId, tid: u64) {
        if let Some(s) = self.sessions.map.get_mut(&client) {
            s.running.remove(&tid);
        }
    }

    pub(super) fn fail(&mut self, client: ClientId, tid: u64, op: MdsOp, errno: Errno, seen: Lsn) {
        let reply = ClientReply {
            op,
            result: errno.to_result_code(),
            mdsmap_epoch: self.cfg.map_epoch,
            safe: true,
            ..ClientReply::default()
        };
        self.send(client, seen, tid, reply);
    }

    fn carry_out(&mut self, id: OpId, plan: Plan, seen: Lsn) {
        let (client, tid, request) = {
            let op = &self.ops[&id];
            (op.client, op.tid, op.request.clone())
        };
        let mut lsn = seen;
        assert!(plan.remote.is_empty(), "one rank has the authority over everything");
        if !plan.local.is_empty() {
            let mut updates = plan.local;
            if plan.created.0 != 0 {
                updates.push(Update::InoNext { next: plan.created.0 + 1 });
            }
            updates.push(Update::Completed { client: client.0, tid, ino: plan.created });
            let name = request.op.name().unwrap_or("operation");
            lsn = self.commit_event(name, updates);
        }
        if let Some(lock) = plan.lock {
            self.set_lock(client, lock);
        }
        let reply = self.build_reply(client, &request, &plan.reply);
        self.send(client, lsn, tid, reply);
        self.drop_op(id);
        for ino in plan.touched {
            self.caps_changed(ino);
        }
    }

    fn build_reply(&mut self, client: ClientId, request: &ClientRequest, reply: &ops::Reply) -> ClientReply {
        let mut trace = ReplyTrace::default();
        if let Some((DirFrag { ino, frag }, key)) = &reply.dentry {
            let (dir, frag) = (self.issue(ino.head(), client, 0), *frag);
            trace.dentry = Some(Box::new(ReplyDentry {
                dir,
                dir_stat: stat::dir_stat(frag),
                name: key.name.clone(),
                lease: stat::no_lease(),
            }));
        }
        if let Some(ino) = reply.target {
            trace.target = Some(Box::new(self.issue(ino, client, reply.want)));
        }
        let extra = match &reply.extra {
            Extra::None => Vec::new(),
            Extra::Created(ino) => Writer::encode(&ino.0),
            Extra::Bytes(bytes) => bytes.clone(),
            Extra::Listing { frag, entries, flags, max_bytes } => {
                self.listing(client, *frag, entries, *flags, *max_bytes)
            }
        };
        let has_inode = trace.target.is_some() || trace.dentry.is_some();
        ClientReply {
            op: request.op,
            result: reply.result,
            mdsmap_epoch: self.cfg.map_epoch,
            safe: true,
            trace,
            extra,
            snap_trace: if has_inode { self.cache.realm_trace(Ino::ROOT) } else { Vec::new() },
        }
    }

    /// Entries of a directory with their inodes. Caps go with them only while the cache has room: a listing of a huge
    /// directory must not pin it whole.
    fn listing(
        &mut self,
        client: ClientId,
        frag: Frag,
        entries: &[(Vec<u8>, InodeKey)],
        mut flags: u16,
        max_bytes: usize,
    ) -> Vec<u8> {
        use msgs::readdir_flag::{FRAG_COMPLETE, FRAG_END};
        let mut body = Writer::new();
        let mut count = 0;
        for (name, ino) in entries {
            let room = self.cache.stats().inodes * 4 < self.cfg.options.cache_inodes * 3;
            let held = self.cache.inodes[ino].caps.contains_key(&client);
            let inode = if room || held { self.issue(*ino, client, 0) } else { self.bare_stat(*ino, client) };
            let mut one = Writer::new();
            one.put(&msgs::ReaddirEntry { name: name.clone(), lease: stat::no_lease(), inode });
            if count > 0 && body.len() + one.len() > max_bytes {
                flags &= !(FRAG_END | FRAG_COMPLETE);
                break;
            }
            body.raw(one.as_slice());
            count += 1;
        }
        let mut w = Writer::new();
        w.put(&stat::dir_stat(frag));
        w.count(count);
        w.put(&flags);
        w.raw(body.as_slice());
        w.into_vec()
    }

    /// The journal has room again.
    pub(super) fn wake_space_waiters(&mut self) {
        if !self.draining && !self.journal.is_full() {
            self.ready.extend(std::mem::take(&mut self.space_waiters));
        }
    }

    /// A request of a client.
    pub(super) fn client_request(&mut self, client: ClientId, tid: u64, request: ClientRequest) {
        let Some(s) = self.sessions.map.get_mut(&client) else {
            let detail = format!("{client} has no session and asks for {}", request.op);
            return self.log(Level::Info, "request_without_session_seen", detail);
        };
        if !s.running.insert(tid) {
            return;
        }
        s.record.completed = s.record.completed.split_off(&request.oldest_client_tid);
        for r in &request.releases {
            self.embedded_release(client, r);
        }
        let released: Vec<InodeKey> = request.releases.iter().map(|r| Ino(r.ino).head()).collect();
        if request.op == MdsOp::SETFILELOCK && self.interrupt_lock(client, &request) {
            let reply = ClientReply {
                op: request.op,
                mdsmap_epoch: self.cfg.map_epoch,
                safe: true,
                ..ClientReply::default()
            };
            self.end_running(client, tid);
            return self.send(client, 0, tid, reply);
        }
        self.start_op(client, tid, request);
        self.run_ready();
        for ino in released {
            self.caps_changed(ino);
        }
    }
}
