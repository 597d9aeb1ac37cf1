//! The start of an OSD: store, identity, newest processed map, PGs' records.

mod steps;

use crate::pg::meta::Loader;
use maps::Spg;
use std::collections::{BTreeMap, VecDeque};

/// Progress of the start.
#[derive(Debug, Default)]
pub struct Boot {
    running: bool,
    to_load: VecDeque<Spg>,
    loading: BTreeMap<Spg, Loader>,
    announced: bool,
    ready: bool,
}

impl Boot {
    /// True once all is loaded and maps may come.
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// Notes that the monitor was asked to mark us up. Returns true if it was not asked in this session
    /// before.
    pub fn announce(&mut self) -> bool {
        !std::mem::replace(&mut self.announced, true)
    }

    /// Allows the monitor to be asked again.
    pub fn announce_again(&mut self) {
        self.announced = false;
    }

    /// Notes that the OSD is up. Returns true the first time.
    pub fn ready(&mut self) -> bool {
        !std::mem::replace(&mut self.ready, true)
    }
}
