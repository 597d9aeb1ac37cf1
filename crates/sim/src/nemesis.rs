//! What goes wrong during a run's safety phase, drawn from the seed: each seed knows only some kinds of misfortune (so that
//! rare combinations get long runs of their own), and how often they strike.

use crate::cluster::Cluster;
use crate::disk::Crash;
use crate::world::Slot;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::{Instant, Rng};

/// A kind of misfortune.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    OsdKill,
    OsdPower,
    MonKill,
    MonPower,
    MdsKill,
    ClientKill,
    AllPower,
    CutOneWay,
    CutBothWays,
    OsdIsolated,
}

const ALL: [Kind; 10] = [
    Kind::OsdKill,
    Kind::OsdPower,
    Kind::MonKill,
    Kind::MonPower,
    Kind::MdsKill,
    Kind::ClientKill,
    Kind::AllPower,
    Kind::CutOneWay,
    Kind::CutBothWays,
    Kind::OsdIsolated,
];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::OsdKill => "osd_killed",
            Self::OsdPower => "osd_power_lost",
            Self::MonKill => "mon_killed",
            Self::MonPower => "mon_power_lost",
            Self::MdsKill => "mds_killed",
            Self::ClientKill => "client_killed",
            Self::AllPower => "all_power_lost",
            Self::CutOneWay => "cut_one_way",
            Self::CutBothWays => "cut_both_ways",
            Self::OsdIsolated => "osd_isolated",
        }
    }
}

/// Those that OSDs and the monitor suffer from.
const OBJECTS: [Kind; 6] =
    [Kind::OsdKill, Kind::OsdPower, Kind::MonKill, Kind::MonPower, Kind::AllPower, Kind::OsdIsolated];

/// Which part of the cluster a run is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// Everything, as the seed draws it.
    Any,
    /// Objects, OSDs and the monitor.
    Objects,
    /// The file system and its server.
    Files,
}

/// Draws misfortune and its end.
pub struct Nemesis {
    rng: Rng,
    kinds: Vec<Kind>,
    /// Between two strikes, at most.
    pause: Duration,
    next_at: Instant,
    /// Strikes come by the number of inputs that nodes take, not by time: so they come when there is much to do, in the
    /// middle of it. At most so many inputs between two.
    inputs: Option<u64>,
    next_input: u64,
    /// What ends when.
    ends: BTreeMap<(Instant, u64), End>,
    next_end: u64,
    /// How often each kind struck.
    pub counts: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Start(Slot),
    Uncut(Slot, Slot),
}

impl Nemesis {
    /// A nemesis for a run that begins now, after so many inputs.
    pub fn new(mut rng: Rng, profile: Profile, now: Instant, inputs: u64) -> Self {
        let kinds: Vec<Kind> = match profile {
            Profile::Any => ALL.into_iter().filter(|_| rng.chance(1, 3)).collect(),
            Profile::Objects => OBJECTS.into_iter().filter(|_| rng.chance(1, 2)).collect(),
            Profile::Files => vec![Kind::MdsKill, Kind::AllPower],
        };
        let pause = Duration::from_millis(rng.range(500, 8000));
        let any = profile == Profile::Any;
        let by_inputs =
            rng.chance(if any { 2 } else { 3 }, 4).then(|| rng.range(50, if any { 2000 } else { 500 }));
        Self {
            rng,
            kinds,
            pause,
            next_at: now + pause,
            inputs: by_inputs,
            next_input: inputs + by_inputs.unwrap_or(0),
            ends: BTreeMap::new(),
            next_end: 0,
            counts: BTreeMap::new(),
        }
    }

    /// Whether it strikes now, by the number of inputs.
    pub fn is_provoked(&self, inputs: u64) -> bool {
        self.inputs.is_some() && inputs >= self.next_input && !self.kinds.is_empty()
    }

    /// When it strikes or ends something next.
    pub fn next_at(&self) -> Instant {
        let end = self.ends.first_key_value().map_or(Instant(u64::MAX), |((at, _), _)| *at);
        if self.kinds.is_empty() || self.inputs.is_some() { end } else { end.min(self.next_at) }
    }

