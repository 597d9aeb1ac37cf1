//! One run, from one number: a cluster under load, a safety phase with faults, then a phase without faults,
//! in which everything must converge and pass the checkers.

use crate::audit;
use crate::cluster::{Cluster, Spec, max_mds};
use crate::disk::Crash;
use crate::faults::Faults;
use crate::host::HostId;
use crate::image_audit;
use crate::kind::Kind;
use crate::nemesis::{Nemesis, Profile};
use crate::oracle;
use crate::oracle::late::{self, Late, Told};
use crate::trace::Trace;
use crate::workload::{
    CommandLoad, FileLoad, FillLoad, ImageLoad, Load, LockLoad, ObjectLoad, SnapshotLoad, WatchLoad,
};
use fsclient::{Answer, Request};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use stdx::{Instant, Rng};
use store::ObjectKey;

/// The longest time from the last fault until the cluster is healthy.
const CONVERGENCE: Duration = Duration::from_secs(120);
/// The longest time from then until every request is answered. The sessions of dead clients end meanwhile.
const ANSWERS: Duration = Duration::from_secs(120);
/// And how often that begins anew.
const MOST_WAITS: u32 = 4;

/// The longest time until all clients have left.
const LEAVING: Duration = Duration::from_secs(60);
/// Size of disks that one load alone can fill, in bytes.
const SMALL_DISK: u64 = 48 << 20;
/// The pool of images, where there is no file system.
const IMAGE_POOL: i64 = 2;
/// Pools in the order in which [`Cluster::bring_up`] makes them.
const METADATA: i64 = 2;
const DATA: i64 = 3;

/// Statistics of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Number of answered calls.
    pub calls: u64,
    /// Histories that were checked for linearizability.
    pub histories: u64,
    /// Histories that exceeded the budget of the search.
    pub undecided: u64,
    /// Injected faults by name.
    pub faults: BTreeMap<&'static str, u64>,
    /// Inputs of all nodes.
    pub events: u64,
    /// Simulated time that the run took.
    pub simulated: Duration,
    /// The trace's hash, equal for equal runs.
    pub hash: u64,
}

/// A run that failed a checker.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Seed of the run.
    pub seed: u64,
    /// Profile of the run.
    pub profile: Profile,
    /// Name of the checker.
    pub checker: &'static str,
    /// Description of the violation.
    pub what: String,
    /// The trace's last lines, if text was asked for.
    pub trace: Vec<String>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "seed {}: {}: {}\nreplay: cargo xtask sim {}",
            self.seed, self.checker, self.what, self.seed
        )?;
        match self.profile {
            Profile::Any => Ok(()),
            profile => write!(f, " --profile {}", profile.name()),
        }
    }
}

/// Runs one seed.
pub fn run_seed(seed: u64) -> Result<Stats, Box<Failure>> {
    run(seed, Profile::Any, Trace::default(), &mut Vec::new())
}

/// Runs one seed of a profile. A seed is another run in each profile.
pub fn run_profile(seed: u64, profile: Profile) -> Result<Stats, Box<Failure>> {
    run(seed, profile, Trace::default(), &mut Vec::new())
}

/// Runs one seed. Returns the last lines of its trace too, also of a run that passed.
pub fn run_traced(seed: u64, profile: Profile) -> (Result<Stats, Box<Failure>>, Vec<String>) {
    let mut lines = Vec::new();
    let result = run(seed, profile, Trace::with_text(), &mut lines);
    (result, lines)
}

fn run(seed: u64, profile: Profile, trace: Trace, lines: &mut Vec<String>) -> Result<Stats, Box<Failure>> {
    let mut scenario = Scenario::new(seed, profile, trace);
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| scenario.run()));
    *lines = scenario.cluster.world.trace.lines().map(String::from).collect();
    let found = match outcome {
        Ok(Ok(())) => return Ok(scenario.stats()),
        Ok(Err(found)) => found,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            Found("no_panic", text.unwrap_or_default())
        }
    };
    Err(Box::new(Failure { seed, profile, checker: found.0, what: found.1, trace: lines.clone() }))
}

