//! Disk operations of opening, and the result of its steps.

use crate::api::StoreOut;
use crate::io::{Io, Purpose};
use crate::ring::{Record, Ring};
use stdx::Buf;

/// The log is read and zeroed in pieces of this size, in bytes.
pub(super) const LOG_PIECE: u64 = 1 << 20;

/// Begins operations of opening and counts them.
pub(super) struct Port<'a> {
    pub io: &'a mut Io,
    pub out: &'a mut Vec<StoreOut>,
    pub begun: usize,
}

impl Port<'_> {
    pub fn read(&mut self, offset: u64, len: u64) {
        self.io.read(Purpose::Open(self.begun), offset, len as usize, self.out);
        self.begun += 1;
    }

    pub fn write(&mut self, offset: u64, data: Buf) {
        self.io.write(Purpose::Open(self.begun), offset, data, self.out);
        self.begun += 1;
    }

    pub fn flush(&mut self) {
        self.io.flush(Purpose::Open(self.begun), self.out);
        self.begun += 1;
    }
}

/// The result of a step.
pub(crate) enum Turn {
    /// Operations are under way.
    Waiting,
    Progress,
    /// The log was scanned: this is its ring, and its records follow.
    Log(Ring),
    /// The next record of the log, to be applied before the next step.
    Record(Record),
    /// The store is open; a ring if no log had to be read.
    Open(Option<Ring>),
}
