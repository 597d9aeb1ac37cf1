//! The steps of a report, and what a monitor tells.

use crate::config::OsdConfig;
use crate::core::Out;
use crate::op_tracker::COMPLAINT;
use crate::osd::Osd;
use crate::pg::Pg;
use crate::pg::state::State;
use auth::{RotatingKeys, ServerKeys};
use maps::{Epoch, StoreStatfs};
use monc::{MoncOut, Told};
use node::Level;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::EntityType;

/// One TiB weighs 1.0, which is 65536.
const WEIGHT_SHIFT: u32 = 40 - 16;

impl OsdConfig {
    /// The request to be marked up: with the newest map that it has, and the epoch in which it was last up.
    pub fn boot(&self, epoch: Epoch, last_up: Epoch) -> peer::OsdBoot {
        let mut metadata = self.metadata.clone();
        self.options.levels.announce(&mut metadata);
        peer::OsdBoot {
            osd: self.id,
            uuid: self.uuid,
            fsid: self.fsid,
            addrs: self.addrs.clone(),
            cluster_addrs: self.addrs.clone(),
            heartbeat_addrs: self.addrs.clone(),
            epoch,
            boot_epoch: last_up,
            features: wire::FEATURES,
            feature_level: self.options.levels.newest,
            metadata,
            crush_weight: self.crush_weight,
            device_class: self.device_class.clone(),
            crush_location: self.crush_location.clone(),
        }
    }
}

impl Osd {
    /// Carries out an event of the monitor session.
    pub(crate) fn monc_event(&mut self, event: MoncOut) {
        match event {
            MoncOut::Net(net) => self.core.push(Out::from(net)),
            MoncOut::Told(Told::Session { .. }) => {
                self.boot.announce_again();
                self.reports.session_began();
                self.pgs.values_mut().for_each(Pg::report_again);
                self.core.report_soon();
                // Reports sent to the previous monitor may be lost.
                self.report_silent(true);
                self.announce();
            }
            MoncOut::Told(Told::Lost) => self.event(Level::Info, "monitor_lost", ""),
            MoncOut::Told(Told::Denied) => {
                let name = self.core.config().credentials.name.clone();
                self.event(
                    Level::Warn,
                    "monitor_refused_us",
                    format!("{name}: is its key in the keyring the one that `ceph auth get {name}` shows?"),
                );
            }
            MoncOut::Told(Told::RotatingKeys(keys)) => {
                self.event(Level::Debug, "rotating_keys_fetched", format!("up to {}", keys.max_ver));
                self.publish_keys(Some(*keys));
            }
            MoncOut::Told(Told::Message(msg)) => match msg.body {
                node::Body::Client(msgs::Body::OsdMap(maps)) => self.take_maps(&maps),
                node::Body::Peer(peer::Body::NacreMap(m)) => self.take_nacre(m.map),
                node::Body::Peer(peer::Body::OsdScrub(m)) => self.scrub_ordered(&m),
                node::Body::Client(msgs::Body::Config(m)) => self.take_central_settings(m.config),
                _ => {}
            },
            MoncOut::Told(Told::Tickets(_)) => self.event(Level::Debug, "tickets_fetched", ""),
            MoncOut::Told(Told::MonMap(_) | Told::Reply { .. }) => {}
        }
    }

    /// Publishes the keys with which clients may connect from now on; none are needed where the method is
    /// `none`.
    pub(crate) fn publish_keys(&mut self, rotating: Option<RotatingKeys>) {
        let mut keys = ServerKeys::new(EntityType::OSD, self.core.config().methods.clone());
        keys.rotating.extend(rotating.map(|r| (EntityType::OSD, r)));
        self.core.push(Out::Keys(Arc::new(keys)));
    }

    fn take_nacre(&mut self, map: maps::NacreMap) {
        let level = map.feature_level;
        if let Some(why) = self.core.options().levels.refusal(&format!("osd.{}", self.core.id()), level) {
            return self.stop(why);
        }
        if !self.core.take_nacre(map) {
            return;
        }
        self.keep_level(level);
        // An activation may wait for a mark of death.
        for pg in self.pgs.values_mut() {
            pg.check_activated(&mut self.core);
        }
    }

    /// Asks to be marked up, once the newest map is here and does not have us up.
    pub(crate) fn announce(&mut self) {
        let caught_up = self.core.epoch() >= self.maps.newest_known() && self.core.epoch() != Epoch(0);
        if self.core.is_up() {
            if self.boot.ready() {
                self.core.push(Out::Ready);
            }
            self.boot.announce_again();
            return;
        }
        if !caught_up || !self.mon.is_open() || !self.boot.announce() {
            return;
        }
        let mut body = self.core.config().boot(self.core.epoch(), self.maps.superblock().last_up);
        if body.crush_weight == 0 {
            let by_size = self.core.usage().total >> WEIGHT_SHIFT;
            body.crush_weight = u32::try_from(by_size).unwrap_or(u32::MAX).max(1);
        }
        self.mon.send(peer::Body::from(body));
        self.expect_map();
    }

