//! This daemon's place in the MDS map: beacons to the monitors, and the steps from a standby to an active
//! rank (docs/protocol.md 6.6). The monitors decide; the daemon asks for the next state when the rank has
//! reached it.

use super::aside::Aside;
use super::{Mds, MdsMap, Now, Out, Output, Rank, RankConfig, Stage};
use maps::{Epoch, Fscid, MdsInfo, MdsRank, MdsState};
use node::{Event, Level};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use wire::Reader;

/// The least interval between beacons.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);

impl Mds {
    /// Sends a beacon with the present or desired state.
    pub(super) fn send_beacon(&mut self, now: Now) {
        if self.aside == Some(Aside::Replaced) {
            return;
        }
        self.announced = true;
        self.next_beacon = now.mono + self.beacon_interval();
        let is_unanswered = self.beacon_acked < self.beacon_seq;
        self.beacon_seq += 1;
        self.lease.beacon_sent(self.beacon_seq, now.mono, self.beacon_grace());
        let info = self.map.mds_info.get(&self.gid());
        let beacon = peer::MdsBeacon {
            fsid: self.cluster.monc().fsid(),
            gid: self.gid(),
            name: self.config.name.clone(),
            seq: self.beacon_seq,
            state: self.state,
            epoch: self.map.epoch,
            addrs: self.config.addrs.clone(),
            features: wire::FEATURES,
            feature_level: self.config.levels.newest,
            rank: info.map_or(MdsRank::NONE, |i| i.rank),
            join_fs: Fscid::NONE,
            health: self.health(),
            metadata: if self.state == MdsState::BOOT { self.metadata() } else { Default::default() },
            busy: self.load.busy,
            idle: self.load.idle,
        };
        // A map that does not show our state is the answer; a standby repeats that it is up for as long as it
        // stands by.
        let expects = info.is_none_or(|i| i.state != self.state && self.state != MdsState::BOOT);
        self.with_cluster(|cluster, outs| {
            cluster.mon(now, outs, |monc, o| {
                monc.send(peer::Body::from(beacon), o);
                if expects {
                    monc.expect(now, "mdsmap");
                }
                if is_unanswered {
                    monc.expect_sign();
                }
            });
        });
    }

    /// What it says of itself and its host.
    fn metadata(&self) -> BTreeMap<String, String> {
        let mut metadata = self.config.metadata.clone();
        self.config.levels.announce(&mut metadata);
        metadata
    }

    /// What the monitors are to show in the cluster's health.
    fn health(&self) -> BTreeMap<String, String> {
        let found = self.rank.as_ref().map(Rank::health).unwrap_or_default();
        found.into_iter().map(|(code, lines)| (code.name().to_owned(), lines.join("\n"))).collect()
    }

    /// Interval between beacons.
    fn beacon_interval(&self) -> Duration {
        let set = decl::options::parse_secs(self.settings.get("mds_beacon_interval"));
        set.unwrap_or_default().max(LEAST_INTERVAL)
    }

    /// Handles the monitors' acknowledgement of a beacon.
    pub(super) fn beacon_answered(&mut self, now: Now, m: &peer::MdsBeacon, out: &mut Out) {
        if m.gid != self.gid() || self.aside.is_some() {
            return;
        }
        self.beacon_acked = self.beacon_acked.max(m.seq);
        self.lease.beacon_acked(m.seq, self.beacon_grace());
        for (client, tid, body) in self.lease.release(now.mono) {
            self.send(client, tid, body, out);
        }
    }

    /// The silence after which the monitors replace a server.
    fn beacon_grace(&self) -> Duration {
        decl::options::parse_secs(self.settings.get("mds_beacon_grace")).unwrap_or_default()
    }

    /// Handles a map from the monitors.
    pub(super) fn take_map(&mut self, now: Now, m: &msgs::MdsMap, out: &mut Out) {
        let map: MdsMap = match Reader::new(&m.map).get() {
            Ok(map) => map,
            Err(e) => {
                out.push(Output::Event(Event::new(
                    Level::Warn,
                    "bad_map_seen",
                    format!("MDS map {}: {e}", m.epoch),
                )));
                return;
            }
        };
        if map.epoch < self.map.epoch {
            return;
        }
        let was_in = self.map.mds_info.contains_key(&self.gid());
        self.map = Arc::new(map);
        let map = Arc::clone(&self.map);
        if self.aside.is_some() {
            return self.look_again(&map, out);
        }
        if was_in && !map.mds_info.contains_key(&self.gid()) {
            return self.removed_from_map(&map, out);
        }
        if let Some(rank) = &mut self.rank {
            rank.set_map_epoch(self.map.epoch);
        }
        self.tell_data_pools();
        self.follow_map(now, out);
        self.tell_ranks(now, out);
    }

    /// The file system's pools for data, with their names.
    fn data_pools(&self) -> BTreeMap<i64, String> {
        let osdmap = self.cluster.engine().map();
        self.map.data_pools.iter().map(|pool| (*pool, osdmap.pool_name(*pool).to_owned())).collect()
    }

    /// A map has changed: tells the rank which pools there are.
    pub(super) fn tell_data_pools(&mut self) {
        let pools = self.data_pools();
        if let Some(rank) = &mut self.rank {
            rank.set_data_pools(pools);
        }
    }

