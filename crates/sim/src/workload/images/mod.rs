//! Clients that use the same block-device images: they write, zero and read at once, so that the exclusive
//! lock goes back and forth; they take snapshots, roll back, resize, clone, flatten and remove images.
//!
//! An image's machine (`block::Image`) lives in a client's process, and dies with it. Its calls are requests
//! to the simulated client, as in `nacre block`. A client that finds itself on the blocklist ends, as that
//! program does, and is started again.
//!
//! - `subject.rs`, `machine.rs`: images and snapshots; an image that a client has open.
//! - `drive.rs` feeds machines and scripts; `image_calls.rs` translates; `acts.rs` makes requests of them and
//!   takes the answers.
//! - `draw.rs` says what clients do next, `ending.rs` what they do at the end.
//! - `locks.rs` is a checker.

mod acts;
mod draw;
mod drive;
mod ending;
mod locks;
mod machine;
mod progress;
mod subject;

use super::{ClientWorld, Load};
use crate::host::HostId;
use crate::image_audit::Expected;
use crate::image_calls::Kind;
use crate::oracle::images::{Caller, History, Writer};
use crate::oracle::linear::Judgement;
use block::{Input, Script};
use fsclient::Reply;
use locks::{Gist, Locks};
use machine::{Machine, Stage};
use node::RequestId;
use progress::Ending;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use stdx::{Instant, Rng};
use subject::{Phase, SnapPhase, Subject};

/// The longest time between two calls of one client.
const THINK: Duration = Duration::from_millis(400);

fn pause(rng: &mut Rng) -> Duration {
    Duration::from_nanos(rng.below(THINK.as_nanos() as u64) + 1)
}

/// A client.
struct Seat {
    host: HostId,
    /// Its present life.
    writer: Writer,
    /// Its address in this life; empty if it has none yet.
    address: String,
    next_at: Instant,
    /// It is on the blocklist, and knows it: it ends.
    is_lost: bool,
}

/// A flow about an image that is not open.
struct Running {
    seat: usize,
    script: Script<()>,
    job: Job,
}

/// What a script does, to the image of this number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Job {
    Make(usize),
    /// Removes what an interrupted removal has left.
    Clean(usize),
}

/// Who waits for the answer to a call.
#[derive(Clone, Copy, Debug)]
enum Whose {
    /// A machine, and its token.
    Machine(u64, u64),
    /// A script, and the position of the call in its step.
    Script(u64, usize),
}

struct Pending {
    whose: Whose,
    kind: Kind,
    gist: Gist,
}

/// The load of images.
pub struct ImageLoad {
    rng: Rng,
    pool: i64,
    /// Seconds that a watch outlives its client.
    watch_timeout: u32,
    seats: Vec<Seat>,
    subjects: Vec<Subject>,
    machines: BTreeMap<u64, Machine>,
    scripts: BTreeMap<u64, Running>,
    pending: BTreeMap<RequestId, Pending>,
    inbox: VecDeque<(u64, Input)>,
    history: History,
    locks: Locks,
    /// Ids of snapshots that were given back to the pool.
    removed: BTreeSet<u64>,
    left: usize,
    next_key: u64,
    next_writer: u32,
    next_value: u32,
    /// Removes everything at the end.
    wipes: bool,
    ending: Option<Ending>,
}

impl ImageLoad {
    /// A load of `calls` calls by these clients on images of a pool.
    pub fn new(mut rng: Rng, clients: &[HostId], pool: i64, calls: usize, now: Instant) -> Self {
        let seat = |host: &HostId| Seat {
            host: *host,
            writer: Writer(0),
            address: String::new(),
            next_at: now,
            is_lost: false,
        };
        Self {
            pool,
            watch_timeout: rng.range(4, 31) as u32,
            seats: clients.iter().map(seat).collect(),
            subjects: Vec::new(),
            machines: BTreeMap::new(),
            scripts: BTreeMap::new(),
            pending: BTreeMap::new(),
            inbox: VecDeque::new(),
            history: History::default(),
            locks: Locks::default(),
            removed: BTreeSet::new(),
            left: calls,
            next_key: 0,
            next_writer: 0,
            next_value: 0,
            wipes: rng.chance(1, 2),
            rng,
            ending: None,
        }
    }

    fn key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    fn caller(&self, seat: usize) -> Caller {
        let writer = self.seats[seat].writer;
        Caller { writer, knows: self.locks.known_to(writer) }
    }

    /// Begins the next life of clients that have started again.
    fn begin_lives(&mut self, world: &ClientWorld) {
        for seat in self.seats.iter_mut().filter(|seat| seat.address.is_empty() && world.is_up(seat.host)) {
            self.next_writer += 1;
            seat.writer = Writer(self.next_writer);
            seat.address = world.address(seat.host).legacy_string();
            self.locks.known_as(seat.address.clone(), seat.writer);
        }
    }

    fn violation(world: &mut ClientWorld, checker: &'static str, what: String) {
        world.violations.push((checker, what));
    }

    /// An error is a finding, unless it is one of these or its client is on the blocklist.
    fn excuse(
        &mut self,
        world: &mut ClientWorld,
        seat: usize,
        what: String,
        error: &block::Error,
        known: &[wire::Errno],
    ) {
        let writer = self.seats[seat].writer;
        if self.locks.is_excluded(writer) {
            self.seats[seat].is_lost |= error.errno == wire::Errno::EBLOCKLISTED;
        } else if !known.contains(&error.errno) {
            Self::violation(world, "images_answer", format!("{writer}: {what}: {}: {error}", error.errno));
        }
    }
}

