//! What goes wrong during a run's safety phase, drawn from the seed: each seed knows only some kinds of misfortune (so that
//! rare combinations get long runs of their own), and how often they strike.

use crate::cluster::Cluster;
use crate::disk::{Crash, Decay};
use crate::workload::ClientWorld;
use crate::world::Slot;
use fsclient::Request;
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
    PrimaryCutOff,
    PrimaryDies,
    PowerMidCommit,
    Paused,
    MonIsolated,
    LeaderEstranged,
    LeaderStalled,
    PowerMidElection,
    MonStopped,
    MonForgets,
    SlowDisk,
    ClockJumps,
    /// CRUSH gives an OSD nothing, for a while.
    OsdOut,
    /// A pool gets more PGs.
    MorePgs,
    /// A pool gets fewer PGs.
    FewerPgs,
    /// A block of an object's data changes on a disk, always of the same OSD: other copies are whole.
    Decay,
    /// Nothing passes between some OSDs and the others, but everybody else reaches all of them.
    OsdsParted,
    /// An OSD's disk refuses some operations, or all, for a while.
    DiskErrors,
}

/// Between two orders of the administrator.
const BETWEEN_ORDERS: Duration = Duration::from_millis(50);
/// Pools get no more PGs than that.
const MOST_PGS: u32 = 24;

const ALL: [Kind; 14] = [
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
    Kind::PrimaryCutOff,
    Kind::PrimaryDies,
    Kind::PowerMidCommit,
    Kind::Paused,
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
            Self::PrimaryCutOff => "primary_cut_off",
            Self::PrimaryDies => "primary_died_mid_update",
            Self::PowerMidCommit => "power_lost_mid_commit",
            Self::Paused => "process_paused",
            Self::MonIsolated => "mon_isolated",
            Self::LeaderEstranged => "leader_estranged",
            Self::LeaderStalled => "leader_stalled",
            Self::PowerMidElection => "power_lost_mid_election",
            Self::MonStopped => "mon_stopped",
            Self::MonForgets => "mon_store_lost",
            Self::SlowDisk => "slow_disk",
            Self::ClockJumps => "clock_jumped",
            Self::OsdOut => "osd_out",
            Self::MorePgs => "pg_num_raised",
            Self::FewerPgs => "pg_num_lowered",
            Self::Decay => "block_decayed",
            Self::OsdsParted => "osds_parted",
            Self::DiskErrors => "disk_errors",
        }
    }
}

/// Those that OSDs and the monitor suffer from.
const OBJECTS: [Kind; 8] = [
    Kind::OsdKill,
    Kind::OsdPower,
    Kind::MonKill,
    Kind::MonPower,
    Kind::AllPower,
    Kind::OsdIsolated,
    Kind::PowerMidCommit,
    Kind::Paused,
];

/// Those that everything but files and names suffers from.
const RADOS: [Kind; 18] = [
    Kind::OsdKill,
    Kind::OsdPower,
    Kind::MonKill,
    Kind::MonPower,
    Kind::ClientKill,
    Kind::AllPower,
    Kind::CutOneWay,
    Kind::CutBothWays,
    Kind::OsdIsolated,
    Kind::PrimaryCutOff,
    Kind::PrimaryDies,
    Kind::PowerMidCommit,
    Kind::Paused,
    Kind::OsdOut,
    Kind::MorePgs,
    Kind::FewerPgs,
    Kind::OsdsParted,
    Kind::DiskErrors,
];

/// Later ones, which are drawn apart: a seed without them is the run that it was.
const LATER: [Kind; 4] = [Kind::MonStopped, Kind::MonForgets, Kind::SlowDisk, Kind::ClockJumps];

/// Those that monitors suffer from.
const MONITORS: [Kind; 10] = [
    Kind::MonKill,
    Kind::MonPower,
    Kind::MonIsolated,
    Kind::AllPower,
    Kind::CutOneWay,
    Kind::PowerMidCommit,
    Kind::Paused,
    Kind::LeaderEstranged,
    Kind::LeaderStalled,
    Kind::PowerMidElection,
];

