//! The dashboard and the metrics of a real cluster, over sockets.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests with real sockets and processes"
)]

use e2e::{Browser, Cluster, Mount, Options, has};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// An answer: status, head, body.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

/// A port of 127.0.0.1.
#[derive(Clone, Copy)]
struct Port(u16);

impl Port {
    fn free() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        Self(listener.local_addr().expect("an address").port())
    }

    fn connect(self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.0))?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(stream)
    }

    fn send(self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> std::io::Result<Answer> {
        let mut stream = self.connect()?;
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nContent-Length: {}\r\n",
            self.0,
            body.len()
        );
        headers.iter().for_each(|(name, value)| request += &format!("{name}: {value}\r\n"));
        stream.write_all(format!("{request}\r\n{body}").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Ok(Answer { status, head: head.to_owned(), body: body.to_owned() })
    }

    fn get(self, path: &str, cookie: &str) -> Answer {
        self.send("GET", path, &[("Cookie", cookie)], "").expect("an answer")
    }

    fn post(self, path: &str, cookie: &str, body: &Value) -> Answer {
        let origin = format!("http://127.0.0.1:{}", self.0);
        let headers = [
            ("Content-Type", "application/json"),
            ("X-Nacre-Request", "1"),
            ("Cookie", cookie),
            ("Origin", &origin),
        ];
        self.send("POST", path, &headers, &body.to_string()).expect("an answer")
    }

    /// Waits for an answer that satisfies `wanted`.
    fn wait(self, path: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
        let began = Instant::now();
        loop {
            if let Some(answer) = self.send("GET", path, &[], "").ok().filter(&wanted) {
                return answer;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "no {path} at port {}", self.0);
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Starts a cluster that serves a module at a port.
fn cluster_with(module: &str, options: Options) -> (Cluster, Port) {
    let (cluster, port) = (Cluster::start(options), Port::free());
    let option = format!("mgr/{module}/server_port");
    cluster.client("ceph", &["config", "set", "mgr", &option, &port.0.to_string()]).ok();
    cluster.client("ceph", &["mgr", "module", "enable", module]).ok();
    (cluster, port)
}

fn ask(cluster: &Cluster, command: &[&str]) -> Value {
    let output = cluster.client("ceph", &[command, &["-f", "json"]].concat()).ok();
    serde_json::from_str(&output).expect("JSON")
}

/// The secrets of a cluster: the keys in all its keyrings.
fn secrets(dir: &std::path::Path) -> Vec<String> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            out.extend(secrets(&path));
        } else if path.to_string_lossy().ends_with("keyring") {
            let text = std::fs::read_to_string(&path).expect("a keyring");
            let keys = text.lines().filter_map(|line| line.trim().strip_prefix("key = ").map(str::to_owned));
            out.extend(keys);
        }
    }
    out
}

fn check_secrets(secrets: &[String], where_: &str, text: &str) {
    assert!(!secrets.is_empty());
    for secret in secrets {
        assert!(!text.contains(secret.as_str()), "{where_} shows a key");
    }
    assert!(!text.contains("pbkdf2") && !text.contains("correct horse"), "{where_} shows a password");
}

fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.map(|line| line.rsplit_once(' ').expect("name and value"));
    pairs.map(|(name, value)| (name.to_owned(), value.parse().expect("a number"))).collect()
}

