//! Metrics of the cluster's health and of daemons.

use super::text::Exposition;
use crate::facts::Facts;
use crate::value::{fields, int, ip, num, rows, text};
use serde_json::Value;
use std::collections::BTreeMap;

/// Flags of the OSD map that have a metric.
const FLAGS: [&str; 9] =
    ["noup", "nodown", "noout", "noin", "nobackfill", "norebalance", "norecover", "noscrub", "nodeep-scrub"];

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// A field of what a daemon says of itself.
fn said<'a, K: Ord>(all: &'a BTreeMap<K, Value>, who: &K, field: &str) -> &'a str {
    all.get(who).map_or("", |said| text(&said[field]))
}

pub(super) fn health(facts: &Facts, out: &mut Exposition) {
    let status = match text(&facts.health["status"]) {
        "HEALTH_OK" => 0.0,
        "HEALTH_WARN" => 1.0,
        _ => 2.0,
    };
    out.one("ceph_health_status", "untyped", "Health of the cluster: 0 OK, 1 warning, 2 error", status);
    let checks = &facts.health["checks"];
    let mut detail =
        out.family("ceph_health_detail", "gauge", "Health checks that are raised (1), or are not (0)");
    let known = decl::Code::ALL.iter().map(|code| (code.name(), code.severity().status()));
    let raised = facts.ever_raised.iter().map(|(code, severity)| (code.as_str(), severity.as_str()));
    for (code, severity) in known.chain(raised).collect::<BTreeMap<&str, &str>>() {
        let is_raised = checks.get(code).is_some();
        detail.add(&[("name", code), ("severity", severity)], flag(is_raised));
    }
    let slow = num(&checks["SLOW_OPS"]["summary"]["count"]);
    out.one("ceph_healthcheck_slow_ops", "gauge", "Requests that take too long", slow);
    let mut family = out.family("ceph_daemon_health_metrics", "gauge", "What daemons report of their health");
    for (osd, report) in facts.osd_reports() {
        let daemon = format!("osd.{osd}");
        family.add(&[("type", "SLOW_OPS"), ("ceph_daemon", &daemon)], num(&report["slow_ops"]));
    }
}

pub(super) fn monitors(facts: &Facts, out: &mut Exposition) {
    let maps = &facts.maps;
    let mons = rows(&maps.monmap["mons"]);
    let mut family = out.family("ceph_mon_metadata", "untyped", "Monitors");
    for mon in mons {
        let name = text(&mon["name"]).to_owned();
        let labels = [
            ("ceph_daemon", format!("mon.{name}")),
            ("hostname", said(&maps.mon_metadata, &name, "hostname").to_owned()),
            ("public_addr", ip(text(&mon["public_addr"])).to_owned()),
            ("rank", int(&mon["rank"]).to_string()),
            ("ceph_version", said(&maps.mon_metadata, &name, "ceph_version").to_owned()),
        ];
        add(&mut family, &labels, 1.0);
    }
    let quorum: Vec<&str> = rows(&facts.quorum["quorum_names"]).iter().map(text).collect();
    let mut family = out.family("ceph_mon_quorum_status", "gauge", "Monitors in quorum");
    for mon in mons {
        let name = text(&mon["name"]);
        family.add(&[("ceph_daemon", &format!("mon.{name}"))], flag(quorum.contains(&name)));
    }
}

fn add(family: &mut super::text::Family<'_>, labels: &[(&str, String)], value: f64) {
    let labels: Vec<(&str, &str)> = labels.iter().map(|(k, v)| (*k, v.as_str())).collect();
    family.add(&labels, value);
}

pub(super) fn managers(facts: &Facts, out: &mut Exposition) {
    let active = text(&facts.mgrmap["active_name"]);
    let standbys = rows(&facts.mgrmap["standbys"]).iter().map(|s| text(&s["name"]));
    let all: Vec<&str> = [active].into_iter().chain(standbys).filter(|name| !name.is_empty()).collect();
    let mut family = out.family("ceph_mgr_metadata", "gauge", "Managers");
    for name in &all {
        let said = |field| said(&facts.mgr_metadata, &(*name).to_owned(), field);
        let daemon = format!("mgr.{name}");
        let labels = [
            ("ceph_daemon", daemon.as_str()),
            ("hostname", said("hostname")),
            ("ceph_version", said("ceph_version")),
        ];
        family.add(&labels, 1.0);
    }
    let mut family = out.family("ceph_mgr_status", "gauge", "Managers: 0 standby, 1 active");
    for name in &all {
        family.add(&[("ceph_daemon", &format!("mgr.{name}"))], flag(*name == active));
    }
    let modules = &facts.modules;
    let on = rows(&modules["always_on_modules"]).iter().map(|m| (text(m), 2.0));
    let enabled = rows(&modules["enabled_modules"]).iter().map(|m| (text(m), 1.0));
    let off = rows(&modules["disabled_modules"]).iter().map(|m| (text(&m["name"]), 0.0));
    let states: Vec<(&str, f64)> = on.chain(enabled).chain(off).collect();
    let help = "Modules: 0 disabled, 1 enabled, 2 always on";
    let mut family = out.family("ceph_mgr_module_status", "gauge", help);
    states.iter().for_each(|(name, state)| family.add(&[("name", name)], *state));
    let mut family = out.family("ceph_mgr_module_can_run", "gauge", "Modules that can run");
    states.iter().for_each(|(name, _)| family.add(&[("name", name)], 1.0));
}

