//! Many connections with a large write in flight on each, and what the daemons make of them: none may use more memory than its budget,
//! nobody may be disconnected, and no daemon be taken for dead.

use crate::cluster::{Cluster, Options};
use client::{Answer, ObjectRequest, Request};
use msgs::{Extent, Op};
use runtime::{EventLoop, Handle, NodeSpec, Notice};
use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use stdx::{Buf, Bufs};

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    /// Clients, each a node with connections of its own.
    pub connections: usize,
    /// Bytes of each one's write.
    pub bytes: usize,
    /// Objects that they write, over and over.
    pub objects: usize,
    /// After so long without an answer it has failed.
    pub patience: Duration,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Flooded {
    /// How long it took.
    pub took: Duration,
    /// Writes that failed, and why.
    pub errors: Vec<String>,
    /// Connections that clients lost, by reason.
    pub lost: BTreeMap<String, u64>,
    /// Changes of the OSD map meanwhile.
    pub epochs: u64,
    /// The most resident memory of each daemon meanwhile, in bytes: by name.
    pub most: BTreeMap<String, u64>,
    /// The same some seconds after.
    pub after: BTreeMap<String, u64>,
    /// Small writes of another client meanwhile, one after another: how many, and the longest.
    pub small: (u64, Duration),
}

impl Flooded {
    /// For people.
    pub fn text(&self) -> String {
        let mib = |bytes: &u64| *bytes as f64 / f64::from(1 << 20);
        let mut out = format!(
            "{:.1} s, {} errors, connections lost: {:?}, {} changes of the OSD map\n",
            self.took.as_secs_f64(),
            self.errors.len(),
            self.lost,
            self.epochs
        );
        let (count, longest) = self.small;
        out += &format!("{count} small writes meanwhile, the longest {:.2} s\n", longest.as_secs_f64());
        for (name, most) in &self.most {
            let after = self.after.get(name).map_or(0.0, mib);
            out += &format!("{name}: at most {:.1} MiB resident, {after:.1} MiB after\n", mib(most));
        }
        out + &self.errors.iter().take(5).map(|e| format!("{e}\n")).collect::<String>()
    }
}

type Client = Handle<Request, client::Reply>;

const POOL: &str = "flood";

/// Starts a cluster, floods it, and looks.
pub fn flood(plan: Flood) -> Result<Flooded, String> {
    raise_file_limit();
    let cluster = Cluster::start(Options { separate: true, osd_size: "3G", ..Options::default() });
    cluster.client("ceph", &["osd", "pool", "create", POOL, "32"]).ok();
    cluster.wait_for("health", |status| status["pgmap"]["pgs_by_state"][0]["state_name"] == "active+clean");
    let daemons: Vec<(String, i32)> =
        ["mon.a", "mds.a", "osd.0", "osd.1", "osd.2"].map(|name| (name.to_owned(), cluster.pid(name))).into();
    let before = cluster.status()["osdmap"]["epoch"].as_u64();
    let mut out = Flooded::default();
    let (loops, clients) = connect(&cluster, plan)?;
    let small = connect(&cluster, Flood { connections: 1, ..plan })?;
    // Sessions with monitors may be tried twice while so many begin at once.
    let lost_before = lost_by_all(&clients);
    let began = Instant::now();
    let answers = send(&clients, plan);
    let mut left = clients.len();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let beside = write_small(small.1[0].clone(), stop.clone());
    let mut heard = Instant::now();
    while left > 0 {
        match answers.recv_timeout(Duration::from_millis(50)) {
            Ok(answer) => {
                left -= 1;
                heard = Instant::now();
                out.errors.extend(answer.err());
            }
            Err(_) if heard.elapsed() > plan.patience => {
                return Err(format!("no answer for {:?}, {left} are missing\n{}", plan.patience, out.text()));
            }
            Err(_) => {}
        }
        for (name, pid) in &daemons {
            let most = out.most.entry(name.clone()).or_default();
            *most = (*most).max(status_of(*pid, "VmRSS:").unwrap_or(0));
        }
    }
    out.took = began.elapsed();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    out.small = beside.join().map_err(|_| "small writes failed".to_owned())?;
    out.lost = lost_by_all(&clients);
    out.lost.retain(|reason, count| {
        *count -= lost_before.get(reason).copied().unwrap_or(0);
        *count > 0
    });
    out.epochs = cluster.status()["osdmap"]["epoch"].as_u64().unwrap_or(0) - before.unwrap_or(0);
    for (name, pid) in &daemons {
        // What it was between two looks, where the host knows.
        let most = status_of(*pid, "VmHWM:").unwrap_or(0);
        out.most.entry(name.clone()).and_modify(|m| *m = most.max(*m));
    }
    std::thread::sleep(Duration::from_secs(5));
    out.after =
        daemons.iter().map(|(name, pid)| (name.clone(), status_of(*pid, "VmRSS:").unwrap_or(0))).collect();
    clients.iter().for_each(Handle::stop);
    drop((small, loops));
    Ok(out)
}

