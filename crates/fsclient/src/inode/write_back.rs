//! The buffered writes of a file, and who waits for them to be durable.

use super::small_files::SmallFile;
use crate::dirty::{Dirty, Flight};
use msgs::{ClientCaps, small_file};
use stdx::{Buf, Bufs, ConstDefault};
use wire::Errno;

/// Buffered writes of one file.
///
/// Invariants: a file whose data are in the MDS's journal has none buffered, and one whose data are on their
/// way there has them in flight and no others; `counted_bytes` is this file's part of the client's total, and
/// lags behind `dirty` only until the next [`WriteBack::recount`].
#[derive(PartialEq, Debug, Default)]
pub(crate) struct WriteBack {
    dirty: Dirty,
    counted_bytes: u64,
    /// Somebody waits until data and attributes are durable.
    sync_wanted: bool,
    /// Somebody waits until the data are durable.
    data_wanted: bool,
    /// Of those who wait for a sync, somebody called fsync.
    is_fsynced: bool,
    small_file: SmallFile,
    /// The content that is in the journal, as long as somebody may change it.
    content: Option<Box<Bufs>>,
    /// Failures of writes so far, and the last one's error. Every handle that was open is told once by fsync,
    /// and until then by each close of a descriptor: that may be a child's, which nobody asks.
    failures: u64,
    error: Option<Errno>,
    /// The failures that somebody was told of. Who opens the file is told of the others.
    told: u64,
}

impl ConstDefault for WriteBack {
    fn const_default() -> &'static Self {
        const {
            &Self {
                dirty: Dirty::new(),
                counted_bytes: 0,
                sync_wanted: false,
                data_wanted: false,
                is_fsynced: false,
                small_file: SmallFile::InObjects,
                content: None,
                failures: 0,
                error: None,
                told: 0,
            }
        }
    }
}

impl WriteBack {
    pub(crate) fn dirty(&self) -> &Dirty {
        &self.dirty
    }

    pub(super) fn dirty_mut(&mut self) -> &mut Dirty {
        &mut self.dirty
    }

    /// Hands out the next extent for an object.
    pub(super) fn take_off(&mut self, max: u64, object_size: u64) -> Option<Flight> {
        let flight = self.dirty.take_off(max, object_size)?;
        self.small_file = SmallFile::InObjects;
        Some(flight)
    }

    /// The file was made here: nothing of it is anywhere else.
    pub(super) fn made_here(&mut self) {
        self.small_file = SmallFile::Fresh;
    }

    /// Others may write from now on, or the file is cut or punched: nothing is known here of its content.
    pub(super) fn not_fresh(&mut self) {
        self.content = None;
        if self.small_file == SmallFile::Fresh {
            self.small_file = SmallFile::InObjects;
        }
    }

    /// True if all of a file of `size` bytes is waiting.
    pub(super) fn is_whole(&self, size: u64) -> bool {
        self.dirty.covers(0, size) && self.dirty.waiting_bytes() == size && !self.dirty.is_flying()
    }

    /// Hands out the whole content of a new file of `size` bytes, for the next flush. Returns true if it did.
    pub(super) fn hand_over(&mut self, size: u64) -> bool {
        let is_due = matches!(self.small_file, SmallFile::Fresh | SmallFile::Changed);
        if !is_due || size == 0 || !self.is_whole(size) {
            return false;
        }
        let flight = self.dirty.take_off(size, size);
        assert!(
            flight.is_some_and(|flight| flight.data.len() as u64 == size),
            "the whole content is waiting"
        );
        self.small_file = SmallFile::Leaving;
        true
    }

    /// The flush `tid` leaves: the content that was handed over goes with it.
    pub(super) fn send_whole(&mut self, tid: u64) {
        if self.small_file == SmallFile::Leaving {
            self.small_file = SmallFile::Sent(tid);
        }
    }

    /// Adds the content that goes with the flush `tid`, if it does.
    pub(super) fn add_whole(&self, tid: u64, flush: &mut ClientCaps) {
        let content = self.dirty.flight(0).filter(|_| self.small_file == SmallFile::Sent(tid));
        if let Some(content) = content {
            (flush.inline_version, flush.inline_data) = (small_file::IN_JOURNAL, content.to_vec());
        }
    }

    /// Flush `tid` is acknowledged; `is_taken` if the MDS has taken the content that came with it, and
    /// `keeps` if that is to be known here as long as nobody else may change it.
    pub(super) fn take_flush_ack(&mut self, tid: u64, is_taken: bool, keeps: bool) {
        if self.small_file != SmallFile::Sent(tid) {
            return;
        }
        if is_taken {
            self.content = self.dirty.flight(0).filter(|_| keeps).cloned().map(Box::new);
            self.dirty.landed(0);
            self.small_file = SmallFile::InJournal;
        } else {
            self.come_back();
        }
    }

