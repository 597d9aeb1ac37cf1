//! The client as a node: it hands inputs to the owners of its parts, and settles after each.
//!
//! Settling: operations that may go on do, then every inode that something happened to is written back,
//! invalidated and reported to its MDS, until nothing is left to do.

use crate::api::{Answer, FsRequest, Reply, Request};
use crate::by_number::ByNumber;
use crate::cache::Cache;
use crate::comeback::Comeback;
use crate::config::ClientConfig;
use crate::data::FileData;
use crate::directories::Directories;
use crate::handles::Handles;
use crate::key::OpId;
use crate::layout_json;
use crate::locks::Locks;
use crate::namespace::Namespace;
use crate::objects::{self, Objects};
use crate::op::{Attempt, Ops, Outs, Step, fail};
use crate::services::{ServiceEvent, Services};
use crate::session::State;
use crate::sessions::{Env, SessionEvent, Sessions};
use crate::settle::Settling;
use crate::snapshots::{self, Snapshots};
use crate::statfs;
use crate::sync;
use crate::window::Window;
use crate::xattrs;
use maps::FsMapUser;
use monc::{MoncConfig, Stuck, Tells, Told};
use node::{AdminId, CloseReason, Event, Input, Level, Msg, Node, Output, RequestId};
use rados::RadosConfig;
use std::collections::BTreeMap;
use stdx::{Instant, Now, Rng};
use wire::{EntityType, Errno, Reader};

/// Connection numbers of the sub-machines.
const SPACE_MONC: u8 = 1;
const SPACE_RADOS: u8 = 2;
const SPACE_MDS: u8 = 3;
const SPACE_TELLS: u8 = 4;

/// The file system client.
///
/// Each field is an owner that checks its own invariants after each input; an operation gets exactly the
/// owners that it needs (`namespace.rs`, `data.rs`, …). Between inputs nothing is left that could go on.
pub struct Client {
    config: ClientConfig,
    services: Services,
    sessions: Sessions,
    tells: Tells,
    cache: Cache,
    window: Window,
    handles: Handles,
    ops: Ops,
    stuck: Stuck,
    /// The monitors' name for the map of ranks: `mdsmap`, or `mdsmap.N` for the file system N.
    mdsmap: String,
    comeback: Comeback,
    /// Local callers may come: there is an OSD map and, with a mount, a session.
    ready: bool,
    /// The sessions are closed: nothing follows.
    closed: bool,
}

impl Client {
    /// A client that does nothing before [`Input::Start`].
    pub fn new(config: ClientConfig, mut rng: Rng) -> Self {
        let mut services = vec![EntityType::MON, EntityType::OSD];
        if config.mount || config.tells {
            services.push(EntityType::MDS);
        }
        let monc = MoncConfig {
            credentials: config.credentials.clone(),
            mons: config.mons.clone(),
            services,
            rotating_keys: None,
            space: SPACE_MONC,
            hostname: config.hostname.clone(),
        };
        let rados = RadosConfig::new(config.credentials.clone(), SPACE_RADOS);
        let mut cache = Cache::new(config.options.idle_inodes, config.options.dirty_bytes);
        if !config.options.quotas {
            cache.ignore_quotas();
        }
        Self {
            services: Services::new(monc, rados, &mut rng),
            sessions: Sessions::new(
                config.mount,
                SPACE_MDS,
                config.options.gather,
                metadata_of_sessions(&config),
            ),
            tells: Tells::new(SPACE_TELLS),
            cache,
            window: Window::default(),
            handles: Handles::new(),
            ops: Ops::default(),
            stuck: Stuck::default(),
            mdsmap: "mdsmap".into(),
            comeback: Comeback::default(),
            config,
            ready: false,
            closed: false,
        }
    }