#[test]
fn metrics_are_what_ceph_says_and_come_once() {
    if !has("ceph") || !has("rados") {
        return;
    }
    let (cluster, port) =
        cluster_with("prometheus", Options { mons: 3, separate: true, ..Options::default() });
    cluster.client("ceph", &["osd", "pool", "create", "p", "8"]).ok();
    let file = cluster.dir().join("in");
    std::fs::write(&file, vec![7; 1_000_000]).expect("writes");
    cluster.client("rados", &["-p", "p", "put", "o", &file.to_string_lossy()]).ok();
    let pools = ask(&cluster, &["osd", "pool", "ls", "detail"]);
    let pool = pools.as_array().and_then(|all| all.iter().find(|pool| pool["pool_name"] == "p"));
    let id = pool.expect("the pool")["pool_id"].clone();
    let stored = format!("ceph_pool_stored{{pool_id=\"{id}\"}}");
    let text =
        port.wait("/metrics", |a| samples(&a.body).get(&stored).is_some_and(|bytes| *bytes >= 1e6)).body;
    let all = samples(&text);
    let (df, status) = (ask(&cluster, &["df"]), cluster.status());
    let sum =
        |name: &str| all.iter().filter(|(n, _)| n.starts_with(name)).map(|(_, value)| value).sum::<f64>();
    assert_eq!(Some(all["ceph_cluster_total_bytes"]), df["stats"]["total_bytes"].as_f64());
    assert_eq!(Some(sum("ceph_osd_up{")), status["osdmap"]["num_up_osds"].as_f64());
    assert_eq!(Some(sum("ceph_pg_total{")), status["pgmap"]["num_pgs"].as_f64());
    assert_eq!(sum("ceph_mon_quorum_status{"), 3.0);
    assert_eq!(all[&format!("ceph_pool_objects{{pool_id=\"{id}\"}}")], 1.0);
    assert_eq!(all["ceph_osd_flag_noout"], 0.0);
    cluster.client("ceph", &["osd", "set", "noout"]).ok();
    let warned = port.wait("/metrics", |a| samples(&a.body).get("ceph_osd_flag_noout") == Some(&1.0)).body;
    let detail = "ceph_health_detail{name=\"OSDMAP_FLAGS\",severity=\"HEALTH_WARN\"}";
    assert_eq!((samples(&warned)[detail], samples(&warned)["ceph_health_status"]), (1.0, 1.0));
    check_secrets(&secrets(cluster.dir()), "/metrics", &text);
    // Another monitor leads: it serves at the same address.
    let leader = ask(&cluster, &["quorum_status"])["quorum_leader_name"].as_str().expect("a name").to_owned();
    cluster.stop_daemon(&format!("mon.{leader}"));
    port.wait("/metrics", |a| {
        a.body.contains(&format!("ceph_mon_quorum_status{{ceph_daemon=\"mon.{leader}\"}} 0"))
    });
    cluster.check_logs().expect("no errors");
}

#[test]
fn the_dashboard_lets_nobody_in_who_may_not() {
    if !has("ceph") {
        return;
    }
    let (cluster, port) = cluster_with("dashboard", Options { separate: true, ..Options::default() });
    let first = port.wait("/", |a| a.status == 503);
    assert!(first.body.contains("ceph dashboard ac-user-create"), "{}", first.body);
    make_user(&cluster, "kim", "administrator");
    let file = cluster.dir().join("password").to_string_lossy().into_owned();
    port.wait("/", |a| a.status == 200);
    let log_in =
        |password: &str| port.post("/api/auth", "", &json!({ "username": "kim", "password": password }));
    assert_eq!(log_in("wrong").status, 401);
    let cookie = log_in("correct horse").head;
    let cookie = cookie.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().expect("its value");
    assert_eq!(port.get("/api/summary", "").status, 401);
    assert_eq!(port.get("/api/summary", &format!("{cookie}A")).status, 401, "a forged one");
    let secrets = secrets(cluster.dir());
    for path in
        ["summary", "health", "hosts", "osds", "pools", "pgs", "filesystems", "monitors", "log", "actions"]
    {
        let answer = port.get(&format!("/api/{path}"), cookie);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        assert!(serde_json::from_str::<Value>(&answer.body).is_ok(), "{path}");
        check_secrets(&secrets, path, &answer.body);
    }
    let act = json!({ "name": "flag-set", "args": { "flag": "noout" }, "command": "ceph osd set noout" });
    let json = ("Content-Type", "application/json");
    let send = |headers: &[(&str, &str)]| {
        let headers = [&[json, ("Cookie", cookie)], headers].concat();
        port.send("POST", "/api/actions", &headers, &act.to_string()).expect("an answer").status
    };
    assert_eq!(send(&[]), 403, "no header");
    assert_eq!(send(&[("X-Nacre-Request", "1"), ("Origin", "http://evil.example")]), 403, "another origin");
    assert!(!ask(&cluster, &["osd", "dump"])["flags"].to_string().contains("noout"));
    let done = port.post("/api/actions", cookie, &act);
    assert_eq!(done.status, 200, "{}", done.body);
    assert!(ask(&cluster, &["osd", "dump"])["flags"].to_string().contains("noout"));
    let log = cluster.client("ceph", &["log", "last", "50"]).ok();
    assert!(log.contains("dashboard: kim runs `ceph osd set noout`"), "{log}");
    cluster.client("ceph", &["dashboard", "ac-user-set-password", "kim", "-i", &file]).ok();
    port.wait("/", |_| port.get("/api/summary", cookie).status == 401);
    check_secrets(&secrets, "the cluster log", &log);
    for entry in std::fs::read_dir(cluster.dir().join("log")).expect("logs").flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        check_secrets(&secrets, &entry.file_name().to_string_lossy(), &text);
    }
    cluster.check_logs().expect("no errors");
}

