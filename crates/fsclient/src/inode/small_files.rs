//! A small new file's way through the journal of its MDS (docs/adr/0020-small-files-in-the-journal.md).

/// The place of a file's data, as far as they are not waiting in the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum SmallFile {
    /// They are in objects, or on their way there.
    #[default]
    InObjects,
    /// There are none: the file was made here, and nothing of it has left.
    Fresh,
    /// The whole content is to go to the MDS with the next flush.
    Leaving,
    /// It goes with the flush of this tid.
    Sent(u64),
    /// The MDS has it in its journal, and may have it in no object.
    InJournal,
    /// The MDS may have it in its journal only, if it takes small files at all. It is asked before an object
    /// is looked into.
    InDoubt,
    /// It is in the journal, and was changed here since. The whole content is buffered: it goes to the MDS
    /// again, which takes it if the former one is in no object yet. Otherwise the journal has nothing of it.
    Changed,
}

impl SmallFile {
    /// True if the content is on its way to the MDS.
    pub(super) fn is_leaving(self) -> bool {
        matches!(self, Self::Leaving | Self::Sent(_))
    }
}