    /// The content that was not sent yet goes to an object.
    pub(super) fn keep_from_journal(&mut self) {
        self.content = None;
        match self.small_file {
            SmallFile::Fresh | SmallFile::Changed => self.small_file = SmallFile::InObjects,
            SmallFile::Leaving => self.come_back(),
            SmallFile::InObjects | SmallFile::Sent(_) | SmallFile::InJournal | SmallFile::InDoubt => {}
        }
    }

    fn come_back(&mut self) {
        self.dirty.came_back(0);
        self.small_file = SmallFile::InObjects;
    }

    /// The data may be in the journal of the MDS only.
    pub(super) fn doubt_place(&mut self) {
        if self.small_file == SmallFile::InObjects && self.dirty.is_empty() {
            self.small_file = SmallFile::InDoubt;
        }
    }

    /// The MDS has stored the content in an object.
    pub(super) fn stored(&mut self) {
        if self.is_in_journal() || self.is_changed() {
            self.small_file = SmallFile::InObjects;
            self.content = None;
        }
    }

    /// Nobody has the file open for writing any more.
    pub(super) fn closed(&mut self) {
        self.content = None;
    }

    /// True if the content of `size` bytes that is in the journal is known here.
    pub(super) fn knows_content(&self, size: u64) -> bool {
        self.is_changed() || self.content.as_ref().is_some_and(|content| content.len() as u64 == size)
    }

    /// The content that is in the journal is about to be changed from `offset` on. A hole before is zeros.
    pub(super) fn note_changed(&mut self, offset: u64) {
        if let Some(content) = self.content.take().filter(|_| self.is_in_journal()) {
            self.dirty.write(0, *content);
            self.small_file = SmallFile::Changed;
        }
        let end = self.dirty.waiting_end();
        if self.is_changed() && offset > end {
            self.dirty.write(end, Buf::zeros((offset - end) as usize).into());
        }
    }

    /// True if the whole content is buffered because it has changed since it went into the journal.
    pub(crate) fn is_changed(&self) -> bool {
        self.small_file == SmallFile::Changed
    }

    /// Forgets what has not left: the file is gone.
    pub(super) fn forget_waiting(&mut self) {
        self.dirty.discard();
        if self.is_changed() {
            self.small_file = SmallFile::InJournal;
        }
    }

    /// True if the content is on its way to the MDS: nothing may be written until it is there.
    pub(crate) fn is_leaving(&self) -> bool {
        self.small_file.is_leaving()
    }

    /// True if the content may be in no object yet.
    pub(crate) fn is_in_journal(&self) -> bool {
        matches!(self.small_file, SmallFile::InJournal | SmallFile::InDoubt)
    }

    /// True if nothing says yet that the MDS takes small files.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.small_file == SmallFile::InDoubt
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

    /// Somebody called fsync.
    pub(super) fn want_fsync(&mut self) {
        (self.sync_wanted, self.is_fsynced) = (true, true);
    }

    pub(super) fn is_fsynced(&self) -> bool {
        self.is_fsynced
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
        (self.sync_wanted, self.is_fsynced) = (false, false);
    }

    /// Ends the wish for data once none are buffered.
    pub(super) fn update_data_wanted(&mut self) {
        self.data_wanted &= !self.dirty.is_empty();
    }

    /// Forgets what has not left: it is lost, and the next fsync or close says so.
    pub(super) fn lose(&mut self) {
        self.fail(Errno::EIO);
        self.dirty.discard();
        if self.small_file.is_leaving() {
            self.dirty.landed(0);
        }
        self.small_file = SmallFile::InObjects;
        self.content = None;
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

    /// Asserts the invariants.
    pub(super) fn check(&self) {
        assert!(!self.is_in_journal() || self.dirty.is_empty(), "data in the journal and in the buffer");
        let is_whole = self.dirty.waiting_bytes() == 0 && self.dirty.flight(0).is_some();
        assert!(!self.is_leaving() || is_whole, "data on their way to the journal, and others");
        assert!(
            !self.is_changed() || !self.dirty.is_flying(),
            "data of the journal on their way to an object"
        );
    }

    #[cfg(test)]
    pub(crate) fn error(&self) -> Option<Errno> {
        self.error.filter(|_| self.told < self.failures)
    }
}
