//! The monitor as a node: takes inputs, passes them to the services, and at the end of each input proposes
//! changes, publishes committed ones and sends answers.

mod admin;
mod cluster_log;
mod command;
#[cfg(test)]
mod damage_tests;
mod dispatch;
mod duties;
mod forward;
mod join_keys;
mod keys;
mod lead;
mod links;
mod map_spread;
mod mds;
mod members;
mod mgr;
mod osd_failures;
mod osd_reports;
mod pools;
mod publish;
mod request;
mod snapshots;
mod start;
mod tick;

use crate::answers::Answers;
use crate::cluster_log::PendingLines;
use crate::config::MonConfig;
use crate::domain::balancer::Balancer;
use crate::domain::devices::Devices;
use crate::domain::managers::Managers;
use crate::domain::max_mds::AutoMaxMds;
use crate::domain::pg_num::MergeWaits;
use crate::edit::Edit;
use crate::entry::Change;
use crate::failure::Failure;
use crate::mds_probes::{MdsProbes, is_probe};
use crate::options::{FromOption, option};
use crate::pg_stats::PgTable;
use crate::quorum::info::QuorumInfo;
use crate::quorum::links::Links;
use crate::quorum::proxies::Proxies;
use crate::quorum::requests::Requests;
use crate::quorum::snapshots::Snapshots;
use crate::quorum::standing::{GlobalIdRange, Standing};
use crate::raft_log::{LogEvent, NoSpace, RaftLog};
use crate::session::Sessions;
use crate::storage::Storage;
use crate::ticker::Ticker;
use crate::view::View;
use crate::volatile::failure_reports::FailureReports;
use crate::volatile::mds_liveness::MdsLiveness;
use crate::volatile::mgr_liveness::MgrLiveness;
use crate::volatile::osd_liveness::OsdLiveness;
use crate::volatile::pending_osd_changes::PendingOsdChanges;
use crate::volatile::periodic::Periodic;
use auth::{RotatingKeys, ServerKeys};
use node::{AdminId, Body, ConnId, Input, Msg, Never, Node, Output, Peer};
use std::collections::BTreeMap;
use std::sync::Arc;
use stdx::{Instant, Now, Rng};
use wire::Errno;

/// The most rounds of [`Mon::settle`] after one input, far more than any input needs.
const MAX_ROUNDS: u32 = 100;

/// An output of a monitor.
pub(crate) type Out = Output<Never>;

/// A monitor. Its first input opens the store.
pub struct Mon<S = store::Store> {
    config: MonConfig,
    log: RaftLog<S>,
    rng: Rng,
    sessions: Sessions,
    volatile: Volatile,
    ticker: Ticker,
    phase: Phase,
    /// Answers that wait for a commit.
    answers: Answers,
    /// The acceptors' keys; `None` until they are first published.
    keys: Option<Arc<ServerKeys>>,
    /// Keys with which monitors find one another before there is a cluster.
    spare_keys: RotatingKeys,
    links: Links,
    requests: Requests,
    proxies: Proxies,
    probes: MdsProbes,
    snapshots: Snapshots,
    standing: Standing,
    global_ids: GlobalIdRange,
    /// True once [`Output::Ready`] was sent.
    is_ready: bool,
    /// The set of voters may have to change.
    members_due: bool,
    /// This host's metadata, as `ceph mon metadata` shows it.
    host: BTreeMap<String, String>,
    /// Options of this process, once they are first used by `ceph tell`.
    settings: Option<decl::Settings>,
}

/// State that is not replicated. It starts empty when another monitor takes the lead: this monitor does not
/// know what was reported to another leader, and earlier reports to it are stale.
#[derive(Debug, Default)]
struct Volatile {
    /// Time at which this monitor became ready, or another one leader.
    since: Instant,
    quorum: QuorumInfo,
    pgs: PgTable,
    osds: OsdLiveness,
    failures: FailureReports,
    pending: PendingOsdChanges,
    mds: MdsLiveness,
    max_mds: AutoMaxMds,
    mgrs: MgrLiveness,
    lines: PendingLines,
    health_log: Periodic,
    devices: Devices,
    autoscale: Periodic,
    pg_num: Periodic,
    merges: MergeWaits,
    balancer: Balancer,
}

impl Volatile {
    /// Starts over; what is known of the monitors' clocks stays.
    fn reset(&mut self, now: Instant) {
        let mut quorum = std::mem::take(&mut self.quorum);
        quorum.reset();
        *self = Self { since: now, quorum, ..Self::default() };
    }
}

