//! Several ranks with the same objects, and a client of all.

use super::World;
use super::client::{Held, next_page, readdir_of};
use maps::MdsRank;
use mds::{MdsOptions, RankPeer, RankStatus, Stage};
use msgs::{ClientRequest, cap};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::Rng;

pub const A: u64 = 10;

/// Several ranks. Objects are with the one that is being run.
pub struct Ranks {
    pub worlds: Vec<World>,
    objects_at: usize,
    pub rng: Rng,
    /// The last rank is to stop.
    pub is_stopping: bool,
    /// What has happened, for who looks into a failure.
    trace: Vec<String>,
}

impl Ranks {
    /// Two ranks, and a client that has a session with both.
    pub fn new(seed: u64) -> Self {
        Self::of(seed, 2)
    }

    /// So many ranks, and a client that has a session with each.
    pub fn of(seed: u64, count: u32) -> Self {
        Self::with_options(seed, count, &MdsOptions::default())
    }

    /// The same, with these limits.
    pub fn with_options(seed: u64, count: u32, options: &MdsOptions) -> Self {
        let (mut worlds, mut objects) = (Vec::new(), BTreeMap::new());
        for rank in 0..count {
            let mut w = World::of_rank(seed + u64::from(rank), options.clone(), rank, objects);
            w.connect(A);
            objects = std::mem::take(&mut w.objects);
            worlds.push(w);
        }
        worlds[0].objects = objects;
        let mut ranks =
            Self { worlds, objects_at: 0, rng: Rng::from_seed(seed), is_stopping: false, trace: Vec::new() };
        ranks.tell_ranks();
        ranks
    }

    /// The number of ranks.
    pub fn count(&self) -> usize {
        self.worlds.len()
    }

    /// The last rank, which may stop.
    pub fn last(&self) -> usize {
        self.worlds.len() - 1
    }

    pub fn has_stopped(&self) -> bool {
        self.worlds[self.last()].rank.stage() == Stage::Stopped
    }

    /// One of them.
    pub fn any(&mut self) -> usize {
        self.rng.below(self.worlds.len() as u64) as usize
    }

    /// All objects.
    pub fn objects(&self) -> &BTreeMap<mds::ObjectId, super::Object> {
        &self.worlds[self.objects_at].objects
    }

    pub fn with<T>(&mut self, rank: usize, act: impl FnOnce(&mut World) -> T) -> T {
        if self.objects_at != rank {
            self.worlds[rank].objects = std::mem::take(&mut self.worlds[self.objects_at].objects);
            self.objects_at = rank;
        }
        let known = self.worlds[rank].log.len();
        let result = act(&mut self.worlds[rank]);
        let news = self.worlds[rank].log[known..].iter().map(|line| format!("    {rank}: {line}"));
        self.trace.extend(news);
        self.follow_imports(rank);
        result
    }

    /// What the client hears of one rank concerns what it holds of the other.
    pub fn follow_imports(&mut self, rank: usize) {
        let Some(client) = self.worlds[rank].clients.get_mut(&A) else { return };
        for (ino, held, next) in std::mem::take(&mut client.exported) {
            // It may have been dropped there.
            if next.mds >= 0 {
                let other = self.worlds[next.mds as usize].clients.get_mut(&A).expect("a");
                let held =
                    Held { cap_id: next.cap_id, seq: next.issue_seq, issue_seq: next.issue_seq, ..held };
                other.held.entry(ino).or_insert(held);
            }
        }
        let Some(client) = self.worlds[rank].clients.get_mut(&A) else { return };
        for import in std::mem::take(&mut client.imported) {
            let other = self.worlds[import.former.mds as usize].clients.get_mut(&A).expect("a");
            if other.held.get(&import.ino).is_some_and(|held| held.cap_id == import.former.cap_id) {
                other.held.remove(&import.ino);
            }
        }
    }

    pub fn tell_ranks(&mut self) {
        for rank in 0..self.count() {
            let is_there =
                |other: &usize| *other != rank && self.worlds[*other].rank.stage() != Stage::Stopped;
            let status = |other: usize| {
                let is_stopping = self.is_stopping && other == self.last();
                (MdsRank(other as i32), RankStatus { incarnation: 1, is_active: true, is_stopping })
            };
            let others: BTreeMap<_, _> = (0..self.count()).filter(is_there).map(status).collect();
            self.with(rank, |w| {
                w.others = Some(others.clone());
                w.rank.set_ranks(w.now, others);
                w.effects();
            });
        }
    }

