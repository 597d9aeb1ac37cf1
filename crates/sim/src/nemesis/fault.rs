//! The table of faults. A fault is declared once, beside the function that injects it, and listed here.

use super::profile::Profile;
use super::state::Fault;
use super::{admin, disks, monitors, network, processes};
use stdx::Rng;

/// All faults, in the order in which a seed draws them: a new one goes to the end.
pub static FAULTS: [&Fault; 37] = [
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
    &processes::MDS_PAUSED,
    &processes::CLIENT_EVICTED,
    &processes::MDS_KILLED_UPON_FLUSH,
    &admin::SUBTREE_EXPORTED,
    &admin::MAX_MDS_SET,
    &admin::MDS_LOAD_CHANGED,
    &admin::SHARD_EXPORTED,
    &network::CLIENT_CUT_OFF,
    &admin::DIR_REPLICATED,
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
    if profile == Profile::Ranks {
        // What it is about.
        faults.extend([&admin::SUBTREE_EXPORTED; 4]);
        faults.extend([&admin::SHARD_EXPORTED; 2]);
        if faults.iter().any(|fault| std::ptr::eq(*fault, &admin::DIR_REPLICATED)) {
            faults.extend([&admin::DIR_REPLICATED; 6]);
        }
    }
    faults
}
