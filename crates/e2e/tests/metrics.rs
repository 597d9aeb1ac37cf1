//! What Ceph's and Rook's dashboards and alert rules ask a real Prometheus for, of a real cluster under load.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real sockets, files and processes"
)]

use e2e::{Beside, Cluster, Mount, Options, Prometheus, free_port, has, run};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The table of what dashboards ask for; its head says how it is read.
const DASHBOARDS: &str = include_str!("data/dashboards.txt");

/// The table of what alert rules ask for; its head says how it is read.
const RULES: &str = include_str!("data/rules.txt");

/// The rules that look at more than a health code.
const EXPRESSIONS: [(&str, &str); 15] = [
    ("CephHealthError", "ceph_health_status == 2"),
    ("CephHealthWarning", "ceph_health_status == 1"),
    (
        "CephMonDown",
        "count by (cluster) (ceph_mon_quorum_status == 0) <= count by (cluster) (ceph_mon_metadata) - \
         floor(count by (cluster) (ceph_mon_metadata) / 2 + 1)",
    ),
    (
        "CephMonDownQuorumAtRisk",
        "(ceph_health_detail{name=\"MON_DOWN\"} == 1) and on(cluster) (count by (cluster) \
         (ceph_mon_quorum_status == 1) == floor(count by (cluster) (ceph_mon_metadata) / 2) + 1)",
    ),
    ("CephOSDDownHigh", "count by (cluster) (ceph_osd_up == 0) / count by (cluster) (ceph_osd_up) >= 0.1"),
    (
        "CephOSDFlapping",
        "rate(ceph_osd_up[5m]) * on(cluster, ceph_daemon) group_left(hostname) ceph_osd_metadata >= 0",
    ),
    (
        "CephPGImbalance",
        "(ceph_osd_numpg > 0) * on(cluster, job, ceph_daemon) group_left(hostname, device_class) \
         ceph_osd_metadata",
    ),
    ("CephMgrPrometheusModuleInactive", "up{job=\"ceph\"} == 0"),
    (
        "CephPGsInactive",
        "ceph_pool_metadata * on(cluster, pool_id, instance) group_left() (ceph_pg_total - ceph_pg_active)",
    ),
    (
        "CephPGsUnclean",
        "ceph_pool_metadata * on(cluster, pool_id, instance) group_left() (ceph_pg_total - ceph_pg_clean) \
         > 0",
    ),
    (
        "CephPoolGrowthWarning",
        "avg by (cluster, pool_id) (ceph_pool_percent_used) * on(cluster, pool_id) group_right() \
         avg by (cluster, pool_id, name) (ceph_pool_metadata)",
    ),
    ("CephSlowOps", "ceph_healthcheck_slow_ops"),
    ("CephDaemonSlowOps", "ceph_daemon_health_metrics{type=\"SLOW_OPS\"}"),
    ("PrometheusJobMissing", "absent(up{job=\"rook-ceph-mgr\"})"),
    ("PrometheusJobExporterMissing", "sum(absent(up{job=\"rook-ceph-exporter\"}))"),
];

