//! The host's clocks.

use rustix::fs::{Timestamps, UTIME_NOW, fstat, futimens};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
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
    let coarse = nanoseconds(&clock_gettime(ClockId::RealtimeCoarse));
    // Longer ago than a tick, or before the clock was set back, it says nothing.
    let last = LAST_FILE_TIME.load(Ordering::Relaxed);
    let wall = if (coarse..coarse.saturating_add(TICK_NS)).contains(&last) { last } else { coarse };
    Now { mono: Instant(mono), wall: Wall(wall) }
}

/// The longest interval in which the kernel's coarse clock stands still.
const TICK_NS: u64 = 10_000_000;

/// The latest time that a [`FileClock`] was seen to show, in nanoseconds since 1970.
static LAST_FILE_TIME: AtomicU64 = AtomicU64::new(0);

fn nanoseconds(time: &Timespec) -> u64 {
    let (sec, nsec) = (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    sec.saturating_mul(1_000_000_000).saturating_add(nsec)
}

/// The clock by which the kernel gives the files of a mount their times. Since Linux 6.13 that is not the
/// coarse clock alone: a file of another file system, if somebody looks at it between two changes, gets a
/// finer time, and from then until the next tick no file gets an earlier one.
///
/// No call tells that time, so the kernel is asked to give it to a file: to a pipe, which no disk knows.
#[derive(Debug)]
pub struct FileClock {
    pipe: OwnedFd,
}

impl FileClock {
    /// Fails if the process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { pipe: pipe_with(PipeFlags::CLOEXEC)?.0 })
    }

    /// Has [`now`] show at least the time that the kernel gives files now.
    pub fn look(&self) {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let both = Timestamps { last_access: now, last_modification: now };
        // Where the kernel refuses it, the coarse clock is what there is.
        if let Ok(stat) = futimens(&self.pipe, &both).and_then(|()| fstat(&self.pipe)) {
            let time = Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as _ };
            LAST_FILE_TIME.store(nanoseconds(&time), Ordering::Relaxed);
        }
    }
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
    fn the_file_clock_shows_the_time_that_the_kernel_gives_files() {
        use std::os::unix::fs::MetadataExt;
        let (clock, file) = (FileClock::new().unwrap(), tempfile::tempfile().unwrap());
        let mut last = 0;
        for _ in 0..100 {
            // Looked at between two changes, a file gets a time that is finer than the coarse clock.
            file.metadata().unwrap();
            file.set_len(0).unwrap();
            let given = file.metadata().unwrap();
            clock.look();
            let now = now().wall.0;
            assert!(now >= last, "it does not go back");
            assert!(now >= given.mtime() as u64 * 1_000_000_000 + given.mtime_nsec() as u64);
            last = now;
        }
    }

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
