//! Quality of service: background work (recovery, scrub, snapshot trimming and the rest) runs as fast as it
//! can without clients noticing.
//!
//! The measure is the commit latency of clients' writes. Its reference is the latency while no background
//! work ran, neither here nor, as far as messages tell, at OSDs with copies of the same PGs. If latency
//! exceeds 1.5 times the reference, background work slows down, the more the higher it is; otherwise it
//! speeds up if something waits. A minimum rate is always kept. It grows with the time that recovery has been
//! running: the longer objects lack copies, the more likely another disk fails. Without clients there is no
//! limit.
//!
//! A state machine of its own: time and latencies in, permissions out.

use serde_json::{Map, Value, json};
use std::time::Duration;
use stdx::Instant;

/// Class of background work.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Recovery of missing objects.
    Recovery,
    /// Reads that compare copies.
    Scrub,
    /// Trimming of removed snapshots' clones.
    SnapTrim,
    /// Work that nobody waits for: removal of unneeded copies.
    BestEffort,
}

/// Cost of a step of each class, as a multiple of the bytes that it moves: recovery has the largest share.
const COST_FACTOR: [u64; 4] = [1, 2, 2, 4];
/// Least cost of a step, bytes: a small object takes a read, a message and a write too.
const MIN_STEP_COST_BYTES: u64 = 64 << 10;
/// Slowest rate of background work beside clients, bytes a second, before it is doubled.
const MIN_RATE: u64 = 16 << 20;
/// Fastest rate beside clients, bytes a second.
const MAX_RATE: u64 = 1 << 30;
/// The slowest rate doubles each time that recovery has been at work for this long …
const FLOOR_DOUBLING_PERIOD: Duration = Duration::from_secs(45);
/// … this many times at most (to 64 MiB a second) …
const MAX_FLOOR_DOUBLINGS: u32 = 2;
/// … and is [`MIN_RATE`] again once recovery has done nothing for this long.
const RECOVERY_IDLE: Duration = Duration::from_secs(15);
/// Rate at which background work begins when clients come, bytes a second.
const INITIAL_RATE: u64 = 16 << 20;
/// Most credit that may be saved up, as time at the present rate.
const MAX_CREDIT_TIME: Duration = Duration::from_millis(100);
/// Time between two corrections of the rate …
const RATE_PERIOD: Duration = Duration::from_millis(250);
/// … each of which needs at least this many writes of clients.
const MIN_SAMPLES: usize = 8;
/// Clients count as gone if none was answered for this long.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(1);
/// Slowdown of clients that triggers throttling, as a fraction: 1.5 times the idle latency. The goal is to
/// stay below 2.
const SLOWDOWN_BOUND: (u32, u32) = (3, 2);
/// The idle latency rises towards a longer one, seen without background work, by this part of the difference.
const IDLE_DECAY_DIV: u32 = 8;
/// One period may raise it by this part of itself at most: a pause of clients, for peering or a hanging
/// device, says little.
const RATE_RISE_DIV: u32 = 8;
/// A shorter latency, seen with background work, lowers it by this part of the difference: such latencies
/// scatter, and longer ones can't be believed.
const BUSY_DECAY_DIV: u32 = 64;
/// Size that an object is taken to have before its first part is read, bytes, to begin with: the size into
/// which block devices and files are cut.
const DEFAULT_OBJECT_BYTES: u64 = 4 << 20;
/// Most bytes of objects that clients' writes have to wait for while they are sent.
const MAX_BLOCKED_BYTES: u64 = 16 << 20;
/// A debt is at most what this time pays for.
const DEBT_HORIZON: Duration = Duration::from_secs(8);
/// Longest wait before the next question.
const MAX_WAIT: Duration = Duration::from_millis(500);

/// Latency of the slow ones among clients' writes (the 99th percentile of a period).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Reference {
    slow: Duration,
    /// Seen without background work; otherwise it is the minimum seen.
    alone: bool,
}

