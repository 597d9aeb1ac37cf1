//! What a client with a key may send: well-formed messages with any values, also while OSDs come and go. None
//! of them ends an OSD, and replicas stay the same. `NACRE_HOSTILE=5000 cargo test -p osd hostile` sends more
//! of them.

use super::cluster::{Cluster, POOL, append, write_full};
use maps::{HObject, Spg, osd_state};
use msgs::op::input;
use msgs::{Extent, Op, OsdOp, SubOp, osd_flag};
use std::time::Duration;
use stdx::{Rng, test_seeds};
use wire::Sample;

/// An operation that is likely to get far: its numbers are near what is there.
fn op(rng: &mut Rng) -> SubOp {
    let at = |rng: &mut Rng| *rng.pick(&[0, 1, 4095, 4096, 70_000, 1 << 22, 1 << 40, u64::MAX - 1, u64::MAX]);
    let extent = |rng: &mut Rng| Extent::new(at(rng), at(rng));
    match rng.below(10) {
        0 => append("more").into(),
        1 => Op::Read(extent(rng)).into(),
        2 => Op::Zero(extent(rng)).into(),
        3 => Op::Truncate(extent(rng)).into(),
        4 => write_full("whole").into(),
        5 => {
            let cursor = if rng.chance(1, 2) { HObject::max() } else { HObject::sample(rng) };
            Op::PgNls { max: Sample::sample(rng), start_epoch: 0, data: input::write(&cursor) }.into()
        }
        6 => {
            let ask = input::OmapGetVals { max: Sample::sample(rng), ..Default::default() };
            Op::OmapGetVals { data: input::write(&ask) }.into()
        }
        _ => SubOp::sample(rng),
    }
}

fn request(c: &Cluster, rng: &mut Rng) -> OsdOp {
    let name = format!("o{}", rng.below(8));
    let (pgid, hash) = c.pgid_of(&name);
    let ops = (0..*rng.pick(&[0, 1, 1, 1, 2, 3])).map(|_| op(rng)).collect();
    let mut request = OsdOp {
        pgid: Spg::replicated(pgid),
        hash,
        epoch: c.map.epoch,
        flags: osd_flag::ONDISK | osd_flag::WRITE | osd_flag::READ,
        locator: maps::ObjectLocator { pool: POOL, ..Default::default() },
        oid: name.into_bytes(),
        ops,
        snapid: maps::SnapId::HEAD,
        ..OsdOp::default()
    };
    let any = OsdOp::sample(rng);
    match rng.below(12) {
        0 => request.flags = any.flags,
        1 => request.snapid = any.snapid,
        2 => (request.snap_seq, request.snaps) = (any.snap_seq, any.snaps),
        3 => request.reqid = any.reqid,
        4 => request.epoch = any.epoch,
        5 => request.pgid = any.pgid,
        6 => return any,
        _ => {}
    }
    request
}

#[test]
fn messages_with_any_content_end_no_osd_and_keep_replicas_the_same() {
    for seed in test_seeds("NACRE_HOSTILE", 40) {
        let mut rng = Rng::from_seed(seed);
        let mut c = Cluster::new(3, 3, 2, 4);
        for i in 0..8 {
            c.write(&format!("o{i}"), &"content".repeat(1 + 9000 * i));
        }
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..rng.range(20, 60) {
                let osd = rng.below(3) as usize;
                let (alive, dead) = c.alive();
                match rng.below(12) {
                    0 if dead.is_empty() => c.kill(osd),
                    1 => dead.iter().for_each(|osd| c.start(*osd)),
                    2 => {
                        let all = msgs::Body::samples(&mut rng);
                        all.into_iter().for_each(|body| c.send_any(*rng.pick(&alive), rng.below(9), body));
                    }
                    3 => {
                        let all = peer::Body::samples(&mut rng);
                        all.into_iter().for_each(|body| c.send_any(*rng.pick(&alive), rng.below(9), body));
                    }
                    _ => {
                        let request = request(&c, &mut rng);
                        let primary = c.acting(&String::from_utf8_lossy(&request.oid)).first().copied();
                        let to = primary.filter(|_| rng.chance(5, 6)).unwrap_or(osd);
                        if alive.contains(&to) {
                            c.send_any(to, 1000 + round, msgs::Body::from(request));
                        }
                    }
                }
                // Mostly at once, so that what was missed is still missing when more comes.
                let longest = if rng.chance(1, 4) { 300_000 } else { 2_000 };
                c.run(Duration::from_micros(rng.below(longest)));
            }
            c.alive().1.into_iter().for_each(|osd| c.start(osd));
            // What it was told about strangers' messages is no complaint.
            c.complaints.clear();
            c.run(Duration::from_secs(2));
            assert!(
                (0..3).all(|osd| c.map.osd(maps::OsdId(osd)).is_some_and(|o| o.state & osd_state::UP != 0))
            );
            c.check();
        }));
        assert!(told.is_ok(), "seed {seed}");
    }
}
