//! Faults of the network: links that are cut for a while. Held messages arrive late, as retransmissions do.

use super::profile::Profile;
use super::state::{Fault, Nemesis, Repair, Victims};
use crate::cluster::Cluster;
use crate::host::HostId;
use Profile::{Any, Images, Monitors, Objects, Primary, Rados, Snapshots};
use std::time::Duration;

/// A monitor and the other daemons do not hear each other. Clients still reach it: a deposed leader must not
/// tell them outdated state.
pub static MON_ISOLATED: Fault = Fault {
    name: "mon_isolated",
    profiles: &[Monitors],
    also_in: &[],
    inject: |nemesis, victims, cluster| nemesis.isolate(victims.mon, cluster),
};

/// Nothing passes from one node to another.
pub static CUT_ONE_WAY: Fault = Fault {
    name: "cut_one_way",
    profiles: &[Any, Monitors, Rados, Images],
    also_in: &[],
    inject: |nemesis, victims, cluster| nemesis.cut_pair(victims, false, cluster),
};

/// Two nodes do not hear each other.
pub static CUT_BOTH_WAYS: Fault = Fault {
    name: "cut_both_ways",
    profiles: &[Any, Rados, Images],
    also_in: &[],
    inject: |nemesis, victims, cluster| nemesis.cut_pair(victims, true, cluster),
};

/// An OSD and the other daemons do not hear each other. Clients still reach it, and must not be told outdated
/// state.
pub static OSD_ISOLATED: Fault = Fault {
    name: "osd_isolated",
    profiles: &[Any, Objects, Snapshots, Rados, Images],
    also_in: &[],
    inject: |nemesis, victims, cluster| nemesis.isolate(victims.osd, cluster),
};

/// A primary is cut off together with one client: everybody else goes on without the two, and neither learns
/// of it.
pub static PRIMARY_CUT_OFF: Fault = Fault {
    name: "primary_cut_off",
    profiles: &[Any, Primary, Rados, Images],
    also_in: &[],
    inject: |nemesis, _, cluster| {
        let (client, primary) = nemesis.pick_primary(cluster)?;
        let span_ms = nemesis.rng.range(8_000, 20_000);
        for other in cluster.daemons().into_iter().filter(|d| *d != primary) {
            for islander in [client, primary] {
                nemesis.cut_both_for(islander, other, span_ms, cluster);
            }
        }
        Some(())
    },
};

/// Two groups of OSDs do not hear each other, or only in one direction. Monitors and clients reach all of
/// them.
pub static OSDS_PARTITIONED: Fault = Fault {
    name: "osds_partitioned",
    profiles: &[Rados, Images],
    also_in: &[],
    inject: |nemesis, _, cluster| {
        let (some, others): (Vec<HostId>, Vec<HostId>) =
            cluster.osds.iter().copied().partition(|_| nemesis.rng.chance(1, 2));
        let (both, ms) = (nemesis.rng.chance(1, 2), nemesis.rng.range(50, 12_000));
        for (from, to) in some.iter().flat_map(|from| others.iter().map(move |to| (*from, *to))) {
            nemesis.cut_for(from, to, (ms, ms + 1), cluster);
            if both {
                nemesis.cut_for(to, from, (ms, ms + 1), cluster);
            }
        }
        (!some.is_empty() && !others.is_empty()).then_some(())
    },
};

/// A client and all daemons do not hear each other for so long that its watches end: who wants the lock that
/// it has puts it on the blocklist, and it comes back without knowing.
pub static CLIENT_CUT_OFF: Fault = Fault {
    name: "client_cut_off",
    profiles: &[Images],
    also_in: &[],
    inject: |nemesis, _, cluster| {
        let client = *nemesis.rng.pick(&cluster.clients);
        let ms = nemesis.rng.range(3_000, 40_000);
        for daemon in cluster.daemons() {
            nemesis.cut_both_for(client, daemon, ms, cluster);
        }
        Some(())
    },
};

impl Nemesis {
    fn cut_pair(&mut self, victims: &Victims, both_ways: bool, cluster: &mut Cluster) -> Option<()> {
        let (from, to) = (*self.rng.pick(&victims.all), *self.rng.pick(&victims.daemons));
        if from == to {
            return None;
        }
        self.cut(from, to, cluster);
        if both_ways {
            self.cut(to, from, cluster);
        }
        Some(())
    }

    /// Cuts a daemon off from the others, from each for a time of its own.
    fn isolate(&mut self, host: HostId, cluster: &mut Cluster) -> Option<()> {
        for other in cluster.daemons().into_iter().filter(|d| *d != host) {
            self.cut(host, other, cluster);
            self.cut(other, host, cluster);
        }
        Some(())
    }

    /// Cuts a daemon off from all others for `ms` milliseconds.
    pub(super) fn isolate_for(&mut self, host: HostId, ms: u64, cluster: &mut Cluster) {
        for other in cluster.daemons().into_iter().filter(|d| *d != host) {
            self.cut_both_for(host, other, ms, cluster);
        }
    }

    /// Cuts both directions between two nodes for `ms` milliseconds.
    pub(super) fn cut_both_for(&mut self, a: HostId, b: HostId, ms: u64, cluster: &mut Cluster) {
        self.cut_for(a, b, (ms, ms + 1), cluster);
        self.cut_for(b, a, (ms, ms + 1), cluster);
    }

    fn cut(&mut self, from: HostId, to: HostId, cluster: &mut Cluster) {
        self.cut_for(from, to, (50, 12_000), cluster);
    }

    /// Cuts one direction for a time in this range of milliseconds.
    pub(super) fn cut_for(&mut self, from: HostId, to: HostId, ms: (u64, u64), cluster: &mut Cluster) {
        cluster.world.set_cut(from, to, true);
        let end = cluster.world.now() + Duration::from_millis(self.rng.range(ms.0, ms.1));
        self.repair_at(end, Repair::Reconnect(from, to));
    }
}
