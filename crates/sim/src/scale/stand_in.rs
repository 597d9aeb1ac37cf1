//! A stand-in for an OSD: its messages to monitors and its heartbeats, without data.
//!
//! The session to the monitors is the real one (`monc`), and so are the messages. A stand-in sends them when
//! an OSD would: it boots once it has the newest map, follows every epoch, asks for `up_thru` if it is the
//! primary of a PG whose interval began, reports statistics, pings every OSD with which it shares a PG and
//! its neighbours in the map, and reports those that are silent or refuse connections. It has no store,
//! peering or recovery, whose messages go between OSDs. Tests check that its counts match those of a real
//! OSD.

use super::atlas::{Atlas, Era, Row};
use auth::ServerKeys;
use maps::{Epoch, OsdId, PgId, StoreStatfs};
use monc::{ConnSpace, Monc, MoncConfig, MoncOut, Told};
use node::{Body, CloseReason, ConnId, Input, Msg, Never, Node, Output, Target};
use peer::{pg_state, ping_op};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stdx::{FastMap, Instant, Now, Rng};
use wire::{EntityId, EntityType};

type Out = Output<Never>;

/// Peers that an OSD pings when it has a new map.
const TOLD_AT_ONCE: usize = 3;
/// A map that others have and that has not come is asked for after this time.
const MAP_PATIENCE: Duration = Duration::from_millis(1500);
/// Maps that were sent to another are not sent again within this time.
const RESEND_AFTER: Duration = Duration::from_secs(1);
/// Delay of the report after a change of PGs.
const SOON: Duration = Duration::from_millis(100);

/// State that survives a restart.
#[derive(Default)]
pub(super) struct Kept {
    era: Option<Rc<Era>>,
    last_up: Epoch,
}

#[derive(Default)]
struct Beat {
    up_from: Epoch,
    heard: Instant,
    reported: bool,
    refused_at: Option<Instant>,
    conn: Option<ConnId>,
    retry_at: Instant,
    /// A ping waits for a connection.
    waits: bool,
    /// The map that it was sent last, and when.
    shared: Option<(Epoch, Instant)>,
}

pub(super) struct StandIn {
    config: osd::OsdConfig,
    atlas: Rc<RefCell<Atlas>>,
    kept: Rc<RefCell<Kept>>,
    monc: Monc,
    monc_out: Vec<MoncOut>,
    conns: ConnSpace,
    now: Now,
    out: Vec<Out>,
    era: Option<Rc<Era>>,
    newest_known: Epoch,
    newest_heard: Epoch,
    is_up: bool,
    ready: bool,
    announced: bool,
    beats: BTreeMap<OsdId, Beat>,
    by_conn: FastMap<ConnId, OsdId>,
    beat_at: Instant,
    report_at: Instant,
    asked_up_thru: Epoch,
    asked_lately: bool,
    /// PGs that it was primary of in the last report.
    reported: BTreeSet<PgId>,
    changed: BTreeSet<PgId>,
    seq: u64,
    /// Time at which it asks a monitor for a map that other OSDs have.
    ask_at: Option<Instant>,
}

impl StandIn {
    pub fn new(
        config: osd::OsdConfig,
        mut rng: Rng,
        atlas: Rc<RefCell<Atlas>>,
        kept: Rc<RefCell<Kept>>,
    ) -> Self {
        let monc = MoncConfig {
            credentials: config.credentials.clone(),
            mons: config.monitors.clone(),
            services: vec![EntityType::OSD],
            rotating_keys: Some(EntityType::OSD),
            space: 1,
            hostname: config.hostname.clone(),
        };
        let era = kept.borrow().era.clone();
        Self {
            config,
            atlas,
            monc: Monc::new(monc, rng.fork()),
            monc_out: Vec::new(),
            conns: ConnSpace::new(2),
            now: Now::default(),
            out: Vec::new(),
            era,
            kept,
            newest_known: Epoch(0),
            newest_heard: Epoch(0),
            is_up: false,
            ready: false,
            announced: false,
            beats: BTreeMap::new(),
            by_conn: FastMap::default(),
            beat_at: Instant(0),
            report_at: Instant(0),
            asked_up_thru: Epoch(0),
            asked_lately: false,
            reported: BTreeSet::new(),
            changed: BTreeSet::new(),
            seq: 0,
            ask_at: None,
        }
    }