    /// Asks the monitor to record us as up (`up_thru`), if a PG waits for it.
    pub(crate) fn ask_up_thru(&mut self) {
        let want = self.core.needed_up_thru();
        let have = self.core.map().osd(self.core.id()).map_or(Epoch(0), |o| o.info.up_thru);
        if want <= have || !self.core.is_up() || !self.mon.is_open() || !self.reports.ask_up_thru(want) {
            return;
        }
        let body = peer::OsdAlive { osd: self.core.id(), want, epoch: self.core.epoch() };
        self.mon.send(peer::Body::from(body));
        self.expect_map();
        // Events of the session during settle are handled with this input too.
        for event in self.mon.take_events() {
            self.monc_event(event);
        }
    }

    /// Requests temporary acting sets, and their end.
    pub(crate) fn ask_pg_temp(&mut self) {
        if !self.mon.is_open() {
            return;
        }
        let Some(pg_temp) = self.core.take_pg_temp() else { return };
        let body = peer::OsdPgTemp { osd: self.core.id(), epoch: self.core.epoch(), pg_temp };
        self.mon.send(peer::Body::from(body));
        self.expect_map();
        for event in self.mon.take_events() {
            self.monc_event(event);
        }
    }

    /// Sends periodic statistics of PGs and space, and repeats requests that the monitor has not granted.
    pub(crate) fn report(&mut self) {
        let now = self.core.now().mono;
        if now < self.reports.next_at() {
            return;
        }
        if !self.core.is_up() {
            self.boot.announce_again();
            self.report_later();
            return self.announce();
        }
        if !self.mon.is_open() {
            return self.report_later();
        }
        self.reports.ask_again();
        for pg in self.pgs.values() {
            pg.follow_acting(&mut self.core);
            // The primary may have missed that we have a copy, or we that it is no longer needed.
            if pg.state() == State::Stray && !self.removals.contains(&pg.id()) {
                pg.notify_primary(&mut self.core);
            }
        }
        self.send_stats();
    }

    /// Sends statistics soon after a PG has changed its state.
    pub(crate) fn stats_soon(&mut self) {
        const SOON: std::time::Duration = std::time::Duration::from_millis(100);
        if self.boot.is_running() {
            self.reports.hasten(self.core.now().mono + SOON);
        }
    }

    /// The next report is due when the usual interval has passed.
    pub(crate) fn report_later(&mut self) {
        self.reports.wait_until(self.core.now().mono + self.core.options().report_interval);
    }

    fn send_stats(&mut self) {
        self.report_later();
        let mut pgs = Vec::new();
        let mut led = BTreeSet::new();
        for pg in self.pgs.values_mut().filter(|pg| pg.is_primary(&self.core)) {
            let pgid = pg.id().pgid;
            led.insert(pgid);
            if pg.take_stats_changed() || self.reports.is_new(pgid) {
                pgs.push(pg.stat(&self.core));
            }
        }
        let removed = self.reports.lead(led);
        let now = self.core.now().mono;
        let ages = self.pgs.values().flat_map(Pg::requests).map(|op| now.since(op.received));
        let slow: Vec<u64> = ages.filter(|age| *age >= COMPLAINT).map(|age| age.as_secs()).collect();
        let commits = self.core.commits();
        let errors_lately = self.core.device_errors_lately();
        let body = peer::PgStats {
            osd: self.core.id(),
            epoch: self.core.epoch(),
            pgs,
            removed,
            store: self.statfs(),
            pools: self.pool_stats(),
            commit_latency_ms: self.core.take_commit_latency(),
            heartbeat_peers: self.heartbeats.peers(),
            slow_ops: slow.len() as u32,
            repaired: self.core.store().repaired(),
            disk_commit_ms: u32::try_from(commits.median.as_millis()).unwrap_or(u32::MAX),
            disk_commits: commits.count,
            disk_errors: self.core.store().device_errors(),
            disk_errors_lately: errors_lately,
            ping_times: self.heartbeats.ping_times(),
            used: self.core.perf().add_clients(self.reports.used()),
            oldest_slow_s: slow.iter().max().map_or(0, |age| u32::try_from(*age).unwrap_or(u32::MAX)),
        };
        self.mon.send(peer::Body::from(body));
    }

    fn statfs(&self) -> StoreStatfs {
        let u = self.core.usage();
        StoreStatfs {
            total: u.total,
            available: u.available,
            allocated: u.allocated as i64,
            data_stored: u.data as i64,
            omap_allocated: u.omap as i64,
            internal_metadata: u.metadata as i64,
            ..StoreStatfs::default()
        }
    }

    fn pool_stats(&self) -> Vec<peer::OsdPoolStat> {
        let mut pools: BTreeMap<i64, i64> = BTreeMap::new();
        for pg in self.pgs.values() {
            *pools.entry(pg.id().pgid.pool).or_default() += pg.info().stats.bytes;
        }
        let stat = |(pool, bytes)| peer::OsdPoolStat {
            pool,
            store: StoreStatfs { allocated: bytes, data_stored: bytes, ..StoreStatfs::default() },
        };
        pools.into_iter().map(stat).collect()
    }
}
