//! Three hosts become a cluster by one command each; any one may die while programs write, a fourth takes the
//! place of one that leaves, disks come and go, and another version is installed.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real sockets and processes"
)]

use e2e::{Administrator, ClientHost, Hosts, Member, Mount, has};
use rustix::process::Signal;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// No write and no read may take longer, whatever dies.
const LONGEST: Duration = Duration::from_secs(60);
/// The files that are written in turn.
const FILES: u64 = 20;

/// A program that writes files, syncs them and reads them back.
struct Writer {
    dir: PathBuf,
    done: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), String>>,
}

fn content(round: u64) -> Vec<u8> {
    format!("{round} ").repeat(2000).into_bytes()
}

fn write_and_read(dir: &Path, round: u64) -> Result<(), String> {
    let path = dir.join(format!("file{}", round % FILES));
    let error = |e: std::io::Error| format!("round {round}: {}: {e}", path.display());
    let began = Instant::now();
    let mut file = File::create(&path).map_err(error)?;
    file.write_all(&content(round)).and_then(|()| file.sync_all()).map_err(error)?;
    let found = std::fs::read(&path).map_err(error)?;
    if found != content(round) {
        return Err(format!("round {round}: {} has other content", path.display()));
    }
    match began.elapsed() {
        took if took > LONGEST => Err(format!("round {round} took {took:?}")),
        _ => Ok(()),
    }
}