    fn epoch(&self) -> Epoch {
        self.era.as_ref().map_or(Epoch(0), |era| era.map.epoch)
    }

    fn entry(&self, osd: OsdId) -> Option<&maps::OsdEntry> {
        self.era.as_ref()?.map.osd(osd)
    }

    fn start(&mut self) {
        let next = u64::from(self.epoch().0);
        self.monc.subscribe("osdmap", if next == 0 { 0 } else { next + 1 }, false, &mut self.monc_out);
        self.monc.subscribe("nacremap", 0, false, &mut self.monc_out);
        self.monc.subscribe("config", 0, false, &mut self.monc_out);
        self.monc.start(self.now, &mut self.monc_out);
        self.beat_at = self.now.mono;
        self.report_at = self.now.mono + self.config.options.report_interval;
    }

    fn settle(&mut self) {
        while !self.monc_out.is_empty() {
            for event in std::mem::take(&mut self.monc_out) {
                self.monc_event(event);
            }
        }
        self.ask_up_thru();
        for event in std::mem::take(&mut self.monc_out) {
            self.monc_event(event);
        }
        if self.beats.values().any(|b| b.waits) {
            let due: Vec<OsdId> = self.beats.iter().filter(|(_, b)| b.waits).map(|(osd, _)| *osd).collect();
            due.into_iter().for_each(|osd| self.ping_one(osd));
        }
    }

    fn monc_event(&mut self, event: MoncOut) {
        match event {
            MoncOut::Net(net) => self.out.push(Out::from(net)),
            MoncOut::Told(Told::Session { .. }) => {
                self.announced = false;
                self.reported.clear();
                self.report_soon();
                self.asked_up_thru = Epoch(0);
                self.announce();
            }
            MoncOut::Told(Told::RotatingKeys(keys)) => {
                let mut own = ServerKeys::new(EntityType::OSD, self.config.methods.clone());
                own.rotating.insert(EntityType::OSD, *keys);
                self.out.push(Out::Keys(Arc::new(own)));
            }
            MoncOut::Told(Told::Message(msg)) => {
                if let Body::Client(msgs::Body::OsdMap(maps)) = msg.body {
                    self.take_maps(&maps);
                }
            }
            MoncOut::Told(_) => {}
        }
    }

    fn take_maps(&mut self, msg: &msgs::OsdMap) {
        self.newest_known = self.newest_known.max(msg.newest);
        let before = self.era.clone();
        let mut began = BTreeSet::new();
        loop {
            let next = self.epoch().next();
            let era = match (&self.era, msg.incrementals.get(&next)) {
                (Some(era), Some(bytes)) => self.atlas.borrow_mut().step(era, bytes),
                _ => match msg.fulls.range(next..).next_back() {
                    Some((epoch, bytes)) => self.atlas.borrow_mut().full(*epoch, bytes),
                    None => break,
                },
            };
            self.advance(era, &mut began);
        }
        if before.as_ref().is_none_or(|old| old.map.epoch < self.epoch()) && self.era.is_some() {
            self.acted_on(before, began);
        } else if self.newest_known > self.epoch() {
            let next = u64::from(self.epoch().0) + 1;
            self.monc.subscribe("osdmap", next, false, &mut self.monc_out);
        }
    }

    fn advance(&mut self, era: Rc<Era>, began: &mut BTreeSet<PgId>) {
        let (us, before) = (self.config.id, self.epoch());
        self.is_up = era.map.osd(us).is_some_and(|o| o.is_up() && o.client_addrs == self.config.addrs);
        let same = self.era.as_ref().is_some_and(|old| Rc::ptr_eq(&old.placement, &era.placement));
        if !same {
            began.extend(era.placement.of(us).filter(|row| row.interval > before).map(|row| row.pgid));
        }
        let mut kept = self.kept.borrow_mut();
        if self.is_up {
            kept.last_up = era.map.epoch;
        }
        kept.era = Some(era.clone());
        drop(kept);
        self.era = Some(era);
    }

