//! The world: nodes, links between them, disks and one clock, driven from one seed in one thread.
//!
//! One event at a time is taken from a queue ordered by time; a node handles it and its outputs become new events. Nothing
//! here depends on anything but the seed and the code, so a run can be replayed from its number.

use crate::disk::{Crash, SimDisk};
use crate::faults::Faults;
use crate::link::Links;
use crate::machines::Machines;
use crate::trace::Trace;
use node::{
    CloseReason, ConnId, DiskId, DiskInfo, DiskOp, DiskOpId, Event, Input, Level, Msg, Node, Output, Peer,
    RequestId, Target,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Instant, Now, Rng, Wall};
use wire::{EntityAddr, EntityType};

/// The wall clock at simulated time 0: 2026-01-01.
pub(crate) const EPOCH: u64 = 1_767_225_600_000_000_000;
/// A connection attempt that nobody answers ends after this.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// An operation of a disk takes no longer, however slow that is: kernels give up after half a minute.
const LONGEST_OPERATION: Duration = Duration::from_secs(10);

stdx::ids! {
    /// A place for a node: its host, address and disks, which outlive the node's process.
    pub struct Slot(usize) = "slot{}";
}

/// What a node is made with, at each start.
#[derive(Debug)]
pub struct Boot {
    /// Its address, with a nonce that no earlier start had.
    pub addr: EntityAddr,
    /// Its disks.
    pub disks: Vec<DiskInfo>,
    /// Its randomness.
    pub rng: Rng,
    /// The wall clock, for what is decided before the first input.
    pub wall: Wall,
}

/// Makes a slot's node, at each start anew.
pub type Maker<Req, Rep> = Box<dyn FnMut(Boot) -> Box<dyn Node<Request = Req, Reply = Rep>>>;

/// What a slot is made of.
pub struct SlotSpec<Req, Rep> {
    /// For the trace: `osd.0`.
    pub name: String,
    /// What it is to those who connect; `None` for clients, which listen nowhere.
    pub service: Option<EntityType>,
    /// Where it listens.
    pub addr: SocketAddr,
    /// Sizes of its disks in bytes.
    pub disks: Vec<u64>,
    /// Makes the node.
    pub make: Maker<Req, Rep>,
}

struct Place<Req, Rep> {
    spec: SlotSpec<Req, Rep>,
    node: Option<Box<dyn Node<Request = Req, Reply = Rep>>>,
    /// Counts starts; what was meant for an earlier life is dropped.
    life: u64,
    nonce: u32,
    disks: Vec<SimDisk>,
    keys: Option<Arc<auth::ServerKeys>>,
    global_ids: Arc<auth::GlobalIds>,
    rng: Rng,
    /// This node's clock runs so many millionths fast.
    drift_ppm: i64,
    timer: Option<Instant>,
    ready: bool,
    stopped: Option<Result<(), String>>,
    next_accepted: u64,
    /// Connections that the node believes open: nothing reaches it from others.
    open: BTreeSet<ConnId>,
    /// Its machine has no power: who connects hears nothing, not even a refusal.
    dark: bool,
    /// Its process is stopped for a while; what comes meanwhile waits here, in order.
    paused: Option<Paused<Req>>,
    /// It was asked to end.
    winding_up: bool,
    /// What its disks had refused when it was started.
    refused_before: u64,
    /// Its disks take so many times as long.
    disk_slowness: u64,
    /// By how much its wall clock is wrong, in nanoseconds.
    wall_error: i64,
}

impl<Req, Rep> Place<Req, Rep> {
    /// Operations that its disks have refused since it was made.
    fn refused(&self) -> u64 {
        self.disks.iter().map(|disk| disk.refused).sum()
    }
}

struct Paused<Req> {
    until: Instant,
    held: Vec<Input<Req>>,
    /// Timers that were due meanwhile come behind everything else.
    timers_last: bool,
}

/// Looks at each message as it is sent: (when, sender, receiver, message). What it finds wrong it says, as (checker, what).
pub type Observer = Box<dyn FnMut(Instant, Slot, Slot, &Msg) -> Option<(&'static str, String)>>;

/// One end of a connection, in one life of its node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct At {
    /// Whose end.
    pub slot: Slot,
    /// In which of its lives.
    pub life: u64,
    /// As the node calls it.
    pub conn: ConnId,
}

