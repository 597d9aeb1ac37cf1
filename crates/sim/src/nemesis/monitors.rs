//! Faults of monitors beyond those of any process: of their leader, their stores and their clocks.

use super::profile::Profile;
use super::state::{Fault, Nemesis, Repair, UponElection};
use crate::cluster::Cluster;
use crate::disk::Crash;
use crate::host::HostId;
use Profile::{Any, Monitors, Rados};
use std::time::Duration;

/// The leader and one other monitor do not hear each other. If another leader is elected, the former one is
/// isolated, but not from clients.
pub static LEADER_PARTITIONED: Fault = Fault {
    name: "leader_partitioned",
    profiles: &[Monitors],
    also_in: &[],
    inject: |nemesis, _, cluster| {
        let (term, leader) = cluster.terms.borrow().newest()?;
        let others: Vec<HostId> = cluster.mons.iter().copied().filter(|m| *m != leader).collect();
        let other = *nemesis.rng.pick(&others);
        let span_ms = nemesis.rng.range(1_500, 6_000);
        nemesis.cut_both_for(leader, other, span_ms, cluster);
        nemesis.upon_election = Some((term, UponElection::Isolate(leader)));
        Some(())
    },
};

/// The leader's process stops and its links are cut. When it goes on, it handles clients' messages before
/// timers.
pub static LEADER_STALLED: Fault = Fault {
    name: "leader_stalled",
    profiles: &[Monitors],
    also_in: &[],
    inject: |nemesis, _, cluster| {
        let (_, leader) = cluster.terms.borrow().newest()?;
        let span_ms = nemesis.rng.range(1_000, 4_000);
        let until = cluster.world.now() + Duration::from_millis(span_ms);
        cluster.world.pause_before_timers(leader, until)?;
        let longer_ms = nemesis.rng.range(10, 1_000);
        nemesis.isolate_for(leader, span_ms + longer_ms, cluster);
        Some(())
    },
};

/// The leader dies, and all monitors lose their power when the next one is elected.
pub static POWER_LOST_MID_ELECTION: Fault = Fault {
    name: "power_lost_mid_election",
    profiles: &[Monitors],
    also_in: &[],
    inject: |nemesis, _, cluster| {
        let (term, leader) = cluster.terms.borrow().newest()?;
        nemesis.crash_for(leader, Crash::Process, (20, 6_000), cluster)?;
        nemesis.upon_election = Some((term, UponElection::CutPower));
        Some(())
    },
};

/// A monitor is asked to shut down, as a service manager does. The store that it leaves must be consistent.
pub static MON_STOPPED: Fault = Fault {
    name: "mon_stopped",
    profiles: &[],
    also_in: &[(Any, 8), (Monitors, 2), (Rados, 6)],
    inject: |nemesis, victims, cluster| {
        cluster.world.shut_down(victims.mon)?;
        nemesis.died.push(victims.mon);
        let end = cluster.world.now() + Duration::from_millis(nemesis.rng.range(20, 4_000));
        nemesis.repair_at(end, Repair::Start(victims.mon));
        Some(())
    },
};

/// A monitor loses its store, once in a run. Of three, another one has missed what was decided meanwhile, and
/// the leader dies: a monitor that votes though it has forgotten would make that one decide differently.
pub static MON_STORE_LOST: Fault = Fault {
    name: "mon_store_lost",
    profiles: &[],
    also_in: &[(Any, 8), (Monitors, 2), (Rados, 6)],
    inject: |nemesis, victims, cluster| {
        if nemesis.store_lost || cluster.mons.len() < 3 {
            return None;
        }
        let mon = victims.mon;
        let (_, leader) = cluster.terms.borrow().newest()?;
        let late = cluster.mons.iter().copied().find(|m| *m != mon && *m != leader)?;
        if mon == leader || cluster.mons.len() > 3 || nemesis.rng.chance(1, 4) {
            return nemesis.lose_store(mon, cluster);
        }
        let span_ms = nemesis.rng.range(200, 2_000);
        nemesis.isolate_for(late, span_ms, cluster);
        nemesis.store_lost = true;
        let end = cluster.world.now() + Duration::from_millis(span_ms);
        nemesis.repair_at(end, Repair::LoseStore { mon, leader });
        Some(())
    },
};

/// A monitor's wall clock is wrong by up to two hours, either way, for a while.
pub static CLOCK_JUMPED: Fault = Fault {
    name: "clock_jumped",
    profiles: &[],
    also_in: &[(Any, 8), (Monitors, 2), (Rados, 6)],
    inject: |nemesis, victims, cluster| {
        let most_ms = *nemesis.rng.pick(&[2_000, 60_000, 7_200_000]);
        let error_ns = nemesis.rng.range(most_ms / 10, most_ms) as i64 * 1_000_000;
        let error_ns = if nemesis.rng.chance(1, 2) { error_ns } else { -error_ns };
        cluster.world.set_wall_error(victims.mon, error_ns);
        let end = cluster.world.now() + Duration::from_millis(nemesis.rng.range(100, 10_000));
        nemesis.repair_at(end, Repair::ClockRight(victims.mon));
        Some(())
    },
};

impl Nemesis {
    /// One of the monitors. Nothing is drawn if there is only one.
    pub(super) fn pick_mon(&mut self, cluster: &Cluster) -> HostId {
        if cluster.mons.len() == 1 { cluster.mons[0] } else { *self.rng.pick(&cluster.mons) }
    }

    /// A monitor loses its power and its store.
    pub(super) fn lose_store(&mut self, mon: HostId, cluster: &mut Cluster) -> Option<()> {
        self.crash_for(mon, Crash::Power, (20, 500), cluster)?;
        cluster.world.lose_disks(mon);
        self.store_lost = true;
        Some(())
    }

    /// The monitors have a new leader, which a fault waited for.
    pub(super) fn leader_elected(&mut self, then: UponElection, cluster: &mut Cluster) {
        match then {
            UponElection::Isolate(former) => {
                let span_ms = self.rng.range(500, 4_000);
                self.isolate_for(former, span_ms, cluster);
            }
            UponElection::CutPower => {
                for host in cluster.mons.clone() {
                    self.crash_for(host, Crash::Power, (20, 3_000), cluster);
                }
            }
        }
    }
}