    fn acted_on(&mut self, before: Option<Rc<Era>>, began: BTreeSet<PgId>) {
        let Some(era) = self.era.clone() else { return };
        let us = self.config.id;
        self.monc.got("osdmap", u64::from(era.map.epoch.0));
        let thru = |era: &Era| era.map.osd(us).map_or(Epoch(0), |o| o.info.up_thru);
        let old_thru = before.as_deref().map_or(Epoch(0), thru);
        let is_primary = |row: &Row| row.acting.first() == Some(&us);
        let activated = |row: &Row| old_thru < row.interval && thru(&era) >= row.interval;
        let rows = era.placement.of(us).filter(|row| is_primary(row));
        let due: Vec<PgId> =
            rows.filter(|row| began.contains(&row.pgid) || activated(row)).map(|row| row.pgid).collect();
        if !due.is_empty() {
            self.changed.extend(due);
            self.report_soon();
        }
        self.announce();
        self.peers_changed();
        if self.epoch() >= self.newest_heard {
            self.ask_at = None;
        }
        if self.beat_at == self.now.mono + self.config.options.heartbeat_interval {
            return; // all were pinged just now
        }
        // A few peers are shown the new map at once, as OSDs do.
        let peers: Vec<OsdId> = self.beats.keys().copied().collect();
        let first = era.map.epoch.0 as usize * TOLD_AT_ONCE;
        for n in 0..TOLD_AT_ONCE.min(peers.len()) {
            self.ping_one(peers[(first + n) % peers.len()]);
        }
    }

    fn announce(&mut self) {
        if self.is_up {
            if !std::mem::replace(&mut self.ready, true) {
                self.out.push(Out::Ready);
            }
            self.announced = false;
            return;
        }
        let caught_up = self.epoch() >= self.newest_known && self.epoch() != Epoch(0);
        if !caught_up || !self.monc.is_open() || std::mem::replace(&mut self.announced, true) {
            return;
        }
        let body = self.config.boot(self.epoch(), self.kept.borrow().last_up);
        self.monc.send(peer::Body::from(body), &mut self.monc_out);
    }

    fn ask_up_thru(&mut self) {
        if !self.is_up || !self.monc.is_open() {
            return;
        }
        let us = self.config.id;
        let have = self.entry(us).map_or(Epoch(0), |o| o.info.up_thru);
        if have.max(self.asked_up_thru) >= self.epoch() {
            return;
        }
        let Some(era) = &self.era else { return };
        let primary = era.placement.of(us).filter(|row| row.acting.first() == Some(&us));
        let want = primary.map(|row| row.interval).max().unwrap_or_default();
        if want <= have || want <= self.asked_up_thru {
            return;
        }
        (self.asked_up_thru, self.asked_lately) = (want, true);
        let body = peer::OsdAlive { osd: us, want, epoch: self.epoch() };
        self.monc.send(peer::Body::from(body), &mut self.monc_out);
    }

    fn report_soon(&mut self) {
        self.report_at = self.report_at.min(self.now.mono + SOON);
    }

