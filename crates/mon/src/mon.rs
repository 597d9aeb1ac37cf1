//! The monitor as a node: takes inputs, hands them to the services, and at the end of each input proposes, publishes and
//! answers.

use crate::bootstrap;
use crate::config::MonConfig;
use crate::edit::{Edit, option};
use crate::entry::Change;
use crate::log::{Ident, Log, LogEvent};
use crate::session::Sessions;
use crate::soft::Soft;
use crate::storage::Storage;
use crate::syslog::LogLevel;
use crate::tick::Ticker;
use auth::{EntityAuth, ServerKeys};
use node::{AdminId, Body, ConnId, Event, Input, Level, Msg, Never, Node, Output, Peer};
use std::collections::VecDeque;
use std::sync::Arc;
use stdx::{Instant, Now, Rng};
use wire::{EntityName, EntityType};

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
    /// Version of the state that subscribers were told of.
    pub(crate) published: u64,
    /// What acceptors have.
    pub(crate) keys: Option<Arc<ServerKeys>>,
    /// End of the global ids that acceptors have, and the id from which on the next range is due.
    pub(crate) ids_given: u64,
    pub(crate) ids_due: u64,
}

/// How far a monitor is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// The store is being opened or the first entry written.
    Starting,
    /// In quorum.
    Running,
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
            published: 0,
            keys: None,
            ids_given: 0,
            ids_due: 0,
        }
    }

    fn log_events(&mut self, now: Now, events: Vec<LogEvent>, out: &mut Vec<Out>) {
        for event in events {
            match event {
                LogEvent::Disk(id, op) => out.push(Output::Disk { id, op }),
                LogEvent::Opened(ident) => self.opened(now, ident, out),
                LogEvent::Committed => self.committed(now, out),
                LogEvent::Failed(why) => self.stop(why, out),
            }
        }
    }

    fn stop(&mut self, why: String, out: &mut Vec<Out>) {
        if self.phase != Phase::Stopped {
            self.phase = Phase::Stopped;
            out.push(Output::Stop(Err(why)));
        }
    }

    fn opened(&mut self, now: Now, ident: Option<Ident>, out: &mut Vec<Out>) {
        let (name, fsid) = (self.config.name.clone(), self.config.monmap.fsid);
        match ident {
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
            Some(_) => {}
            None => self.log.set_ident(Ident::new(fsid, &name)),
        }
        let mons = self.config.monmap.mons.len().max(self.log.state().monmap.mons.len());
        if mons > 1 {
            // Each would decide alone: two truths are worse than no service.
            let why = format!(
                "{mons} monitors are configured: more than one is not supported yet; leave one in `mon host`"
            );
            return self.stop(why, out);
        }
        if self.log.state().is_empty() {
            match bootstrap::changes(&self.config, now, &mut self.rng) {
                Ok(changes) => drop(self.log.propose(now.wall, changes)),
                Err(why) => return self.stop(why, out),
            }
        }
        self.take_new_daemons(now);
        // Ids of an earlier life may have been given out: only ids committed in this one are used.
        self.propose_global_ids(now);
    }

    /// Daemons that were added to the keyring since the last start and have no key here get theirs: an OSD that is new
    /// in the directory comes up without a further step.
    fn take_new_daemons(&mut self, now: Now) {
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
        if self.phase == Phase::Starting {
            self.phase = Phase::Running;
            self.soft.since = now.mono;
            self.start_soft(now.mono);
        }
        self.after_commit(now, out);
        let version = self.log.state().version;
        while let Some((_, output)) = self.waiting.pop_front_if(|(index, _)| *index <= version) {
            out.push(output);
        }
        if self.published == 0 {
            let text = format!("mon.{} is ready at version {version}", self.config.name);
            out.push(Output::Event(Event::new(Level::Info, "mon_ready", text)));
            out.push(Output::Ready);
        }
        self.published = version;
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
        let notes = std::mem::take(&mut edit.notes);
        let changes = if edit.is_empty() { Vec::new() } else { edit.into_changes() };
        if !changes.is_empty() {
            self.log.propose(now.wall, changes);
        }
        for note in notes {
            self.say(now, LogLevel::Info, note);
        }
        (value, self.log.proposed())
    }

    /// A line in the cluster log.
    pub(crate) fn say(&mut self, now: Now, level: LogLevel, text: impl Into<String>) {
        let rank = self.rank();
        let own = self.log.state().monmap.mons.get(&self.config.name);
        let addrs = own.map(|info| info.addrs.clone()).unwrap_or_default();
        self.soft.log.say(&self.config.name, rank, addrs, now.wall.into(), level, text);
    }

    /// This monitor's rank; 0 where the map has it not.
    pub(crate) fn rank(&self) -> usize {
        self.log.state().monmap.rank_of(&self.config.name).unwrap_or(0)
    }

    /// An option as monitors see it, from the committed state.
    pub(crate) fn option<T: crate::config::FromOption>(&self, name: &str) -> T {
        option(&self.config, self.log.state(), name)
    }

    fn connected(&mut self, now: Now, conn: ConnId, peer: Box<Peer>) {
        if peer.global_id >= self.ids_due && peer.name.ty != EntityType::MON {
            self.propose_global_ids(now);
        }
        self.sessions.add(conn, peer);
    }

    fn closed(&mut self, now: Instant, conn: ConnId) {
        self.sessions.remove(conn);
        self.osd_session_closed(now, conn);
        self.mds_session_closed(now, conn);
    }

    fn message(&mut self, now: Now, conn: ConnId, msg: Msg, out: &mut Vec<Out>) {
        if self.sessions.get(conn).is_none() {
            return;
        }
        let tid = msg.tid;
        match msg.body {
            Body::Client(body) => self.client_message(now, conn, tid, body, out),
            Body::Peer(body) => self.daemon_message(now, conn, tid, body, out),
        }
    }

    fn daemon_message(&mut self, now: Now, conn: ConnId, tid: u64, body: peer::Body, out: &mut Vec<Out>) {
        match body {
            peer::Body::Hello(_) => {}
            peer::Body::OsdBoot(m) => self.osd_boot(now, conn, m, out),
            peer::Body::OsdAlive(m) => self.osd_alive(now, conn, &m),
            peer::Body::OsdFailure(m) => self.osd_failure(now, conn, &m),
            peer::Body::OsdBeacon(m) => self.osd_beacon(now, conn, &m),
            peer::Body::OsdPgTemp(m) => self.osd_pg_temp(conn, *m),
            peer::Body::PgStats(m) => self.pg_stats(now, conn, *m),
            peer::Body::MdsBeacon(m) => self.mds_beacon(now, conn, tid, *m, out),
            other => {
                let text = format!("{} is no message to a monitor", other.name());
                out.push(Output::Event(Event::new(Level::Warn, "message_unexpected", text)));
            }
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
        let mut events = Vec::new();
        match input {
            Input::Start => self.log.open(&mut events),
            Input::Timer => {}
            Input::Connected { conn, peer } => self.connected(now, conn, peer),
            Input::Message { conn, msg } => self.message(now, conn, msg, out),
            Input::Closed { conn, .. } => self.closed(now.mono, conn),
            Input::Disk { id, result } => self.log.disk_done(id, result, &mut events),
            Input::Admin { id, command } => self.admin(now, id, &command, out),
            Input::Request { request, .. } => match request {},
        }
        self.log_events(now, events, out);
        if self.phase == Phase::Running {
            self.tick(now);
            self.grant_wishes(now);
            self.publish_log(out);
        }
        let mut events = Vec::new();
        if self.phase != Phase::Stopped {
            self.log.flush(&mut events);
        }
        self.log_events(now, events, out);
    }

    fn deadline(&self) -> Option<Instant> {
        (self.phase == Phase::Running).then(|| self.ticker.next())
    }
}
