//! The handshake at a monitor.

use crate::cephx::{self, Authenticate, ServerChallenge, challenge_answer};
use crate::sealed::put_sealed;
use crate::server_keys::{encode_grants, response_header};
use crate::step::{bad_method, denied, unasked};
use crate::usage::Usage;
use crate::{
    AuthDone, AuthError, AuthStep, ConMode, Denial, DenialKind, GlobalIds, Key, Method, Secret, ServerKeys,
};
use std::sync::Arc;
use stdx::{Now, Rng};
use wire::{EntityName, EntityType, Reader, Writer};

/// One connection's authentication at a monitor. After `Fail` the peer may start again.
#[derive(Debug)]
pub struct MonAuthenticator {
    keys: Arc<ServerKeys>,
    ids: Arc<GlobalIds>,
    challenged: Option<Challenged>,
}

#[derive(Debug)]
struct Challenged {
    entity: EntityName,
    /// The client's own claim of its global id; 0 for a new one.
    global_id: u64,
    server_challenge: u64,
    mode: ConMode,
}

impl MonAuthenticator {
    /// For a new connection.
    pub fn new(keys: Arc<ServerKeys>, ids: Arc<GlobalIds>) -> Self {
        Self { keys, ids, challenged: None }
    }

    /// The payload of AUTH_REQUEST.
    pub fn request(
        &mut self,
        method: Method,
        mode: ConMode,
        payload: &[u8],
        _now: Now,
        rng: &mut Rng,
    ) -> AuthStep {
        self.challenged = None;
        if !self.keys.methods.contains(&method) {
            return bad_method();
        }
        let (entity, global_id) = match decode_request(payload) {
            Ok(request) => request,
            Err(e) => return denied(e),
        };
        if self.keys.only_monitors && entity.ty != EntityType::MON {
            return AuthStep::NotReady("not in quorum");
        }
        match method {
            Method::None => self.trust(entity, global_id),
            Method::Cephx => {
                let server_challenge = rng.u64().max(1);
                self.challenged = Some(Challenged { entity, global_id, server_challenge, mode });
                AuthStep::More(Writer::encode(&ServerChallenge { server_challenge }))
            }
        }
    }

    /// The payload of AUTH_REQUEST_MORE: the answer to the challenge.
    pub fn more(&mut self, payload: &[u8], now: Now, rng: &mut Rng) -> AuthStep {
        let Some(asked) = self.challenged.take() else {
            return unasked();
        };
        let entity = asked.entity.clone();
        self.check_answer(asked, payload, now, rng).unwrap_or_else(|e| denied(Denial::from(e).of(&entity)))
    }

    /// `none`: trusts the peer's name and global id, as nothing could prove them.
    fn trust(&mut self, entity: EntityName, global_id: u64) -> AuthStep {
        let Some(global_id) = self.pick_id(&entity, global_id) else {
            return AuthStep::NotReady("no global ids");
        };
        AuthStep::Done(AuthDone {
            global_id,
            blob: Vec::new(),
            session_key: Key::default(),
            connection_secret: Secret::default(),
            entity,
            caps: "allow *".into(),
        })
    }

    fn pick_id(&self, entity: &EntityName, proven: u64) -> Option<u64> {
        match (entity.ty, proven) {
            // Monitors must find one another before any range of ids can be committed.
            (EntityType::MON, _) => Some(self.ids.take().unwrap_or(GlobalIds::MON)),
            (_, 0) => self.ids.take(),
            (_, id) => Some(id),
        }
    }

    fn check_answer(
        &self,
        asked: Challenged,
        payload: &[u8],
        now: Now,
        rng: &mut Rng,
    ) -> Result<AuthStep, AuthError> {
        let mut r = Reader::new(payload);
        let kind: u16 = r.get()?;
        if kind != cephx::GET_AUTH_SESSION_KEY {
            return Err(AuthError::refused(format!("request {kind:#x} in a handshake")));
        }
        let answer: Authenticate = r.get()?;
        let Challenged { entity, .. } = &asked;
        let principal = self
            .keys
            .entities
            .get(entity)
            .ok_or_else(|| AuthError::denied(DenialKind::UnknownEntity, "unknown"))?;
        if principal.key.is_none()
            || challenge_answer(&principal.key, asked.server_challenge, answer.client_challenge) != answer.key
        {
            return Err(AuthError::denied(DenialKind::WrongKey, "wrong key"));
        }
        if self.keys.caps(entity, EntityType::MON).is_empty() {
            return Err(AuthError::denied(DenialKind::NoMonCaps, "its key has no caps for mon"));
        }
        let old = self.proven(&asked, &answer)?;
        let Some(global_id) = self.pick_id(entity, if old.is_some() { asked.global_id } else { 0 }) else {
            return Ok(AuthStep::NotReady("no global ids"));
        };
        let session_key = principal.key.session_key(now.wall, rng);
        let Some(grant) = self.keys.grant_auth(entity, global_id, session_key.clone(), now, rng) else {
            return Ok(AuthStep::NotReady("no rotating keys"));
        };
        let connection_secret = Secret::generate(asked.mode == ConMode::Secure, rng);
        let parent = grant.ticket.clone();
        let mut w = response_header(kind);
        w.raw(&encode_grants(&[grant], &principal.key, old.as_ref(), rng));
        let mut sealed = Writer::new();
        put_sealed(&mut sealed, &session_key, Usage::ConnectionSecret, &connection_secret, rng);
        w.blob(sealed.as_slice());
        // The bit of AUTH is always set and its ticket was given already.
        let wanted = answer.other_keys & !u32::from(EntityType::AUTH.0);
        match wanted {
            0 => w.blob(&[]),
            _ => w.blob(&self.keys.service_tickets(&session_key, &parent, wanted, now, rng)),
        }
        let caps = self.keys.caps(entity, EntityType::MON).to_owned();
        let done = AuthDone {
            global_id,
            blob: w.into_vec(),
            session_key,
            connection_secret,
            entity: asked.entity,
            caps,
        };
        Ok(AuthStep::Done(done))
    }

    /// The old session key of a client that proves by its old ticket that the global id is its own; `None`
    /// for a new client. A global id without proof is refused: it would let any client take over another's
    /// (CVE-2021-20288).
    fn proven(&self, asked: &Challenged, answer: &Authenticate) -> Result<Option<Key>, AuthError> {
        if asked.global_id == 0 || asked.entity.ty == EntityType::MON {
            return Ok(None);
        }
        // Its age does not matter: the principal's key was proven as well.
        let opened = self.keys.open_ticket(EntityType::AUTH, &answer.old_ticket);
        let info = opened.map_err(|e| {
            AuthError::denied(DenialKind::GlobalId, format!("global id {}: its ticket: {e}", asked.global_id))
        })?;
        if info.ticket.global_id != asked.global_id || info.ticket.name != asked.entity {
            return Err(AuthError::denied(
                DenialKind::GlobalId,
                format!("global id {} without its ticket", asked.global_id),
            ));
        }
        Ok(Some(info.session_key))
    }
}

fn decode_request(payload: &[u8]) -> Result<(EntityName, u64), AuthError> {
    let mut r = Reader::new(payload);
    let mode: u8 = r.get()?;
    if mode != cephx::MODE_MON {
        return Err(AuthError::denied(DenialKind::Method, format!("auth mode {mode} at a monitor")));
    }
    Ok((r.get()?, r.get()?))
}
