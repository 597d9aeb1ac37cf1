//! A scrub that is under way: what it is to do, how far it is, and what it has found.

use super::finding::{Finding, SnapFinding};
use maps::Epoch;
use std::collections::{BTreeMap, BTreeSet};
use store::ObjectKey;

/// Findings that are kept for `rados list-inconsistent-obj`.
const KEPT: usize = 1000;

/// A scrub to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Read and compare data.
    pub deep: bool,
    /// Mend what is found, however much it is.
    pub repair: bool,
    /// An administrator has ordered it.
    pub ordered: bool,
}

/// A scrub that is under way.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) what: Wanted,
    /// Everything before it has been compared.
    pub(super) cursor: ObjectKey,
    /// Objects of the next chunk.
    pub(super) chunk: usize,
    /// Number of times that the present chunk was given up.
    pub(super) given_up: u32,
    /// It is looked at again, after copies were replaced.
    pub(super) again: bool,
    /// Objects that were damaged in it the first time.
    pub(super) mended: BTreeSet<ObjectKey>,
    /// Damaged objects so far, repaired or not.
    pub(super) damaged: usize,
    pub(super) fixed: u64,
    pub(super) shallow: u32,
    pub(super) deep: u32,
    pub(super) found: Found,
}

impl Wanted {
    /// Name of the scrub, as the commands call it.
    pub fn name(self) -> &'static str {
        match (self.repair, self.deep) {
            (true, _) => "repair",
            (false, true) => "deep-scrub",
            (false, false) => "scrub",
        }
    }
}

/// Findings of a scrub, for clients.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Interval that found it; 0 if nothing was scrubbed in the present one.
    pub interval: Epoch,
    /// Objects, in the order of keys.
    pub objects: BTreeMap<ObjectKey, Finding>,
    /// Sets of clones.
    pub snapsets: Vec<SnapFinding>,
    /// A request met some of it: no scrub has seen it yet.
    pub(super) unconfirmed: bool,
}

impl Found {
    pub(super) fn add(&mut self, findings: Vec<Finding>, snaps: Vec<SnapFinding>) {
        for finding in findings {
            if self.objects.len() < KEPT {
                self.objects.insert(finding.key.clone(), finding);
            }
        }
        self.snapsets.extend(snaps);
        self.snapsets.truncate(KEPT);
    }
}
