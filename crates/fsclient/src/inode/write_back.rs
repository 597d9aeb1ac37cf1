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
    /// Failures of writes so far, and the last one's error. Every handle that was open is told once by fsync,
    /// and until then by each close of a descriptor: that may be a child's, which nobody asks.
    failures: u64,
    error: Option<Errno>,
    /// The failures that somebody was told of. Who opens the file is told of the others.
    told: u64,
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
        self.fail(Errno::EIO);
        self.dirty.discard();
    }

    /// The flight at `offset` has ended.
    pub(super) fn landed(&mut self, offset: u64, result: Result<(), Errno>) {
        self.dirty.landed(offset);
        match result {
            // What this instance of the client had on its way is lost: that it was evicted is no answer.
            Err(Errno::EBLOCKLISTED) => self.fail(Errno::EIO),
            Err(errno) => self.fail(errno),
            Ok(()) => {}
        }
    }

    fn fail(&mut self, errno: Errno) {
        self.failures += 1;
        self.error = Some(errno);
    }

    /// The failures that a handle which is opened now is not told of.
    pub(crate) fn told_failures(&self) -> u64 {
        self.told
    }

    /// The last failure, for a handle that knows the first `seen` of them.
    pub(crate) fn error_after(&self, seen: u64) -> Option<Errno> {
        self.error.filter(|_| seen < self.failures)
    }

    /// The same, which the handle knows from now on.
    pub(super) fn take_error(&mut self, seen: &mut u64) -> Option<Errno> {
        let error = self.error_after(*seen)?;
        (*seen, self.told) = (self.failures, self.failures);
        Some(error)
    }

    /// The last failure, if nobody was told of it: whoever asks is.
    pub(super) fn take_untold_error(&mut self) -> Option<Errno> {
        let error = self.error.filter(|_| self.told < self.failures);
        self.told = self.failures;
        error
    }

    #[cfg(test)]
    pub(crate) fn error(&self) -> Option<Errno> {
        self.error.filter(|_| self.told < self.failures)
    }
}
