//! Many connections with a large write in flight on each, or a large read whose answer nobody reads. No
//! daemon may use more memory than its budget or be taken for dead, and no client that reads its answers may
//! be disconnected or delayed.

use crate::cluster::{Cluster, Options};
use client::{Answer, ObjectRequest, Request};
use msgs::{Extent, Op};
use runtime::{EventLoop, Handle, NodeSpec, Notice};
use rustix::process::{Pid, Signal};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use stdx::{Buf, Bufs};

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    /// Clients, each a node with connections of its own.
    pub connections: usize,
    /// Bytes of each one's write or read.
    pub bytes: usize,
    /// Objects that they write or read, over and over.
    pub objects: usize,
    /// After so long without an answer it has failed.
    pub patience: Duration,
}

/// Results of a run.
#[derive(Clone, Debug, Default)]
pub struct Flooded {
    /// Duration.
    pub took: Duration,
    /// Writes that failed, and why.
    pub errors: Vec<String>,
    /// Connections that clients lost, by reason.
    pub lost: BTreeMap<String, u64>,
    /// Changes of the OSD map meanwhile.
    pub epochs: u64,
    /// The most resident memory of each daemon meanwhile, in bytes: by name.
    pub most: BTreeMap<String, u64>,
    /// The same some seconds later.
    pub after: BTreeMap<String, u64>,
    /// Small writes of another client meanwhile, one after another: how many, and the longest.
    pub small: (u64, Duration),
    /// The same of its large reads, if they are measured.
    pub large: (u64, Duration),
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
        let (count, longest) = self.large;
        if count > 0 {
            out += &format!("{count} large reads meanwhile, the longest {:.2} s\n", longest.as_secs_f64());
        }
        for (name, most) in &self.most {
            let after = self.after.get(name).map_or(0.0, mib);
            out += &format!("{name}: at most {:.1} MiB resident, {after:.1} MiB after\n", mib(most));
        }
        out + &self.errors.iter().take(5).map(|e| format!("{e}\n")).collect::<String>()
    }
}

type Client = Handle<Request, client::Reply>;

const POOL: &str = "flood";

/// A cluster that is to be flooded.
struct Rig {
    cluster: Cluster,
    daemons: Vec<(String, i32)>,
    epoch: Option<u64>,
}

impl Rig {
    fn start() -> Self {
        raise_file_limit();
        let cluster = Cluster::start(Options { separate: true, osd_size: "3G", ..Options::default() });
        cluster.client("ceph", &["osd", "pool", "create", POOL, "32"]).ok();
        cluster
            .wait_for("health", |status| status["pgmap"]["pgs_by_state"][0]["state_name"] == "active+clean");
        let daemons = ["mon.a", "mds.a", "osd.0", "osd.1", "osd.2"];
        let daemons = daemons.map(|name| (name.to_owned(), cluster.pid(name))).into();
        let epoch = cluster.status()["osdmap"]["epoch"].as_u64();
        Self { cluster, daemons, epoch }
    }

    /// Looks what memory the daemons have now.
    fn look(&self, out: &mut Flooded) {
        for (name, pid) in &self.daemons {
            let most = out.most.entry(name.clone()).or_default();
            *most = (*most).max(status_of(*pid, "VmRSS:").unwrap_or(0));
        }
    }

    /// Fills in the results that are known at the end.
    fn end(&self, out: &mut Flooded) {
        out.epochs = self.cluster.status()["osdmap"]["epoch"].as_u64().unwrap_or(0) - self.epoch.unwrap_or(0);
        for (name, pid) in &self.daemons {
            // The peak between two samples, if the host knows it.
            let most = status_of(*pid, "VmHWM:").unwrap_or(0);
            out.most.entry(name.clone()).and_modify(|m| *m = most.max(*m));
        }
        std::thread::sleep(Duration::from_secs(5));
        let after =
            self.daemons.iter().map(|(name, pid)| (name.clone(), status_of(*pid, "VmRSS:").unwrap_or(0)));
        out.after = after.collect();
    }
}

