//! Clients that lock parts of one file, with fcntl and flock: they try and wait, are interrupted, hold
//! several locks at once, and close the file with locks on it.
//!
//! Two owners on each client take part, so that one client is enough. An owner counts as holding a lock from
//! the answer that grants it to the call that gives it up; no other may be told meanwhile that it holds what
//! conflicts with that. Who was evicted holds nothing, even if it does not know yet.

use super::{ClientWorld, Load};
use crate::host::HostId;
use crate::oracle::late::Told;
use crate::oracle::linear::Judgement;
use fsclient::{Answer, Caller, Errno, Fh, FileLock, FsRequest, Reply, Request};
use node::RequestId;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::{Instant, Rng};

/// The name of the file, which no other load uses; or of a directory with it.
pub const FILE: &str = "locked";
const THINK: Duration = Duration::from_millis(800);
/// Who waits is interrupted after this time at the latest: two that wait for flock and for fcntl locks of
/// each other would wait for ever.
const PATIENCE: Duration = Duration::from_secs(6);
/// Ranges that are locked; the last one stands for the whole file, by flock.
const CELLS: u64 = 3;
const FLOCK: u64 = CELLS - 1;
const OWNERS: u64 = 2;
const ROOT: u64 = 1;
const O_RDWR_CREAT: u32 = 0o102;
const F_RDLCK: u32 = 0;
const F_WRLCK: u32 = 1;
const F_UNLCK: u32 = 2;

/// The load of file locks.
pub struct LockLoad {
    rng: Rng,
    actors: Vec<Actor>,
    /// The file is in a directory, which may be handed over to another rank.
    has_directory: bool,
    pending: BTreeMap<RequestId, usize>,
    left: usize,
    finishing: bool,
    next_token: u64,
    answered: usize,
    wrong: Option<String>,
}

/// An owner of locks.
struct Actor {
    host: HostId,
    owner: u64,
    /// The directory of the file, once it is known.
    dir: Option<u64>,
    /// That was not found.
    makes_dir: bool,
    /// The open file: its handle and its inode.
    file: Option<(Fh, u64)>,
    held: BTreeMap<u64, Held>,
    doing: Option<Doing>,
    next_at: Instant,
    /// Its client was evicted, and it has not opened the file since.
    has_lost: bool,
    /// Cells that it has locked at the end.
    looked: u64,
}

/// A lock that is held.
#[derive(Clone, Copy)]
struct Held {
    exclusive: bool,
    /// Its client was not evicted since.
    counts: bool,
}

#[derive(Clone, Copy, Debug)]
enum Doing {
    LookingUp,
    Making,
    Opening,
    Locking { cell: u64, exclusive: bool, token: u64, interrupt_at: Option<Instant> },
    Unlocking,
    Closing,
}

impl LockLoad {
    /// A load of `calls` calls by these clients.
    pub fn new(rng: Rng, clients: &[HostId], calls: usize, now: Instant) -> Self {
        let owners =
            |host: &HostId| (1..=OWNERS).map(|owner| Actor::new(*host, owner, now)).collect::<Vec<_>>();
        Self {
            rng,
            actors: clients.iter().flat_map(owners).collect(),
            has_directory: false,
            pending: BTreeMap::new(),
            left: calls,
            finishing: false,
            next_token: 1,
            answered: 0,
            wrong: None,
        }
    }

    /// The file is in a directory.
    pub fn in_directory(mut self, has_directory: bool) -> Self {
        self.has_directory = has_directory;
        self.actors.iter_mut().for_each(|actor| actor.dir = (!has_directory).then_some(ROOT));
        self
    }

    fn ask(&mut self, world: &mut ClientWorld, actor: usize, doing: Doing, request: FsRequest) {
        let id = world.request(self.actors[actor].host, Request::Fs(Caller::default(), request));
        self.pending.insert(id, actor);
        self.actors[actor].doing = Some(doing);
    }

