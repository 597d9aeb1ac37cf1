//! Two ranks with the same objects: subtrees that move, whoever of the two dies meanwhile.

mod world;

use maps::MdsRank;
use mds::{MdsOptions, RankPeer, RankStatus};
use msgs::{ClientRequest, cap, cap_op};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::Rng;
use world::World;
use world::client::{create, getattr, lookup, mkdir, request};
use world::pair::ino;

const A: u64 = 10;
/// `O_RDWR`.
const READ_WRITE: u32 = 2;

/// Two ranks. Objects are with the one that is being run.
struct Ranks {
    worlds: [World; 2],
    objects_at: usize,
    rng: Rng,
}

impl Ranks {
    /// A client has a session with both.
    fn new(seed: u64) -> Self {
        let mut first = World::new(seed, MdsOptions::default());
        first.connect(A);
        let objects = std::mem::take(&mut first.objects);
        let second = World::of_rank(seed + 1, MdsOptions::default(), 1, objects);
        let mut ranks = Self { worlds: [first, second], objects_at: 1, rng: Rng::from_seed(seed) };
        ranks.with(1, |w| w.connect(A));
        ranks.tell_ranks();
        ranks
    }

    fn with<T>(&mut self, rank: usize, act: impl FnOnce(&mut World) -> T) -> T {
        if self.objects_at != rank {
            let [first, second] = &mut self.worlds;
            std::mem::swap(&mut first.objects, &mut second.objects);
            self.objects_at = rank;
        }
        let result = act(&mut self.worlds[rank]);
        self.follow_imports(rank);
        result
    }

    /// What the client hears of one rank concerns what it holds of the other.
    fn follow_imports(&mut self, rank: usize) {
        let Some(client) = self.worlds[rank].clients.get_mut(&A) else { return };
        for import in std::mem::take(&mut client.imported) {
            let other = self.worlds[import.former.mds as usize].clients.get_mut(&A).expect("a");
            if other.held.get(&import.ino).is_some_and(|held| held.cap_id == import.former.cap_id) {
                other.held.remove(&import.ino);
            }
        }
    }

    fn tell_ranks(&mut self) {
        for rank in 0..2 {
            let other = MdsRank(1 - rank as i32);
            let status = RankStatus { incarnation: 1, is_active: true };
            self.with(rank, |w| {
                w.rank.set_ranks(w.now, BTreeMap::from([(other, status)]));
                w.effects();
            });
        }
    }

    /// Delivers a message between the ranks, ends an object operation, or lets some time pass.
    fn step(&mut self) {
        for rank in [0, 1] {
            if self.worlds[rank].to_ranks.is_empty() || self.rng.chance(1, 2) {
                continue;
            }
            let (to, body) = self.worlds[rank].to_ranks.remove(0);
            let body = peer::Body::from_raw(body.to_raw(0)).expect("own messages decode").1;
            let from = RankPeer { rank: MdsRank(rank as i32), incarnation: 1 };
            return self.with(to.0 as usize, |w| {
                w.rank.peer_message(w.now, from, body);
                w.effects();
            });
        }
        let rank = self.rng.below(2) as usize;
        let has_stepped = self.with(rank, World::io_step);
        if !has_stepped {
            (0..2).for_each(|rank| self.with(rank, |w| w.advance(Duration::from_millis(5))));
        }
    }

