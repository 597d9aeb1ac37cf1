//! A page of a listing.

use std::collections::BTreeSet;
use store::ObjectKey;

/// A page whose whiteouts are being sorted out.
#[derive(Debug)]
pub struct Page {
    pub(super) heads: Vec<ObjectKey>,
    /// Start of the next page.
    pub(super) next: ObjectKey,
    /// Heads that may be whiteouts and were not looked at.
    pub(super) doubtful: BTreeSet<ObjectKey>,
}
