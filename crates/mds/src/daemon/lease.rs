//! How long the rank is surely ours. The monitors give it to another server only after they have heard
//! nothing for the grace, so it is ours for as long after the sending of the last beacon that they
//! acknowledged. A server that was stopped for longer may have been replaced without knowing: what it tells
//! clients waits.

use crate::types::ClientId;
use msgs::Body;
use std::collections::VecDeque;
use std::time::Duration;
use stdx::Instant;

/// A message to a client.
type Message = (ClientId, u64, Body);

/// The time until which the rank is ours, and the messages that wait for a later one.
///
/// Invariant: beacons are in the order of their numbers and times.
#[derive(Default)]
pub(super) struct Lease {
    /// Beacons that are not acknowledged, with the time at which each was sent. An acknowledgement of an
    /// older one would say nothing any more.
    sent: VecDeque<(u64, Instant)>,
    sure_until: Instant,
    waiting: VecDeque<Message>,
}

impl Lease {
    /// A beacon is sent now.
    pub fn beacon_sent(&mut self, seq: u64, now: Instant, grace: Duration) {
        while self.sent.front().is_some_and(|(_, sent)| *sent + grace <= now) {
            self.sent.pop_front();
        }
        assert!(self.sent.back().is_none_or(|(last, sent)| *last < seq && *sent <= now), "beacons in order");
        self.sent.push_back((seq, now));
    }

    /// The monitors have acknowledged a beacon.
    pub fn beacon_acked(&mut self, seq: u64, grace: Duration) {
        while let Some((_, sent)) = self.sent.pop_front_if(|(other, _)| *other <= seq) {
            self.sure_until = sent + grace;
        }
    }

    /// Returns a message that may leave now, or keeps it.
    pub fn pass(&mut self, now: Instant, message: Message) -> Option<Message> {
        if now < self.sure_until && self.waiting.is_empty() {
            return Some(message);
        }
        self.waiting.push_back(message);
        None
    }

    /// The messages that wait no longer, in order.
    pub fn release(&mut self, now: Instant) -> VecDeque<Message> {
        if now < self.sure_until { std::mem::take(&mut self.waiting) } else { VecDeque::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(3);

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn message(tid: u64) -> Message {
        (ClientId(9), tid, Body::from(msgs::ClientSession::of(0, 0)))
    }

    #[test]
    fn messages_wait_in_order_for_the_acknowledgement_of_a_young_beacon() {
        let mut lease = Lease::default();
        assert!(lease.pass(at(0), message(1)).is_none(), "nothing is sure before the first one");
        lease.beacon_sent(1, at(1_000), GRACE);
        lease.beacon_sent(2, at(2_000), GRACE);
        lease.beacon_acked(1, GRACE);
        assert_eq!(lease.release(at(2_100)).len(), 1);
        assert!(lease.pass(at(3_999), message(2)).is_some(), "three seconds from the sending");
        assert!(lease.pass(at(4_000), message(3)).is_none());
        lease.beacon_acked(2, GRACE);
        assert!(lease.pass(at(4_500), message(4)).is_none(), "not before the third");
        let tids: Vec<u64> = lease.release(at(4_500)).into_iter().map(|(_, tid, _)| tid).collect();
        assert_eq!(tids, [3, 4]);
        assert!(lease.release(at(4_500)).is_empty() && lease.pass(at(4_600), message(5)).is_some());
    }

    #[test]
    fn an_old_beacon_says_nothing() {
        let mut lease = Lease::default();
        lease.beacon_sent(1, at(0), GRACE);
        lease.beacon_sent(2, at(500), GRACE);
        assert!(lease.pass(at(10_000), message(1)).is_none());
        lease.beacon_acked(2, GRACE);
        assert!(lease.release(at(10_000)).is_empty());
        lease.beacon_sent(3, at(10_001), GRACE);
        lease.beacon_acked(2, GRACE);
        assert!(lease.release(at(10_002)).is_empty());
        lease.beacon_acked(3, GRACE);
        assert_eq!(lease.release(at(10_003)).len(), 1);
    }

    #[test]
    fn beacons_that_nobody_acknowledges_do_not_pile_up() {
        let mut lease = Lease::default();
        for seq in 1..10_000 {
            lease.beacon_sent(seq, at(500 * seq), GRACE);
            assert!(lease.sent.len() <= 6, "two a second for three seconds");
        }
        lease.beacon_acked(9_999, GRACE);
        assert!(lease.sent.is_empty() && lease.pass(at(500 * 9_999 + 2_999), message(1)).is_some());
    }
}
