//! A client that creates and unlinks asynchronously as Linux does, one that works in the same directories,
//! and crashes at any point. What the first has told its callers is what the second sees.

mod world;

use mds::MdsOptions;
use msgs::{ClientReply, ClientRequest, MdsOp, ReaddirReply, cap};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use wire::Errno;
use world::client::{
    Held, TAKEN, asynchronous, create, getattr, lookup, mkdir, next_page, readdir_of, request,
};
use world::pair::{A, B, caps, ino};
use world::{ROOMY, TINY, World};

const CREATES: u32 = cap::FILE_EXCL | cap::DIR_CREATE;
const UNLINKS: u32 = cap::FILE_EXCL | cap::DIR_UNLINK;
const WANTED: u32 = CREATES | UNLINKS;
const DIRS: u64 = 3;
const NAMES: u64 = 6;

/// An asynchronous request without an answer.
struct Asked {
    tid: u64,
    dir: u64,
    /// The path, and the number if it creates.
    path: String,
    number: Option<u64>,
}

struct Run {
    w: World,
    /// Directories by name: their inodes.
    dirs: BTreeMap<u64, u64>,
    /// The files that are there, as A has told its callers.
    files: BTreeSet<String>,
    asked: Vec<Asked>,
    /// Requests of A that have not arrived.
    on_the_way: VecDeque<(u64, ClientRequest)>,
    asynchronous: usize,
    synchronous: usize,
}

impl Run {
    fn new(seed: u64, options: MdsOptions) -> Self {
        let mut w = World::new(seed, options);
        w.connect(A);
        w.connect(B);
        w.call(A, getattr("", 0));
        let (dirs, files) = (BTreeMap::new(), BTreeSet::new());
        let (asked, on_the_way) = (Vec::new(), VecDeque::new());
        let mut run = Self { w, dirs, files, asked, on_the_way, asynchronous: 0, synchronous: 0 };
        run.want(1);
        for dir in 0..DIRS {
            let made = ino(&run.w.call(A, mkdir(&format!("d{dir}"))));
            run.dirs.insert(dir, made);
        }
        run.w.clients.get_mut(&A).expect("a").stubborn = true;
        run
    }

    fn want(&mut self, dir: u64) {
        let c = self.w.clients.get_mut(&A).expect("a");
        let Some(held) = c.held.get_mut(&dir).filter(|_| !c.unconfirmed.contains(&dir)) else { return };
        held.wanted |= WANTED;
        let (tid, update) = c.update(dir);
        self.w.send(A, tid, update);
    }

    /// The next request of A arrives.
    fn arrive(&mut self) -> bool {
        let Some((tid, request)) = self.on_the_way.pop_front() else { return false };
        self.w.send(A, tid, request);
        self.take_answers();
        true
    }

    /// A takes the answers to what it did asynchronously, and gives up what it does not use any more.
    fn take_answers(&mut self) {
        loop {
            let c = self.w.clients.get_mut(&A).expect("a");
            for asked in std::mem::take(&mut self.asked) {
                let Some(reply) = c.replies.remove(&asked.tid) else {
                    self.asked.push(asked);
                    continue;
                };
                assert_eq!(reply.result, 0, "{}: its caller was told that it succeeded", asked.path);
                let made = reply.trace.target.map(|t| (t.ino, t.cap.caps & TAKEN));
                assert_eq!(made, asked.number.map(|number| (number, TAKEN)), "{}", asked.path);
            }
            let is_used = |dir: &u64| self.asked.iter().any(|asked| asked.dir == *dir);
            let given_up = c.unconfirmed.iter().find(|dir| !is_used(dir)).copied();
            let Some(given_up) = given_up else { return };
            c.unconfirmed.remove(&given_up);
            if c.held.contains_key(&given_up) {
                let (tid, update) = c.update(given_up);
                self.w.send(A, tid, update);
            }
        }
    }

    fn some_path(&mut self) -> (u64, String) {
        let (dir, name) = (self.w.rng.below(DIRS), self.w.rng.below(NAMES));
        (self.dirs[&dir], format!("d{dir}/{name}"))
    }

    /// Runs until a request is answered, whatever else happens meanwhile.
    fn call(&mut self, client: u64, request: ClientRequest) -> ClientReply {
        if client == A {
            while self.arrive() {}
        }
        let tid = self.w.start(client, request);
        while !self.w.clients[&client].replies.contains_key(&tid) {
            self.progress();
        }
        self.w.reply(client, tid)
    }

    /// Something happens; if nothing is under way, time passes.
    fn progress(&mut self) {
        if !(self.w.rng.chance(1, 2) && self.arrive() || self.w.io_step() || self.arrive()) {
            self.w.advance(Duration::from_millis(20));
        }
        self.take_answers();
    }

    /// A creates or unlinks, asynchronously if it may.
    fn change(&mut self) {
        let (dir, path) = self.some_path();
        let held = caps(&self.w, A, dir);
        let is_there = self.files.contains(&path);
        // Of a name that is being made or removed, Linux does not know enough.
        let is_busy = self.asked.iter().any(|asked| asked.path == path);
        let has_number = !self.w.clients[&A].delegated.is_empty();
        if !is_there && held & CREATES == CREATES && has_number && !is_busy {
            let (number, request) = self.w.clients.get_mut(&A).expect("a").create_async(&path);
            self.ask(dir, path.clone(), Some(number), request);
            self.files.insert(path);
        } else if is_there && held & UNLINKS == UNLINKS && !is_busy {
            self.ask(dir, path.clone(), None, asynchronous(request(MdsOp::UNLINK, &path)));
            self.files.remove(&path);
        } else {
            while self.asked.iter().any(|asked| asked.path == path) {
                // Linux waits for the answer of an unlink before it uses the name again.
                self.progress();
            }
            self.synchronous += 1;
            let (wanted, request) = match is_there {
                true => (0, request(MdsOp::UNLINK, &path)),
                false => (0, create(&path, 0o202)),
            };
            assert_eq!(self.call(A, request).result, wanted, "{path}");
            self.toggle(path);
            self.want(dir);
        }
    }