    /// Does what is due. Gives the clients that died.
    pub fn strike(&mut self, cluster: &mut Cluster) -> Vec<Slot> {
        let now = cluster.world.now();
        while let Some(entry) = self.ends.first_entry()
            && entry.key().0 <= now
        {
            match entry.remove() {
                End::Start(slot) if !cluster.world.is_up(slot) => cluster.world.start(slot),
                End::Start(_) => {}
                End::Uncut(from, to) => cluster.world.set_cut(from, to, false),
            }
        }
        if self.kinds.is_empty() || self.next_at > now {
            return Vec::new();
        }
        self.next_at =
            now + Duration::from_nanos(self.rng.range(1_000_000, self.pause.as_nanos() as u64 * 2));
        let kind = *self.rng.pick(&self.kinds);
        let struck = self.carry_out(kind, cluster);
        if let Some(died) = &struck {
            *self.counts.entry(kind.name()).or_default() += 1;
            return died.clone();
        }
        Vec::new()
    }

    fn carry_out(&mut self, kind: Kind, cluster: &mut Cluster) -> Option<Vec<Slot>> {
        let osds = cluster.osds.clone();
        let (mon, daemons) = (cluster.mon, cluster.daemons());
        let osd = *self.rng.pick(&osds);
        match kind {
            Kind::OsdKill => self.down(osd, Crash::Process, cluster),
            Kind::OsdPower => self.down(osd, Crash::Power, cluster),
            Kind::MonKill => self.down(mon, Crash::Process, cluster),
            Kind::MonPower => self.down(mon, Crash::Power, cluster),
            Kind::MdsKill => self.down(cluster.mds?, Crash::Process, cluster),
            Kind::ClientKill => {
                let clients = cluster.clients.clone();
                let client = *self.rng.pick(&clients);
                self.down(client, Crash::Process, cluster)
            }
            Kind::AllPower => {
                for slot in daemons {
                    self.down(slot, Crash::Power, cluster);
                }
                Some(Vec::new())
            }
            Kind::OsdIsolated => {
                // Clients still reach it, and must not be told old things.
                for other in daemons.into_iter().filter(|d| *d != osd) {
                    self.cut(osd, other, cluster);
                    self.cut(other, osd, cluster);
                }
                Some(Vec::new())
            }
            Kind::CutOneWay | Kind::CutBothWays => {
                let all = [&daemons[..], &cluster.clients[..]].concat();
                let (from, to) = (*self.rng.pick(&all), *self.rng.pick(&daemons));
                if from == to {
                    return None;
                }
                self.cut(from, to, cluster);
                if kind == Kind::CutBothWays {
                    self.cut(to, from, cluster);
                }
                Some(Vec::new())
            }
        }
    }

    fn down(&mut self, slot: Slot, how: Crash, cluster: &mut Cluster) -> Option<Vec<Slot>> {
        if !cluster.world.is_up(slot) {
            return None;
        }
        cluster.world.crash(slot, how);
        // Short enough to come back unnoticed, or long enough to be given up.
        let longest = if self.rng.chance(1, 2) { 1_500 } else { 15_000 };
        let end = cluster.world.now() + Duration::from_millis(self.rng.range(20, longest));
        self.end(end, End::Start(slot));
        Some(vec![slot])
    }

    fn cut(&mut self, from: Slot, to: Slot, cluster: &mut Cluster) {
        cluster.world.set_cut(from, to, true);
        let end = cluster.world.now() + Duration::from_millis(self.rng.range(50, 12_000));
        self.end(end, End::Uncut(from, to));
    }

    fn end(&mut self, at: Instant, end: End) {
        self.ends.insert((at, self.next_end), end);
        self.next_end += 1;
    }

    /// Everything is well again, now.
    pub fn give_up(&mut self, cluster: &mut Cluster) {
        self.ends.clear();
        cluster.world.heal_all();
        for slot in [cluster.daemons(), cluster.clients.clone()].concat() {
            if !cluster.world.is_up(slot) {
                cluster.world.start(slot);
            }
        }
    }
}
