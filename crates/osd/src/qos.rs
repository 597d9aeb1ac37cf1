//! Quality of service: background work (recovery, scrub, snapshot trimming and the rest) goes as fast as clients do not notice.
//!
//! What clients see is how long their writes take to be durable. The reference is how long that took while nothing ran in the
//! background. Where it is more than half again as long, the background goes slower, and the more so the longer it is; where not,
//! faster. Some share is never taken away, and that share grows with how long recovery has been at work: the longer objects lack
//! copies, the more likely it is that another disk fails meanwhile. Without clients there is no limit.
//!
//! A state machine of its own: time and latencies come in, permissions go out.

use serde_json::{Map, Value, json};
use std::time::Duration;
use stdx::Instant;

/// Whose work it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Objects that copies lack.
    Recovery,
    /// Reads to compare copies.
    Scrub,
    /// Clones of removed snapshots.
    SnapTrim,
    /// Everything that nobody waits for: removing copies that are not needed.
    BestEffort,
}

/// One step of each class takes so many times the bytes that it moves: recovery has the largest share.
const COST: [u64; 4] = [1, 2, 2, 4];
/// A step costs at least this, in bytes: a small object takes a read, a message and a write too.
const LEAST_COST: u64 = 64 << 10;
/// The slowest and the fastest that the background goes beside clients, in bytes a second.
const SLOWEST: u64 = 16 << 20;
const FASTEST: u64 = 1 << 30;
/// The slowest doubles each time that recovery was at work for so long …
const HURRY: Duration = Duration::from_secs(45);
/// … so many times at most (64 MiB a second) …
const HURRIES: u32 = 2;
/// … and is as it was once recovery did nothing for so long.
const RECOVERED: Duration = Duration::from_secs(15);
/// Where it begins once clients come.
const FIRST: u64 = 16 << 20;
/// How much may be saved up, as time.
const BURST: Duration = Duration::from_millis(100);
/// How often the rate is looked at …
const PERIOD: Duration = Duration::from_millis(250);
/// … and with at least so many writes of clients.
const ENOUGH: usize = 8;
/// Clients are there if one was answered within this time.
const CLIENTS_GONE: Duration = Duration::from_secs(1);
/// The wanted bound is two times the latency without background work; what is above 1.5 times is answered.
const BOUND: (u32, u32) = (3, 2);
/// A reference forgets at this rate when latencies without background work are longer than it, as a part of the difference.
const FORGETS: u32 = 8;
/// Nobody waits longer before it asks again.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// The controller of one OSD.
#[derive(Debug)]
pub struct Qos {
    rate: u64,
    /// Bytes that may go at once; less than nothing where a step was larger than what was left.
    credit: i64,
    credited: Instant,
    /// Latencies of clients' writes in this period.
    seen: Vec<Duration>,
    period_began: Instant,
    /// Background work was done in this period.
    worked: bool,
    last_client: Option<Instant>,
    /// The first and the last step of recovery without a pause between them.
    recovery: Option<(Instant, Instant)>,
    /// The slow ones among writes without background work (the 99th percentile of a period).
    idle: Option<Duration>,
    /// Steps of each class.
    done: [u64; 4],
}

impl Default for Qos {
    fn default() -> Self {
        Self {
            rate: FIRST,
            credit: 0,
            credited: Instant(0),
            seen: Vec::new(),
            period_began: Instant(0),
            worked: false,
            last_client: None,
            recovery: None,
            idle: None,
            done: [0; 4],
        }
    }
}

impl Qos {
    /// A write of a client is durable everywhere, after this time.
    pub fn client_wrote(&mut self, took: Duration, now: Instant) {
        self.turn(now);
        self.last_client = Some(now);
        self.seen.push(took);
    }

    /// Whether a step of a class may start; otherwise after how long to ask again.
    pub fn may_start(&mut self, class: Class, now: Instant) -> Option<Duration> {
        self.turn(now);
        if self.has_no_clients(now) || self.credit >= 0 {
            self.charge(class, 0, now);
            return None;
        }
        let missing = self.credit.unsigned_abs().saturating_mul(1_000_000_000) / self.rate.max(1);
        Some(Duration::from_nanos(missing.max(1_000_000) + 1000).min(LONGEST_WAIT))
    }

    /// A step that was started moves so many bytes.
    pub fn charge(&mut self, class: Class, bytes: u64, now: Instant) {
        self.worked = true;
        self.done[class as usize] += 1;
        if class == Class::Recovery {
            self.recovery = Some((self.recovering_since(now).unwrap_or(now), now));
        }
        if !self.has_no_clients(now) {
            let cost = bytes.max(LEAST_COST).saturating_mul(COST[class as usize]);
            self.credit = self.credit.saturating_sub_unsigned(cost);
        }
    }

