//! Commands on pools.

pub(super) mod apps;
pub(super) mod autoscale;
pub(super) mod change;
pub(super) mod opts;
pub(super) mod read;
