//! The pages of a file that local callers cache, and their invalidation.

/// Invalidations overtaken by readers before a revocation is confirmed nevertheless.
const MAX_ROUNDS: u8 = 3;

/// Pages in caches above us. They may be kept only under a right that keeps others from writing; `may_keep`
/// says if it is held now.
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
    /// The right to keep them was lost since, or was not there: although it may be back, they are to be
    /// dropped.
    unsure: bool,
    /// Invalidations in a row that new pages overtook.
    rounds: u8,
}

impl Pages {
    /// Notes that the right to keep pages may have changed.
    pub(super) fn note_right(&mut self, may_keep: bool) {
        self.unsure |= !may_keep;
    }

    /// Notes that local callers get pages.
    pub(super) fn note_pages(&mut self, may_keep: bool) {
        self.unsure = self.unsure && self.cached || !may_keep;
        self.cached = true;
        self.again = self.invalidating.is_some();
    }

    /// True if there are pages that may be stale and that no invalidation drops yet.
    pub(super) fn has_stale(&self, may_keep: bool) -> bool {
        self.cached && self.invalidating.is_none() && (self.unsure || !may_keep)
    }

    /// True if local callers have pages, and all of them are up to date.
    pub(super) fn has_valid(&self, may_keep: bool) -> bool {
        self.cached && self.invalidating.is_none() && !self.has_stale(may_keep)
    }

    /// True if a revocation of the right to keep pages has to wait. A reader without pause gets new pages
    /// during each invalidation: after some rounds others come first, and the pages are dropped once more
    /// afterwards.
    pub(super) fn delay_revocation(&self, may_keep: bool) -> bool {
        self.cached && !may_keep && self.rounds < MAX_ROUNDS
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
    pub(super) fn finish(&mut self, id: u64, may_keep: bool) -> bool {
        if self.invalidating != Some(id) {
            return false;
        }
        self.invalidating = None;
        self.cached = std::mem::take(&mut self.again);
        // Pages that are up to date overtake nothing.
        let overtaken = self.cached && !self.has_valid(may_keep);
        self.rounds = if overtaken { self.rounds.saturating_add(1) } else { 0 };
        true
    }

    /// Asserts the invariant.
    pub(super) fn check(&self) {
        assert!(!self.again || self.invalidating.is_some(), "new pages of an invalidation that has ended");
        assert!(self.cached || self.invalidating.is_none(), "an invalidation of no pages");
    }

    #[cfg(test)]
    pub(crate) fn rounds(&self) -> u8 {
        self.rounds
    }
}
