//! The table of faults. A fault is declared once, beside the function that injects it, and listed here.

use super::{Nemesis, Profile, admin, disks, monitors, network, processes};
use crate::cluster::Cluster;
use crate::world::HostId;
use stdx::Rng;

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

/// All faults, in the order in which a seed draws them: a new one goes to the end.
pub static FAULTS: [&Fault; 28] = [
    &processes::OSD_KILLED,
    &processes::OSD_POWER_LOST,
    &processes::MON_KILLED,
    &processes::MON_POWER_LOST,
    &network::MON_ISOLATED,
    &processes::MDS_KILLED,
    &processes::CLIENT_KILLED,
    &processes::ALL_POWER_LOST,
    &network::CUT_ONE_WAY,
    &network::CUT_BOTH_WAYS,
    &network::OSD_ISOLATED,
    &network::PRIMARY_CUT_OFF,
    &processes::PRIMARY_DIED_MID_UPDATE,
    &processes::POWER_LOST_MID_COMMIT,
    &processes::PROCESS_PAUSED,
    &monitors::LEADER_PARTITIONED,
    &monitors::LEADER_STALLED,
    &monitors::POWER_LOST_MID_ELECTION,
    &monitors::MON_STOPPED,
    &monitors::MON_STORE_LOST,
    &disks::SLOW_DISK,
    &monitors::CLOCK_JUMPED,
    &disks::BLOCK_DECAYED,
    &admin::OSD_OUT,
    &admin::PG_NUM_RAISED,
    &admin::PG_NUM_LOWERED,
    &network::OSDS_PARTITIONED,
    &disks::DISK_ERRORS,
];

/// Draws the faults of a run. `decays` says if the first OSD's disk rots.
pub fn draw(rng: &mut Rng, profile: Profile, decays: bool) -> Vec<&'static Fault> {
    let mut apart = Rng::from_seed(rng.clone().u64() ^ 0x6c61_7465_7221);
    let (part, whole) = profile.fault_chance();
    let listed = FAULTS.into_iter().filter(|fault| fault.profiles.contains(&profile));
    let mut faults: Vec<_> = listed.filter(|_| part == whole || rng.chance(part, whole)).collect();
    for fault in FAULTS {
        let rarely = fault.also_in.iter().find(|(p, _)| *p == profile);
        let decay = std::ptr::eq(fault, &disks::BLOCK_DECAYED) && decays;
        if decay || rarely.is_some_and(|(_, one_in)| apart.chance(1, *one_in)) {
            faults.push(fault);
        }
    }
    faults
}