    /// For whoever looks: what the background may move beside clients, how slow clients' slow writes are without it, and how
    /// often work of each class was done.
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
        json!({ "bytes_per_second": self.rate, "idle_commit_s": self.idle.map(|d| d.as_secs_f64()), "steps": done })
    }

    fn has_no_clients(&self, now: Instant) -> bool {
        self.last_client.is_none_or(|last| now.since(last) > CLIENTS_GONE)
    }

    /// Since when recovery is at work, if it is.
    fn recovering_since(&self, now: Instant) -> Option<Instant> {
        self.recovery.filter(|(_, last)| now.since(*last) < RECOVERED).map(|(first, _)| first)
    }

    /// The share that clients never take, in bytes a second.
    fn least(&self, now: Instant) -> u64 {
        let lasted = self.recovering_since(now).map_or(Duration::ZERO, |first| now.since(first));
        SLOWEST << ((lasted.as_secs() / HURRY.as_secs()) as u32).min(HURRIES)
    }

    /// Lets time pass.
    fn turn(&mut self, now: Instant) {
        let passed = now.since(self.credited);
        self.credited = now;
        let earned = (u128::from(self.rate) * passed.as_nanos() / 1_000_000_000).min(1 << 40) as i64;
        let most = (u128::from(self.rate) * BURST.as_nanos() / 1_000_000_000) as i64;
        self.credit = self.credit.saturating_add(earned).min(most);
        if now.since(self.period_began) < PERIOD {
            return;
        }
        self.period_began = now;
        if self.seen.len() >= ENOUGH {
            self.judge(now);
        }
        self.seen.clear();
        self.worked = false;
        if self.has_no_clients(now) {
            (self.rate, self.credit) = (FIRST, 0);
        }
    }

    /// A period is over.
    fn judge(&mut self, now: Instant) {
        self.seen.sort_unstable();
        let slow = self.seen[(self.seen.len() * 99).div_ceil(100) - 1];
        let Some(idle) = self.idle.filter(|_| self.worked) else {
            // Disks and load change: a longer time is believed slowly, a shorter one at once.
            let known = self.idle.unwrap_or(slow);
            let grown = known + slow.saturating_sub(known) / FORGETS;
            // A first period with background work in it tells at most too much.
            self.idle = Some(grown.min(slow).max(known.min(slow)));
            return;
        };
        if slow < idle {
            // It can be no longer without the work than with it.
            self.idle = Some(slow);
        }
        let bound = idle * BOUND.0 / BOUND.1;
        self.rate = match slow.as_nanos().checked_div(bound.as_nanos()) {
            Some(0) => self.rate.saturating_add(self.rate / 8).min(FASTEST),
            // The further beyond, the more.
            Some(1) => self.rate / 4 * 3,
            Some(_) => self.rate / 2,
            None => self.rate,
        }
        .max(self.least(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A disk on which clients' writes take longer the more the background does: `idle_ms` and as much again for each
    /// `capacity` bytes a second. Gives what the background moved in the last second, and how slow clients were then.
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
            // As many steps of 64 KiB as it lets us, at most 64 at once.
            let mut steps = 0;
            while steps < 64 && qos.may_start(Class::Recovery, now).is_none() {
                steps += 1;
            }
            moved += steps * LEAST_COST;
            in_last += if last { steps * LEAST_COST } else { 0 };
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

    /// Clients alone.
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
        assert_eq!(qos.idle, Some(2 * MS));
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
        assert!(moved >= SLOWEST / 10 * 9, "{moved} bytes");
    }

    #[test]
    fn the_longer_objects_lack_copies_the_more_recovery_takes_and_the_next_begins_as_the_first() {
        let mut qos = Qos::default();
        let mut now = idle(&mut qos, Instant(1_000_000_000), 3);
        for hurries in [0, 1, 2, 2] {
            let (later, moved, _) = run(&mut qos, now, 44, 1 << 20, true);
            now = later;
            assert!(moved >= (SLOWEST << hurries) / 10 * 9, "{moved} bytes after {hurries}");
            assert!(moved <= (SLOWEST << hurries) / 10 * 11, "{moved} bytes after {hurries}");
        }
        now = idle(&mut qos, now, 20);
        let (_, moved, _) = run(&mut qos, now, 20, 1 << 20, true);
        assert!(moved <= SLOWEST / 10 * 11, "{moved} bytes");
    }

    #[test]
    fn without_clients_nothing_waits() {
        let mut qos = Qos::default();
        let now = idle(&mut qos, Instant(1_000_000_000), 1);
        let (now, ..) = run(&mut qos, now, 5, 1 << 20, true);
        let later = now + Duration::from_secs(2);
        for _ in 0..10_000 {
            assert_eq!(qos.may_start(Class::Recovery, later), None);
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
            while qos.may_start(class, now).is_none() {
                steps += 1;
            }
            let wait = qos.may_start(class, now).expect("it waits");
            assert!(wait <= LONGEST_WAIT);
            now = now + wait;
            assert_eq!(qos.may_start(class, now), None, "after that time it may");
            steps
        };
        let recovery = steps(Class::Recovery, &mut qos);
        let trim = steps(Class::SnapTrim, &mut qos);
        assert!(recovery >= trim * 3 / 2 && trim > 0, "{recovery} and {trim}");
    }
}
