//! The pages of a file that local callers believe without asking, and their invalidation.

/// Pages in caches above us that were read or written under a right that keeps others from writing;
/// `may_keep` says if it is held now. Of other pages callers ask by the time of the last change, each time
/// that they use them.
///
/// Invariant: pages arrive during an invalidation (`again`) only while one is under way.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// Local callers may have pages.
    cached: bool,
    /// The invalidation under way.
    invalidating: Option<u64>,
    /// Callers got more pages while an invalidation was under way.
    again: bool,
    /// The right to keep them was lost since: although it may be back, they are to be dropped.
    unsure: bool,
    /// Others may have pages of the file as it is since the last change.
    of_others: bool,
}

impl Pages {
    /// Notes that the right to keep pages may have changed.
    pub(super) fn note_right(&mut self, may_keep: bool) {
        self.unsure |= !may_keep;
        self.of_others |= !may_keep;
    }

    /// Notes a write. Returns true if others may have pages from right before it: it needs a later time.
    pub(super) fn note_write(&mut self, may_keep: bool) -> bool {
        std::mem::replace(&mut self.of_others, !may_keep) || !may_keep
    }

    /// Notes that local callers get pages under the right to keep them.
    pub(super) fn note_pages(&mut self) {
        self.unsure &= self.cached;
        self.cached = true;
        self.again = self.invalidating.is_some();
    }

    /// Local callers may have pages that are out of date, and know of no change since.
    pub(super) fn doubt(&mut self) {
        self.note_pages();
        self.unsure = true;
    }

    /// True if there are pages that may be stale and that no invalidation drops yet.
    pub(super) fn has_stale(&self, may_keep: bool) -> bool {
        self.cached && self.invalidating.is_none() && (self.unsure || !may_keep)
    }

    /// True if local callers have pages, and all of them are up to date.
    pub(super) fn has_valid(&self, may_keep: bool) -> bool {
        self.cached && self.invalidating.is_none() && !self.has_stale(may_keep)
    }

    /// True if a revocation of the right to keep pages has to wait.
    pub(super) fn delays_revocation(&self, may_keep: bool) -> bool {
        self.cached && !may_keep
    }

    pub(crate) fn is_cached(&self) -> bool {
        self.cached
    }

    pub(crate) fn is_invalidating(&self) -> bool {
        self.invalidating.is_some()
    }

    /// Begins invalidation `id`.
    pub(super) fn start(&mut self, id: u64) {
        assert!(self.invalidating.is_none(), "one invalidation at a time");
        self.invalidating = Some(id);
        self.unsure = false;
    }

    /// Callers have dropped the pages of invalidation `id`. Returns false if that is not the one under way.
    pub(super) fn finish(&mut self, id: u64) -> bool {
        if self.invalidating != Some(id) {
            return false;
        }
        self.invalidating = None;
        self.cached = std::mem::take(&mut self.again);
        true
    }

    /// Asserts the invariant.
    pub(super) fn check(&self) {
        assert!(!self.again || self.invalidating.is_some(), "new pages of an invalidation that has ended");
        assert!(self.cached || self.invalidating.is_none(), "an invalidation of no pages");
    }
}
