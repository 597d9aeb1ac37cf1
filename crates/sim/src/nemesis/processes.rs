//! Faults of processes and of their machines' power.

use super::profile::Profile;
use super::state::{Fault, Nemesis, Repair};
use crate::cluster::Cluster;
use crate::disk::Crash;
use crate::host::HostId;
use Profile::{Any, Commits, Files, Images, Monitors, Objects, Primary, Rados, Ranks, Snapshots};
use std::time::Duration;

/// An OSD's process is killed.
pub static OSD_KILLED: Fault = Fault {
    name: "osd_killed",
    profiles: &[Any, Objects, Snapshots, Commits, Rados, Images],
    also_in: &[],
    inject: |nemesis, victims, cluster| nemesis.crash(victims.osd, Crash::Process, cluster),
};

/// An OSD's machine loses its power.
pub static OSD_POWER_LOST: Fault = Fault {
    name: "osd_power_lost",
    profiles: &[Any, Objects, Snapshots, Rados, Images],
    also_in: &[],
    inject: |nemesis, victims, cluster| nemesis.crash(victims.osd, Crash::Power, cluster),
};

/// A monitor's process is killed.
pub static MON_KILLED: Fault = Fault {
    name: "mon_killed",
    profiles: &[Any, Objects, Snapshots, Monitors, Rados, Images],
    also_in: &[],
    inject: |nemesis, victims, cluster| nemesis.crash(victims.mon, Crash::Process, cluster),
};

/// A monitor's machine loses its power.
pub static MON_POWER_LOST: Fault = Fault {
    name: "mon_power_lost",
    profiles: &[Any, Objects, Snapshots, Monitors, Rados, Images],
    also_in: &[],
    inject: |nemesis, victims, cluster| nemesis.crash(victims.mon, Crash::Power, cluster),
};

/// A metadata server's process is killed.
pub static MDS_KILLED: Fault = Fault {
    name: "mds_killed",
    profiles: &[Any, Files, Ranks],
    also_in: &[],
    inject: |nemesis, _, cluster| {
        let server = nemesis.pick_mds(cluster)?;
        nemesis.crash(server, Crash::Process, cluster)
    },
};

/// A metadata server is stopped for a while, and goes on when a standby may have its rank.
pub static MDS_PAUSED: Fault = Fault {
    name: "mds_paused",
    profiles: &[],
    also_in: &[(Files, 2), (Ranks, 2)],
    inject: |nemesis, _, cluster| {
        let server = nemesis.pick_mds(cluster)?;
        let until = cluster.world.now() + Duration::from_millis(nemesis.rng.range(100, 12_000));
        cluster.world.pause(server, until)
    },
};

/// A metadata server is killed when a client next gives up bits with a flush: its successor hears of what was
/// changed under them from the client alone.
pub static MDS_KILLED_UPON_FLUSH: Fault = Fault {
    name: "mds_killed_upon_flush",
    profiles: &[],
    also_in: &[(Files, 2), (Ranks, 2)],
    inject: |nemesis, _, cluster| {
        nemesis.upon_flush = Some(cluster.flushes.get().0);
        Some(())
    },
};

/// A client dies.
pub static CLIENT_KILLED: Fault = Fault {
    name: "client_killed",
    profiles: &[Any, Rados, Images],
    also_in: &[],
    inject: |nemesis, _, cluster| {
        let client = *nemesis.rng.pick(&cluster.clients);
        nemesis.crash(client, Crash::Process, cluster)
    },
};