/// Starts a cluster, floods it with writes, and looks.
pub fn flood(plan: Flood) -> Result<Flooded, String> {
    let rig = Rig::start();
    let mut out = Flooded::default();
    let conf = rig.cluster.conf();
    let (loops, clients) = connect(&conf, plan)?;
    let small = connect(&conf, Flood { connections: 1, ..plan })?;
    // Sessions with monitors may take two attempts while so many start at once.
    let lost_before = lost_by_all(&clients);
    let began = Instant::now();
    let answers = send(&clients, plan);
    let mut left = clients.len();
    let stop = Arc::new(AtomicBool::new(false));
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
        rig.look(&mut out);
    }
    out.took = began.elapsed();
    stop.store(true, Ordering::Relaxed);
    out.small = beside.join().map_err(|_| "small writes failed".to_owned())?;
    out.lost = lost_by_all(&clients);
    out.lost.retain(|reason, count| {
        *count -= lost_before.get(reason).copied().unwrap_or(0);
        *count > 0
    });
    rig.end(&mut out);
    clients.iter().for_each(Handle::stop);
    drop((small, loops));
    Ok(out)
}

/// Starts a cluster, lets clients of another process (`readers`, which calls [`read_for_ever`]) read, stops
/// that process so that it receives nothing, and measures the memory and the latency of a client that reads
/// too.
pub fn flood_reads(plan: Flood, readers: &Path) -> Result<Flooded, String> {
    let rig = Rig::start();
    let conf = rig.cluster.conf();
    let (loops, clients) = connect(&conf, Flood { connections: 2, ..plan })?;
    for i in 0..plan.objects {
        let data = Bufs::from(Buf::pattern(i as u64, plan.bytes));
        result(clients[0].call(write(object(i), data)))?;
    }
    let child = Child::start(readers, &conf, plan)?;
    child.round()?;
    child.signal(Signal::STOP);
    let mut out = Flooded::default();
    let began = Instant::now();
    let stop = Arc::new(AtomicBool::new(false));
    let beside = write_small(clients[0].clone(), stop.clone());
    for i in 0..2 * plan.objects {
        let asked = Instant::now();
        let (tx, answer) = mpsc::channel();
        clients[1]
            .submit(read(object(i % plan.objects), plan.bytes), move |reply| drop(tx.send(result(reply))));
        loop {
            rig.look(&mut out);
            match answer.recv_timeout(Duration::from_millis(50)) {
                Ok(answer) => break out.errors.extend(answer.err()),
                Err(_) if asked.elapsed() > plan.patience => {
                    return Err(format!("no answer for {:?}\n{}", plan.patience, out.text()));
                }
                Err(_) => {}
            }
        }
        out.large = (out.large.0 + 1, out.large.1.max(asked.elapsed()));
    }
    out.took = began.elapsed();
    stop.store(true, Ordering::Relaxed);
    out.small = beside.join().map_err(|_| "small writes failed".to_owned())?;
    out.lost = lost_by_all(&clients);
    child.forget_rounds();
    child.signal(Signal::CONT);
    // One may have been nearly over when it was stopped.
    child.round()?;
    child.round()?;
    rig.end(&mut out);
    clients.iter().for_each(Handle::stop);
    drop((child, loops));
    Ok(out)
}

/// Clients that each keep a read in flight; prints a line each time that all have got another answer. Ends
/// only by a failure.
pub fn read_for_ever(plan: Flood, conf: &Path) -> Result<(), String> {
    raise_file_limit();
    let (_loops, clients) = connect(conf, plan)?;
    let (tx, answers) = mpsc::channel();
    let ask = |i: usize, turn: usize| {
        let tx = tx.clone();
        let request = read(object((i + turn) % plan.objects), plan.bytes);
        clients[i].submit(request, move |reply| drop(tx.send((i, result(reply)))));
    };
    (0..plan.connections).for_each(|i| ask(i, 0));
    let mut got = vec![0; plan.connections];
    let mut rounds = 0;
    loop {
        let (i, answer) = answers.recv().map_err(|e| e.to_string())?;
        answer?;
        got[i] += 1;
        ask(i, got[i]);
        if got.iter().all(|n| *n > rounds) {
            rounds = got.iter().copied().max().unwrap_or(0);
            println!("{ROUND}");
        }
    }
}

