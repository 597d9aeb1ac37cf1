//! Unique numbers within one OSD. They restart with the process; nothing that carries one survives it.

use maps::Epoch;

/// The last number given of each kind.
#[derive(Debug, Default)]
pub struct Numbers {
    round: u64,
    notifications: u64,
    request: u64,
}

impl Numbers {
    /// A number for a round of peering, or for any other question whose answers must be distinguished.
    pub fn next_round(&mut self) -> u64 {
        self.round += 1;
        self.round
    }

    /// The first of `count` numbers of notifications in a row. They differ from those of earlier starts by
    /// the epoch.
    pub fn notify_ids(&mut self, count: usize, epoch: Epoch) -> u64 {
        let first = self.notifications;
        self.notifications += count as u64;
        u64::from(epoch.0) << 32 | first & u64::from(u32::MAX)
    }

    /// A number for a request; it grows in the order of arrival.
    pub fn next_request(&mut self) -> u64 {
        self.request += 1;
        self.request
    }
}