    fn report(&mut self) {
        let now = self.now.mono;
        if now < self.report_at {
            return;
        }
        self.report_at = now + self.config.options.report_interval;
        if !self.is_up {
            self.announced = false;
            return self.announce();
        }
        if !self.monc.is_open() {
            return;
        }
        if !std::mem::take(&mut self.asked_lately) {
            self.asked_up_thru = Epoch(0);
        }
        let Some(era) = self.era.clone() else { return };
        let us = self.config.id;
        let (changed, mut seen, mut pgs) = (std::mem::take(&mut self.changed), BTreeSet::new(), Vec::new());
        for row in era.placement.of(us).filter(|row| row.acting.first() == Some(&us)) {
            seen.insert(row.pgid);
            if changed.contains(&row.pgid) || !self.reported.contains(&row.pgid) {
                pgs.push(self.stat(&era, row));
            }
        }
        let removed = self.reported.difference(&seen).copied().collect();
        self.reported = seen;
        let store = StoreStatfs { total: 1 << 40, available: 1 << 40, ..StoreStatfs::default() };
        let pools: BTreeSet<i64> = era.placement.of(us).map(|row| row.pgid.pool).collect();
        let pool = |pool| peer::OsdPoolStat { pool, store: StoreStatfs::default() };
        let body = peer::PgStats {
            osd: us,
            epoch: era.map.epoch,
            pgs,
            removed,
            store,
            pools: pools.into_iter().map(pool).collect(),
            commit_latency_ms: 0,
            heartbeat_peers: self.beats.keys().copied().collect(),
            slow_ops: 0,
            oldest_slow_s: 0,
            repaired: 0,
            disk_commit_ms: 0,
            disk_commits: 0,
            disk_errors: 0,
            disk_errors_lately: 0,
            ping_times: Vec::new(),
            used: peer::OsdUsage::default(),
        };
        self.monc.send(peer::Body::from(body), &mut self.monc_out);
    }

    fn stat(&mut self, era: &Era, row: &Row) -> peer::PgStat {
        self.seq += 1;
        let thru = era.map.osd(self.config.id).map_or(Epoch(0), |o| o.info.up_thru);
        let full = row.acting.len() >= usize::from(row.size);
        let state = match thru >= row.interval {
            true => pg_state::ACTIVE | if full { pg_state::CLEAN } else { 0 },
            false => pg_state::PEERING,
        };
        peer::PgStat {
            pgid: row.pgid,
            state: state | if full { 0 } else { pg_state::UNDERSIZED },
            reported_seq: self.seq,
            reported_epoch: era.map.epoch,
            up: row.up.clone(),
            acting: row.acting.clone(),
            ..peer::PgStat::default()
        }
    }
}

/// The heartbeats of a stand-in.
impl StandIn {
    fn peers_changed(&mut self) {
        let Some(era) = self.era.clone() else { return };
        let us = self.config.id;
        let mut wanted = BTreeMap::new();
        if self.is_up {
            let members = era.placement.of(us).flat_map(|row| row.acting.iter().chain(&row.up));
            for osd in members.copied().filter(|osd| *osd != us).chain(era.map.neighbours(us)) {
                let up = era.map.osd(osd).filter(|o| o.is_up());
                wanted.extend(up.map(|o| (osd, o.info.up_from)));
            }
        }
        let (out, by_conn) = (&mut self.out, &mut self.by_conn);
        self.beats.retain(|osd, beat| {
            let keep = wanted.get(osd) == Some(&beat.up_from);
            if let (false, Some(conn)) = (keep, beat.conn) {
                by_conn.remove(&conn);
                out.push(Out::Close { conn });
            }
            keep
        });
        let (known, heard) = (self.beats.len(), self.now.mono);
        for (osd, up_from) in wanted {
            self.beats.entry(osd).or_insert_with(|| Beat { up_from, heard, ..Beat::default() });
        }
        if self.beats.len() > known {
            self.beat_at = heard;
            self.beat();
        }
    }

    fn beat(&mut self) {
        let now = self.now.mono;
        let due = now >= self.beat_at;
        if due {
            self.beat_at = now + self.config.options.heartbeat_interval;
            self.beats.keys().copied().collect::<Vec<_>>().into_iter().for_each(|osd| self.ping_one(osd));
        }
        let grace = self.config.options.heartbeat_grace;
        let mut silent = Vec::new();
        for (osd, beat) in &mut self.beats {
            let time = now.since(beat.heard);
            if time >= grace && (due || !beat.reported) {
                beat.reported = true;
                silent.push((*osd, time));
            }
        }
        silent.into_iter().for_each(|(osd, time)| self.report_failure(osd, false, false, time));
    }