    /// Runs until nothing is on its way.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            let is_quiet = |w: &World| w.rank.is_quiet() && w.to_ranks.is_empty() && w.in_flight.is_empty();
            if self.worlds.iter().all(is_quiet) {
                return;
            }
            self.step();
        }
        panic!("it never ends");
    }

    fn ok(&mut self, rank: usize, request: ClientRequest) -> msgs::ClientReply {
        let what = format!("{} {}", request.op, String::from_utf8_lossy(&request.path.path));
        let reply = self.with(rank, |w| w.call(A, request));
        assert_eq!(reply.result, 0, "{what} at rank {rank}");
        reply
    }

    /// The rank to which a request is forwarded, and how often it was.
    fn forwarded(&mut self, rank: usize, request: ClientRequest) -> (i32, u32) {
        self.with(rank, |w| {
            let tid = w.start(A, request);
            w.quiet();
            w.clients.get_mut(&A).expect("a").forwards.remove(&tid).expect("it is forwarded")
        })
    }

    fn export(&mut self, rank: usize, path: &str, to: i32) {
        self.with(rank, |w| {
            w.rank.export_dir(path, MdsRank(to)).expect("it can be handed over");
            w.effects();
        });
    }

    /// The ranks that say that they have the authority over a path.
    fn authorities(&self, path: &str) -> Vec<usize> {
        let has_it = |rank: &usize| {
            let list = self.worlds[*rank].rank.subtree_list();
            let all = list.as_array().expect("a list").iter();
            let is_above =
                |root: &str| path == root || path.starts_with(&format!("{root}/")) || root.is_empty();
            let path_of =
                |one: &serde_json::Value| one["dir"]["path"].as_str().unwrap_or_default().to_owned();
            let nearest = all.filter(|one| is_above(&path_of(one))).max_by_key(|one| path_of(one).len());
            nearest.is_some_and(|one| one["is_auth"] == true && one["auth_second"] == -2)
        };
        (0..2).filter(has_it).collect()
    }

    fn held(&self, rank: usize) -> BTreeMap<u64, u32> {
        let held = self.worlds[rank].clients[&A].held.iter();
        held.map(|(ino, held)| (*ino, held.caps & !cap::PIN)).collect()
    }

    /// A rank dies and another server takes it.
    fn crash(&mut self, rank: usize) {
        // What it was about to say is lost with it, and what it was told.
        self.worlds.iter_mut().for_each(|w| w.to_ranks.clear());
        self.with(rank, |w| w.restart(&[A]));
        self.tell_ranks();
    }
}

#[test]
fn a_subtree_moves_with_what_clients_hold_in_it() {
    let mut r = Ranks::new(1);
    r.ok(0, mkdir("d"));
    r.ok(0, mkdir("d/sub"));
    let file = ino(&r.ok(0, create("d/sub/f", READ_WRITE)));
    let before = r.held(0);
    assert!(before[&file] & cap::FILE_WR != 0);
    r.export(0, "/d", 1);
    r.settle();
    assert_eq!((r.authorities("/d"), r.authorities("/")), (vec![1], vec![0]));
    let (left, here) = (r.held(0), r.held(1));
    assert_eq!(left.keys().copied().collect::<Vec<_>>(), [1], "the root alone is rank 0's");
    assert_eq!(here[&file], before[&file], "nothing is lost on the way");

    let [export, import] = [0, 1].map(|rank: usize| r.worlds[rank].clients[&A].moved[&file].clone());
    assert_eq!((export.op, import.op), (cap_op::EXPORT, cap_op::IMPORT));
    let msgs::CapBody::Peer(next) = export.body else { panic!("an export names the other side") };
    assert_eq!((next.cap_id, next.issue_seq, next.mseq), (import.cap_id, import.seq, import.migrate_seq));
    assert_eq!((next.mds, import.former.mds, import.former.cap_id), (1, 0, export.cap_id));
    assert_eq!(
        import.migrate_seq,
        import.former.mseq + 1,
        "clients take the greater one for the authority's"
    );

    assert_eq!(r.forwarded(0, getattr("d/sub/f", 0)), (1, 1));
    assert_eq!(r.forwarded(1, mkdir("e")), (0, 1));
    assert_eq!(r.forwarded(1, ClientRequest { num_fwd: 3, ..mkdir("e") }), (0, 4));
    let made = ino(&r.ok(1, create("d/g", READ_WRITE)));
    assert_eq!(made >> 40, 2, "each rank has numbers of its own");
    assert_eq!(ino(&r.ok(1, getattr("d/sub/f", 0))), file);
    let shown = r.ok(0, lookup("d"));
    assert_eq!(shown.trace.target.expect("a copy").cap.cap_id, 0, "only its own rank gives a capability");
    assert_eq!(r.with(0, |w| w.names(A, "")), Ok(BTreeSet::from(["d".to_owned()])));
}

#[test]
fn a_subtree_that_comes_back_is_part_of_the_one_around_it() {
    let mut r = Ranks::new(2);
    r.ok(0, mkdir("d"));
    r.export(0, "/d", 1);
    r.settle();
    r.ok(1, create("d/f", READ_WRITE));
    r.export(1, "/d", 0);
    r.settle();
    assert_eq!(r.authorities("/d"), [0]);
    for w in &r.worlds {
        assert_eq!(w.rank.subtree_list().as_array().map(Vec::len), Some(1), "there is no subtree any more");
    }
    assert_eq!(r.with(0, |w| w.names(A, "d")), Ok(BTreeSet::from(["f".to_owned()])));
    let left = |w: &World| w.objects.keys().any(|o| o.name.ends_with(".inode") && o.name.len() > 20);
    assert!(!r.worlds.iter().any(left), "nor is its root stored alone");
}