/// Phase of a monitor between start and end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// The store is being opened.
    Starting,
    /// It looks for the others.
    Electing,
    /// It was in quorum, and perhaps still is.
    Running,
    /// It was asked to shut down: it serves nobody, and the store is closing.
    Closing,
    /// It stopped after an unrecoverable failure.
    Stopped,
}

impl<S: Storage> Mon<S> {
    /// A monitor on its store, which it opens itself. It then decides whether a cluster has to be founded.
    pub fn new(config: MonConfig, store: S, rng: Rng) -> Self {
        Self {
            config,
            log: RaftLog::new(store),
            rng,
            sessions: Sessions::default(),
            volatile: Volatile::default(),
            ticker: Ticker::default(),
            phase: Phase::Starting,
            answers: Answers::default(),
            keys: None,
            spare_keys: RotatingKeys::default(),
            links: Links::default(),
            requests: Requests::default(),
            proxies: Proxies::default(),
            probes: MdsProbes::default(),
            snapshots: Snapshots::default(),
            standing: Standing::default(),
            global_ids: GlobalIdRange::default(),
            is_ready: false,
            host: BTreeMap::new(),
            settings: None,
            members_due: false,
        }
    }

    fn log_events(&mut self, now: Now, events: Vec<LogEvent>, out: &mut Vec<Out>) {
        for event in events {
            match event {
                LogEvent::Disk(id, op) => out.push(Output::Disk { id, op }),
                LogEvent::Opened(ident) => self.opened(now, ident, out),
                LogEvent::Committed => self.committed(now, out),
                LogEvent::Send(to, message) => self.send_raft(now, to, &message, out),
                LogEvent::Snapshot(to) => self.begin_snapshot(now, to, out),
                LogEvent::Failed(why) => self.stop(self.advise(&why), out),
                LogEvent::Full(why) => self.stop(self.advise_space(&why), out),
                LogEvent::Newer(why) => self.stop(format!("{why} (file {})", self.config.store_path), out),
            }
        }
    }

    fn stop(&mut self, why: String, out: &mut Vec<Out>) {
        if self.phase != Phase::Stopped {
            self.phase = Phase::Stopped;
            out.push(Output::Stop(Err(why)));
        }
    }

    /// The reason why this build may not take part in the cluster, by the committed state.
    fn level_refusal(&self) -> Option<String> {
        let level = self.log.state().osd.nacre().feature_level;
        self.config.build.levels.refusal(&format!("mon.{}", self.config.name), level)
    }

    /// Publishes a new committed state and sends the answers that waited for it.
    fn committed(&mut self, now: Now, out: &mut Vec<Out>) {
        if let Some(why) = self.level_refusal() {
            return self.stop(why, out);
        }
        self.after_commit(now, out);
        let version = self.log.state().version;
        while let Some(answer) = self.answers.pop_committed(version) {
            out.push(answer);
        }
    }

    /// Sends an output once all proposals up to `index` are committed.
    fn after(&mut self, index: u64, output: Out, out: &mut Vec<Out>) {
        if index <= self.log.state().version {
            out.push(output);
        } else {
            self.answers.push(index, output);
        }
    }

    /// Sends a message at once. Only for messages that depend on committed state alone.
    fn send(conn: ConnId, tid: u64, body: impl Into<Body>) -> Out {
        Output::Send { conn, msg: Msg::new(tid, body) }
    }

