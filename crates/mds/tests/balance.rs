//! The balancer: which rank gets which directories while clients load them.

mod world;

use mds::MdsOptions;
use msgs::{ClientRequest, MdsOp, cap};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use world::client::{create, getattr, lookup_in, mkdir, request};
use world::ranks::{A, Ranks};

/// Requests a second to each directory.
type Load = BTreeMap<String, u64>;

/// Ranks that balance what a client asks of directories.
struct Cluster {
    ranks: Ranks,
    /// The rank that the client believes to have a directory.
    believed: BTreeMap<String, usize>,
    /// Requests that each rank has answered in the last second.
    answered: Vec<u64>,
    seconds: u64,
    /// Subtrees that have moved.
    moved: usize,
    /// The ranks that answer for a directory with replicas, as the last answer says.
    told: BTreeSet<i32>,
}

impl Cluster {
    fn new(seed: u64, count: u32, dirs: &[&str]) -> Self {
        Self::with_options(seed, count, dirs, MdsOptions::default())
    }

    fn with_options(seed: u64, count: u32, dirs: &[&str], options: MdsOptions) -> Self {
        let options = MdsOptions { balance_least: 50, ..options };
        let mut ranks = Ranks::with_options(seed, count, &options);
        for dir in dirs {
            ranks.ok(0, mkdir(dir));
        }
        for w in &mut ranks.worlds {
            w.rank.set_balanced(true);
        }
        let answered = vec![0; count as usize];
        Self { ranks, believed: BTreeMap::new(), answered, seconds: 0, moved: 0, told: BTreeSet::new() }
    }

    /// One request, sent to the rank that had the directory last, and on as that says.
    fn ask(&mut self, dir: &str) {
        let mut rank = self.believed.get(dir).copied().unwrap_or_default();
        let mut request = getattr(dir, 0);
        loop {
            let tid = self.ranks.with(rank, |w| w.start(A, request.clone()));
            for n in 0.. {
                let client = self.ranks.worlds[rank].clients.get_mut(&A).expect("a");
                if let Some(reply) = client.replies.remove(&tid) {
                    assert_eq!(reply.result, 0, "{dir}");
                    self.believed.insert(dir.to_owned(), rank);
                    self.answered[rank] += 1;
                    return;
                }
                if let Some((to, num_fwd)) = client.forwards.remove(&tid) {
                    request = ClientRequest { num_fwd, ..getattr(dir, 0) };
                    rank = to as usize;
                    break;
                }
                assert!(n < 20_000, "{dir} is not answered by rank {rank}");
                self.ranks.step();
            }
        }
    }

    /// Some seconds of a load.
    fn run(&mut self, load: &Load, seconds: u64) {
        for _ in 0..seconds {
            self.answered.fill(0);
            for (dir, count) in load {
                (0..*count).for_each(|_| self.ask(dir));
            }
            for rank in 0..self.ranks.count() {
                self.ranks.with(rank, |w| w.advance(Duration::from_secs(1)));
            }
            self.ranks.settle();
            self.seconds += 1;
        }
        let exported = |line: &&String| line.contains("subtree_exported");
        self.moved = self.ranks.worlds.iter().map(|w| w.log.iter().filter(exported).count()).sum();
    }

    /// The greatest number of requests that a rank has answered in the last second, in parts of the mean.
    fn unevenness(&self) -> f64 {
        let mean = self.answered.iter().sum::<u64>() as f64 / self.answered.len() as f64;
        self.answered.iter().map(|n| *n as f64).fold(0.0, f64::max) / mean
    }
}

fn load(of: &[(&str, u64)]) -> Load {
    of.iter().map(|(dir, n)| ((*dir).to_owned(), *n)).collect()
}

const DIRS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// A load that is even over eight directories, all of which rank 0 has.
fn even() -> Load {
    DIRS.iter().map(|dir| ((*dir).to_owned(), 60)).collect()
}

#[test]
fn directories_go_to_the_ranks_that_have_less_to_do_and_then_stay() {
    for count in [2, 3, 4] {
        let mut c = Cluster::new(u64::from(count), count, &DIRS);
        c.run(&even(), 60);
        let limit = if count == 3 { 1.3 } else { 1.01 };
        assert!(c.unevenness() < limit, "{count} ranks: {:?}", c.answered);
        let moved = c.moved;
        assert!((1..=8).contains(&moved), "{count} ranks: {moved} moved");
        c.run(&even(), 600);
        assert_eq!(c.moved, moved, "{count} ranks: a load that stays as it is moves nothing");
    }
}

