//! Ages of zones, in checkpoints: the criterion for discarding free space.

/// The checkpoint at which each zone last changed, modulo 255, from 1 on; 0 for a free zone that was
/// discarded. After 255 checkpoints an old zone may look young again, which is harmless.
pub(crate) struct Ages {
    since: Vec<u8>,
    now: u8,
}

impl Ages {
    pub fn new(zones: usize) -> Self {
        Self { since: vec![1; zones], now: 1 }
    }

    /// Notes that blocks of a zone were taken or freed.
    pub fn changed(&mut self, zone: usize) {
        self.since[zone] = self.now;
    }

    /// Notes that a zone was discarded.
    pub fn discarded(&mut self, zone: usize) {
        self.since[zone] = 0;
    }

    /// True if the zone has not changed for this many checkpoints and was not discarded since.
    pub fn is_old(&self, zone: usize, checkpoints: u8) -> bool {
        let since = self.since[zone];
        since != 0 && (u16::from(self.now) + 255 - u16::from(since)) % 255 >= u16::from(checkpoints)
    }

    /// Counts a checkpoint.
    pub fn tick(&mut self) {
        self.now = self.now % 255 + 1;
    }
}
