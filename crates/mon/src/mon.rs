//! The monitor as a node: takes inputs, hands them to the services, and at the end of each input proposes, publishes and
//! answers.

use crate::commands::Failure;
use crate::config::MonConfig;
use crate::consensus::VoterId;
use crate::edit::{Edit, option};
use crate::entry::Change;
use crate::log::{Ident, Log, LogEvent};
use crate::quorum::{Forward, Links, Snapshots, Standing};
use crate::session::Sessions;
use crate::soft::Soft;
use crate::storage::Storage;
use crate::tick::Ticker;
use auth::{EntityAuth, RotatingKeys, ServerKeys};
use node::{AdminId, Body, ConnId, Event, Input, Level, Msg, Never, Node, Output, Peer};
use std::collections::VecDeque;
use std::sync::Arc;
use stdx::{Instant, Now, Rng};
use wire::{EntityName, EntityType};

/// How long keys are good that nobody uses, see [`Mon::spare_keys`].
const SPARE_LIFE: std::time::Duration = std::time::Duration::from_secs(72 * 3600);

/// What a monitor puts out.
pub(crate) type Out = Output<Never>;

/// A monitor. Made anew at each start of the process; its first input opens the store.
pub struct Mon<S = store::Store> {
    pub(crate) config: MonConfig,
    pub(crate) log: Log<S>,
    pub(crate) rng: Rng,
    pub(crate) sessions: Sessions,
    pub(crate) soft: Soft,
    pub(crate) ticker: Ticker,
    pub(crate) phase: Phase,
    /// Answers that wait until everything up to an index is committed.
    pub(crate) waiting: VecDeque<(u64, Out)>,
    /// What acceptors have.
    pub(crate) keys: Option<Arc<ServerKeys>>,
    /// Keys that this monitor shows others before it has those of the cluster.
    pub(crate) spare_keys: RotatingKeys,
    pub(crate) links: Links,
    pub(crate) forward: Forward,
    pub(crate) snapshots: Snapshots,
    pub(crate) standing: Standing,
    /// Whether [`Output::Ready`] was said.
    pub(crate) is_ready: bool,
    /// The command that is being carried out.
    pub(crate) origin: Option<Origin>,
    /// Something was heard that may change who votes.
    members_due: bool,
}

/// Bytes that are remembered of why a command was refused: all of them are one row of the store.
const REFUSAL: usize = 1024;

/// Where a command comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub client: u64,
    pub tid: u64,
    /// It was carried out already, and its answer was lost with a leader or a connection: now it changes nothing.
    pub is_again: bool,
}

/// How far a monitor is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// The store is being opened.
    Starting,
    /// It looks for the others.
    Electing,
    /// It was in quorum, and perhaps still is.
    Running,
    /// It was asked to end: nobody is served any more, and the store comes to rest.
    Closing,
    /// Something failed that can't be worked around.
    Stopped,
}

