//! What asynchronous requests without an answer have promised about an inode.

use std::collections::BTreeSet;
use stdx::ConstDefault;

/// Promises about one inode.
///
/// Invariant: of a name there is at most one, since whoever wants another waits for its answer.
#[derive(PartialEq, Debug, Default)]
pub(crate) struct Promised {
    /// A create has made it: no MDS knows it yet.
    is_new: bool,
    /// An unlink has removed its last name.
    is_unlinked: bool,
    /// Names in this directory that were given or removed.
    names: BTreeSet<Vec<u8>>,
}

impl ConstDefault for Promised {
    fn const_default() -> &'static Self {
        const { &Self { is_new: false, is_unlinked: false, names: BTreeSet::new() } }
    }
}

impl Promised {
    pub(super) fn set_new(&mut self, is_new: bool) {
        self.is_new = is_new;
    }

    pub(super) fn set_unlinked(&mut self, is_unlinked: bool) {
        self.is_unlinked = is_unlinked;
    }

    pub(super) fn add_name(&mut self, name: &[u8]) {
        let is_first = self.names.insert(name.to_vec());
        assert!(is_first, "a name is promised once");
    }

    pub(super) fn remove_name(&mut self, name: &[u8]) {
        self.names.remove(name);
    }

    /// True if no MDS knows the inode yet: it is told nothing of it.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    pub(crate) fn is_unlinked(&self) -> bool {
        self.is_unlinked
    }

    /// True if a name in this directory is promised.
    pub(crate) fn has_name(&self, name: &[u8]) -> bool {
        self.names.contains(name)
    }

    /// True if names in this directory are promised: only this client knows its times and counts.
    pub(crate) fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    /// True if there is any promise.
    pub(crate) fn is_any(&self) -> bool {
        self.is_new || self.is_unlinked || self.has_names()
    }
}