    /// True if a pool of the file system is full.
    pub(super) fn is_full(&self) -> bool {
        let osdmap = self.cluster.engine().map();
        let data = self.map.data_pools.first();
        osdmap.is_full(self.map.metadata_pool) || data.is_some_and(|pool| osdmap.is_full(*pool))
    }

    /// Acts on our state in the map.
    pub(super) fn follow_map(&mut self, now: Now, out: &mut Out) {
        if self.aside.is_some() {
            return;
        }
        let Some(info) = self.map.mds_info.get(&self.gid()).cloned() else { return };
        if info.rank == MdsRank::NONE {
            // It can take a rank from now on.
            return out.push(Output::Ready);
        }
        if self.follows_another(&info) {
            return self.begin_anew("the rank that it followed has changed hands", out);
        }
        let is_following = self.rank.as_ref().is_some_and(Rank::is_following);
        let has_begun = self.rank.is_some() && (!is_following || info.state == MdsState::STANDBY_REPLAY);
        if !has_begun && !self.begin(now, &info, out) {
            return;
        }
        let Some(rank) = &mut self.rank else { return };
        match info.state {
            MdsState::RECONNECT => rank.reconnect(now),
            MdsState::REJOIN => self.want(now, MdsState::ACTIVE),
            state if state.serves() => self.serve(now, &info, out),
            _ => {}
        }
    }

    /// Serves as a rank. One beyond `max_mds` stops as soon as it serves.
    fn serve(&mut self, now: Now, info: &MdsInfo, out: &mut Out) {
        let Some(rank) = &mut self.rank else { return };
        if rank.stage() < Stage::Active {
            rank.activate(now);
            self.state = MdsState::ACTIVE;
            out.push(Output::Ready);
            let text = format!("mds.{} serves rank {}", self.config.name, info.rank);
            out.push(Output::Event(Event::new(Level::Info, "mds_activated", text)));
        }
        if info.state == MdsState::STOPPING && rank.stage() == Stage::Active {
            rank.stop(now);
            self.state = MdsState::STOPPING;
        }
    }

    /// True if it follows a rank that has got another holder, unless that is this daemon. The new holder may
    /// not have seen the last events that were read here.
    fn follows_another(&self, info: &MdsInfo) -> bool {
        let holder = self.map.inc.get(&info.rank);
        info.state == MdsState::STANDBY_REPLAY && self.followed.is_some() && self.followed.as_ref() != holder
    }

    /// Begins to serve as a rank, or to follow one; false if it is too early.
    fn begin(&mut self, now: Now, info: &MdsInfo, out: &mut Out) -> bool {
        // The predecessor must be on the blocklist of the map that our operations carry.
        let osd_epoch = self.cluster.engine().map().epoch;
        if osd_epoch == Epoch(0) || osd_epoch < self.map.last_failure_osd_epoch {
            return false;
        }
        let Some(data_pool) = self.map.data_pools.first() else { return false };
        let config = RankConfig {
            rank: u32::try_from(info.rank.0).unwrap_or(0),
            fs_name: self.map.fs_name.clone(),
            metadata_pool: self.map.metadata_pool,
            data_pool: *data_pool,
            data_pools: self.data_pools(),
            session_timeout_s: self.map.session_timeout,
            session_autoclose_s: self.map.session_autoclose,
            max_file_size: self.map.max_file_size,
            map_epoch: self.map.epoch,
            osd_epoch,
            full: self.is_full(),
            options: self.config.options.clone(),
        };
        self.state = info.state;
        out.push(Output::Number(config.rank));
        let text = format!("mds.{} takes rank {} ({})", self.config.name, info.rank, info.state.name());
        out.push(Output::Event(Event::new(Level::Info, "rank_taken", text)));
        if let Some(rank) = &mut self.rank {
            rank.take_over(config, now);
            return true;
        }
        let mut rank = match info.state {
            MdsState::CREATING => Rank::create(config, now),
            MdsState::STANDBY_REPLAY => {
                self.followed = self.map.inc.get(&info.rank).copied();
                out.push(Output::Ready);
                Rank::follow(config, now)
            }
            _ => Rank::replay(config, now),
        };
        for (client, peer) in std::mem::take(&mut self.waiting_peers) {
            rank.client_connected(client, peer);
        }
        for (client, tid, body) in std::mem::take(&mut self.early) {
            rank.client_message(now, client, tid, body);
        }
        self.rank = Some(rank);
        true
    }

    /// Handles a stage that the rank has reached.
    pub(super) fn reached(&mut self, now: Now, stage: Stage) {
        match (stage, self.state) {
            // A rank that had stopped has no clients.
            (Stage::Replayed, MdsState::STARTING) => {
                self.rank.iter_mut().for_each(|rank| rank.reconnect(now))
            }
            (Stage::Creating, _) | (Stage::Rejoined, MdsState::STARTING) => self.want(now, MdsState::ACTIVE),
            (Stage::Replayed, _) => self.want(now, MdsState::RECONNECT),
            (Stage::Rejoined, _) => self.want(now, MdsState::REJOIN),
            (Stage::Stopped, _) => self.want(now, MdsState::STOPPED),
            (Stage::Replaying | Stage::Reconnecting | Stage::Active, _) => {}
        }
    }

    fn want(&mut self, now: Now, state: MdsState) {
        if self.state != state {
            self.state = state;
            self.send_beacon(now);
        }
    }
}
