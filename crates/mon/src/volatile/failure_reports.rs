//! Failure reports: which OSDs say that another one does not answer its heartbeats, and which OSDs refuse
//! connections.

use maps::{OsdId, OsdMap};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use stdx::Instant;

/// An OSD repeats a failure report each second. A report that was not repeated for this long expires: its
/// withdrawal may have been lost, and it must not add up with a report that another OSD makes much later.
const REPORT_LIFETIME: Duration = Duration::from_secs(5);

/// The valid failure reports. Reporters and targets are OSDs that are up.
#[derive(Debug, Default)]
pub(crate) struct FailureReports {
    /// Reporters of each target, and the time of their last report.
    by_target: BTreeMap<OsdId, BTreeMap<OsdId, Instant>>,
    /// OSDs that refused a connection: their process is dead.
    refused: BTreeSet<OsdId>,
}

impl FailureReports {
    /// Adds a report and returns the number of OSDs that now report the target.
    pub fn add(&mut self, now: Instant, target: OsdId, reporter: OsdId) -> usize {
        let reports = self.by_target.entry(target).or_default();
        reports.insert(reporter, now);
        reports.retain(|_, at| now.since(*at) < REPORT_LIFETIME);
        reports.len()
    }

    /// Withdraws a report: the reporter hears from the target again.
    pub fn withdraw(&mut self, target: OsdId, reporter: OsdId) {
        if let Some(reports) = self.by_target.get_mut(&target) {
            reports.remove(&reporter);
        }
    }

    /// Notes that the target's host refuses connections to it.
    pub fn note_refused(&mut self, target: OsdId) {
        self.refused.insert(target);
    }

    /// The OSDs that refused a connection since the last call.
    pub fn take_refused(&mut self) -> BTreeSet<OsdId> {
        std::mem::take(&mut self.refused)
    }

    /// Drops reports of and by OSDs that are no longer up.
    pub fn follow(&mut self, map: &OsdMap) {
        for (osd, _) in map.existing().filter(|(_, entry)| !entry.is_up()) {
            self.by_target.remove(&osd);
            self.refused.remove(&osd);
        }
        for reports in self.by_target.values_mut() {
            reports.retain(|reporter, _| map.is_up(*reporter));
        }
        self.by_target.retain(|_, reports| !reports.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_that_is_not_repeated_expires() {
        let mut reports = FailureReports::default();
        let s = |n: u64| Instant(n * 1_000_000_000);
        assert_eq!(reports.add(s(10), OsdId(0), OsdId(1)), 1);
        assert_eq!(reports.add(s(14), OsdId(0), OsdId(2)), 2);
        assert_eq!(reports.add(s(15), OsdId(0), OsdId(2)), 1, "the first is too old");
        reports.withdraw(OsdId(0), OsdId(2));
        assert_eq!(reports.add(s(16), OsdId(0), OsdId(3)), 1);
    }
}
