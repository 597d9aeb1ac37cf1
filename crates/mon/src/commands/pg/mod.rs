//! Commands on placement groups.

pub(super) mod json;
pub(super) mod read;
pub(super) mod scrub;
pub(super) mod summary;
