//! Inputs that wait for processors.

use super::{Due, HostId, What, World};
use crate::processors::Processor;
use std::time::Duration;

impl<Req, Rep> World<Req, Rep> {
    /// Gives a host a processor of this speed. Its inputs take no time before.
    pub fn give_processor(&mut self, host: HostId, speed: Processor) {
        self.processors.give(host, speed);
    }

    /// Takes the time that a host's processor has worked since the last call.
    pub fn take_used(&mut self, host: HostId) -> Duration {
        self.processors.take_used(host)
    }

    /// An input waits for a host's processor; gives it back if the host has none.
    pub(super) fn queue(&mut self, host: HostId, what: What) -> Option<What> {
        let back = self.processors.add(host, what);
        self.work_on_next(host);
        back
    }

    fn work_on_next(&mut self, host: HostId) {
        let is_message = |what: &What| matches!(what, What::Message { .. });
        if let Some(at) = self.processors.begin(self.now, host, is_message) {
            let incarnation = self.hosts[host.0].incarnation;
            self.due(at, Due::Worked { host, incarnation });
        }
    }

    /// A host's processor has worked on an input.
    pub(super) fn worked(&mut self, host: HostId) {
        if let Some(what) = self.processors.end(host) {
            self.take_in(host, what);
        }
        self.work_on_next(host);
    }
}