/// The number of monitors. It has a random stream of its own, so that seeds keep their meaning otherwise.
fn monitors(seed: u64, profile: Profile) -> u32 {
    let mut rng = Rng::from_seed(seed ^ 0x006d_6f6e_6974_6f72);
    match profile {
        Profile::Monitors => *rng.pick(&[3, 3, 3, 5]),
        Profile::Rados => *rng.pick(&[1, 2, 3]),
        Profile::Images => *rng.pick(&[1, 1, 3]),
        Profile::Any => *rng.pick(&[1, 1, 1, 1, 3, 3, 3, 5]),
        _ => 1,
    }
}

/// True if clients take snapshots. It has a random stream of its own too.
fn snapshots(seed: u64, profile: Profile) -> bool {
    let mut rng = Rng::from_seed(seed ^ 0x0073_6e61_7073_686f);
    match profile {
        Profile::Snapshots => true,
        Profile::Any | Profile::Rados => rng.chance(1, 3),
        _ => false,
    }
}

/// Draws if the first OSD's disk rots, and if all disks are so small that they fill up.
fn disks(seed: u64, profile: Profile) -> (bool, bool) {
    let mut rng = Rng::from_seed(seed ^ 0x6469_736b_7321);
    match profile {
        Profile::Decay => (true, false),
        Profile::Rados => (rng.chance(1, 4), rng.chance(1, 5)),
        _ => (false, false),
    }
}

/// Draws the most bytes that an update carries itself, and the size of the parts in which the rest is shipped
/// ahead. Every other cluster has small limits, because no client here writes more than some blocks at once.
///
/// A rotting disk keeps the usual limits: small parts go through the store's log, and rot of an acknowledged
/// part that is not at its place yet makes the store refuse the whole disk. It has a random stream of its own
/// too.
fn parts(seed: u64, decays: bool, usual: &osd::OsdOptions) -> (u64, u64) {
    let mut rng = Rng::from_seed(seed ^ 0x0070_6172_7473_0000);
    if rng.chance(1, 2) && !decays {
        (4096, 4096 * rng.range(1, 5))
    } else {
        (usual.update_whole, usual.update_part)
    }
}

/// How many OSDs each monitor tells of a new map: in every other cluster only one, so that the others have it
/// from one another. It has a random stream of its own too.
fn told_at_once(seed: u64) -> u64 {
    let mut rng = Rng::from_seed(seed ^ 0x0074_6f6c_6400_0000);
    if rng.chance(1, 2) { 1 } else { 16 }
}

/// Draws how many metadata servers stand by. It has a random stream of its own too.
fn standbys(seed: u64, profile: Profile, fs: bool) -> u32 {
    let mut rng = Rng::from_seed(seed ^ 0x7374_616e_6462_7900);
    match profile {
        Profile::Ranks => *rng.pick(&[1, 2, 2, 3]),
        _ if fs => *rng.pick(&[0, 1, 1, 2]),
        _ => 0,
    }
}

/// The ranks of a file system with so many servers beside one.
fn ranks(profile: Profile, standbys: u32) -> u32 {
    if profile == Profile::Ranks { 1 + standbys } else { 1 }
}

/// True if clients watch objects. It has a random stream of its own too.
fn watches(seed: u64, profile: Profile) -> bool {
    let mut rng = Rng::from_seed(seed ^ 0x0077_6174_6368_6573);
    match profile {
        Profile::Objects | Profile::Rados => rng.chance(1, 3),
        _ => false,
    }
}

/// True if clients lock a file. It has a random stream of its own too.
fn locks(seed: u64, profile: Profile) -> bool {
    let mut rng = Rng::from_seed(seed ^ 0x006c_6f63_6b73_0000);
    match profile {
        Profile::Files | Profile::Ranks => rng.chance(1, 2),
        Profile::Any => rng.chance(1, 4),
        _ => false,
    }
}