/// What happens at one end of a connection, in the order in which its node sees it.
#[derive(Clone, Copy)]
pub enum Seen<'a> {
    /// The node looks at a message now.
    Took(&'a Msg),
    /// It sends one.
    Sent(&'a Msg),
    /// It has been told that the connection is gone, or closes it.
    Ended,
}

/// Looks at what nodes take and send. What it finds wrong it says, as (checker, what).
pub type Witness = Box<dyn FnMut(At, Seen<'_>) -> Option<(&'static str, String)>>;

/// What is due at some time.
pub(crate) enum Due {
    Input {
        slot: Slot,
        life: u64,
        what: What,
    },
    Handshake {
        link: usize,
    },
    /// The first byte of what takes so many bytes is there.
    Reached {
        slot: Slot,
        life: u64,
        what: What,
        bytes: u64,
    },
    Resume {
        slot: Slot,
        life: u64,
    },
}

/// An input without its generic request.
pub(crate) enum What {
    Start,
    Timer,
    Connected { conn: ConnId, peer: Box<Peer> },
    Message { conn: ConnId, msg: Msg },
    Closed { conn: ConnId, reason: CloseReason },
    DiskEnd { disk: DiskId, id: DiskOpId },
}

/// A simulated world of nodes that take `Req` and answer `Rep`.
pub struct World<Req, Rep> {
    now: Instant,
    rng: Rng,
    /// How it behaves; may be changed at any time.
    pub faults: Faults,
    /// How fast its machines are, where a run is about that.
    pub machines: Option<Machines>,
    queue: BTreeMap<(Instant, u64), Due>,
    next_event: u64,
    /// The present second, and the events in it so far.
    busy: (u64, u64),
    places: Vec<Place<Req, Rep>>,
    /// Who listens where.
    listeners: BTreeMap<SocketAddr, Slot>,
    pub(crate) links: Links,
    /// Directions (from, to) in which nothing passes.
    cut: BTreeSet<(Slot, Slot)>,
    /// What happened.
    pub trace: Trace,
    next_request: u64,
    replies: Vec<(Slot, RequestId, Rep)>,
    /// Events of level warning and error, with the node's name.
    pub complaints: Vec<(String, Event)>,
    /// Whether each message is encoded and decoded on its way.
    pub encode: bool,
    /// Looks at each message.
    pub observer: Option<Observer>,
    /// Looks at each message at the moments at which nodes do.
    pub witness: Option<Witness>,
    /// Who was given which global id, and what the observer and the world itself found wrong, as (checker, what).
    identities: BTreeMap<u64, (Slot, u64)>,
    /// Violations of what must hold at any time, as (checker, what).
    pub violations: Vec<(&'static str, String)>,
    /// Connections that broke by a lost message.
    pub broken: u64,
    /// Initiators of connections on their way to a handshake, by link.
    targets: BTreeMap<usize, Box<Target>>,
    scratch: Vec<Output<Rep>>,
}

impl<Req, Rep> World<Req, Rep> {
    /// An empty world.
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self {
            now: Instant(1_000_000_000),
            rng: Rng::from_seed(seed),
            faults,
            machines: None,
            queue: BTreeMap::new(),
            next_event: 0,
            busy: (0, 0),
            places: Vec::new(),
            listeners: BTreeMap::new(),
            links: Links::default(),
            cut: BTreeSet::new(),
            trace: Trace::default(),
            next_request: 1,
            replies: Vec::new(),
            complaints: Vec::new(),
            encode: seed.is_multiple_of(8),
            observer: None,
            witness: None,
            identities: BTreeMap::new(),
            violations: Vec::new(),
            broken: 0,
            targets: BTreeMap::new(),
            scratch: Vec::new(),
        }
    }

    /// Simulated time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The world's randomness, for what a scenario decides.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Adds a place; [`Self::start`] starts its node.
    pub fn add(&mut self, spec: SlotSpec<Req, Rep>) -> Slot {
        let drift = self.faults.clock_drift_ppm;
        let drift_ppm = self.rng.below(2 * drift + 1) as i64 - drift as i64;
        let disks = spec.disks.iter().map(|size| SimDisk::new(*size)).collect();
        let rng = self.rng.fork();
        if spec.service.is_some() {
            let other = self.listeners.insert(spec.addr, Slot(self.places.len()));
            assert!(other.is_none(), "two listen on {}", spec.addr);
        }
        self.places.push(Place {
            spec,
            node: None,
            life: 0,
            nonce: 0,
            disks,
            keys: None,
            global_ids: Arc::new(auth::GlobalIds::new()),
            rng,
            drift_ppm,
            timer: None,
            ready: false,
            stopped: None,
            next_accepted: ConnId::ACCEPTED,
            open: BTreeSet::new(),
            dark: false,
            paused: None,
            winding_up: false,
            refused_before: 0,
            disk_slowness: 1,
            wall_error: 0,
        });
        Slot(self.places.len() - 1)
    }

    /// Starts a slot's node, which must not be running.
    pub fn start(&mut self, slot: Slot) {
        let place = &mut self.places[slot.0];
        let wall = Wall((EPOCH + self.now.0).saturating_add_signed(place.wall_error));
        assert!(place.node.is_none(), "{} runs already", place.spec.name);
        place.life += 1;
        place.nonce = place.rng.u32() | 1;
        place.timer = None;
        place.open.clear();
        place.ready = false;
        place.dark = false;
        place.stopped = None;
        place.refused_before = place.refused();
        place.keys = None;
        place.global_ids = Arc::new(auth::GlobalIds::new());
        let disks = place.disks.iter().enumerate().map(|(i, d)| DiskInfo {
            id: DiskId(i as u8),
            size: d.size,
            sector: crate::disk::SECTOR as u32,
        });
        let boot = Boot {
            addr: EntityAddr::msgr2(place.spec.addr, place.nonce),
            disks: disks.collect(),
            rng: place.rng.fork(),
            wall,
        };
        place.node = Some((place.spec.make)(boot));
        let life = place.life;
        self.trace.note(
            self.now,
            &[1, slot.0 as u64, life],
            format_args!("{} starts", self.places[slot.0].spec.name),
        );
        self.due(self.now, Due::Input { slot, life, what: What::Start });
    }

    /// Stops a slot's node as a killed process or with its machine's power. Nothing where it does not run.
    pub fn crash(&mut self, slot: Slot, how: Crash) {
        let place = &mut self.places[slot.0];
        if place.node.take().is_none() {
            return;
        }
        (place.ready, place.winding_up) = (false, false);
        place.paused = None;
        place.dark = how == Crash::Power;
        for disk in &mut place.disks {
            disk.crash(how, &mut self.rng);
        }
        let name = &self.places[slot.0].spec.name;
        self.trace.note(self.now, &[2, slot.0 as u64, how as u64], format_args!("{name} crashes ({how:?})"));
        self.end_links_of(slot, how);
    }

    /// Asks a slot's node to end, as a service manager does; it ends by itself, soon. `None` where it does not run or is stopped.
    pub fn wind_up(&mut self, slot: Slot) -> Option<()> {
        let now = self.local_time(slot);
        let place = &mut self.places[slot.0];
        if place.paused.is_some() || place.winding_up {
            return None;
        }
        let mut out = Vec::new();
        place.node.as_mut()?.wind_up(now, &mut out);
        place.winding_up = true;
        self.trace.note(
            self.now,
            &[9, slot.0 as u64],
            format_args!("{} is asked to end", self.places[slot.0].spec.name),
        );
        self.put_all_out(slot, &mut out);
        Some(())
    }

    /// Whether a slot's node was asked to end and has not yet.
    pub fn is_winding_up(&self, slot: Slot) -> bool {
        self.places[slot.0].winding_up
    }

    /// All that a slot's disks hold is gone; its node must not run.
    pub fn lose_disks(&mut self, slot: Slot) {
        let place = &mut self.places[slot.0];
        assert!(place.node.is_none(), "{} runs", place.spec.name);
        place.disks = place.spec.disks.iter().map(|size| SimDisk::new(*size)).collect();
        self.trace.note(
            self.now,
            &[18, slot.0 as u64],
            format_args!("{}: disks lost", self.places[slot.0].spec.name),
        );
    }

    /// From now on a slot's disks take so many times as long.
    pub fn set_disk_slowness(&mut self, slot: Slot, factor: u64) {
        self.places[slot.0].disk_slowness = factor;
        self.trace.note(
            self.now,
            &[19, slot.0 as u64, factor],
            format_args!("{slot}: disks {factor} times slower"),
        );
    }

    /// From now on one operation in so many of a slot's disks fails; 0 for none.
    pub fn set_disk_failing(&mut self, slot: Slot, every: u64) {
        self.places[slot.0].disks.iter_mut().for_each(|disk| disk.fails_every = every);
        self.trace.note(
            self.now,
            &[21, slot.0 as u64, every],
            format_args!("{slot}: one disk operation in {every} fails"),
        );
    }

    /// Sets a slot's wall clock wrong, by so many nanoseconds.
    pub fn set_wall_error(&mut self, slot: Slot, error: i64) {
        self.places[slot.0].wall_error = error;
        self.trace.note(
            self.now,
            &[20, slot.0 as u64, error as u64],
            format_args!("{slot}: wall clock wrong by {error} ns"),
        );
    }

    /// All clocks are right, and all disks are as fast as they should be and do what they are asked.
    pub fn mend_all(&mut self) {
        for slot in (0..self.places.len()).map(Slot) {
            if self.places[slot.0].wall_error != 0 {
                self.set_wall_error(slot, 0);
            }
            if self.places[slot.0].disk_slowness != 1 {
                self.set_disk_slowness(slot, 1);
            }
            if self.places[slot.0].disks.iter().any(|disk| disk.fails_every > 0) {
                self.set_disk_failing(slot, 0);
            }
        }
    }

    /// Whether a slot's node runs.
    pub fn is_up(&self, slot: Slot) -> bool {
        self.places[slot.0].node.is_some()
    }

    /// Whether a slot's node has said [`Output::Ready`] in this life.
    pub fn is_ready(&self, slot: Slot) -> bool {
        self.places[slot.0].ready
    }

    /// How a slot's node ended by itself, if it did.
    pub fn stopped(&self, slot: Slot) -> Option<&Result<(), String>> {
        self.places[slot.0].stopped.as_ref()
    }

    /// A slot's disk.
    pub fn disk(&mut self, slot: Slot, disk: usize) -> &mut SimDisk {
        &mut self.places[slot.0].disks[disk]
    }

    /// How often a slot was started.
    pub fn life(&self, slot: Slot) -> u64 {
        self.places[slot.0].life
    }

    /// A slot's name.
    pub fn name(&self, slot: Slot) -> &str {
        &self.places[slot.0].spec.name
    }

    /// Cuts (or heals) what `from` sends to `to`.
    pub fn set_cut(&mut self, from: Slot, to: Slot, cut: bool) {
        let changed = if cut { self.cut.insert((from, to)) } else { self.cut.remove(&(from, to)) };
        if changed {
            self.trace.note(
                self.now,
                &[3, from.0 as u64, to.0 as u64, u64::from(cut)],
                format_args!("{from} to {to}: cut {cut}"),
            );
        }
        if changed && !cut {
            self.release_held(from, to);
        }
    }

    /// Stops a slot's process for a while, as a debugger, a full swap or a busy hypervisor does: its clock goes on, its disk
    /// ends what it was given, and everything that comes is there at once when it goes on. `None` where it does not run.
    pub fn pause(&mut self, slot: Slot, until: Instant) -> Option<()> {
        self.pause_as(slot, until, false)
    }

    /// The same, and when it goes on it looks at what has come before it looks at the clock.
    pub fn pause_before_timers(&mut self, slot: Slot, until: Instant) -> Option<()> {
        self.pause_as(slot, until, true)
    }

    fn pause_as(&mut self, slot: Slot, until: Instant, timers_last: bool) -> Option<()> {
        let place = &mut self.places[slot.0];
        if place.node.is_none() || place.paused.is_some() {
            return None;
        }
        place.paused = Some(Paused { until, held: Vec::new(), timers_last });
        let life = place.life;
        let name = &place.spec.name;
        self.trace.note(
            self.now,
            &[7, slot.0 as u64, until.0],
            format_args!("{name}: paused until {until:?}"),
        );
        self.due(until, Due::Resume { slot, life });
        Some(())
    }

    /// Lets all stopped processes go on.
    pub fn resume_all(&mut self) {
        for slot in (0..self.places.len()).map(Slot) {
            self.resume(slot);
        }
    }

    fn resume(&mut self, slot: Slot) {
        let Some(paused) = self.places[slot.0].paused.take() else { return };
        let life = self.places[slot.0].life;
        self.trace.note(self.now, &[8, slot.0 as u64], format_args!("{slot} goes on"));
        // Without them: the timer is armed anew below.
        let held = paused.held.into_iter().filter(|i| !(paused.timers_last && matches!(i, Input::Timer)));
        for input in held.collect::<Vec<_>>() {
            if self.places[slot.0].life == life {
                self.feed(slot, input);
            }
        }
        self.places[slot.0].timer = None;
        self.arm(slot);
    }

    /// Whether a slot's disks have operations under way.
    pub fn is_writing(&self, slot: Slot) -> bool {
        self.places[slot.0].disks.iter().any(SimDisk::is_busy)
    }

    /// Heals all cuts.
    pub fn heal_all(&mut self) {
        for (from, to) in self.cut.clone() {
            self.set_cut(from, to, false);
        }
    }

    /// Hands a request to a slot's node now; its answer comes by [`Self::take_replies`], or never where the node dies.
    pub fn request(&mut self, slot: Slot, request: Req) -> RequestId {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.trace.note(
            self.now,
            &[4, slot.0 as u64, id.0],
            format_args!("{id} to {}", self.places[slot.0].spec.name),
        );
        self.feed(slot, Input::Request { id, request });
        id
    }

    /// Answers since the last call, in their order.
    pub fn take_replies(&mut self) -> Vec<(Slot, RequestId, Rep)> {
        std::mem::take(&mut self.replies)
    }

    /// Takes the next event, if one is due by `until`. Time stands at the event's, or at `until`.
    pub fn step(&mut self, until: Instant) -> bool {
        match self.queue.first_key_value() {
            Some(((at, _), _)) if *at <= until => {
                let ((at, _), due) = self.queue.pop_first().expect("just seen");
                self.count_events(at);
                self.now = at;
                self.carry_out(due);
                true
            }
            _ => {
                self.now = self.now.max(until);
                false
            }
        }
    }

    /// Runs for a span of simulated time.
    pub fn run_for(&mut self, span: Duration) {
        let until = self.now + span;
        while self.step(until) {}
    }

    /// Runs until `done` or for `limit`; says whether it is done.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let until = self.now + limit;
        loop {
            if done(self) {
                return true;
            }
            if !self.step(until) {
                return done(self);
            }
        }
    }

    pub(crate) fn due(&mut self, at: Instant, due: Due) {
        self.queue.insert((at, self.next_event), due);
        self.next_event += 1;
    }

    pub(crate) fn due_input(&mut self, at: Instant, slot: Slot, what: What) {
        let life = self.places[slot.0].life;
        self.due(at, Due::Input { slot, life, what });
    }

    pub(crate) fn due_reached(&mut self, at: Instant, slot: Slot, what: What, bytes: u64) {
        let life = self.places[slot.0].life;
        self.due(at, Due::Reached { slot, life, what, bytes });
    }

    pub(crate) fn is_cut(&self, from: Slot, to: Slot) -> bool {
        self.cut.contains(&(from, to))
    }

    /// Nodes that answer one another for ever never get anywhere: a run ends there instead of going on and on.
    fn count_events(&mut self, at: Instant) {
        const MOST: u64 = 3_000_000;
        let second = at.0 / 1_000_000_000;
        if second != self.busy.0 {
            self.busy = (second, 0);
        }
        self.busy.1 += 1;
        assert!(self.busy.1 <= MOST, "{MOST} events within one second: nodes keep answering one another");
    }

    /// When a message sent now arrives at the earliest.
    pub(crate) fn arrival(&mut self) -> Instant {
        let (least, most) = self.faults.delay;
        let mut delay = self.rng.range(least, most + 1);
        if self.faults.slow_message_every > 0 && self.rng.chance(1, self.faults.slow_message_every) {
            delay *= 100;
        }
        self.now + Duration::from_nanos(delay)
    }

    fn carry_out(&mut self, due: Due) {
        match due {
            Due::Handshake { link } => self.handshake(link),
            Due::Reached { slot, life, what, bytes } => {
                let at = self.machines.as_mut().map_or(self.now, |m| m.receive(self.now, slot, bytes));
                self.due(at, Due::Input { slot, life, what });
            }
            Due::Resume { slot, life } => {
                let place = &self.places[slot.0];
                if place.life == life && place.paused.as_ref().is_some_and(|p| p.until <= self.now) {
                    self.resume(slot);
                }
            }
            Due::Input { slot, life, what } => {
                let place = &mut self.places[slot.0];
                if place.life != life || place.node.is_none() {
                    return;
                }
                let input = match what {
                    What::Start => Input::Start,
                    What::Timer => {
                        // Superseded by an earlier one, which armed it anew.
                        if place.timer != Some(self.now) {
                            return;
                        }
                        place.timer = None;
                        Input::Timer
                    }
                    What::Connected { conn, .. } | What::Message { conn, .. }
                        if !place.open.contains(&conn) =>
                    {
                        return;
                    }
                    What::Connected { conn, peer } => Input::Connected { conn, peer },
                    What::Message { conn, msg } => Input::Message { conn, msg },
                    What::Closed { conn, .. } if !place.open.remove(&conn) => return,
                    What::Closed { conn, reason } => Input::Closed { conn, reason },
                    What::DiskEnd { disk, id } => {
                        Input::Disk { id, result: place.disks[disk.0 as usize].end(id) }
                    }
                };
                self.note_input(slot, &input);
                self.feed(slot, input);
            }
        }
    }

    fn note_input(&mut self, slot: Slot, input: &Input<Req>) {
        let name = &self.places[slot.0].spec.name;
        let at = self.now;
        let who = slot.0 as u64;
        let note = |trace: &mut Trace, numbers: &[u64], text: std::fmt::Arguments<'_>| {
            trace.note(at, numbers, format_args!("{name}: {text}"));
        };
        match input {
            Input::Start => note(&mut self.trace, &[10, who], format_args!("start")),
            Input::Timer => note(&mut self.trace, &[11, who], format_args!("timer")),
            Input::Connected { conn, peer } => {
                note(&mut self.trace, &[12, who, conn.0], format_args!("{conn} connected to {}", peer.name));
            }
            Input::Message { conn, msg } => {
                note(
                    &mut self.trace,
                    &[13, who, conn.0, msg.tid, u64::from(msg.kind())],
                    format_args!("{conn} {msg:?}"),
                );
            }
            Input::Closed { conn, reason } => {
                note(&mut self.trace, &[14, who, conn.0, *reason as u64], format_args!("{conn} {reason}"));
            }
            Input::Disk { id, result } => {
                note(
                    &mut self.trace,
                    &[15, who, id.0, u64::from(result.is_ok())],
                    format_args!("{id} ended"),
                );
            }
            Input::Admin { id, .. } => note(&mut self.trace, &[16, who, id.0], format_args!("{id}")),
            Input::Request { id, .. } => note(&mut self.trace, &[17, who, id.0], format_args!("{id}")),
        }
    }

    fn local_time(&self, slot: Slot) -> Now {
        let place = &self.places[slot.0];
        let drift = self.now.0 as i128 * i128::from(place.drift_ppm) / 1_000_000;
        let mono = (i128::from(self.now.0) + drift) as u64;
        Now { mono: Instant(mono), wall: Wall((EPOCH + mono).saturating_add_signed(place.wall_error)) }
    }

    /// The inverse of [`Self::local_time`], rounded up.
    fn global_time(&self, slot: Slot, local: Instant) -> Instant {
        let million = 1_000_000i128;
        let scale = million + i128::from(self.places[slot.0].drift_ppm);
        Instant((i128::from(local.0) * million / scale + 1).min(i128::from(u64::MAX)) as u64)
    }

    fn feed(&mut self, slot: Slot, input: Input<Req>) {
        if let Some(paused) = &mut self.places[slot.0].paused {
            return paused.held.push(input);
        }
        match &input {
            Input::Message { conn, msg } => self.show(slot, *conn, Seen::Took(msg)),
            Input::Closed { conn, .. } => self.show(slot, *conn, Seen::Ended),
            _ => {}
        }
        let now = self.local_time(slot);
        let mut out = std::mem::take(&mut self.scratch);
        let Some(node) = &mut self.places[slot.0].node else { return };
        node.handle(now, input, &mut out);
        let mut wanted = usize::MAX;
        while wanted != out.len() {
            wanted = out.len();
            node.batch_ended(now, &mut out);
        }
        self.put_all_out(slot, &mut out);
        self.scratch = out;
    }

    fn show(&mut self, slot: Slot, conn: ConnId, seen: Seen<'_>) {
        let at = At { slot, life: self.places[slot.0].life, conn };
        let found = self.witness.as_mut().and_then(|witness| witness(at, seen));
        self.violations.extend(found);
    }

    /// Whether there is still such a connection.
    pub fn is_connected(&self, at: At) -> bool {
        self.places[at.slot.0].life == at.life && self.links.has(at.slot, at.conn)
    }

    fn put_all_out(&mut self, slot: Slot, out: &mut Vec<Output<Rep>>) {
        let life = self.places[slot.0].life;
        for output in out.drain(..) {
            // A node that has stopped says nothing more.
            if self.places[slot.0].node.is_some() && self.places[slot.0].life == life {
                self.put_out(slot, output);
            }
        }
        self.arm(slot);
    }

    fn arm(&mut self, slot: Slot) {
        let Some(deadline) = self.places[slot.0].node.as_ref().and_then(|n| n.deadline()) else { return };
        let at = self.global_time(slot, deadline).max(self.now + Duration::from_nanos(1));
        let place = &mut self.places[slot.0];
        if place.timer.is_none_or(|armed| at < armed) {
            place.timer = Some(at);
            self.due_input(at, slot, What::Timer);
        }
    }

    fn put_out(&mut self, slot: Slot, output: Output<Rep>) {
        match output {
            Output::Connect { conn, to } => self.connect(slot, conn, to),
            Output::Send { conn, msg } => {
                self.show(slot, conn, Seen::Sent(&msg));
                self.send(slot, conn, msg);
            }
            Output::Close { conn } => {
                self.show(slot, conn, Seen::Ended);
                self.places[slot.0].open.remove(&conn);
                self.close(slot, conn);
            }
            // A lossless link of this world ends with a node, never before: nothing is dialled again.
            Output::Renew { .. } => {}
            Output::Disk { id, op } => self.issue(slot, id, op),
            Output::AdminReply { .. } => {}
            Output::Reply { id, reply } => {
                self.trace.note(self.now, &[5, slot.0 as u64, id.0], format_args!("{id} answered"));
                self.replies.push((slot, id, reply));
            }
            Output::Keys(keys) => self.places[slot.0].keys = Some(keys),
            Output::GlobalIds(range) => {
                self.places[slot.0].global_ids.push(range);
            }
            Output::Event(event) => {
                self.trace.note(
                    self.now,
                    &[6, slot.0 as u64],
                    format_args!("{slot} {}: {}", event.name, event.detail),
                );
                if event.level <= Level::Warn {
                    self.complaints.push((self.places[slot.0].spec.name.clone(), event));
                }
            }
            Output::Ready => self.places[slot.0].ready = true,
            Output::Stop(result) => {
                // Whose disk fails may well give up, also where it hears of it only when it goes on; whoever broke it starts it again.
                let place = &self.places[slot.0];
                let fails = place.refused() > place.refused_before;
                let expected = if result.is_ok() { place.winding_up } else { fails };
                self.crash(slot, Crash::Process);
                self.places[slot.0].stopped = Some(result).filter(|_| !expected);
            }
            Output::Restart(why) => {
                let name = &self.places[slot.0].spec.name;
                self.trace.note(self.now, &[12, slot.0 as u64], format_args!("{name} begins anew: {why}"));
                self.crash(slot, Crash::Process);
                self.start(slot);
            }
            Output::WindUp => drop(self.wind_up(slot)),
        }
    }

    fn issue(&mut self, slot: Slot, id: DiskOpId, op: DiskOp) {
        let disk = match &op {
            DiskOp::Read { disk, .. }
            | DiskOp::Write { disk, .. }
            | DiskOp::Flush { disk }
            | DiskOp::Discard { disk, .. } => *disk,
        };
        if let Some(machines) = &mut self.machines {
            let ends = machines.operate(self.now, slot, &op);
            self.places[slot.0].disks[disk.0 as usize].issue(id, op);
            return self.due_input(ends, slot, What::DiskEnd { disk, id });
        }
        let (least, most) = self.faults.disk;
        let mut time = self.rng.range(least, most + 1);
        if matches!(op, DiskOp::Flush { .. } | DiskOp::Write { through: true, .. }) {
            time *= 10;
        }
        if self.faults.slow_disk_every > 0 && self.rng.chance(1, self.faults.slow_disk_every) {
            time *= 100;
        }
        // All of this together would be minutes.
        time = (time * self.places[slot.0].disk_slowness).min(LONGEST_OPERATION.as_nanos() as u64);
        self.places[slot.0].disks[disk.0 as usize].issue(id, op);
        self.due_input(self.now + Duration::from_nanos(time), slot, What::DiskEnd { disk, id });
    }

    fn connect(&mut self, slot: Slot, conn: ConnId, to: Box<Target>) {
        assert!(conn.0 & ConnId::ACCEPTED == 0, "{conn} has a number that belongs to the world");
        let listener = to.addr.addr.and_then(|addr| self.listeners.get(&addr)).copied();
        let peer = listener.filter(|slot| self.places[slot.0].spec.service == Some(to.service));
        let link = self.links.open(slot, self.places[slot.0].life, conn, peer, to.lossless);
        self.places[slot.0].open.insert(conn);
        self.targets.insert(link, to);
        let at = self.arrival();
        self.due(at, Due::Handshake { link });
    }

    fn handshake(&mut self, link: usize) {
        let (Some(target), Some((from, life, conn, to))) =
            (self.targets.remove(&link), self.links.opening(link))
        else {
            return;
        };
        if self.places[from.0].life != life || self.places[from.0].node.is_none() {
            return;
        }
        let reachable =
            to.filter(|to| !self.places[to.0].dark && !self.is_cut(from, *to) && !self.is_cut(*to, from));
        let Some(to) = reachable else {
            self.links.forget(link);
            let at = self.now + CONNECT_TIMEOUT;
            return self.due_input(at, from, What::Closed { conn, reason: CloseReason::TimedOut });
        };
        match self.authenticate(from, to, *target) {
            Err(reason) => {
                self.links.forget(link);
                let at = self.arrival();
                self.due_input(at, from, What::Closed { conn, reason });
            }
            Ok((accepted, opened)) => {
                self.note_identity(from, life, accepted.global_id);
                let place = &mut self.places[to.0];
                place.next_accepted += 1;
                let other = ConnId(place.next_accepted);
                place.open.insert(other);
                self.links.establish(link, to, place.life, other);
                let at = self.links.arrive(link, 1, self.now);
                self.due_input(at, to, What::Connected { conn: other, peer: Box::new(accepted) });
                let back = self.arrival();
                let back = self.links.arrive(link, 0, back);
                self.due_input(back, from, What::Connected { conn, peer: Box::new(opened) });
                for msg in self.links.take_pending(link) {
                    self.transmit(link, 0, msg);
                }
            }
        }
    }

    /// A global id belongs to one life of one node for ever (DESIGN, decision 12).
    fn note_identity(&mut self, slot: Slot, life: u64, global_id: u64) {
        // Nodes without a monitor session authenticate with the method `none`, which knows no ids.
        // Monitors find one another before there are any.
        if global_id == 0 || global_id == auth::GlobalIds::MON {
            return;
        }
        let owner = *self.identities.entry(global_id).or_insert((slot, life));
        if owner != (slot, life) {
            let name = |s: Slot| self.places[s.0].spec.name.clone();
            let text = format!(
                "global id {global_id} of {} (life {}) was given to {} (life {life}) too",
                name(owner.0),
                owner.1,
                name(slot)
            );
            self.violations.push(("global_ids_unique", text));
        }
    }

    fn authenticate(&mut self, from: Slot, to: Slot, target: Target) -> Result<(Peer, Peer), CloseReason> {
        let now = self.local_time(to);
        let from_addr = EntityAddr::msgr2(self.places[from.0].spec.addr, self.places[from.0].nonce);
        let place = &mut self.places[to.0];
        if place.node.is_none() || (target.addr.nonce != 0 && target.addr.nonce != place.nonce) {
            return Err(CloseReason::Refused);
        }
        let keys = place.keys.clone().ok_or(CloseReason::Lost)?;
        crate::handshake::run(target, &keys, &place.global_ids, now, from_addr, &mut place.rng)
    }
}
