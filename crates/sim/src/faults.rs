//! How badly the simulated world behaves.

use stdx::Rng;

/// Rates and delays of faults. All off in [`Faults::none`], which the convergence phase of a run uses.
#[derive(Clone, Debug)]
pub struct Faults {
    /// A message's delay, in nanoseconds: smallest and largest.
    pub delay: (u64, u64),
    /// One message in so many takes a hundred times longer; 0 for never.
    pub slow_message_every: u64,
    /// One message in so many breaks its connection instead of arriving; 0 for never.
    pub break_every: u64,
    /// A disk operation's time, in nanoseconds: smallest and largest; a flush takes ten times as long.
    pub disk: (u64, u64),
    /// One disk operation in so many takes a hundred times longer; 0 for never.
    pub slow_disk_every: u64,
    /// Clocks of nodes run up to so many millionths fast or slow.
    pub clock_drift_ppm: u64,
}

impl Faults {
    /// A healthy local network and fast disks.
    pub fn none() -> Self {
        Self {
            delay: (50_000, 200_000),
            slow_message_every: 0,
            break_every: 0,
            disk: (20_000, 60_000),
            slow_disk_every: 0,
            clock_drift_ppm: 0,
        }
    }

    /// A bad day, of a badness drawn from the seed.
    pub fn draw(rng: &mut Rng) -> Self {
        let drifts = rng.chance(1, 4);
        let mut rate = |least: u64| if rng.chance(1, 3) { 0 } else { rng.range(least, least * 20) };
        Self {
            slow_message_every: rate(50),
            break_every: rate(300),
            slow_disk_every: rate(50),
            // Half of what leases are shortened for, or what clocks of real machines do.
            clock_drift_ppm: if drifts { 20_000 } else { 200 },
            ..Self::none()
        }
    }
}
