//! The cost of 200 OSDs that start together, lose a rack and get a changed map. Counts are the same in every
//! run, so they have bounds. `cargo xtask sim --scale` runs the same with 10,000.

use sim::scale::{Phase, Report, ScaleSpec, Way, run};

fn scale(spec: &ScaleSpec) -> Report {
    match run(spec, &mut |_| ()) {
        Ok(report) => report,
        Err(why) => panic!("{why}"),
    }
}

/// Messages of a kind for each OSD.
fn each(report: &Report, phase: &Phase, way: Way, kind: &str) -> f64 {
    phase.count(way, kind).messages as f64 / f64::from(report.osds)
}

#[test]
fn two_hundred_osds_start_lose_a_rack_and_follow_a_change() {
    let report = scale(&ScaleSpec::of(200));
    let start = report.phase("new and start");
    assert!(start.epochs <= 16 + 30 + 2, "a burst, then one each tenth of a second: {}", start.epochs);
    assert!(each(&report, start, Way::OsdToMon, "osd_boot") <= 1.2, "each asks once, or once more");
    assert!(each(&report, start, Way::MonToOsd, "osd_map") <= f64::from(start.epochs));
    assert!(each(&report, start, Way::MonToOsd, "nacre_map") <= 1.0, "nobody is dead");

    let made = report.phase("pool is made");
    assert!(made.epochs <= 4, "the pool, that it is used, and that primaries are up: {}", made.epochs);
    assert!(each(&report, made, Way::OsdToMon, "osd_alive") <= 1.0, "once for all PGs of an OSD");

    let quiet = report.phase("nothing happens");
    assert_eq!((quiet.epochs, quiet.count(Way::MonToOsd, "osd_map").messages), (0, 0));
    let reports = each(&report, quiet, Way::OsdToMon, "pg_stats");
    assert!(reports <= 3.0, "one in two seconds: {reports}");

    let change = report.phase("one change");
    assert_eq!(change.epochs, 1);
    let told = change.count(Way::MonToOsd, "osd_map").messages;
    assert_eq!(told, 5 * 16, "each monitor tells a few OSDs, however many there are");
    assert!(change.all(Way::MonToOsd).bytes < told * 1000, "by an incremental: {change:?}");
    let shared = change.count(Way::OsdToOsd, "osd_map").messages;
    assert!((200 - told..600).contains(&shared), "they tell the others, some of them twice: {shared}");
    assert_eq!(change.count(Way::OsdToMon, "mon_subscribe").messages, 0, "nobody asks a monitor");
    assert!(change.took.as_millis() < 1100, "within a heartbeat: {:?}", change.took);

    let lost = report.phase("loses its power");
    assert_eq!(lost.fact("others marked down"), 0.0);
    assert!(lost.fact("power lost to last marked down, s") < 8.0);
    assert!(lost.epochs <= 8, "{}", lost.epochs);
    assert!(lost.count(Way::OsdToMon, "osd_failure").messages <= 10 * 60, "one report of each peer");
    assert_eq!(report.phase("stays away").fact("marked out"), 0.0, "a whole rack is waited for");

    let again = report.phase("killed and start");
    assert!(again.epochs <= 2 * (16 + 30) + 80, "{}", again.epochs);
    let boots = each(&report, again, Way::OsdToMon, "osd_boot");
    assert!(boots <= 1.5, "{boots}");
}

/// Stand-ins send what OSDs send: the same messages to monitors, of the same length, and the same heartbeats.
/// The messages among OSDs while PGs peer have no counterpart. Disks are small: the maps that an OSD missed
/// do not fit into one record of its log.
#[test]
fn stand_ins_say_what_osds_say() {
    let spec = ScaleSpec { pgs: 64, osd_disk: 64 << 20, ..ScaleSpec::of(40) };
    let (stand_ins, real) = (scale(&spec), scale(&ScaleSpec { real: true, ..spec }));
    for (ours, theirs) in stand_ins.phases.iter().zip(&real.phases) {
        let kinds = ["osd_boot", "osd_alive", "osd_failure", "pg_stats", "mon_subscribe", "auth"];
        let sent = kinds.map(|kind| (Way::OsdToMon, kind));
        let told = ["osd_map", "nacre_map", "config", "mon_map"].map(|kind| (Way::MonToOsd, kind));
        for (way, kind) in sent.into_iter().chain(told).chain([(Way::OsdToOsd, "osd_ping")]) {
            let (a, b) = (ours.count(way, kind), theirs.count(way, kind));
            if kind == "pg_stats" && ours.name.contains("killed") {
                // PGs that peer while leases run out change their states more often.
                assert!(b.messages <= 3 * a.messages, "{kind}: {a:?}, of OSDs {b:?}");
                continue;
            }
            // Milliseconds decide over how many epochs reports and boots spread, and how often an OSD probes
            // its monitor depends on the length of its wait. Each new map is told with pings.
            let parts = match kind {
                "osd_map" => 4,
                "osd_ping" if ours.epochs != theirs.epochs => 4,
                "mon_map" => 2,
                _ => 10,
            };
            let near = |a: u64, b: u64| a.abs_diff(b) * parts <= a.max(b) + 40;
            let is_like = near(a.messages, b.messages) && (a.messages < 20 || near(a.bytes, b.bytes));
            assert!(is_like, "{}: {kind}: {a:?}, of OSDs {b:?}", ours.name);
        }
    }
}