pub(super) fn metadata_servers(facts: &Facts, out: &mut Exposition) {
    let maps = &facts.maps;
    let filesystems = rows(&maps.fsmap["filesystems"]);
    let mut family = out.family("ceph_fs_metadata", "untyped", "File systems");
    for fs in filesystems {
        let map = &fs["mdsmap"];
        let pools: Vec<String> = rows(&map["data_pools"]).iter().map(|id| int(id).to_string()).collect();
        let labels = [
            ("data_pools", pools.join(",")),
            ("fs_id", int(&fs["id"]).to_string()),
            ("metadata_pool", int(&map["metadata_pool"]).to_string()),
            ("name", text(&map["fs_name"]).to_owned()),
        ];
        add(&mut family, &labels, 1.0);
    }
    let mut family = out.family("ceph_mds_metadata", "untyped", "Metadata servers; of no file system: -1");
    let mut one = |fs: &str, info: &Value| {
        let name = text(&info["name"]).to_owned();
        let labels = [
            ("ceph_daemon", format!("mds.{name}")),
            ("fs_id", fs.to_owned()),
            ("hostname", said(&maps.mds_metadata, &name, "hostname").to_owned()),
            ("public_addr", text(&info["addr"]).to_owned()),
            ("rank", int(&info["rank"]).to_string()),
            ("ceph_version", said(&maps.mds_metadata, &name, "ceph_version").to_owned()),
        ];
        add(&mut family, &labels, 1.0);
    };
    rows(&maps.fsmap["standbys"]).iter().for_each(|info| one("-1", info));
    for fs in filesystems {
        let id = int(&fs["id"]).to_string();
        fields(&fs["mdsmap"]["info"]).for_each(|(_, info)| one(&id, info));
    }
}

pub(super) fn osds(facts: &Facts, out: &mut Exposition) {
    let maps = &facts.maps;
    let osds: Vec<(i64, String, &Value)> = rows(&maps.osdmap["osds"])
        .iter()
        .map(|osd| (int(&osd["osd"]), format!("osd.{}", int(&osd["osd"])), osd))
        .collect();
    let classes = facts.classes();
    let mut family = out.family("ceph_osd_metadata", "untyped", "OSDs");
    for (id, daemon, osd) in &osds {
        let said = |field| said(&maps.osd_metadata, id, field);
        let labels = [
            ("back_iface", said("back_iface")),
            ("ceph_daemon", daemon),
            ("cluster_addr", ip(text(&osd["cluster_addr"]))),
            ("device_class", classes.get(id).copied().unwrap_or_default()),
            ("front_iface", said("front_iface")),
            ("hostname", said("hostname")),
            ("objectstore", said("osd_objectstore")),
            ("public_addr", ip(text(&osd["public_addr"]))),
            ("ceph_version", said("ceph_version")),
        ];
        family.add(&labels, 1.0);
    }
    for (name, help) in [
        ("ceph_osd_up", "OSDs that are up"),
        ("ceph_osd_in", "OSDs that are in"),
        ("ceph_osd_weight", "Weights of OSDs: 0 out, 1 in"),
    ] {
        let mut family = out.family(name, "untyped", help);
        let field = name.trim_start_matches("ceph_osd_");
        osds.iter().for_each(|(_, daemon, osd)| family.add(&[("ceph_daemon", daemon)], num(&osd[field])));
    }
    let flags = facts.flags();
    for name in FLAGS {
        let metric = format!("ceph_osd_flag_{}", name.replace('-', "_"));
        out.one(&metric, "untyped", &format!("OSD flag {name}"), flag(flags.contains(name)));
    }
    let reports = facts.osd_reports();
    for (name, field, help) in [
        ("ceph_osd_apply_latency_ms", "commit_latency_ms", "Milliseconds until a change can be read"),
        (
            "ceph_osd_commit_latency_ms",
            "commit_latency_ms",
            "Milliseconds until a change is on stable storage",
        ),
        ("ceph_osd_stat_bytes", "total_bytes", "Bytes of the OSD's device"),
        ("ceph_osd_stat_bytes_used", "used_bytes", "Bytes of the OSD's device that are in use"),
        ("ceph_osd_numpg", "num_pgs", "PGs on the OSD"),
    ] {
        let mut family = out.family(name, "gauge", help);
        for (osd, report) in &reports {
            family.add(&[("ceph_daemon", &format!("osd.{osd}"))], num(&report[field]));
        }
    }
}

/// Which disks daemons store on: for joins a sample for each daemon and disk; for people one for each disk,
/// with all its daemons in one label.
pub(super) fn devices(facts: &Facts, out: &mut Exposition) {
    let mut on: BTreeMap<(String, &str), (Vec<String>, &Value)> = BTreeMap::new();
    for (osd, said) in &facts.maps.osd_metadata {
        for device in text(&said["devices"]).split(',').filter(|device| !device.is_empty()) {
            let disk = (format!("/dev/{device}"), text(&said["hostname"]));
            on.entry(disk).or_insert_with(|| (Vec::new(), said)).0.push(format!("osd.{osd}"));
        }
    }
    let help = "The disk that a daemon stores on";
    for (name, is_joined) in [("ceph_disk_occupation", false), ("ceph_disk_occupation_human", true)] {
        let mut family = out.family(name, "untyped", help);
        for ((path, host), (daemons, said)) in &on {
            let joined = [daemons.join(", ")];
            let who = if is_joined { &joined[..] } else { &daemons[..] };
            for daemon in who {
                let labels = [
                    ("ceph_daemon", daemon.as_str()),
                    ("device", path),
                    ("db_device", ""),
                    ("wal_device", ""),
                    ("instance", *host),
                    ("devices", text(&said["devices"])),
                    ("device_ids", text(&said["device_ids"])),
                ];
                family.add(&labels, 1.0);
            }
        }
    }
}
