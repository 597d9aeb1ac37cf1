//! A cluster for tests: what its monitors would say, for any number of hosts and OSDs.

use crate::monitors::{Monitors, Refused};
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The password of all users.
pub(crate) const PASSWORD: &str = "correct horse";

/// See the module's comment.
pub(crate) struct Fake {
    pub hosts: u32,
    pub osds: u32,
    /// Clients of its file system.
    pub clients: u32,
    /// The users' names and roles.
    pub users: Vec<(&'static str, &'static str)>,
    /// What `health detail` says.
    pub health: Value,
    /// Commands that were not for reading.
    pub ran: Mutex<Vec<Value>>,
    password: String,
    /// Answers of its metadata server.
    pub told: AtomicU64,
    /// Questions for the load of OSDs.
    asked: AtomicU64,
}

impl Fake {
    /// A healthy cluster with an administrator `kim` and somebody who looks, `jo`.
    pub fn new(hosts: u32, osds: u32) -> Self {
        let mut rng = stdx::Rng::from_seed(1);
        Self {
            hosts,
            osds,
            clients: 3,
            users: vec![("kim", "administrator"), ("jo", "read-only")],
            health: json!({ "status": "HEALTH_OK", "checks": {}, "mutes": [] }),
            ran: Mutex::default(),
            told: AtomicU64::default(),
            asked: AtomicU64::default(),
            password: auth::hash_password(PASSWORD, &mut rng),
        }
    }

    fn host(&self, osd: u32) -> String {
        format!("host{}", osd % self.hosts)
    }

    fn osd_dump(&self) -> Value {
        let osd = |id| {
            json!({
                "osd": id, "up": u8::from(id != 1), "in": 1, "weight": 1.0,
                "public_addr": format!("10.0.0.1:{}/7", 6800 + id), "cluster_addr": "10.0.1.1:6800/7",
            })
        };
        let pool = json!({
            "pool": 1, "pool_name": "a \"b\"\\", "type": 1, "size": 3, "min_size": 2, "pg_num": 32,
            "application_metadata": { "rbd": {} },
        });
        let osds: Vec<Value> = (0..self.osds).map(osd).collect();
        json!({ "flags": "sortbitwise,noout", "osds": osds, "pools": [pool] })
    }

    fn tree(&self) -> Value {
        let host = |host| {
            let osds: Vec<u32> = (0..self.osds).filter(|osd| osd % self.hosts == host).collect();
            let (id, name) = (-2 - i64::from(host), format!("host{host}"));
            json!({ "id": id, "name": name, "type": "host", "children": osds })
        };
        let osd = |id| json!({ "id": id, "name": format!("osd.{id}"), "type": "osd", "device_class": "ssd" });
        json!({ "nodes": (0..self.hosts).map(host).chain((0..self.osds).map(osd)).collect::<Vec<_>>() })
    }

    fn summary(&self) -> Value {
        // Each answer is of two seconds later, and everything grows by another number.
        let n = 1 + self.asked.fetch_add(1, Ordering::Relaxed);
        let osd = |id: u32| {
            let grown = (1..=8_u64).map(|i| i * n * 10_000_019 * u64::from(id + 1));
            let used: Vec<u64> =
                [2000 * n, u64::from(id)].into_iter().chain(grown).chain([1300, 2700]).collect();
            json!({
                "osd": id, "num_pgs": 96, "total_bytes": 1000, "used_bytes": 250,
                "commit_latency_ms": id % 50,
                "slow_ops": u8::from(id == 2), "used": used,
            })
        };
        let pool = json!({
            "pool_id": 1, "num_pgs": 32, "states": { "active+clean": 30, "active+undersized+degraded": 2 },
            "num_objects_degraded": 10, "num_objects_misplaced": 20, "num_objects_unfound": 0,
            "num_object_copies": 300, "num_objects_recovered": 5, "recovering_bytes_per_sec": 4096,
            "num_bytes_recovered": 5000, "num_objects_repaired": 1,
        });
        let osds: Vec<Value> = (0..self.osds).map(osd).collect();
        json!({ "pools": [pool], "osds": osds, "used_fields": crate::usage::reported() })
    }

    fn fs_dump() -> Value {
        let info = json!({ "name": "a", "rank": 0, "state": "up:active", "addr": "10.0.0.1:6900/1" });
        let standby = json!({ "name": "b", "rank": -1, "state": "up:standby", "addr": "10.0.0.2:6900/1" });
        let map = json!({
            "fs_name": "cephfs", "max_mds": 1, "metadata_pool": 1, "data_pools": [1],
            "failed": [], "damaged": [],
            "info": { "gid_7": info },
        });
        json!({ "filesystems": [{ "id": 1, "mdsmap": map }], "standbys": [standby] })
    }