impl Load for ImageLoad {
    fn wants_at(&self) -> Option<Instant> {
        let machines = self.machines.values().filter_map(|m| m.block.deadline());
        let busy = self.left > 0;
        let seats = self.seats.iter().filter(|_| busy).map(|seat| seat.next_at);
        let ending = self.ending.as_ref().and_then(|e| e.next_at);
        machines.chain(seats).chain(ending).min()
    }

    fn issue(&mut self, world: &mut ClientWorld) {
        self.begin_lives(world);
        let now = world.now();
        let due = |m: &Machine| m.block.deadline().is_some_and(|at| at <= now);
        let due: Vec<u64> = self.machines.iter().filter(|(_, m)| due(m)).map(|(key, _)| *key).collect();
        self.inbox.extend(due.into_iter().map(|key| (key, Input::Timer)));
        self.pump(world);
        for seat in 0..self.seats.len() {
            if self.left == 0 || self.seats[seat].next_at > now {
                continue;
            }
            self.seats[seat].next_at = now + pause(&mut self.rng);
            if world.is_up(self.seats[seat].host) {
                self.left -= 1;
                self.draw(world, seat);
            }
        }
        if self.ending.as_ref().and_then(|e| e.next_at).is_some_and(|at| at <= now) {
            self.go_on_ending(world);
        }
    }

    fn answered(&mut self, world: &mut ClientWorld, host: HostId, id: RequestId, reply: &Reply) -> bool {
        self.take_answer(world, host, id, reply)
    }

    fn died(&mut self, host: HostId, _: Instant) {
        let Some(seat) = self.seats.iter().position(|seat| seat.host == host) else { return };
        self.seats[seat].address.clear();
        self.seats[seat].is_lost = false;
        let of_seat: Vec<u64> =
            self.machines.iter().filter(|(_, m)| m.seat == seat).map(|(key, _)| *key).collect();
        for key in of_seat {
            self.drop_machine(key);
        }
        let scripts: Vec<u64> =
            self.scripts.iter().filter(|(_, s)| s.seat == seat).map(|(key, _)| *key).collect();
        for key in scripts {
            if let Some(Running { job: Job::Make(image), .. }) = self.scripts.remove(&key) {
                self.subjects[image].phase = Phase::Abandoned;
            }
        }
        let (machines, scripts) = (&self.machines, &self.scripts);
        self.pending.retain(|_, p| match p.whose {
            Whose::Machine(key, _) => machines.contains_key(&key),
            Whose::Script(key, _) => scripts.contains_key(&key),
        });
    }

    fn finish(&mut self, world: &ClientWorld) {
        self.left = 0;
        self.ending = Some(Ending::new(world.now()));
    }

    fn in_flight(&self) -> Vec<String> {
        let machines = self.machines.values().filter(|m| !m.is_idle() || !m.plan.is_empty()).map(|m| {
            let waiting: Vec<_> = m.waiting.values().map(|w| &w.act).collect();
            let image = &self.subjects[m.image].new.name;
            format!("client.{} with {image} {:?}: {waiting:?}, then {:?}", m.seat, m.stage, m.plan)
        });
        let scripts = self.scripts.values().map(|s| format!("client.{} {:?} {:?}", s.seat, s.job, s.script));
        let ending = self.ending.as_ref().filter(|e| e.next_at.is_some()).map(|_| "the ending".to_owned());
        machines.chain(scripts).chain(ending).collect()
    }

    fn answered_calls(&self) -> usize {
        self.history.answered()
    }

    fn verdicts(&self) -> Vec<(&'static str, Judgement)> {
        vec![
            ("image_snapshots_constant", self.history.check_snaps()),
            ("images_linearizable", self.history.check()),
        ]
    }

    fn removed_snaps(&self) -> Option<&BTreeSet<u64>> {
        Some(&self.removed)
    }

    fn expected_images(&self) -> Option<Vec<Expected>> {
        let there = |s: &&Subject| s.phase == Phase::Live;
        let expected = |s: &Subject| Expected {
            name: s.new.name.clone(),
            id: s.new.id.clone(),
            snaps: s
                .live_snaps()
                .into_iter()
                .map(|i| (s.snaps[i].name.clone(), s.snaps[i].is_whole))
                .collect(),
        };
        Some(self.subjects.iter().filter(there).map(expected).collect())
    }
}

impl ImageLoad {
    /// Forgets a machine, whose requests get no answer.
    fn drop_machine(&mut self, key: u64) {
        let Some(machine) = self.machines.remove(&key) else { return };
        if machine.waiting.values().any(|w| w.act.is_resizing()) {
            self.subjects[machine.image].resizing = false;
        }
        self.inbox.retain(|(of, _)| *of != key);
    }

    /// True if anybody has an image open, or begins to.
    fn is_open(&self, image: usize) -> bool {
        self.machines.values().any(|m| m.image == image)
    }

    /// A snapshot that exists, of an image that stays.
    fn may_use(&self, image: usize, snap: usize) -> bool {
        self.subjects[image].phase == Phase::Live && self.subjects[image].snaps[snap].phase == SnapPhase::Live
    }

    fn closes(&self, key: u64) -> bool {
        self.machines.get(&key).is_none_or(|m| m.stage == Stage::Closing)
    }
}
