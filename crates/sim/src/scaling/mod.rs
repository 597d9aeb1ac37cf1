//! Scaling of writes with the number of OSDs (the paper's figure 8), and the cost of a write in messages and
//! bytes with 1 to 5 copies: the real roles on machines whose disks and network cards have a speed
//! ([`crate::machines`]).
//!
//! Each client keeps a number of writes in flight, each of a whole object. The numbers of clients for each
//! OSD and of objects in each PG are constant; OSDs differ in their number of PGs, which is measured too.

mod report;

pub use report::Report;

use crate::cluster::{Cluster, Spec};
use crate::faults::Faults;
use crate::host::HostId;
use crate::machines::{Carried, Done, Flows, Hardware, Machines, Work};
use crate::objects::{OBJECTS, object_request};
use fsclient::Answer;
use maps::{ObjectLocator, OsdMap};
use msgs::{Extent, Op};
use node::RequestId;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::{Bufs, Instant, Rng};
use wire::Reader;

/// The paper's disks and network: 58 MB/s (figure 5) and 1 Gb/s, with the write caches of today.
pub const PAPER: Hardware = Hardware {
    nic: 125_000_000,
    latency: Duration::from_micros(50),
    disk: 58_000_000,
    operation: Duration::from_micros(50),
    flush: Duration::from_micros(500),
};

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct ScalingSpec {
    /// Number of OSDs.
    pub osds: u32,
    /// Copies of each object.
    pub copies: u32,
    /// Size of an object in bytes.
    pub write: usize,
    /// Minimum number of PG copies on each OSD; at most twice as many.
    pub pgs_each: u32,
    /// True if the balancer evens out the PGs of OSDs; otherwise they stay where CRUSH puts them.
    pub balanced: bool,
    /// Clients for each OSD.
    pub clients_each: u32,
    /// Writes that each client keeps in flight.
    pub in_flight: u32,
    /// Speeds of the machines.
    pub hardware: Hardware,
    /// Time before writes count.
    pub warm_up: Duration,
    /// Time in which writes count.
    pub counted: Duration,
    /// Seed of the run.
    pub seed: u64,
}

impl ScalingSpec {
    /// Writes of 64 KiB to this many OSDs and copies, with nearly even PGs.
    pub fn of(osds: u32, copies: u32) -> Self {
        Self {
            osds,
            copies,
            write: 64 << 10,
            pgs_each: 100,
            balanced: true,
            clients_each: 4,
            in_flight: 16,
            hardware: PAPER,
            warm_up: Duration::from_secs(1),
            counted: Duration::from_secs(3),
            seed: 1,
        }
    }

    /// PGs of the pool, a power of two.
    pub fn pgs(&self) -> u32 {
        (self.pgs_each * self.osds).div_ceil(self.copies).next_power_of_two()
    }
}

/// A kind of sender or receiver.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Who {
    /// A client of the pool.
    Client,
    /// An OSD process.
    Osd,
    /// A monitor process.
    Mon,
}

/// Results of a run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Parameters of the run.
    pub spec: ScalingSpec,
    /// Answered writes in the counted time.
    pub writes: u64,
    /// Answered writes a second, see [`pace`].
    pub a_second: f64,
    /// Latencies of the writes, in order.
    pub latencies: Vec<Duration>,
    /// Messages by sender, receiver and kind.
    pub flows: BTreeMap<(Who, Who, &'static str), Carried>,
    /// Work of each OSD's machine.
    pub work: Vec<Work>,
    /// Copies of PGs on each OSD.
    pub pgs: Vec<u32>,
    /// Number of PGs of which each OSD is the primary.
    pub primaries: Vec<u32>,
}

impl Measured {
    /// Bytes a second that clients wrote, for each OSD.
    pub fn rate(&self) -> f64 {
        self.a_second * self.spec.write as f64 / f64::from(self.spec.osds)
    }

    /// The excess of the OSD with most PGs over the mean. If disks are the bottleneck, it bounds the
    /// throughput of the others.
    pub fn imbalance(&self) -> f64 {
        let most = self.pgs.iter().max().copied().unwrap_or(0);
        f64::from(most) * self.pgs.len() as f64 / f64::from(self.pgs.iter().sum::<u32>().max(1))
    }

    /// The share of the counted time in which a part of the machines was busy: the mean, and the busiest.
    pub fn load(&self, part: impl Fn(&Work) -> Duration) -> (f64, f64) {
        let of = |work: &Work| part(work).as_secs_f64() / self.spec.counted.as_secs_f64();
        let sum: f64 = self.work.iter().map(of).sum();
        (sum / self.work.len().max(1) as f64, self.work.iter().map(of).fold(0.0, f64::max))
    }