    /// Makes an actor's next call, if it has one.
    fn next_call(&mut self, world: &mut ClientWorld, actor: usize) {
        let this = &mut self.actors[actor];
        let Some((fh, _)) = this.file else {
            if self.finishing && this.looked == CELLS {
                return;
            }
            let name = FILE.as_bytes().to_vec();
            let Some(parent) = this.dir else {
                let (doing, request) = match std::mem::take(&mut this.makes_dir) {
                    true => (Doing::Making, FsRequest::Mkdir { parent: ROOT, name, mode: 0o700 }),
                    false => (Doing::LookingUp, FsRequest::Lookup { parent: ROOT, name }),
                };
                return self.ask(world, actor, doing, request);
            };
            let create = FsRequest::Create { parent, name, mode: 0o600, flags: O_RDWR_CREAT };
            return self.ask(world, actor, Doing::Opening, create);
        };
        if this.has_lost || self.finishing && this.looked == CELLS && this.held.is_empty() {
            this.file = None;
            this.dir = this.dir.filter(|dir| *dir == ROOT);
            this.held.clear();
            let release = FsRequest::Release { fh, lock_owner: this.owner };
            return self.ask(world, actor, Doing::Closing, release);
        }
        let held: Vec<u64> = this.held.keys().copied().collect();
        if !held.is_empty() && (self.finishing || self.rng.chance(1, 2)) {
            let cell = *self.rng.pick(&held);
            self.give_up(world, actor, (fh, cell))
        } else if self.finishing {
            let cell = self.actors[actor].looked;
            self.lock(world, actor, (fh, cell, true, true));
        } else if let Some(cell) = Some(self.rng.below(CELLS)).filter(|cell| !held.contains(cell)) {
            let (exclusive, waits) = (self.rng.chance(1, 2), self.rng.chance(2, 3));
            self.lock(world, actor, (fh, cell, exclusive, waits));
        }
    }

    fn give_up(&mut self, world: &mut ClientWorld, actor: usize, (fh, cell): (Fh, u64)) {
        let owner = self.actors[actor].owner;
        if self.rng.chance(1, 6) {
            // As by close(2) of another descriptor: all of fcntl's are freed.
            self.actors[actor].held.retain(|cell, _| *cell == FLOCK);
            return self.ask(world, actor, Doing::Unlocking, FsRequest::Flush { fh, lock_owner: owner });
        }
        self.actors[actor].held.remove(&cell);
        let request = set(fh, owner, cell, (F_UNLCK, false, 0));
        self.ask(world, actor, Doing::Unlocking, request);
    }

    fn lock(
        &mut self,
        world: &mut ClientWorld,
        actor: usize,
        (fh, cell, exclusive, waits): (Fh, u64, bool, bool),
    ) {
        let token = self.next_token;
        self.next_token += 1;
        let patience = Duration::from_nanos(self.rng.below(PATIENCE.as_nanos() as u64) + 1);
        let interrupt_at = (waits && !self.finishing).then(|| world.now() + patience);
        let kind = if exclusive { F_WRLCK } else { F_RDLCK };
        let request = set(fh, self.actors[actor].owner, cell, (kind, waits, token));
        self.ask(world, actor, Doing::Locking { cell, exclusive, token, interrupt_at }, request);
    }

    /// An actor was told that it has a lock.
    fn grant(&mut self, actor: usize, cell: u64, exclusive: bool) {
        let this = &mut self.actors[actor];
        let held = Held { exclusive, counts: !this.has_lost };
        this.held.insert(cell, held);
        if self.finishing {
            this.looked = this.looked.max(cell + 1);
        }
        let (Some((_, ino)), true) = (this.file, held.counts) else { return };
        let clashes = |other: &&Actor| {
            let theirs = other.held.get(&cell).filter(|held| held.counts);
            let is_same = other.file.is_some_and(|(_, other)| other == ino);
            is_same && theirs.is_some_and(|theirs| theirs.exclusive || exclusive)
        };
        let others = self.actors.iter().enumerate().filter(|(n, _)| *n != actor).map(|(_, other)| other);
        if let Some(other) = others.into_iter().find(clashes) {
            let (this, other) = (self.actors[actor].name(), other.name());
            let what =
                format!("{this} was given a lock (cell {cell}, exclusive: {exclusive}) that {other} has");
            self.wrong.get_or_insert(what);
        }
    }

    fn take(&mut self, actor: usize, doing: Doing, reply: &Reply) {
        let this = &mut self.actors[actor];
        match (doing, reply) {
            (Doing::Opening, Ok(Answer::Created { entry, fh })) => {
                this.file = Some((*fh, entry.attr.ino));
                this.has_lost = false;
            }
            (Doing::LookingUp, Ok(Answer::Entry(entry))) => this.dir = Some(entry.attr.ino),
            (Doing::LookingUp, _) => this.makes_dir = true,
            // A limit of the root may forbid the file for good. It is not looked whether the file exists.
            (Doing::Opening | Doing::Making, Err(Errno::EDQUOT)) if self.finishing => this.looked = CELLS,
            // The directory was made, but that was lost.
            (Doing::Opening, Err(Errno::ESTALE | Errno::ENOENT)) if this.dir != Some(ROOT) => this.dir = None,
            (Doing::Locking { cell, exclusive, .. }, Ok(_)) => self.grant(actor, cell, exclusive),
            (Doing::Locking { .. }, Err(Errno::EAGAIN | Errno::EINTR | Errno::EDEADLK)) => {}
            // The file was made, but that was lost.
            (Doing::Locking { .. } | Doing::Unlocking, Err(Errno::ESTALE | Errno::ENOENT)) => {
                this.has_lost = true;
            }
            (Doing::Locking { .. } | Doing::Unlocking, Err(errno)) if !this.has_lost => {
                let what =
                    format!("{} gets {errno:?} from {doing:?} without having lost a lock", this.name());
                self.wrong.get_or_insert(what);
            }
            _ => {}
        }
    }

