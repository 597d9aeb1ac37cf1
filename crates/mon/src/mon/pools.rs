//! Clients' requests about pools other than commands: `statfs`, statistics, snapshots and pools of librados.

use crate::domain::{pool, snaps};
use crate::edit::Edit;
use crate::mon::{Mon, Out};
use crate::storage::Storage;
use auth::{OsdCap, Perm};
use maps::{Pool, PoolStat, SnapId, StatCollection, pool_flags};
use msgs::pool_op;
use node::ConnId;
use stdx::Now;
use wire::Errno;

impl<S: Storage> Mon<S> {
    pub(super) fn statfs(&self, conn: ConnId, tid: u64, m: &msgs::Statfs, out: &mut Vec<Out>) {
        let (state, pgs) = (self.log.state(), &self.volatile.pgs);
        let map = state.osdmap();
        let st = match m.data_pool.filter(|id| map.pools.contains_key(id)) {
            Some(id) => {
                let usage = crate::domain::usage::pool_usage(map, pgs, id);
                msgs::StatfsNumbers {
                    kb: (usage.stored + usage.max_avail) >> 10,
                    kb_used: usage.stored >> 10,
                    kb_avail: usage.max_avail >> 10,
                    num_objects: usage.objects,
                }
            }
            None => {
                let space = pgs.space(map);
                msgs::StatfsNumbers {
                    kb: space.total >> 10,
                    kb_used: (space.total - space.available.min(space.total)) >> 10,
                    kb_avail: space.available >> 10,
                    num_objects: pgs.total().num_objects.max(0) as u64,
                }
            }
        };
        let reply = msgs::StatfsReply { fsid: state.monmap.fsid, version: pgs.version(), st };
        out.push(Self::send(conn, tid, msgs::Body::from(reply)));
    }

    pub(super) fn pool_stats(&self, conn: ConnId, tid: u64, m: &msgs::GetPoolStats, out: &mut Vec<Out>) {
        let (state, pgs) = (self.log.state(), &self.volatile.pgs);
        let stat = |name: &String| {
            let (id, _) = state.osdmap().pool_by_name(name)?;
            let mut sum = pgs.pool(id);
            if sum.num_store == 0 {
                // OSDs that do not count by pool: the copies of what users stored.
                sum.store.allocated = crate::domain::usage::pool_usage(state.osdmap(), pgs, id).used as i64;
                sum.num_store = pgs.osds().len() as u32;
            }
            let stat = PoolStat {
                stats: StatCollection { sum: sum.stats, ..StatCollection::default() },
                log_size: sum.log_size as i64,
                ondisk_log_size: sum.log_size as i64,
                up: sum.up,
                acting: sum.acting,
                store_stats: sum.store,
                num_store_stats: sum.num_store,
            };
            Some((name.clone(), stat))
        };
        let reply = msgs::GetPoolStatsReply {
            fsid: state.monmap.fsid,
            pool_stats: m.pools.iter().filter_map(stat).collect(),
            per_pool: true,
            ..msgs::GetPoolStatsReply::default()
        };
        out.push(Self::send(conn, tid, msgs::Body::from(reply)));
    }

    /// Handles `MPoolOp`. It is answered when the map with the change is committed, with its epoch.
    pub(super) fn pool_op(&mut self, now: Now, conn: ConnId, tid: u64, m: msgs::PoolOp, out: &mut Vec<Out>) {
        let permitted = self.may_change_pool(conn, &m);
        if !permitted {
            let text = format!("a change of pool {} by {}", m.pool, self.who(conn));
            out.push(node::Output::Event(node::Event::refusal("request_denied", text)));
        }
        let pool_id = i64::from(m.pool);
        let (result, index) = self.edit(now, |edit| match permitted {
            true => change_pool(edit, pool_id, &m),
            false => Err(Errno::EPERM),
        });
        let (code, data) = match result {
            Ok(data) => (0, data),
            Err(errno) => (errno.to_result_code(), None),
        };
        let state = self.log.tail();
        let reply = msgs::PoolOpReply {
            fsid: state.monmap.fsid,
            code,
            epoch: state.osd.epoch(),
            data,
            ..msgs::PoolOpReply::default()
        };
        self.after(index, Self::send(conn, tid, msgs::Body::from(reply)), out);
    }