/// Draws the number of clients.
fn clients(rng: &mut Rng, profile: Profile) -> u32 {
    match profile {
        Profile::Primary => 3,
        Profile::Rados => rng.range(1, 9) as u32,
        Profile::Images => rng.range(2, 5) as u32,
        _ => rng.range(1, 5) as u32,
    }
}

/// Draws the kinds of the clients. They have a random stream of their own too.
fn kinds(seed: u64, profile: Profile, clients: u32) -> Vec<Kind> {
    let mut rng = Rng::from_seed(seed ^ 0x006b_696e_6473_0000);
    match profile {
        Profile::Files => Kind::draw(&mut rng, clients),
        // The one that behaves as Linux's works with one rank only.
        Profile::Ranks => Kind::draw(&mut rng, clients).into_iter().map(Kind::of_ranks).collect(),
        _ => Vec::new(),
    }
}

/// True if clients pass a file on to one another. It has a random stream of its own too.
fn hands_over(seed: u64, profile: Profile) -> bool {
    let mut rng = Rng::from_seed(seed ^ 0x0068_616e_6473_0000);
    profile.is_about_files() && rng.chance(1, 3)
}

/// More entries than any directory has.
const WHOLE: u64 = 10_000;

/// Entries at which a directory is split: in two of three clusters those of a few names are, and parts of
/// them again.
fn split_size(seed: u64) -> u64 {
    [2, 4, WHOLE][(seed % 3) as usize]
}

/// Names below which parts are joined: in two of three clusters with fragments. It never is more than half of
/// [`split_size`].
fn merge_size(seed: u64) -> u64 {
    [1, 2, 0][(seed / 3 % 3) as usize]
}

fn mds_options(seed: u64, rng: &mut Rng) -> mds::MdsOptions {
    mds::MdsOptions {
        cache_inodes: if rng.chance(1, 4) { 8 } else { 1000 },
        split_size: split_size(seed),
        merge_size: merge_size(seed),
        journal_bytes: if rng.chance(1, 4) { 64 << 10 } else { 4 << 20 },
        balance_interval: Duration::from_secs(1),
        balance_least: 1,
        handover_part: [1, 3, 500][(seed / 9 % 3) as usize],
        handover_most: [1, 3, 4000][(seed / 27 % 3) as usize],
        ..mds::MdsOptions::default()
    }
}

/// Draws if clients make snapshots of directories, and if they set limits of trees. It has a random stream of
/// its own too.
fn trees(seed: u64, profile: Profile) -> (bool, bool) {
    let mut rng = Rng::from_seed(seed ^ 0x0074_7265_6573_0000);
    match profile {
        Profile::Files | Profile::Ranks => (rng.chance(1, 2), rng.chance(1, 2)),
        Profile::Any => (rng.chance(1, 4), rng.chance(1, 4)),
        _ => (false, false),
    }
}

