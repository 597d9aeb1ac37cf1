//! The connecting end: the handshake with a monitor, tickets and their renewal, authorizers for services.

use crate::cephx::{self, Authenticate, Authorize, AuthorizeChallenge, AuthorizeReply, ServerChallenge};
use crate::cephx::{ServiceTicket, ServiceTicketRequest, challenge_answer};
use crate::sealed::{get_sealed, open, put_sealed};
use crate::usage::Usage;
use crate::{AuthError, ConMode, Key, Method, RotatingKeys, Secret, TicketBlob};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::{Now, Rng, Wall};
use wire::{EntityName, EntityType, Reader, Writer};

/// A client's name and proof.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// Our name.
    pub name: EntityName,
    /// Our key; `None` to use the method `none`.
    pub key: Option<Key>,
}

impl Credentials {
    /// The method that follows from having a key.
    pub fn method(&self) -> Method {
        if self.key.is_some() { Method::Cephx } else { Method::None }
    }
}

/// A ticket that we hold.
#[derive(Clone, PartialEq, Debug)]
pub struct Ticket {
    session_key: Key,
    blob: TicketBlob,
    /// From when on to ask for a new one: three quarters of its validity.
    pub renew_after: Wall,
    /// From when on it is useless.
    pub expires: Wall,
}

/// All that a handshake with a monitor gave: our global id and tickets. With `none` there are no tickets.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tickets {
    /// Our global id, kept over reconnects; 0 before the first handshake.
    pub global_id: u64,
    /// By service; that of AUTH renews the others.
    by_service: BTreeMap<EntityType, Ticket>,
    /// The monitor's challenge in the handshake; it may ask for the answer again.
    challenge: u64,
}

impl Tickets {
    /// The ticket for `service`.
    pub fn get(&self, service: EntityType) -> Option<&Ticket> {
        self.by_service.get(&service)
    }

    /// The services of `services` that lack a ticket or should renew it at `now`.
    pub fn due(&self, services: &[EntityType], now: Wall) -> Vec<EntityType> {
        let due = |s: &&EntityType| self.get(**s).is_none_or(|t| t.renew_after <= now);
        services.iter().filter(due).copied().collect()
    }

    /// The tickets of `services` are to be renewed at `now`, whatever their age.
    pub fn expire(&mut self, services: &[EntityType], now: Wall) {
        for (_, ticket) in self.by_service.iter_mut().filter(|(s, _)| services.contains(s)) {
            ticket.renew_after = ticket.renew_after.min(now);
        }
    }

    /// The soonest moment at which one of them should be renewed.
    pub fn next_renewal(&self) -> Option<Wall> {
        self.by_service.values().map(|t| t.renew_after).min()
    }

    /// True if the ticket of the session itself should be renewed at `now`, or has expired.
    pub fn is_session_due(&self, now: Wall) -> bool {
        self.get(EntityType::AUTH).is_some_and(|t| t.renew_after <= now)
    }

    /// True if the ticket of the session itself has expired.
    pub fn is_session_over(&self, now: Wall) -> bool {
        self.get(EntityType::AUTH).is_none_or(|t| t.expires <= now)
    }

    /// The request (payload of MAuth) for a new ticket of the session itself, and for tickets of `services`.
    /// With it a global id outlives its first ticket: after that ticket's end a new session would get a new
    /// global id.
    pub fn session_renewal_request(&self, key: &Key, services: &[EntityType], rng: &mut Rng) -> Vec<u8> {
        let client_challenge = rng.u64();
        let mut w = Writer::new();
        w.put(&cephx::GET_AUTH_SESSION_KEY);
        w.put(&self.authenticate(key, self.challenge, client_challenge, services));
        w.into_vec()
    }

    fn authenticate(&self, key: &Key, challenge: u64, own: u64, services: &[EntityType]) -> Authenticate {
        Authenticate {
            client_challenge: own,
            key: challenge_answer(key, challenge, own),
            old_ticket: self.get(EntityType::AUTH).map(|t| t.blob.clone()).unwrap_or_default(),
            other_keys: mask(services) | u32::from(EntityType::AUTH.0),
        }
    }