#[test]
fn a_load_that_shifts_is_even_again_within_a_minute() {
    let mut c = Cluster::new(5, 2, &DIRS);
    c.run(&even(), 60);
    let at_zero: Vec<&str> = DIRS.into_iter().filter(|dir| c.believed[*dir] == 0).collect();
    assert_eq!(at_zero.len(), 4);
    // What one rank has gets all of the load.
    let shifted: Load = at_zero.iter().map(|dir| ((*dir).to_owned(), 100)).collect();
    c.run(&shifted, 1);
    assert_eq!(c.unevenness(), 2.0);
    c.run(&shifted, 59);
    assert!(c.unevenness() < 1.3, "{:?}", c.answered);
}

#[test]
fn what_is_below_a_busy_directory_is_given_away_in_parts() {
    let mut c = Cluster::new(6, 2, &["home", "home/a", "home/b", "home/b/deep", "var"]);
    let load = load(&[("home/a", 200), ("home/b", 50), ("home/b/deep", 150), ("var", 1)]);
    c.run(&load, 60);
    assert!(c.unevenness() < 1.1, "{:?}", c.answered);
    assert_eq!(c.moved, 1, "one subtree is enough");
    assert_eq!(c.believed["home/b"], c.believed["home/b/deep"], "what is together stays together");
}

/// One directory is only read, more than all others together.
#[test]
fn a_directory_that_many_read_is_answered_for_by_all_ranks_until_nobody_does() {
    for (count, replicate_least) in [(2, 0), (4, 0), (2, 10_000)] {
        let options = MdsOptions { replicate_least, ..MdsOptions::default() };
        let mut c = Cluster::with_options(40 + u64::from(count), count, &["include", "src"], options);
        for n in 0..20 {
            c.ranks.ok(0, request(MdsOp::MKNOD, &format!("include/h{n}")));
        }
        let dir = c.ranks.ok(0, getattr("include", 0)).trace.target.expect("it is there").ino;
        let read = |c: &mut Cluster, seconds: u64| {
            for _ in 0..seconds {
                c.answered.fill(0);
                for n in 0..400_u64 {
                    let told =
                        c.told.iter().copied().nth(n as usize % c.told.len().max(1)).unwrap_or_default();
                    let (rank, reply) =
                        c.ranks.ask_at(told as usize, lookup_in(dir, &format!("h{}", n % 20)));
                    c.told = reply.trace.dentry.expect("a name").dir_stat.dist;
                    c.answered[rank] += 1;
                }
                (0..c.ranks.count()).for_each(|rank| {
                    c.ranks.with(rank, |w| w.advance(Duration::from_secs(1)));
                });
                c.ranks.settle();
            }
        };
        read(&mut c, 60);
        if replicate_least > 0 {
            assert!(c.told.is_empty(), "an administrator wants none for 400 requests a second");
            continue;
        }
        assert_eq!(c.told.len(), count as usize, "all of them answer");
        assert!(c.unevenness() < 1.1, "{count} ranks: {:?}", c.answered);
        c.run(&load(&[("src", 20)]), 120);
        let reply = c.ranks.ok(0, lookup_in(dir, "h1"));
        assert!(reply.trace.dentry.expect("a name").dir_stat.dist.is_empty(), "nobody reads it any more");
    }
}

#[test]
fn little_load_pins_and_a_flag_move_nothing() {
    let mut c = Cluster::new(7, 2, &["a", "b"]);
    c.run(&load(&[("a", 40), ("b", 40)]), 120);
    assert_eq!(c.moved, 0, "it is not worth it");
    c.ranks.worlds.iter_mut().for_each(|w| w.rank.set_balanced(false));
    let much = load(&[("a", 300), ("b", 300)]);
    c.run(&much, 120);
    assert_eq!(c.moved, 0, "it is switched off");
    c.ranks.worlds.iter_mut().for_each(|w| w.rank.set_balanced(true));
    for dir in ["a", "b"] {
        let pin = world::client::setxattr(dir, "ceph.dir.pin", b"0");
        c.ranks.ok(0, pin);
    }
    c.run(&much, 120);
    assert_eq!(c.moved, 0, "they are pinned");
}

