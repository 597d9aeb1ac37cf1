//! The nemesis injects faults during a run's safety phase, as the seed draws them. Each seed has only some
//! kinds of faults, so that rare combinations get long runs of their own, and a rate of its own.

mod admin;
mod disks;
mod fault;
mod monitors;
mod network;
mod processes;
mod profile;
mod state;

pub use profile::Profile;
pub use state::Nemesis;

use crate::cluster::Cluster;
use crate::disk::Crash;
use crate::host::HostId;
use crate::workload::ClientWorld;
use state::{Repair, Victims};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::{Instant, Rng};

impl Nemesis {
    /// A nemesis for a run that begins now, after this many inputs. `decays` says if the first OSD's disk
    /// rots.
    pub fn new(mut rng: Rng, profile: Profile, decays: bool, now: Instant, inputs: u64) -> Self {
        let faults = fault::draw(&mut rng, profile, decays);
        // Much of what rots nobody has, or is rewritten before anybody looks.
        let pauses_ms = if profile == Profile::Decay { (50, 500) } else { (500, 8000) };
        let pause = Duration::from_millis(rng.range(pauses_ms.0, pauses_ms.1));
        let any = profile == Profile::Any;
        let by_inputs =
            rng.chance(if any { 2 } else { 3 }, 4).then(|| rng.range(100, if any { 2000 } else { 500 }));
        Self {
            rng,
            faults,
            pause,
            next_at: now + pause,
            inputs: by_inputs,
            next_input: inputs + by_inputs.unwrap_or(0),
            next_command: now,
            repairs: BTreeMap::new(),
            next_repair: 0,
            armed: None,
            upon_election: None,
            upon_flush: None,
            died: Vec::new(),
            store_lost: false,
            counts: BTreeMap::new(),
        }
    }

    /// Reports whether a fault is due for a reason other than time: the number of inputs, a write that an
    /// armed fault waits for, an election, or a flush.
    pub fn is_triggered(&self, cluster: &Cluster) -> bool {
        self.has_inputs(&cluster.world)
            || self.is_writing(&cluster.world)
            || self.has_elected(cluster)
            || self.has_flushed(cluster)
    }

    fn has_flushed(&self, cluster: &Cluster) -> bool {
        self.upon_flush.is_some_and(|before| cluster.flushes.get().0 > before)
    }

    fn has_elected(&self, cluster: &Cluster) -> bool {
        let newest = || cluster.terms.borrow().newest();
        self.upon_election.is_some_and(|(term, _)| newest().is_some_and(|(newest, _)| newest > term))
    }

    fn has_inputs(&self, world: &ClientWorld) -> bool {
        self.inputs.is_some() && world.trace.events() >= self.next_input && !self.faults.is_empty()
    }

    fn is_writing(&self, world: &ClientWorld) -> bool {
        self.armed.is_some_and(|(host, at)| world.trace.events() >= at && world.is_writing(host))
    }

    /// The time of the next fault or repair.
    pub fn next_at(&self) -> Instant {
        let repair = self.repairs.first_key_value().map_or(Instant(u64::MAX), |((at, _), _)| *at);
        if self.faults.is_empty() || self.inputs.is_some() { repair } else { repair.min(self.next_at) }
    }

    /// Injects and repairs what is due. Returns the nodes that died.
    pub fn step(&mut self, cluster: &mut Cluster) -> Vec<HostId> {
        let now = cluster.world.now();
        while let Some(entry) = self.repairs.first_entry()
            && entry.key().0 <= now
        {
            let repair = entry.remove();
            self.repair(repair, cluster);
        }
        if self.is_writing(&cluster.world)
            && let Some((host, _)) = self.armed.take()
        {
            self.crash(host, Crash::Power, cluster);
        }
        if self.has_elected(cluster)
            && let Some((_, then)) = self.upon_election.take()
        {
            self.leader_elected(then, cluster);
        }
        if self.has_flushed(cluster)
            && let Some(server) = cluster.flushes.get().1
        {
            self.upon_flush = None;
            self.crash(server, Crash::Process, cluster);
        }
        let by_time = self.inputs.is_none() && self.next_at <= now && !self.faults.is_empty();
        if by_time || self.has_inputs(&cluster.world) {
            self.next_at =
                now + Duration::from_nanos(self.rng.range(1_000_000, self.pause.as_nanos() as u64 * 2));
            let most = self.inputs.unwrap_or(1) * 2;
            self.next_input = cluster.world.trace.events() + self.rng.range(1, most + 1);
            let fault = *self.rng.pick(&self.faults);
            let victims = self.pick_victims(cluster);
            if (fault.inject)(self, &victims, cluster).is_some() {
                *self.counts.entry(fault.name).or_default() += 1;
            }
        }
        std::mem::take(&mut self.died)
    }

    fn pick_victims(&mut self, cluster: &Cluster) -> Victims {
        let daemons = cluster.daemons();
        let osd = *self.rng.pick(&cluster.osds);
        let mon = self.pick_mon(cluster);
        let all = [&daemons[..], &cluster.clients[..]].concat();
        Victims { osd, mon, daemons, all }
    }

    fn repair(&mut self, repair: Repair, cluster: &mut Cluster) {
        match repair {
            Repair::Start(host) => {
                // A node that was asked to shut down and has not is killed.
                if cluster.world.is_shutting_down(host) {
                    cluster.world.crash(host, Crash::Process);
                }
                if !cluster.world.is_up(host) {
                    cluster.world.start(host);
                }
            }
            Repair::Reconnect(from, to) => cluster.world.set_cut(from, to, false),
            Repair::EndPrimary(primary) => self.end_primary(primary, cluster),
            Repair::LoseStore { mon, leader } => {
                self.lose_store(mon, cluster);
                self.crash_for(leader, Crash::Process, (1_000, 6_000), cluster);
            }
            Repair::MarkIn(osd) => admin::command_osd("osd in", osd, cluster),
            Repair::DiskWell(host) => {
                cluster.world.set_disk_failing(host, 0);
                // An OSD that ended because of the errors is started again.
                if !cluster.world.is_up(host) {
                    cluster.world.start(host);
                }
            }
            Repair::DiskFast(host) => cluster.world.set_disk_slowness(host, 1),
            Repair::ClockRight(host) => cluster.world.set_wall_error(host, 0),
        }
    }

    /// Repairs everything now.
    pub fn repair_all(&mut self, cluster: &mut Cluster) {
        for (_, repair) in std::mem::take(&mut self.repairs) {
            if let Repair::MarkIn(osd) = repair {
                admin::command_osd("osd in", osd, cluster);
            }
        }
        (self.armed, self.upon_election, self.upon_flush) = (None, None, None);
        cluster.world.heal_all();
        cluster.world.resume_all();
        cluster.world.mend_all();
        for host in [cluster.daemons(), cluster.clients.clone()].concat() {
            if cluster.world.is_shutting_down(host) {
                cluster.world.crash(host, Crash::Process);
            }
            if !cluster.world.is_up(host) {
                cluster.world.start(host);
            }
        }
    }
}
