//! Volatile state of a monitor, which is not replicated: the time each daemon was last heard, failure
//! reports, changes that OSDs ask for. It is rebuilt from reports and starts empty when another monitor takes
//! the lead. Statistics are in [`crate::pg_stats`].

pub(crate) mod failure_reports;
pub(crate) mod mds_liveness;
pub(crate) mod mgr_liveness;
pub(crate) mod osd_liveness;
pub(crate) mod pending_osd_changes;
pub(crate) mod periodic;
