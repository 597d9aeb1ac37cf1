//! Rules of the cluster that commands, clients' requests and the leader's duties share: each reads a view or
//! changes an edit, and knows nothing of connections.

pub(crate) mod autoscale;
pub(crate) mod balancer;
pub(crate) mod builds;
pub(crate) mod client_features;
pub(crate) mod config_log;
pub(crate) mod crash;
pub(crate) mod devices;
pub(crate) mod enabled_modules;
pub(crate) mod features;
pub(crate) mod managers;
pub(crate) mod max_mds;
pub(crate) mod mds_ranks;
pub(crate) mod modules;
pub(crate) mod osd_changes;
pub(crate) mod osd_flags;
pub(crate) mod osd_marks;
pub(crate) mod pg_num;
pub(crate) mod pool;
pub(crate) mod snaps;
pub(crate) mod upmaps;
pub(crate) mod usage;
