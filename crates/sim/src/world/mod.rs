//! The world: nodes, links between them, disks and one clock, driven from one seed in one thread.
//!
//! The world takes one event at a time from a queue ordered by time; a node handles it, and its outputs
//! become new events. Nothing depends on anything but the seed and the code, so a run can be replayed from
//! its number.

mod connect;
mod faults;
mod hosts;
mod io;
mod traffic;
mod work;

use crate::disk::SimDisk;
use crate::faults::Faults;
use crate::host::HostId;
use crate::link::Links;
use crate::machines::Machines;
use crate::processors::Processors;
use crate::trace::Trace;
use node::{
    CloseReason, ConnId, DiskId, DiskInfo, DiskOpId, Event, Input, Msg, Node, Output, Peer, RequestId, Target,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use stdx::{Instant, Rng, Wall};
use wire::{EntityAddr, EntityType};

/// The wall clock at simulated time 0: 2026-01-01.
pub(crate) const EPOCH: u64 = 1_767_225_600_000_000_000;
/// A connection attempt that nobody answers ends after this.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time that a disk operation takes, however slow the disk: kernels give up after half a minute.
const LONGEST_OPERATION: Duration = Duration::from_secs(10);

/// The arguments of a node's constructor, at each start.
#[derive(Debug)]
pub struct Boot {
    /// Address, with a nonce that no earlier start had.
    pub addr: EntityAddr,
    /// Its disks.
    pub disks: Vec<DiskInfo>,
    /// Source of randomness.
    pub rng: Rng,
    /// The wall clock, for what is decided before the first input.
    pub wall: Wall,
}

/// Makes a host's node, once for each start.
pub type Maker<Req, Rep> = Box<dyn FnMut(Boot) -> Box<dyn Node<Request = Req, Reply = Rep>>>;

/// Description of a host.
pub struct HostSpec<Req, Rep> {
    /// Name in the trace, such as `osd.0`.
    pub name: String,
    /// Type of the service that it offers; `None` for clients, which do not listen.
    pub service: Option<EntityType>,
    /// Address that it listens on.
    pub addr: SocketAddr,
    /// Sizes of its disks, in bytes.
    pub disks: Vec<u64>,
    /// Makes the node.
    pub make: Maker<Req, Rep>,
}

/// A host and its node.
struct HostState<Req, Rep> {
    spec: HostSpec<Req, Rep>,
    node: Option<Box<dyn Node<Request = Req, Reply = Rep>>>,
    /// Counts starts. Input for an earlier incarnation is dropped.
    incarnation: u64,
    nonce: u32,
    disks: Vec<SimDisk>,
    keys: Option<Arc<auth::ServerKeys>>,
    global_ids: Arc<auth::GlobalIds>,
    rng: Rng,
    /// The rate by which its clock is fast, in millionths.
    drift_ppm: i64,
    timer: Option<Instant>,
    ready: bool,
    stopped: Option<Result<(), String>>,
    next_accepted: u64,
    /// Connections that the node believes open; input from others is dropped.
    open: BTreeSet<ConnId>,
    /// Its machine has no power: a dial times out instead of being refused.
    dark: bool,
    /// Its process is paused.
    paused: Option<Paused<Req>>,
    /// It was asked to shut down.
    shutting_down: bool,
    /// Operations that its disks had refused when it was started.
    refused_before: u64,
    /// Factor by which its disks are slower.
    disk_slowness: u64,
    /// Error of its wall clock, in nanoseconds.
    wall_error: i64,
}

impl<Req, Rep> HostState<Req, Rep> {
    /// Operations that its disks have refused since it was made.
    fn refused(&self) -> u64 {
        self.disks.iter().map(|disk| disk.refused).sum()
    }
}

/// A paused process.
struct Paused<Req> {
    until: Instant,
    /// Input that came meanwhile, in order.
    held: Vec<Input<Req>>,
    /// Timers that were due meanwhile come after all other input.
    timers_last: bool,
}

/// Sees each message as it is sent: (time, sender, receiver, message). Returns a violation as (checker,
/// text).
pub type Observer = Box<dyn FnMut(Instant, HostId, HostId, &Msg) -> Option<(&'static str, String)>>;

/// One end of a connection, of one incarnation of its node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct At {
    /// Host of this end.
    pub host: HostId,
    /// Incarnation of its node.
    pub incarnation: u64,
    /// The node's id of the connection.
    pub conn: ConnId,
}

/// An event at one end of a connection, in the order in which its node sees them.
#[derive(Clone, Copy)]
pub enum Seen<'a> {
    /// The node handles a message.
    Took(&'a Msg),
    /// The node sends a message.
    Sent(&'a Msg),
    /// The connection is closed, by the node or at its other end.
    Ended,
}

/// Sees each message at the moments when nodes handle and send it. Returns a violation as (checker, text).
pub type Witness = Box<dyn FnMut(At, Seen<'_>) -> Option<(&'static str, String)>>;

/// A scheduled event.
pub(crate) enum Due {
    Input {
        host: HostId,
        incarnation: u64,
        what: What,
    },
    Handshake {
        link: usize,
    },
    /// The first byte of a message has reached a host's network card.
    Reached {
        host: HostId,
        incarnation: u64,
        what: What,
        bytes: u64,
    },
    Resume {
        host: HostId,
        incarnation: u64,
    },
    /// A host's processor has worked on an input.
    Worked {
        host: HostId,
        incarnation: u64,
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

/// A simulated world of nodes with requests `Req` and replies `Rep`.
pub struct World<Req, Rep> {
    now: Instant,
    rng: Rng,
    /// Rates of faults; may be changed at any time.
    pub faults: Faults,
    /// Speeds of its machines, if the run is about speed.
    pub machines: Option<Machines>,
    processors: Processors<What>,
    queue: BTreeMap<(Instant, u64), Due>,
    next_event: u64,
    /// The current second and the number of events in it so far.
    busy: (u64, u64),
    hosts: Vec<HostState<Req, Rep>>,
    /// Listening hosts by address.
    listeners: BTreeMap<SocketAddr, HostId>,
    pub(crate) links: Links,
    /// Cut directions (from, to).
    cut: BTreeSet<(HostId, HostId)>,
    /// The trace of all events.
    pub trace: Trace,
    next_request: u64,
    replies: Vec<(HostId, RequestId, Rep)>,
    /// The answer to the last command of an administrator.
    admin_reply: Option<(i32, String)>,
    /// Events of level WARN and ERROR, with the node's name.
    pub complaints: Vec<(String, Event)>,
    /// Names of the events that the run follows.
    pub follows: &'static [&'static str],
    /// Events with these names, in order.
    pub followed: Vec<(HostId, Event)>,
    /// Encode and decode each message on its way.
    pub encode: bool,
    /// Sees each message as it is sent.
    pub observer: Option<Observer>,
    /// Sees each message as nodes handle and send it.
    pub witness: Option<Witness>,
    /// Owners of global ids: host and incarnation.
    identities: BTreeMap<u64, (HostId, u64)>,
    /// Violations of invariants, as (checker, text).
    pub violations: Vec<(&'static str, String)>,
    /// Connections that broke because a message was lost.
    pub broken: u64,
    /// Targets of connections that have not begun their handshake, by link.
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
            processors: Processors::default(),
            queue: BTreeMap::new(),
            next_event: 0,
            busy: (0, 0),
            hosts: Vec::new(),
            listeners: BTreeMap::new(),
            links: Links::default(),
            cut: BTreeSet::new(),
            trace: Trace::default(),
            next_request: 1,
            replies: Vec::new(),
            admin_reply: None,
            complaints: Vec::new(),
            follows: &[],
            followed: Vec::new(),
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

    /// The simulated time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The world's randomness, for decisions of a scenario.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Handles the next event if it is due by `until`, and reports whether there was one. Time moves to the
    /// event's, or to `until`.
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

    /// Runs until `done` or for `limit`. Reports whether it is done.
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

    pub(crate) fn due_input(&mut self, at: Instant, host: HostId, what: What) {
        let incarnation = self.hosts[host.0].incarnation;
        self.due(at, Due::Input { host, incarnation, what });
    }

    pub(crate) fn due_reached(&mut self, at: Instant, host: HostId, what: What, bytes: u64) {
        let incarnation = self.hosts[host.0].incarnation;
        self.due(at, Due::Reached { host, incarnation, what, bytes });
    }

    /// Ends a run in which nodes answer one another for ever.
    fn count_events(&mut self, at: Instant) {
        const MOST: u64 = 3_000_000;
        let second = at.0 / 1_000_000_000;
        if second != self.busy.0 {
            self.busy = (second, 0);
        }
        self.busy.1 += 1;
        assert!(self.busy.1 <= MOST, "{MOST} events within one second: nodes keep answering one another");
    }

    /// The earliest arrival of a message that is sent now.
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
            Due::Reached { host, incarnation, what, bytes } => {
                let at = self.machines.as_mut().map_or(self.now, |m| m.receive(self.now, host, bytes));
                self.due(at, Due::Input { host, incarnation, what });
            }
            Due::Resume { host, incarnation } => {
                let state = &self.hosts[host.0];
                if state.incarnation == incarnation
                    && state.paused.as_ref().is_some_and(|p| p.until <= self.now)
                {
                    self.resume(host);
                }
            }
            Due::Worked { host, incarnation } => {
                let state = &self.hosts[host.0];
                if state.incarnation == incarnation && state.node.is_some() {
                    self.worked(host);
                }
            }
            Due::Input { host, incarnation, what } => {
                let state = &self.hosts[host.0];
                // An earlier timer may have superseded this one and scheduled the next.
                let is_superseded = matches!(what, What::Timer) && state.timer != Some(self.now);
                if state.incarnation != incarnation || state.node.is_none() || is_superseded {
                    return;
                }
                if let Some(what) = self.queue(host, what) {
                    self.take_in(host, what);
                }
            }
        }
    }

    /// A running node takes an input.
    fn take_in(&mut self, host: HostId, what: What) {
        let state = &mut self.hosts[host.0];
        let input = match what {
            What::Start => Input::Start,
            What::Timer => {
                state.timer = None;
                Input::Timer
            }
            What::Connected { conn, .. } | What::Message { conn, .. } if !state.open.contains(&conn) => {
                return;
            }
            What::Connected { conn, peer } => Input::Connected { conn, peer },
            What::Message { conn, msg } => Input::Message { conn, msg },
            What::Closed { conn, .. } if !state.open.remove(&conn) => return,
            What::Closed { conn, reason } => Input::Closed { conn, reason },
            What::DiskEnd { disk, id } => Input::Disk { id, result: state.disks[disk.0 as usize].end(id) },
        };
        self.note_input(host, &input);
        self.feed(host, input);
    }
}
