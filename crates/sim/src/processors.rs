//! Processors, for runs that measure speed: a host that has one takes one input after another, and each takes
//! time. All other hosts take inputs at once.

use crate::host::HostId;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use stdx::Instant;

/// The speed of a processor.
#[derive(Clone, Copy, Debug)]
pub struct Processor {
    /// Time of a message that comes, all that it leads to included but for messages.
    pub message_in: Duration,
    /// Time of a message that is sent.
    pub message_out: Duration,
    /// Time of each KiB that is sent.
    pub kib_out: Duration,
    /// Time of any other input: a timer, the end of a disk operation, a connection.
    pub other: Duration,
}

/// A host's processor, and the inputs that wait for it.
struct Work<W> {
    speed: Processor,
    waiting: VecDeque<W>,
    /// The first that waits is being worked on.
    is_busy: bool,
    /// The time until which messages are being sent.
    sends_until: Instant,
    used: Duration,
}

/// The processors of all hosts that have one, with inputs `W`.
pub(crate) struct Processors<W>(BTreeMap<HostId, Work<W>>);

impl<W> Default for Processors<W> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<W> Processors<W> {
    /// Gives a host a processor.
    pub fn give(&mut self, host: HostId, speed: Processor) {
        let work = Work {
            speed,
            waiting: VecDeque::new(),
            is_busy: false,
            sends_until: Instant(0),
            used: Duration::ZERO,
        };
        self.0.insert(host, work);
    }

    /// Takes the time that a host's processor has worked since the last call.
    pub fn take_used(&mut self, host: HostId) -> Duration {
        self.0.get_mut(&host).map_or(Duration::ZERO, |work| std::mem::take(&mut work.used))
    }

    /// Time passes because a host sends a message of so many bytes.
    pub fn sent(&mut self, now: Instant, host: HostId, bytes: u64) {
        let Some(work) = self.0.get_mut(&host) else { return };
        let kib = u32::try_from(bytes >> 10).unwrap_or(u32::MAX);
        let takes = work.speed.message_out + work.speed.kib_out * kib;
        work.sends_until = work.sends_until.max(now) + takes;
        work.used += takes;
    }

    /// A host starts again: what waited is lost.
    pub fn restarted(&mut self, host: HostId) {
        if let Some(work) = self.0.get_mut(&host) {
            (work.is_busy, work.waiting) = (false, VecDeque::new());
        }
    }

    /// An input waits for a host's processor; gives it back if the host has none.
    pub fn add(&mut self, host: HostId, input: W) -> Option<W> {
        match self.0.get_mut(&host) {
            Some(work) => work.waiting.push_back(input),
            None => return Some(input),
        }
        None
    }

    /// Begins with the first input that waits, unless one is being worked on, and returns when it is done.
    pub fn begin(&mut self, now: Instant, host: HostId, is_message: impl Fn(&W) -> bool) -> Option<Instant> {
        let work = self.0.get_mut(&host).filter(|work| !work.is_busy)?;
        let next = work.waiting.front()?;
        let takes = if is_message(next) { work.speed.message_in } else { work.speed.other };
        (work.used, work.is_busy) = (work.used + takes, true);
        Some(work.sends_until.max(now) + takes)
    }

    /// Takes the input that was worked on.
    pub fn end(&mut self, host: HostId) -> Option<W> {
        let work = self.0.get_mut(&host)?;
        work.is_busy = false;
        work.waiting.pop_front()
    }
}
