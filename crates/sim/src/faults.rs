//! Rates and delays of the simulated world's ordinary faults.

use stdx::Rng;

/// Rates and delays of faults. The convergence phase of a run uses [`Faults::none`].
#[derive(Clone, Debug)]
pub struct Faults {
    /// A message's delay in nanoseconds: smallest and largest.
    pub delay: (u64, u64),
    /// One in this many messages takes a hundred times longer; 0 for none.
    pub slow_message_every: u64,
    /// One in this many messages breaks its connection instead of arriving; 0 for none.
    pub break_every: u64,
    /// A disk operation's time in nanoseconds: smallest and largest. A flush takes ten times as long.
    pub disk: (u64, u64),
    /// One in this many disk operations takes a hundred times longer; 0 for none.
    pub slow_disk_every: u64,
    /// The most by which nodes' clocks run fast or slow, in millionths.
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

    /// Faults of a severity drawn from the seed.
    pub fn draw(rng: &mut Rng) -> Self {
        let drifts = rng.chance(1, 4);
        let mut rate = |least: u64| if rng.chance(1, 3) { 0 } else { rng.range(least, least * 20) };
        Self {
            slow_message_every: rate(50),
            break_every: rate(300),
            slow_disk_every: rate(50),
            // Half of the drift that leases allow for, or the drift of real machines.
            clock_drift_ppm: if drifts { 20_000 } else { 200 },
            ..Self::none()
        }
    }
}