    /// Runs a decision on the proposed state and proposes what it changes. Returns the index to wait for.
    fn edit<T>(&mut self, now: Now, decide: impl FnOnce(&mut Edit<'_>) -> T) -> (T, u64) {
        let (value, changes) = self.draft(now, decide);
        (value, self.propose(now, changes))
    }

    /// The same, unless a monitor's store has no space for what it changes: then it changes nothing.
    fn edit_if_fits<T>(
        &mut self,
        now: Now,
        decide: impl FnOnce(&mut Edit<'_>) -> T,
    ) -> Result<(T, u64), Failure> {
        let (value, changes) = self.draft(now, decide);
        if let Err(failure) = self.check_space(&changes) {
            self.log.make_space();
            return Err(failure);
        }
        Ok((value, self.propose(now, changes)))
    }

    /// Runs a decision on the proposed state; its value, and what it changes.
    fn draft<T>(&mut self, now: Now, decide: impl FnOnce(&mut Edit<'_>) -> T) -> (T, Vec<Change>) {
        let view = View {
            state: self.log.tail(),
            pgs: &self.volatile.pgs,
            quorum: &self.volatile.quorum,
            balancer: &self.volatile.balancer,
            mds: &self.volatile.mds,
            host: &self.host,
            sessions: &self.sessions,
            config: &self.config,
            now,
        };
        let mut edit = Edit::new(view, &mut self.rng);
        let value = decide(&mut edit);
        if edit.too_long_name().is_some() {
            // A name from a daemon that is too long for a stored key.
            edit.discard();
        }
        let notes = std::mem::take(&mut edit.notes);
        let mut changes = if edit.is_empty() { Vec::new() } else { edit.into_changes() };
        changes.extend(self.log_notes(now, notes));
        (value, changes)
    }

    /// Proposes changes, if there are any. Returns the index to wait for.
    fn propose(&mut self, now: Now, changes: Vec<Change>) -> u64 {
        // Only a leader gets here; a monitor that has just lost the lead has no say.
        if !changes.is_empty() && self.log.raft().is_some_and(|r| r.is_leader()) {
            self.log.propose(now.wall, changes);
        }
        self.log.proposed()
    }

    /// Refuses changes for which a monitor's store has no space. Once they are committed it is too late.
    fn check_space(&self, changes: &[Change]) -> Result<(), Failure> {
        let (mut name, mut left) = (&self.config.name, u64::MAX);
        if let Some((other, least)) = self.volatile.quorum.least_left()
            && least < self.log.space().left
        {
            (name, left) = (other, least);
        }
        self.log.fits(changes, left).map_err(|NoSpace { needed, left }| {
            let text = format!(
                "the store of mon.{name} is full: this needs {} KiB of it, {} KiB are left. Remove what is \
                 not needed (`ceph config-key ls`, `ceph config-key rm KEY`), or stop mon.{name}, make its \
                 store larger (`truncate -s +4G` on the file `block` in its directory) and start it again",
                needed.div_ceil(1024),
                left / 1024
            );
            Failure::new(Errno::ENOSPC, text)
        })
    }

    /// The committed state together with this monitor's volatile knowledge.
    fn view(&self, now: Now) -> View<'_> {
        View {
            state: self.log.state(),
            pgs: &self.volatile.pgs,
            quorum: &self.volatile.quorum,
            balancer: &self.volatile.balancer,
            mds: &self.volatile.mds,
            host: &self.host,
            sessions: &self.sessions,
            config: &self.config,
            now,
        }
    }

    /// A view for readers that do not need the time.
    fn view_now(&self) -> View<'_> {
        self.view(Now { mono: self.ticker.next(), wall: stdx::Wall(0) })
    }

    /// Adds what `ceph mon metadata` tells of this monitor's host.
    pub fn with_host(mut self, host: BTreeMap<String, String>) -> Self {
        self.host = host;
        self
    }

    /// Rank of this monitor; 0 if the map does not list it.
    fn rank(&self) -> usize {
        self.log.state().monmap.rank_of(&self.config.name).unwrap_or(0)
    }

    /// An option as monitors see it, from the committed state.
    fn option<T: FromOption>(&self, name: &str) -> T {
        option(&self.config, self.log.state(), name)
    }

    fn takes_part(&self) -> bool {
        matches!(self.phase, Phase::Electing | Phase::Running)
    }

    /// Does what follows from an input. With a real store, which completes later, the first round is all
    /// there is. A test's store that completes at once brings commits, which bring proposals, which are
    /// written at once: rounds go on until nothing more follows.
    fn settle(&mut self, now: Now, out: &mut Vec<Out>) {
        if !self.takes_part() {
            return;
        }
        if self.may_found() {
            let rng = self.rng.fork();
            self.log.found(now.mono, &self.config.name, rng);
        }
        let mut events = Vec::new();
        if self.log.deadline().is_some_and(|at| at <= now.mono) {
            self.log.tick(now, &mut events);
        }
        self.log_events(now, events, out);
        self.maintain_links(now.mono, out);
        let mut rounds = 0;
        while self.settle_once(now, out) {
            rounds += 1;
            assert!(rounds < MAX_ROUNDS, "an input leads to proposals without end");
        }
        self.follow_standing(now, out);
        if self.is_removed() {
            let name = &self.config.name;
            self.stop(format!("mon.{name} was removed from the cluster: its directory can be deleted"), out);
        }
    }

    /// One round. Returns true if it did something that more may follow from.
    fn settle_once(&mut self, now: Now, out: &mut Vec<Out>) -> bool {
        self.follow_standing(now, out);
        if self.phase == Phase::Running {
            self.tick(now, out);
        }
        if self.log.leads() {
            self.apply_pending_osd_changes(now);
            self.write_lines(now, out);
            self.probe_mdss(now.mono, out);
            if std::mem::take(&mut self.members_due) {
                self.maintain_members(now);
            }
        }
        self.hand_out_requests(now, out);
        let mut events = Vec::new();
        self.log.flush(now, &mut events);
        let is_quiet = events.is_empty();
        self.log_events(now, events, out);
        !is_quiet && self.phase != Phase::Stopped
    }

    /// Requests a check of the voters at the end of this input.
    fn check_members_later(&mut self) {
        self.members_due = true;
    }

    fn connected(&mut self, now: Now, conn: ConnId, peer: Box<Peer>, out: &mut Vec<Out>) {
        let id = peer.global_id;
        if id == auth::GlobalIds::MON && peer.role() != wire::EntityType::MON {
            // A client with the monitors' key, let in while there are no ids to give: two of them would be
            // one.
            return out.push(Output::Close { conn });
        }
        if self.global_ids.runs_out_with(id) {
            self.want_ids(now, out);
        }
        self.sessions.add(conn, peer);
    }

    /// Resets volatile state when the monitor starts to follow a leader: no daemon is late yet.
    fn start_volatile(&mut self, now: Instant) {
        let state = self.log.state();
        self.volatile.osds.start(now, state.osdmap());
        self.volatile.mds.follow(now, &state.fsmap.mds_roles);
        self.volatile.mgrs.follow(now, Managers::of(&state.kv).all().map(|m| m.gid));
    }

    fn closed(&mut self, now: Instant, conn: ConnId) {
        if let Some(session) = self.sessions.remove(conn) {
            self.osd_session_closed(now, &session);
        }
        self.volatile.mds.session_closed(now, conn);
        self.volatile.mgrs.session_closed(now, conn);
    }

    fn admin(&mut self, now: Now, id: AdminId, command: &str, out: &mut Vec<Out>) {
        let (code, output) = self.admin_command(now, command);
        out.push(Output::AdminReply { id, code, output });
    }
}

impl<S: Storage> Node for Mon<S> {
    type Request = Never;
    type Reply = Never;

