//! The monitor of [`Cluster`]: it keeps a map, and believes what it is told.

use super::*;

impl Cluster {
    pub(super) fn mon_message(&mut self, conn: ConnId, msg: Msg) {
        match msg.body {
            node::Body::Client(msgs::Body::MonSubscribe(m)) => {
                if m.what.contains_key("monmap") {
                    let map = Writer::encode(&maps::MonMap { fsid: FSID, epoch: 1, ..Default::default() });
                    self.send(MON, conn, Msg::new(0, msgs::Body::from(msgs::MonMap { map })));
                }
                if let Some(item) = m.what.get("osdmap") {
                    let start = if item.start == 0 { u64::from(self.map.epoch.0) } else { item.start };
                    self.mon_sessions.insert(conn, start);
                    self.publish_to(conn);
                }
            }
            node::Body::Peer(peer::Body::OsdBoot(m)) => self.mon_boot(&m),
            node::Body::Peer(peer::Body::OsdAlive(m)) => {
                let info = &mut self.map.osds[m.osd.0 as usize].info;
                if info.up_thru < m.want {
                    self.change(|map, _| {
                        map.osds[m.osd.0 as usize].info.up_thru = m.want;
                    });
                }
            }
            node::Body::Peer(peer::Body::OsdFailure(m)) => {
                let same =
                    self.map.osd(m.target).is_some_and(|o| o.is_up() && o.client_addrs == m.target_addrs);
                if same && !m.alive_again && (m.refused || self.believe_silence) {
                    self.mark_down(m.target.0 as usize, m.refused);
                }
            }
            node::Body::Peer(peer::Body::OsdPgTemp(m)) => self.change(|map, _| {
                for (pg, acting) in m.pg_temp {
                    match acting.is_empty() {
                        true => map.pg_temp.remove(&pg),
                        false => map.pg_temp.insert(pg, acting),
                    };
                }
            }),
            node::Body::Peer(peer::Body::PgStats(m)) => {
                self.slow_ops = (m.slow_ops, m.oldest_slow_s).max(self.slow_ops);
                m.pgs.into_iter().for_each(|pg| {
                    self.stats.insert(pg.pgid, pg);
                });
                self.purge();
                if self.tends_merges {
                    self.tend_merge();
                }
            }
            _ => {}
        }
    }

    pub(super) fn mon_boot(&mut self, m: &peer::OsdBoot) {
        let id = m.osd.0 as usize;
        if self.map.osds.get(id).is_some_and(|o| o.is_up() && o.client_addrs == m.addrs) {
            return;
        }
        if self.map.is_up(m.osd) {
            self.mark_down(id, true);
        }
        let addrs = m.addrs.clone();
        self.change(|map, _| {
            if map.osds.len() <= id {
                map.osds.resize(id + 1, Default::default());
            }
            let epoch = map.epoch;
            let osd = &mut map.osds[id];
            osd.state = osd_state::EXISTS | osd_state::UP;
            osd.weight = maps::WEIGHT_IN;
            (osd.client_addrs, osd.cluster_addrs, osd.hb_back_addrs) = (addrs.clone(), addrs.clone(), addrs);
            osd.info.up_from = epoch;
        });
    }

    /// The monitor marks an OSD down.
    pub fn mark_down(&mut self, osd: usize, dead: bool) {
        self.change(|map, nacre| {
            let entry = &mut map.osds[osd];
            entry.state &= !osd_state::UP;
            if dead {
                nacre.dead.insert(OsdId(osd as i32), entry.info.up_from);
            }
        });
        if self.tends_merges {
            self.tend_merge();
        }
    }

    /// The monitor places a PG elsewhere than CRUSH does.
    pub fn place(&mut self, pgid: PgId, osds: &[usize]) {
        let osds: Vec<OsdId> = osds.iter().map(|osd| OsdId(*osd as i32)).collect();
        self.change(|map, _| drop(map.pg_upmap.insert(pgid, osds)));
    }