    /// The last rank is to stop, as the map says.
    pub fn stop(&mut self) {
        self.is_stopping = true;
        self.trace.push("the last rank is to stop".to_owned());
        self.tell_ranks();
        self.with(self.last(), |w| {
            w.rank.stop(w.now);
            w.effects();
        });
    }

    /// Runs until the last rank has stopped and nothing is on its way.
    pub fn until_stopped(&mut self) {
        for _ in 0..100_000 {
            if self.has_stopped() {
                self.tell_ranks();
                return self.settle();
            }
            self.step();
        }
        panic!("it never stops");
    }

    /// The last rank starts again, and the client opens a session with it.
    pub fn start(&mut self) {
        self.is_stopping = false;
        self.with(self.last(), |w| {
            w.begin_replay();
            w.until_active(&[]);
            w.connect(A);
        });
        self.tell_ranks();
    }

    /// Delivers a message between the ranks, ends an object operation, or lets some time pass.
    pub fn step(&mut self) {
        let last = MdsRank(self.last() as i32);
        if self.has_stopped() && self.worlds[0].others.as_ref().is_some_and(|ranks| ranks.contains_key(&last))
        {
            self.tell_ranks();
        }
        for rank in 0..self.count() {
            if self.worlds[rank].to_ranks.is_empty() || self.rng.chance(1, 2) {
                continue;
            }
            let (to, body) = self.worlds[rank].to_ranks.remove(0);
            self.trace.push(format!("  {rank} -> {}: {}", to.0, brief(&body)));
            let body = peer::Body::from_raw(body.to_raw(0)).expect("own messages decode").1;
            let from = RankPeer { rank: MdsRank(rank as i32), incarnation: 1 };
            return self.with(to.0 as usize, |w| {
                w.rank.peer_message(w.now, from, body);
                w.effects();
            });
        }
        let rank = self.any();
        let has_stepped = self.with(rank, World::io_step);
        if !has_stepped {
            let ranks = 0..self.count();
            ranks.for_each(|rank| self.with(rank, |w| w.advance(Duration::from_millis(5))));
        }
    }

    /// True if nothing is on its way.
    pub fn is_quiet(&self) -> bool {
        let is_quiet = |w: &World| w.rank.is_quiet() && w.to_ranks.is_empty() && w.in_flight.is_empty();
        self.worlds.iter().all(is_quiet)
    }

    /// The last thing that has happened between ranks.
    pub fn last_of_trace(&self) -> String {
        self.trace.last().cloned().unwrap_or_default()
    }

    /// Runs until nothing is on its way.
    pub fn settle(&mut self) {
        for _ in 0..100_000 {
            if self.is_quiet() {
                return;
            }
            self.step();
        }
        panic!("it never ends");
    }