    fn handle(&mut self, now: Now, input: Input<Never>, out: &mut Vec<Out>) {
        if self.phase == Phase::Stopped {
            return;
        }
        let (start, mut events) = (out.len(), Vec::new());
        if self.phase == Phase::Closing {
            if let Input::Disk { id, result } = input {
                self.log.disk_done(now, id, result, &mut events);
                self.closing(now, events, out);
            }
            return;
        }
        match input {
            Input::Start => self.log.open(&mut events),
            Input::Timer => {}
            Input::Connected { conn, .. } if is_probe(conn) => self.mds_reached(conn, out),
            Input::Connected { conn, .. } if self.is_link(conn) => self.link_ready(conn, out),
            Input::Connected { conn, peer } => self.connected(now, conn, peer, out),
            Input::Message { conn, msg } => self.message(now, conn, msg, &mut events, out),
            Input::Closed { conn, reason } if is_probe(conn) => self.mds_probed(now, conn, reason),
            Input::Closed { conn, .. } if self.is_link(conn) => self.link_closed(now.mono, conn),
            Input::Closed { conn, .. } => {
                self.speaker_gone(now.mono, conn);
                self.closed(now.mono, conn);
                self.forget_requests(now.mono, conn, out);
            }
            Input::Disk { id, result } => self.log.disk_done(now, id, result, &mut events),
            Input::Load(_) => {}
            Input::Admin { id, command } => self.admin(now, id, &command, out),
            Input::Request { request, .. } => match request {},
        }
        self.log_events(now, events, out);
        self.settle(now, out);
        self.route_answers(now.mono, start, out);
    }

    fn shut_down(&mut self, now: Now, out: &mut Vec<Out>) {
        match self.takes_part() {
            true => self.close(now, out),
            false => out.push(Output::Stop(Ok(()))),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        if !self.takes_part() {
            return None;
        }
        let leads = self.log.leads();
        let parts = [
            (self.phase == Phase::Running).then(|| self.ticker.next()),
            self.log.deadline(),
            self.links.deadline(),
            self.standing.deadline(),
            self.volatile.lines.deadline().filter(|_| leads),
            self.volatile.mds.deadline().filter(|_| leads),
            self.volatile.pending.deadline().filter(|_| leads && !self.log.is_proposing()),
        ];
        parts.into_iter().flatten().min()
    }
}
