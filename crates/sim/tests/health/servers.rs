//! Codes of monitors and metadata servers.

use crate::operator::Operator;
use serde_json::json;
use sim::Crash;
use sim::cluster::Spec;
use std::time::Duration;

/// The values of a command that starts a daemon.
fn start(name: &str) -> [(&'static str, &str); 2] {
    [("CONF", "ceph.conf"), ("NAME", name)]
}

#[test]
fn a_dead_monitor_is_started_again() {
    let mut op = Operator::of(&Spec { mons: 3, ..Spec::default() });
    op.c.mon(2).crash(Crash::Process);
    let seen = op.sees("MON_DOWN");
    assert!(seen.contains("mon.c (rank 2)") && seen.contains("1/3 mons down, quorum a,b"), "{seen}");
    op.follows("MON_DOWN", "nacre mon --conf CONF --id NAME", &start("c"));
    op.sees_no("MON_DOWN");
    op.sees_health_ok();
}

#[test]
fn a_monitors_store_has_room_again_when_what_filled_it_is_removed() {
    // The store keeps much of so small a disk for itself.
    let levels = [("mon_data_avail_warn", "75"), ("mon_data_avail_crit", "60")];
    let options = levels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let mut op = Operator::of(&Spec { mons: 3, options, ..Spec::default() });
    // A program that keeps too much in the monitors.
    let value = "v".repeat(50_000);
    let mut keys = 0;
    let mut fill = |op: &mut Operator, code: &str| {
        while !op.health().contains(&format!("] {code}: ")) {
            let stopped: Vec<_> = op.c.mons.iter().filter_map(|mon| op.c.world.stopped(*mon)).collect();
            assert!(stopped.is_empty(), "{stopped:?}");
            op.ceph(&format!("config-key set key{keys} {value}"));
            keys += 1;
            assert!(keys < 2000, "64 MiB do not hold this: {}", op.health());
        }
        keys
    };
    fill(&mut op, "MON_DISK_LOW");
    let seen = op.sees("MON_DISK_LOW");
    assert!(seen.contains("% avail"), "{seen}");
    let listed = op.follows("MON_DISK_LOW", "ceph config-key ls", &[]);
    assert!(listed.contains("key0"), "{listed}");
    let keys = fill(&mut op, "MON_DISK_CRIT");
    op.follows("MON_DISK_CRIT", "ceph config-key ls", &[]);
    // Whoever goes on all the same is refused, and no monitor stops.
    let set = |op: &mut Operator, key: usize| {
        op.c.command(&json!({ "prefix": "config-key set", "key": format!("key{key}"), "val": value }))
    };
    let refused = (keys..).find_map(|key| Some((key, set(&mut op, key).err()?)));
    let (keys, why) = refused.expect("a device has an end");
    assert!(keys >= 380 && why.contains("is full") && why.contains("config-key rm KEY"), "{keys}: {why}");
    assert!(op.c.mons.iter().all(|mon| op.c.world.stopped(*mon).is_none()));
    (0..keys).for_each(|key| drop(op.ceph(&format!("config-key rm key{key}"))));
    // Checkpoints give the space back, and they come with changes.
    (0..256).for_each(|n| drop(op.ceph(&format!("config-key set small {n}"))));
    op.sees_no("MON_DISK_CRIT");
    op.sees_no("MON_DISK_LOW");
    op.sees_health_ok();
}

#[test]
fn a_monitors_clock_is_set_right() {
    let allowed = ("mon_clock_drift_allowed".to_owned(), "0.05".to_owned());
    let mut op = Operator::of(&Spec { mons: 3, options: [allowed].into(), ..Spec::default() });
    let late = op.host("mon.b");
    op.c.world.set_wall_error(late, -300_000_000);
    let seen = op.sees("MON_CLOCK_SKEW");
    let status = op.follows("MON_CLOCK_SKEW", "ceph time-sync-status", &[]);
    assert!(seen.contains("mon.b clock skew -0.300s") && status.contains("-0.29"), "{seen}\n{status}");
    op.c.world.set_wall_error(late, 0);
    op.sees_no("MON_CLOCK_SKEW");
    op.sees_health_ok();
}

#[test]
fn the_only_metadata_server_is_started_again() {
    let mut op = Operator::of(&Spec { fs: true, ..Spec::default() });
    op.c.mds().crash(Crash::Process);
    let seen = op.sees("MDS_ALL_DOWN");
    assert!(seen.contains("fs cephfs is offline because no MDS is active for it."), "{seen}");
    op.follows("MDS_ALL_DOWN", "nacre mds --conf CONF --id NAME", &start("a"));
    op.sees_no("MDS_ALL_DOWN");
    op.sees_health_ok();
}

/// A file system with two ranks, and no server beside theirs.
fn two_ranks() -> Operator {
    Operator::of(&Spec { fs: true, ranks: 2, standbys: 1, ..Spec::default() })
}

#[test]
fn the_server_of_one_rank_of_two_is_started_again() {
    let mut op = two_ranks();
    let (_, second) = ranks(&mut op);
    let host = op.host(&format!("mds.{second}"));
    op.c.at(host).crash(Crash::Process);
    let seen = op.sees("FS_WITH_FAILED_MDS");
    assert!(seen.contains("fs cephfs has 1 failed mds"), "{seen}");
    op.follows("FS_WITH_FAILED_MDS", "nacre mds --conf CONF --id NAME", &start(&second));
    op.sees_no("FS_WITH_FAILED_MDS");
    op.sees_health_ok();
}

/// The names of the servers of ranks 0 and 1.
fn ranks(op: &mut Operator) -> (String, String) {
    let status = op.json("status");
    let name = |rank: usize| status["fsmap"]["by_rank"][rank]["name"].as_str().expect("a name").to_owned();
    (name(0), name(1))
}

#[test]
fn a_rank_without_a_server_becomes_active_when_it_has_one() {
    let mut op = two_ranks();
    let (first, _) = ranks(&mut op);
    let host = op.host(&format!("mds.{first}"));
    op.c.at(host).crash(Crash::Process);
    let seen = op.sees("FS_DEGRADED");
    assert!(seen.contains("fs cephfs is degraded"), "{seen}");
    let status = op.follows("FS_DEGRADED", "ceph fs status", &[]);
    assert!(status.contains("cephfs"), "{status}");
    op.follows("FS_DEGRADED", "nacre mds --conf CONF --id NAME", &start(&first));
    op.sees_no("FS_DEGRADED");
    op.sees_health_ok();
}

#[test]
fn ranks_that_were_asked_for_get_servers_or_are_not_asked_for() {
    let mut op = Operator::of(&Spec { fs: true, ..Spec::default() });
    op.ceph("fs set cephfs max_mds 2");
    let seen = op.sees("MDS_UP_LESS_THAN_MAX");
    assert!(seen.contains("fs cephfs has 1 MDS online, but wants 2"), "{seen}");
    let values = [("NAME", "cephfs"), ("N", "1")];
    op.follows("MDS_UP_LESS_THAN_MAX", "ceph fs set NAME max_mds N", &values);
    op.sees_no("MDS_UP_LESS_THAN_MAX");
    op.sees_health_ok();

    let mut op = Operator::of(&Spec { fs: true, standbys: 1, ..Spec::default() });
    let idle = ["mds.a", "mds.b"].map(|name| op.host(name));
    let status = op.json("status");
    let active = status["fsmap"]["by_rank"][0]["name"].as_str().expect("a name").to_owned();
    let idle = idle.into_iter().find(|host| op.c.world.name(*host) != format!("mds.{active}")).expect("one");
    let name = op.c.world.name(idle).trim_start_matches("mds.").to_owned();
    op.c.at(idle).crash(Crash::Process);
    op.ceph("fs set cephfs max_mds 2");
    op.sees("MDS_UP_LESS_THAN_MAX");
    op.follows("MDS_UP_LESS_THAN_MAX", "nacre mds --conf CONF --id NAME", &start(&name));
    op.sees_no("MDS_UP_LESS_THAN_MAX");
}

#[test]
fn a_standby_that_went_away_is_started_again() {
    let mut op = Operator::of(&Spec { fs: true, standbys: 1, ..Spec::default() });
    op.c.mds().crash(Crash::Process);
    let seen = op.sees("MDS_INSUFFICIENT_STANDBY");
    assert!(seen.contains("have 0; want 1 more"), "{seen}");
    op.follows("MDS_INSUFFICIENT_STANDBY", "nacre mds --conf CONF --id NAME", &start("a"));
    op.sees_no("MDS_INSUFFICIENT_STANDBY");
    op.c.world.run_for(Duration::from_secs(10));
    op.sees_health_ok();
    // The same again, of a cluster that is to do without.
    let standby = op.c.standbys[0];
    op.c.at(standby).crash(Crash::Process);
    op.sees("MDS_INSUFFICIENT_STANDBY");
    let values = [("NAME", "cephfs")];
    op.follows("MDS_INSUFFICIENT_STANDBY", "ceph fs set NAME standby_count_wanted 0", &values);
    op.sees_no("MDS_INSUFFICIENT_STANDBY");
    op.c.world.run_for(Duration::from_secs(10));
    op.sees_health_ok();
}

#[test]
fn a_journal_is_trimmed_again_when_the_osds_are_fast_again() {
    let mds = mds::MdsOptions { journal_bytes: 1 << 20, ..mds::MdsOptions::default() };
    let mut op = Operator::of(&Spec { fs: true, mds, ..Spec::default() });
    let disks = op.c.osds.clone();
    disks.iter().for_each(|osd| op.c.world.set_disk_slowness(*osd, 20_000));
    for n in 0..3000u32 {
        let (parent, name) = (1, format!("{n:0100}").into_bytes());
        let request = fsclient::FsRequest::Mkdir { parent, name, mode: 0o755 };
        let caller = fsclient::Caller { uid: 0, gid: 0, pid: 1, umask: 0 };
        op.c.world.request(op.c.clients[0], fsclient::Request::Fs(caller, request));
    }
    let seen = op.sees("MDS_TRIM");
    assert!(seen.contains("1 MDSs behind on trimming"), "{seen}");
    let line = "mds.a(mds.0): Behind on trimming (";
    assert!(seen.contains(line) && seen.contains("/8) max_segments: 8, num_segments: 1"), "{seen}");
    let perf = op.follows("MDS_TRIM", "ceph osd perf", &[]);
    assert!(perf.contains("commit_latency"), "{perf}");
    disks.iter().for_each(|osd| op.c.world.set_disk_slowness(*osd, 1));
    op.sees_no("MDS_TRIM");
    op.sees_health_ok();
}
