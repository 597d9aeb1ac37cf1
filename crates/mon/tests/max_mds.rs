//! `max_mds auto`: ranks come and go with the load.

mod support;

use maps::MdsState;
use node::ConnId;
use std::time::Duration;
use support::{FS, Rig, three_osds};

/// Metadata servers whose beacons a test sends.
struct Servers {
    rig: Rig,
    all: Vec<(ConnId, &'static str, u64)>,
    seq: u64,
}

/// Thousandths of a core.
const FREE: u32 = 800;

impl Servers {
    /// A file system with `max_mds auto`, and so many servers.
    fn new(count: usize) -> Self {
        let (mut rig, _) = three_osds();
        FS.iter().for_each(|c| drop(rig.ok(c)));
        let names = ["a", "b", "c", "d", "e"].into_iter().zip(7001..).take(count);
        let all = names.map(|(name, gid)| (rig.boot_mds(name, gid), name, gid)).collect();
        set(&mut rig, "auto");
        let mut servers = Self { rig, all, seq: 1 };
        servers.pass(1, 0, FREE);
        servers
    }

    /// Seconds in which each rank uses `busy` of a core and the host has `idle`. Ranks go on when they can.
    fn pass(&mut self, seconds: u32, busy: u32, idle: u32) {
        for _ in 0..seconds {
            self.rig.pass(Duration::from_secs(1));
            self.seq += 1;
            let dump = self.rig.json(r#"{"prefix":"fs dump"}"#);
            let epoch = maps::Epoch(dump["epoch"].as_u64().expect("a number") as u32);
            let info = &dump["filesystems"][0]["mdsmap"]["info"];
            for (conn, name, gid) in self.all.clone() {
                let state = info[format!("gid_{gid}")]["state"].as_str().unwrap_or("up:standby");
                let state = match state {
                    "up:standby" => MdsState::STANDBY,
                    "up:stopping" => MdsState::STOPPED,
                    _ => MdsState::ACTIVE,
                };
                self.rig.mds_load = if state == MdsState::STANDBY { (0, idle) } else { (busy, idle) };
                self.rig.beacon_at(epoch, conn, name, gid, self.seq, state);
                if state == MdsState::STOPPED {
                    // Its daemon starts anew.
                    self.rig.beacon(conn, name, gid, 1, MdsState::BOOT);
                }
            }
        }
    }

    fn max_mds(&mut self) -> i64 {
        let fs = self.rig.json(r#"{"prefix":"fs get","fs_name":"cephfs"}"#);
        fs["mdsmap"]["max_mds"].as_i64().expect("a number")
    }
}

fn set(rig: &mut Rig, ranks: &str) {
    let set = serde_json::json!({
        "prefix": "fs set", "fs_name": "cephfs", "var": "max_mds", "val": ranks,
    });
    rig.ok(&set.to_string());
}

#[test]
fn busy_ranks_get_another_beside_them_and_one_standby_stays() {
    let mut servers = Servers::new(4);
    servers.pass(15, 700, FREE);
    assert_eq!(servers.max_mds(), 1, "it may pass");
    servers.pass(15, 700, FREE);
    assert_eq!(servers.max_mds(), 2);
    servers.pass(60, 700, FREE);
    assert_eq!(servers.max_mds(), 3, "the fourth is kept for failures");
    let log = servers.rig.ok(r#"{"prefix":"log last","num":50}"#);
    assert!(log.contains("the ranks of `cephfs` are busy: max_mds is 3 now"), "{log}");
}

#[test]
fn a_host_without_idle_processors_gets_no_rank_more() {
    let mut servers = Servers::new(3);
    servers.pass(60, 900, 400);
    assert_eq!(servers.max_mds(), 1);
    servers.pass(30, 900, 600);
    assert_eq!(servers.max_mds(), 2);
}

#[test]
fn ranks_with_little_to_do_stop_after_ten_minutes() {
    let mut servers = Servers::new(4);
    set(&mut servers.rig, "3");
    servers.pass(3, 100, FREE);
    set(&mut servers.rig, "auto");
    servers.pass(590, 100, FREE);
    assert_eq!(servers.max_mds(), 3, "it may pass");
    servers.pass(20, 100, FREE);
    assert_eq!(servers.max_mds(), 2);
    // One rank would be more than half busy.
    servers.pass(700, 300, FREE);
    assert_eq!(servers.max_mds(), 2);
    servers.pass(620, 140, FREE);
    assert_eq!(servers.max_mds(), 1);
}

#[test]
fn a_number_ends_the_choice_by_load() {
    let mut servers = Servers::new(4);
    set(&mut servers.rig, "1");
    servers.pass(60, 900, FREE);
    assert_eq!(servers.max_mds(), 1);
}
