//! Throughput of many metadata servers (the paper's figures 10 and 11): the real roles on machines whose
//! processors, disks and network cards have a speed ([`Processor`], [`crate::Machines`]).
//!
//! Each client makes one request after another ([`Workload`]). All directories begin at the first rank; the
//! balancer spreads them, as it does for everybody. What is counted comes after a time for that.

mod programs;
mod report;
pub mod shifts;
pub mod updates;
pub mod walk;

pub use programs::Workload;
pub use report::Report;

use crate::cluster::{Cluster, Spec};
use crate::faults::Faults;
use crate::host::HostId;
use crate::machines::Machines;
use crate::processors::Processor;
use crate::scaling::PAPER;
use fsclient::{Answer, Caller, ClientOptions, FsRequest, Reply, Request};
use mds::MdsOptions;
use msgs::Body;
use node::{Load, Msg, RequestId};
use programs::{Program, shared_dir, shared_file};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use stdx::{Instant, Rng};

/// The processor of a metadata server: with it a rank alone makes about 2000 directories and files a second,
/// as the paper's did.
pub const SERVER: Processor = Processor {
    message_in: Duration::from_micros(200),
    message_out: Duration::from_micros(100),
    kib_out: Duration::from_micros(4),
    other: Duration::from_micros(20),
};
/// The time that a client's program takes between an answer and the next request.
const THINKS: Duration = Duration::from_micros(100);
/// The same while the balancer spreads the load: what is made then takes memory here and matters to nobody.
const THINKS_AT_FIRST: Duration = Duration::from_millis(500);
/// Weighted requests a second from which the balancer spreads that load.
const BALANCE_LEAST: u64 = 2;
/// The time until a directory that all use is spread.
const AT_FULL_SPEED: Duration = Duration::from_secs(25);
/// Time between the last change in a directory and a flash crowd.
const CALM: Duration = Duration::from_secs(60);
/// Time at full speed before requests count.
const SPEEDS_UP: u64 = 1;
/// Inodes that a client keeps without using them.
const KEPT: usize = 200;
const SECOND: Duration = Duration::from_secs(1);
/// The longest wait for an answer while directories are made before the run.
const PATIENCE: Duration = Duration::from_secs(60);

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct MetadataSpec {
    /// What clients do.
    pub workload: Workload,
    /// Number of ranks.
    pub ranks: u32,
    /// Clients for each rank.
    pub clients_each: u32,
    /// The processor of each server.
    pub processor: Processor,
    /// Time before requests count, almost all of it at a low load.
    pub warm_up: Duration,
    /// Time in which requests count.
    pub counted: Duration,
    /// True if the balancer may have other ranks answer for directories that many read.
    pub replicates: bool,
    /// Seed of the run.
    pub seed: u64,
}

impl MetadataSpec {
    /// So many ranks under a workload.
    pub fn of(workload: Workload, ranks: u32, seed: u64) -> Self {
        let warm_up = match workload {
            // Clients hear of each file that has left, and there are as many more as ranks.
            Workload::MakeFiles => AT_FULL_SPEED + Duration::from_secs(u64::from(ranks / 4)),
            _ if workload.is_in_one_directory() => AT_FULL_SPEED,
            _ => Duration::from_secs(40 + u64::from(ranks)),
        };
        Self {
            workload,
            ranks,
            clients_each: 8,
            processor: SERVER,
            warm_up,
            counted: Duration::from_secs(2),
            replicates: true,
            seed,
        }
    }

    fn balance_least(&self) -> u64 {
        let least = MdsOptions::default().balance_least;
        if self.workload.is_in_one_directory() { least } else { BALANCE_LEAST }
    }

    /// A directory is spread only if it has more to do than one rank should: then the load is high from the
    /// first request on.
    fn thinks_at_first(&self) -> Duration {
        if self.workload.is_in_one_directory() { THINKS } else { THINKS_AT_FIRST }
    }
}

/// What happened in a second of a run, or in all of its counted time.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Requests that each server answered.
    pub answered: BTreeMap<HostId, u64>,
    /// Requests that were sent on to another rank.
    pub forwarded: u64,
    /// Messages between ranks.
    pub between_ranks: u64,
    /// Directories that moved to another rank.
    pub moved: u64,
    /// The time that each server's processor worked.
    pub used: BTreeMap<HostId, Duration>,
    /// Messages to each server, and from it, by kind.
    pub messages: BTreeMap<HostId, BTreeMap<(Direction, &'static str), u64>>,
}

/// The direction of a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Direction {
    /// To the server.
    In,
    /// From it.
    Out,
}

