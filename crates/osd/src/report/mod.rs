//! Reports to the monitor, and its answers.

mod steps;

use maps::{Epoch, PgId};
use node::Load;
use std::collections::BTreeSet;
use stdx::Instant;

/// What the monitor has been told and asked in this session, and when it is told next.
///
/// Invariant: a new session knows of no report and of no request.
#[derive(Debug, Default)]
pub struct Reports {
    /// Time of the next report.
    next_at: Instant,
    /// PGs in the last report of this session that we lead.
    reported: BTreeSet<PgId>,
    /// The highest epoch in which the monitor was asked to record us as up, and has had no whole interval of
    /// reports to do so.
    asked_up_thru: Epoch,
    /// It was asked since the last report.
    asked_lately: bool,
    /// How busy this OSD and its host were at some time.
    load: Option<(Instant, Load)>,
}

impl Reports {
    /// How busy this OSD and its host are, to be told with the next report.
    pub fn note_load(&mut self, now: Instant, load: Load) {
        self.load = Some((now, load));
    }

    /// What was used, but for clients' requests.
    pub fn used(&self) -> peer::OsdUsage {
        let Some((at, Load { idle, host_busy, total, .. })) = self.load else {
            return peer::OsdUsage::default();
        };
        peer::OsdUsage {
            at_ms: at.0 / 1_000_000,
            pid: total.pid,
            process_cpu_ms: total.process_cpu_ms,
            net_in: total.net_bytes.0,
            net_out: total.net_bytes.1,
            disk_read: total.disk_bytes.0,
            disk_written: total.disk_bytes.1,
            host_busy,
            host_idle: idle,
            ..peer::OsdUsage::default()
        }
    }

    /// Time of the next report.
    pub fn next_at(&self) -> Instant {
        self.next_at
    }

    /// The next report is due at this time.
    pub fn wait_until(&mut self, at: Instant) {
        self.next_at = at;
    }

    /// The next report is due at this time, if it is not due before.
    pub fn hasten(&mut self, at: Instant) {
        self.next_at = self.next_at.min(at);
    }

    /// Another session has begun: what the last monitor was told may be lost.
    pub fn session_began(&mut self) {
        self.reported.clear();
        self.asked_up_thru = Epoch(0);
    }

    /// The monitor is to be asked to record us as up in epoch `want`. False if it has been asked.
    pub fn ask_up_thru(&mut self, want: Epoch) -> bool {
        let news = want > self.asked_up_thru;
        self.asked_up_thru = self.asked_up_thru.max(want);
        self.asked_lately |= news;
        news
    }

    /// A report is due: requests that were made before the last one, and not granted since, may be repeated.
    pub fn ask_again(&mut self) {
        if !std::mem::take(&mut self.asked_lately) {
            self.asked_up_thru = Epoch(0);
        }
    }

    /// True if the monitor has not been told of a PG.
    pub fn is_new(&self, pgid: PgId) -> bool {
        !self.reported.contains(&pgid)
    }

    /// The PGs that we lead are these now. Gives those that were reported and that we do not lead any more.
    pub fn lead(&mut self, pgs: BTreeSet<PgId>) -> Vec<PgId> {
        let before = std::mem::replace(&mut self.reported, pgs);
        before.difference(&self.reported).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_monitor_is_told_of_each_pg_and_of_its_loss_once() {
        let [a, b] = [PgId::new(1, 0), PgId::new(1, 1)];
        let mut reports = Reports::default();
        assert_eq!((reports.lead([a, b].into()), reports.is_new(a)), (vec![], false));
        assert_eq!((reports.lead([b].into()), reports.is_new(a)), (vec![a], true));
        assert_eq!(reports.lead([b].into()), []);
        reports.session_began();
        assert_eq!((reports.is_new(b), reports.lead([a].into())), (true, vec![]));
    }

    #[test]
    fn up_thru_is_asked_for_again_after_an_interval_of_reports() {
        let mut reports = Reports::default();
        let asked = [3, 3, 2, 4].map(|epoch| reports.ask_up_thru(Epoch(epoch)));
        assert_eq!(asked, [true, false, false, true]);
        reports.ask_again();
        assert!(!reports.ask_up_thru(Epoch(4)), "it was asked a moment ago");
        reports.ask_again();
        assert!(reports.ask_up_thru(Epoch(2)));
    }
}