/// How dashboards put metrics together: what must give a sample for their panels not to be empty. `[30s]` is
/// what Grafana puts in at this rate of scraping.
const JOINS: [(&str, &str); 12] = [
    ("pools by name", "rate(ceph_pool_wr[30s]) * on(pool_id) group_left(instance, name) ceph_pool_metadata"),
    (
        "pools by use",
        "sum by (application) (ceph_pool_stored * on(pool_id) group_left(application) \
         ceph_pool_metadata{application=~\"(.*Block.*)|(.*Filesystem.*)|(.*Object.*)\"})",
    ),
    ("space of pools", "ceph_pool_stored / (ceph_pool_stored + ceph_pool_max_avail)"),
    (
        "servers of a file system",
        "rate(ceph_mds_server_handle_client_request[30s]) * on(ceph_daemon) \
         (ceph_fs_metadata{name=\"cephfs\"} * on(fs_id) group_left(ceph_daemon) ceph_mds_metadata)",
    ),
    (
        "pools of a file system",
        "ceph_fs_metadata and on(data_pools) label_replace(ceph_pool_metadata, \"data_pools\", \"$1\", \
         \"pool_id\", \"(.*)\")",
    ),
    (
        "time of reads",
        "rate(ceph_osd_op_r_latency_sum[30s]) / on(ceph_daemon) rate(ceph_osd_op_r_latency_count[30s]) > 0",
    ),
    (
        "time of writes",
        "rate(ceph_osd_op_w_latency_sum[30s]) / on(ceph_daemon) rate(ceph_osd_op_w_latency_count[30s]) > 0",
    ),
    (
        "object metadata found in memory",
        "sum(ceph_bluestore_onode_hits) \
         / (sum(ceph_bluestore_onode_hits) + sum(ceph_bluestore_onode_misses)) > 0",
    ),
    ("OSDs by class", "count by (device_class) (ceph_osd_metadata)"),
    ("hosts", "count(sum by (hostname) (ceph_osd_metadata))"),
    (
        "disks of a host",
        "rate(node_disk_writes_completed_total[30s]) * on(instance, device) group_left(ceph_daemon) \
         label_replace(ceph_disk_occupation_human, \"device\", \"$1\", \"device\", \
         \"/dev/(.*)\")",
    ),
    (
        "processors of hosts",
        "rate(node_cpu_seconds_total{mode=\"idle\"}[30s]) and on(instance) label_replace(ceph_osd_metadata, \
         \"instance\", \"$1\", \"hostname\", \"(.*)\")",
    ),
];

/// A cluster whose metrics a Prometheus collects, with those of its host.
struct Watched {
    prometheus: Prometheus,
    _node: Beside,
    cluster: Cluster,
}

impl Watched {
    fn start(options: Options, rules: &[(&str, &str)]) -> Self {
        let cluster = Cluster::start(options);
        let (monitors, exporter, node) = (free_port(), free_port(), free_port());
        for (who, option, port) in
            [("mgr", "mgr/prometheus/server_port", monitors), ("global", "exporter_http_port", exporter)]
        {
            cluster.client("ceph", &["config", "set", who, option, &port.to_string()]).ok();
        }
        cluster.client("ceph", &["mgr", "module", "enable", "prometheus"]).ok();
        let mut command = Command::new("prometheus-node-exporter");
        let _node = Beside::start(command.arg(format!("--web.listen-address=127.0.0.1:{node}")));
        let jobs = [("ceph", monitors), ("ceph-exporter", exporter), ("node", node)];
        Self { prometheus: Prometheus::start(&cluster, &jobs, rules), _node, cluster }
    }

    /// Waits until each query gives something; fails with those that never do.
    fn expect(&self, queries: &[String], patience: Duration) {
        let began = std::time::Instant::now();
        let left =
            |query: &String| self.prometheus.wait(query, patience.saturating_sub(began.elapsed())).err();
        let empty: Vec<String> = queries.iter().filter_map(left).collect();
        assert!(empty.is_empty(), "nothing is known of:\n{}", empty.join("\n"));
    }
}

/// True if the programs are there; in CI a missing one is a failure.
fn is_possible() -> bool {
    ["ceph", "prometheus", "prometheus-node-exporter"].iter().all(|tool| has(tool)) && Mount::is_possible()
}

/// Two mounts, on one of which files are written that are read on the other.
struct Load {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _mounts: [Mount; 2],
}