    /// Hands an input of a session to the sessions.
    fn with_sessions(&mut self, now: Now, out: &mut Outs, act: impl FnOnce(&mut Sessions, &mut Env<'_>)) {
        let Self { sessions, cache, services, handles, .. } = self;
        let locks = handles.locks_mut();
        act(sessions, &mut Env { now, cache, services, locks, out });
    }

    fn request(&mut self, now: Now, id: RequestId, request: Request, out: &mut Outs) {
        match request {
            Request::Tell { addr, command, patience } => {
                let until = (id, now.mono + patience);
                return self.tells.send(until, addr, command, self.services.cluster().monc(), out);
            }
            Request::Invalidated { id } => self.cache.finish_invalidation(id),
            Request::Fs(_, FsRequest::Forget { ino, count }) => self.cache.forget_lookups(ino, count),
            Request::Fs(_, FsRequest::Interrupt { token }) => self.ops.interrupt(token),
            request => return self.ops.start(id, request),
        }
        out.push(Output::Reply { id, reply: Ok(Answer::Done) });
    }

    /// Attempts an operation.
    fn run(&mut self, now: Now, op: OpId, out: &mut Outs) {
        let mut ended = Vec::new();
        let mut ops = std::mem::take(&mut self.ops);
        ops.attempt(now, op, out, |attempt| self.step(attempt, &mut ended));
        self.ops = ops;
        for (op, reply) in ended {
            self.ops.resolve(op, reply);
        }
    }

    fn step(&mut self, attempt: &mut Attempt<'_>, ended: &mut Vec<(OpId, Reply)>) -> Step {
        match attempt.request() {
            Request::Fs(..) if !self.config.mount => fail(Errno::ENOTCONN),
            Request::Fs(_, request) => self.fs_step(attempt, request),
            Request::Unmount => sync::leave(&mut self.cache, &mut self.sessions, attempt),
            _ => Objects { services: &mut self.services, ended }.step(attempt),
        }
    }

    fn fs_step(&mut self, attempt: &mut Attempt<'_>, request: &FsRequest) -> Step {
        use FsRequest as R;
        let Self { config, services, sessions, cache, handles, .. } = self;
        match request {
            R::Read { .. }
            | R::Write { .. }
            | R::CopyRange { .. }
            | R::Fallocate { .. }
            | R::SetLazy { .. }
            | R::Lseek { .. } => FileData { cache, handles, sessions, services }.step(attempt, request),
            R::Fsync { fh, data_only } => sync::fsync(cache, sessions, attempt, (handles, *fh), *data_only),
            R::Flush { .. } | R::Release { .. } | R::Getlk { .. } | R::Setlk { .. } => {
                Locks { cache, handles, sessions }.step(attempt, request)
            }
            R::Opendir { .. } | R::Readdir { .. } | R::Releasedir { .. } | R::Fsyncdir { .. } => {
                Directories { cache, handles, sessions }.step(attempt, request)
            }
            R::Sync => sync::sync_all(cache, sessions, attempt),
            R::Statfs { root } => statfs::statfs(cache, (sessions, services), attempt, *root),
            _ if snapshots::concerns(cache, &config.options.snapdir, request) => {
                let snapdir = config.options.snapdir.as_bytes();
                let client = services.cluster().monc().global_id();
                let world = xattrs::World { osdmap: services.osdmap(), client };
                Snapshots { cache, handles, sessions, snapdir, world }.step(attempt, request)
            }
            R::LookupIno { .. } | R::LookupParent { .. } => {
                ByNumber { cache, sessions }.step(attempt, request)
            }
            R::Getxattr { ino, name } if name == layout_json::OF_DIR => {
                layout_json::of_dir((cache, sessions), attempt, cache.key(*ino), services.osdmap())
            }
            _ => {
                let (osdmap, client) = (services.osdmap(), services.cluster().monc().global_id());
                let asynchronous = config.options.asynchronous;
                Namespace { cache, handles, sessions, osdmap, client, asynchronous }.step(attempt, request)
            }
        }
    }

    /// Does everything that can be done now.
    fn settle(&mut self, now: Now, out: &mut Outs) {
        while !self.closed && self.settle_one(now, out) {}
    }

    /// Does one thing that can be done now. Returns false if there is none.
    fn settle_one(&mut self, now: Now, out: &mut Outs) -> bool {
        self.cache.take_woken().into_iter().for_each(|op| self.ops.wake(op));
        self.come_back(now, out);
        if let Some(event) = self.services.next_event() {
            self.service_event(now, event, out);
        } else if let Some(event) = self.sessions.next_event() {
            self.session_event(now, event, out);
        } else if let Some(op) = self.ops.next_runnable() {
            self.run(now, op, out);
        } else if let Some(key) = self.cache.next_unsettled().or_else(|| self.window.next(now.mono)) {
            let Self { cache, sessions, services, window, handles, .. } = self;
            Settling { cache, sessions, services, window }.settle(now, key, out);
            cache.take_forgotten_dirs().into_iter().for_each(|dir| handles.distrust_listings(dir));
        } else if let Some(waiters) = self.cache.next_waiters() {
            waiters.into_iter().for_each(|op| self.ops.wake(op));
        } else {
            return false;
        }
        true
    }

    fn service_event(&mut self, now: Now, event: ServiceEvent, out: &mut Outs) {
        if event.is_refusal() && self.comeback.is_there() {
            self.evicted(now, "an OSD refuses this client, which is on the blocklist", out);
        }
        match event {
            ServiceEvent::Piece { op, piece, result } => self.ops.piece_done(op, piece, result),
            ServiceEvent::Landed { key, offset, bytes, result } => {
                self.window.landed(bytes);
                if let Some(inode) = self.cache.inode_mut(key) {
                    inode.landed(offset, result);
                    self.cache.recount(key);
                    self.cache.inode_changed(key);
                }
            }
            ServiceEvent::Answered { op, reply } => self.ops.resolve(op, reply),
            ServiceEvent::MonAnswered { op, body } => {
                let reply = match *body {
                    msgs::Body::StatfsReply(reply) => {
                        statfs::of_pool(&self.cache, self.ops.statfs_root(op), &reply)
                    }
                    msgs::Body::MonGetVersionReply(reply) => {
                        let newest = maps::Epoch(u32::try_from(reply.version).unwrap_or(u32::MAX));
                        self.services.wait_for_map(now, newest, out);
                        Ok(Answer::Done)
                    }
                    body => objects::mon_reply(body),
                };
                self.ops.resolve(op, reply);
            }
            ServiceEvent::Unasked(answer) => {
                out.push(Output::Reply { id: RequestId(0), reply: Ok(answer) });
            }
            ServiceEvent::Mon(told) => self.mon_told(now, *told, out),
            ServiceEvent::OsdMap => {
                self.look_at_blocklist(now, out);
                self.report_ready(out);
            }
        }
    }

    fn session_event(&mut self, now: Now, event: SessionEvent, out: &mut Outs) {
        match event {
            SessionEvent::Opened => self.report_ready(out),
            SessionEvent::Replied { op, rank, reply, is_repeat } => {
                self.ops.answered(op, rank, reply, is_repeat);
            }
            SessionEvent::Woken(op) => self.ops.wake(op),
            SessionEvent::Refused(why) => {
                self.evicted(now, &format!("the MDS refuses this client: {why}"), out);
            }
            SessionEvent::Closed => {
                self.closed = true;
                self.ops.left(out);
                out.push(Output::Stop(Ok(())));
            }
        }
    }

    fn mon_told(&mut self, now: Now, told: Told, out: &mut Outs) {
        match told {
            Told::Denied => {
                let name = &self.config.credentials.name;
                let why = format!("the monitors do not accept the key of {name}: check the keyring");
                out.push(Output::Stop(Err(why)));
            }
            Told::MonMap(map) if self.config.fsid.is_some_and(|fsid| fsid != map.fsid) => {
                let theirs = map.fsid;
                let why = format!(
                    "the monitors serve cluster {theirs}, the configuration has another fsid: check `fsid` \
                     and `mon host`"
                );
                out.push(Output::Stop(Err(why)));
            }
            Told::Tickets(_) => {
                out.push(Output::Event(Event::new(Level::Debug, "tickets_fetched", String::new())));
                self.sessions.renew_tickets(&self.services, out);
            }
            Told::Message(Msg { body: node::Body::Client(msgs::Body::MdsMap(map)), .. }) => {
                if let Ok(decoded) = Reader::new(&map.map).get() {
                    self.with_sessions(now, out, |sessions, env| sessions.take_map(decoded, env));
                }
            }
            Told::Message(Msg { body: node::Body::Client(msgs::Body::FsMapUser(found)), .. }) => {
                self.choose_file_system(now, &found.map, out);
            }
            _ => {}
        }
    }

    /// Asks for the map of the file system that is wanted by name, once there is a list of names.
    fn choose_file_system(&mut self, now: Now, found: &FsMapUser, out: &mut Outs) {
        let Some(name) = self.config.options.fs_name.clone() else { return };
        self.services.mon(now, out, |monc, _| monc.unsubscribe("fsmap.user"));
        let Some(info) = found.filesystems.iter().find(|info| info.name == name) else {
            let names: Vec<&str> = found.filesystems.iter().map(|info| info.name.as_str()).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let why = format!("there is no file system `{name}` that this key may use (there are: {names})");
            return out.push(Output::Stop(Err(why)));
        };
        self.mdsmap = format!("mdsmap.{}", info.fscid.0);
        self.services.mon(now, out, |monc, outs| monc.subscribe(&self.mdsmap, 0, false, outs));
    }

    // Evictions.

    /// Looks whether the map has this client on its blocklist.
    fn look_at_blocklist(&mut self, now: Now, out: &mut Outs) {
        let map = self.services.osdmap();
        if self.comeback.is_refused_by(map) {
            let why = format!("this client is on the blocklist of OSD map {}", map.epoch);
            self.evicted(now, &why, out);
        }
    }

    /// This client was evicted: it gives up all that it held. Who has no mount has nobody to give it up for,
    /// and may have been shut out for good: it is told by each of its operations.
    fn evicted(&mut self, now: Now, why: &str, out: &mut Outs) {
        if !self.config.mount || self.sessions.is_closing() {
            return;
        }
        let Some(pause) = self.comeback.cut_off(now.mono) else { return };
        let why = match pause.as_secs() {
            0 => why.to_owned(),
            s => format!("{why}, soon after it has come back: it waits for {s} s"),
        };
        self.services.call(out, |cluster, outs| cluster.cut_off(now, outs));
        self.with_sessions(now, out, |sessions, env| sessions.evicted(&why, env));
    }

    /// Begins the next instance of a client that was evicted, when it is time; and lets it go on.
    fn come_back(&mut self, now: Now, out: &mut Outs) {
        if self.comeback.begins(now.mono) {
            self.services.call(out, |cluster, outs| cluster.leave(now, outs));
            out.push(Output::Rebind);
            self.services.call(out, |cluster, outs| cluster.begin_anew(now, outs));
        }
        if self.comeback.ends(!self.services.cluster().engine().is_held()) {
            let detail = format!("as client.{}", self.services.cluster().monc().global_id());
            out.push(Output::Event(Event::new(Level::Info, "came_back", detail)));
            self.with_sessions(now, out, |sessions, env| sessions.come_back(env));
        }
    }

    /// Reports once that local callers may come.
    fn report_ready(&mut self, out: &mut Outs) {
        let mounted = !self.config.mount || self.sessions.root_state() == State::Open;
        if !self.ready && self.services.osdmap().epoch.0 > 0 && mounted {
            self.ready = true;
            out.push(Output::Ready);
        }
    }

    /// Answers an admin command: there is one, whatever its name.
    fn admin(&self, id: AdminId) -> Output<Reply> {
        let output = format!(
            "{{\"inodes\":{},\"caps\":{},\"dirty_bytes\":{},\"mds_state\":\"{:?}\",\"osdmap_epoch\":{}}}",
            self.cache.len(),
            self.cache.cap_count(),
            self.cache.buffer().bytes(),
            self.sessions.root_state(),
            self.services.osdmap().epoch
        );
        Output::AdminReply { id, code: 0, output }
    }

    fn timer(&mut self, now: Now, out: &mut Outs) {
        if self.stuck.is_due(now.mono) {
            self.services.mon(now, out, |monc, _| monc.expect(now, &self.mdsmap));
        }
        self.services.call(out, |cluster, outs| cluster.timer(now, outs));
        told(self.tells.expire(now.mono, out), out);
        self.with_sessions(now, out, |sessions, env| sessions.timer(env));
        self.cache.write_back_old(now);
        self.cache.end_patience(now);
        self.cache.drop_expired_names(now);
        self.cache.end_work(now);
        self.cache.tell_unwanted(now);
    }

    /// Asserts the owners' invariants.
    fn check(&self, now: Now) {
        self.services.check();
        self.sessions.check();
        self.cache.check();
        self.window.check(now.mono);
        self.ops.check();
        if cfg!(debug_assertions) {
            self.handles.check(|key| self.cache.inode(key).map(|inode| inode.usage().access()));
        }
    }
}

/// Answers commands to metadata servers.
fn told(answers: impl IntoIterator<Item = (RequestId, msgs::CommandReply)>, out: &mut Outs) {
    for (id, reply) in answers {
        out.push(Output::Reply { id, reply: objects::command_reply(reply.r, reply.rs, reply.data) });
    }
}

/// The description of this client for `session ls`.
fn metadata_of_sessions(config: &ClientConfig) -> BTreeMap<String, String> {
    let pairs = [
        ("hostname", config.hostname.as_str()),
        ("entity_id", config.credentials.name.id.as_str()),
        ("mount_point", config.mount_point.as_str()),
        ("root", config.options.root.as_str()),
        ("ceph_version", concat!("nacre version ", env!("CARGO_PKG_VERSION"))),
        (msgs::session_metadata::ASYNC_DIRS, ""),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

impl Node for Client {
    type Request = Request;
    type Reply = Reply;

    fn handle(&mut self, now: Now, input: Input<Request>, out: &mut Outs) {
        match input {
            Input::Start => {
                // A name is made a number first.
                let what = if self.config.options.fs_name.is_some() { "fsmap.user" } else { &self.mdsmap };
                self.services.call(out, |cluster, outs| {
                    cluster.start(now, outs);
                    cluster.mon(now, outs, |monc, outs| monc.subscribe(what, 0, false, outs));
                });
            }
            Input::Timer => self.timer(now, out),
            Input::Connected { conn, peer } => {
                self.comeback.known_as(peer.ours);
                if self.services.cluster().owns(conn) {
                    self.services.call(out, |cluster, outs| cluster.connected(now, conn, &peer, outs));
                }
                self.look_at_blocklist(now, out);
            }
            Input::Closed { conn, reason } if self.services.cluster().owns(conn) => {
                self.services.call(out, |cluster, outs| cluster.closed(now, conn, reason, outs));
            }
            Input::Closed { conn, reason } => {
                if reason == CloseReason::Denied {
                    self.services.mon(now, out, |monc, outs| monc.tickets_refused(now, outs));
                }
                told(self.tells.closed(conn), out);
                self.with_sessions(now, out, |sessions, env| sessions.closed(conn, reason, env));
            }
            Input::Message { conn, msg } if self.services.cluster().owns(conn) => {
                self.services.call(out, |cluster, outs| cluster.message(now, conn, msg, outs));
            }
            Input::Message { conn, msg } if self.tells.owns(conn) => {
                told(self.tells.message(conn, msg, out), out);
            }
            Input::Message { conn, msg } => {
                if let node::Body::Client(msgs::Body::ClientCaps(caps)) = &msg.body {
                    self.services.wait_for_map(now, caps.osd_epoch_barrier, out);
                }
                self.with_sessions(now, out, |sessions, env| sessions.message(conn, msg, env));
            }
            Input::Request { id, request } => self.request(now, id, request, out),
            Input::Admin { id, .. } => out.push(self.admin(id)),
            Input::Disk { .. } | Input::Load(_) => {}
        }
        if !self.closed {
            self.settle(now, out);
            self.with_sessions(now, out, |sessions, env| sessions.open_needed(env));
            if self.ops.is_any_waiting() {
                self.sessions.send_awaited(out);
            }
        }
        if !self.closed {
            self.check(now);
        }
        self.stuck.follow(now.mono, self.sessions.oldest_request(), self.sessions.map().epoch);
    }

    fn deadline(&self) -> Option<Instant> {
        let parts = [
            self.services.cluster().deadline(),
            self.sessions.deadline(),
            self.tells.deadline(),
            self.stuck.deadline(),
            self.comeback.deadline(),
            self.cache.buffer().deadline(),
            self.cache.deadline(),
            self.window.deadline(),
        ];
        parts.into_iter().flatten().min()
    }
}

#[cfg(test)]
#[path = "client_acl_tests.rs"]
mod acl_tests;
#[cfg(test)]
#[path = "client_async_tests.rs"]
mod async_tests;
#[cfg(test)]
#[path = "client_data_tests.rs"]
mod data_tests;
#[cfg(test)]
#[path = "client_eviction_tests.rs"]
mod eviction_tests;
#[cfg(test)]
#[path = "client_fail_over_tests.rs"]
mod fail_over_tests;
#[cfg(test)]
#[path = "client_fs_name_tests.rs"]
mod fs_name_tests;
#[cfg(test)]
#[path = "client_handles_tests.rs"]
mod handles_tests;
#[cfg(test)]
#[path = "client_locks_tests.rs"]
mod locks_tests;
#[cfg(test)]
#[path = "client_memory_tests.rs"]
mod memory_tests;
#[cfg(test)]
#[path = "client_names_tests.rs"]
mod names_tests;
#[cfg(test)]
#[path = "client_privileges_tests.rs"]
mod privileges_tests;
#[cfg(test)]
#[path = "client_quotas_tests.rs"]
mod quotas_tests;
#[cfg(test)]
#[path = "client_ranks_tests.rs"]
mod ranks_tests;
#[cfg(test)]
#[path = "client_small_files_tests.rs"]
mod small_files_tests;
#[cfg(test)]
#[path = "client_snapshots_tests.rs"]
mod snapshots_tests;
#[cfg(test)]
#[path = "client_tell_tests.rs"]
mod tell_tests;
#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
#[cfg(test)]
#[path = "client_xattrs_tests.rs"]
mod xattrs_tests;