    /// What its metadata server says of clients and directories; how much they do differs each time.
    fn dump_top(&self, command: &Value) -> Value {
        let runs = self.told.fetch_add(1, Ordering::Relaxed);
        let shown = |name: &str, all: u32| (command[name].as_u64().unwrap_or(0)).min(all.into());
        let metadata = json!({
            "hostname": "a-host-with-a-long-name.example", "kernel_version": "6.8.0-31-generic",
            "root": "/volumes/_nogroup/csi-vol-0f5c5b1e/6c8ab8a7-4f3c-4d5e", "mount_point": "/mnt",
        });
        let session = |n: u64| {
            json!({
                "id": 4000 + n, "state": "open", "num_caps": 10 * n + runs,
                "request_load_avg": n as f64 + 0.1, "entity": "client.csi-cephfs-node",
                "addrs": [format!("v2:10.0.0.{}:0/3141592653", n % 250)],
                "client_metadata": metadata,
            })
        };
        let path = |n: u64| format!("/volumes/_nogroup/csi-vol-{n}/6c8ab8a7-4f3c-4d5e-b1a2");
        let large = |n: u64| json!({ "path": path(n), "rbytes": n << 30, "rfiles": n, "rsubdirs": 1 });
        let busy =
            |n: u64| json!({ "path": path(n), "pop_auth_subtree": n as f64 + 0.5, "pop_me": n + runs });
        json!({
            "num_sessions": self.clients,
            "sessions": (0..shown("sessions", self.clients)).map(session).collect::<Vec<_>>(),
            "dirs_by_size": (0..shown("dirs", 1000)).map(large).collect::<Vec<_>>(),
            "dirs_by_load": (0..shown("dirs", 1000)).map(busy).collect::<Vec<_>>(),
            "seen_all_dirs": false,
        })
    }

    fn answer(&self, prefix: &str) -> Option<Value> {
        let osds = self.osds;
        let name =
            |name: &str| json!({ "name": name, "hostname": "host0", "ceph_version": "nacre version 0.1.0" });
        let space = json!({ "total_bytes": 1000, "total_used_bytes": 250, "total_used_raw_bytes": 250 });
        Some(match prefix {
            "status" => json!({
                "fsid": "f", "quorum_names": ["a"], "monmap": { "epoch": 1, "num_mons": 2 },
                "osdmap": { "epoch": 9, "num_osds": osds, "num_up_osds": osds - 1, "num_in_osds": osds },
                "fsmap": { "epoch": 3 },
                "pgmap": {
                    "num_pgs": 32, "num_pools": 1, "num_objects": 100, "data_bytes": 4000,
                    "recovering_objects_per_sec": 3, "write_bytes_sec": 4096,
                    "pgs_by_state": [{ "state_name": "active+clean", "count": 30 }],
                },
            }),
            "health" => self.health.clone(),
            "df" => json!({
                "stats": space, "stats_by_class": { "ssd": space },
                "pools": [{ "id": 1, "stats": { "stored": 100, "rd": 7, "percent_used": 0.25 } }],
            }),
            "pg summary" => self.summary(),
            "quorum_status" => json!({ "quorum_names": ["a"], "quorum_leader_name": "a" }),
            "mgr dump" => json!({ "active_name": "a", "standbys": [{ "name": "b" }] }),
            "mgr metadata" => json!([name("a"), name("b")]),
            "mgr module ls" => json!({ "always_on_modules": ["balancer"], "enabled_modules": ["dashboard"] }),
            "log last" => json!([
                { "name": "mon.a", "stamp": "2026-01-01T00:00:01.5+0000", "seq": 1, "message": "one" },
                { "name": "mon.a", "stamp": "2026-01-01T00:00:02.5+0000", "seq": 2, "message": "<b>two" },
            ]),
            "osd dump" => self.osd_dump(),
            "osd tree" => self.tree(),
            "osd metadata" => {
                (0..osds).map(|id| json!({ "id": id, "hostname": self.host(id), "devices": "sda" })).collect()
            }
            "fs dump" => Self::fs_dump(),
            "mds metadata" => json!([name("a"), name("b")]),
            "mon dump" => json!({ "mons": [
                { "name": "a", "rank": 0, "public_addr": "10.0.0.1:3300/0" },
                { "name": "b", "rank": 1, "public_addr": "10.0.0.2:3300/0" },
            ]}),
            "mon metadata" => json!([name("a")]),
            _ => return None,
        })
    }
}

impl Monitors for Fake {
    fn command(&self, command: &Value) -> Result<Vec<u8>, Refused> {
        let prefix = command["prefix"].as_str().unwrap_or_default();
        if prefix == "config-key get" {
            let user = |(name, role): &(&str, &str)| {
                ((*name).to_owned(), json!({ "roles": [role], "password": self.password, "enabled": true }))
            };
            let users: serde_json::Map<String, Value> = self.users.iter().map(user).collect();
            return Ok(json!({ "users": users }).to_string().into_bytes());
        }
        if let Some(answer) = self.answer(prefix) {
            return Ok(answer.to_string().into_bytes());
        }
        self.ran.lock().expect("nobody panicked").push(command.clone());
        match prefix {
            "osd out" if command["ids"] == json!(["99"]) => {
                Err(Refused { code: -2, text: "osd.99 does not exist".into() })
            }
            _ => Ok(Vec::new()),
        }
    }

    fn tell(&self, commands: &[(String, Value)]) -> Vec<Result<Vec<u8>, Refused>> {
        let answer = |(addr, command): &(String, Value)| {
            assert_eq!(addr, "10.0.0.1:6900/1");
            match command["prefix"].as_str() {
                Some("dump top") => Ok(self.dump_top(command).to_string().into_bytes()),
                _ => {
                    self.ran.lock().expect("nobody panicked").push(command.clone());
                    Ok(Vec::new())
                }
            }
        };
        commands.iter().map(answer).collect()
    }
}