impl Load {
    fn start(cluster: &Cluster) -> Self {
        let mounts = ["one", "two"].map(|name| Mount::new(cluster, name));
        let [ours, theirs]: [PathBuf; 2] = mounts.each_ref().map(|mount| mount.point().to_owned());
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut round = 0u64;
            while !stopped.load(Ordering::Relaxed) {
                let name = format!("f{}", round % 50);
                std::fs::write(ours.join(&name), vec![round as u8; 100_000]).expect("writes");
                std::fs::File::open(ours.join(&name)).and_then(|file| file.sync_all()).expect("syncs");
                assert_eq!(std::fs::read(theirs.join(&name)).expect("reads")[0], round as u8);
                if round % 10 == 9 {
                    std::fs::remove_file(ours.join(&name)).expect("removes");
                }
                round += 1;
            }
        });
        Self { stop, thread: Some(thread), _mounts: mounts }
    }

    /// Ends it; panics if an operation has failed.
    fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("once").join().expect("all operations succeed");
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The query by which a line of the table is checked; none for a metric that is absent.
fn query_of(line: &str) -> Option<String> {
    let fields: Vec<&str> = line.split(' ').collect();
    let (metric, how, labels) = (fields[0], fields[1], fields[2]);
    let labels = labels.split(',').filter(|label| *label != "-").map(|label| format!("{label}=~\".+\""));
    let labels: Vec<String> = labels.chain(["cluster=\"c\"".to_owned()]).collect();
    let selected = format!("{metric}{{{}}}", labels.join(","));
    match how {
        "absent" => None,
        "is" => Some(selected),
        "positive" => Some(format!("{selected} > 0")),
        "grows" => Some(format!("rate({selected}[60s]) > 0")),
        other => panic!("{line}: what is `{other}`?"),
    }
}

#[test]
fn no_panel_of_cephs_and_rooks_dashboards_is_empty() {
    if !is_possible() {
        return;
    }
    let watched = Watched::start(Options { separate: true, ..Options::default() }, &[]);
    let cluster = &watched.cluster;
    let load = Load::start(cluster);
    // Recovery has something to do.
    cluster.stop_daemon("osd.2");
    cluster.wait_for("down", |status| status["osdmap"]["num_up_osds"] == 2);
    std::thread::sleep(Duration::from_secs(2));
    let _osd = cluster.start_daemon("osd.2");
    let lines: Vec<&str> = DASHBOARDS.lines().filter(|line| !line.starts_with('#')).collect();
    let table = lines.iter().filter_map(|line| query_of(line));
    let recovery = ["bytes", "objects"]
        .map(|what| format!("max_over_time(ceph_pool_recovering_{what}_per_sec[60s]) > 0"));
    let queries: Vec<String> =
        recovery.into_iter().chain(table).chain(JOINS.iter().map(|(_, query)| (*query).to_owned())).collect();
    watched.expect(&queries, Duration::from_secs(45));
    for line in lines.iter().filter(|line| line.split(' ').nth(1) == Some("absent")) {
        let metric = line.split(' ').next().expect("a metric");
        assert!(watched.prometheus.query(metric).is_empty(), "{metric} is there: the table must say how");
    }
    // Who scrapes both ports gets no sample twice.
    for metric in ["ceph_osd_numpg", "ceph_osd_stat_bytes", "ceph_osd_op_r", "ceph_mds_inodes", "ceph_osd_up"]
    {
        let twice = format!("count by (ceph_daemon) ({metric}) > 1");
        assert!(watched.prometheus.query(&twice).is_empty(), "{metric} comes twice");
    }
    load.end();
    cluster.check_logs().expect("no errors");
}

/// A line of the table of rules: name, what is expected, and the health code or `-`.
fn rules() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    RULES.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut words = line.splitn(4, ' ');
        let mut next = || words.next().expect("three words at least");
        (next(), next(), next())
    })
}

/// The expression of a rule that is not absent.
fn expression((name, _, code): (&str, &str, &str)) -> String {
    if code != "-" {
        return format!("ceph_health_detail{{name=\"{code}\"}} == 1");
    }
    let found = EXPRESSIONS.iter().find(|(other, _)| *other == name);
    found.unwrap_or_else(|| panic!("no expression for {name}")).1.to_owned()
}

