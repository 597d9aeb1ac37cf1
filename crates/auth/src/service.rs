//! The handshake at an OSD or MDS: a ticket, and a challenge against its replay (CVE-2018-1128).

use crate::cephx::{self, AuthorizeChallenge, AuthorizeReply};
use crate::sealed::{put_sealed, seal};
use crate::step::{bad_method, denied, unasked};
use crate::usage::Usage;
use crate::{AuthDone, AuthError, AuthStep, ConMode, Denial, DenialKind, Key, Method, Secret, ServerKeys};
use std::sync::Arc;
use stdx::{Now, Rng};
use wire::{EntityName, Reader, Writer};

/// One connection's authentication at a service. After `Fail` the peer may start again.
#[derive(Debug)]
pub struct ServiceAuthenticator {
    keys: Arc<ServerKeys>,
    /// Our challenge and the mode, once sent.
    challenged: Option<(u64, ConMode)>,
}

impl ServiceAuthenticator {
    /// For a new connection.
    pub fn new(keys: Arc<ServerKeys>) -> Self {
        Self { keys, challenged: None }
    }

    /// The payload of AUTH_REQUEST.
    pub fn request(
        &mut self,
        method: Method,
        mode: ConMode,
        payload: &[u8],
        now: Now,
        rng: &mut Rng,
    ) -> AuthStep {
        self.challenged = None;
        if !self.keys.methods.contains(&method) {
            return bad_method();
        }
        if method == Method::None {
            return trust(payload).unwrap_or_else(denied);
        }
        if self.keys.rotating.get(&self.keys.service).is_none_or(|k| k.secrets.is_empty()) {
            return AuthStep::NotReady("no rotating keys");
        }
        match self.keys.verify_authorizer(self.keys.service, &mut Reader::new(payload), now) {
            Ok(authorizer) => {
                // Even an authorizer that already carries a challenge answers ours first.
                let server_challenge = rng.u64();
                self.challenged = Some((server_challenge, mode));
                let challenge = AuthorizeChallenge { server_challenge };
                let key = &authorizer.info.session_key;
                AuthStep::More(seal(key, Usage::AuthorizeChallenge, &challenge, rng))
            }
            // We were away while keys rotated, and will have the new ones soon.
            Err(AuthError::NewerKey(_)) => AuthStep::NotReady("a ticket under a key that is not here yet"),
            Err(e) => denied(e),
        }
    }

    /// The payload of AUTH_REQUEST_MORE: the authorizer again, with the challenge's answer.
    pub fn more(&mut self, payload: &[u8], now: Now, rng: &mut Rng) -> AuthStep {
        let Some((challenge, mode)) = self.challenged.take() else {
            return unasked();
        };
        let verified = self.keys.verify_authorizer(self.keys.service, &mut Reader::new(payload), now);
        let (info, authorize) = match verified {
            Ok(a) => (a.info, a.authorize),
            Err(e) => return denied(e),
        };
        if !authorize.have_challenge || authorize.challenge_plus_one != challenge.wrapping_add(1) {
            let denial = Denial::new(DenialKind::Replay, "wrong answer to the challenge: an old authorizer");
            return denied(denial.of(&info.ticket.name));
        }
        let connection_secret = Secret::generate(mode == ConMode::Secure, rng);
        let reply = AuthorizeReply {
            nonce_plus_one: authorize.nonce.wrapping_add(1),
            connection_secret: connection_secret.clone(),
        };
        let mut w = Writer::new();
        put_sealed(&mut w, &info.session_key, Usage::AuthorizeReply, &reply, rng);
        AuthStep::Done(AuthDone {
            global_id: info.ticket.global_id,
            blob: w.into_vec(),
            session_key: info.session_key,
            connection_secret,
            caps: info.ticket.caps.text(),
            entity: info.ticket.name,
        })
    }
}

/// `none`: trusts the peer's name and global id.
fn trust(payload: &[u8]) -> Result<AuthStep, AuthError> {
    let mut r = Reader::new(payload);
    let mode: u8 = r.get()?;
    if mode != cephx::MODE_AUTHORIZER {
        return Err(AuthError::denied(DenialKind::Method, format!("auth mode {mode} at a service")));
    }
    let (entity, global_id): (EntityName, u64) = (r.get()?, r.get()?);
    Ok(AuthStep::Done(AuthDone {
        global_id,
        blob: Vec::new(),
        session_key: Key::default(),
        connection_secret: Secret::default(),
        entity,
        caps: "allow *".into(),
    }))
}