/// One that has all of the load stays where it is. Who only reads in it may rely on it.
#[test]
fn a_single_busy_directory_does_not_move_to_and_fro() {
    let mut c = Cluster::new(8, 2, &["a", "b"]);
    c.run(&load(&[("a", 500), ("b", 1)]), 300);
    assert!(c.moved <= 1, "{} moved", c.moved);
}

impl Cluster {
    /// Parts of directories that rank 1 has, and all of them.
    fn shards(&self) -> (usize, usize) {
        let list = self.ranks.worlds[0].rank.subtree_list();
        let all = list.as_array().expect("a list").iter();
        let is_shard =
            |one: &&serde_json::Value| one["dir"]["dirfrag"].as_str().is_some_and(|root| root.contains('.'));
        let shards: Vec<_> = all.filter(is_shard).collect();
        (shards.iter().filter(|one| one["auth_first"] == 1).count(), shards.len())
    }

    /// The number of parts of directories that each rank has.
    fn shards_of_ranks(&self) -> BTreeMap<i64, usize> {
        let list = self.ranks.worlds[0].rank.subtree_list();
        let mut owned = BTreeMap::new();
        for one in list.as_array().expect("a list") {
            if one["dir"]["dirfrag"].as_str().is_some_and(|root| root.contains('.')) {
                *owned.entry(one["auth_first"].as_i64().expect("a rank")).or_default() += 1;
            }
        }
        owned
    }
}

/// Several clients' creates in one directory, for some seconds.
struct Creates {
    files: usize,
}

impl Creates {
    const B: u64 = 11;

    fn begin(c: &mut Cluster) -> Self {
        c.ranks.with(0, |w| w.connect(Self::B));
        Self { files: 0 }
    }

    fn second(&mut self, c: &mut Cluster, count: usize) {
        for _ in 0..count {
            assert_eq!(c.ranks.ask(0, create(&format!("d/f{}", self.files), 2)), 0);
            self.files += 1;
        }
        // The first client does not have the directory alone.
        c.ranks.with(0, |w| w.call(Self::B, getattr("d", cap::ANY_SHARED)));
        c.run(&Load::new(), 1);
    }
}

/// The directory gets as many parts as can be spread evenly, and those leave together.
#[test]
fn a_directory_that_clients_create_in_is_spread_over_all_ranks_at_once() {
    for (count, parts) in [(4, 8), (6, 16)] {
        let mut c = Cluster::new(20 + u64::from(count), count, &["d"]);
        let mut creates = Creates::begin(&mut c);
        let mut seen = Vec::new();
        for _ in 0..40 {
            creates.second(&mut c, 40 * count as usize);
            seen.push(c.shards().1);
        }
        let owned = c.shards_of_ranks();
        let at_zero = parts - c.shards().1;
        let most = owned.values().copied().max().unwrap_or_default().max(at_zero);
        let least = owned.values().copied().min().unwrap_or_default().min(at_zero);
        assert_eq!(owned.len(), count as usize - 1, "{seen:?}");
        assert!(most - least <= 1, "{owned:?}, {at_zero} at rank 0: {seen:?}");
    }
}

/// A directory in which clients create all the while is split, and its parts are spread. When that is over,
/// it is whole again.
#[test]
fn a_directory_that_clients_create_in_is_served_by_several_ranks() {
    let mut c = Cluster::new(9, 2, &["d"]);
    let mut creates = Creates::begin(&mut c);
    let mut seen = Vec::new();
    for _ in 0..120 {
        creates.second(&mut c, 60);
        seen.push(c.shards());
    }
    let (at_one, all) = c.shards();
    assert!((2..=6).contains(&at_one), "{seen:?}");
    assert_eq!(at_one, all, "rank 0 needs none: it has the directory");
    let moved = c.moved;
    let names: std::collections::BTreeSet<String> =
        (0..creates.files).map(|file| format!("f{file}")).collect();
    assert_eq!(c.ranks.names("d"), Ok(names));
    c.run(&Load::new(), 300);
    assert_eq!(c.shards(), (0, 0), "nobody needs them any more");
    assert!(moved <= 8, "{moved} moved: {seen:?}");
}