/// A violation: the checker's name and a text.
struct Found(&'static str, String);

struct Scenario {
    cluster: Cluster,
    loads: Vec<Box<dyn Load>>,
    nemesis: Nemesis,
    rng: Rng,
    calls: usize,
    profile: Profile,
    decays: bool,
    fills: bool,
    watches: bool,
    locks: bool,
    trees: (bool, bool),
    hands_over: bool,
    /// Directories of a few names are split.
    has_fragments: bool,
    late: Late,
    histories: u64,
    undecided: u64,
}

impl Scenario {
    fn new(seed: u64, profile: Profile, trace: Trace) -> Self {
        let mut rng = Rng::from_seed(seed ^ 0x6e61_6372_6500_0000);
        let rados = profile == Profile::Rados;
        let (decays, fills) = disks(seed, profile);
        let osds = match rng.chance(1, 5) {
            _ if rados && fills => rng.range(3, 5) as u32,
            _ if rados => *rng.pick(&[3, 3, 3, 4, 4, 5, 6, 7, 8, 10, 12]),
            true => 4,
            false => 3,
        };
        let spec = Spec {
            mons: monitors(seed, profile),
            osds,
            clients: clients(&mut rng, profile),
            fs: profile.has_files().unwrap_or_else(|| rng.chance(1, 2)),
            snapshots: snapshots(seed, profile),
            images: profile == Profile::Images,
            pgs: match profile {
                Profile::Primary => 1,
                Profile::Rados => rng.range(1, 13) as u32,
                _ => rng.range(1, 5) as u32,
            },
            mds: mds_options(seed, &mut rng),
            ..Spec::default()
        };
        let mut spec = spec;
        spec.standbys = standbys(seed, profile, spec.fs);
        spec.kinds = kinds(seed, profile, spec.clients);
        spec.ranks = ranks(profile, spec.standbys);
        if fills {
            spec.osd_disk = SMALL_DISK;
        }
        if decays {
            spec.options.insert("mon_osd_warn_num_repaired".to_owned(), "1000000".to_owned());
            // Cached data does not rot.
            spec.osd.data_cache = 0;
            let scrub = &mut spec.osd.scrub;
            (scrub.min_interval, scrub.deep_interval) = (Duration::from_secs(4), Duration::from_secs(6));
            (scrub.at_once, scrub.chunk_max) = (rng.range(1, 3) as usize, rng.range(1, 26) as usize);
        }
        (spec.osd.update_whole, spec.osd.update_part) = parts(seed, decays, &spec.osd);
        spec.options.insert("mon_osd_map_told_at_once".to_owned(), told_at_once(seed).to_string());
        let faults = Faults::draw(&mut rng);
        let mut cluster = Cluster::new(seed, faults, &spec);
        cluster.world.trace = trace;
        cluster.watch_with(oracle::maps::observer());
        cluster.world.follows = &late::FOLLOWED;
        let nemesis = Nemesis::new(rng.fork(), profile, decays, Instant(0), 0);
        let calls = if profile == Profile::Primary { 400 } else { rng.range(20, 200) as usize };
        let (loads, watches, locks) = (Vec::new(), watches(seed, profile), locks(seed, profile));
        let (late, histories, undecided) = (Late::default(), 0, 0);
        Self {
            cluster,
            loads,
            nemesis,
            rng,
            calls,
            profile,
            decays,
            fills,
            watches,
            locks,
            trees: trees(seed, profile),
            hands_over: hands_over(seed, profile),
            // Busy directories are split to be spread over ranks.
            has_fragments: split_size(seed) < WHOLE || profile == Profile::Ranks,
            late,
            histories,
            undecided,
        }
    }

    fn run(&mut self) -> Result<(), Found> {
        self.cluster.bring_up().map_err(|why| Found("comes_up", why))?;
        self.make_loads();
        let now = self.cluster.world.now();
        let inputs = self.cluster.world.trace.events();
        self.nemesis = Nemesis::new(self.rng.fork(), self.profile, self.decays, now, inputs);
        let until = now + Duration::from_millis(self.rng.range(5_000, 40_000));
        self.play(until, true, |_| false)?;

        self.cluster.world.faults = Faults::none();
        self.nemesis.repair_all(&mut self.cluster);
        self.loads.iter_mut().for_each(|load| load.faults_ended());
        if self.decays {
            self.repair()?;
        }
        if self.profile == Profile::Ranks {
            self.gather_ranks()?;
        }
        self.settle("converges")?;
        self.drain("answers_everything")?;
        self.loads.iter_mut().for_each(|l| l.finish(&self.cluster.world));
        self.drain("answers_everything")?;
        if self.cluster.mds.is_some() && self.profile.is_about_files() {
            let mut rng = Rng::from_seed(self.rng.clone().u64() ^ 4);
            let linked = self.loads.iter().flat_map(|load| load.linked_files()).collect();
            audit::check(&mut self.cluster, &mut rng, &linked, self.trees.1)
                .map_err(|(checker, what)| Found(checker, what))?;
        }
        for images in self.loads.iter().filter_map(|load| load.expected_images()) {
            image_audit::check(&mut self.cluster, IMAGE_POOL, &images)
                .map_err(|what| Found("images_consistent", what))?;
        }
        self.settle("stays_healthy")?;
        self.judge()
    }

    fn make_loads(&mut self) {
        let now = self.cluster.world.now();
        let clients = self.cluster.clients.clone();
        let fs = self.cluster.mds.is_some();
        if self.profile == Profile::Images {
            let rng = self.rng.fork();
            let load = ImageLoad::new(rng, &clients, IMAGE_POOL, 3 * self.calls, now);
            return self.loads.push(Box::new(load));
        }
        if self.profile != Profile::Snapshots && (!fs || self.rng.chance(1, 3)) {
            let load = ObjectLoad::new(self.rng.fork(), &clients, self.calls, now);
            let primary = self.profile == Profile::Primary;
            self.loads.push(Box::new(if primary { load.with_readers() } else { load }));
        }
        if self.cluster.mons.len() > 1 {
            // Drawn from a copy, so that all other draws are those of a run with one monitor.
            let rng = Rng::from_seed(self.rng.clone().u64());
            self.loads.push(Box::new(CommandLoad::new(rng, &clients, self.calls, now)));
        }
        if self.fills {
            let rng = Rng::from_seed(self.rng.clone().u64() ^ 2);
            self.loads.push(Box::new(FillLoad::new(rng, self.cluster.admin, now)));
        }
        if self.cluster.spec.snapshots {
            let rng = Rng::from_seed(self.rng.clone().u64() ^ 1);
            self.loads.push(Box::new(SnapshotLoad::new(rng, &clients, 2 * self.calls, now)));
        }
        if self.watches {
            let rng = Rng::from_seed(self.rng.clone().u64() ^ 2);
            self.loads.push(Box::new(WatchLoad::new(rng, &clients, self.calls, now)));
        }
        if fs && self.locks {
            let rng = Rng::from_seed(self.rng.clone().u64() ^ 3);
            let load = LockLoad::new(rng, &clients, self.calls, now);
            self.loads.push(Box::new(load.in_directory(self.profile == Profile::Ranks)));
        }
        if fs {
            let (snapshots, limits) = self.trees;
            let load = FileLoad::new(self.rng.fork(), &clients, self.calls, now);
            let load = load.with_trees(snapshots, limits).with_fragments(self.has_fragments);
            let load = load.with_hand_overs(self.hands_over).with_ranks(self.profile == Profile::Ranks);
            let files = self.profile.is_about_files();
            self.loads.push(Box::new(if files { load.with_sprees() } else { load }));
        }
    }

    /// Runs the load until a time or until `done`, with the nemesis if `struck`.
    fn play(&mut self, until: Instant, struck: bool, done: impl Fn(&Self) -> bool) -> Result<(), Found> {
        while self.cluster.world.now() < until && !done(self) {
            let wants = self.loads.iter().filter_map(|l| l.wants_at()).min();
            let strikes = struck.then(|| self.nemesis.next_at());
            let next = wants.into_iter().chain(strikes).fold(until, Instant::min);
            while self.cluster.world.step(next) {
                if self.answers() || struck && self.nemesis.is_triggered(&self.cluster) {
                    break;
                }
            }
            let provoked = self.nemesis.is_triggered(&self.cluster);
            if struck && (provoked || self.nemesis.next_at() <= self.cluster.world.now()) {
                for host in self.nemesis.step(&mut self.cluster) {
                    let now = self.cluster.world.now();
                    self.loads.iter_mut().for_each(|l| l.died(host, now));
                }
            }
            self.loads.iter_mut().for_each(|l| l.issue(&mut self.cluster.world));
            self.answers();
            self.watch()?;
        }
        Ok(())
    }

    /// Hands answers to the loads. Reports whether there were any.
    fn answers(&mut self) -> bool {
        self.hear();
        let mut replies = self.cluster.take_answers();
        let world = &mut self.cluster.world;
        replies.extend(world.take_replies());
        let any = !replies.is_empty();
        for (host, id, reply) in replies {
            if let Ok(Answer::Invalidate { id, what }) = reply {
                self.loads.iter_mut().for_each(|load| load.invalidated(host, &what));
                world.request(host, Request::Invalidated { id });
                continue;
            }
            for load in &mut self.loads {
                if load.answered(world, host, id, &reply) {
                    break;
                }
            }
        }
        any
    }

    /// Tells the checkers what events say of late clients.
    fn hear(&mut self) {
        let world = &mut self.cluster.world;
        for (from, event) in std::mem::take(&mut world.followed) {
            let Some(told) = late::told(&event) else { continue };
            let node = |client| world.bearer_of(client);
            self.late.note(world.name(from), &told, |client| Some(world.name(node(client)?).to_owned()));
            let hosts: Vec<HostId> = match &told {
                Told::Missing(clients) => clients.iter().copied().filter_map(node).collect(),
                Told::Returned(client)
                | Told::Refused(client)
                | Told::Gone(client, _)
                | Told::Evicted(client) => node(*client).into_iter().collect(),
                Told::SessionLost => vec![from],
            };
            for host in hosts {
                self.loads.iter_mut().for_each(|load| load.heard(host, &told));
            }
        }
    }

    /// Checks the invariants that hold at any time.
    fn watch(&mut self) -> Result<(), Found> {
        if let Some((checker, what)) = self.cluster.world.violations.pop() {
            return Err(Found(checker, what));
        }
        for host in [self.cluster.daemons(), self.cluster.clients.clone()].concat() {
            if let Some(result) = self.cluster.world.stopped(host) {
                let what = format!("{} ended: {result:?}", self.cluster.world.name(host));
                return Err(Found("keeps_running", what));
            }
        }
        let complaints = std::mem::take(&mut self.cluster.world.complaints);
        let errors = self.disks_err();
        match complaints
            .iter()
            .find_map(|(node, event)| oracle::events::check(node, event, errors, &self.late))
        {
            Some(what) => Err(Found("unexpected_event", what)),
            None => Ok(()),
        }
    }

    /// Reports whether a disk has had errors, or may have.
    fn disks_err(&self) -> bool {
        self.decays || self.nemesis.counts.contains_key("disk_errors")
    }

    /// Waits until the cluster is healthy, with the load going on. Answers to status commands do not end the
    /// wait.
    fn settle(&mut self, checker: &'static str) -> Result<(), Found> {
        let until = self.cluster.world.now() + CONVERGENCE;
        // The monitors' PG statistics are some seconds old.
        let grace = self.cluster.world.now() + Duration::from_secs(8);
        self.play(grace, false, |_| false)?;
        loop {
            let changes = ["pg_num_raised", "pg_num_lowered"];
            let changes = changes.iter().any(|kind| self.nemesis.counts.contains_key(kind));
            let settled = if changes { self.cluster.pools_are_settled() } else { Ok(()) };
            // An OSD that was marked out because of its disk stays out until an administrator acts.
            let errors = self.disks_err();
            match settled.and_then(|()| self.cluster.healthy_now(errors)) {
                Ok(()) => return self.watch(),
                Err(why) if self.cluster.world.now() >= until => {
                    self.watch()?;
                    return Err(Found(checker, format!("not healthy after {CONVERGENCE:?}: {why}")));
                }
                Err(_) => {}
            }
            let next = self.cluster.world.now() + Duration::from_millis(1000);
            self.play(next, false, |_| false)?;
        }
    }

    /// Has all ranks but one stop, so that everything is judged as if there had been one.
    fn gather_ranks(&mut self) -> Result<(), Found> {
        let until = self.cluster.world.now() + CONVERGENCE;
        loop {
            let set = self.cluster.command(&max_mds("1"));
            let ranks = self.cluster.status().map(|status| status["fsmap"]["by_rank"].clone());
            let count = ranks.ok().and_then(|ranks| ranks.as_array().map(Vec::len));
            if set.is_ok() && count == Some(1) {
                return self.watch();
            }
            if self.cluster.world.now() >= until {
                let why = format!("after {CONVERGENCE:?} there are {count:?} ranks{}", self.work_of_ranks());
                return Err(Found("ranks_stop", why));
            }
            let next = self.cluster.world.now() + Duration::from_millis(500);
            self.play(next, false, |_| false)?;
        }
    }

    /// What the metadata servers have not answered, and the inodes that these requests name.
    fn work_of_ranks(&mut self) -> String {
        let mut all = String::new();
        for server in self.cluster.mdss() {
            let mut ask = |command: serde_json::Value| self.cluster.world.admin(server, &command.to_string());
            let Some((_, ops)) = ask(serde_json::json!({ "prefix": "dump_ops_in_flight" })) else { continue };
            all = format!("{all}\n{ops}");
            let number_at = |text: &str, radix: u32| {
                let digits: String = text.chars().take_while(|c| c.is_digit(radix)).collect();
                u64::from_str_radix(&digits, radix).unwrap_or_default()
            };
            let named = ops.split("path\":\"#").skip(1).map(|text| number_at(text, 10));
            let awaited = ops.split("ino: ").skip(1).map(|text| number_at(text, 16));
            for number in named.chain(awaited).collect::<BTreeSet<u64>>() {
                let inode = ask(serde_json::json!({ "prefix": "dump inode", "number": number }));
                all = format!("{all}\n{}", inode.unwrap_or_default().1);
            }
        }
        all
    }

    /// Finds and repairs rot, also if there is too much for the scrubs that start by themselves.
    fn repair(&mut self) -> Result<(), Found> {
        self.drain("answers_everything")?;
        let repair = serde_json::json!({ "prefix": "osd repair", "who": "all" });
        let until = self.cluster.world.now() + CONVERGENCE;
        // Some OSDs may have just started.
        while let Err(why) = self.cluster.command(&repair) {
            if self.cluster.world.now() >= until {
                return Err(Found("repair_ordered", why));
            }
            let next = self.cluster.world.now() + Duration::from_millis(500);
            self.play(next, false, |_| false)?;
        }
        let until = self.cluster.world.now() + Duration::from_secs(10);
        self.play(until, false, |_| false)
    }

    /// Waits until every request is answered. A load may have much left to look at, with a dead owner's watch
    /// to wait for each time: the limit begins anew while answers come.
    fn drain(&mut self, checker: &'static str) -> Result<(), Found> {
        let idle = |s: &Self| s.loads.iter().all(|l| l.wants_at().is_none() && l.in_flight().is_empty());
        let answered = |s: &Self| s.loads.iter().map(|l| l.answered_calls()).sum::<usize>();
        for _ in 0..MOST_WAITS {
            let before = answered(self);
            let until = self.cluster.world.now() + ANSWERS;
            self.play(until, false, idle)?;
            if idle(self) {
                return Ok(());
            }
            if answered(self) == before {
                break;
            }
        }
        let waiting: Vec<String> = self.loads.iter().flat_map(|l| l.in_flight()).collect();
        Err(Found(checker, format!("after {ANSWERS:?} without faults: {}", waiting.join(", "))))
    }

    /// Shuts all OSDs down in order. Rot that was replaced since must not count, nor what a crash would bring
    /// back of it: the log holds only a part of a block that was whole in memory when the part was changed.
    fn close_stores(&mut self) -> Result<(), Found> {
        let osds = self.cluster.osds.clone();
        for osd in &osds {
            let running = self.cluster.world.shut_down(*osd);
            running.ok_or_else(|| {
                Found("stores_sound", format!("{} does not run", self.cluster.world.name(*osd)))
            })?;
        }
        self.cluster.world.run_for(Duration::from_secs(10));
        let late = osds.into_iter().find(|osd| self.cluster.world.is_up(*osd));
        late.map_or(Ok(()), |osd| {
            Err(Found("stores_sound", format!("{} does not end", self.cluster.world.name(osd))))
        })
    }

    fn judge(&mut self) -> Result<(), Found> {
        let held = self.cluster.backoffs.borrow().not_ended(|at| self.cluster.world.is_connected(at));
        held.map_or(Ok(()), |(checker, what)| Err(Found(checker, what)))?;
        for (checker, judgement) in self.loads.iter().flat_map(|l| l.verdicts()) {
            self.histories += judgement.histories;
            self.undecided += judgement.undecided;
            judgement.wrong.map_or(Ok(()), |what| Err(Found(checker, what)))?;
        }
        self.unmount()?;
        // Clients and the metadata servers stop first, so that OSDs have no more work.
        let writers: Vec<HostId> = [&self.cluster.clients[..], &self.cluster.mdss()].concat();
        writers.iter().for_each(|host| self.cluster.world.crash(*host, Crash::Process));
        // OSDs that were out for a while delete their copies when the PG is clean, at the latest when another
        // OSD mentions the PG.
        let moves = ["osd_out", "pg_num_raised", "pg_num_lowered"];
        let moved = moves.iter().any(|kind| self.nemesis.counts.contains_key(kind));
        self.cluster.world.run_for(Duration::from_secs(if moved { 20 } else { 2 }));
        if self.decays {
            self.close_stores()?;
        }
        let mut disks = Vec::new();
        for host in self.cluster.osds.clone() {
            self.cluster.world.crash(host, Crash::Process);
            let disk = std::mem::take(self.cluster.world.disk(host, 0));
            disks.push((self.cluster.world.name(host).to_owned(), disk));
        }
        let mut mons = Vec::new();
        for host in self.cluster.mons.clone() {
            self.cluster.world.crash(host, Crash::Process);
            let disk = std::mem::take(self.cluster.world.disk(host, 0));
            mons.push((self.cluster.world.name(host).to_owned(), disk));
        }
        oracle::stores::check(&disks)
            .and_then(|()| oracle::stores::check(&mons))
            .map_err(|what| Found("stores_sound", what))?;
        let objects =
            oracle::replicas::check(&mut disks, 3).map_err(|what| Found("replicas_identical", what))?;
        for removed in self.loads.iter().filter_map(|load| load.removed_snaps()) {
            let pool = if self.cluster.mds.is_some() { DATA + 1 } else { METADATA };
            oracle::snapshots::check_trimmed(pool, &objects, removed)
                .map_err(|what| Found("clones_trimmed", what))?;
        }
        if self.cluster.mds.is_none() {
            return Ok(());
        }
        let mut pools: BTreeMap<i64, oracle::metadata::Pool> = BTreeMap::new();
        // Clones are listed by their heads.
        for (key, view) in objects.into_iter().filter(|(key, _)| key.snap == ObjectKey::HEAD) {
            let name = String::from_utf8_lossy(&key.name).into_owned();
            pools.entry(key.pool).or_default().insert(name, view);
        }
        let [metadata, mut data] = [METADATA, DATA].map(|pool| pools.remove(&pool).unwrap_or_default());
        data.retain(|object, _| !self.late.may_have_left(object));
        oracle::metadata::check(&metadata, &data).map_err(|what| Found("metadata_consistent", what))
    }

    /// Unmounts all clients, and lets the server purge what they left.
    fn unmount(&mut self) -> Result<(), Found> {
        if self.cluster.mds.is_none() {
            return Ok(());
        }
        let clients = self.cluster.clients.clone();
        for client in &clients {
            self.cluster.world.request(*client, Request::Unmount);
        }
        let world = &mut self.cluster.world;
        if !world.run_until(LEAVING, |w| clients.iter().all(|c| !w.is_up(*c))) {
            let late: Vec<_> = clients.iter().filter(|c| world.is_up(**c)).map(|c| world.name(*c)).collect();
            return Err(Found("unmounts", format!("after {LEAVING:?} still there: {}", late.join(", "))));
        }
        self.cluster.world.run_for(Duration::from_secs(10));
        Ok(())
    }

    fn stats(&self) -> Stats {
        let mut faults = self.nemesis.counts.clone();
        faults.insert("connection_broken", self.cluster.world.broken);
        faults.retain(|_, n| *n > 0);
        Stats {
            calls: self.loads.iter().map(|l| l.answered_calls() as u64).sum(),
            histories: self.histories,
            undecided: self.undecided,
            faults,
            events: self.cluster.world.trace.events(),
            simulated: self.cluster.world.now().since(Instant(0)),
            hash: self.cluster.world.trace.hash(),
        }
    }
}
