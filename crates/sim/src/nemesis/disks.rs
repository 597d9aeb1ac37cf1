//! Faults of disks.

use super::profile::Profile;
use super::state::{Fault, Repair};
use crate::disk::Decay;
use Profile::{Any, Images, Monitors, Rados};
use std::time::Duration;

/// A disk takes 30 to 2,000 times as long for a while.
pub static SLOW_DISK: Fault = Fault {
    name: "slow_disk",
    profiles: &[],
    also_in: &[(Any, 8), (Monitors, 2), (Rados, 6), (Images, 6)],
    inject: |nemesis, victims, cluster| {
        let host = if nemesis.rng.chance(1, 2) { victims.mon } else { victims.osd };
        let factor = *nemesis.rng.pick(&[30, 300, 2_000]);
        cluster.world.set_disk_slowness(host, factor);
        let end = cluster.world.now() + Duration::from_millis(nemesis.rng.range(200, 8_000));
        nemesis.repair_at(end, Repair::DiskFast(host));
        Some(())
    },
};

/// A block rots on the first OSD's disk: a bit flips, or reads fail until the block is written again. The
/// block belongs to an object that another OSD has durably, because data on a single disk was never
/// acknowledged. None rots while others do not hear this OSD: what it still orders as a primary makes a
/// version of the object that is on this disk alone, and with the block it is damaged.
///
/// Runs whose configuration has a rotting disk have this fault; the seed does not draw it.
pub static BLOCK_DECAYED: Fault = Fault {
    name: "block_decayed",
    profiles: &[],
    also_in: &[],
    inject: |nemesis, _, cluster| {
        let (host, rng) = (cluster.osds[0], &mut nemesis.rng);
        let others = cluster.osds[1..].to_vec();
        if others.iter().any(|osd| cluster.world.is_cut(host, *osd) || cluster.world.is_cut(*osd, host)) {
            return None;
        }
        let mut others: Vec<_> =
            others.into_iter().map(|osd| cluster.world.disk(osd, 0).durable_image()).collect();
        let disk = cluster.world.disk(host, 0);
        let blocks = crate::oracle::replicas::blocks(&mut disk.image(), &mut others);
        let block = blocks.get(rng.below(blocks.len().max(1) as u64) as usize)?;
        let how = if rng.chance(1, 3) { Decay::Unreadable } else { Decay::Flipped };
        (disk.decay(block, how) > 0).then_some(())
    },
};

/// A disk refuses some operations, or all, for a while.
pub static DISK_ERRORS: Fault = Fault {
    name: "disk_errors",
    profiles: &[Rados],
    also_in: &[],
    inject: |nemesis, victims, cluster| {
        let every = if nemesis.rng.chance(1, 2) { 1 } else { nemesis.rng.range(2, 100) };
        cluster.world.set_disk_failing(victims.osd, every);
        let end = cluster.world.now() + Duration::from_millis(nemesis.rng.range(20, 6_000));
        nemesis.repair_at(end, Repair::DiskWell(victims.osd));
        Some(())
    },
};
