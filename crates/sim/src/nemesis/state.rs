//! What the nemesis knows, and what a fault is: a function on the two of them and the cluster.

use super::profile::Profile;
use crate::cluster::Cluster;
use crate::host::HostId;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::{Instant, Rng};

/// Injects faults and repairs them.
pub struct Nemesis {
    pub(super) rng: Rng,
    pub(super) faults: Vec<&'static Fault>,
    /// Half the longest time between two faults, if they come by time.
    pub(super) pause: Duration,
    pub(super) next_at: Instant,
    /// Half the most inputs of nodes between two faults, if faults come by inputs instead of time: then they
    /// hit the cluster when it is busy.
    pub(super) inputs: Option<u64>,
    pub(super) next_input: u64,
    /// The administrator gives no command before. Each makes maps, which are inputs: if faults come by
    /// inputs, commands would come faster and faster.
    pub(super) next_command: Instant,
    /// Repairs by the time when they are due, and a number that keeps the order of equal times.
    pub(super) repairs: BTreeMap<(Instant, u64), Repair>,
    pub(super) next_repair: u64,
    /// The host that loses its power the next time that it writes, once the world has taken that many inputs.
    pub(super) armed: Option<(HostId, u64)>,
    /// Happens as soon as the monitors have a leader of a newer term than this.
    pub(super) upon_election: Option<(u64, UponElection)>,
    /// A metadata server dies as soon as there are more flushes than these by which a client gives up bits.
    pub(super) upon_flush: Option<u64>,
    /// Nodes that died since the caller last asked.
    pub(super) died: Vec<HostId>,
    /// A monitor has lost its store: no quorum survives a second loss.
    pub(super) store_lost: bool,
    /// Injected faults by name.
    pub counts: BTreeMap<&'static str, u64>,
}

/// Happens when the monitors elect a leader.
#[derive(Clone, Copy, Debug)]
pub(super) enum UponElection {
    /// The former leader is cut off from all other daemons; clients reach it.
    Isolate(HostId),
    /// All monitors lose their power.
    CutPower,
}

/// Ends a fault, or begins its second half.
#[derive(Clone, Copy, Debug)]
pub(super) enum Repair {
    Start(HostId),
    Reconnect(HostId, HostId),
    /// Ends the machine of a primary whose updates reach nobody.
    EndPrimary(HostId),
    LoseStore {
        mon: HostId,
        leader: HostId,
    },
    DiskFast(HostId),
    DiskWell(HostId),
    ClockRight(HostId),
    /// Marks the OSD of this number in.
    MarkIn(usize),
}

/// A kind of fault.
pub struct Fault {
    /// The name in reports.
    pub name: &'static str,
    /// The profiles that have it. Each seed of them draws it with the profile's chance.
    pub profiles: &'static [Profile],
    /// Profiles that have it in one of n seeds. That is drawn from a stream of its own, so that a seed
    /// without the fault is the run that it was before the fault existed.
    pub also_in: &'static [(Profile, u64)],
    /// Injects it; `None` if the cluster is in no state for it, and the fault does not count.
    pub inject: fn(&mut Nemesis, &Victims, &mut Cluster) -> Option<()>,
}

/// The hosts of one fault, drawn before it is known which of them it needs.
pub struct Victims {
    /// A random OSD.
    pub osd: HostId,
    /// A random monitor.
    pub mon: HostId,
    /// The hosts of all daemons.
    pub daemons: Vec<HostId>,
    /// All daemons and clients.
    pub all: Vec<HostId>,
}

impl Nemesis {
    /// Repairs a fault at a time.
    pub(super) fn repair_at(&mut self, at: Instant, repair: Repair) {
        self.repairs.insert((at, self.next_repair), repair);
        self.next_repair += 1;
    }
}
