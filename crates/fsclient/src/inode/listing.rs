//! The right by which names of a directory are believed.

/// Names are believed under the directory's `Fs`, and only those that were learnt under the same grant of it.
#[derive(Debug, Default)]
pub(crate) struct NameRight {
    /// Counts gains and losses of `Fs`. A name learnt under another count is not believed: one that was
    /// learnt without `Fs` may have gone before it was gained.
    shared_gen: u64,
    /// Counts names that were forgotten although they may exist.
    forgotten: u64,
    /// All names are known, as of this `shared_gen`.
    complete: bool,
}

/// The right under which a listing began: unchanged at its end, the listing is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ListingRight {
    shared_gen: u64,
    forgotten: u64,
}

impl NameRight {
    pub(crate) fn shared_gen(&self) -> u64 {
        self.shared_gen
    }

    /// True if a name that is not in the table does not exist, as long as `Fs` is held.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// The right that a listing which arrives now rests on.
    pub(crate) fn of_listing(&self) -> ListingRight {
        ListingRight { shared_gen: self.shared_gen, forgotten: self.forgotten }
    }

    /// `Fs` was gained or lost.
    pub(super) fn turned(&mut self) {
        self.shared_gen += 1;
        self.complete = false;
    }

    /// A name is forgotten that may exist: a listing under way does not make up for it.
    pub(super) fn forget_name(&mut self) {
        self.forgotten += 1;
        self.complete = false;
    }

    /// All names are in the table.
    pub(super) fn set_complete(&mut self) {
        self.complete = true;
    }
}