/// Each client has a few sockets.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where the old limit is not enough, clients will say so.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Clients on as many loops as there are cores.
fn connect(cluster: &Cluster, plan: Flood) -> Result<(Vec<EventLoop>, Vec<Client>), String> {
    let config = client::Options::new(cluster.conf()).read().map_err(|e| e.to_string())?;
    let loops: Result<Vec<_>, _> = (0..2).map(|i| EventLoop::start(&format!("flood-{i}"))).collect();
    let loops = loops.map_err(|e| e.to_string())?;
    let (tx, notices) = mpsc::channel();
    let spawn = |i: usize| {
        let spec = NodeSpec::client(config.credentials.name.clone());
        let config = config.clone();
        loops[i % 2].spawn(spec, move || fsclient::Client::new(config, runtime::rng()), tx.clone())
    };
    let clients: Vec<Client> = (0..plan.connections).map(spawn).collect();
    for _ in 0..plan.connections {
        match notices.recv_timeout(plan.patience) {
            Ok(Notice::Ready(_)) => {}
            other => return Err(format!("a client does not start: {other:?}")),
        }
    }
    Ok((loops, clients))
}

fn write(object: String, data: Bufs) -> Request {
    let extent = Extent::new(0, data.len() as u64);
    Request::Object(ObjectRequest {
        pool: POOL.into(),
        namespace: Vec::new(),
        name: object.into_bytes(),
        ops: vec![Op::WriteFull { extent, data }],
        snap: maps::SnapId::HEAD,
        snapc: Default::default(),
        flags: 0,
    })
}

fn result(reply: Result<client::Reply, runtime::Gone>) -> Result<(), String> {
    match reply {
        Ok(Ok(Answer::Object { result: 0.., .. })) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// All of them at once; gives where the answers come.
fn send(clients: &[Client], plan: Flood) -> mpsc::Receiver<Result<(), String>> {
    let (tx, answers) = mpsc::channel();
    let data = Bufs::from(Buf::pattern(1, plan.bytes));
    for (i, client) in clients.iter().enumerate() {
        let tx = tx.clone();
        client.submit(write(format!("o{}", i % plan.objects), data.clone()), move |reply| {
            // Who counts may have given up.
            let _ = tx.send(result(reply));
        });
    }
    answers
}

/// One small write after another.
fn write_small(
    client: Client,
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
) -> std::thread::JoinHandle<(u64, Duration)> {
    std::thread::spawn(move || {
        let (mut count, mut longest) = (0, Duration::ZERO);
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            let began = Instant::now();
            let data = Bufs::from(Buf::pattern(2, 4096));
            result(client.call(write(format!("small{}", count % 16), data))).expect("a small write");
            longest = longest.max(began.elapsed());
            count += 1;
        }
        (count, longest)
    })
}

/// Connections that clients have lost, by reason.
fn lost_by_all(clients: &[Client]) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    for client in clients {
        let counters: serde_json::Value =
            serde_json::from_str(&client.metrics().to_json()).expect("counters are JSON");
        for (name, count) in counters.as_object().into_iter().flatten() {
            if let (Some(reason), Some(count)) = (name.strip_prefix("closed_"), count.as_u64()) {
                *out.entry(reason.to_owned()).or_default() += count;
            }
        }
    }
    out
}

/// A line of a process's status, in bytes.
fn status_of(pid: i32, field: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
}
