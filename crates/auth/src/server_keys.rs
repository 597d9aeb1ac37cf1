//! An acceptor's knowledge: principals, rotating keys, allowed methods. An immutable snapshot.

use crate::cephx::{
    self, AuthTicket, Authenticate, Authorize, CapsInfo, ServiceTicket, ServiceTicketInfo,
    ServiceTicketRequest,
};
use crate::sealed::{self, get_sealed, put_sealed};
use crate::usage::Usage;
use crate::{AuthError, Denial, DenialKind, Key, Method, RotatingKeys, TicketBlob};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::{Now, Rng};
use wire::{EntityName, EntityType, Reader, Utime, Writer, wire_structs};

wire_structs! {
    /// A principal.
    pub struct EntityAuth[v 1/1] {
        /// Its secret.
        pub key: Key,
        /// Capability strings by service (`mon`, `osd`, `mds`, `mgr`).
        pub caps: BTreeMap<String, String>,
    }
}

/// The snapshot that a role publishes to its acceptors whenever one of its parts changes.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerKeys {
    /// Our own role.
    pub service: EntityType,
    /// The methods allowed, the preferred one first.
    pub methods: Vec<Method>,
    /// At a monitor all principals; elsewhere unused.
    pub entities: BTreeMap<EntityName, EntityAuth>,
    /// At a monitor those of AUTH, MON, MDS, OSD and MGR; elsewhere those of `service`.
    pub rotating: BTreeMap<EntityType, RotatingKeys>,
    /// True if all but monitors are told to come back later: by a monitor that is not in quorum.
    pub only_monitors: bool,
    /// Validity of what a monitor session's key is renewed with.
    pub auth_ticket_ttl: Duration,
    /// Validity of service tickets.
    pub service_ticket_ttl: Duration,
}

/// Ceph's `auth_mon_ticket_ttl` and `auth_service_ticket_ttl`.
const AUTH_TICKET_TTL: Duration = Duration::from_secs(72 * 3600);
const SERVICE_TICKET_TTL: Duration = Duration::from_secs(3600);

/// The services for which clients may get tickets, in the order of the reply.
const SERVICES: [EntityType; 4] = [EntityType::MON, EntityType::MDS, EntityType::OSD, EntityType::MGR];

impl ServerKeys {
    /// Without principals and keys: every peer is told to come back later.
    pub fn new(service: EntityType, methods: Vec<Method>) -> Self {
        Self {
            service,
            methods,
            entities: BTreeMap::new(),
            rotating: BTreeMap::new(),
            only_monitors: false,
            auth_ticket_ttl: AUTH_TICKET_TTL,
            service_ticket_ttl: SERVICE_TICKET_TTL,
        }
    }

    /// The methods' numbers, for AUTH_BAD_METHOD.
    pub fn method_numbers(&self) -> Vec<u32> {
        self.methods.iter().map(|m| *m as u32).collect()
    }

    /// The capability string of `name` for `service`; empty if it has none. Whoever has the monitors' key can
    /// make keys that may do everything, so metadata servers do what it asks for without an entry for that.
    pub fn caps(&self, name: &EntityName, service: EntityType) -> &str {
        let usual = match name.ty == EntityType::MON && service == EntityType::MDS {
            true => "allow *",
            false => "",
        };
        self.entities.get(name).and_then(|e| e.caps.get(service.name())).map_or(usual, String::as_str)
    }

    /// The rotating keys of `service`, if we hold them.
    pub fn rotating_for(&self, service: EntityType) -> Option<&RotatingKeys> {
        self.rotating.get(&service)
    }