    /// Takes the answer to [`Self::session_renewal_request`].
    pub fn apply_session_renewal(&mut self, reply: &[u8], key: &Key, now: Wall) -> Result<(), AuthError> {
        let mut r = response(reply, cephx::GET_AUTH_SESSION_KEY)?;
        let mut next = self.clone();
        next.take_session(&mut r, key, now)?;
        *self = next;
        Ok(())
    }

    /// The AUTH ticket, the connection's sealed secret, and service tickets. Returns the secret.
    fn take_session<'a>(
        &mut self,
        r: &mut Reader<'a>,
        key: &Key,
        now: Wall,
    ) -> Result<Reader<'a>, AuthError> {
        self.take_tickets(r, key, now)?;
        let auth = self.get(EntityType::AUTH);
        let auth = auth.ok_or_else(|| AuthError::refused("no AUTH ticket in the answer"))?;
        let session_key = auth.session_key.clone();
        let secret = r.sub()?;
        let mut extra = r.sub()?;
        if !extra.is_empty() {
            self.take_tickets(&mut extra, &session_key, now)?;
        }
        Ok(secret)
    }

    /// The request (payload of MAuth) for new tickets of `services`. `None` without a valid AUTH ticket: then
    /// the handshake must be repeated.
    pub fn renewal_request(&self, services: &[EntityType], now: Wall, rng: &mut Rng) -> Option<Vec<u8>> {
        let auth = self.get(EntityType::AUTH).filter(|t| t.expires > now)?;
        let mut w = Writer::new();
        w.put(&cephx::GET_PRINCIPAL_SESSION_KEY);
        let authorize = Authorize { nonce: rng.u64(), ..Authorize::default() };
        w.raw(&auth.authorizer(self.global_id, EntityType::AUTH, &authorize, rng));
        w.put(&ServiceTicketRequest { keys: mask(services) });
        Some(w.into_vec())
    }

    /// Takes the answer to [`Self::renewal_request`].
    pub fn apply_renewal(&mut self, reply: &[u8], now: Wall) -> Result<(), AuthError> {
        let mut r = response(reply, cephx::GET_PRINCIPAL_SESSION_KEY)?;
        let auth = self.get(EntityType::AUTH).ok_or_else(|| AuthError::refused("no AUTH ticket"))?;
        let key = auth.session_key.clone();
        self.take_tickets(&mut r, &key, now)
    }

    /// The request (payload of MAuth) for the rotating keys of our own role, or of `hosted`, a service that a
    /// daemon offers besides its own: Nacre's extension, for managers in the processes of metadata servers.
    pub fn rotating_request(hosted: Option<EntityType>) -> Vec<u8> {
        let mut w = Writer::new();
        w.put(&cephx::GET_ROTATING_KEY);
        if let Some(service) = hosted {
            w.put(&u32::from(service.0));
        }
        w.into_vec()
    }

    /// Reads the answer to [`Self::rotating_request`].
    pub fn open_rotating(reply: &[u8], key: &Key) -> Result<RotatingKeys, AuthError> {
        RotatingKeys::open_sealed(key, response(reply, cephx::GET_ROTATING_KEY)?.blob()?)
    }

    fn take_tickets(&mut self, r: &mut Reader<'_>, holder: &Key, now: Wall) -> Result<(), AuthError> {
        let _version: u8 = r.get()?;
        for _ in 0..r.count(10)? {
            let service = r.get::<u32>()?;
            let service = u8::try_from(service)
                .map(EntityType)
                .map_err(|_| r.error(format!("service {service:#x}")))?;
            let _version: u8 = r.get()?;
            let offer: ServiceTicket = get_sealed(r, holder, Usage::SessionKey)?;
            if offer.session_key.is_none() {
                return Err(AuthError::refused("a ticket without a session key"));
            }
            let sealed: bool = r.get()?;
            let blob = match (sealed, self.get(service)) {
                (false, _) => r.blob()?.to_vec(),
                (true, Some(old)) => get_sealed(r, &old.session_key, Usage::TicketBlob)?,
                (true, None) => {
                    return Err(AuthError::refused("a ticket sealed under a key that we do not have"));
                }
            };
            let valid = Duration::new(offer.validity.sec.into(), offer.validity.nsec);
            let ticket = Ticket {
                session_key: offer.session_key,
                blob: Reader::new(&blob).get()?,
                renew_after: now + valid * 3 / 4,
                expires: now + valid,
            };
            self.by_service.insert(service, ticket);
        }
        Ok(())
    }
}