/// Bytes charged for an object when its recovery began, to be corrected once its size is known.
#[must_use]
#[derive(Default, Debug)]
pub struct Charge(u64);

/// The controller of one OSD.
#[derive(Debug)]
pub struct Qos {
    rate: u64,
    /// Bytes that may be spent at once; negative if a step cost more than was left.
    credit: i64,
    credited: Instant,
    /// Latencies of clients' writes in this period.
    seen: Vec<Duration>,
    period_began: Instant,
    /// Background work ran or waited in this period.
    worked: bool,
    /// Some of it had to wait in this period.
    refused: bool,
    /// Typical size of recently recovered objects in bytes: the charge for an object of unknown size.
    usual: u64,
    last_client: Option<Instant>,
    /// The first and the last step of recovery without a pause between them.
    recovery: Option<(Instant, Instant)>,
    /// Latency of clients' writes without background work.
    idle: Option<Reference>,
    /// Number of steps of each class.
    done: [u64; 4],
}

impl Default for Qos {
    fn default() -> Self {
        Self {
            rate: INITIAL_RATE,
            credit: 0,
            credited: Instant(0),
            seen: Vec::new(),
            period_began: Instant(0),
            worked: false,
            refused: false,
            usual: DEFAULT_OBJECT_BYTES,
            last_client: None,
            recovery: None,
            idle: None,
            done: [0; 4],
        }
    }
}

impl Qos {
    /// Notes that a client's write is durable everywhere, after this time.
    pub fn client_wrote(&mut self, took: Duration, now: Instant) {
        self.turn(now);
        self.last_client = Some(now);
        self.seen.push(took);
    }

    /// `None` if a step of a class may start; else the time to wait before asking again.
    pub fn may_start(&mut self, class: Class, now: Instant) -> Option<Duration> {
        let wait = self.wait_before_next(now);
        if wait.is_none() {
            self.step(class, MIN_STEP_COST_BYTES, now);
        }
        wait
    }

    /// `None` if work may start whose cost is reported later; else the time to wait before asking again.
    pub fn wait_before_next(&mut self, now: Instant) -> Option<Duration> {
        self.turn(now);
        if self.has_no_clients(now) || self.credit >= 0 {
            return None;
        }
        self.refused = true;
        let missing = self.credit.unsigned_abs().saturating_mul(1_000_000_000) / self.rate.max(1);
        Some(Duration::from_nanos(missing.max(1_000_000) + 1000).min(MAX_WAIT))
    }

    /// Charges an object whose recovery begins, allowed by the pace or required by a client. Its size is
    /// reported later.
    pub fn object_begins(&mut self, now: Instant) -> Charge {
        Charge(self.step(Class::Recovery, self.usual.max(MIN_STEP_COST_BYTES), now))
    }

    /// Reports the real size of a recovering object, and refunds the over-estimate so that another may start.
    pub fn object_has(&mut self, bytes: u64, charged: &mut Charge, now: Instant) {
        self.turn(now);
        let back = std::mem::take(&mut charged.0);
        self.credit = self.credit.saturating_add_unsigned(back).min(self.most_credit());
        self.spend(bytes.max(MIN_STEP_COST_BYTES), now);
        // A large one counts at once.
        self.usual = if bytes > self.usual { bytes } else { self.usual - (self.usual - bytes) / 8 };
    }

    /// Charges bytes of recovery other than objects' data.
    pub fn moved(&mut self, bytes: u64, now: Instant) {
        self.turn(now);
        self.spend(bytes, now);
    }

    /// Charges the removal of an object from a copy.
    pub fn object_goes(&mut self, now: Instant) {
        self.step(Class::Recovery, MIN_STEP_COST_BYTES, now);
    }

    /// Number of objects, at most `most`, that may be blocked for clients at once.
    pub fn objects_held(&self, most: usize, now: Instant) -> usize {
        if self.has_no_clients(now) {
            return most;
        }
        usize::try_from(MAX_BLOCKED_BYTES / self.usual.max(1)).unwrap_or(most).clamp(1, most)
    }