    fn lose(&mut self, host: HostId) {
        for actor in self.actors.iter_mut().filter(|actor| actor.host == host) {
            actor.has_lost = true;
            actor.held.values_mut().for_each(|held| held.counts = false);
        }
    }
}

impl Actor {
    fn new(host: HostId, owner: u64, now: Instant) -> Self {
        Self {
            host,
            owner,
            dir: Some(ROOT),
            makes_dir: false,
            file: None,
            held: BTreeMap::new(),
            doing: None,
            next_at: now,
            has_lost: false,
            looked: 0,
        }
    }

    fn name(&self) -> String {
        format!("owner {} of {:?}", self.owner, self.host)
    }
}

/// The request for a lock, or for its end.
fn set(fh: Fh, owner: u64, cell: u64, (kind, wait, token): (u32, bool, u64)) -> FsRequest {
    let flock = cell == FLOCK;
    let (start, end) = if flock { (0, i64::MAX as u64) } else { (cell * 10, cell * 10 + 9) };
    FsRequest::Setlk { fh, owner, lock: FileLock { start, end, kind, pid: owner as u32 }, wait, flock, token }
}

impl Load for LockLoad {
    fn wants_at(&self) -> Option<Instant> {
        let next = |actor: &Actor| match actor.doing {
            Some(Doing::Locking { interrupt_at, .. }) => interrupt_at,
            Some(_) => None,
            None if self.finishing => {
                let is_done = actor.looked == CELLS && actor.file.is_none();
                (!is_done).then_some(actor.next_at)
            }
            None => (self.left > 0).then_some(actor.next_at),
        };
        self.actors.iter().filter_map(next).min()
    }

    fn issue(&mut self, world: &mut ClientWorld) {
        for actor in 0..self.actors.len() {
            let (now, host) = (world.now(), self.actors[actor].host);
            match &mut self.actors[actor].doing {
                Some(Doing::Locking { token, interrupt_at, .. }) => {
                    if interrupt_at.take_if(|at| *at <= now).is_some() {
                        let interrupt = FsRequest::Interrupt { token: *token };
                        world.request(host, Request::Fs(Caller::default(), interrupt));
                    }
                    continue;
                }
                Some(_) => continue,
                None => {}
            }
            if self.actors[actor].next_at > now || self.left == 0 && !self.finishing {
                continue;
            }
            self.actors[actor].next_at =
                now + Duration::from_nanos(self.rng.below(THINK.as_nanos() as u64) + 1);
            if world.is_up(host) {
                self.left = self.left.saturating_sub(1);
                self.next_call(world, actor);
            }
        }
    }

    fn answered(&mut self, _: &mut ClientWorld, _: HostId, id: RequestId, reply: &Reply) -> bool {
        let Some(actor) = self.pending.remove(&id) else { return false };
        self.answered += 1;
        if let Some(doing) = self.actors[actor].doing.take() {
            self.take(actor, doing, reply);
        }
        true
    }

    fn died(&mut self, host: HostId, now: Instant) {
        let actors = &self.actors;
        self.pending.retain(|_, actor| actors[*actor].host != host);
        for actor in self.actors.iter_mut().filter(|actor| actor.host == host) {
            let looked = actor.looked;
            let dir = actor.dir.filter(|_| !self.has_directory);
            *actor = Actor { looked, dir, ..Actor::new(host, actor.owner, now) };
        }
    }

    fn heard(&mut self, host: HostId, told: &Told) {
        if let Told::SessionLost | Told::Evicted(_) = told {
            self.lose(host);
        }
    }

    fn finish(&mut self, _: &ClientWorld) {
        self.left = 0;
        self.finishing = true;
    }

    fn in_flight(&self) -> Vec<String> {
        let doing = self.actors.iter().filter_map(|actor| Some((actor.name(), actor.doing?)));
        doing.map(|(name, doing)| format!("{name} {doing:?}")).collect()
    }

    fn answered_calls(&self) -> usize {
        self.answered
    }

    fn verdicts(&self) -> Vec<(&'static str, Judgement)> {
        let judgement = Judgement { histories: 1, undecided: 0, wrong: self.wrong.clone() };
        vec![("locks_exclude", judgement)]
    }
}