impl Ticket {
    fn authorizer(
        &self,
        global_id: u64,
        service: EntityType,
        authorize: &Authorize,
        rng: &mut Rng,
    ) -> Vec<u8> {
        let mut w = Writer::new();
        w.put(&cephx::MODE_AUTHORIZER);
        w.put(&global_id);
        w.put(&u32::from(service.0));
        w.put(&self.blob);
        put_sealed(&mut w, &self.session_key, Usage::Authorize, authorize, rng);
        w.into_vec()
    }
}

/// The connecting end's next message.
#[derive(Clone, PartialEq, Debug)]
pub enum InitiatorStep {
    /// Send AUTH_REQUEST_MORE with this.
    More(Vec<u8>),
    /// The handshake is complete.
    Done(InitiatorDone),
}

/// A finished handshake at the connecting end.
#[derive(Clone, PartialEq, Debug)]
pub struct InitiatorDone {
    /// Signs AUTH_SIGNATURE; no key with `none`.
    pub session_key: Key,
    /// Keys secure mode; empty in crc mode.
    pub connection_secret: Secret,
    /// After a handshake with a monitor.
    pub tickets: Option<Tickets>,
}

/// The connecting end's state machine for one connection.
#[derive(Clone, Debug)]
pub struct Initiator {
    credentials: Credentials,
    tickets: Tickets,
    target: Target,
}

#[derive(Clone, Debug)]
enum Target {
    /// The services wanted, our challenge once answered.
    Mon {
        wanted: Vec<EntityType>,
    },
    Service {
        service: EntityType,
        nonce: u64,
    },
}

impl Initiator {
    /// Towards a monitor. `tickets` are those of an earlier handshake, which keep the global id; `wanted` are
    /// the services to get tickets for.
    pub fn mon(credentials: Credentials, tickets: Tickets, wanted: Vec<EntityType>) -> Self {
        Self { credentials, tickets, target: Target::Mon { wanted } }
    }

    /// Towards an OSD or MDS.
    pub fn service(credentials: Credentials, tickets: Tickets, service: EntityType) -> Self {
        Self { credentials, tickets, target: Target::Service { service, nonce: 0 } }
    }

    /// The method and the payload of AUTH_REQUEST.
    pub fn start(&mut self, now: Now, rng: &mut Rng) -> Result<(Method, Vec<u8>), AuthError> {
        let method = self.credentials.method();
        let name_and_id = |mode: u8, global_id: u64| {
            let mut w = Writer::new();
            w.put(&mode);
            w.put(&self.credentials.name);
            w.put(&global_id);
            w.into_vec()
        };
        let payload = match (&mut self.target, method) {
            (Target::Mon { .. }, Method::None) => name_and_id(cephx::MODE_MON, self.tickets.global_id),
            (Target::Mon { .. }, Method::Cephx) => {
                // Without a ticket that is still good the old global id cannot be proven.
                let auth = self.tickets.get(EntityType::AUTH);
                if auth.is_none_or(|t| t.expires <= now.wall) {
                    self.tickets = Tickets::default();
                }
                name_and_id(cephx::MODE_MON, self.tickets.global_id)
            }
            (Target::Service { .. }, Method::None) => {
                name_and_id(cephx::MODE_AUTHORIZER, self.tickets.global_id)
            }
            (Target::Service { service, nonce }, Method::Cephx) => {
                let ticket = self.tickets.get(*service).ok_or_else(|| no_ticket(*service))?;
                *nonce = rng.u64();
                let authorize = Authorize { nonce: *nonce, ..Authorize::default() };
                ticket.authorizer(self.tickets.global_id, *service, &authorize, rng)
            }
        };
        Ok((method, payload))
    }

