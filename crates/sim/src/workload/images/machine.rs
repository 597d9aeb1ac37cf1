//! An image that a client has open, and what it is to do with it.

use crate::oracle::images::{Caller, Written};
use block::Image;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Something that is done with an open image. Ranges are of units.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Read(Range<usize>),
    /// Reads everything.
    ReadAll,
    Write(Range<usize>),
    Zero(Range<usize>),
    Flush,
    /// Takes a snapshot, which is known by this number among the image's.
    Snap(usize),
    RemoveSnap(usize),
    /// Removes a snapshot of the trash, if it has no clones.
    RemoveTrashed(u64),
    Rollback(usize),
    Resize(usize),
    Flatten,
    Remove,
    Close,
}

impl Act {
    /// True if the whole image is to go.
    pub(super) fn removes(&self) -> bool {
        matches!(self, Self::Remove)
    }

    /// True if it changes the size of the image.
    pub(super) fn is_resizing(&self) -> bool {
        matches!(self, Self::Resize(_) | Self::Rollback(_))
    }
}

/// A request that has not been answered.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) act: Act,
    /// The moment of the call.
    pub(super) call: u64,
    pub(super) by: Caller,
    /// The units that are read.
    pub(super) range: Range<usize>,
    pub(super) written: Option<Written>,
}

/// How far a machine is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Opening,
    Open,
    Closing,
}

/// An image that a client has open.
pub(super) struct Machine {
    pub(super) seat: usize,
    pub(super) image: usize,
    /// The snapshot that it shows, by its number among the image's.
    pub(super) snap: Option<usize>,
    pub(super) block: Image,
    pub(super) stage: Stage,
    /// Size in units, as it knows it.
    pub(super) units: usize,
    /// What it is to do, one after another. Without anything to do it stays open, for its client.
    pub(super) plan: VecDeque<Act>,
    pub(super) waiting: BTreeMap<u64, Waiting>,
    pub(super) next_request: u64,
}

impl Machine {
    pub(super) fn is_idle(&self) -> bool {
        self.stage == Stage::Open && self.waiting.is_empty()
    }

    /// True if its client may do something with it at random.
    pub(super) fn is_resident(&self) -> bool {
        self.stage == Stage::Open && self.plan.is_empty() && self.snap.is_none()
    }
}