    /// Notes background work for another OSD, or started earlier.
    pub fn helped(&mut self, now: Instant) {
        self.turn(now);
        self.worked = true;
    }

    /// Charges a step that costs `bytes` of recovery; returns the amount charged.
    fn step(&mut self, class: Class, bytes: u64, now: Instant) -> u64 {
        self.turn(now);
        self.worked = true;
        self.done[class as usize] += 1;
        if class == Class::Recovery {
            self.recovery = Some((self.recovering_since(now).unwrap_or(now), now));
        }
        self.spend(bytes.saturating_mul(COST_FACTOR[class as usize]), now)
    }

    fn spend(&mut self, cost: u64, now: Instant) -> u64 {
        if self.has_no_clients(now) {
            return 0;
        }
        let least = self.credit.min(-part_of(self.rate, DEBT_HORIZON));
        let left = self.credit.saturating_sub_unsigned(cost).max(least);
        let taken = self.credit.abs_diff(left);
        self.credit = left;
        taken
    }

    /// Creates a debt so large that no background work runs while there are clients.
    #[cfg(test)]
    pub(crate) fn owe(&mut self, bytes: u32, now: Instant) {
        self.turn(now);
        self.credit = -i64::from(bytes);
    }

    /// Maximum credit that may be saved up.
    fn most_credit(&self) -> i64 {
        part_of(self.rate, MAX_CREDIT_TIME)
    }

    /// State for people: the rate of background work beside clients, the latency of slow writes without it,
    /// and the steps of each class.
    pub fn dump(&self) -> Value {
        let names = [
            (Class::Recovery, "recovery"),
            (Class::Scrub, "scrub"),
            (Class::SnapTrim, "snaptrim"),
            (Class::BestEffort, "best_effort"),
        ];
        let done: Map<String, Value> = names
            .iter()
            .map(|(class, name)| ((*name).to_owned(), self.done[*class as usize].into()))
            .collect();
        json!({ "bytes_per_second": self.rate, "idle_commit_s": self.idle.map(|r| r.slow.as_secs_f64()), "steps": done })
    }

    fn has_no_clients(&self, now: Instant) -> bool {
        self.last_client.is_none_or(|last| now.since(last) > CLIENT_TIMEOUT)
    }

    /// Start of the present recovery, if one is running.
    fn recovering_since(&self, now: Instant) -> Option<Instant> {
        self.recovery.filter(|(_, last)| now.since(*last) < RECOVERY_IDLE).map(|(first, _)| first)
    }

    /// The minimum rate, in bytes a second, that clients never take.
    fn least(&self, now: Instant) -> u64 {
        let lasted = self.recovering_since(now).map_or(Duration::ZERO, |first| now.since(first));
        MIN_RATE << ((lasted.as_secs() / FLOOR_DOUBLING_PERIOD.as_secs()) as u32).min(MAX_FLOOR_DOUBLINGS)
    }

    /// Accounts for the passage of time.
    fn turn(&mut self, now: Instant) {
        let passed = now.since(self.credited);
        self.credited = now;
        // Until the debt is paid, started work may still be running.
        self.worked |= self.credit < 0;
        self.credit = self.credit.saturating_add(part_of(self.rate, passed)).min(self.most_credit());
        if now.since(self.period_began) < RATE_PERIOD {
            return;
        }
        self.period_began = now;
        if self.seen.len() >= MIN_SAMPLES {
            self.correct_rate(now);
        }
        self.seen.clear();
        (self.worked, self.refused) = (false, false);
        if self.has_no_clients(now) {
            (self.rate, self.credit) = (INITIAL_RATE, 0);
        }
    }

