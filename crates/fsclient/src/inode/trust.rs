//! Attributes that local callers believe without asking, and taking that belief back.

/// Attributes that were told for a time. They may be believed only under shared bits that keep others from
/// changing them; `has_right` says if these are held now.
///
/// Invariant: attributes are told during a withdrawal (`again`) only while one is under way.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    /// Local callers may believe attributes.
    told: bool,
    /// Callers have asked for the attributes of this inode by its number: they have it, so a withdrawal
    /// reaches them.
    known_above: bool,
    /// The withdrawal under way.
    withdrawing: Option<u64>,
    /// Attributes were told while a withdrawal was under way.
    again: bool,
    /// The right was lost since, although it may be back, or it is about to be given up.
    unsure: bool,
}

impl Trust {
    /// Attributes are told for a time; `by_number` if callers asked for this inode by its number. Returns
    /// whether a withdrawal is certain to reach whoever believes them.
    pub(super) fn tell(&mut self, by_number: bool) -> bool {
        self.known_above |= by_number;
        self.told = true;
        self.again = self.withdrawing.is_some();
        self.known_above
    }

    /// Callers have forgotten the inode.
    pub(super) fn forget(&mut self) {
        (self.told, self.again) = (false, false);
        (self.known_above, self.unsure) = (false, false);
    }

    /// Notes that the right may have changed.
    pub(super) fn note_right(&mut self, has_right: bool) {
        self.unsure |= self.told && !has_right;
    }

    /// True if attributes are believed that may be stale, and no withdrawal is under way.
    pub(super) fn is_stale(&self, has_right: bool) -> bool {
        self.told && self.withdrawing.is_none() && (self.unsure || !has_right)
    }

    /// True if a revocation of the right has to wait.
    pub(super) fn delays_revocation(&self, has_right: bool) -> bool {
        self.told && !has_right
    }

    pub(super) fn is_told(&self) -> bool {
        self.told
    }

    pub(super) fn is_withdrawing(&self) -> bool {
        self.withdrawing.is_some()
    }

    /// Begins withdrawal `id`.
    pub(super) fn start(&mut self, id: u64) {
        assert!(self.withdrawing.is_none(), "one withdrawal at a time");
        self.withdrawing = Some(id);
        self.unsure = false;
    }

    /// Nobody believes what was told before withdrawal `id`. Returns false if that is not the one under way.
    pub(super) fn finish(&mut self, id: u64) -> bool {
        if self.withdrawing != Some(id) {
            return false;
        }
        self.withdrawing = None;
        self.told = std::mem::take(&mut self.again);
        // The right may have been lost once more meanwhile: of what nobody believes there is no doubt.
        self.unsure &= self.told;
        true
    }

    /// Asserts the invariant.
    pub(super) fn check(&self) {
        assert!(!self.again || self.withdrawing.is_some(), "told during a withdrawal that has ended");
        assert!(self.told || !self.unsure, "doubt about what nobody believes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_lost_during_a_withdrawal_leaves_no_doubt_behind_it() {
        let mut trust = Trust::default();
        assert!(trust.tell(true));
        trust.note_right(false);
        assert!(trust.is_stale(false));
        trust.start(1);
        // The capability was back, and is revoked again before callers have forgotten the attributes.
        trust.note_right(true);
        trust.note_right(false);
        trust.check();
        assert!(trust.finish(1));
        trust.check();
        assert!(!trust.is_told() && !trust.is_stale(false));
    }
}
