//! Options set centrally, and the store of small values.

pub(super) mod change;
pub(super) mod key;
pub(super) mod show;