    fn ping(&self, op: u8, stamp: u64, lease_ns: u64) -> Msg {
        let us = self.config.id;
        let up_from = self.entry(us).map_or(Epoch(0), |o| o.info.up_from);
        let (fsid, epoch) = (self.config.fsid, self.epoch());
        Msg::new(0, peer::Body::from(peer::OsdPing { fsid, op, from: us, epoch, up_from, stamp, lease_ns }))
    }

    fn ping_one(&mut self, osd: OsdId) {
        let (now, fsid, epoch) = (self.now.mono, self.config.fsid, self.epoch());
        let msg = self.ping(ping_op::PING, now.0, 0);
        let has_tickets = self.monc.tickets().get(EntityType::OSD).is_some();
        let Some(beat) = self.beats.get_mut(&osd) else { return };
        let addr = self.era.as_ref().and_then(|era| era.map.osd(osd)?.hb_back_addrs.msgr2());
        if let (None, Some(addr), true) = (beat.conn, addr, has_tickets && beat.retry_at <= now) {
            let conn = self.conns.next_id();
            let auth = self.monc.service_auth(EntityType::OSD);
            let to = Target { service: EntityType::OSD, addr, lossless: false, auth };
            self.out.push(Out::Connect { conn, to: Box::new(to) });
            let from = EntityId { ty: EntityType::OSD, num: i64::from(self.config.id.0) };
            let hello = peer::Hello { fsid, from, epoch };
            self.out.push(Out::Send { conn, msg: Msg::new(0, peer::Body::from(hello)) });
            beat.conn = Some(conn);
            self.by_conn.insert(conn, osd);
        }
        beat.waits = beat.conn.is_none();
        if let Some(conn) = beat.conn {
            self.out.push(Out::Send { conn, msg });
        }
    }

    fn report_failure(&mut self, osd: OsdId, refused: bool, alive_again: bool, silent: Duration) {
        let Some(entry) = self.entry(osd).filter(|o| o.is_up()) else { return };
        let body = peer::OsdFailure {
            reporter: self.config.id,
            target: osd,
            target_addrs: entry.client_addrs.clone(),
            refused,
            alive_again,
            failed_for_s: u32::try_from(silent.as_secs()).unwrap_or(u32::MAX),
            epoch: self.epoch(),
        };
        self.monc.send(peer::Body::from(body), &mut self.monc_out);
    }

    fn link_closed(&mut self, conn: ConnId, reason: CloseReason) {
        let Some(osd) = self.by_conn.remove(&conn) else { return };
        let (now, options) = (self.now.mono, &self.config.options);
        let (interval, delay) = (options.heartbeat_interval, options.reconnect_delay);
        if reason == CloseReason::Denied {
            self.monc.tickets_refused(self.now, &mut self.monc_out);
        }
        let is_up = self.is_up;
        let Some(beat) = self.beats.get_mut(&osd) else { return };
        beat.conn = None;
        beat.retry_at = now + if reason == CloseReason::Lost { Duration::ZERO } else { delay };
        let refused = reason == CloseReason::Refused && is_up;
        if refused && beat.refused_at.is_none_or(|at| now.since(at) >= interval) {
            beat.refused_at = Some(now);
            self.report_failure(osd, true, false, Duration::ZERO);
        }
        self.ping_one(osd);
    }

