//! Processors, for runs that measure speed: a host that has one takes one input after another, and each takes
//! time. All other hosts take inputs at once.

use super::{Due, HostId, What, World};
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

/// A host's processor, and what waits for it.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<What>,
    /// The first that waits is being worked on.
    is_busy: bool,
    /// The time until which messages are being sent.
    sends_until: Instant,
    used: Duration,
}

/// The processors of all hosts that have one.
#[derive(Default)]
pub(super) struct Processors(BTreeMap<HostId, (Processor, Queue)>);

impl Processors {
    /// Time passes because a host sends a message of so many bytes.
    pub fn sent(&mut self, now: Instant, host: HostId, bytes: u64) {
        let Some((speed, queue)) = self.0.get_mut(&host) else { return };
        let takes = speed.message_out + speed.kib_out * u32::try_from(bytes >> 10).unwrap_or(u32::MAX);
        queue.sends_until = queue.sends_until.max(now) + takes;
        queue.used += takes;
    }

    /// A host starts again: what waited is lost.
    pub fn restarted(&mut self, host: HostId) {
        if let Some((_, queue)) = self.0.get_mut(&host) {
            (queue.is_busy, queue.waiting) = (false, VecDeque::new());
        }
    }
}

impl<Req, Rep> World<Req, Rep> {
    /// Gives a host a processor of this speed. Its inputs take no time before.
    pub fn give_processor(&mut self, host: HostId, speed: Processor) {
        self.processors.0.insert(host, (speed, Queue::default()));
    }

    /// Takes the time that a host's processor has worked since the last call.
    pub fn take_used(&mut self, host: HostId) -> Duration {
        self.processors.0.get_mut(&host).map_or(Duration::ZERO, |(_, queue)| std::mem::take(&mut queue.used))
    }

    /// An input waits for a host's processor; gives it back if the host has none.
    pub(super) fn queue(&mut self, host: HostId, what: What) -> Option<What> {
        let Some((_, queue)) = self.processors.0.get_mut(&host) else { return Some(what) };
        queue.waiting.push_back(what);
        if !queue.is_busy {
            self.work_on_next(host);
        }
        None
    }

    fn work_on_next(&mut self, host: HostId) {
        let Some((speed, queue)) = self.processors.0.get_mut(&host) else { return };
        let Some(next) = queue.waiting.front() else { return queue.is_busy = false };
        let takes = if matches!(next, What::Message { .. }) { speed.message_in } else { speed.other };
        let at = queue.sends_until.max(self.now) + takes;
        queue.used += takes;
        queue.is_busy = true;
        let incarnation = self.hosts[host.0].incarnation;
        self.due(at, Due::Worked { host, incarnation });
    }

    /// A host's processor has worked on the first input that waits.
    pub(super) fn worked(&mut self, host: HostId) {
        let next = self.processors.0.get_mut(&host).and_then(|(_, queue)| queue.waiting.pop_front());
        if let Some(what) = next {
            self.take_in(host, what);
        }
        self.work_on_next(host);
    }
}