    /// The counter of what a request that came as MAuth asks for.
    pub fn request_counter(request: &[u8]) -> &'static str {
        match Reader::new(request).get() {
            Ok(cephx::GET_PRINCIPAL_SESSION_KEY) => "auth_tickets_renewed",
            Ok(cephx::GET_AUTH_SESSION_KEY) => "auth_sessions_renewed",
            Ok(cephx::GET_ROTATING_KEY) => "auth_rotating_keys_given",
            _ => "auth_requests_unknown",
        }
    }

    /// The answer to a request that came as MAuth on an authenticated session: new service tickets, a new
    /// ticket of the session itself, or the rotating keys of the peer's role. `peer` and `global_id` are
    /// those that the connection authenticated. The bytes go into MAuthReply.
    pub fn answer_request(
        &self,
        peer: &EntityName,
        global_id: u64,
        request: &[u8],
        now: Now,
        rng: &mut Rng,
    ) -> Result<Vec<u8>, AuthError> {
        let mut r = Reader::new(request);
        let kind: u16 = r.get()?;
        match kind {
            cephx::GET_PRINCIPAL_SESSION_KEY => {
                let info = self.verify_authorizer(EntityType::AUTH, &mut r, now)?.info;
                if info.ticket.name != *peer || info.ticket.global_id != global_id {
                    return Err(AuthError::denied(
                        DenialKind::ForgedTicket,
                        "the ticket is another principal's",
                    ));
                }
                let wanted: ServiceTicketRequest = r.get()?;
                let mut w = response_header(kind);
                w.raw(&self.service_tickets(&info.session_key, &info.ticket, wanted.keys, now, rng));
                Ok(w.into_vec())
            }
            cephx::GET_ROTATING_KEY => {
                let key = &self.entities.get(peer).ok_or_else(unknown)?.key;
                let service = if r.is_empty() { peer.ty } else { hosted_service(peer, r.get()?)? };
                let keys = self.rotating.get(&service).filter(|_| peer.ty != EntityType::CLIENT);
                let keys = keys.ok_or_else(|| AuthError::refused("no rotating keys for this role"))?;
                let mut w = response_header(kind);
                w.blob(&keys.seal_for(key, rng));
                Ok(w.into_vec())
            }
            cephx::GET_AUTH_SESSION_KEY => self.renew_session(peer, global_id, &r.get()?, now, rng),
            other => Err(AuthError::refused(format!("request {other:#x} is not known"))),
        }
    }

    /// A new AUTH ticket within a session, and service tickets with it. The answer to the challenge is not
    /// checked: the connection is authenticated, and the reply is sealed under the principal's key, so
    /// useless to anyone else. The global id stays the proven one.
    fn renew_session(
        &self,
        peer: &EntityName,
        global_id: u64,
        asked: &Authenticate,
        now: Now,
        rng: &mut Rng,
    ) -> Result<Vec<u8>, AuthError> {
        let principal = self.entities.get(peer).filter(|p| !p.key.is_none() && global_id != 0);
        let principal = principal.ok_or_else(unknown)?;
        if self.caps(peer, EntityType::MON).is_empty() {
            return Err(AuthError::denied(DenialKind::NoMonCaps, "its key has no caps for mon"));
        }
        let old = self.open_ticket(EntityType::AUTH, &asked.old_ticket).ok();
        let old = old.filter(|info| info.ticket.name == *peer && info.ticket.global_id == global_id);
        let session_key = principal.key.session_key(now.wall, rng);
        let grant = self
            .grant_auth(peer, global_id, session_key.clone(), now, rng)
            .ok_or_else(|| AuthError::refused("no rotating keys"))?;
        let parent = grant.ticket.clone();
        let mut w = response_header(cephx::GET_AUTH_SESSION_KEY);
        let old = old.map(|info| info.session_key);
        w.raw(&encode_grants(&[grant], &principal.key, old.as_ref(), rng));
        // The connection keeps its secret.
        w.blob(&[]);
        match asked.other_keys & !u32::from(EntityType::AUTH.0) {
            0 => w.blob(&[]),
            wanted => w.blob(&self.service_tickets(&session_key, &parent, wanted, now, rng)),
        }
        Ok(w.into_vec())
    }

    /// Opens a ticket of `service`, however old it is.
    pub(crate) fn open_ticket(
        &self,
        service: EntityType,
        blob: &TicketBlob,
    ) -> Result<ServiceTicketInfo, AuthError> {
        let keys = self.rotating.get(&service);
        let key = keys.and_then(|k| k.get(blob.secret_id)).ok_or_else(|| {
            match keys.is_some_and(|k| blob.secret_id > k.max_ver) {
                true => AuthError::NewerKey(blob.secret_id),
                false => AuthError::denied(
                    DenialKind::UnknownTicketKey,
                    format!("a ticket under key {}, which is not held any more", blob.secret_id),
                ),
            }
        })?;
        // A key opens what it has sealed: anything else is no ticket of ours.
        sealed::open_signed(key, &blob.blob)
            .map_err(|_| AuthError::denied(DenialKind::ForgedTicket, "a ticket that its key does not open"))
    }

    /// Reads an authorizer and checks its ticket and that its bearer holds the ticket's session key.
    pub(crate) fn verify_authorizer(
        &self,
        service: EntityType,
        r: &mut Reader<'_>,
        now: Now,
    ) -> Result<Authorizer, AuthError> {
        let version: u8 = r.get()?;
        let (global_id, service_id, blob): (u64, u32, TicketBlob) = (r.get()?, r.get()?, r.get()?);
        if version != cephx::MODE_AUTHORIZER || service_id != u32::from(service.0) {
            let why = format!("an authorizer v{version} for service {service_id:#x}");
            return Err(AuthError::denied(DenialKind::ForgedTicket, why));
        }
        let info = self.open_ticket(service, &blob)?;
        let deny =
            |kind, why: String| AuthError::Denied(Box::new(Denial::new(kind, why).of(&info.ticket.name)));
        if now.wall > info.ticket.expires.into() {
            let over = now.wall.since(info.ticket.expires.into()).as_secs();
            return Err(deny(DenialKind::ExpiredTicket, format!("its ticket ended {over} s ago")));
        }
        if info.ticket.global_id != global_id {
            let why = format!("global id {global_id} with the ticket of {}", info.ticket.global_id);
            return Err(deny(DenialKind::ForgedTicket, why));
        }
        let authorize = get_sealed(r, &info.session_key, Usage::Authorize).map_err(|_| {
            deny(DenialKind::ForgedTicket, "a ticket without the key that belongs to it".into())
        })?;
        Ok(Authorizer { info, authorize })
    }

    /// A ticket for `service`: its session key and validity sealed under `holder`, and the blob to present.
    /// `None` if we hold no keys of that service.
    fn grant(
        &self,
        service: EntityType,
        ticket: AuthTicket,
        session_key: Key,
        now: Now,
        rng: &mut Rng,
    ) -> Option<Grant> {
        let keys = self.rotating.get(&service)?;
        let (secret_id, key) = keys.current()?;
        let ttl = if service == EntityType::AUTH { self.auth_ticket_ttl } else { self.service_ticket_ttl };
        let ttl = keys.ticket_ttl(now.wall, ttl);
        let ticket =
            AuthTicket { auid: !0, created: now.wall.into(), expires: (now.wall + ttl).into(), ..ticket };
        let info = ServiceTicketInfo { ticket, session_key: session_key.clone() };
        let blob = TicketBlob { secret_id, blob: sealed::seal_signed(&key.key, &info, rng) };
        let validity =
            Utime { sec: u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX), nsec: ttl.subsec_nanos() };
        Some(Grant { service, offer: ServiceTicket { session_key, validity }, blob, ticket: info.ticket })
    }

    /// The first ticket of a session, for the monitors themselves.
    pub(crate) fn grant_auth(
        &self,
        name: &EntityName,
        global_id: u64,
        session_key: Key,
        now: Now,
        rng: &mut Rng,
    ) -> Option<Grant> {
        let caps = CapsInfo::new(self.caps(name, EntityType::MON));
        let ticket = AuthTicket { name: name.clone(), global_id, caps, ..AuthTicket::default() };
        self.grant(EntityType::AUTH, ticket, session_key, now, rng)
    }

    /// Tickets for all services in the mask `wanted` of which we hold keys, sealed under `holder`.
    pub(crate) fn service_tickets(
        &self,
        holder: &Key,
        parent: &AuthTicket,
        wanted: u32,
        now: Now,
        rng: &mut Rng,
    ) -> Vec<u8> {
        let wanted = SERVICES.into_iter().filter(|s| wanted & u32::from(s.0) != 0);
        let grants: Vec<_> = wanted
            .filter_map(|service| {
                let caps = CapsInfo::new(self.caps(&parent.name, service));
                let session_key = holder.session_key(now.wall, rng);
                self.grant(service, AuthTicket { caps, ..parent.clone() }, session_key, now, rng)
            })
            .collect();
        encode_grants(&grants, holder, None, rng)
    }
}

