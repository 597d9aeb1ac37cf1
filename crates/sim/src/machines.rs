//! The speed of machines, for runs that measure speed: bytes on a network card and on a disk take time, and
//! queue. In all other runs a message takes as long whatever its size, and a disk carries out all operations
//! at once ([`crate::Faults`]).
//!
//! Each node has a machine of its own, unless two are put together on one: a full-duplex network card that
//! sends one message after another and receives one after another, on a switch that is never the bottleneck,
//! and disks that do one operation after another. Processors take no time.

use crate::host::HostId;
use node::{Body, DiskOp, Msg};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Instant;

/// The hardware of every machine.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// Bytes a second that a network card sends, and that it receives at the same time.
    pub nic: u64,
    /// Time from the first byte's departure to its arrival.
    pub latency: Duration,
    /// Throughput of a disk in bytes a second.
    pub disk: u64,
    /// Time of a disk operation in addition to its bytes.
    pub operation: Duration,
    /// Time of a flush, and of a write that reaches stable storage before it completes.
    pub flush: Duration,
}

/// Messages and their encoded bytes, without frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Carried {
    /// Number of messages.
    pub messages: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// Work of one machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Time that its network card spent sending.
    pub sending: Duration,
    /// Time that its network card spent receiving.
    pub receiving: Duration,
    /// Time that its disks were busy.
    pub disk: Duration,
    /// Bytes written to its disks.
    pub written: u64,
}

/// Messages from one node to another, by kind.
pub type Flows = BTreeMap<(HostId, HostId, &'static str), Carried>;

/// Work of all machines of a world.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Messages by sender, receiver and kind.
    pub flows: Flows,
    /// Work by machine.
    pub work: BTreeMap<HostId, Work>,
}

#[derive(Default)]
struct Machine {
    /// The times until which its parts are busy.
    sends: Instant,
    receives: Instant,
    disk: Instant,
    work: Work,
}

impl Machine {
    /// Takes the work since the last call. Work counts when it is given: the part that is still to be done
    /// belongs to the next call.
    fn take(&mut self, now: Instant) -> Work {
        let ahead = |until: Instant| if until > now { until.since(now) } else { Duration::ZERO };
        let left = Work {
            sending: ahead(self.sends),
            receiving: ahead(self.receives),
            disk: ahead(self.disk),
            written: 0,
        };
        let mut done = std::mem::replace(&mut self.work, left);
        done.sending = done.sending.saturating_sub(left.sending);
        done.receiving = done.receiving.saturating_sub(left.receiving);
        done.disk = done.disk.saturating_sub(left.disk);
        done
    }
}

/// All machines of a world.
pub struct Machines {
    hardware: Hardware,
    machines: BTreeMap<HostId, Machine>,
    /// Nodes on the same machine: no network is between them.
    together: Option<[HostId; 2]>,
    flows: Flows,
}

/// A frame of msgr2.1 with checksums: preamble, header with its checksum, epilogue.
const FRAME: u64 = 32 + 41 + 4 + 13;
/// Payload of a packet, and the overhead that Ethernet, IPv4 and TCP with timestamps add to it: preamble,
/// addresses, checksum and interframe gap; 20 bytes; 32 bytes.
const PACKET: (u64, u64) = (1448, 8 + 14 + 4 + 12 + 20 + 32);

impl Machines {
    /// Machines without work yet.
    pub fn new(hardware: Hardware) -> Self {
        Self { hardware, machines: BTreeMap::new(), together: None, flows: BTreeMap::new() }
    }

    /// Puts two nodes on one machine: messages between them take no time.
    pub fn put_together(&mut self, one: HostId, other: HostId) {
        self.together = Some([one, other]);
    }

    /// Takes the work since the last call.
    pub fn take(&mut self, now: Instant) -> Done {
        let work = self.machines.iter_mut().map(|(host, m)| (*host, m.take(now)));
        Done { flows: std::mem::take(&mut self.flows), work: work.collect() }
    }

    /// The time that a message of this many encoded bytes occupies a network card.
    fn on_the_wire(&self, bytes: u64) -> Duration {
        let framed = FRAME + bytes;
        transfer(framed + framed.div_ceil(PACKET.0) * PACKET.1, self.hardware.nic)
    }

    /// Sends a message. Returns the arrival of its first byte, and its length in bytes.
    pub(crate) fn send(&mut self, now: Instant, from: HostId, to: HostId, msg: &Msg) -> (Instant, u64) {
        let raw = msg.to_raw();
        let bytes = (raw.front.len() + raw.middle.len() + raw.data.len()) as u64;
        let name = match &msg.body {
            Body::Client(body) => body.name(),
            Body::Peer(body) => body.name(),
        };
        let flow = self.flows.entry((from, to, name)).or_default();
        *flow = Carried { messages: flow.messages + 1, bytes: flow.bytes + bytes };
        if self.together.is_some_and(|pair| pair == [from, to] || pair == [to, from]) {
            return (now, 0);
        }
        let takes = self.on_the_wire(bytes);
        let machine = self.machines.entry(from).or_default();
        let begins = machine.sends.max(now);
        machine.sends = begins + takes;
        machine.work.sending += takes;
        (begins + self.hardware.latency, bytes)
    }

    /// The arrival of a message's last byte, given that its first byte arrives now.
    pub(crate) fn receive(&mut self, now: Instant, to: HostId, bytes: u64) -> Instant {
        let takes = self.on_the_wire(bytes);
        let machine = self.machines.entry(to).or_default();
        machine.receives = machine.receives.max(now) + takes;
        machine.work.receiving += takes;
        machine.receives
    }

    /// The completion of an operation that is issued to a disk now.
    pub(crate) fn operate(&mut self, now: Instant, host: HostId, op: &DiskOp) -> Instant {
        let h = &self.hardware;
        let takes = match op {
            DiskOp::Read { len, .. } => h.operation + transfer(*len as u64, h.disk),
            DiskOp::Write { data, through, .. } => {
                let flush = if *through { h.flush } else { Duration::ZERO };
                h.operation + transfer(data.len() as u64, h.disk) + flush
            }
            DiskOp::Flush { .. } => h.flush,
            DiskOp::Discard { .. } => h.operation,
        };
        let machine = self.machines.entry(host).or_default();
        machine.disk = machine.disk.max(now) + takes;
        machine.work.disk += takes;
        if let DiskOp::Write { data, .. } = op {
            machine.work.written += data.len() as u64;
        }
        machine.disk
    }
}

fn transfer(bytes: u64, a_second: u64) -> Duration {
    Duration::from_nanos((u128::from(bytes) * 1_000_000_000 / u128::from(a_second.max(1))) as u64)
}