#[test]
fn each_rule_has_a_code_or_an_expression() {
    for rule @ (name, expected, code) in rules().filter(|(_, expected, _)| *expected != "absent") {
        assert!(["fires", "known"].contains(&expected), "{name}: {expected}");
        assert!(!expression(rule).is_empty());
        let is_code = |text: &str| text.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        assert!(code == "-" || is_code(code), "{name}: {code}");
    }
    for (name, _) in EXPRESSIONS {
        assert!(rules().any(|(other, _, code)| other == name && code == "-"), "{name} is not in the table");
    }
}

#[test]
fn alerts_of_cephs_and_rooks_rules_fire_by_their_causes() {
    if !is_possible() {
        return;
    }
    let fire: Vec<(&str, String)> = rules()
        .filter(|(_, expected, _)| *expected == "fires")
        .map(|rule| (rule.0, expression(rule)))
        .collect();
    let given: Vec<(&str, &str)> = fire.iter().map(|(name, expr)| (*name, expr.as_str())).collect();
    let options = Options { separate: true, mons: 3, osds: 4, ..Options::default() };
    let watched = Watched::start(options, &given);
    let (cluster, ceph) = (&watched.cluster, |args: &[&str]| watched.cluster.client("ceph", args).ok());
    // What a rule looks at is there, though none of the causes is.
    let known = rules().filter(|(_, expected, code)| *expected == "known" && *code == "-");
    let known: Vec<String> = known.map(expression).chain(["ceph_health_detail".to_owned()]).collect();
    // Causes that do not keep others from showing.
    ceph(&["osd", "pool", "create", "full", "1"]);
    ceph(&["osd", "pool", "application", "enable", "full", "test"]);
    ceph(&["osd", "pool", "set-quota", "full", "max_objects", "1"]);
    cluster.client("rados", &["-p", "full", "create", "a"]).ok();
    ceph(&["config", "set", "global", "mon_max_pg_per_osd", "1"]);
    ceph(&["fs", "set", "cephfs", "standby_count_wanted", "1"]);
    ceph(&["osd", "crush", "move", "osd.3", "root=default", "host=another"]);
    let report = cluster.dir().join("crash");
    let now = run(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%S.000000Z"])).ok();
    let crash =
        json!({ "crash_id": format!("{}_1", now.trim()), "timestamp": now.trim(), "entity_name": "osd.0" });
    std::fs::write(&report, crash.to_string()).expect("writes");
    ceph(&["crash", "post", "-i", &report.to_string_lossy()]);
    cluster.stop_daemon("osd.3");
    let leader: Value = serde_json::from_str(&ceph(&["quorum_status", "-f", "json"])).expect("JSON");
    let other = ["a", "b", "c"].into_iter().find(|name| leader["quorum_leader_name"] != *name);
    cluster.stop_daemon(&format!("mon.{}", other.expect("one that does not lead")));
    ceph(&["osd", "set-nearfull-ratio", "0.00001"]);
    let fired = |name: &str| format!("ALERTS{{alertname=\"{name}\",alertstate=\"firing\"}}");
    let all_but = |names: &[&str]| -> Vec<String> {
        fire.iter().filter(|(name, _)| !names.contains(name)).map(|(name, _)| fired(name)).collect()
    };
    let of_mds = [
        "CephHealthError",
        "CephFilesystemOffline",
        "CephFilesystemDegraded",
        "CephFilesystemMDSRanksLow",
        "CephFilesystemFailureNoStandby",
    ];
    let of_space = ["CephOSDBackfillFull", "CephOSDFull"];
    let last = ["CephMgrPrometheusModuleInactive"];
    let first = all_but(&[&of_mds[..], &of_space, &last].concat());
    watched.expect(&[known, first].concat(), Duration::from_secs(30));
    cluster.stop_daemon("mds.a");
    for (alert, command) in of_space.into_iter().zip(["set-backfillfull-ratio", "set-full-ratio"]) {
        ceph(&["osd", command, "0.00001"]);
        watched.expect(&[fired(alert)], Duration::from_secs(20));
    }
    watched.expect(&of_mds.map(fired), Duration::from_secs(20));
    ceph(&["mgr", "module", "disable", "prometheus"]);
    watched.expect(&last.map(fired), Duration::from_secs(20));
}
