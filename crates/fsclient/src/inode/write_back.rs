//! The buffered writes of a file, and who waits for them to be durable.

use crate::dirty::Dirty;
use wire::Errno;

/// Buffered writes of one file.
///
/// Invariant: `counted_bytes` is this file's part of the client's total; it lags behind `dirty` only until
/// the next [`WriteBack::recount`].
#[derive(Debug, Default)]
pub(crate) struct WriteBack {
    dirty: Dirty,
    counted_bytes: u64,
    /// Somebody waits until data and attributes are durable.
    sync_wanted: bool,
    /// Somebody waits until the data are durable.
    data_wanted: bool,
    /// The error of a failed write that nobody has been told of.
    error: Option<Errno>,
}

impl WriteBack {
    pub(crate) fn dirty(&self) -> &Dirty {
        &self.dirty
    }

    pub(super) fn dirty_mut(&mut self) -> &mut Dirty {
        &mut self.dirty
    }

    pub(crate) fn counted_bytes(&self) -> u64 {
        self.counted_bytes
    }

    /// Counts the buffered bytes again. Returns the former and the new count.
    pub(super) fn recount(&mut self) -> (u64, u64) {
        let before = std::mem::replace(&mut self.counted_bytes, self.dirty.bytes());
        (before, self.counted_bytes)
    }

    pub(super) fn want_sync(&mut self) {
        self.sync_wanted = true;
    }

    pub(super) fn want_data(&mut self) {
        self.data_wanted = true;
    }

    pub(super) fn is_sync_wanted(&self) -> bool {
        self.sync_wanted
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.sync_wanted || self.data_wanted
    }

    /// Everything was flushed: who waits for the acknowledgement needs no more, and later writes may stay a
    /// while.
    pub(super) fn end_sync(&mut self) {
        self.sync_wanted = false;
    }

    /// Ends the wish for data once none are buffered.
    pub(super) fn update_data_wanted(&mut self) {
        self.data_wanted &= !self.dirty.is_empty();
    }

    /// Forgets what has not left: it is lost, and the next fsync or close says so.
    pub(super) fn lose(&mut self) {
        self.error = Some(Errno::EIO);
        self.dirty.discard();
    }

    /// The flight at `offset` has ended.
    pub(super) fn landed(&mut self, offset: u64, result: Result<(), Errno>) {
        self.dirty.landed(offset);
        if let Err(errno) = result {
            self.error = Some(errno);
        }
    }

    pub(super) fn take_error(&mut self) -> Option<Errno> {
        self.error.take()
    }

    #[cfg(test)]
    pub(crate) fn error(&self) -> Option<Errno> {
        self.error
    }
}