/// The line that [`read_for_ever`] prints.
const ROUND: &str = "round";

/// The process of [`read_for_ever`], killed when it is dropped.
struct Child {
    process: std::process::Child,
    lines: mpsc::Receiver<String>,
    patience: Duration,
}

impl Child {
    fn start(program: &Path, conf: &Path, plan: Flood) -> Result<Self, String> {
        let mut command = Command::new(program);
        let numbers =
            [("--connections", plan.connections), ("--mib", plan.bytes >> 20), ("--objects", plan.objects)];
        command.arg("--read-for-ever").arg(conf);
        for (name, value) in numbers {
            command.arg(name).arg(value.to_string());
        }
        let mut process =
            command.stdout(Stdio::piped()).spawn().map_err(|e| format!("{}: {e}", program.display()))?;
        let out = process.stdout.take().ok_or("no output")?;
        let (tx, lines) = mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| tx.send(line))
        });
        Ok(Self { process, lines, patience: plan.patience })
    }

    /// Waits until all of its clients have got another answer.
    fn round(&self) -> Result<(), String> {
        let line = self.lines.recv_timeout(self.patience).map_err(|e| format!("readers: {e}"))?;
        (line == ROUND).then_some(()).ok_or(line)
    }

    /// Drops the lines printed so far, which are not those that the caller waits for.
    fn forget_rounds(&self) {
        while self.lines.try_recv().is_ok() {}
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).expect("it runs");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Each client has a few sockets.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If the old limit is too low, clients will say so.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Clients on as many loops as there are cores.
fn connect(conf: &Path, plan: Flood) -> Result<(Vec<EventLoop>, Vec<Client>), String> {
    let config = client::Options::new(conf.to_owned()).read().map_err(|e| e.to_string())?;
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

fn object(i: usize) -> String {
    format!("o{i}")
}

fn write(object: String, data: Bufs) -> Request {
    let extent = Extent::new(0, data.len() as u64);
    request(object, Op::WriteFull { extent, data })
}

fn read(object: String, bytes: usize) -> Request {
    request(object, Op::Read(Extent::new(0, bytes as u64)))
}

fn request(object: String, op: Op) -> Request {
    Request::Object(ObjectRequest {
        pool: POOL.into(),
        namespace: Vec::new(),
        name: object.into_bytes(),
        ops: vec![op],
        snap: maps::SnapId::HEAD,
        snapc: Default::default(),
        flags: 0,
    })
}

fn result(reply: Result<client::Reply, runtime::Gone>) -> Result<(), String> {
    match reply {
        Ok(Ok(Answer::Object { result: Ok(_), .. })) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// Sends all of them at once. Returns the channel of the answers.
fn send(clients: &[Client], plan: Flood) -> mpsc::Receiver<Result<(), String>> {
    let (tx, answers) = mpsc::channel();
    let data = Bufs::from(Buf::pattern(1, plan.bytes));
    for (i, client) in clients.iter().enumerate() {
        let tx = tx.clone();
        client.submit(write(object(i % plan.objects), data.clone()), move |reply| {
            // The receiver may have given up.
            let _ = tx.send(result(reply));
        });
    }
    answers
}

/// One small write after another.
fn write_small(client: Client, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<(u64, Duration)> {
    std::thread::spawn(move || {
        let (mut count, mut longest) = (0, Duration::ZERO);
        while !stop.load(Ordering::Relaxed) {
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