    /// True if the session may ask for statistics of pools.
    pub(super) fn may_ask(&self, conn: ConnId, body: &node::Body) -> bool {
        match body {
            node::Body::Client(msgs::Body::Statfs(_) | msgs::Body::GetPoolStats(_)) => {
                self.sessions.get(conn).is_some_and(|s| s.caps.allows("pg", Perm::R))
            }
            _ => true,
        }
    }

    /// Requires monitor capabilities; for self-managed snapshots, the right to write to the pool suffices.
    fn may_change_pool(&self, conn: ConnId, m: &msgs::PoolOp) -> bool {
        let Some(session) = self.sessions.get(conn) else { return false };
        if !matches!(m.op, pool_op::CREATE_UNMANAGED_SNAP | pool_op::DELETE_UNMANAGED_SNAP) {
            return session.caps.allows("osd", Perm::W);
        }
        let state = self.log.state();
        let pool = state.osdmap().pool_name(i64::from(m.pool));
        let args = [("poolname".to_owned(), pool.to_owned())].into();
        if session.caps.allows_command("osd", Perm::W, "osd pool op unmanaged-snap", &args) {
            return true;
        }
        let own = state.auth.get(session.name()).and_then(|auth| auth.caps.get("osd"));
        let caps = own.and_then(|text| OsdCap::parse(text).ok()).unwrap_or_default();
        caps.for_peer(session.peer.socket_addr.addr.map(|a| a.ip())).may_snap(pool)
    }
}

fn change_pool(edit: &mut Edit<'_>, id: i64, m: &msgs::PoolOp) -> Result<Option<Vec<u8>>, Errno> {
    if m.op == pool_op::CREATE {
        if edit.osdmap().pool_by_name(&m.name).is_some() {
            return Err(Errno::EEXIST);
        }
        let rule = u8::try_from(m.crush_rule).ok();
        return pool::create(edit, &m.name, None, rule, None).map(|_| None).map_err(|e| e.errno);
    }
    let Some(old) = edit.osdmap().pools.get(&id) else { return Err(Errno::ENOENT) };
    let epoch = edit.osdmap().epoch.next();
    match m.op {
        pool_op::DELETE => pool::remove(edit, id).map(|()| None).map_err(|e| e.errno),
        pool_op::CREATE_SNAP | pool_op::DELETE_SNAP if old.has_flag(pool_flags::SELFMANAGED_SNAPS) => {
            Err(Errno::EINVAL)
        }
        // Clients check the map before they ask. A request for an existing state is therefore a duplicate
        // whose answer was lost.
        pool_op::CREATE_SNAP if old.snaps.values().any(|s| s.name == m.name) => Ok(None),
        pool_op::DELETE_SNAP if !old.snaps.values().any(|s| s.name == m.name) => Ok(None),
        pool_op::CREATE_SNAP => pool::make_snap(edit, id, &m.name).map(|()| None).map_err(|e| e.errno),
        pool_op::DELETE_SNAP => pool::remove_snap(edit, id, &m.name).map(|()| None).map_err(|e| e.errno),
        pool_op::CREATE_UNMANAGED_SNAP => {
            if old.has_flag(pool_flags::POOL_SNAPS) {
                return Err(Errno::EINVAL);
            }
            let pool: &mut Pool = edit.pool(id);
            pool.flags |= pool_flags::SELFMANAGED_SNAPS;
            // Ids start at 2 in Ceph as well: 1 marks the first use of snapshots.
            pool.snap_seq = SnapId(pool.snap_seq.0.max(1) + 1);
            pool.snap_epoch = epoch;
            let snapid = pool.snap_seq.0;
            Ok(Some(wire::Writer::encode(&snapid)))
        }
        pool_op::DELETE_UNMANAGED_SNAP => {
            if old.has_flag(pool_flags::POOL_SNAPS) {
                return Err(Errno::EINVAL);
            }
            let queued = edit.osdmap().removed_snaps_queue.get(&id);
            let purged = edit.nacre_now().purged_snaps.get(&id);
            if [queued, purged].into_iter().flatten().any(|set| set.contains(m.snapid.0)) {
                return Ok(None);
            }
            if m.snapid > old.snap_seq {
                return Err(Errno::ENOENT);
            }
            if !old.has_flag(pool_flags::SELFMANAGED_SNAPS) {
                return Err(Errno::EINVAL);
            }
            snaps::remove(edit, id, m.snapid);
            Ok(None)
        }
        _ => Err(Errno::EOPNOTSUPP),
    }
}