/// Which part of the cluster a run is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// Everything, as the seed draws it.
    Any,
    /// Objects, OSDs and the monitor.
    Objects,
    /// The file system and its server.
    Files,
    /// One PG, whose primary is cut off together with one of its clients, or dies with updates that it alone has.
    Primary,
    /// Disks lose their power with writes under way, while maps change.
    Commits,
    /// Snapshots, as OSDs die with and without their power.
    Snapshots,
    /// Three or five monitors, and commands that each client gives to whichever it finds.
    Monitors,
    /// One OSD's disk decays, under scrubs that come every few seconds.
    Decay,
    /// Objects and their snapshots on 3 to 12 OSDs, and everything that can befall OSDs, monitors, networks and disks; disks that are nearly
    /// full in some runs, such that decay in others.
    Rados,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Any,
        Self::Objects,
        Self::Files,
        Self::Primary,
        Self::Commits,
        Self::Snapshots,
        Self::Monitors,
        Self::Decay,
        Self::Rados,
    ];

    /// As the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Objects => "objects",
            Self::Files => "files",
            Self::Primary => "primary",
            Self::Commits => "commits",
            Self::Snapshots => "snapshots",
            Self::Monitors => "monitors",
            Self::Decay => "decay",
            Self::Rados => "rados",
        }
    }

    /// Whether clients work on files; `None` where the seed draws it.
    pub fn has_files(self) -> Option<bool> {
        match self {
            Self::Any => None,
            other => Some(other == Self::Files),
        }
    }
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
    /// No order by an administrator comes before. Each makes maps, and these are inputs: counted by those alone, orders would come faster
    /// and faster.
    next_order: Instant,
    /// What ends when.
    ends: BTreeMap<(Instant, u64), End>,
    next_end: u64,
    /// Whose power goes the next time that it writes, after so many more inputs of the world.
    armed: Option<(Slot, u64)>,
    /// What strikes as soon as the monitors have a leader of a newer term than this.
    upon_election: Option<(u64, Upon)>,
    /// Clients that died since they were last asked for.
    died: Vec<Slot>,
    /// A monitor has lost its store: a second one would be more than any quorum outlives.
    forgot: bool,
    /// How often each kind struck.
    pub counts: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Copy, Debug)]
enum Upon {
    /// No other monitor hears of the one that led, nor it of them; clients reach it.
    Isolated(Slot),
    /// All monitors lose their power.
    NoPower,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Start(Slot),
    Uncut(Slot, Slot),
    /// Of the machine of a primary whose updates reach nobody; clients that wait for it may die with it.
    Power(Slot),
    /// One monitor's store is lost and another one dies, the leader.
    Forget(Slot, Slot),
    DiskFast(Slot),
    DiskWell(Slot),
    ClockRight(Slot),
    /// The OSD of this number gets its share again.
    In(usize),
}

impl Nemesis {
    /// A nemesis for a run that begins now, after so many inputs. `decays` says whether the disk of the first OSD does.
    pub fn new(mut rng: Rng, profile: Profile, decays: bool, now: Instant, inputs: u64) -> Self {
        let mut apart = Rng::from_seed(rng.clone().u64() ^ 0x6c61_7465_7221);
        let mut kinds: Vec<Kind> = match profile {
            Profile::Any => ALL.into_iter().filter(|_| rng.chance(1, 3)).collect(),
            Profile::Objects | Profile::Snapshots => {
                OBJECTS.into_iter().filter(|_| rng.chance(1, 2)).collect()
            }
            Profile::Files => vec![Kind::MdsKill, Kind::AllPower],
            Profile::Primary => vec![Kind::PrimaryCutOff, Kind::PrimaryDies, Kind::Paused],
            Profile::Commits => vec![Kind::OsdKill, Kind::PowerMidCommit],
            Profile::Rados => RADOS.into_iter().filter(|_| rng.chance(1, 4)).collect(),
            Profile::Decay => Vec::new(),
            Profile::Monitors => MONITORS.into_iter().filter(|_| rng.chance(1, 2)).collect(),
        };
        let later = match profile {
            Profile::Any => 8,
            Profile::Monitors => 2,
            Profile::Rados => 6,
            _ => 0,
        };
        kinds.extend(LATER.into_iter().filter(|_| later > 0 && apart.chance(1, later)));
        if decays {
            kinds.push(Kind::Decay);
        }
        if matches!(profile, Profile::Any | Profile::Objects) && apart.chance(1, 3) {
            kinds.push(Kind::OsdOut);
        }
        if matches!(profile, Profile::Any | Profile::Objects | Profile::Snapshots) && apart.chance(1, 3) {
            kinds.push(Kind::MorePgs);
        }
        if matches!(profile, Profile::Any | Profile::Objects | Profile::Snapshots) && apart.chance(1, 3) {
            kinds.push(Kind::FewerPgs);
        }
        // Much of what decays nobody has, or it is rewritten before anybody looks.
        let pauses = if profile == Profile::Decay { (50, 500) } else { (500, 8000) };
        let pause = Duration::from_millis(rng.range(pauses.0, pauses.1));
        let any = profile == Profile::Any;
        let by_inputs =
            rng.chance(if any { 2 } else { 3 }, 4).then(|| rng.range(100, if any { 2000 } else { 500 }));
        Self {
            rng,
            kinds,
            pause,
            next_at: now + pause,
            inputs: by_inputs,
            next_input: inputs + by_inputs.unwrap_or(0),
            next_order: now,
            ends: BTreeMap::new(),
            next_end: 0,
            armed: None,
            upon_election: None,
            died: Vec::new(),
            forgot: false,
            counts: BTreeMap::new(),
        }
    }

