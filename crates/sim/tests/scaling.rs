//! Scaling of writes with the number of OSDs, and their cost in messages. Time is simulated, so the result is
//! the same in every run and has bounds. `cargo xtask sim --scaling` runs the same with up to 16 OSDs, for
//! longer.

use sim::scaling::{Measured, ScalingSpec, Who, run};
use std::time::Duration;

fn measured(spec: ScalingSpec, counted_ms: u64) -> Measured {
    let counted = Duration::from_millis(counted_ms);
    // Requests wait for some 0.2 s for the disk: what begins together is spread by then.
    let short = ScalingSpec { warm_up: Duration::from_secs(1), counted, ..spec };
    match run(&short) {
        Ok(measured) => measured,
        Err(why) => panic!("{} OSDs, {} copies: {why}", short.osds, short.copies),
    }
}

/// The paper's figure 8: the throughput of an OSD falls by at most 5 % from the smallest cluster to a larger
/// one.
#[test]
fn each_of_many_osds_writes_as_much_as_each_of_few() {
    for (copies, sizes) in [(1, [1, 4]), (2, [2, 8])] {
        // Two OSDs write some 400 blocks a second, so that less time says little within 5 %.
        let [small, large] = sizes.map(|osds| measured(ScalingSpec::of(osds, copies), 3000));
        let (least, most) = (small.rate(), large.rate());
        let many = large.spec.osds;
        assert!(
            most >= 0.95 * least,
            "{copies} copies: {most:.0} bytes a second for each of {many} OSDs after {least:.0}"
        );
        // The load must not be the bottleneck.
        for m in [&small, &large] {
            let disk = m.load(|w| w.disk).0;
            assert!(disk > 0.95, "what limits is the disk, which was at work {disk:.3} of the time");
        }
    }
}

/// A write costs one message to the primary, one from it to each other member and back, and one to the
/// client. Data is sent once for each copy.
#[test]
fn a_write_takes_two_messages_for_each_copy() {
    for copies in 2..=5 {
        let spec = ScalingSpec { write: 16 << 10, in_flight: 1, pgs_each: 32, ..ScalingSpec::of(5, copies) };
        let m = measured(spec, 1000);
        let each = |from, to, kind| {
            let flow = m.flow(from, to, kind);
            (flow.messages as f64 / m.writes as f64, flow.bytes as f64 / flow.messages.max(1) as f64)
        };
        let others = f64::from(copies - 1);
        let near = |a: f64, b: f64| (a - b).abs() <= 0.02 * b;
        for (from, to, kind, expected, least, most) in [
            (Who::Client, Who::Osd, "osd_op", 1.0, m.spec.write, 300),
            (Who::Osd, Who::Osd, "rep_op", others, m.spec.write, 1200),
            (Who::Osd, Who::Osd, "rep_op_reply", others, 0, 200),
            (Who::Osd, Who::Client, "osd_op_reply", 1.0, 0, 300),
        ] {
            let (messages, bytes) = each(from, to, kind);
            assert!(near(messages, expected), "{copies} copies: {messages} {kind} for each write");
            let beside = bytes - least as f64;
            assert!((0.0..f64::from(most)).contains(&beside), "{copies} copies: {kind} of {bytes} bytes");
        }
    }
}
