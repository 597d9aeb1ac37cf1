//! Three monitors as processes, of which one after another is killed, the leader too: no command that was
//! answered is lost, and none waits long.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real sockets and processes"
)]

use e2e::{Cluster, Options, has};
use std::time::{Duration, Instant};

/// Kills; the whole table of the issue has thirty.
const KILLS: usize = 6;
/// The longest time of a command, including the start of the interpreter, the hunt for a monitor, and an
/// election.
const LONGEST: Duration = Duration::from_secs(10);

fn status(cluster: &Cluster) -> serde_json::Value {
    let text = cluster.client("ceph", &["quorum_status"]).ok();
    serde_json::from_str(&text).expect("JSON")
}

fn timed(cluster: &Cluster, args: &[&str]) -> String {
    let began = Instant::now();
    let said = cluster.client("ceph", args).ok();
    assert!(began.elapsed() < LONGEST, "{args:?} took {:?}", began.elapsed());
    said
}

#[test]
fn monitors_die_one_after_another_and_no_answered_command_is_lost() {
    if !has("ceph") {
        return;
    }
    let cluster = Cluster::start(Options { separate: true, mons: 3, ..Options::default() });
    let whole = |status: &serde_json::Value| status["quorum_names"] == serde_json::json!(["a", "b", "c"]);
    cluster.wait_for("three monitors", whole);
    let mut again = Vec::new();
    for round in 0..KILLS {
        let leader = status(&cluster)["quorum_leader_name"].as_str().expect("a leader").to_owned();
        // The leader every second time, then the others.
        let victims = ["a", "b", "c"].into_iter().filter(|name| *name != leader);
        let victim = if round % 2 == 0 {
            leader.clone()
        } else {
            victims.collect::<Vec<_>>()[round / 2 % 2].to_owned()
        };
        let (key, value) = (format!("key{round}"), format!("value{round}"));
        timed(&cluster, &["config-key", "set", &key, &value]);
        timed(&cluster, &["log", &format!("before round {round}")]);
        cluster.kill(&format!("mon.{victim}"));
        assert_eq!(timed(&cluster, &["config-key", "get", &key]).trim(), value);
        timed(&cluster, &["config-key", "set", "last", &value]);
        let log = timed(&cluster, &["log", "last", "1000"]);
        let kept = (0..=round).filter(|n| log.contains(&format!("[INF] before round {n}"))).count();
        assert_eq!(kept, round + 1, "every monitor has the cluster log: {log}");
        again.push(cluster.start_daemon(&format!("mon.{victim}")));
        cluster.wait_for("all monitors back", whole);
        assert_eq!(timed(&cluster, &["config-key", "get", "last"]).trim(), value);
    }
    for round in 0..KILLS {
        let value = cluster.client("ceph", &["config-key", "get", &format!("key{round}")]).ok();
        assert_eq!(value.trim(), format!("value{round}"));
    }
    cluster.wait_for("health", |status| status["health"]["status"] == "HEALTH_OK");
}
