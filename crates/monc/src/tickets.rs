//! Keeping tickets and rotating keys fresh over the session (docs/protocol.md 2.2, step 5).

use crate::MoncConfig;
use auth::{RotatingKeys, Tickets};
use std::time::Duration;
use stdx::{Instant, Now, Rng, Wall};

/// After a refused renewal, and for keys that the monitor does not have yet.
const RETRY: Duration = Duration::from_secs(5);
/// Between two renewals because a service refused a ticket.
const RENEW_REFUSED: Duration = Duration::from_secs(30);
/// The method number of cephx in MAuth.
const CEPHX: u32 = 2;

/// The request of an MAuth in flight. There is one at a time, because replies do not identify their request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    Tickets,
    /// A ticket for the session itself, with the others.
    Session,
    RotatingKeys,
}

/// The outcome of an MAuthReply.
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
    /// The monitor would not renew the session: only a handshake helps once its ticket has ended.
    refused: bool,
    /// The last time at which a service refused a ticket that looked good.
    service_refused: Option<Instant>,
}

/// The monotonic moment of a wall time, as the clocks stand now.
fn mono(now: Now, at: Wall) -> Instant {
    now.mono + at.since(now.wall)
}

impl Keeper {
    pub(crate) fn new() -> Self {
        Self {
            tickets: Tickets::default(),
            asked: None,
            renew_at: None,
            rotate_at: None,
            refused: false,
            service_refused: None,
        }
    }

    /// A handshake gave tickets. What was asked on the session before is not answered any more.
    pub(crate) fn begin_session(&mut self, config: &MoncConfig, tickets: Option<&Tickets>, now: Now) {
        (self.asked, self.refused) = (None, false);
        if let Some(tickets) = tickets {
            self.tickets = tickets.clone();
        }
        self.renew_at = self.tickets.next_renewal().map(|at| mono(now, at));
        if config.rotating_keys.is_some() && config.credentials.key.is_some() {
            self.rotate_at = Some(now.mono);
        }
    }

    /// Drops the tickets, which are of no use any more: the next handshake is that of a new client.
    pub(crate) fn forget(&mut self) {
        self.tickets = Tickets::default();
    }

    /// An OSD or metadata server did not take a ticket: keys may have changed out of turn.
    pub(crate) fn service_refused(&mut self, config: &MoncConfig, now: Now) {
        if self.service_refused.is_some_and(|at| now.mono.since(at) < RENEW_REFUSED) {
            return;
        }
        self.service_refused = Some(now.mono);
        self.tickets.expire(&config.services, now.wall);
        self.renew_at = self.tickets.next_renewal().map(|at| mono(now, at));
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.asked.is_some() {
            return None;
        }
        [self.renew_at, self.rotate_at].into_iter().flatten().min()
    }

    /// The MAuth to send now. `Err` if only a new handshake helps.
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
        let (asked, payload) = if let Some(service) = config.rotating_keys.filter(|_| reached(self.rotate_at))
        {
            (
                Asked::RotatingKeys,
                Tickets::rotating_request(Some(service).filter(|s| *s != config.credentials.name.ty)),
            )
        } else if reached(self.renew_at) {
            let services = self.tickets.due(&config.services, now.wall);
            let is_own_due = self.tickets.is_session_due(now.wall) && !self.refused;
            if self.refused && self.tickets.is_session_over(now.wall) {
                return Err(());
            } else if let Some(key) = config.credentials.key.as_ref().filter(|_| is_own_due) {
                (Asked::Session, self.tickets.session_renewal_request(key, &config.services, rng))
            } else if services.is_empty() {
                self.renew_at = self.tickets.next_renewal().map(|at| mono(now, at).max(now.mono + RETRY));
                return Ok(None);
            } else {
                (Asked::Tickets, self.tickets.renewal_request(&services, now.wall, rng).ok_or(())?)
            }
        } else {
            return Ok(None);
        };
        self.asked = Some(asked);
        Ok(Some(msgs::Auth { protocol: CEPHX, payload, ..msgs::Auth::default() }))
    }

    /// Takes an MAuthReply.
    pub(crate) fn reply(&mut self, config: &MoncConfig, reply: &msgs::AuthReply, now: Now) -> Renewed {
        match self.asked.take() {
            Some(asked @ (Asked::Tickets | Asked::Session)) => {
                let (tickets, key) = (&mut self.tickets, config.credentials.key.as_ref());
                let done = match (asked, key) {
                    _ if reply.result != 0 => false,
                    (Asked::Session, Some(key)) => {
                        tickets.apply_session_renewal(&reply.payload, key, now.wall).is_ok()
                    }
                    _ => tickets.apply_renewal(&reply.payload, now.wall).is_ok(),
                };
                // The other tickets are renewed meanwhile, and then it is tried once more.
                self.refused = asked == Asked::Session && !done;
                let next = self.tickets.next_renewal().map(|at| mono(now, at));
                self.renew_at = next.map(|at| at.max(now.mono + RETRY));
                if done { Renewed::Tickets } else { Renewed::Failed }
            }
            Some(Asked::RotatingKeys) => {
                let key = config.credentials.key.as_ref().filter(|_| reply.result == 0);
                let keys = key.and_then(|key| Tickets::open_rotating(&reply.payload, key).ok());
                // The monitor makes a new "next" key when the current one ends; until then there is nothing
                // to fetch.
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
