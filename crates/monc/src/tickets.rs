//! Keeping tickets and rotating keys fresh over the session (PROTOCOL.md 2.2, step 5).

use crate::MoncConfig;
use auth::{RotatingKeys, Tickets};
use std::time::Duration;
use stdx::{Instant, Now, Rng, Wall};

/// After a refused renewal, and for keys that the monitor does not have yet.
const RETRY: Duration = Duration::from_secs(5);
/// The method number of cephx in MAuth.
const CEPHX: u32 = 2;

/// What an MAuth in flight asked for. One at a time: replies carry nothing to tell them apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    Tickets,
    RotatingKeys,
}

/// What came of an MAuthReply.
pub(crate) enum Renewed {
    Tickets,
    RotatingKeys(RotatingKeys),
    Failed,
}

/// Our tickets, and when to ask for what.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) tickets: Tickets,
    asked: Option<Asked>,
    renew_at: Option<Instant>,
    rotate_at: Option<Instant>,
}

/// The monotonic moment of a wall time, as the clocks stand now.
fn mono(now: Now, at: Wall) -> Instant {
    now.mono + at.since(now.wall)
}

impl Keeper {
    pub(crate) fn new() -> Self {
        Self { tickets: Tickets::default(), asked: None, renew_at: None, rotate_at: None }
    }

    /// A handshake gave tickets. What was asked on the session before is not answered any more.
    pub(crate) fn begin_session(&mut self, config: &MoncConfig, tickets: Option<&Tickets>, now: Now) {
        self.asked = None;
        if let Some(tickets) = tickets {
            self.tickets = tickets.clone();
        }
        self.renew_at = self.tickets.next_renewal().map(|at| mono(now, at));
        if config.rotating_keys && config.credentials.key.is_some() {
            self.rotate_at = Some(now.mono);
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.asked.is_some() {
            return None;
        }
        [self.renew_at, self.rotate_at].into_iter().flatten().min()
    }

    /// The MAuth to send now. `Err` where only a new handshake helps.
    pub(crate) fn due(
        &mut self,
        config: &MoncConfig,
        now: Now,
        rng: &mut Rng,
    ) -> Result<Option<msgs::Auth>, ()> {
        if self.asked.is_some() {
            return Ok(None);
        }
        let reached = |at: Option<Instant>| at.is_some_and(|at| at <= now.mono);
        let (asked, payload) = if reached(self.rotate_at) {
            (Asked::RotatingKeys, Tickets::rotating_request())
        } else if reached(self.renew_at) {
            let services = self.tickets.due(&config.services, now.wall);
            if services.is_empty() {
                self.renew_at = self.tickets.next_renewal().map(|at| mono(now, at).max(now.mono + RETRY));
                return Ok(None);
            }
            (Asked::Tickets, self.tickets.renewal_request(&services, now.wall, rng).ok_or(())?)
        } else {
            return Ok(None);
        };
        self.asked = Some(asked);
        Ok(Some(msgs::Auth { protocol: CEPHX, payload, ..msgs::Auth::default() }))
    }

    /// Takes an MAuthReply.
    pub(crate) fn reply(&mut self, config: &MoncConfig, reply: &msgs::AuthReply, now: Now) -> Renewed {
        match self.asked.take() {
            Some(Asked::Tickets) => {
                let done = reply.result == 0 && self.tickets.apply_renewal(&reply.payload, now.wall).is_ok();
                let next = self.tickets.next_renewal().map(|at| mono(now, at));
                self.renew_at = next.map(|at| at.max(now.mono + RETRY));
                if done { Renewed::Tickets } else { Renewed::Failed }
            }
            Some(Asked::RotatingKeys) => {
                let key = config.credentials.key.as_ref().filter(|_| reply.result == 0);
                let keys = key.and_then(|key| Tickets::open_rotating(&reply.payload, key).ok());
                // The monitor makes a new "next" key when the current one ends; until then there is nothing to fetch.
                let fresh = keys
                    .as_ref()
                    .filter(|keys| !keys.needs_rotation(now.wall))
                    .and_then(RotatingKeys::current);
                let at = fresh.map_or(now.mono, |(_, key)| mono(now, key.expiration.into()));
                self.rotate_at = Some(at + RETRY);
                keys.map_or(Renewed::Failed, Renewed::RotatingKeys)
            }
            None => Renewed::Failed,
        }
    }
}