    fn toggle(&mut self, path: String) {
        if !self.files.remove(&path) {
            self.files.insert(path);
        }
    }

    fn ask(&mut self, dir: u64, path: String, number: Option<u64>, request: ClientRequest) {
        let c = self.w.clients.get_mut(&A).expect("a");
        let (tid, request) = c.number(request, self.w.now);
        if let Some(number) = number {
            c.held.insert(number, Held { cap_id: 1, caps: TAKEN, wanted: TAKEN, ..Held::default() });
        }
        self.asked.push(Asked { tid, dir, path, number });
        self.on_the_way.push_back((tid, request));
        self.asynchronous += 1;
    }

    /// B looks or changes: it finds what A has told its callers.
    fn look(&mut self) {
        let (_, path) = self.some_path();
        let found = |is_there: bool| if is_there { 0 } else { Errno::ENOENT.to_result_code() };
        match self.w.rng.below(4) {
            0 => {
                let wanted = found(self.files.contains(&path));
                assert_eq!(self.call(B, lookup(&path)).result, wanted, "{path}");
            }
            1 => {
                let dir = path.split('/').next().expect("a directory").to_owned();
                let name = |name: &[u8]| format!("{dir}/{}", String::from_utf8_lossy(name));
                let (mut names, mut next) = (BTreeSet::new(), Some((0, Vec::new())));
                while let Some((frag, after)) = next {
                    let reply = self.call(B, readdir_of(frag, &dir, &after, 100));
                    let listing: ReaddirReply = wire::Reader::new(&reply.extra).get().expect("a listing");
                    names.extend(listing.entries.iter().map(|e| name(&e.name)));
                    next = next_page(&listing);
                }
                let mut wanted = self.files.clone();
                wanted.retain(|file| file.starts_with(&dir));
                assert_eq!(names, wanted);
            }
            2 => {
                let wanted = found(self.files.contains(&path));
                assert_eq!(self.call(B, request(MdsOp::UNLINK, &path)).result, wanted, "{path}");
                self.files.remove(&path);
            }
            _ => {
                let wanted = if self.files.contains(&path) { Errno::EEXIST.to_result_code() } else { 0 };
                assert_eq!(self.call(B, create(&path, 0o202)).result, wanted, "{path}");
                self.files.insert(path);
            }
        }
    }

    /// The server dies. What has not arrived is sent again with what was answered early, and the client loses
    /// its numbers and the rights to work asynchronously.
    fn crash(&mut self) {
        self.on_the_way.clear();
        let c = self.w.clients.get_mut(&A).expect("a");
        for dir in self.dirs.values() {
            if let Some(held) = c.held.get_mut(dir) {
                held.caps &= !(cap::DIR_CREATE | cap::DIR_UNLINK);
            }
        }
        c.unconfirmed.clear();
        self.w.restart(&[A, B]);
        self.take_answers();
        self.w.quiet();
        for client in [A, B] {
            assert!(self.w.clients[&client].lost.is_empty(), "what was answered early is repeated");
        }
    }

    fn step(&mut self) {
        match self.w.rng.below(40) {
            0..20 => self.change(),
            20..28 => drop(self.arrive()),
            28..34 => drop(self.w.io_step()),
            34 if self.w.rng.chance(1, 2) => self.look(),
            35 | 36 => self.w.advance(Duration::from_secs(2)),
            _ => self.w.advance(Duration::from_millis(7)),
        }
        self.take_answers();
    }
}

fn run(seed: u64, options: MdsOptions, crashes: bool) -> (usize, usize) {
    let mut r = Run::new(seed, options);
    for _ in 0..400 {
        r.step();
        if crashes && r.w.rng.chance(1, 60) {
            r.crash();
        }
    }
    for dir in 0..DIRS {
        let made = format!("d{dir}/last");
        assert_eq!(r.call(B, create(&made, 0o202)).result, 0);
        r.files.insert(made);
    }
    r.w.quiet();
    assert!(r.asked.is_empty() && r.w.clients[&A].unsafe_requests.is_empty());
    for (dir, number) in r.dirs.clone() {
        let wanted = r.files.iter().filter(|file| file.starts_with(&format!("d{dir}/"))).count() as u64;
        let stat = r.call(B, getattr(&format!("d{dir}"), cap::FILE_SHARED)).trace.target.expect("it");
        assert_eq!((stat.ino, stat.nfiles), (number, wanted));
    }
    (r.asynchronous, r.synchronous)
}

#[test]
fn others_see_what_was_done_asynchronously() {
    let (mut asynchronous, mut synchronous) = (0, 0);
    for seed in 0..30 {
        let (some, more) = run(seed, if seed % 2 == 0 { ROOMY } else { TINY }, false);
        asynchronous += some;
        synchronous += more;
    }
    assert!(asynchronous > synchronous, "{asynchronous} asynchronous, {synchronous} synchronous");
}

#[test]
fn crashes_lose_nothing_of_what_was_done_asynchronously() {
    for seed in 100..140 {
        run(seed, if seed % 2 == 0 { ROOMY } else { TINY }, true);
    }
}
