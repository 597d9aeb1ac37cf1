//! Commands on file systems and metadata servers.

pub(super) mod change;
pub(super) mod dump;
pub(super) mod mds;