    /// Ends a period: learns from its latencies, and corrects the rate.
    fn correct_rate(&mut self, now: Instant) {
        self.seen.sort_unstable();
        let slow = self.seen[(self.seen.len() * 99).div_ceil(100) - 1];
        let Some(idle) = self.idle.as_mut() else {
            self.idle = Some(Reference { slow, alone: !self.worked });
            return;
        };
        if !self.worked {
            idle.learn(slow);
            return;
        }
        idle.lower(slow);
        let idle = idle.slow;
        let bound = idle * SLOWDOWN_BOUND.0 / SLOWDOWN_BOUND.1;
        self.rate = match slow.as_nanos().checked_div(bound.as_nanos()) {
            Some(0) if !self.refused => self.rate,
            Some(0) => self.rate.saturating_add(self.rate / 8).min(MAX_RATE),
            // The further beyond, the more.
            Some(1) => self.rate / 4 * 3,
            Some(_) => self.rate / 2,
            None => self.rate,
        }
        .max(self.least(now));
    }
}

impl Reference {
    /// Learns from a period without background work.
    fn learn(&mut self, slow: Duration) {
        if !self.alone {
            // Without background work latency cannot exceed what was seen with it.
            *self = Self { slow: slow.min(self.slow), alone: true };
        } else if slow > self.slow {
            // Disks and load change: a higher latency is adopted slowly, a lower one quickly.
            self.slow += ((slow - self.slow) / IDLE_DECAY_DIV)
                .min((self.slow / RATE_RISE_DIV).max(Duration::from_micros(1)));
        } else {
            self.slow -= (self.slow - slow) / 2;
        }
    }

    /// Learns from a period with background work: latency would be no higher without it.
    fn lower(&mut self, slow: Duration) {
        let less = self.slow.saturating_sub(slow);
        self.slow -= if self.alone { less / BUSY_DECAY_DIV } else { less };
    }
}