#[test]
fn a_crowd_at_the_dashboard_does_not_stop_the_monitor() {
    if !has("ceph") {
        return;
    }
    let (cluster, port) = cluster_with("dashboard", Options::default());
    port.wait("/", |a| a.status == 503);
    // Some say nothing, some too much, some nonsense.
    let crowd: Vec<TcpStream> = (0..400).filter_map(|_| port.connect().ok()).collect();
    for (n, mut stream) in crowd.iter().enumerate() {
        let said = match n % 3 {
            0 => "GET / HTTP/1.1\r\nX: ".to_owned() + &"y".repeat(100_000),
            1 => "\u{0}\u{1}nonsense\r\n\r\n".to_owned(),
            _ => String::new(),
        };
        // Those that are too many are closed already.
        let _ = stream.write_all(said.as_bytes());
    }
    cluster.client("ceph", &["osd", "pool", "create", "p", "8"]).ok();
    assert_eq!(cluster.status()["osdmap"]["num_up_osds"], 3);
    drop(crowd);
    port.wait("/", |a| a.status == 503);
    cluster.client("ceph", &["mgr", "module", "disable", "dashboard"]).ok();
    let began = Instant::now();
    while port.connect().is_ok() {
        assert!(began.elapsed() < Duration::from_secs(30), "the port stays open");
    }
}

/// Makes a user whose password is `correct horse`.
fn make_user(cluster: &Cluster, name: &str, role: &str) {
    let file = cluster.dir().join("password");
    std::fs::write(&file, "correct horse\n").expect("writes");
    let file = file.to_string_lossy().into_owned();
    cluster.client("ceph", &["dashboard", "ac-user-create", name, role, "-i", &file]).ok();
}

/// Fills in the log-in form.
fn log_in(browser: &mut Browser, name: &str, password: &str) {
    browser.wait("document.querySelector('form')");
    let fill = format!(
        "(() => {{ const [name, password] = document.querySelectorAll('form input'); name.value = '{name}'; \
         password.value = '{password}'; document.querySelector('form button').click(); }})()"
    );
    browser.eval(&fill);
}

/// Each page, and what it shows of a healthy cluster.
const PAGES: [(&str, &str); 9] = [
    ("overview", "3 of 3 OSDs up"),
    ("health", "Nothing is wrong"),
    ("hosts", "3 of 3"),
    ("osds", "up, in"),
    ("pools", "cephfs_data"),
    ("filesystems", "up:active"),
    ("monitors", "leads"),
    ("flags", "noout"),
    ("log", "mon.a"),
];

#[test]
fn the_page_works_in_a_browser() {
    if !has("ceph") {
        return;
    }
    let Some(mut browser) = Browser::start() else { return };
    let (cluster, port) = cluster_with("dashboard", Options::default());
    make_user(&cluster, "kim", "administrator");
    make_user(&cluster, "jo", "read-only");
    cluster.wait_for("health", |status| status["health"]["status"] == "HEALTH_OK");
    port.wait("/", |a| a.status == 200);
    browser.open(&format!("http://127.0.0.1:{}/", port.0));
    log_in(&mut browser, "kim", "wrong");
    browser.wait("document.querySelector('form .err').textContent.includes('wrong name or password')");
    // That answer is the only one that a browser calls an error, and that nobody has logged in yet.
    browser.errors.retain(|error| !error.contains("401"));
    log_in(&mut browser, "kim", "correct horse");
    browser.wait("!document.getElementById('nav').hidden");
    for (page, shown) in PAGES {
        browser.eval(&format!("location.hash = '#{page}'"));
        browser.wait(&format!("document.getElementById('main').innerText.includes('{shown}')"));
        for width in [360, 1280] {
            browser.resize(width, 800);
            let wide = browser.eval("document.documentElement.scrollWidth - innerWidth");
            assert!(wide.as_i64() <= Some(0), "{page} is wider than {width} pixels by {wide}");
        }
    }
    // An action: what it does is shown, then it is done, and the page shows it.
    browser.eval("location.hash = '#flags'");
    browser.wait("document.querySelectorAll('main button').length === 9");
    browser.eval("document.querySelector('main button').click()");
    browser.wait("document.querySelector('dialog[open] pre')?.innerText === 'ceph osd set noout'");
    assert!(!ask(&cluster, &["osd", "dump"])["flags"].to_string().contains("noout"));
    browser.eval("document.querySelector('dialog button.main').click()");
    browser.wait("document.querySelector('dialog').innerText.includes('Done')");
    assert!(ask(&cluster, &["osd", "dump"])["flags"].to_string().contains("noout"));
    browser.eval("document.querySelector('dialog button').click(); location.hash = '#health'");
    browser.wait("document.getElementById('main').innerText.includes('OSDMAP_FLAGS')");
    browser.wait("document.getElementById('status').textContent === 'HEALTH_WARN'");
    browser.eval("[...document.querySelectorAll('header button')].at(-1).click()");
    log_in(&mut browser, "jo", "correct horse");
    browser.wait("document.getElementById('main').innerText.includes('OSDMAP_FLAGS')");
    assert_eq!(
        browser.eval("document.querySelectorAll('main button').length"),
        0,
        "read-only has no actions"
    );
    assert_eq!(browser.errors, Vec::<String>::new());
}

