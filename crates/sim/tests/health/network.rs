//! Codes of the network.

use crate::operator::Operator;
use std::time::Duration;

#[test]
fn pings_that_take_long_are_told_until_the_network_is_sound() {
    let mut op = Operator::new();
    op.c.world.run_for(Duration::from_secs(150));
    op.sees_health_ok();
    let sound = op.c.world.faults.clone();
    op.c.world.faults.delay = (520_000_000, 580_000_000);
    op.sees_within("OSD_SLOW_PING_TIME_BACK", Duration::from_secs(400));
    // Each pair has minutes of its own.
    op.c.world.run_for(Duration::from_secs(60));
    let seen = op.sees("OSD_SLOW_PING_TIME_BACK");
    assert!(seen.contains("Slow OSD heartbeats on back (longest 1") && seen.contains("ms)"), "{seen}");
    assert!(seen.contains("Slow OSD heartbeats on back from osd.0 [] to osd.1 [] 1"), "{seen}");
    let front = op.sees("OSD_SLOW_PING_TIME_FRONT");
    assert!(front.contains("Slow OSD heartbeats on front from osd.2 [] to osd.1 [] 1"), "{front}");
    for code in ["OSD_SLOW_PING_TIME_BACK", "OSD_SLOW_PING_TIME_FRONT"] {
        let tree = op.follows(code, "ceph osd tree", &[]);
        assert!(tree.contains("host sim-1"), "{tree}");
    }
    op.c.world.faults = sound;
    // The means of 5 and 15 minutes fall as minutes pass.
    op.sees_no_within("OSD_SLOW_PING_TIME_BACK", Duration::from_secs(900));
    op.sees_no("OSD_SLOW_PING_TIME_FRONT");
    op.sees_health_ok();
}