    /// Takes a new snapshot into the client's context.
    pub fn take_snap(&mut self) -> SnapId {
        let snap = self.map.pools[&POOL].snap_seq.0.max(1) + 1;
        self.change(|map, _| {
            if let Some(pool) = map.pools.get_mut(&POOL) {
                pool.snap_seq = SnapId(snap);
            }
        });
        self.context.seq = SnapId(snap);
        self.context.snaps.insert(0, SnapId(snap));
        SnapId(snap)
    }

    /// Removes a snapshot; the client may still name it.
    pub fn remove_snap(&mut self, snap: SnapId) {
        self.change(|map, _| {
            map.new_removed_snaps.entry(POOL).or_default().insert(snap.0, 1);
            map.removed_snaps_queue.entry(POOL).or_default().insert(snap.0, 1);
        });
    }

    /// Takes snapshots out of the queue that all PGs have nothing of any more.
    pub(super) fn purge(&mut self) {
        let Some(mut left) = self.map.removed_snaps_queue.get(&POOL).cloned() else { return };
        for pgid in self.map.pools[&POOL].pgs(POOL) {
            let mut others = left.clone();
            others.subtract(&self.stats.get(&pgid).map(|s| s.purged_snaps.clone()).unwrap_or_default());
            left.subtract(&others);
        }
        if left.is_empty() {
            return;
        }
        self.change(|map, nacre| {
            nacre.purged_snaps.entry(POOL).or_default().union_of(&left);
            if let Some(queue) = map.removed_snaps_queue.get_mut(&POOL) {
                queue.subtract(&left);
            }
            map.removed_snaps_queue.retain(|_, queue| !queue.is_empty());
            map.new_purged_snaps.insert(POOL, left);
        });
    }

    /// A new map.
    pub fn change(&mut self, edit: impl FnOnce(&mut OsdMap, &mut NacreMap)) {
        self.map.epoch = self.map.epoch.next();
        self.nacre.epoch = self.map.epoch;
        self.map.new_removed_snaps.clear();
        self.map.new_purged_snaps.clear();
        edit(&mut self.map, &mut self.nacre);
        self.history.insert(self.map.epoch, Writer::encode(&self.map));
        self.publish();
    }

    pub(super) fn publish(&mut self) {
        for conn in self.mon_sessions.keys().copied().collect::<Vec<_>>() {
            let osd = self.ends.get(&(MON, conn)).map(|(osd, _)| *osd);
            if self.told_at_once.as_ref().is_none_or(|told| osd.is_some_and(|osd| told.contains(&osd))) {
                self.publish_to(conn);
            }
        }
    }

    fn publish_to(&mut self, conn: ConnId) {
        let (newest, next) = (self.map.epoch, self.mon_sessions.get(&conn).copied().unwrap_or(u64::MAX));
        if next == u64::MAX || next > u64::from(newest.0) {
            return;
        }
        let nacre = peer::NacreMap { fsid: FSID, map: self.nacre.clone() };
        self.send(MON, conn, Msg::new(0, peer::Body::from(nacre)));
        for (epoch, bytes) in self.history.clone().range(Epoch(next as u32)..) {
            let mut body = msgs::OsdMap { fsid: FSID, oldest: Epoch(1), newest, ..Default::default() };
            if self.incrementals && *epoch > Epoch(1) {
                let inc = maps::OsdMapIncremental { fullmap: bytes.clone(), ..self.incremental(*epoch) };
                body.incrementals.insert(*epoch, Writer::encode(&inc).into());
            } else {
                body.fulls.insert(*epoch, bytes.clone().into());
            }
            self.send(MON, conn, Msg::new(0, msgs::Body::from(body)));
        }
        self.mon_sessions.insert(conn, u64::from(newest.0) + 1);
    }

    fn incremental(&self, epoch: Epoch) -> maps::OsdMapIncremental {
        maps::OsdMapIncremental {
            fsid: FSID,
            epoch,
            new_pool_max: -1,
            new_flags: -1,
            ..maps::OsdMapIncremental::default()
        }
    }
}