    /// The payload of AUTH_REPLY_MORE.
    pub fn reply_more(
        &mut self,
        payload: &[u8],
        _now: Now,
        rng: &mut Rng,
    ) -> Result<InitiatorStep, AuthError> {
        let key =
            self.credentials.key.as_ref().ok_or_else(|| AuthError::refused("a challenge without cephx"))?;
        let mut w = Writer::new();
        match &mut self.target {
            Target::Mon { wanted } => {
                let challenge: ServerChallenge = Reader::new(payload).get()?;
                let client_challenge = rng.u64();
                w.put(&cephx::GET_AUTH_SESSION_KEY);
                self.tickets.challenge = challenge.server_challenge;
                let challenge = challenge.server_challenge;
                w.put(&self.tickets.authenticate(key, challenge, client_challenge, wanted));
            }
            Target::Service { service, nonce } => {
                let ticket = self.tickets.get(*service).ok_or_else(|| no_ticket(*service))?;
                let challenge: AuthorizeChallenge =
                    open(&ticket.session_key, Usage::AuthorizeChallenge, payload)?;
                let challenge_plus_one = challenge.server_challenge.wrapping_add(1);
                let authorize = Authorize { nonce: *nonce, have_challenge: true, challenge_plus_one };
                w.raw(&ticket.authorizer(self.tickets.global_id, *service, &authorize, rng));
            }
        }
        Ok(InitiatorStep::More(w.into_vec()))
    }

    /// AUTH_DONE.
    pub fn done(
        &mut self,
        global_id: u64,
        mode: ConMode,
        blob: &[u8],
        now: Now,
    ) -> Result<InitiatorDone, AuthError> {
        let done = match (&self.target, self.credentials.key.clone()) {
            (Target::Mon { .. }, None) => {
                let tickets = Some(Tickets { global_id, ..Tickets::default() });
                InitiatorDone { session_key: Key::default(), connection_secret: Secret::default(), tickets }
            }
            (Target::Service { .. }, None) => InitiatorDone {
                session_key: Key::default(),
                connection_secret: Secret::default(),
                tickets: None,
            },
            (Target::Mon { .. }, Some(key)) => self.mon_done(global_id, &key, blob, now.wall)?,
            (Target::Service { service, nonce }, Some(_)) => {
                let ticket = self.tickets.get(*service).ok_or_else(|| no_ticket(*service))?;
                let reply: AuthorizeReply =
                    get_sealed(&mut Reader::new(blob), &ticket.session_key, Usage::AuthorizeReply)?;
                if reply.nonce_plus_one != nonce.wrapping_add(1) {
                    return Err(AuthError::refused("the service does not know the ticket's key"));
                }
                let session_key = ticket.session_key.clone();
                InitiatorDone { session_key, connection_secret: reply.connection_secret, tickets: None }
            }
        };
        let needed = if mode == ConMode::Secure { Secret::SECURE_LEN } else { 0 };
        if done.connection_secret.0.len() < needed {
            return Err(AuthError::refused("secure mode without a connection secret"));
        }
        Ok(done)
    }

    fn mon_done(
        &mut self,
        global_id: u64,
        key: &Key,
        blob: &[u8],
        now: Wall,
    ) -> Result<InitiatorDone, AuthError> {
        let mut r = response(blob, cephx::GET_AUTH_SESSION_KEY)?;
        let mut tickets = self.tickets.clone();
        tickets.global_id = global_id;
        let mut secret = tickets.take_session(&mut r, key, now)?;
        let auth = tickets.get(EntityType::AUTH).ok_or_else(|| no_ticket(EntityType::AUTH))?;
        let session_key = auth.session_key.clone();
        let connection_secret: Secret = get_sealed(&mut secret, &session_key, Usage::ConnectionSecret)?;
        Ok(InitiatorDone { session_key, connection_secret, tickets: Some(tickets) })
    }
}

fn mask(services: &[EntityType]) -> u32 {
    services.iter().fold(0, |m, s| m | u32::from(s.0))
}

fn no_ticket(service: EntityType) -> AuthError {
    AuthError::refused(format!("no ticket for {}", service.name()))
}

/// Checks {u16 request, i32 status}; a reader over the rest.
fn response(bytes: &[u8], kind: u16) -> Result<Reader<'_>, AuthError> {
    let mut r = Reader::new(bytes);
    let (got, status): (u16, i32) = (r.get()?, r.get()?);
    if got != kind || status != 0 {
        return Err(AuthError::refused(format!("answer {got:#x} with status {status} to request {kind:#x}")));
    }
    Ok(r)
}
