//! The host's clocks.

use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;
use std::time::Instant as HostInstant;
use stdx::{Instant, Now, Wall};

/// The process's zero on the monotonic clock. One day before the first sample, so that a role may subtract a
/// timeout from `now` without meeting zero.
fn origin() -> HostInstant {
    static ORIGIN: OnceLock<HostInstant> = OnceLock::new();
    *ORIGIN.get_or_init(HostInstant::now)
}

const HEAD_START_NS: u64 = 86_400 * 1_000_000_000;

/// Reads the monotonic and the wall clock. The latter is the one by which the kernel gives files their times:
/// it advances some milliseconds at once. So the mount and the kernel, which reads it some microseconds
/// earlier, agree on when a file was written, and the kernel has no reason to drop what it has of the file.
pub fn now() -> Now {
    let mono = HEAD_START_NS + u64::try_from(origin().elapsed().as_nanos()).unwrap_or(u64::MAX);
    let time = clock_gettime(ClockId::RealtimeCoarse);
    let (sec, nsec) = (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    Now { mono: Instant(mono), wall: Wall(sec.saturating_mul(1_000_000_000).saturating_add(nsec)) }
}

/// The host's clock at a role's deadline.
pub fn to_host(at: Instant) -> tokio::time::Instant {
    let since = std::time::Duration::from_nanos(at.0.saturating_sub(HEAD_START_NS));
    // A role that wants no timer soon may name a time that no host clock can hold.
    let latest = HostInstant::now() + std::time::Duration::from_secs(3600);
    origin().checked_add(since).map_or(latest, |at| at.min(latest)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_on_our_clock_is_the_same_moment_on_the_hosts() {
        let now = now();
        let at = to_host(now.mono + std::time::Duration::from_secs(5));
        let left = at.duration_since(tokio::time::Instant::now());
        assert!(
            left > std::time::Duration::from_secs(4) && left <= std::time::Duration::from_secs(5),
            "{left:?}"
        );
        assert!(to_host(Instant(u64::MAX)) > at, "far deadlines don't overflow");
    }
}