impl Counted {
    /// The messages of the server whose processor worked most, the most frequent first.
    pub fn of_busiest(&self) -> Vec<((Direction, &'static str), u64)> {
        let busiest = self.used.iter().max_by_key(|(_, used)| **used);
        let of = busiest.and_then(|(host, _)| self.messages.get(host));
        let mut messages: Vec<_> = of.into_iter().flatten().map(|(kind, n)| (*kind, *n)).collect();
        messages.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        messages
    }

    /// Requests that were answered.
    pub fn total(&self) -> u64 {
        self.answered.values().sum()
    }

    /// The greatest work of a processor to the mean.
    pub fn unevenness(&self) -> f64 {
        let most = self.used.values().max().copied().unwrap_or_default();
        let all: Duration = self.used.values().sum();
        most.as_secs_f64() * self.used.len() as f64 / all.as_secs_f64().max(1e-9)
    }

    /// The most requests that a server answered, to the mean.
    pub fn unevenness_of_requests(&self) -> f64 {
        let most = self.answered.values().max().copied().unwrap_or_default();
        most as f64 * self.used.len() as f64 / self.total().max(1) as f64
    }
}

/// Results of a run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Parameters of the run.
    pub spec: MetadataSpec,
    /// Requests answered in each second, from the first on.
    pub seconds: Vec<u64>,
    /// The counted time.
    pub counted: Counted,
    /// Times from a client's request to its answer, in order.
    pub latencies: Vec<Duration>,
}

impl Measured {
    /// Requests a second that a rank answered, in the mean.
    pub fn each(&self) -> f64 {
        self.counted.total() as f64 / self.spec.counted.as_secs_f64() / f64::from(self.spec.ranks)
    }

    /// The greatest work of a processor to the mean.
    pub fn unevenness(&self) -> f64 {
        self.counted.unevenness()
    }

    /// The share of the counted time in which processors worked, in the mean.
    pub fn busy(&self) -> f64 {
        let all: Duration = self.counted.used.values().sum();
        all.as_secs_f64() / self.spec.counted.as_secs_f64() / f64::from(self.spec.ranks)
    }

    /// The latency that this percentage of requests did not exceed.
    pub fn latency(&self, percent: usize) -> Duration {
        let at = self.latencies.len().saturating_sub(1) * percent / 100;
        self.latencies.get(at).copied().unwrap_or_default()
    }

    /// The mean latency.
    pub fn mean_latency(&self) -> Duration {
        let sum: Duration = self.latencies.iter().sum();
        sum / u32::try_from(self.latencies.len().max(1)).unwrap_or(u32::MAX)
    }
}

/// Runs the cluster and measures it. `tell` gets what each second had.
pub fn run(spec: &MetadataSpec, tell: &mut dyn FnMut(u64, &Counted)) -> Result<Measured, String> {
    let mut cluster = cluster(spec);
    cluster.bring_up()?;
    make_shared(spec, &mut cluster)?;
    give_speed(&mut cluster, spec.processor);
    let mut load = Clients::new(spec, &mut cluster);
    load.begin(&mut cluster);
    let mut measured = Measured {
        spec: spec.clone(),
        seconds: Vec::new(),
        counted: Counted::default(),
        latencies: Vec::new(),
    };
    let warm_up = spec.warm_up.as_secs();
    for second in 0..warm_up + spec.counted.as_secs() {
        if second + SPEEDS_UP == warm_up {
            load.thinks = THINKS;
        }
        if second == warm_up {
            load.latencies.clear();
        }
        let counted = load.run_second(&mut cluster)?;
        tell(second, &counted);
        measured.seconds.push(counted.total());
        if second >= warm_up {
            measured.counted.add(counted);
        }
    }
    measured.latencies = load.latencies;
    measured.latencies.sort_unstable();
    without_complaints(&cluster)?;
    Ok(measured)
}

/// From now on machines take time for what they do, and metadata servers also on their processors.
fn give_speed(cluster: &mut Cluster, processor: Processor) {
    cluster.world.machines = Some(Machines::new(PAPER));
    for host in cluster.mdss() {
        cluster.world.give_processor(host, processor);
    }
}

/// Fails if a daemon has told of something wrong.
fn without_complaints(cluster: &Cluster) -> Result<(), String> {
    let first = cluster.world.complaints.first();
    let told = first.map(|(name, event)| format!("{name} complains: {}: {}", event.name, event.detail));
    told.map_or(Ok(()), Err)
}