    /// So many seconds pass in which nobody asks for anything.
    pub fn idle(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.settle();
            (0..self.count()).for_each(|rank| self.with(rank, |w| w.advance(Duration::from_secs(1))));
        }
        self.settle();
    }

    pub fn ok(&mut self, rank: usize, request: ClientRequest) -> msgs::ClientReply {
        let what = format!("{} {}", request.op, String::from_utf8_lossy(&request.path.path));
        let reply = self.with(rank, |w| w.call(A, request));
        assert_eq!(reply.result, 0, "{what} at rank {rank}");
        reply
    }

    /// A request for which subtrees may have to move.
    pub fn moves(&mut self, rank: usize, request: ClientRequest) -> msgs::ClientReply {
        let tid = self.with(rank, |w| w.start(A, request));
        self.settle();
        self.with(rank, |w| w.reply(A, tid))
    }

    /// The rank to which a request is forwarded, and how often it was.
    pub fn forwarded(&mut self, rank: usize, request: ClientRequest) -> (i32, u32) {
        self.with(rank, |w| {
            let tid = w.start(A, request);
            w.quiet();
            w.clients.get_mut(&A).expect("a").forwards.remove(&tid).expect("it is forwarded")
        })
    }

    pub fn export(&mut self, rank: usize, path: &str, to: i32) {
        self.with(rank, |w| {
            w.rank.export_dir(path, None, MdsRank(to)).expect("it can be handed over");
            w.effects();
        });
    }

    /// The ranks that say that they have the authority over a path.
    pub fn authorities(&self, path: &str) -> Vec<usize> {
        let has_it = |rank: &usize| {
            let list = self.worlds[*rank].rank.subtree_list();
            // Shards are where their directory is, as far as paths tell.
            let is_shard = |one: &&serde_json::Value| {
                one["dir"]["dirfrag"].as_str().is_some_and(|root| root.contains('.'))
            };
            let all = list.as_array().expect("a list").iter().filter(|one| !is_shard(one));
            let is_above =
                |root: &str| path == root || path.starts_with(&format!("{root}/")) || root.is_empty();
            let path_of =
                |one: &serde_json::Value| one["dir"]["path"].as_str().unwrap_or_default().to_owned();
            let nearest = all.filter(|one| is_above(&path_of(one))).max_by_key(|one| path_of(one).len());
            nearest.is_some_and(|one| one["is_auth"] == true && one["auth_second"] == -2)
        };
        (0..self.count()).filter(has_it).collect()
    }

    pub fn held(&self, rank: usize) -> BTreeMap<u64, u32> {
        let held = self.worlds[rank].clients[&A].held.iter();
        held.map(|(ino, held)| (*ino, held.caps & !cap::PIN)).collect()
    }

    /// A rank dies and another server takes it.
    pub fn crash(&mut self, rank: usize) {
        self.trace.push(format!("rank {rank} dies"));
        // What it was about to say is lost with it, and what it was told.
        self.worlds.iter_mut().for_each(|w| w.to_ranks.clear());
        self.with(rank, |w| {
            let back = if w.clients[&A].open { &[A][..] } else { &[] };
            w.restart(back);
        });
        self.tell_ranks();
        if self.is_stopping {
            self.stop();
        }
    }

    /// The names in a directory, wherever it is.
    pub fn names(&mut self, path: &str) -> Result<BTreeSet<String>, i32> {
        let (mut names, mut next) = (BTreeSet::new(), Some((0, Vec::new())));
        while let Some((frag, after)) = next {
            let reply = self.ask_for(0, readdir_of(frag, path, &after, 50));
            if reply.result != 0 {
                return Err(reply.result);
            }
            let listing: msgs::ReaddirReply = wire::Reader::new(&reply.extra).get().expect("a listing");
            names.extend(listing.entries.iter().map(|e| String::from_utf8_lossy(&e.name).into_owned()));
            next = next_page(&listing);
        }
        Ok(names)
    }

    /// Sends a request to a rank, and where that sends it, until it is answered.
    pub fn ask(&mut self, rank: usize, request: ClientRequest) -> i32 {
        self.ask_for(rank, request).result
    }

    /// The same, with all of the answer.
    pub fn ask_for(&mut self, rank: usize, request: ClientRequest) -> msgs::ClientReply {
        self.ask_at(rank, request).1
    }

    /// The same, with the rank that has answered.
    pub fn ask_at(&mut self, mut rank: usize, mut request: ClientRequest) -> (usize, msgs::ClientReply) {
        loop {
            if !self.worlds[rank].clients[&A].open || rank == self.last() && self.has_stopped() {
                // Its session is closed: the client asks the rank of the root.
                rank = 0;
                self.step();
            }
            let path = |path: &msgs::FilePath| String::from_utf8_lossy(&path.path).into_owned();
            let paths = (path(&request.path), path(&request.path2));
            self.trace.push(format!("{rank} is asked: {} {} {}", request.op, paths.0, paths.1));
            let tid = self.with(rank, |w| w.start(A, request.clone()));
            for n in 0.. {
                let client = self.worlds[rank].clients.get_mut(&A).expect("a");
                if let Some(reply) = client.replies.remove(&tid) {
                    return (rank, reply);
                }
                if let Some((to, num_fwd)) = client.forwards.remove(&tid) {
                    assert!(num_fwd < 200, "{} {:?} is sent around", request.op, request.path);
                    (rank, request.num_fwd) = (to as usize, num_fwd);
                    self.step();
                    break;
                }
                if !client.open {
                    // It was closed before the request came.
                    break;
                }
                if n == 20_000 {
                    panic!("{} {:?} is not answered by rank {rank}", request.op, request.path);
                }
                self.step();
            }
        }
    }
}

/// A message without its content.
fn brief(body: &peer::Body) -> String {
    match body {
        peer::Body::MdsHandOver(m) => format!("hands over {:x}", m.root),
        peer::Body::MdsHandAhead(m) => format!("sends ahead of {:x}: {} files", m.root, m.entries.len()),
        peer::Body::MdsTaken(m) => format!("has taken {:x}, merged: {}", m.root, m.is_merged),
        peer::Body::MdsAuthority(m) => format!("tells of {:x}, merged: {}", m.root, m.record.is_empty()),
        peer::Body::MdsReplica(m) => format!("gives a replica of {:x}: {} entries", m.dir, m.entries.len()),
        other => format!("{other:?}"),
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.trace.iter().for_each(|line| eprintln!("{line}"));
            for w in &self.worlds {
                eprintln!("{}", w.rank.subtree_list());
                w.rank.op_list().iter().for_each(|op| eprintln!("{op}"));
            }
        }
    }
}