#[test]
fn operations_bring_together_what_they_need() {
    let mut r = Ranks::new(3);
    for path in ["d", "e", "d/sub"] {
        r.ok(0, mkdir(path));
    }
    let file = ino(&r.ok(0, create("d/sub/f", READ_WRITE)));
    r.export(0, "/d", 1);
    r.settle();
    // From the other rank, and then the directory above a subtree.
    let rename = |from: &str, to: &str| ClientRequest {
        path2: world::client::at_root(from),
        ..request(msgs::MdsOp::RENAME, to)
    };
    for (from, to) in [("d/sub/f", "e/f"), ("d", "e/d")] {
        r.with(0, |w| w.start(A, rename(from, to)));
        let tid = r.worlds[0].clients[&A].next_tid - 1;
        r.settle();
        assert_eq!(r.with(0, |w| w.reply(A, tid)).result, 0, "{from} -> {to}");
        assert_eq!(r.authorities("/d"), [0]);
        if from != "d" {
            r.export(0, "/d", 1);
            r.settle();
        }
    }
    assert_eq!(ino(&r.ok(0, getattr("e/f", 0))), file);
    assert_eq!(r.with(0, |w| w.names(A, "e")), Ok(["d", "f"].map(str::to_owned).into()));
}

#[test]
fn snapshots_and_subtrees_exclude_each_other() {
    let mut r = Ranks::new(4);
    r.ok(0, mkdir("d"));
    r.export(0, "/d", 1);
    r.settle();
    r.with(0, |w| w.start(A, request(msgs::MdsOp::MKSNAP, "s")));
    let tid = r.worlds[0].clients[&A].next_tid - 1;
    r.settle();
    assert_eq!(r.with(0, |w| w.reply(A, tid)).result, 0);
    assert_eq!(r.authorities("/d"), [0]);
    assert!(r.with(0, |w| w.rank.export_dir("/d", MdsRank(1))).is_err());
}

/// Whichever of the ranks dies at whichever moment of a migration: one of them has the subtree in the end,
/// with all that was in it and all that the client holds.
#[test]
fn a_migration_survives_the_death_of_either_rank_at_any_moment() {
    for seed in stdx::test_seeds("NACRE_RANKS", 120) {
        let mut r = Ranks::new(seed);
        r.ok(0, mkdir("d"));
        r.ok(0, mkdir("d/sub"));
        let file = ino(&r.ok(0, create("d/sub/f", READ_WRITE)));
        let writes = r.held(0)[&file] & (cap::FILE_WR | cap::FILE_BUFFER);
        if seed % 3 == 0 {
            // Back and forth.
            r.export(0, "/d", 1);
            r.settle();
        }
        let from = usize::from(seed % 3 == 0);
        r.export(from, "/d", 1 - from as i32);
        for _ in 0..seed / 2 {
            r.step();
        }
        let dies = r.rng.below(3) as usize;
        match dies {
            2 => (0..2).for_each(|rank| r.crash(rank)),
            rank => r.crash(rank),
        }
        r.settle();
        let has_it = r.authorities("/d");
        assert_eq!(has_it.len(), 1, "seed {seed}: {has_it:?}");
        let rank = has_it[0];
        assert_eq!(ino(&r.ok(rank, getattr("d/sub/f", 0))), file, "seed {seed}");
        let held: u32 = (0..2).filter_map(|rank| r.held(rank).get(&file).copied()).fold(0, |a, b| a | b);
        assert_eq!(held & writes, writes, "seed {seed}: the file is open still");
        assert!(!r.held(1 - rank).contains_key(&file), "seed {seed}: and by one rank");
        r.ok(rank, create("d/g", READ_WRITE));
        assert_eq!(r.forwarded(1 - rank, getattr("d/g", 0)).0, rank as i32, "seed {seed}");
    }
}

/// What there is, by path; true for directories.
type Model = BTreeMap<String, bool>;

impl Ranks {
    /// Sends a request to a rank, and where that sends it, until it is answered.
    fn ask(&mut self, mut rank: usize, mut request: ClientRequest) -> i32 {
        loop {
            let tid = self.with(rank, |w| w.start(A, request.clone()));
            for n in 0.. {
                let client = self.worlds[rank].clients.get_mut(&A).expect("a");
                if let Some(reply) = client.replies.remove(&tid) {
                    return reply.result;
                }
                if let Some((to, num_fwd)) = client.forwards.remove(&tid) {
                    assert!(num_fwd < 16, "{} {:?} is sent around", request.op, request.path);
                    (rank, request.num_fwd) = (to as usize, num_fwd);
                    break;
                }
                assert!(n < 20_000, "{} {:?} is not answered", request.op, request.path);
                self.step();
            }
        }
    }

