//! Commands on monitors, and about Ceph's manager.

pub(super) mod json;
pub(super) mod manager;
pub(super) mod quorum;
pub(super) mod read;