/// The service of number `asked`, if the daemon `peer` offers it besides its own.
fn hosted_service(peer: &EntityName, asked: u32) -> Result<EntityType, AuthError> {
    let may = peer.ty == EntityType::MDS && asked == u32::from(EntityType::MGR.0);
    match may || asked == u32::from(peer.ty.0) {
        true => Ok(EntityType(u8::try_from(asked).unwrap_or_default())),
        false => Err(AuthError::refused(format!("{peer} offers no service {asked:#x}"))),
    }
}

fn unknown() -> AuthError {
    AuthError::denied(DenialKind::UnknownEntity, "unknown")
}

/// An authorizer whose ticket and proof are valid; the challenge is still to be checked.
pub(crate) struct Authorizer {
    pub info: ServiceTicketInfo,
    pub authorize: Authorize,
}

/// A ticket on its way to its holder.
pub(crate) struct Grant {
    service: EntityType,
    offer: ServiceTicket,
    blob: TicketBlob,
    pub ticket: AuthTicket,
}

/// The start of every answer: {u16 request, i32 status}.
pub(crate) fn response_header(kind: u16) -> Writer {
    let mut w = Writer::new();
    w.put(&kind);
    w.put(&0i32);
    w
}

/// The list of tickets; `old` is the previous session key of a holder that renews, which then seals the blobs
/// too.
pub(crate) fn encode_grants(grants: &[Grant], holder: &Key, old: Option<&Key>, rng: &mut Rng) -> Vec<u8> {
    let mut w = Writer::new();
    w.put(&1u8);
    w.count(grants.len());
    for grant in grants {
        w.put(&u32::from(grant.service.0));
        w.put(&1u8);
        put_sealed(&mut w, holder, Usage::SessionKey, &grant.offer, rng);
        w.put(&old.is_some());
        let blob = Writer::encode(&grant.blob);
        match old {
            Some(old) => put_sealed(&mut w, old, Usage::TicketBlob, &blob[..], rng),
            None => w.blob(&blob),
        }
    }
    w.into_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monitors_key_may_do_everything_at_metadata_servers() {
        let keys = ServerKeys::new(EntityType::MON, vec![Method::Cephx]);
        let (mon, client) = (EntityName::new(EntityType::MON, ""), EntityName::new(EntityType::CLIENT, "a"));
        assert_eq!((keys.caps(&mon, EntityType::MDS), keys.caps(&mon, EntityType::OSD)), ("allow *", ""));
        assert_eq!(keys.caps(&client, EntityType::MDS), "");
    }
}