impl Counted {
    fn add(&mut self, other: Self) {
        for (host, n) in other.answered {
            *self.answered.entry(host).or_default() += n;
        }
        for (host, used) in other.used {
            *self.used.entry(host).or_default() += used;
        }
        for (host, messages) in other.messages {
            let here = self.messages.entry(host).or_default();
            messages.into_iter().for_each(|(kind, n)| *here.entry(kind).or_default() += n);
        }
        self.forwarded += other.forwarded;
        self.between_ranks += other.between_ranks;
        self.moved += other.moved;
    }
}

fn cluster(spec: &MetadataSpec) -> Cluster {
    let osds = spec.ranks.max(3);
    let clients = spec.clients_each * spec.ranks;
    let cluster = Spec {
        osds,
        clients,
        client: ClientOptions { asynchronous: false, idle_inodes: KEPT, ..ClientOptions::default() },
        fs: true,
        standbys: spec.ranks - 1,
        ranks: spec.ranks,
        fs_pgs: (osds * 8).next_power_of_two(),
        osd_disk: 1 << 30,
        mds: MdsOptions {
            balance_least: spec.balance_least(),
            replicate_least: if spec.replicates { 0 } else { u64::MAX },
            ..MdsOptions::default()
        },
        options: BTreeMap::from([("mon_max_pg_per_osd".to_owned(), "10000".to_owned())]),
        ..Spec::default()
    };
    Cluster::new(spec.seed, Faults::none(), &cluster)
}

/// Makes what all clients share.
fn make_shared(spec: &MetadataSpec, cluster: &mut Cluster) -> Result<(), String> {
    let client = cluster.clients[0];
    let dir = entry(cluster, client, shared_dir())?;
    let mut made = vec![dir];
    for number in 0..spec.workload.shared_files() {
        made.push(entry(cluster, client, shared_file(dir, number))?);
    }
    made.into_iter().for_each(|ino| forget(cluster, client, ino));
    if spec.workload == Workload::FlashCrowd {
        let begins = cluster.world.now() + CALM;
        while cluster.world.step(begins) {}
    }
    Ok(())
}

/// Waits for the answer to a client's request.
fn ask(cluster: &mut Cluster, client: HostId, request: FsRequest) -> Result<Answer, String> {
    let asked = format!("{request:?}");
    match cluster.ask(client, Request::Fs(Caller::default(), request), PATIENCE) {
        Some(Ok(answer)) => Ok(answer),
        other => Err(format!("{asked}: {other:?}")),
    }
}

/// The inode that a request makes or finds.
fn entry(cluster: &mut Cluster, client: HostId, request: FsRequest) -> Result<u64, String> {
    match ask(cluster, client, request)? {
        Answer::Entry(entry) => Ok(entry.attr.ino),
        other => Err(format!("a name: {other:?}")),
    }
}

fn forget(cluster: &mut Cluster, client: HostId, ino: u64) {
    let request = FsRequest::Forget { ino, count: 1 };
    cluster.world.request(client, Request::Fs(Caller::default(), request));
}

/// The clients, each with its program.
struct Clients {
    programs: BTreeMap<HostId, Program>,
    servers: Vec<HostId>,
    /// What clients ask for next, at these times.
    due: BTreeMap<(Instant, HostId), FsRequest>,
    thinks: Duration,
    /// The means of clients that take another time, each time between half and three halves of it.
    paces: BTreeMap<HostId, Duration>,
    under_way: BTreeMap<RequestId, Instant>,
    latencies: Vec<Duration>,
    counts: Rc<RefCell<Counts>>,
}

/// What is counted of the messages that are sent.
#[derive(Default)]
struct Counts {
    this: Counted,
    /// Requests that were answered early, whose second answer is not counted.
    early: BTreeSet<(HostId, u64)>,
}

impl Counts {
    fn see(&mut self, servers: &BTreeSet<HostId>, from: HostId, to: HostId, msg: &Msg) {
        match &msg.body {
            node::Body::Client(Body::ClientReply(reply)) => {
                let is_first = match reply.safe {
                    false => self.early.insert((to, msg.tid)),
                    true => !self.early.remove(&(to, msg.tid)),
                };
                *self.this.answered.entry(from).or_default() += u64::from(is_first);
            }
            node::Body::Client(Body::ClientRequestForward(_)) => self.this.forwarded += 1,
            node::Body::Peer(body) if servers.contains(&from) && servers.contains(&to) => {
                self.this.between_ranks += 1;
                self.this.moved += u64::from(matches!(body, peer::Body::MdsTaken(_)));
            }
            _ => {}
        }
    }
}

