//! Daemons of several versions: an upgrade from daemon to daemon, its end, the way back before that, and
//! builds that are too old.

use crate::operator::Operator;
use peer::level::{Build, Levels};
use serde_json::json;
use sim::Crash;
use sim::cluster::Spec;
use std::time::Duration;

/// A former version, which can't do what this one can.
fn older() -> Build {
    let newest = Levels::default().newest - 1;
    Build { version: "0.0.9".to_owned(), levels: Levels { newest, ..Levels::default() } }
}

/// Three monitors, three OSDs and two metadata servers of a build.
fn operator(build: Build) -> Operator {
    Operator::of_build(&Spec { mons: 3, fs: true, standbys: 1, ..Spec::default() }, build)
}

/// The daemons in the order of an upgrade.
fn daemons(op: &Operator) -> Vec<String> {
    let mut names: Vec<String> =
        op.c.daemons().into_iter().map(|host| op.c.world.name(host).to_owned()).collect();
    let order = |name: &String| ["mon", "mds", "osd"].iter().position(|role| name.starts_with(role));
    names.sort_by_key(|name| (order(name), name.clone()));
    names
}

fn kill(op: &mut Operator, daemon: &str) {
    let host = op.host(daemon);
    op.c.at(host).crash(Crash::Process);
}

fn start(op: &mut Operator, daemon: &str) {
    let host = op.host(daemon);
    op.c.at(host).start();
}

/// Kills a daemon, writes and reads while it is away and when it is back.
fn replace(op: &mut Operator, daemon: &str, round: &mut u8) {
    kill(op, daemon);
    use_objects(op, round);
    start(op, daemon);
    use_objects(op, round);
    let ours = ["DAEMON_OLD_VERSION", "OSD_UPGRADE_FINISHED"];
    let until = op.c.world.now() + Duration::from_secs(120);
    loop {
        let health = op.json("health");
        let checks = health["checks"].as_object().expect("checks");
        if checks.keys().all(|code| ours.contains(&code.as_str())) {
            return;
        }
        assert!(op.c.world.now() < until, "after {daemon}: {health}");
        op.c.world.run_for(Duration::from_millis(500));
    }
}

/// Writes what differs each time, and reads it with what was written before.
fn use_objects(op: &mut Operator, round: &mut u8) {
    let name = |round: u8| format!("o{}", round % 5);
    *round += 1;
    op.c.client(0).write(&name(*round), &[*round; 5000]);
    for former in (1..=*round).rev().take(5) {
        assert_eq!(op.c.client(0).read(&name(former)), Some(vec![former; 5000]), "round {round}");
    }
}

/// Why a daemon has ended by itself.
fn end_of(op: &mut Operator, daemon: &str) -> String {
    let (host, until) = (op.host(daemon), op.c.world.now() + Duration::from_secs(60));
    loop {
        if let Some(why) = op.c.world.stopped(host) {
            return format!("{why:?}");
        }
        assert!(op.c.world.now() < until, "{daemon} runs");
        op.c.world.run_for(Duration::from_millis(100));
    }
}

fn level(op: &mut Operator) -> u64 {
    op.json("finalize --dry-run")["feature_level"].as_u64().expect("a level")
}

#[test]
fn an_upgrade_goes_from_daemon_to_daemon_and_is_finished() {
    let mut op = operator(older());
    let (first, last) = (u64::from(older().levels.newest), u64::from(Levels::default().newest));
    assert_eq!(level(&mut op), first);
    op.c.builds.install(Build::default());
    let (mut round, names) = (0, daemons(&op));
    for daemon in &names[..names.len() - 1] {
        replace(&mut op, daemon, &mut round);
        let seen = op.sees("DAEMON_OLD_VERSION");
        assert!(seen.contains("running an older version of ceph: 0.0.9") && seen.contains("osd.2"), "{seen}");
        let refused = op.c.command(&json!({ "prefix": "finalize" })).expect_err("not yet");
        assert!(refused.contains("osd.2 (level") && !refused.contains(&format!("{daemon} (")), "{refused}");
    }
    kill(&mut op, "osd.2");
    op.follows("DAEMON_OLD_VERSION", "nacre osd --conf CONF --id N", &[("CONF", "ceph.conf"), ("N", "2")]);
    op.sees_no("DAEMON_OLD_VERSION");
    let seen = op.sees("OSD_UPGRADE_FINISHED");
    assert!(seen.contains(&format!("level {last}, and {first} is in use")), "{seen}");
    op.follows("OSD_UPGRADE_FINISHED", "nacre finalize", &[]);
    op.sees_no("OSD_UPGRADE_FINISHED");
    assert_eq!(level(&mut op), last);
    use_objects(&mut op, &mut round);
    op.sees_health_ok();
}

#[test]
fn an_upgrade_is_taken_back_before_it_is_finished() {
    let mut op = operator(older());
    let mut round = 0;
    for build in [Build::default(), older()] {
        op.c.builds.install(build);
        for daemon in daemons(&op) {
            replace(&mut op, &daemon, &mut round);
        }
    }
    op.sees_health_ok();
    assert_eq!(level(&mut op), u64::from(older().levels.newest));
}

#[test]
fn a_build_that_can_not_do_the_level_in_use_is_refused_with_what_to_do() {
    let mut op = operator(Build::default());
    let mut round = 0;
    for daemon in ["mon.c", "osd.1", "mds.b"] {
        op.c.builds.install_for(daemon, older());
        kill(&mut op, daemon);
        start(&mut op, daemon);
        let why = end_of(&mut op, daemon);
        assert!(why.contains(daemon) && why.contains("install") && why.contains("at most"), "{why}");
        use_objects(&mut op, &mut round);
        op.c.builds.install_for(daemon, Build::default());
        replace(&mut op, daemon, &mut round);
    }
    let said = op.ceph("log last 50");
    assert!(said.contains("the build of mds.b can do"), "{said}");
    op.sees_health_ok();
}