impl<S: Storage> Mon<S> {
    /// A monitor on its store, which it opens itself. Whether a cluster has to be made is seen then.
    pub fn new(config: MonConfig, store: S, rng: Rng) -> Self {
        Self {
            config,
            log: Log::new(store),
            rng,
            sessions: Sessions::default(),
            soft: Soft::default(),
            ticker: Ticker::default(),
            phase: Phase::Starting,
            waiting: VecDeque::new(),
            keys: None,
            spare_keys: RotatingKeys::default(),
            links: Links::default(),
            forward: Forward::default(),
            snapshots: Snapshots::default(),
            standing: Standing::default(),
            is_ready: false,
            origin: None,
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
            }
        }
    }

    /// What to do about a store that fails.
    fn advise(&self, why: &str) -> String {
        let (file, name) = (&self.config.store_path, &self.config.name);
        let others = self.known_monmap().mons.len().max(self.config.monmap.mons.len()) > 1;
        let what = match others {
            true => format!(
                "to rebuild it, `mv {file} {file}.damaged` and start mon.{name} again: it fetches everything from the other monitors"
            ),
            false => format!(
                "restore {file} from a copy: there is no other monitor that mon.{name} could be rebuilt from"
            ),
        };
        format!("{why} (file {file}); {what}")
    }

    pub(crate) fn stop(&mut self, why: String, out: &mut Vec<Out>) {
        if self.phase != Phase::Stopped {
            self.phase = Phase::Stopped;
            out.push(Output::Stop(Err(why)));
        }
    }

    fn opened(&mut self, now: Now, ident: Option<Ident>, out: &mut Vec<Out>) {
        let (name, fsid) = (self.config.name.clone(), self.config.monmap.fsid);
        match &ident {
            Some(found) if found.fsid != fsid => {
                let why = format!(
                    "the store belongs to cluster {}, the configuration says {fsid}: check `fsid` or the directory",
                    found.fsid
                );
                return self.stop(why, out);
            }
            Some(found) if found.name != name => {
                let why = format!(
                    "the store belongs to mon.{}, this is mon.{name}: check --id or the directory",
                    found.name
                );
                return self.stop(why, out);
            }
            _ => {}
        }
        if self.log.is_blank()
            && let Some(joined) = &self.config.joined
        {
            let why = format!(
                "the store {} is empty, but {joined} says that mon.{name} was in a cluster: it takes the cluster's state from the \
                 other monitors. Where none has it any more, remove that file and a new, empty cluster begins",
                self.config.store_path
            );
            if self.config.monmap.ranks.iter().all(|other| *other == name) {
                return self.stop(why, out);
            }
            out.push(Output::Event(node::Event::new(node::Level::Warn, "waits_for_others", why)));
        }
        let store = ident.map(|found| found.store).filter(|store| *store != 0);
        let drawn = match stdx::mutants::is_active("mon_takes_a_new_store_for_its_old_one") {
            true => name.bytes().fold(1, |sum, byte| sum * 256 + u64::from(byte)),
            false => self.rng.u64().max(1),
        };
        let own = VoterId(store.unwrap_or(drawn));
        if store.is_none() {
            self.log.set_ident(Ident::new(fsid, &name, own));
        }
        self.spare_keys = RotatingKeys::default().rotated(now.wall, SPARE_LIFE, &mut self.rng);
        let rng = self.rng.fork();
        self.log.begin(now.mono, own, &name, rng);
        self.phase = Phase::Electing;
        self.publish_keys(now.mono, out);
    }

    /// Daemons that were added to the keyring since the last start and have no key here get theirs: an OSD that is new
    /// in the directory comes up without a further step.
    pub(crate) fn take_new_daemons(&mut self, now: Now) {
        let known = self.log.tail().auth.clone();
        let is_daemon = |name: &EntityName| matches!(name.ty, EntityType::OSD | EntityType::MDS);
        let new =
            self.config.keyring.0.iter().filter(|(name, _)| is_daemon(name) && !known.contains_key(name));
        let sound = new.filter(|(_, e)| e.caps.iter().all(|(s, c)| auth::check_caps(s, c).is_ok()));
        let changes: Vec<Change> = sound
            .map(|(name, e)| {
                let auth = EntityAuth { key: e.key.clone(), caps: e.caps.clone() };
                Change::Auth(name.clone(), Some(auth))
            })
            .collect();
        if !changes.is_empty() {
            self.log.propose(now.wall, changes);
        }
    }

    /// The committed state has moved: publish, answer.
    fn committed(&mut self, now: Now, out: &mut Vec<Out>) {
        self.after_commit(now, out);
        let version = self.log.state().version;
        while let Some((_, output)) = self.waiting.pop_front_if(|(index, _)| *index <= version) {
            out.push(output);
        }
    }

    /// Whether the cluster has removed this monitor.
    fn is_removed(&self) -> bool {
        let state = self.log.state();
        !state.is_empty()
            && !state.monmap.mons.contains_key(&self.config.name)
            && !self.log.raft().is_some_and(|r| r.is_leader() || r.is_voter())
    }

    /// Puts out what depends on proposals, once they are committed.
    pub(crate) fn after(&mut self, index: u64, output: Out, out: &mut Vec<Out>) {
        if index <= self.log.state().version {
            out.push(output);
        } else {
            self.waiting.push_back((index.max(self.waiting.back().map_or(0, |w| w.0)), output));
        }
    }

    /// A message to a connection, at once. Only for what depends on committed state alone.
    pub(crate) fn send(conn: ConnId, tid: u64, body: impl Into<Body>) -> Out {
        Output::Send { conn, msg: Msg::new(tid, body) }
    }

    /// Runs a decision on the proposed state and proposes what it wants. Gives the index to wait for.
    pub(crate) fn edit<T>(&mut self, now: Now, decide: impl FnOnce(&mut Edit<'_>) -> T) -> (T, u64) {
        let mut edit = Edit::new(self.log.tail(), &self.soft, &self.config, now, &mut self.rng);
        let value = decide(&mut edit);
        if edit.too_long_name().is_some() {
            // Of a daemon: what can't be kept is not agreed on.
            edit.discard();
        }
        match self.origin {
            Some(origin) if origin.is_again => edit.discard(),
            Some(Origin { client, tid, .. }) => match edit.came_to.take() {
                Some(Err(Failure { errno, text })) => {
                    edit.push(Change::Refused(client, tid, errno, crate::syslog::cut(text, REFUSAL)));
                }
                Some(Ok(())) => edit.push(Change::Done(client, tid)),
                None if !edit.is_empty() => edit.push(Change::Done(client, tid)),
                None => {}
            },
            None => {}
        }
        let notes = std::mem::take(&mut edit.notes);
        let mut changes = if edit.is_empty() { Vec::new() } else { edit.into_changes() };
        changes.extend(self.log_notes(now, notes));
        // Only a leader comes here; whoever else did would have no say.
        if !changes.is_empty() && self.log.raft().is_some_and(|r| r.is_leader()) {
            self.log.propose(now.wall, changes);
        }
        (value, self.log.proposed())
    }

    /// This monitor's rank; 0 where the map has it not.
    pub(crate) fn rank(&self) -> usize {
        self.log.state().monmap.rank_of(&self.config.name).unwrap_or(0)
    }

    /// An option as monitors see it, from the committed state.
    pub(crate) fn option<T: crate::config::FromOption>(&self, name: &str) -> T {
        option(&self.config, self.log.state(), name)
    }

    fn takes_part(&self) -> bool {
        matches!(self.phase, Phase::Electing | Phase::Running)
    }

    /// Sends everybody away, then brings the store to rest.
    fn close(&mut self, now: Now, out: &mut Vec<Out>) {
        self.phase = Phase::Closing;
        let mut events = Vec::new();
        self.log.resign(now, &mut events);
        self.log_events(now, events, out);
        let sessions = self.sessions.conns().into_iter().filter(|conn| !crate::quorum::is_proxy(*conn));
        out.extend(sessions.chain(self.links.take_all()).map(|conn| Output::Close { conn }));
        let mut events = Vec::new();
        self.log.close(now, &mut events);
        self.closing(now, events, out);
    }

    /// Goes on with that.
    fn closing(&mut self, now: Now, events: Vec<LogEvent>, out: &mut Vec<Out>) {
        // What is committed meanwhile is told by those who stay.
        let own = |event: &LogEvent| matches!(event, LogEvent::Disk(..) | LogEvent::Failed(_));
        self.log_events(now, events.into_iter().filter(own).collect(), out);
        if self.phase == Phase::Closing && self.log.is_closed() {
            self.phase = Phase::Stopped;
            out.push(Output::Stop(Ok(())));
        }
    }

    /// What follows from an input, until nothing more does.
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
        self.tend_links(now.mono, out);
        // A store that completes at once brings commits, which bring proposals; real ones end after the first round.
        for _ in 0..8 {
            self.follow_standing(now, out);
            if self.phase == Phase::Running {
                self.tick(now, out);
            }
            if self.log.leads() {
                self.grant_wishes(now);
                self.write_lines(now, out);
                if std::mem::take(&mut self.members_due) {
                    self.tend_members(now);
                }
            }
            self.hand_out(now, out);
            let mut events = Vec::new();
            self.log.flush(now, &mut events);
            let quiet = events.is_empty();
            self.log_events(now, events, out);
            if quiet || self.phase == Phase::Stopped {
                break;
            }
        }
        self.follow_standing(now, out);
        if self.is_removed() {
            let name = &self.config.name;
            self.stop(format!("mon.{name} was removed from the cluster: its directory can be deleted"), out);
        }
    }

    /// Looks at who votes at the end of this input.
    pub(crate) fn look_at_members(&mut self) {
        self.members_due = true;
    }

    fn connected(&mut self, now: Now, conn: ConnId, peer: Box<Peer>, out: &mut Vec<Out>) {
        let id = peer.global_id;
        if self.standing.ids.contains(&id) && id >= self.standing.ids_due {
            self.want_ids(now, out);
        }
        self.sessions.add(conn, peer);
    }

    pub(crate) fn closed(&mut self, now: Instant, conn: ConnId) {
        if let Some(session) = self.sessions.remove(conn) {
            self.osd_session_closed(now, &session);
        }
        self.mds_session_closed(now, conn);
    }

    fn message(&mut self, now: Now, conn: ConnId, msg: Msg, events: &mut Vec<LogEvent>, out: &mut Vec<Out>) {
        let Some(session) = self.sessions.get(conn) else { return };
        match msg.body {
            Body::Peer(body) if session.is(EntityType::MON) => self.mon_message(now, conn, body, events, out),
            _ => {
                self.follow_osd_epoch(now.mono, conn, &msg.body, out);
                self.dispatch(now, conn, msg, out);
            }
        }
    }

    /// A message of another monitor.
    fn mon_message(
        &mut self,
        now: Now,
        conn: ConnId,
        body: peer::Body,
        events: &mut Vec<LogEvent>,
        out: &mut Vec<Out>,
    ) {
        match body {
            peer::Body::MonHello(m) => {
                self.greeted(conn, *m, out);
                self.look_at_members();
            }
            peer::Body::MonRaft(m) => {
                self.raft_message(now, conn, &m, events, out);
                self.look_at_members();
            }
            peer::Body::MonForward(m) => self.forwarded(now, conn, *m, out),
            peer::Body::MonForwardReply(m) => self.forward_answered(conn, *m, out),
            peer::Body::MonForwardEnd(m) => self.forward_ended(now.mono, conn, &m),
            peer::Body::MonSnapshot(m) => self.snapshot_part(now, conn, *m, events, out),
            peer::Body::MonSnapshotAck(m) => self.snapshot_asked(now, conn, &m, out),
            peer::Body::MonIdsWanted(_) => self.ids_wanted(now, conn, out),
            peer::Body::MonIds(m) => self.ids_given(conn, &m, out),
            other => self.unexpected(&other, out),
        }
    }

    fn unexpected(&self, body: &peer::Body, out: &mut Vec<Out>) {
        let text = format!("{} is no message to a monitor", body.name());
        out.push(Output::Event(Event::new(Level::Warn, "message_unexpected", text)));
    }

    /// Handles a message of a session: at the leader, or what any monitor does by itself.
    pub(crate) fn serve(&mut self, now: Now, conn: ConnId, msg: Msg, out: &mut Vec<Out>) {
        if self.sessions.get(conn).is_none() {
            return;
        }
        let tid = msg.tid;
        self.origin = self.origin_of(conn, &msg);
        match msg.body {
            Body::Client(body) => self.client_message(now, conn, tid, body, out),
            Body::Peer(body) => self.daemon_message(now, conn, tid, body, out),
        }
        self.origin = None;
    }

    fn origin_of(&self, conn: ConnId, msg: &Msg) -> Option<Origin> {
        let Body::Client(msgs::Body::MonCommand(_)) = msg.body else { return None };
        let (client, tid) = (self.sessions.get(conn)?.peer.global_id, msg.tid);
        let is_again = self.log.tail().done.contains(&(client, tid));
        (client != 0 && tid != 0).then_some(Origin { client, tid, is_again })
    }

    fn daemon_message(&mut self, now: Now, conn: ConnId, tid: u64, body: peer::Body, out: &mut Vec<Out>) {
        match body {
            peer::Body::Hello(_) => {}
            peer::Body::OsdBoot(m) => self.osd_boot(now, conn, m, out),
            peer::Body::OsdAlive(m) => self.osd_alive(now, conn, &m, out),
            peer::Body::OsdFailure(m) => self.osd_failure(now, conn, &m, out),
            peer::Body::OsdBeacon(m) => self.osd_beacon(now, conn, &m, out),
            peer::Body::OsdPgTemp(m) => self.osd_pg_temp(conn, *m, out),
            peer::Body::PgStats(m) => self.pg_stats(now, conn, *m, out),
            peer::Body::MdsBeacon(m) => self.mds_beacon(now, conn, tid, *m, out),
            other => self.unexpected(&other, out),
        }
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
            Input::Connected { conn, .. } if self.is_link(conn) => self.link_ready(conn, out),
            Input::Connected { conn, peer } => self.connected(now, conn, peer, out),
            Input::Message { conn, msg } => self.message(now, conn, msg, &mut events, out),
            Input::Closed { conn, .. } if self.is_link(conn) => self.link_closed(now.mono, conn),
            Input::Closed { conn, .. } => {
                self.speaker_gone(now.mono, conn);
                self.closed(now.mono, conn);
                self.forget_requests(now.mono, conn, out);
            }
            Input::Disk { id, result } => self.log.disk_done(now, id, result, &mut events),
            Input::Admin { id, command } => self.admin(now, id, &command, out),
            Input::Request { request, .. } => match request {},
        }
        self.log_events(now, events, out);
        self.settle(now, out);
        self.route_answers(now.mono, start, out);
    }

    fn wind_up(&mut self, now: Now, out: &mut Vec<Out>) {
        match self.takes_part() {
            true => self.close(now, out),
            false => out.push(Output::Stop(Ok(()))),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        if !self.takes_part() {
            return None;
        }
        let parts = [
            (self.phase == Phase::Running).then(|| self.ticker.next()),
            self.log.deadline(),
            self.links.deadline(),
            self.lonely_deadline(),
            self.soft.said.deadline().filter(|_| self.log.leads()),
            self.wishes_deadline(),
        ];
        parts.into_iter().flatten().min()
    }
}
