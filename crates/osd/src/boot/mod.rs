//! From a disk to a running OSD: the store, whose it is, the newest map that was acted on, the PGs' records.

mod steps;

use crate::pg::meta::Loader;
use maps::PgId;
use std::collections::{BTreeMap, VecDeque};

/// Progress of the start.
#[derive(Debug, Default)]
pub struct Boot {
    running: bool,
    to_load: VecDeque<PgId>,
    loading: BTreeMap<PgId, Loader>,
    announced: bool,
    ready: bool,
}

impl Boot {
    /// True once all is loaded and maps may come.
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// The monitor is asked to mark us up. Returns true if it was not yet, in this session.
    pub fn announce(&mut self) -> bool {
        !std::mem::replace(&mut self.announced, true)
    }

    /// The monitor is to be asked once more when there is reason to.
    pub fn announce_again(&mut self) {
        self.announced = false;
    }

    /// The OSD is up. Returns true if that is the first time.
    pub fn ready(&mut self) -> bool {
        !std::mem::replace(&mut self.ready, true)
    }
}