    /// Whether it strikes now, by the number of inputs or because somebody's disk is at what it waited for.
    pub fn is_provoked(&self, cluster: &Cluster) -> bool {
        self.has_inputs(&cluster.world) || self.is_triggered(&cluster.world) || self.has_elected(cluster)
    }

    fn has_elected(&self, cluster: &Cluster) -> bool {
        let newest = || cluster.terms.borrow().newest();
        self.upon_election.is_some_and(|(term, _)| newest().is_some_and(|(newest, _)| newest > term))
    }

    fn has_inputs(&self, world: &ClientWorld) -> bool {
        self.inputs.is_some() && world.trace.events() >= self.next_input && !self.kinds.is_empty()
    }

    fn is_triggered(&self, world: &ClientWorld) -> bool {
        self.armed.is_some_and(|(slot, at)| world.trace.events() >= at && world.is_writing(slot))
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
            let end = entry.remove();
            self.come_to(end, cluster);
        }
        if self.is_triggered(&cluster.world)
            && let Some((slot, _)) = self.armed.take()
        {
            self.down(slot, Crash::Power, cluster);
        }
        if self.has_elected(cluster)
            && let Some((_, upon)) = self.upon_election.take()
        {
            self.elected(upon, cluster);
        }
        let by_time = self.inputs.is_none() && self.next_at <= now && !self.kinds.is_empty();
        if by_time || self.has_inputs(&cluster.world) {
            self.next_at =
                now + Duration::from_nanos(self.rng.range(1_000_000, self.pause.as_nanos() as u64 * 2));
            let most = self.inputs.unwrap_or(1) * 2;
            self.next_input = cluster.world.trace.events() + self.rng.range(1, most + 1);
            let kind = *self.rng.pick(&self.kinds);
            if self.carry_out(kind, cluster).is_some() {
                *self.counts.entry(kind.name()).or_default() += 1;
            }
        }
        std::mem::take(&mut self.died)
    }

    fn come_to(&mut self, end: End, cluster: &mut Cluster) {
        match end {
            End::Start(slot) => {
                // Whoever asked it to end has lost patience.
                if cluster.world.is_winding_up(slot) {
                    cluster.world.crash(slot, Crash::Process);
                }
                if !cluster.world.is_up(slot) {
                    cluster.world.start(slot);
                }
            }
            End::Uncut(from, to) => cluster.world.set_cut(from, to, false),
            End::Power(slot) => {
                for client in cluster.clients.clone() {
                    // Who lives on asks again, and hides that its update is gone.
                    if self.rng.chance(2, 3) {
                        self.down(client, Crash::Process, cluster);
                    }
                }
                self.down_for(slot, Crash::Power, (8_000, 20_000), cluster);
            }
            End::Forget(slot, leader) => {
                self.forget(slot, cluster);
                self.down_for(leader, Crash::Process, (1_000, 6_000), cluster);
            }
            End::In(osd) => give("osd in", osd, cluster),
            End::DiskWell(slot) => {
                cluster.world.set_disk_failing(slot, 0);
                // Whoever gave up meanwhile is started again.
                if !cluster.world.is_up(slot) {
                    cluster.world.start(slot);
                }
            }
            End::DiskFast(slot) => cluster.world.set_disk_slowness(slot, 1),
            End::ClockRight(slot) => cluster.world.set_wall_error(slot, 0),
        }
    }

    /// Whether it could be done.
    fn carry_out(&mut self, kind: Kind, cluster: &mut Cluster) -> Option<()> {
        let daemons = cluster.daemons();
        let osd = *self.rng.pick(&cluster.osds);
        let mon = self.a_mon(cluster);
        let all = [&daemons[..], &cluster.clients[..]].concat();
        match kind {
            Kind::OsdKill => self.down(osd, Crash::Process, cluster),
            Kind::OsdPower => self.down(osd, Crash::Power, cluster),
            Kind::MonKill => self.down(mon, Crash::Process, cluster),
            Kind::MonPower => self.down(mon, Crash::Power, cluster),
            Kind::MdsKill => self.down(cluster.mds?, Crash::Process, cluster),
            Kind::ClientKill => {
                let client = *self.rng.pick(&cluster.clients);
                self.down(client, Crash::Process, cluster)
            }
            Kind::AllPower => {
                for slot in daemons {
                    self.down(slot, Crash::Power, cluster);
                }
                Some(())
            }
            Kind::OsdIsolated => {
                // Clients still reach it, and must not be told old things.
                self.isolate(osd, cluster)
            }
            Kind::MonIsolated => {
                // Clients still reach it: a leader that was deposed must not tell them old things.
                self.isolate(mon, cluster)
            }
            Kind::CutOneWay | Kind::CutBothWays => {
                let (from, to) = (*self.rng.pick(&all), *self.rng.pick(&daemons));
                if from == to {
                    return None;
                }
                self.cut(from, to, cluster);
                if kind == Kind::CutBothWays {
                    self.cut(to, from, cluster);
                }
                Some(())
            }
            Kind::LeaderEstranged | Kind::LeaderStalled | Kind::PowerMidElection => {
                self.strike_leader(kind, cluster)
            }
            Kind::MonStopped | Kind::MonForgets | Kind::SlowDisk | Kind::ClockJumps => {
                self.strike_later(kind, mon, osd, cluster)
            }
            Kind::OsdOut | Kind::MorePgs | Kind::FewerPgs => self.order(kind, cluster),
            Kind::Decay => self.decay(cluster),
            Kind::OsdsParted => self.part_osds(cluster),
            Kind::DiskErrors => self.fail_disk(osd, cluster),
            Kind::PrimaryCutOff => self.cut_off_primary(cluster),
            Kind::PrimaryDies => {
                let (_, primary) = self.a_primary(cluster)?;
                let after = self.rng.range(20, 2_500);
                for other in cluster.osds.clone().into_iter().filter(|o| *o != primary) {
                    // Until after its end: what it sent must not arrive just before it.
                    self.cut_for(primary, other, (after + 100, after + 101), cluster);
                }
                self.end(cluster.world.now() + Duration::from_millis(after), End::Power(primary));
                Some(())
            }
            Kind::PowerMidCommit => {
                let slot = if self.rng.chance(1, 2) { mon } else { osd };
                self.armed = Some((slot, cluster.world.trace.events() + self.rng.below(20)));
                Some(())
            }
            Kind::Paused => {
                let slot = *self.rng.pick(&all);
                let until = cluster.world.now() + Duration::from_millis(self.rng.range(100, 9_000));
                cluster.world.pause(slot, until)
            }
        }
    }

    /// An administrator changes something, unless he just did.
    fn order(&mut self, kind: Kind, cluster: &mut Cluster) -> Option<()> {
        let now = cluster.world.now();
        if now < self.next_order {
            return None;
        }
        self.next_order = now + BETWEEN_ORDERS;
        match kind {
            Kind::OsdOut => self.take_out(cluster),
            Kind::MorePgs => self.raise_pg_num(cluster),
            _ => self.lower_pg_num(cluster),
        }
    }

    /// CRUSH gives an OSD nothing, for a while.
    fn take_out(&mut self, cluster: &mut Cluster) -> Option<()> {
        let number = self.rng.below(cluster.osds.len() as u64) as usize;
        give("osd out", number, cluster);
        let end = cluster.world.now() + Duration::from_millis(self.rng.range(500, 15_000));
        self.end(end, End::In(number));
        Some(())
    }

    /// Some OSDs and the others do not hear each other, or not in one direction.
    fn part_osds(&mut self, cluster: &mut Cluster) -> Option<()> {
        let (some, others): (Vec<Slot>, Vec<Slot>) =
            cluster.osds.iter().copied().partition(|_| self.rng.chance(1, 2));
        let (both, ms) = (self.rng.chance(1, 2), self.rng.range(50, 12_000));
        for (from, to) in some.iter().flat_map(|from| others.iter().map(move |to| (*from, *to))) {
            self.cut_for(from, to, (ms, ms + 1), cluster);
            if both {
                self.cut_for(to, from, (ms, ms + 1), cluster);
            }
        }
        (!some.is_empty() && !others.is_empty()).then_some(())
    }

    /// A disk refuses some operations, or all, for a while.
    fn fail_disk(&mut self, osd: Slot, cluster: &mut Cluster) -> Option<()> {
        let every = if self.rng.chance(1, 2) { 1 } else { self.rng.range(2, 100) };
        cluster.world.set_disk_failing(osd, every);
        let end = cluster.world.now() + Duration::from_millis(self.rng.range(20, 6_000));
        self.end(end, End::DiskWell(osd));
        Some(())
    }

    /// A block of the first OSD's disk rots, of an object that is on another one: what is on a single disk only, nobody was told of.
    fn decay(&mut self, cluster: &mut Cluster) -> Option<()> {
        let (slot, rng) = (cluster.osds[0], &mut self.rng);
        let others = cluster.osds[1..].to_vec();
        let mut others: Vec<_> =
            others.into_iter().map(|osd| cluster.world.disk(osd, 0).durable_image()).collect();
        let disk = cluster.world.disk(slot, 0);
        let blocks = crate::oracle::replicas::blocks(&mut disk.image(), &mut others);
        let block = blocks.get(rng.below(blocks.len().max(1) as u64) as usize)?;
        let how = if rng.chance(1, 3) { Decay::Unreadable } else { Decay::Flipped };
        (disk.decay(block, how) > 0).then_some(())
    }

    /// The PGs of a pool become up to four times as many, and move to places of their own.
    fn raise_pg_num(&mut self, cluster: &mut Cluster) -> Option<()> {
        let pools = cluster.pools();
        let (name, pg_num) = self.rng.pick(&pools);
        let more = pg_num + self.rng.range(1, u64::from(3 * pg_num) + 1) as u32;
        if more > MOST_PGS {
            return None;
        }
        set_pg_num(name, more, cluster)
    }

    /// The PGs of a pool become at most as many as there were in the beginning.
    fn lower_pg_num(&mut self, cluster: &mut Cluster) -> Option<()> {
        let pools = cluster.pools();
        let (name, pg_num) = self.rng.pick(&pools);
        let fewer = self.rng.range(1, u64::from(*pg_num) + 1) as u32;
        set_pg_num(name, fewer, cluster)
    }

    /// Nothing passes between a daemon and the others, with each for a time of its own.
    fn isolate(&mut self, slot: Slot, cluster: &mut Cluster) -> Option<()> {
        for other in cluster.daemons().into_iter().filter(|d| *d != slot) {
            self.cut(slot, other, cluster);
            self.cut(other, slot, cluster);
        }
        Some(())
    }

    /// Kinds of [`LATER`].
    fn strike_later(&mut self, kind: Kind, mon: Slot, osd: Slot, cluster: &mut Cluster) -> Option<()> {
        match kind {
            Kind::MonStopped => {
                cluster.world.wind_up(mon)?;
                self.died.push(mon);
                let end = cluster.world.now() + Duration::from_millis(self.rng.range(20, 4_000));
                self.end(end, End::Start(mon));
                Some(())
            }
            Kind::MonForgets => self.let_forget(mon, cluster),
            Kind::SlowDisk => {
                let slot = if self.rng.chance(1, 2) { mon } else { osd };
                let factor = *self.rng.pick(&[30, 300, 2_000]);
                cluster.world.set_disk_slowness(slot, factor);
                let end = cluster.world.now() + Duration::from_millis(self.rng.range(200, 8_000));
                self.end(end, End::DiskFast(slot));
                Some(())
            }
            _ => {
                let far = *self.rng.pick(&[2_000, 60_000, 7_200_000]);
                let ns = self.rng.range(far / 10, far) as i64 * 1_000_000;
                cluster.world.set_wall_error(mon, if self.rng.chance(1, 2) { ns } else { -ns });
                let end = cluster.world.now() + Duration::from_millis(self.rng.range(100, 10_000));
                self.end(end, End::ClockRight(mon));
                Some(())
            }
        }
    }

    /// A monitor loses its store. Of three, another one has missed what was decided meanwhile, and the leader dies: whoever
    /// voted for what it has forgotten would make that one decide anew.
    fn let_forget(&mut self, mon: Slot, cluster: &mut Cluster) -> Option<()> {
        if self.forgot || cluster.mons.len() < 3 {
            return None;
        }
        let (_, leader) = cluster.terms.borrow().newest()?;
        let late = cluster.mons.iter().copied().find(|m| *m != mon && *m != leader)?;
        if mon == leader || cluster.mons.len() > 3 || self.rng.chance(1, 4) {
            return self.forget(mon, cluster);
        }
        let span = self.rng.range(200, 2_000);
        self.isolate_mon(late, span, cluster);
        self.forgot = true;
        self.end(cluster.world.now() + Duration::from_millis(span), End::Forget(mon, leader));
        Some(())
    }

    fn forget(&mut self, mon: Slot, cluster: &mut Cluster) -> Option<()> {
        self.down_for(mon, Crash::Power, (20, 500), cluster)?;
        cluster.world.lose_disks(mon);
        self.forgot = true;
        Some(())
    }

    /// Something between the monitors' leader and the others.
    fn strike_leader(&mut self, kind: Kind, cluster: &mut Cluster) -> Option<()> {
        let (term, leader) = cluster.terms.borrow().newest()?;
        match kind {
            Kind::LeaderEstranged => {
                let others: Vec<Slot> = cluster.mons.iter().copied().filter(|m| *m != leader).collect();
                let other = *self.rng.pick(&others);
                let span = self.rng.range(1_500, 6_000);
                self.cut_for(leader, other, (span, span + 1), cluster);
                self.cut_for(other, leader, (span, span + 1), cluster);
                self.upon_election = Some((term, Upon::Isolated(leader)));
            }
            Kind::LeaderStalled => {
                let span = self.rng.range(1_000, 4_000);
                let until = cluster.world.now() + Duration::from_millis(span);
                cluster.world.pause_before_timers(leader, until)?;
                let longer = self.rng.range(10, 1_000);
                self.isolate_mon(leader, span + longer, cluster);
            }
            _ => {
                self.down_for(leader, Crash::Process, (20, 6_000), cluster)?;
                self.upon_election = Some((term, Upon::NoPower));
            }
        }
        Some(())
    }

    /// The monitors have a new leader.
    fn elected(&mut self, upon: Upon, cluster: &mut Cluster) {
        match upon {
            Upon::Isolated(former) => {
                let span = self.rng.range(500, 4_000);
                self.isolate_mon(former, span, cluster);
            }
            Upon::NoPower => {
                for slot in cluster.mons.clone() {
                    self.down_for(slot, Crash::Power, (20, 3_000), cluster);
                }
            }
        }
    }

    /// Nothing passes between a monitor and other daemons, for so many milliseconds.
    fn isolate_mon(&mut self, mon: Slot, ms: u64, cluster: &mut Cluster) {
        for other in cluster.daemons().into_iter().filter(|m| *m != mon) {
            self.cut_for(mon, other, (ms, ms + 1), cluster);
            self.cut_for(other, mon, (ms, ms + 1), cluster);
        }
    }

    /// One of the monitors. No draw where there is one alone.
    fn a_mon(&mut self, cluster: &Cluster) -> Slot {
        if cluster.mons.len() == 1 { cluster.mons[0] } else { *self.rng.pick(&cluster.mons) }
    }

    /// A client and the OSD that it last had an answer from, which is the primary that it knows.
    fn a_primary(&mut self, cluster: &Cluster) -> Option<(Slot, Slot)> {
        // Not the first: where clients differ, that is the one that writes.
        let client = *self.rng.pick(&cluster.clients[usize::from(cluster.clients.len() > 1)..]);
        let primary = *cluster.primaries.borrow().get(&client)?;
        (cluster.world.is_up(client) && cluster.world.is_up(primary)).then_some((client, primary))
    }

    /// A primary on an island with one client: everybody else goes on without the two, and neither of them learns of it.
    fn cut_off_primary(&mut self, cluster: &mut Cluster) -> Option<()> {
        let (client, primary) = self.a_primary(cluster)?;
        let span = self.rng.range(8_000, 20_000);
        for other in cluster.daemons().into_iter().filter(|d| *d != primary) {
            for islander in [client, primary] {
                self.cut_for(islander, other, (span, span + 1), cluster);
                self.cut_for(other, islander, (span, span + 1), cluster);
            }
        }
        Some(())
    }

    fn down(&mut self, slot: Slot, how: Crash, cluster: &mut Cluster) -> Option<()> {
        if !cluster.world.is_up(slot) {
            return None;
        }
        // Short enough to come back unnoticed, or long enough to be given up.
        let longest = if self.rng.chance(1, 2) { 1_500 } else { 15_000 };
        self.down_for(slot, how, (20, longest), cluster)
    }

    fn down_for(&mut self, slot: Slot, how: Crash, ms: (u64, u64), cluster: &mut Cluster) -> Option<()> {
        if !cluster.world.is_up(slot) {
            return None;
        }
        cluster.world.crash(slot, how);
        let end = cluster.world.now() + Duration::from_millis(self.rng.range(ms.0, ms.1));
        self.end(end, End::Start(slot));
        self.died.push(slot);
        Some(())
    }

    fn cut(&mut self, from: Slot, to: Slot, cluster: &mut Cluster) {
        self.cut_for(from, to, (50, 12_000), cluster);
    }

    fn cut_for(&mut self, from: Slot, to: Slot, ms: (u64, u64), cluster: &mut Cluster) {
        cluster.world.set_cut(from, to, true);
        let end = cluster.world.now() + Duration::from_millis(self.rng.range(ms.0, ms.1));
        self.end(end, End::Uncut(from, to));
    }

    fn end(&mut self, at: Instant, end: End) {
        self.ends.insert((at, self.next_end), end);
        self.next_end += 1;
    }

    /// Everything is well again, now.
    pub fn give_up(&mut self, cluster: &mut Cluster) {
        for (_, end) in std::mem::take(&mut self.ends) {
            if let End::In(osd) = end {
                give("osd in", osd, cluster);
            }
        }
        (self.armed, self.upon_election) = (None, None);
        cluster.world.heal_all();
        cluster.world.resume_all();
        cluster.world.mend_all();
        for slot in [cluster.daemons(), cluster.clients.clone()].concat() {
            if cluster.world.is_winding_up(slot) {
                cluster.world.crash(slot, Crash::Process);
            }
            if !cluster.world.is_up(slot) {
                cluster.world.start(slot);
            }
        }
    }
}

/// Says how many PGs a pool is to have. Nobody waits for the answer.
fn set_pg_num(pool: &str, pg_num: u32, cluster: &mut Cluster) -> Option<()> {
    let set = serde_json::json!({
        "prefix": "osd pool set", "pool": pool, "var": "pg_num", "val": pg_num.to_string()
    });
    let request = Request::Command { command: set.to_string(), input: Default::default() };
    cluster.world.request(cluster.admin, request);
    Some(())
}

/// Gives a command about an OSD. Nobody waits for its answer.
fn give(prefix: &str, osd: usize, cluster: &mut Cluster) {
    let command = serde_json::json!({ "prefix": prefix, "ids": [osd.to_string()] }).to_string();
    cluster.world.request(cluster.admin, Request::Command { command, input: Default::default() });
}
