//! Snapshot ids of the data pool: the monitors give them out and take them back
//! (docs/adr/0015-snapshots-wait-for-writers.md).

use super::{Mds, Now, SNAP_TOKEN};
use maps::SnapId;
use msgs::{Body, PoolOp, pool_op};
use wire::{Errno, Reader};

impl Mds {
    /// Asks the monitors for a snapshot id, or to remove one.
    pub(super) fn ask_pool(&mut self, now: Now, op: u32, snapid: SnapId) {
        let Some(pool) = self.map.data_pools.first().and_then(|pool| u32::try_from(*pool).ok()) else {
            return;
        };
        let token = SNAP_TOKEN + self.next_token;
        self.next_token += 1;
        self.snap_requests.insert(token, (op == pool_op::DELETE_UNMANAGED_SNAP).then_some(snapid));
        let request = PoolOp { pool, op, snapid, ..PoolOp::default() };
        self.with_cluster(|cluster, outs| {
            cluster.mon(now, outs, |monc, o| monc.request(token, |_| request.into(), o));
        });
    }

    /// Handles the monitors' answer.
    pub(super) fn snap_answered(&mut self, now: Now, token: u64, body: &Body) {
        let Body::PoolOpReply(reply) = body else { return };
        let (Some(request), Some(rank)) = (self.snap_requests.remove(&token), &mut self.rank) else { return };
        let failure = Errno::from_result_code(reply.code);
        match (request, failure) {
            (Some(snap), failure) => rank.snap_removed(now, snap, failure),
            (None, Some(errno)) => rank.snap_id(now, Err(errno)),
            (None, None) => {
                let bytes = reply.data.as_deref().unwrap_or_default();
                rank.snap_id(now, Reader::new(bytes).get::<u64>().map(SnapId).map_err(|_| Errno::EIO));
            }
        }
    }
}