/// Shows a page, and waits until it shows `wanted`, which is JavaScript.
fn show(browser: &mut Browser, page: &str, wanted: &str) {
    let began = Instant::now();
    // Another page and back is an update at once. Browsers ignore who goes back and forth very often.
    while !browser.becomes_true(wanted, Duration::from_secs(1)) {
        assert!(began.elapsed() < Duration::from_secs(60), "{page} never shows {wanted}");
        for page in ["flags", page] {
            browser.eval(&format!("location.hash = '#{page}'"));
            let title = format!("document.querySelector('#nav [aria-current]')?.hash === '#{page}'");
            browser.wait(&format!("{title} && document.querySelectorAll('main td, main .card').length > 0"));
        }
    }
}

#[test]
fn clients_directories_and_the_cost_of_hosts_are_shown_and_clients_evicted() {
    if !has("ceph") || !Mount::is_possible() {
        return;
    }
    let Some(mut browser) = Browser::start() else { return };
    let (cluster, port) = cluster_with("dashboard", Options::default());
    make_user(&cluster, "kim", "administrator");
    make_user(&cluster, "jo", "read-only");
    port.wait("/", |a| a.status == 200);
    browser.open(&format!("http://127.0.0.1:{}/", port.0));
    log_in(&mut browser, "jo", "correct horse");
    // What hosts do is told by two readings.
    browser.wait("document.getElementById('main').innerText.includes('3 of 3 OSDs up')");
    let mount = Mount::new(&cluster, "m");
    let dir = mount.point().join("large");
    std::fs::create_dir(&dir).expect("a directory");
    for name in 0..40 {
        std::fs::write(dir.join(name.to_string()), vec![7; 256 << 10]).expect("writes");
    }
    let opened = std::fs::File::open(&dir).and_then(|dir| dir.sync_all());
    opened.expect("it is saved");
    let shows = |text: &str| format!("document.getElementById('main').innerText.includes('{text}')");
    show(&mut browser, "hosts", &shows("For each byte that clients wrote"));
    assert_eq!(browser.eval("document.querySelectorAll('main svg.chart').length"), 5);
    let server = cluster.active_mds().expect("a server");
    let id = cluster.clients_at("m")[0];
    let rows = "[...document.querySelectorAll('.fs tr')]";
    let row = format!("{rows}.find((row) => row.innerText.includes('{id}'))");
    show(&mut browser, "filesystems", &format!("{row}?.innerText.includes('nacre 0')"));
    show(&mut browser, "filesystems", &format!("{} && {}", shows("/large"), shows("10.0 MiB")));
    let words = browser.eval(&format!("{row}.innerText"));
    let words = words.as_str().expect("text");
    assert!(words.contains("client.admin") && words.contains("at /") && words.contains("open"), "{words}");
    assert_eq!(browser.eval("document.querySelectorAll('main td button').length"), 0, "jo may look");
    for (page, width) in [("filesystems", 360), ("hosts", 360), ("hosts", 1280), ("filesystems", 1280)] {
        browser.eval(&format!("location.hash = '#{page}'"));
        browser.resize(width, 800);
        let wide = browser.eval("document.documentElement.scrollWidth - innerWidth");
        assert!(wide.as_i64() <= Some(0), "{page} is wider than {width} pixels by {wide}");
    }
    browser.eval("[...document.querySelectorAll('header button')].at(-1).click()");
    log_in(&mut browser, "kim", "correct horse");
    browser.wait(&format!("{row}?.querySelector('button')"));
    browser.eval(&format!("{row}.querySelector('button').click()"));
    let command = format!("ceph tell {server} client evict id={id}");
    browser.wait(&format!("document.querySelector('dialog[open] pre')?.innerText === '{command}'"));
    browser.eval("document.querySelector('dialog button.main').click()");
    browser.wait("document.querySelector('dialog').innerText.includes('Done')");
    browser.eval("document.querySelector('dialog button').click()");
    show(&mut browser, "filesystems", &format!("!{row} && document.querySelector('.fs')"));
    // That nobody has logged in yet, or any more, is the only answer that a browser calls an error.
    browser.errors.retain(|error| !error.contains("401"));
    assert_eq!(browser.errors, Vec::<String>::new());
}