impl Clients {
    fn new(spec: &MetadataSpec, cluster: &mut Cluster) -> Self {
        let mut rng = Rng::from_seed(spec.seed);
        let programs = cluster.clients.iter().enumerate();
        let programs = programs.map(|(n, host)| (*host, Program::new(spec.workload, n as u32, rng.fork())));
        let counts = Rc::new(RefCell::new(Counts::default()));
        let (counted, servers) = (counts.clone(), cluster.mdss());
        let of_servers: BTreeSet<HostId> = servers.iter().copied().collect();
        cluster.world.observer = Some(Box::new(move |_, from, to, msg| {
            counted.borrow_mut().see(&of_servers, from, to, msg);
            None
        }));
        Self {
            programs: programs.collect(),
            servers,
            due: BTreeMap::new(),
            thinks: spec.thinks_at_first(),
            paces: BTreeMap::new(),
            under_way: BTreeMap::new(),
            latencies: Vec::new(),
            counts,
        }
    }

    /// Each client makes its first request within the first tenth of a second.
    fn begin(&mut self, cluster: &mut Cluster) {
        for (host, program) in &mut self.programs {
            let after = Duration::from_micros(cluster.world.rng().below(100_000));
            self.due.insert((cluster.world.now() + after, *host), program.first());
        }
    }

    fn run_second(&mut self, cluster: &mut Cluster) -> Result<Counted, String> {
        let until = cluster.world.now() + SECOND;
        loop {
            let next = self.due.first_key_value().map(|((at, _), _)| *at).filter(|at| *at <= until);
            let has_stepped = cluster.world.step(next.unwrap_or(until));
            for (host, id, reply) in cluster.world.take_replies() {
                self.answered(cluster, host, id, reply)?;
            }
            match next {
                Some(at) if cluster.world.now() >= at && !has_stepped => self.ask(cluster),
                None if !has_stepped => break,
                _ => {}
            }
        }
        let mut counted = std::mem::take(&mut self.counts.borrow_mut().this);
        let now = cluster.world.now();
        let done = cluster.world.machines.as_mut().map(|machines| machines.take(now)).unwrap_or_default();
        for ((from, to, kind), carried) in done.flows {
            for (host, direction) in [(from, Direction::Out), (to, Direction::In)] {
                *counted.messages.entry(host).or_default().entry((direction, kind)).or_default() +=
                    carried.messages;
            }
        }
        for host in &self.servers {
            let used = cluster.world.take_used(*host);
            counted.used.insert(*host, used);
            let busy = u32::try_from(used.as_millis()).unwrap_or(u32::MAX).min(1000);
            cluster.world.load(*host, Load { busy, idle: 1000, ..Load::default() });
        }
        Ok(counted)
    }

    /// Makes the first request that is due.
    fn ask(&mut self, cluster: &mut Cluster) {
        let Some(((_, host), request)) = self.due.pop_first() else { return };
        let id = cluster.world.request(host, Request::Fs(Caller::default(), request));
        self.under_way.insert(id, cluster.world.now());
    }

    fn answered(
        &mut self,
        cluster: &mut Cluster,
        host: HostId,
        id: RequestId,
        reply: Reply,
    ) -> Result<(), String> {
        if let Ok(Answer::Invalidate { id, .. }) = reply {
            cluster.world.request(host, Request::Invalidated { id });
            return Ok(());
        }
        let Some(began) = self.under_way.remove(&id) else { return Ok(()) };
        let now = cluster.world.now();
        self.latencies.push(now.since(began));
        let Some(program) = self.programs.get_mut(&host) else { return Ok(()) };
        let next = program.next(reply)?;
        program.take_unused().into_iter().for_each(|ino| forget(cluster, host, ino));
        let thinks = match self.paces.get(&host) {
            Some(pace) => *pace / 2 + Duration::from_micros(program.draw(pace.as_micros() as u64)),
            None => self.thinks,
        };
        self.due.insert((now + thinks, host), next);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(ranks: u32, seed: u64) -> Measured {
        let spec = MetadataSpec {
            clients_each: 4,
            warm_up: Duration::from_secs(20),
            counted: SECOND,
            ..MetadataSpec::of(Workload::MakeDirs, ranks, seed)
        };
        run(&spec, &mut |_, _| {}).expect("a run without complaints")
    }

    #[test]
    fn two_ranks_do_twice_as_much_as_one_and_as_much_as_each_other() {
        let (one, two) = (measured(1, 3), measured(2, 3));
        assert!(one.busy() > 0.9 && two.busy() > 0.9, "clients keep the processors busy");
        assert!(two.each() > one.each() * 0.9, "{} and {} a second", two.each(), one.each());
        assert!(two.unevenness() < 1.1, "both work: {}", two.unevenness());
        assert_eq!(two.counted.answered.len(), 2);
    }

    #[test]
    fn a_run_follows_from_its_seed() {
        assert_eq!(measured(2, 5).seconds, measured(2, 5).seconds);
    }
}