    /// A path in the model that is a directory, or anything.
    fn pick(&mut self, model: &Model, is_dir: bool) -> String {
        let all: Vec<&String> =
            model.iter().filter(|(_, dir)| !is_dir || **dir).map(|(path, _)| path).collect();
        all[self.rng.below(all.len() as u64) as usize].clone()
    }
}

fn below(dir: &str, name: u64) -> String {
    if dir.is_empty() { format!("n{name}") } else { format!("{dir}/n{name}") }
}

fn is_in(path: &str, dir: &str) -> bool {
    path == dir || path.starts_with(&format!("{dir}/"))
}

/// One random operation, which has to do what it would with one rank.
fn operate(r: &mut Ranks, model: &mut Model, name: u64) {
    use msgs::MdsOp;
    let rank = r.rng.below(2) as usize;
    let (dir, any) = (r.pick(model, true), r.pick(model, false));
    let new = below(&dir, name);
    match r.rng.below(8) {
        0 | 1 => {
            assert_eq!(r.ask(rank, create(&new, READ_WRITE)), 0, "create {new}");
            model.insert(new, false);
        }
        2 => {
            assert_eq!(r.ask(rank, mkdir(&new)), 0, "mkdir {new}");
            model.insert(new, true);
        }
        3 | 4 if !any.is_empty() && !is_in(&dir, &any) => {
            let rename =
                ClientRequest { path2: world::client::at_root(&any), ..request(MdsOp::RENAME, &new) };
            assert_eq!(r.ask(rank, rename), 0, "rename {any} {new}");
            let moved: Vec<String> = model.keys().filter(|path| is_in(path, &any)).cloned().collect();
            for path in moved {
                let is_dir = model.remove(&path).expect("just listed");
                model.insert(format!("{new}{}", &path[any.len()..]), is_dir);
            }
        }
        5 if !any.is_empty() => {
            let has_entries = model.keys().any(|path| path != &any && is_in(path, &any));
            let op = if model[&any] { MdsOp::RMDIR } else { MdsOp::UNLINK };
            let expected = if has_entries { wire::Errno::ENOTEMPTY.to_result_code() } else { 0 };
            assert_eq!(r.ask(rank, request(op, &any)), expected, "remove {any}");
            if !has_entries {
                model.remove(&any);
            }
        }
        6 if !dir.is_empty() => {
            let to = r.rng.below(2) as i32;
            // It may have nothing to hand over, or be busy.
            let _ = r.with(rank, |w| w.rank.export_dir(&dir, MdsRank(to)));
        }
        _ => {
            assert_eq!(r.ask(rank, getattr(&any, 0)), 0, "getattr {any}");
            let gone = below(&dir, 0);
            let enoent = wire::Errno::ENOENT.to_result_code();
            assert_eq!(r.ask(rank, lookup(&gone)), enoent, "lookup {gone}");
        }
    }
}

/// Random operations while directories move and servers die: what there is in the end is what was done.
#[test]
fn operations_do_the_same_with_two_ranks_as_with_one() {
    for seed in stdx::test_seeds("NACRE_RANKS", 40) {
        let mut r = Ranks::new(1000 + seed);
        let mut model = Model::from([(String::new(), true)]);
        for name in 1..120 {
            operate(&mut r, &mut model, name);
            for _ in 0..r.rng.below(6) {
                r.step();
            }
            if r.rng.chance(1, 25) {
                let rank = r.rng.below(2) as usize;
                r.crash(rank);
            }
        }
        r.settle();
        for (path, is_dir) in &model {
            assert_eq!(r.ask(0, getattr(path, 0)), 0, "seed {seed}: {path}");
            assert_eq!(r.authorities(&format!("/{path}")).len(), 1, "seed {seed}: {path}");
            if *is_dir {
                let rank = r.authorities(&format!("/{path}"))[0];
                let inside = model.keys().filter(|other| {
                    other.rsplit_once('/').map_or("", |(dir, _)| dir) == path && !other.is_empty()
                });
                let inside: BTreeSet<String> =
                    inside.map(|other| other.rsplit('/').next().expect("a name").to_owned()).collect();
                assert_eq!(r.with(rank, |w| w.names(A, path)), Ok(inside), "seed {seed}: {path}");
            }
        }
    }
}