    /// The latency that this percentage of the writes did not exceed.
    pub fn latency(&self, percent: usize) -> Duration {
        let at = self.latencies.len().saturating_sub(1) * percent / 100;
        self.latencies.get(at).copied().unwrap_or_default()
    }

    /// Messages and bytes of a kind.
    pub fn flow(&self, from: Who, to: Who, kind: &str) -> Carried {
        let found = self.flows.iter().find(|((f, t, k), _)| (*f, *t, *k) == (from, to, kind));
        found.map_or(Carried::default(), |(_, carried)| *carried)
    }
}

/// The longest time for the balancer.
const BALANCED_WITHIN: Duration = Duration::from_secs(1200);
/// Objects in each PG.
const OBJECTS_EACH: u32 = 4;

/// Runs the cluster and measures it.
pub fn run(spec: &ScalingSpec) -> Result<Measured, String> {
    let mut cluster = cluster(spec);
    cluster.bring_up()?;
    let map = placed(spec, &mut cluster)?;
    cluster.command(&json!({ "prefix": "balancer off" }))?;
    let mut load = Writes::new(spec, &map, &cluster);
    cluster.world.machines = Some(Machines::new(spec.hardware.clone()));
    load.run(&mut cluster, spec.warm_up)?;
    load.answered.clear();
    take_work(&mut cluster);
    load.run(&mut cluster, spec.counted)?;
    let Done { flows, work } = take_work(&mut cluster);
    if let Some((name, event)) = cluster.world.complaints.first() {
        return Err(format!("{name} complains: {}: {}", event.name, event.detail));
    }
    let (pgs, primaries) = share_of_each(&map, spec.osds);
    let (times, mut latencies): (Vec<_>, Vec<_>) = load.answered.into_iter().unzip();
    latencies.sort_unstable();
    Ok(Measured {
        spec: spec.clone(),
        writes: latencies.len() as u64,
        a_second: pace(&times),
        latencies,
        flows: by_role(&cluster, flows),
        work: cluster.osds.iter().map(|host| work.get(host).copied().unwrap_or_default()).collect(),
        pgs,
        primaries,
    })
}

fn take_work(cluster: &mut Cluster) -> Done {
    let now = cluster.world.now();
    cluster.world.machines.as_mut().map(|machines| machines.take(now)).unwrap_or_default()
}

fn cluster(spec: &ScalingSpec) -> Cluster {
    let options = [
        ("osd_pool_default_size", spec.copies.to_string()),
        ("osd_pool_default_min_size", "1".to_owned()),
        ("mon_allow_pool_size_one", "true".to_owned()),
        ("mon_warn_on_pool_no_redundancy", "false".to_owned()),
        ("mon_max_pg_per_osd", "10000".to_owned()),
    ];
    let cluster = Spec {
        osds: spec.osds,
        clients: spec.clients_each * spec.osds,
        pgs: spec.pgs(),
        osd_disk: 128 << 20,
        osd: osd::OsdOptions { maps_kept: 4, ..osd::OsdOptions::default() },
        options: options.map(|(name, value)| (name.to_owned(), value)).into(),
        ..Spec::default()
    };
    Cluster::new(spec.seed, Faults::none(), &cluster)
}

/// The map once all PGs have reached their places.
fn placed(spec: &ScalingSpec, cluster: &mut Cluster) -> Result<OsdMap, String> {
    if !spec.balanced {
        cluster.command(&json!({ "prefix": "balancer off" }))?;
    }
    let until = cluster.world.now() + BALANCED_WITHIN;
    loop {
        cluster.wait_healthy(BALANCED_WITHIN)?;
        let map = cluster.command(&json!({ "prefix": "osd getmap" }))?;
        let map: OsdMap = Reader::new(&map).get().map_err(|error| error.to_string())?;
        let (pgs, _) = share_of_each(&map, spec.osds);
        let mean = f64::from(spec.pgs() * spec.copies) / f64::from(spec.osds);
        let far = |n: &u32| (f64::from(*n) - mean).abs() > (mean / 100.0).max(1.0);
        if !spec.balanced || !pgs.iter().any(far) {
            return Ok(map);
        }
        if cluster.world.now() >= until {
            return Err(format!("not balanced within {BALANCED_WITHIN:?}: {pgs:?}"));
        }
        cluster.world.run_for(Duration::from_secs(2));
    }
}

