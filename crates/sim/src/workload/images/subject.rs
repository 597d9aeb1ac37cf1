//! The images and snapshots of a run, as those who use them know them.

use crate::oracle::images::UNIT;
use block::{NewImage, Place, feature};
use stdx::Rng;

/// The most units of an image.
pub(super) const MOST_UNITS: usize = 96;

/// How far an image is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// A client makes it.
    Making,
    Live,
    /// It is to be removed once nobody has it open.
    Leaving,
    Gone,
    /// Whoever made it has died: something may be left of it.
    Abandoned,
}

/// How far a snapshot is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SnapPhase {
    /// It is being taken; if its client died meanwhile, it may exist or not.
    Unknown,
    Live,
    /// Somebody has begun to remove it.
    Removing,
    Gone,
}

/// A snapshot of an image.
#[derive(Debug)]
pub(super) struct Snap {
    pub(super) name: String,
    /// Its number in the history.
    pub(super) number: usize,
    pub(super) phase: SnapPhase,
    /// Its creation was answered.
    pub(super) is_whole: bool,
    /// It is looked at for the last time.
    pub(super) seen: bool,
}

/// An image.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) new: NewImage,
    /// Its number in the history; none before it exists.
    pub(super) number: Option<usize>,
    pub(super) phase: Phase,
    /// Image and snapshot that it is a clone of.
    pub(super) parent: Option<(usize, usize)>,
    pub(super) snaps: Vec<Snap>,
    /// Somebody flattens it, or has died while it did.
    pub(super) flattening: bool,
    /// Somebody changes its size.
    pub(super) resizing: bool,
    /// It is looked at for the last time.
    pub(super) seen: bool,
}

impl Subject {
    /// Draws an image; a clone gets its parent's size.
    pub(super) fn draw(rng: &mut Rng, n: usize, pool: i64, parent: Option<(usize, usize)>) -> Self {
        const MAPPED: u64 = feature::LAYERING | feature::EXCLUSIVE_LOCK | feature::OBJECT_MAP;
        let features = match rng.below(6) {
            0 => feature::LAYERING | feature::EXCLUSIVE_LOCK,
            1 => MAPPED,
            2 => MAPPED | feature::FAST_DIFF,
            _ => feature::DEFAULT,
        };
        let order = *rng.pick(&[12, 12, 13]);
        let units = rng.range(8, MOST_UNITS as u64 + 1);
        let new = NewImage {
            place: Place { pool, namespace: Vec::new() },
            name: format!("i{n}"),
            id: format!("{n:04}"),
            size: units * UNIT as u64,
            order,
            features,
            data_pool: None,
            striping: rng.chance(1, 5).then_some((1024, 3)),
        };
        Self {
            new,
            number: None,
            phase: Phase::Making,
            parent,
            snaps: Vec::new(),
            flattening: false,
            resizing: false,
            seen: false,
        }
    }

    /// Snapshots that exist, by number.
    pub(super) fn live_snaps(&self) -> Vec<usize> {
        (0..self.snaps.len()).filter(|i| self.snaps[*i].phase == SnapPhase::Live).collect()
    }

    /// Snapshots that may still be there.
    pub(super) fn left_snaps(&self) -> Vec<usize> {
        (0..self.snaps.len()).filter(|i| self.snaps[*i].phase != SnapPhase::Gone).collect()
    }
}

/// True if a clone of a snapshot is being flattened: the snapshot may not know of it any more.
pub(super) fn is_leaving(all: &[Subject], image: usize, snap: usize) -> bool {
    all.iter().any(|s| s.flattening && s.phase != Phase::Gone && s.parent == Some((image, snap)))
}

/// True if an image that may exist is a clone of this one, or of this snapshot of it.
pub(super) fn has_clones(all: &[Subject], image: usize, snap: Option<usize>) -> bool {
    all.iter()
        .filter(|s| s.phase != Phase::Gone)
        .filter_map(|s| s.parent)
        .any(|(parent, of)| parent == image && snap.is_none_or(|snap| snap == of))
}
