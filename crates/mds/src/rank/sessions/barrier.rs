//! The OSD map that clients must have before they access data, after others were evicted:
//! `osd_epoch_barrier` of messages about capabilities (docs/protocol.md 6.5).

use super::Sessions;
use crate::types::ClientId;
use maps::Epoch;

impl Sessions {
    /// Others are given what a client had that the OSDs refuse from this map on. They must have that map
    /// before they access data: an OSD that has not got it would carry out what is still on the way from that
    /// client, after what they have written.
    pub fn raise_barrier(&mut self, epoch: Epoch) {
        self.barrier = self.barrier.max(epoch);
    }

    /// The map that a client is told to have with this message.
    pub fn tell_barrier(&mut self, client: ClientId) -> Epoch {
        if let Some(s) = self.map.get_mut(&client) {
            s.barrier = self.barrier;
        }
        self.barrier
    }

    /// True if a client was not told yet which map it must have.
    pub fn lacks_barrier(&self, client: ClientId) -> bool {
        self.map.get(&client).is_some_and(|s| s.barrier < self.barrier)
    }
}