impl Writer {
    fn start(dir: &Path) -> Self {
        let (done, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (place, rounds, end) = (dir.to_owned(), done.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                write_and_read(&place, rounds.load(Ordering::Relaxed))?;
                rounds.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        Self { dir: dir.to_owned(), done, stop, thread }
    }

    /// Waits until it has written more, after what has just happened.
    fn goes_on(&self) {
        let (from, began) = (self.done.load(Ordering::Relaxed), Instant::now());
        while self.done.load(Ordering::Relaxed) < from + 2 * FILES {
            assert!(!self.thread.is_finished(), "the writer has ended");
            assert!(began.elapsed() < LONGEST, "nothing is written any more");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// Ends it; all that it wrote is there.
    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("does not panic").unwrap_or_else(|why| panic!("{why}"));
        let rounds = self.done.load(Ordering::Relaxed);
        for round in rounds - FILES..rounds {
            let path = self.dir.join(format!("file{}", round % FILES));
            assert_eq!(std::fs::read(&path).expect("reads"), content(round), "{}", path.display());
        }
    }
}

fn is_possible() -> bool {
    Mount::is_possible() && has("ceph")
}

/// `nacre host ls` as names with states.
fn listed(member: &Member) -> Vec<String> {
    let said = member.nacre_client(&["host", "ls", "--format", "json"]).ok();
    let all: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let text = |v: &serde_json::Value| v.as_str().expect("text").to_owned();
    let one = |host: &serde_json::Value| format!("{} {}", text(&host["hostname"]), text(&host["state"]));
    all.as_array().expect("a list").iter().map(one).collect()
}

/// A cluster of three running hosts, and a mount.
fn three(hosts: &Hosts, dir: &Path) -> ([Member; 3], String, ClientHost) {
    three_of(hosts, dir, |_| {})
}

/// Leaves a report of a crash on a host that can't be filed: what it says is lost.
fn leave_bad_report(member: &Member) {
    let place = member.conf().ancestors().nth(3).expect("a root").join("var/lib/ceph/crash/2026_lost");
    std::fs::create_dir_all(&place).and_then(|()| std::fs::write(place.join("done"), "")).expect("writes");
}

/// The same, with hosts that are made ready before.
fn three_of(hosts: &Hosts, dir: &Path, prepare: impl Fn(&Member)) -> ([Member; 3], String, ClientHost) {
    let mut members = [0, 1, 2].map(|host| Member::new(hosts, host, dir));
    members.iter().for_each(prepare);
    let token = members[0].init();
    members[0].start();
    for member in &mut members[1..] {
        member.join(&token, &[]).ok();
        member.start();
    }
    let client = ClientHost::mount(hosts, &members[0], dir);
    client.wait_until_up(3, 3, false);
    (members, token, client)
}

#[test]
fn any_of_three_hosts_dies_and_programs_go_on() {
    if !is_possible() {
        return;
    }
    let Some(hosts) = Hosts::for_test(3) else { return };
    let dir = tempfile::Builder::new().prefix("nacre-hosts-").tempdir().expect("a directory");
    let (mut members, token, mut client) = three_of(&hosts, dir.path(), leave_bad_report);
    assert_eq!(listed(&members[0]), ["h1 up", "h2 up", "h3 up"]);
    client.wait_for("min_size 2", &["osd", "pool", "ls", "detail"], |pools| {
        let pools = pools.as_array().expect("a list");
        pools.len() == 2 && pools.iter().all(|p| p["size"] == 3 && p["min_size"] == 2)
    });
    let again = members[1].join(&token, &[]);
    assert!(again.code == 1 && again.stderr.contains("belongs to cluster"), "{again:?}");

    let writer = Writer::start(client.point());
    writer.goes_on();
    for victim in 0..3 {
        client.follow(&members[(victim + 1) % 3]);
        members[victim].kill();
        writer.goes_on();
        client.wait_until_up(2, 2, true);
        writer.goes_on();
        members[victim].start();
        client.wait_until_up(3, 3, false);
    }
    let former = members[0].pid("osd.0").expect("it runs");
    members[0].kill_daemon("osd.0");
    client.wait_for("osd.0 again", &["osd", "tree"], |tree| {
        let is_up = |node: &serde_json::Value| node["name"] == "osd.0" && node["status"] == "up";
        members[0].pid("osd.0").is_some_and(|pid| pid != former)
            && tree["nodes"].as_array().is_some_and(|nodes| nodes.iter().any(is_up))
    });
    writer.end();
}

#[test]
fn hosts_and_disks_come_and_go_while_programs_write() {
    if !is_possible() {
        return;
    }
    let Some(hosts) = Hosts::for_test(4) else { return };
    let dir = tempfile::Builder::new().prefix("nacre-hosts-").tempdir().expect("a directory");
    let (mut members, _, client) = three(&hosts, dir.path());
    let writer = Writer::start(client.point());

    let refused = members[2].nacre_here(&["leave", "--yes"]);
    assert!(refused.code == 1 && refused.stderr.contains("2 would be left"), "{refused:?}");
    let refused = members[0].nacre_client(&["drain", "h3", "--yes"]);
    assert!(refused.code == 1 && refused.stderr.contains("2 would be left"), "{refused:?}");

    let token = members[0].nacre_client(&["token", "--valid", "5m"]).ok();
    let mut fourth = Member::new(&hosts, 3, dir.path());
    fourth.join(token.trim(), &["--rack", "r2"]).ok();
    fourth.start();
    client.wait_until_up(4, 3, false);
    members[0].nacre_client(&["drain", "h3", "--yes"]).ok();
    assert_eq!(listed(&members[0])[2], "h3 drained");
    members[2].nacre_here(&["leave", "--yes"]).ok();
    members[2].wait_for_end();
    client.wait_until_up(3, 2, false);
    assert_eq!(listed(&members[0]), ["h1 up", "h2 up", "h4 up"]);
    assert!(!members[2].conf().exists());
    writer.goes_on();

    // A disk that is gone: its OSD must not begin anew on something else.
    let (gone, new) = (members[1].disk("disk"), members[1].disk("new"));
    std::fs::rename(format!("{gone}/block"), format!("{gone}/lost")).expect("renames");
    members[1].kill_daemon("osd.1");
    client.wait_until_up(2, 2, true);
    members[1].nacre_here(&["disk", "replace", "osd.1", &new, "--disk-size", "512M", "--yes"]).ok();
    client.wait_until_up(3, 2, false);
    assert!(!Path::new(&gone).join("block").exists(), "nothing was made in its place");
    writer.goes_on();

    // The host that has left is back as a new one, and another is lost for good.
    let token = members[0].nacre_client(&["token"]).ok();
    members[2].join_with(&members[2].disk("another"), token.trim()).ok();
    members[2].start();
    client.wait_until_up(4, 3, false);
    fourth.kill();
    client.wait_until_up(3, 3, true);
    let began = Instant::now();
    loop {
        let ran = members[0].nacre_client(&["host", "rm", "h4", "--yes"]);
        if ran.code == 0 {
            break;
        }
        assert!(ran.stderr.contains("ran a moment ago") && began.elapsed() < LONGEST, "{ran:?}");
    }
    client.wait_until_up(3, 3, false);
    assert_eq!(listed(&members[0]), ["h1 up", "h2 up", "h3 up"]);
    writer.goes_on();
    writer.end();
}

#[test]
fn tokens_that_do_not_count_are_refused_with_what_to_do() {
    if !has("ceph") {
        return;
    }
    let Some(hosts) = Hosts::for_test(2) else { return };
    let dir = tempfile::Builder::new().prefix("nacre-hosts-").tempdir().expect("a directory");
    let [mut first, second] = [0, 1].map(|host| Member::new(&hosts, host, dir.path()));
    let token = first.init();
    first.start();
    let refuses = |ran: e2e::Ran, words: &str| {
        assert!(ran.code == 1 && ran.stderr.contains(words), "no `{words}`: {ran:?}");
        assert!(!second.conf().exists(), "nothing is left behind");
    };
    refuses(second.join(&token[..token.len() - 4], &[]), "copy the whole line");
    refuses(second.join_as("h1", &token, &[]), "give another name with --hostname");
    let short = first.nacre_client(&["token", "--valid", "1s"]).ok();
    let began = Instant::now();
    loop {
        let ran = second.join_as("h1", short.trim(), &[]);
        if ran.stderr.contains("the token has expired") {
            break;
        }
        assert!(began.elapsed() < LONGEST, "it does not expire: {ran:?}");
    }
    let storage_only = first.nacre_client(&["token", "--storage-only"]).ok();
    refuses(second.join(storage_only.trim(), &["--mon"]), "leave --mon out");
    second.join(storage_only.trim(), &[]).ok();
    let keys = std::fs::read_dir(second.conf().parent().expect("a directory")).expect("lists").count();
    assert_eq!(keys, 1, "the configuration file and no key");
}

#[test]
fn a_daemon_that_crashes_is_told_until_somebody_has_looked_at_it() {
    if !has("ceph") {
        return;
    }
    let Some(hosts) = Hosts::for_test(1) else { return };
    let dir = tempfile::Builder::new().prefix("nacre-hosts-").tempdir().expect("a directory");
    let mut host = Member::new(&hosts, 0, dir.path());
    host.init();
    host.start();
    host.sees_no("OSD_DOWN");
    // As `abort` and every panic of a release do.
    host.signal_daemon("osd.0", Signal::ABORT);
    let seen = host.sees("RECENT_CRASH");
    assert!(seen.contains("osd.0 crashed on host h1 at "), "{seen}");
    let listed = host.client("ceph", &["crash", "ls-new", "-f", "json"]).ok();
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    let [report] = &listed.as_array().expect("a list")[..] else { panic!("{listed:#}") };
    let id = report["crash_id"].as_str().expect("an id");
    let info = host.follows("RECENT_CRASH", "ceph crash info ID", &[("ID", id)]);
    assert!(info.contains("SIGABRT"), "{info}");
    host.follows("RECENT_CRASH", "ceph crash archive-all", &[]);
    host.sees_no("RECENT_CRASH");
    host.sees_no("OSD_DOWN");
}

/// A former version, which can't do the highest feature level.
const OLDER: &str = "0.0.9 1 3";
const UPGRADE: [&str; 4] = ["upgrade", "--yes", "--timeout", "60"];

/// Installs a version on a host and replaces its daemons.
fn replace(member: &Member, build: Option<&str>) {
    member.install(build);
    member.nacre_here(&UPGRADE).ok();
}

/// Waits until the configuration files of all hosts name all monitors: `nacre run` sees to it.
fn wait_for_monitors(members: &[Member], hosts: &Hosts) {
    let began = Instant::now();
    let last = hosts.addr(members.len() as u32 - 1).to_string();
    let names = |member: &Member| std::fs::read_to_string(member.conf()).is_ok_and(|c| c.contains(&last));
    while !members.iter().all(names) {
        assert!(began.elapsed() < LONGEST, "a host does not know all monitors");
        std::thread::park_timeout(Duration::from_millis(100));
    }
}

/// The upgrade of a host is cut short once it has begun, one of its daemons crashes, and it goes on.
fn replace_in_two(member: &Member, osd: &str, other: &Member, client: &ClientHost) {
    member.install(None);
    let mut cut = member.begin(&UPGRADE);
    let is_set = |dump: &serde_json::Value| dump["flags_set"].to_string().contains("noout");
    client.wait_for("noout", &["osd", "dump"], is_set);
    cut.kill().expect("it runs");
    cut.wait().expect("it was killed");
    other.install(None);
    let refused = other.nacre_here(&["upgrade", "--yes"]);
    assert!(refused.code == 1 && refused.stderr.contains("is being upgraded"), "{refused:?}");
    member.kill_daemon(osd);
    member.nacre_here(&UPGRADE).ok();
    client.wait_for("no noout", &["osd", "dump"], |dump| !is_set(dump));
}

#[test]
fn an_upgrade_goes_from_host_to_host_and_back_while_programs_write() {
    if !is_possible() {
        return;
    }
    let Some(hosts) = Hosts::for_test(3) else { return };
    let dir = tempfile::Builder::new().prefix("nacre-hosts-").tempdir().expect("a directory");
    let (members, _, client) = three_of(&hosts, dir.path(), |member| member.install(Some(OLDER)));
    wait_for_monitors(&members, &hosts);
    let writer = Writer::start(client.point());
    let raised = |code: &str| client.ceph(&["health"])["checks"][code].is_object();

    members[0].install(None);
    let plan = members[0].nacre_here(&["upgrade", "--dry-run", "--format", "json"]).ok();
    let plan: serde_json::Value = serde_json::from_str(&plan).expect("JSON");
    let names: Vec<&str> =
        plan["daemons"].as_array().expect("a list").iter().filter_map(|d| d["name"].as_str()).collect();
    assert_eq!(names, ["mon.h1", "mds.h1", "osd.0"]);
    let former = ["mon.h1", "mds.h1", "osd.0"].map(|name| members[0].pid(name));
    replace(&members[0], None);
    let now = ["mon.h1", "mds.h1", "osd.0"].map(|name| members[0].pid(name));
    assert!(former.iter().zip(&now).all(|(former, now)| former != now), "{former:?} {now:?}");
    assert!(raised("DAEMON_OLD_VERSION") && !raised("OSDMAP_FLAGS"));
    let refused = members[0].nacre_client(&["finalize", "--yes"]);
    assert!(refused.code == 1 && refused.stderr.contains("osd.1 (level 3)"), "{refused:?}");
    writer.goes_on();
    replace_in_two(&members[1], "osd.1", &members[2], &client);
    writer.goes_on();
    for build in [None, Some(OLDER), None] {
        replace(&members[2], build);
        writer.goes_on();
    }
    client.wait_for("the end", &["health"], |health| health["checks"]["OSD_UPGRADE_FINISHED"].is_object());
    assert!(!raised("DAEMON_OLD_VERSION"));
    members[0].nacre_client(&["finalize", "--yes"]).ok();
    client.wait_for("its end", &["health"], |health| health["checks"]["OSD_UPGRADE_FINISHED"].is_null());
    assert!(!raised("OSDMAP_FLAGS"), "what the upgrade set is taken back");

    members[2].install(Some(OLDER));
    let refused = members[2].nacre_here(&UPGRADE);
    assert!(refused.code == 1 && refused.stderr.contains("can do 3 at most"), "{refused:?}");
    members[2].kill_daemon("osd.2");
    let began = Instant::now();
    while !members[2].said().contains("the store of osd.2 was used at feature level") {
        assert!(began.elapsed() < LONGEST, "{}", members[2].said());
        std::thread::park_timeout(Duration::from_millis(100));
    }
    writer.goes_on();
    members[2].install(None);
    client.wait_until_up(3, 3, false);
    writer.end();
}
