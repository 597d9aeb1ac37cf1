//! Commands on the CRUSH map.

pub(super) mod change;
pub(super) mod classes;
pub(super) mod failure;
pub(super) mod read;
pub(super) mod rules;
pub(super) mod tunables;
pub(super) mod weight_set;
