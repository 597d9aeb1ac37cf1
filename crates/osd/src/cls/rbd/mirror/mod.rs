//! Mirroring of images to other clusters (`rbd_mirroring` and the leader's object of `rbd-mirror`).

pub(super) mod images;
pub(super) mod instances;
pub(super) mod pool;
pub(super) mod reports;
pub(super) mod snaps;
mod status;
