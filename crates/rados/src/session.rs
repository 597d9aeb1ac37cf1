//! The connection to one OSD.

use crate::backoff::Backoffs;
use node::ConnId;
use std::time::Duration;
use stdx::{Instant, Rng};
use wire::EntityAddr;

/// The pause before the second attempt; the first attempt after a connection that worked comes at once.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Pauses double up to this many times: to 3.2 s.
const MAX_DOUBLINGS: u32 = 5;

/// Our dealings with one OSD at one address.
#[derive(Debug)]
pub(crate) struct OsdSession {
    /// Address of the OSD; another address is another session.
    pub(crate) addr: EntityAddr,
    /// The connection; `None` while waiting to try again.
    pub(crate) conn: Option<ConnId>,
    /// Time of the next attempt.
    pub(crate) retry_at: Option<Instant>,
    /// Attempts since it last worked.
    failures: u32,
    pub(crate) backoffs: Backoffs,
}

impl OsdSession {
    pub(crate) fn new(addr: EntityAddr) -> Self {
        Self { addr, conn: None, retry_at: None, failures: 0, backoffs: Backoffs::default() }
    }

    /// The OSD has sent a message: the connection works.
    pub(crate) fn worked(&mut self) {
        self.failures = 0;
    }

    /// The connection is gone.
    pub(crate) fn lost(&mut self, now: Instant, rng: &mut Rng) {
        self.conn = None;
        self.backoffs = Backoffs::default();
        self.retry_at = Some(match self.failures {
            0 => now,
            n => {
                let pause = FIRST_PAUSE * 2u32.pow((n - 1).min(MAX_DOUBLINGS));
                now + pause / 2 + Duration::from_nanos(rng.below(pause.as_nanos() as u64))
            }
        });
        self.failures += 1;
    }
}