    /// Another OSD has shown its map: it is sent what it lacks, and what we lack is waited for.
    fn compare_maps(&mut self, conn: ConnId, ping: &peer::OsdPing) {
        let (ours, now) = (self.epoch(), self.now.mono);
        if ping.epoch > ours {
            self.newest_heard = self.newest_heard.max(ping.epoch);
            self.ask_at = Some(self.ask_at.unwrap_or(now + MAP_PATIENCE));
        }
        let beat = self.beats.get_mut(&ping.from);
        // A peer that pings us is shown our map by our own pings.
        if ping.epoch >= ours || ping.op == ping_op::PING && beat.is_some() {
            return;
        }
        if let Some(beat) = beat {
            if beat.shared.is_some_and(|(epoch, at)| epoch >= ours && now.since(at) < RESEND_AFTER) {
                return;
            }
            beat.shared = Some((ours, now));
        }
        if let Some(incrementals) = self.atlas.borrow().between(ping.epoch, ours) {
            let fsid = self.config.fsid;
            let maps = msgs::OsdMap { fsid, newest: ours, incrementals, ..msgs::OsdMap::default() };
            self.out.push(Out::Send { conn, msg: Msg::new(0, msgs::Body::from(maps)) });
        }
    }

    fn ask_for_maps(&mut self) {
        if self.ask_at.is_some_and(|at| at <= self.now.mono) {
            self.ask_at = Some(self.now.mono + MAP_PATIENCE);
            self.monc.ask_again("osdmap", u64::from(self.epoch().0) + 1, &mut self.monc_out);
            self.monc.expect(self.now, "osdmap");
        }
    }

    fn message(&mut self, conn: ConnId, body: Body) {
        let ping = match body {
            Body::Peer(peer::Body::OsdPing(ping)) => ping,
            Body::Client(msgs::Body::OsdMap(maps)) => return self.take_maps(&maps),
            _ => return,
        };
        self.compare_maps(conn, &ping);
        if ping.op == ping_op::PING {
            let known = self.entry(ping.from).is_some_and(|o| o.is_up() && o.info.up_from == ping.up_from);
            let lease = if known && self.is_up { self.config.options.read_lease } else { Duration::ZERO };
            let msg = self.ping(ping_op::REPLY, ping.stamp, lease.as_nanos() as u64);
            return self.out.push(Out::Send { conn, msg });
        }
        let Some(beat) = self.beats.get_mut(&ping.from) else { return };
        beat.heard = self.now.mono;
        if std::mem::take(&mut beat.reported) {
            self.report_failure(ping.from, false, true, Duration::ZERO);
        }
    }
}

impl Node for StandIn {
    type Request = Never;
    type Reply = Never;

    fn handle(&mut self, now: Now, input: Input<Never>, out: &mut Vec<Out>) {
        self.now = now;
        match input {
            Input::Start => self.start(),
            Input::Timer => {
                self.monc.timer(now, &mut self.monc_out);
                self.beat();
                self.report();
                self.ask_for_maps();
            }
            Input::Connected { conn, peer } if self.monc.owns(conn) => {
                self.monc.connected(now, conn, &peer, &mut self.monc_out);
            }
            Input::Connected { conn, .. } => {
                let osd = self.by_conn.get(&conn);
                if let Some(beat) = osd.and_then(|osd| self.beats.get_mut(osd)) {
                    beat.refused_at = None;
                }
            }
            Input::Message { conn, msg } if self.monc.owns(conn) => {
                self.monc.message(now, conn, msg, &mut self.monc_out);
            }
            Input::Message { conn, msg } => self.message(conn, msg.body),
            Input::Closed { conn, reason } if self.monc.owns(conn) => {
                self.monc.closed(now, conn, reason, &mut self.monc_out);
            }
            Input::Closed { conn, reason } => self.link_closed(conn, reason),
            Input::Disk { .. } | Input::Load(_) | Input::Admin { .. } => {}
            Input::Request { request, .. } => match request {},
        }
        self.settle();
        out.append(&mut self.out);
    }

    fn deadline(&self) -> Option<Instant> {
        let retry =
            self.beats.values().filter(|b| b.waits && b.retry_at > self.now.mono).map(|b| b.retry_at).min();
        let grace = self.config.options.heartbeat_grace;
        let silent = self.beats.values().filter(|b| !b.reported).map(|b| b.heard + grace).min();
        [self.monc.deadline(), Some(self.beat_at), Some(self.report_at), retry, silent, self.ask_at]
            .into_iter()
            .flatten()
            .min()
    }
}
