//! Commands on OSDs and the OSD map.

pub(super) mod blocklist;
pub(super) mod change;
pub(super) mod df;
pub(super) mod dump;
pub(super) mod flags;
pub(super) mod placement;
pub(super) mod read;
pub(super) mod releases;
pub(super) mod remove;
pub(super) mod safety;
pub(super) mod select;
pub(super) mod tree;
