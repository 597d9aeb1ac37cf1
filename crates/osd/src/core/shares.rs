//! Share of PGs that may trim snapshots or be scrubbed at once.

/// PGs that do one kind of background work.
#[derive(Debug, Default)]
pub struct Share {
    busy: usize,
}

impl Share {
    /// Lets one more PG work if fewer than `limit` do. Returns true if it may.
    pub fn begin(&mut self, limit: usize) -> bool {
        let free = self.is_free(limit);
        self.busy += usize::from(free);
        free
    }

    /// True if fewer than `limit` PGs work.
    pub fn is_free(&self, limit: usize) -> bool {
        self.busy < limit
    }

    /// Ends a PG's work.
    pub fn end(&mut self) {
        assert!(self.busy > 0, "a PG ends work that none does");
        self.busy -= 1;
    }
}
