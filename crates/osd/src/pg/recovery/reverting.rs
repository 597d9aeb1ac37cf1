//! Unfound objects that are being reverted.

use crate::object::ObjectInfo;
use maps::EVersion;
use std::collections::BTreeMap;
use store::ObjectKey;

/// Objects that are to be reverted: reads in progress, and what they found.
#[derive(Debug, Default)]
pub struct Reverting {
    pub awaited: usize,
    pub found: BTreeMap<ObjectKey, Option<ObjectInfo>>,
    /// Objects that nobody was told of, with the first update that is undone.
    pub undoes: BTreeMap<ObjectKey, EVersion>,
}
