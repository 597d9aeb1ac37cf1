//! Messages name the shard of the PG that they are for.

use super::cluster::{Cluster, POOL, append, write_full};
use maps::{EVersion, OsdId, Spg};
use msgs::{Op, OsdOp, OsdOpReply, SubOp, osd_flag};
use std::time::Duration;

const EINVAL: i32 = 22;

/// Sends a request for a shard of an object's PG to its primary.
fn ask(c: &mut Cluster, shard: i8, op: Op) -> OsdOpReply {
    let (pgid, hash) = c.pgid_of("x");
    let request = OsdOp {
        pgid: Spg { pgid, shard },
        hash,
        epoch: c.map.epoch,
        flags: osd_flag::ONDISK | osd_flag::WRITE,
        locator: maps::ObjectLocator { pool: POOL, ..Default::default() },
        oid: b"x".to_vec(),
        ops: vec![SubOp::from(op)],
        snapid: maps::SnapId::HEAD,
        ..OsdOp::default()
    };
    let (primary, tid) = (c.acting("x")[0], 1_000_000 + c.now().0);
    c.send_any(primary, tid, msgs::Body::from(request));
    c.run_until("an answer", |c| c.replies.contains_key(&tid));
    c.replies[&tid][0].clone()
}

#[test]
fn a_request_for_a_shard_that_the_pool_does_not_have_is_refused() {
    let mut c = Cluster::new(3, 3, 2, 1);
    c.write("x", "one");
    assert_eq!(ask(&mut c, 0, append(" two")).result, -EINVAL);
    assert_eq!(ask(&mut c, Spg::NO_SHARD, append(" three")).result, 0);
    assert_eq!(c.read("x"), Ok("one three".into()));
    c.check();
}

#[test]
fn another_osd_that_names_such_a_shard_is_not_answered() {
    let mut c = Cluster::new(3, 3, 2, 1);
    c.op("x", vec![write_full("one")]);
    let acting = c.acting("x");
    let query = |pgid, c: &Cluster| {
        let head = peer::PgHead { pgid, from: pgid.shard, epoch: c.map.epoch, interval: c.map.epoch };
        peer::Body::from(peer::PgQuery { head, want_log: true, since: EVersion::default() })
    };
    let pgid = c.pgid("x");
    for (shard, refused) in [(1, 1), (Spg::NO_SHARD, 1)] {
        let body = query(Spg { pgid, shard }, &c);
        c.osd_mut(acting[0]).core.send_osd(OsdId(acting[1] as i32), 7, body);
        c.run(Duration::from_secs(1));
        assert_eq!(c.counted("messages_of_no_shard"), refused, "shard {shard}");
    }
    c.check();
}
