//! The OSD as a node: dispatches inputs to PGs and carries out their outputs.
//!
//! All consequences of an input are handled before its outputs leave: synchronous answers of the store, PGs
//! woken by others, messages that wait for connections.

use crate::boot::Boot;
use crate::config::OsdConfig;
use crate::copy_from::CopyReads;
use crate::core::{Core, Due, Out};
use crate::ending::Ending;
use crate::heartbeat::Heartbeats;
use crate::links::Purpose;
use crate::map_log::MapLog;
use crate::mon_session::MonSession;
use crate::pg::Pg;
use crate::pgs::Pgs;
use crate::removal::Removals;
use crate::report::Reports;
use crate::store_io::StoreIo;
use crate::turns::Turns;
use crate::waiting::Waiting;
use maps::{PgId, Spg};
use monc::MoncConfig;
use node::{CloseReason, ConnId, DiskInfo, Input, Level, Msg, Never, Node, Peer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::{Instant, Now, Rng};
use store::StoreOut;
use wire::{EntityType, Errno};

/// Our share of the node's connection numbers for the monitors.
const MONC_SPACE: u8 = 1;

/// An object storage daemon.
///
/// Each part is an owner: the files beside this one call its operations, and only its own file or folder
/// changes it.
#[derive(Debug)]
pub struct Osd {
    pub(crate) core: Core,
    pub(crate) pgs: Pgs,
    pub(crate) mon: MonSession,
    pub(crate) boot: Boot,
    pub(crate) maps: MapLog,
    pub(crate) heartbeats: Heartbeats,
    pub(crate) waiting: Waiting,
    pub(crate) removals: Removals,
    pub(crate) copies: CopyReads,
    pub(crate) reports: Reports,
    ending: Ending,
    turns: Turns,
    settings: decl::Settings,
}

impl Osd {
    /// An OSD on a disk, which is formatted if it is blank. Its first input is [`Input::Start`].
    pub fn new(config: OsdConfig, disk: DiskInfo, mut rng: Rng) -> Self {
        let monc = MoncConfig {
            credentials: config.credentials.clone(),
            mons: config.monitors.clone(),
            services: vec![EntityType::OSD],
            rotating_keys: Some(EntityType::OSD),
            space: MONC_SPACE,
            hostname: config.hostname.clone(),
        };
        let io = StoreIo::new(&config.options, disk, rng.fork());
        let mon = MonSession::new(monc, rng.fork());
        let name = config.credentials.name.to_string();
        Self {
            heartbeats: Heartbeats::default(),
            core: Core::new(config, io),
            pgs: Pgs::default(),
            mon,
            boot: Boot::default(),
            maps: MapLog::default(),
            waiting: Waiting::default(),
            removals: Removals::default(),
            copies: CopyReads::default(),
            reports: Reports::default(),
            ending: Ending::default(),
            turns: Turns::default(),
            settings: decl::Settings::new(name, BTreeMap::new()),
        }
    }

    /// Sets options of its configuration file and command line, which take precedence over those from the
    /// monitors.
    pub fn with_file_options(mut self, options: BTreeMap<String, String>) -> Self {
        self.settings = decl::Settings::new(self.core.config().credentials.name.to_string(), options);
        self.settings_changed();
        self
    }

    /// Applies changed options.
    fn settings_changed(&mut self) {
        self.core.apply_settings(&self.settings);
    }

    /// Takes the options that the monitors have for this OSD.
    pub(crate) fn take_central_settings(&mut self, options: BTreeMap<String, String>) {
        if self.settings.set_central(options) {
            self.settings_changed();
        }
    }

    /// Carries out a command about options; `None` if it is another one.
    pub(crate) fn settings_command(&mut self, command: &Value) -> Option<Result<Value, (Errno, String)>> {
        let answer = self.settings.command(command)?;
        self.settings_changed();
        Some(answer)
    }

    /// Stops this OSD after an unrecoverable error.
    pub(crate) fn stop(&mut self, why: String) {
        if self.ending.stop() {
            self.core.push(Out::Stop(Err(why)));
        }
    }

    /// A command asks this OSD to end.
    pub(crate) fn ask_to_end(&mut self) {
        self.ending.ask();
    }

    /// True once in each period `every`: it is time to search for PGs that are due for scrub.
    pub(crate) fn is_scrub_look_due(&mut self, every: Duration) -> bool {
        self.turns.is_scrub_look_due(self.core.now().mono, every)
    }

    fn connected(&mut self, conn: ConnId, peer: Box<Peer>) {
        if self.mon.owns(conn) {
            self.mon.connected(self.core.now(), conn, &peer);
        } else if self.core.links().owns(conn) {
            self.link_made(conn);
        } else {
            self.core.add_session(conn, peer);
        }
    }

    fn message(&mut self, conn: ConnId, msg: Msg) {
        if self.mon.owns(conn) {
            self.mon.message(self.core.now(), conn, msg);
            return;
        }
        match msg.body {
            node::Body::Peer(body) => {
                if let Some(osd) = self.sender(conn) {
                    self.heard_from(osd);
                }
                self.peer_message(conn, msg.tid, body);
            }
            node::Body::Client(body) => self.client_message(conn, msg.tid, body, msg.hold),
        }
    }

    fn closed(&mut self, conn: ConnId, reason: CloseReason) {
        if self.mon.owns(conn) {
            self.mon.closed(self.core.now(), conn, reason);
        } else if self.core.links().owns(conn) {
            let Some((purpose, osd)) = self.core.link_closed(conn, reason) else {
                return;
            };
            self.core.count("links_lost", 1);
            if reason == CloseReason::Denied {
                self.mon.tickets_refused(self.core.now());
            }
            self.link_failed(osd, reason);
            if purpose == Purpose::Data {
                for pg in self.pgs.values_mut() {
                    pg.on_link_lost(&self.core, osd);
                }
                self.copies_link_lost(osd);
            } else {
                self.ping_one(osd);
            }
        } else {
            self.session_gone(conn);
        }
    }

    /// Handles an accepted connection that is closed, here or at its other end.
    pub(crate) fn session_gone(&mut self, conn: ConnId) {
        self.waiting.forget(conn);
        if self.core.remove_session(conn) {
            self.heartbeats.forget(conn);
            for pg in self.pgs.values_mut() {
                pg.on_client_gone(&mut self.core, conn);
                pg.on_reserver_gone(&mut self.core, conn);
            }
        }
    }

    fn timer(&mut self) {
        self.mon.timer(self.core.now());
        self.beat();
        self.repeer_due();
        let now = self.core.now().mono;
        for pg in self.pgs.values_mut().filter(|pg| pg.trim_paused_until().is_some_and(|at| at <= now)) {
            pg.snap_trim(&mut self.core);
        }
        for pg in self.pgs.values_mut() {
            pg.on_watch_time(&mut self.core);
            pg.check_activated(&mut self.core);
        }
        self.budget_due();
        self.waiting_due();
        self.awaited_map_due();
        self.scrub_tick();
        self.removals_due();
        self.report();
    }

    /// Resumes recovery if its pace allows, and retries OSDs without space.
    fn budget_due(&mut self) {
        if self.core.budget_due() {
            self.pgs.values_mut().for_each(|pg| pg.on_room(&mut self.core));
        }
    }

    /// Gives free transfers to PGs that wait for one, the longest waiting first.
    fn recover_more(&mut self) {
        for pgid in self.turns.to_recover(self.pgs.ids()) {
            if self.core.is_paced() || !self.core.has_free_transfer() {
                break;
            }
            if let Some((pg, core)) = self.pg(pgid)
                && pg.wants_recovery(core)
            {
                pg.recover(core);
                self.turns.recovered(pgid);
            }
        }
    }

    /// Grants free slots to PGs that wait for one.
    fn grant_reservations(&mut self) {
        for pgid in self.core.grant_own() {
            match self.pg(pgid) {
                Some((pg, core)) => pg.on_own_slot(core),
                None => self.core.release_own(pgid),
            }
        }
        for pgid in self.core.grant_filled() {
            match self.pg(pgid) {
                Some((pg, core)) => pg.on_filled_slot(core),
                None => self.core.release_filled(pgid),
            }
        }
    }

    /// Lets PGs check if they may trim removed snapshots.
    fn trim_more(&mut self) {
        if self.boot.is_running() {
            self.pgs.values_mut().for_each(|pg| pg.snap_trim(&mut self.core));
        }
    }

    fn repeer_due(&mut self) {
        let now = self.core.now().mono;
        for pg in self.pgs.values_mut().filter(|pg| pg.repeer_at().is_some_and(|at| at <= now)) {
            pg.restart(&mut self.core);
        }
    }

    /// Does everything that follows from an input.
    fn settle(&mut self) {
        loop {
            let events = self.core.take_store_events();
            let told = self.mon.take_events();
            let copies = self.copies_settle();
            let idle = events.is_empty() && told.is_empty() && !copies && self.core.is_idle();
            if idle || self.ending.is_stopped() {
                break;
            }
            events.into_iter().for_each(|event| self.store_event(event));
            told.into_iter().for_each(|told| self.monc_event(told));
            for due in Due::ALL {
                if self.core.take_due(due) {
                    self.do_due(due);
                }
            }
        }
        if cfg!(debug_assertions) {
            self.pgs.values().for_each(Pg::check);
        }
        self.ask_up_thru();
        self.ask_pg_temp();
        self.core.flush_links(self.mon.session());
    }

    /// Does one kind of work that PGs or messages have made due.
    fn do_due(&mut self, due: Due) {
        match due {
            Due::Reservations => self.grant_reservations(),
            Due::Recovery => self.recover_more(),
            Due::Trim => self.trim_more(),
            Due::Scrub => self.scrub_more(),
            Due::Report => self.stats_soon(),
        }
    }

    /// The shard of a PG that this OSD is primary of, or else the first that it has.
    pub(crate) fn shard_here(&self, pgid: PgId) -> Option<Spg> {
        let here = || self.pgs.shards_of(pgid);
        let led = here().find(|pg| pg.is_primary(&self.core));
        led.or_else(|| here().next()).map(Pg::id)
    }

    /// A shard of a PG; `None` if this OSD has nothing of it.
    pub(crate) fn pg(&mut self, pgid: Spg) -> Option<(&mut Pg, &mut Core)> {
        self.pgs.get_mut(&pgid).map(|pg| (pg, &mut self.core))
    }
}

impl Node for Osd {
    type Request = Never;
    type Reply = Never;

    fn handle(&mut self, now: Now, input: Input<Never>, out: &mut Vec<Out>) {
        self.core.begin_input(now);
        if self.ending.is_stopped() {
            return;
        }
        if self.ending.is_closing() {
            if let Input::Disk { id, result } = input {
                self.core.disk_done(id, result);
                self.close(out);
            }
            return;
        }
        match input {
            Input::Start => self.open_store(),
            Input::Timer => self.timer(),
            Input::Connected { conn, peer } => self.connected(conn, peer),
            Input::Message { conn, msg } => self.message(conn, msg),
            Input::Closed { conn, reason } => self.closed(conn, reason),
            Input::Disk { id, result } => self.core.disk_done(id, result),
            Input::Load(load) => self.reports.note_load(now.mono, load),
            Input::Admin { id, command } => self.admin(id, &command),
            Input::Request { request, .. } => match request {},
        }
        self.settle();
        self.core.drain(out);
        if self.ending.take_asked() {
            out.push(Out::ShutDown);
        }
    }

    fn batch_ended(&mut self, now: Now, out: &mut Vec<Out>) {
        self.core.begin_input(now);
        if self.ending.is_stopped() {
            return;
        }
        self.core.batch_ended();
        if self.ending.is_closing() {
            return self.close(out);
        }
        self.settle();
        self.core.drain(out);
    }

    /// Leaves its PGs, so that others take over, and shuts the store down, so that no replay is needed.
    fn shut_down(&mut self, now: Now, out: &mut Vec<Out>) {
        self.core.begin_input(now);
        if self.ending.is_stopped() || !self.core.store().is_open() {
            self.ending.stop();
            return out.push(Out::Stop(Ok(())));
        }
        self.ending.begin_close();
        out.extend(self.core.sessions().conns().map(|conn| Out::Close { conn }));
        self.core.close_store();
        self.close(out);
    }

    fn deadline(&self) -> Option<Instant> {
        if self.ending.is_closing() || self.ending.is_stopped() {
            return None;
        }
        if !self.boot.is_running() {
            return None;
        }
        let all = [
            self.pgs.values().filter_map(|pg| pg.deadline(&self.core)).min(),
            self.mon.deadline(),
            Some(self.heartbeats.deadline()),
            Some(self.reports.next_at()),
            self.core.links().deadline(),
            self.waiting.deadline(),
            self.awaited_map_deadline(),
            self.core.budget_deadline(),
            self.removals.deadline(),
        ];
        all.into_iter().flatten().min()
    }
}

impl Osd {
    /// Continues shutting the store down. Clients that wait for an answer ask another OSD.
    fn close(&mut self, out: &mut Vec<Out>) {
        for event in self.core.take_store_events() {
            match event {
                StoreOut::Disk(id, op) => out.push(Out::Disk { id, op }),
                StoreOut::Failed(error) => {
                    self.ending.stop();
                    let id = self.core.id();
                    return out.push(Out::Stop(Err(format!("osd.{id}: its store can't be closed: {error}"))));
                }
                StoreOut::Opened | StoreOut::Committed(_) | StoreOut::Read(..) => {}
            }
        }
        if self.core.store().is_clean() && self.ending.stop() {
            out.push(Out::Stop(Ok(())));
        }
    }

    /// Reports an event.
    pub(crate) fn event(&mut self, level: Level, name: &'static str, detail: impl Into<String>) {
        self.core.event(level, name, detail);
    }
}