/// An administrator evicts a client, which lives on and comes back as a new one.
pub static CLIENT_EVICTED: Fault = Fault {
    name: "client_evicted",
    profiles: &[],
    also_in: &[(Files, 3), (Ranks, 3), (Any, 6)],
    inject: |nemesis, _, cluster| {
        let clients = |(_, list): (i32, String)| {
            let list: Vec<serde_json::Value> = serde_json::from_str(&list).unwrap_or_default();
            list.iter().filter_map(|session| session["id"].as_u64()).collect::<Vec<u64>>()
        };
        for server in cluster.mdss() {
            let list = cluster.world.admin(server, r#"{"prefix":"session ls"}"#).map(clients);
            let Some(list) = list.filter(|list| !list.is_empty()) else { continue };
            let id = nemesis.rng.pick(&list);
            let command = format!(r#"{{"prefix":"client evict","filters":["id={id}"]}}"#);
            return cluster.world.admin(server, &command).filter(|(code, _)| *code == 0).map(drop);
        }
        None
    },
};

/// All daemons' machines lose their power at once.
pub static ALL_POWER_LOST: Fault = Fault {
    name: "all_power_lost",
    profiles: &[Any, Objects, Snapshots, Files, Ranks, Monitors, Rados, Images],
    also_in: &[],
    inject: |nemesis, victims, cluster| {
        for daemon in &victims.daemons {
            nemesis.crash(*daemon, Crash::Power, cluster);
        }
        Some(())
    },
};

/// A primary's updates reach nobody, then its machine loses its power: log entries remain that only it has.
pub static PRIMARY_DIED_MID_UPDATE: Fault = Fault {
    name: "primary_died_mid_update",
    profiles: &[Any, Primary, Rados, Images],
    also_in: &[],
    inject: |nemesis, _, cluster| {
        let (_, primary) = nemesis.pick_primary(cluster)?;
        let after_ms = nemesis.rng.range(20, 2_500);
        for other in cluster.osds.clone().into_iter().filter(|o| *o != primary) {
            // The cut outlasts the primary: its updates must not arrive just before its end.
            nemesis.cut_for(primary, other, (after_ms + 100, after_ms + 101), cluster);
        }
        nemesis.repair_at(cluster.world.now() + Duration::from_millis(after_ms), Repair::EndPrimary(primary));
        Some(())
    },
};

/// A machine loses its power the next time that its disk has writes in flight.
pub static POWER_LOST_MID_COMMIT: Fault = Fault {
    name: "power_lost_mid_commit",
    profiles: &[Any, Objects, Snapshots, Commits, Monitors, Rados, Images],
    also_in: &[],
    inject: |nemesis, victims, cluster| {
        let host = if nemesis.rng.chance(1, 2) { victims.mon } else { victims.osd };
        nemesis.armed = Some((host, cluster.world.trace.events() + nemesis.rng.below(20)));
        Some(())
    },
};

/// A process is stopped for a while: its clock goes on, its disk completes what it was given, and all input
/// arrives at once afterwards.
pub static PROCESS_PAUSED: Fault = Fault {
    name: "process_paused",
    profiles: &[Any, Objects, Snapshots, Primary, Monitors, Rados, Images],
    also_in: &[],
    inject: |nemesis, victims, cluster| {
        let host = *nemesis.rng.pick(&victims.all);
        let until = cluster.world.now() + Duration::from_millis(nemesis.rng.range(100, 9_000));
        cluster.world.pause(host, until)
    },
};

impl Nemesis {
    /// Ends a primary whose updates reached nobody, and most of the clients that wait for it: a client that
    /// lives on would ask again, and hide that its update is lost.
    pub(super) fn end_primary(&mut self, primary: HostId, cluster: &mut Cluster) {
        for client in cluster.clients.clone() {
            if self.rng.chance(2, 3) {
                self.crash(client, Crash::Process, cluster);
            }
        }
        self.crash_for(primary, Crash::Power, (8_000, 20_000), cluster);
    }

    /// A metadata server, active or standby.
    fn pick_mds(&mut self, cluster: &Cluster) -> Option<HostId> {
        let servers = cluster.mdss();
        match servers.len() {
            0 | 1 => servers.first().copied(),
            _ => Some(*self.rng.pick(&servers)),
        }
    }

    /// A client and the OSD that answered it last, which is the primary that it knows.
    pub(super) fn pick_primary(&mut self, cluster: &Cluster) -> Option<(HostId, HostId)> {
        // Not the first client: if clients have different loads, that is the one that writes.
        let client = *self.rng.pick(&cluster.clients[usize::from(cluster.clients.len() > 1)..]);
        let primary = *cluster.primaries.borrow().get(&client)?;
        (cluster.world.is_up(client) && cluster.world.is_up(primary)).then_some((client, primary))
    }

    /// Crashes a node, which starts again soon enough to go unnoticed, or late enough to be given up.
    pub(super) fn crash(&mut self, host: HostId, how: Crash, cluster: &mut Cluster) -> Option<()> {
        if !cluster.world.is_up(host) {
            return None;
        }
        let longest = if self.rng.chance(1, 2) { 1_500 } else { 15_000 };
        self.crash_for(host, how, (20, longest), cluster)
    }

    /// Crashes a node, which starts again after a time in this range of milliseconds.
    pub(super) fn crash_for(
        &mut self,
        host: HostId,
        how: Crash,
        ms: (u64, u64),
        cluster: &mut Cluster,
    ) -> Option<()> {
        if !cluster.world.is_up(host) {
            return None;
        }
        cluster.world.crash(host, how);
        let end = cluster.world.now() + Duration::from_millis(self.rng.range(ms.0, ms.1));
        self.repair_at(end, Repair::Start(host));
        self.died.push(host);
        Some(())
    }
}
