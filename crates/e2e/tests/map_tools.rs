//! Ceph's own programs read the maps that monitors give.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real sockets and processes"
)]

use e2e::{Cluster, Options, has, run};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn ceph(cluster: &Cluster, line: &str) -> String {
    cluster.client("ceph", &line.split_whitespace().collect::<Vec<_>>()).ok()
}

#[test]
fn the_map_tools_of_ceph_read_every_map_and_give_crush_back() {
    if !has("ceph") || !has("osdmaptool") || !has("monmaptool") || !has("crushtool") {
        return;
    }
    let cluster = Cluster::start(Options::default());
    for line in ["osd pool create p 8", "osd crush add-bucket r1 rack", "osd crush move r1 root=default"] {
        ceph(&cluster, line);
    }
    let file = |name: &str| cluster.dir().join(name).to_string_lossy().into_owned();
    let tool = |name: &str, args: &[&str]| run(Command::new(name).args(args)).ok();

    ceph(&cluster, &format!("osd getmap -o {}", file("osdmap")));
    let printed = tool("osdmaptool", &["--print", &file("osdmap")]);
    assert!(printed.contains("'p' replicated") && printed.contains("max_osd 3"), "{printed}");
    ceph(&cluster, &format!("mon getmap -o {}", file("monmap")));
    let printed = tool("monmaptool", &["--print", &file("monmap")]);
    assert!(printed.contains(&format!("127.0.0.1:{}", cluster.port())), "{printed}");

    ceph(&cluster, &format!("osd getcrushmap -o {}", file("crush")));
    tool("crushtool", &["-d", &file("crush"), "-o", &file("crush.txt")]);
    let text = std::fs::read_to_string(file("crush.txt")).expect("was written");
    assert!(text.contains("rack r1 {"), "{text}");
    std::fs::write(file("crush.txt"), text.replace("r1", "r2")).expect("writes");
    tool("crushtool", &["-c", &file("crush.txt"), "-o", &file("crush2")]);
    ceph(&cluster, &format!("osd setcrushmap -i {}", file("crush2")));
    ceph(&cluster, &format!("osd getcrushmap -o {}", file("crush3")));
    let read = |name| std::fs::read(file(name)).expect("was written");
    assert_eq!(read("crush2"), read("crush3"), "what crushtool made comes back as it was");
}

/// An OSD of Ceph that follows the maps and never comes up. It applies each incremental, encodes the result
/// and compares the checksum with the incremental's; if they differ it asks for full maps.
struct CephOsd {
    child: Child,
    log: std::path::PathBuf,
}

impl CephOsd {
    fn start(cluster: &Cluster, id: i32, options: &str) -> Self {
        let dir = cluster.dir().join(format!("ceph-osd.{id}"));
        std::fs::create_dir(&dir).expect("is new");
        let (shown, log, conf) = (dir.display(), dir.join("log"), dir.join("conf"));
        let caps = ["mon", "allow profile osd", "osd", "allow *"];
        let keyring = dir.join("keyring").to_string_lossy().into_owned();
        let name = format!("osd.{id}");
        let line = [&["auth", "get-or-create", &name], &caps[..], &["-o", &keyring]].concat();
        cluster.client("ceph", &line).ok();
        let common = std::fs::read_to_string(cluster.conf()).expect("the cluster's");
        let own = format!(
            "[osd.{id}]\nosd_objectstore = memstore\nosd_data = {shown}\nkeyring = {keyring}\nlog_file = {}\n\
             debug_osd = 10\nrun_dir = {shown}\nadmin_socket = {shown}/asok\n{options}\n",
            log.display()
        );
        std::fs::write(&conf, common + &own).expect("writes");
        let osd = || {
            let mut command = Command::new("ceph-osd");
            command.arg("-c").arg(&conf).args(["-i", &id.to_string()]);
            command
        };
        run(osd().args(["--mkfs", "--osd-uuid", "00000000-0000-4000-8000-000000000003"])).ok();
        let quiet = || Stdio::null();
        let child = osd().arg("-f").stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn().expect("starts");
        Self { child, log }
    }

    /// Waits until it has an epoch. Returns its log.
    fn log_when_at(&self, epoch: u64) -> String {
        let began = Instant::now();
        loop {
            let log = std::fs::read(&self.log).unwrap_or_default();
            let log = String::from_utf8_lossy(&log).into_owned();
            let at = |kind: &str| log.contains(&format!("got {kind} map for epoch {epoch}\n"));
            if at("inc") || at("full") {
                return log;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "it never got epoch {epoch}: {log}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for CephOsd {
    fn drop(&mut self) {
        // It may have ended by itself; its log is checked all the same.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const CHANGES: &str = "osd pool create a 16; osd pool create b 8; osd pool set a size 2; osd pool set-quota b max_objects 1000;
    osd pool application enable a rbd; osd pool rename b c; osd set noout; osd unset noout; osd set pause; osd unset pause;
    osd reweight 0 0.5; osd reweight 0 1; osd primary-affinity 1 0.3; osd out 2; osd in 2; osd crush reweight osd.1 2.5;
    osd crush add-bucket r1 rack; osd crush move r1 root=default; osd crush rule create-replicated rr default osd ssd;
    osd pool set a crush_rule rr; osd crush rm-device-class osd.1; osd crush set-device-class hdd osd.1;
    osd crush tunables jewel; osd crush tunables optimal; osd blocklist add 10.1.2.3:0/77 600; osd blocklist rm 10.1.2.3:0/77;
    osd pg-upmap-items 1.0 0 1; osd rm-pg-upmap-items 1.0; osd pg-temp 1.2 2 1 0; osd primary-temp 1.3 2;
    osd set-nearfull-ratio 0.8; osd set-require-min-compat-client luminous; osd down 1; osd set-group noin osd.3;
    osd unset-group noin osd.3; osd erasure-code-profile set ec k=2 m=1; osd erasure-code-profile rm ec;
    osd pool mksnap c s1; osd pool rmsnap c s1; osd setmaxosd 10";

#[test]
fn an_osd_of_ceph_applies_every_incremental_to_the_byte() {
    if !has("ceph") || !has("ceph-osd") {
        return;
    }
    let cluster = Cluster::start(Options::default());
    ceph(&cluster, "osd create");
    ceph(&cluster, "osd create");
    ceph(&cluster, "osd set noup");
    let sound = CephOsd::start(&cluster, 3, "");
    for line in CHANGES.split(';') {
        ceph(&cluster, line);
    }
    let dump: serde_json::Value = serde_json::from_str(&ceph(&cluster, "osd dump -f json")).expect("JSON");
    let epoch = dump["epoch"].as_u64().expect("a number");
    let log = sound.log_when_at(epoch);
    let incs = log.matches(" got inc map for epoch ").count();
    assert!(incs > 40, "{incs} incrementals");
    assert!(!log.contains("request_full_map"), "{}", lines_with(&log, "full_map"));

    // An OSD that finds wrong checksums says so: the search above would find that.
    let wary = CephOsd::start(&cluster, 4, "osd_inject_bad_map_crc_probability = 1");
    let log = wary.log_when_at(epoch);
    assert!(log.contains("request_full_map"), "{}", lines_with(&log, "osd_map"));
}

fn lines_with(log: &str, what: &str) -> String {
    log.lines().filter(|l| l.contains(what)).collect::<Vec<_>>().join("\n")
}