/// PG copies on each OSD, and the number of PGs of which it is the primary.
fn share_of_each(map: &OsdMap, osds: u32) -> (Vec<u32>, Vec<u32>) {
    let (mut pgs, mut primaries) = (vec![0; osds as usize], vec![0; osds as usize]);
    for (id, pool) in &map.pools {
        for pgid in pool.pgs(*id) {
            let placed = map.pg_up_acting(pgid);
            placed.acting.iter().filter(|osd| osd.is_some()).for_each(|osd| pgs[osd.0 as usize] += 1);
            placed.acting_primary.iter().for_each(|osd| primaries[osd.0 as usize] += 1);
        }
    }
    (pgs, primaries)
}

fn by_role(cluster: &Cluster, flows: Flows) -> BTreeMap<(Who, Who, &'static str), Carried> {
    let who = |host: &HostId| {
        if cluster.osds.contains(host) {
            Who::Osd
        } else if cluster.mons.contains(host) {
            Who::Mon
        } else {
            Who::Client
        }
    };
    let mut out: BTreeMap<_, Carried> = BTreeMap::new();
    for ((from, to, kind), carried) in flows {
        let sum = out.entry((who(&from), who(&to), kind)).or_default();
        sum.messages += carried.messages;
        sum.bytes += carried.bytes;
    }
    out
}

/// The writing clients.
struct Writes {
    clients: Vec<HostId>,
    in_flight: u32,
    names: Vec<String>,
    data: Bufs,
    rng: Rng,
    under_way: BTreeMap<RequestId, Instant>,
    /// Time of each answer, and the latency of its write.
    answered: Vec<(Instant, Duration)>,
}

impl Writes {
    fn new(spec: &ScalingSpec, map: &OsdMap, cluster: &Cluster) -> Self {
        let mut rng = Rng::from_seed(spec.seed);
        let mut bytes = vec![0; spec.write];
        rng.fill(&mut bytes);
        Self {
            clients: cluster.clients.clone(),
            in_flight: spec.in_flight,
            names: names(map),
            data: Bufs::from(bytes),
            rng,
            under_way: BTreeMap::new(),
            answered: Vec::new(),
        }
    }

    fn write(&mut self, cluster: &mut Cluster, client: HostId) {
        let extent = Extent::new(0, self.data.len() as u64);
        let ops = vec![Op::WriteFull { extent, data: self.data.clone() }];
        let name = self.rng.pick(&self.names);
        let id = cluster.world.request(client, object_request(name, ops));
        self.under_way.insert(id, cluster.world.now());
    }

    fn run(&mut self, cluster: &mut Cluster, span: Duration) -> Result<(), String> {
        if self.under_way.is_empty() {
            for client in self.clients.clone() {
                (0..self.in_flight).for_each(|_| self.write(cluster, client));
            }
        }
        let until = cluster.world.now() + span;
        while cluster.world.step(until) {
            for (host, id, reply) in cluster.world.take_replies() {
                let Some(began) = self.under_way.remove(&id) else { continue };
                match reply {
                    Ok(Answer::Object { result: Ok(_), .. }) => {}
                    other => return Err(format!("a write failed: {other:?}")),
                }
                let now = cluster.world.now();
                self.answered.push((now, now.since(began)));
                self.write(cluster, host);
            }
        }
        Ok(())
    }
}

/// Events a second, from the longest pause in the first third of them to the longest in the last.
///
/// A log record holds all writes that wait for it, so answers come in bursts, and few OSDs have theirs at the
/// same time. If the window began and ended at arbitrary times, bursts at its borders would matter more than
/// the differences to measure.
fn pace(times: &[Instant]) -> f64 {
    let third = times.len() / 3;
    let longest = |range: std::ops::Range<usize>| range.max_by_key(|n| times[n + 1].since(times[*n]));
    let (first, last) =
        (longest(0..third), longest(times.len().saturating_sub(third + 1)..times.len().saturating_sub(1)));
    let (Some(first), Some(last)) = (first, last) else { return 0.0 };
    (last - first) as f64 / times[last].since(times[first]).as_secs_f64().max(1e-9)
}

/// Names of objects, equally many in each PG.
fn names(map: &OsdMap) -> Vec<String> {
    let Some((pool, info)) = map.pools.iter().find(|(_, p)| p.size > 0) else { return Vec::new() };
    let locator = ObjectLocator::new(*pool, "");
    let mut lacking = vec![OBJECTS_EACH; info.pg_num as usize];
    let mut left = info.pg_num * OBJECTS_EACH;
    let mut out = Vec::new();
    for n in 0u64.. {
        if left == 0 {
            break;
        }
        let name = format!("{OBJECTS}.{n}");
        let Some(pgid) = map.object_pg(&locator, name.as_bytes()) else { break };
        let lacking = &mut lacking[pgid.seed as usize];
        if *lacking > 0 {
            (*lacking, left) = (*lacking - 1, left - 1);
            out.push(name);
        }
    }
    out
}