/// Bytes that accrue in `time` at `rate` bytes a second.
fn part_of(rate: u64, time: Duration) -> i64 {
    (u128::from(rate) * time.as_nanos() / 1_000_000_000).min(1 << 40) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Simulates a disk on which clients' writes slow down with background work: `idle_ms`, and as much again
    /// for each `capacity` bytes a second. Returns the bytes moved in the last second, and the latency of
    /// clients then.
    fn run(
        qos: &mut Qos,
        from: Instant,
        seconds: u32,
        capacity: u64,
        clients: bool,
    ) -> (Instant, u64, Duration) {
        let (mut now, mut moved, mut in_last, mut latency) = (from, 0u64, 0u64, 2 * MS);
        for tick in 0..seconds * 1000 {
            now = now + MS;
            let last = tick >= (seconds - 1) * 1000;
            // As many steps of 64 KiB as are allowed, at most 64 at once.
            let mut steps = 0;
            while steps < 64 && may_start(qos, Class::Recovery, now).is_none() {
                steps += 1;
            }
            moved += steps * MIN_STEP_COST_BYTES;
            in_last += if last { steps * MIN_STEP_COST_BYTES } else { 0 };
            if tick % 250 == 249 {
                latency = 2 * MS + Duration::from_nanos(moved * 4 * 2_000_000 / capacity);
                moved = 0;
            }
            if clients && tick % 5 == 0 {
                qos.client_wrote(latency, now);
            }
        }
        (now, in_last, latency)
    }

    /// Starts a step of a class, recovery with an object of 4 KiB.
    fn may_start(qos: &mut Qos, class: Class, now: Instant) -> Option<Duration> {
        if class != Class::Recovery {
            return qos.may_start(class, now);
        }
        let wait = qos.wait_before_next(now);
        if wait.is_none() {
            let mut charge = qos.object_begins(now);
            qos.object_has(4096, &mut charge, now);
        }
        wait
    }

    /// Runs clients without background work.
    fn idle(qos: &mut Qos, from: Instant, seconds: u32) -> Instant {
        let mut now = from;
        for _ in 0..seconds * 200 {
            now = now + 5 * MS;
            qos.client_wrote(2 * MS, now);
        }
        now
    }

    #[test]
    fn clients_stay_within_two_times_what_they_have_alone_and_recovery_goes_on() {
        let mut qos = Qos::default();
        let now = idle(&mut qos, Instant(1_000_000_000), 3);
        assert_eq!(qos.idle, Some(Reference { slow: 2 * MS, alone: true }));
        let (now, moved, latency) = run(&mut qos, now, 20, 100 << 20, true);
        assert!(latency <= 4 * MS, "{latency:?}");
        assert!(moved >= 30 << 20, "{} MiB a second of about 50", moved >> 20);
        // A slower disk.
        let (_, moved, latency) = run(&mut qos, now, 20, 30 << 20, true);
        assert!(latency <= 4 * MS, "{latency:?}");
        assert!(moved >= 8 << 20, "{} MiB a second of about 15", moved >> 20);
    }

    #[test]
    fn however_slow_clients_are_some_recovery_is_done() {
        let mut qos = Qos::default();
        let now = idle(&mut qos, Instant(1_000_000_000), 3);
        let (_, moved, _) = run(&mut qos, now, 20, 1 << 20, true);
        assert!(moved >= MIN_RATE / 10 * 9, "{moved} bytes");
    }

    #[test]
    fn the_longer_objects_lack_copies_the_more_recovery_takes_and_the_next_begins_as_the_first() {
        let mut qos = Qos::default();
        let mut now = idle(&mut qos, Instant(1_000_000_000), 3);
        for hurries in [0, 1, 2, 2] {
            let (later, moved, _) = run(&mut qos, now, 44, 1 << 20, true);
            now = later;
            assert!(moved >= (MIN_RATE << hurries) / 10 * 9, "{moved} bytes after {hurries}");
            assert!(moved <= (MIN_RATE << hurries) / 10 * 11, "{moved} bytes after {hurries}");
        }
        now = idle(&mut qos, now, 20);
        let (_, moved, _) = run(&mut qos, now, 20, 1 << 20, true);
        assert!(moved <= MIN_RATE / 10 * 11, "{moved} bytes");
    }

    #[test]
    fn without_clients_nothing_waits() {
        let mut qos = Qos::default();
        let now = idle(&mut qos, Instant(1_000_000_000), 1);
        let (now, ..) = run(&mut qos, now, 5, 1 << 20, true);
        let later = now + Duration::from_secs(2);
        for _ in 0..10_000 {
            assert_eq!(may_start(&mut qos, Class::Recovery, later), None);
        }
    }

    #[test]
    fn classes_share_by_their_weight_and_who_must_wait_is_told_how_long() {
        let mut qos = Qos::default();
        let mut now = idle(&mut qos, Instant(1_000_000_000), 1);
        let mut steps = |class: Class, qos: &mut Qos| {
            now = now + Duration::from_millis(100);
            qos.client_wrote(2 * MS, now);
            let mut steps = 0;
            while may_start(qos, class, now).is_none() {
                steps += 1;
            }
            let wait = may_start(qos, class, now).expect("it waits");
            assert!(wait <= MAX_WAIT);
            now = now + wait;
            assert_eq!(may_start(qos, class, now), None, "after that time it may");
            steps
        };
        let recovery = steps(Class::Recovery, &mut qos);
        let trim = steps(Class::SnapTrim, &mut qos);
        assert!(recovery >= trim * 3 / 2 && trim > 0, "{recovery} and {trim}");
    }

    #[test]
    fn large_objects_are_begun_one_after_another_though_nobody_knows_their_size_before() {
        let mut qos = Qos::default();
        let mut now = idle(&mut qos, Instant(1_000_000_000), 1);
        let (mut begun, mut at_once, mut unknown) = (0u64, 0, Vec::new());
        for ms in 0..10_000u64 {
            now = now + MS;
            if ms % 10 == 0 {
                // So slow that background work gets the minimum.
                qos.client_wrote(20 * MS, now);
            }
            while qos.wait_before_next(now).is_none() {
                unknown.push(qos.object_begins(now));
                begun += 1;
                at_once = at_once.max(unknown.len());
            }
            if ms % 5 == 4 {
                unknown.drain(..).for_each(|mut charge| qos.object_has(8 << 20, &mut charge, now));
            }
        }
        assert!(at_once <= 2, "{at_once} of 8 MiB at once");
        let moved = begun * (8 << 20) / 10;
        assert!(moved.abs_diff(MIN_RATE) <= MIN_RATE / 5, "{} MiB a second", moved >> 20);
    }

    #[test]
    fn what_clients_wait_for_beside_other_work_or_once_is_no_measure_of_what_they_have_alone() {
        let alone = |qos: &Qos| qos.idle.expect("it was seen").slow;
        let mut qos = Qos::default();
        let mut now = idle(&mut qos, Instant(1_000_000_000), 3);
        // A pause of a quarter of a second.
        for _ in 0..100 {
            now = now + 5 * MS / 2;
            qos.client_wrote(200 * MS, now);
        }
        assert!(alone(&qos) <= 3 * MS, "{:?}", alone(&qos));
        now = idle(&mut qos, now, 3);
        assert!(alone(&qos) < 2 * MS + MS / 10, "{:?}", alone(&qos));
        for _ in 0..2000 {
            now = now + 5 * MS;
            // Another OSD backfills a copy here.
            qos.helped(now);
            qos.client_wrote(20 * MS, now);
        }
        assert!(alone(&qos) < 2 * MS + MS / 10, "{:?}", alone(&qos));
        // It began without clients, and its transfers are still running while nothing may start.
        qos.owe(u32::MAX, now);
        for _ in 0..2000 {
            now = now + 5 * MS;
            assert!(qos.wait_before_next(now).is_some());
            qos.client_wrote(20 * MS, now);
        }
        assert!(alone(&qos) < 2 * MS + MS / 10, "{:?}", alone(&qos));
    }

    #[test]
    fn what_was_only_seen_beside_work_is_replaced_by_what_is_seen_without() {
        let mut qos = Qos::default();
        let mut now = Instant(1_000_000_000);
        for took in [30, 10, 20, 10] {
            for _ in 0..100 {
                now = now + 5 * MS / 2;
                qos.helped(now);
                qos.client_wrote(took * MS, now);
            }
        }
        assert_eq!(qos.idle, Some(Reference { slow: 10 * MS, alone: false }));
        idle(&mut qos, now + Duration::from_secs(1), 1);
        assert_eq!(qos.idle, Some(Reference { slow: 2 * MS, alone: true }));
    }

    #[test]
    fn a_charge_is_given_back_as_it_was_taken_whatever_objects_turn_out_to_be() {
        let mut qos = Qos::default();
        let mut now = idle(&mut qos, Instant(1_000_000_000), 1);
        // Clients wait for all of these: they start although nothing may. One large one, then small ones.
        let mut begun: Vec<Charge> = (0..100).map(|_| qos.object_begins(now)).collect();
        begun.iter_mut().for_each(|charge| qos.object_has(4096, charge, now));
        let small = 100 * MIN_STEP_COST_BYTES as i64;
        assert!((qos.credit + small).abs() < 2 << 20, "{}", qos.credit);
        // Small ones were usual, and then come large ones.
        now = now + Duration::from_millis(900);
        qos.client_wrote(2 * MS, now);
        let before = qos.credit;
        let mut begun: Vec<Charge> = (0..10).map(|_| qos.object_begins(now)).collect();
        begun.iter_mut().for_each(|charge| qos.object_has(8 << 20, charge, now));
        assert_eq!(before - qos.credit, 10 * (8 << 20));
        // An object without data has omap entries.
        qos.moved(1 << 20, now);
        assert_eq!(before - qos.credit, 81 << 20);
    }

    #[test]
    fn who_helps_others_does_not_earn_speed_for_its_own_work() {
        let mut qos = Qos::default();
        let mut now = idle(&mut qos, Instant(1_000_000_000), 3);
        for _ in 0..4000 {
            now = now + 5 * MS;
            qos.helped(now);
            qos.client_wrote(2 * MS, now);
        }
        assert_eq!(qos.rate, INITIAL_RATE);
    }
}
