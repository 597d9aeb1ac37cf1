//! The OSD as a node: dispatches inputs to PGs and carries out their outputs.
//!
//! All consequences of an input are handled before its outputs leave: synchronous answers of the store, PGs
//! woken by others, messages that wait for connections.

use crate::boot::Boot;
use crate::config::OsdConfig;
use crate::copy_from::CopyReads;
use crate::core::{Core, Due, Out};

use crate::heartbeat::Heartbeats;
use crate::links::Purpose;
use crate::map_log::MapLog;
use crate::pg::Pg;
use crate::removal::Removal;
use crate::store_io::StoreIo;
use crate::waiting::Waiting;
use maps::{Epoch, PgId, Spg};
use monc::{Monc, MoncConfig, MoncOut};
use node::{CloseReason, ConnId, DiskInfo, Input, Level, Msg, Never, Node, Peer};
use std::collections::BTreeMap;
use std::ops::Bound;
use stdx::{Instant, Now, Rng};
use store::StoreOut;
use wire::EntityType;

/// Our share of the node's connection numbers for the monitors.
const MONC_SPACE: u8 = 1;

/// An object storage daemon.
#[derive(Debug)]
pub struct Osd {
    pub(crate) core: Core,
    pub(crate) pgs: BTreeMap<Spg, Pg>,
    pub(crate) monc: Monc,
    pub(crate) monc_out: Vec<MoncOut>,
    pub(crate) boot: Boot,
    pub(crate) maps: MapLog,
    pub(crate) heartbeats: Heartbeats,
    pub(crate) waiting: Waiting,
    pub(crate) removals: BTreeMap<Spg, Removal>,
    pub(crate) copies: CopyReads,
    pub(crate) report_at: Instant,
    pub(crate) asked_up_thru: Epoch,
    pub(crate) reported: BTreeMap<PgId, u64>,
    pub(crate) stopped: bool,
    /// A command asked it to end.
    pub(crate) asked_to_end: bool,
    /// It was asked to end and only shuts its store down.
    closing: bool,
    pub(crate) settings: decl::Settings,
    recovered_last: Spg,
    /// Time of the next search for PGs that are due for scrub.
    pub(crate) scrub_look_at: Instant,
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
        let monc = Monc::new(monc, rng.fork());
        let name = config.credentials.name.to_string();
        Self {
            heartbeats: Heartbeats::default(),
            core: Core::new(config, io),
            pgs: BTreeMap::new(),
            monc,
            monc_out: Vec::new(),
            boot: Boot::default(),
            maps: MapLog::default(),
            waiting: Waiting::default(),
            removals: BTreeMap::new(),
            copies: CopyReads::default(),
            report_at: Instant(0),
            asked_up_thru: Epoch(0),
            reported: BTreeMap::new(),
            stopped: false,
            asked_to_end: false,
            closing: false,
            settings: decl::Settings::new(name, BTreeMap::new()),
            recovered_last: Spg::default(),
            scrub_look_at: Instant(0),
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
    pub(crate) fn settings_changed(&mut self) {
        self.core.apply_settings(&self.settings);
    }

    /// Stops this OSD after an unrecoverable error.
    pub(crate) fn stop(&mut self, why: String) {
        if !self.stopped {
            self.core.push(Out::Stop(Err(why)));
        }
        self.stopped = true;
    }

    fn connected(&mut self, conn: ConnId, peer: Box<Peer>) {
        if self.monc.owns(conn) {
            self.monc.connected(self.core.now(), conn, &peer, &mut self.monc_out);
        } else if self.core.links().owns(conn) {
            self.link_made(conn);
        } else {
            self.core.add_session(conn, peer);
        }
    }

    fn message(&mut self, conn: ConnId, msg: Msg) {
        if self.monc.owns(conn) {
            self.monc.message(self.core.now(), conn, msg, &mut self.monc_out);
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
        if self.monc.owns(conn) {
            self.monc.closed(self.core.now(), conn, reason, &mut self.monc_out);
        } else if self.core.links().owns(conn) {
            let Some((purpose, osd)) = self.core.link_closed(conn, reason) else {
                return;
            };
            self.core.count("links_lost", 1);
            if reason == CloseReason::Denied {
                self.monc.tickets_refused(self.core.now(), &mut self.monc_out);
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
        self.monc.timer(self.core.now(), &mut self.monc_out);
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
        let after = self.recovered_last;
        let later = self.pgs.range((Bound::Excluded(after), Bound::Unbounded)).map(|(id, _)| *id);
        let turn: Vec<Spg> = later.chain(self.pgs.range(..=after).map(|(id, _)| *id)).collect();
        for pgid in turn {
            if self.core.is_paced() || !self.core.has_free_transfer() {
                break;
            }
            if let Some((pg, core)) = self.pg(pgid)
                && pg.wants_recovery(core)
            {
                pg.recover(core);
                self.recovered_last = pgid;
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
            let told = std::mem::take(&mut self.monc_out);
            let copies = self.copies_settle();
            let idle = events.is_empty() && told.is_empty() && !copies && self.core.is_idle();
            if idle || self.stopped {
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
        self.core.flush_links(&self.monc);
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
        let here = || self.pgs.range(Spg::all_of(pgid));
        let led = here().find(|(_, pg)| pg.is_primary(&self.core));
        led.or_else(|| here().next()).map(|(id, _)| *id)
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
        if self.stopped {
            return;
        }
        if self.closing {
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
            Input::Load(_) => {}
            Input::Admin { id, command } => self.admin(id, &command),
            Input::Request { request, .. } => match request {},
        }
        self.settle();
        self.core.drain(out);
        if std::mem::take(&mut self.asked_to_end) {
            out.push(Out::ShutDown);
        }
    }

    fn batch_ended(&mut self, now: Now, out: &mut Vec<Out>) {
        self.core.begin_input(now);
        if self.stopped {
            return;
        }
        self.core.batch_ended();
        if self.closing {
            return self.close(out);
        }
        self.settle();
        self.core.drain(out);
    }

    /// Leaves its PGs, so that others take over, and shuts the store down, so that no replay is needed.
    fn shut_down(&mut self, now: Now, out: &mut Vec<Out>) {
        self.core.begin_input(now);
        if self.stopped || !self.core.store().is_open() {
            self.stopped = true;
            return out.push(Out::Stop(Ok(())));
        }
        self.closing = true;
        out.extend(self.core.sessions().conns().map(|conn| Out::Close { conn }));
        self.core.close_store();
        self.close(out);
    }

    fn deadline(&self) -> Option<Instant> {
        if self.closing || self.stopped {
            return None;
        }
        if !self.boot.is_running() {
            return None;
        }
        let all = [
            self.pgs.values().filter_map(|pg| pg.deadline(&self.core)).min(),
            self.monc.deadline(),
            Some(self.heartbeats.deadline()),
            Some(self.report_at),
            self.core.links().deadline(),
            self.waiting.deadline(),
            self.awaited_map_deadline(),
            self.core.budget_deadline(),
            self.removals.values().filter_map(|removal| removal.deadline()).min(),
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
                    self.stopped = true;
                    let id = self.core.id();
                    return out.push(Out::Stop(Err(format!("osd.{id}: its store can't be closed: {error}"))));
                }
                StoreOut::Opened | StoreOut::Committed(_) | StoreOut::Read(..) => {}
            }
        }
        if self.core.store().is_clean() && !self.stopped {
            self.stopped = true;
            out.push(Out::Stop(Ok(())));
        }
    }

    /// Reports an event.
    pub(crate) fn event(&mut self, level: Level, name: &'static str, detail: impl Into<String>) {
        self.core.event(level, name, detail);
    }
}
