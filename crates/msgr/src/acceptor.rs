//! The accepting side of the handshake.

use crate::config::{FEATURES, REQUIRED_FEATURES};
use crate::conn::{Conn, decode};
use crate::control::{AuthBadMethod, AuthDone, AuthRequest, ClientIdent, FLAG_LOSSY, Reconnect, ServerIdent};
use crate::frame::tag;
use crate::handshake::{Acceptor, Side, State};
use crate::rx::Frame;
use crate::session::Owner;
use crate::{Event, Reason, Resume, Session};
use auth::{AuthStep, ConMode, Denial, DenialKind, Method};
use wire::Errno;

/// The most authentication methods that a peer may try.
const MAX_ATTEMPTS: u32 = 8;

impl Conn {
    fn acceptor(&mut self) -> &mut Acceptor {
        match &mut self.side {
            Side::Acceptor(acceptor) => acceptor,
            Side::Initiator(_) => unreachable!("only called at the accepting end"),
        }
    }

    pub(crate) fn accept_frame(&mut self, frame: &Frame) -> Result<(), Reason> {
        match (&self.state, frame.tag) {
            (State::Auth, tag::AUTH_REQUEST) => self.auth_request(&decode(frame)?),
            (State::Auth, tag::AUTH_REQUEST_MORE) => {
                let payload: Vec<u8> = decode(frame)?;
                let (now, mut rng) = (self.now(), self.rng.fork());
                let step = self.acceptor().auth.machine.more(&payload, now, &mut rng);
                self.auth_step(step)
            }
            (State::Ident, tag::CLIENT_IDENT) => self.client_ident(decode(frame)?),
            (State::Ident, tag::SESSION_RECONNECT) => self.session_reconnect(decode(frame)?),
            _ => Err(Reason::Unexpected(frame.tag)),
        }
    }

    fn auth_request(&mut self, request: &AuthRequest) -> Result<(), Reason> {
        let acceptor = self.acceptor();
        acceptor.attempts += 1;
        acceptor.method = request.method;
        if acceptor.attempts > MAX_ATTEMPTS {
            let denial = Denial::new(DenialKind::Method, "too many attempts");
            return Err(Reason::Auth(Box::new(denial)));
        }
        let Some(method) = Method::from_wire(request.method) else {
            return self.bad_method(Errno::EOPNOTSUPP);
        };
        // Without a key there is nothing to encrypt with.
        let usable = |m: &ConMode| {
            request.modes.contains(&(*m as u32)) && (method == Method::Cephx || *m == ConMode::Crc)
        };
        let Some(mode) = self.common.con_modes.iter().copied().find(usable) else {
            return self.bad_method(Errno::EOPNOTSUPP);
        };
        self.peer.mode = mode;
        let (now, mut rng) = (self.now(), self.rng.fork());
        let step = self.acceptor().auth.machine.request(method, mode, &request.payload, now, &mut rng);
        self.auth_step(step)
    }

    fn auth_step(&mut self, step: AuthStep) -> Result<(), Reason> {
        match step {
            AuthStep::More(payload) => self.tx.control(tag::AUTH_REPLY_MORE, &payload),
            AuthStep::NotReady(why) => return Err(Reason::NotReady(why)),
            AuthStep::Fail { errno, denial } => {
                self.bad_method(errno)?;
                // Another method may do better, another proof by the same method will not.
                if errno != Errno::EOPNOTSUPP {
                    return Err(Reason::Auth(denial));
                }
            }
            AuthStep::Done(done) => {
                let frame =
                    AuthDone { global_id: done.global_id, mode: self.peer.mode as u32, payload: done.blob };
                self.tx.control(tag::AUTH_DONE, &frame);
                (self.peer.entity, self.peer.global_id, self.peer.caps) =
                    (done.entity, done.global_id, done.caps);
                self.check_role()?;
                self.start_signatures(&done.session_key, &done.connection_secret)?;
            }
        }
        Ok(())
    }

    fn bad_method(&mut self, errno: Errno) -> Result<(), Reason> {
        let modes = self.common.con_modes.iter().map(|m| *m as u32).collect();
        let acceptor = self.acceptor();
        let methods = acceptor.auth.methods.clone();
        let frame = AuthBadMethod { method: acceptor.method, result: errno.to_result_code(), methods, modes };
        self.tx.control(tag::AUTH_BAD_METHOD, &frame);
        Ok(())
    }

    fn client_ident(&mut self, ident: ClientIdent) -> Result<(), Reason> {
        self.check_features(ident.supported, ident.required)?;
        // A client that names another nonce means an earlier process at our address: it has an old map.
        if ident.target.nonce != self.common.addrs.front().nonce {
            return Err(Reason::WrongPeer("it looks for another incarnation"));
        }
        let lossy = self.acceptor().lossy;
        let waiting = std::mem::take(&mut self.session);
        self.session = Session {
            lossless: !lossy,
            client_cookie: ident.cookie,
            server_cookie: if lossy { 0 } else { self.rng.u64().max(1) },
            global_seq: ident.global_seq,
            owner: Some(self.owner()),
            num: ident.num,
            addrs: ident.addrs,
            ..Session::default()
        };
        waiting.out.into_iter().for_each(|(_, msg)| self.session.push(msg));
        let answer = ServerIdent {
            addrs: self.common.addrs.clone(),
            num: self.common.num,
            global_seq: self.common.global_seq,
            supported: FEATURES,
            required: REQUIRED_FEATURES,
            flags: if lossy { FLAG_LOSSY } else { 0 },
            cookie: self.session.server_cookie,
        };
        self.tx.control(tag::SERVER_IDENT, &answer);
        self.ready(ident.supported, false);
        Ok(())
    }

    fn check_features(&mut self, supported: u64, required: u64) -> Result<(), Reason> {
        let missing = REQUIRED_FEATURES & !supported;
        if missing != 0 {
            self.tx.control(tag::IDENT_MISSING_FEATURES, &missing);
            return Err(Reason::Features(missing));
        }
        match required & !FEATURES {
            0 => Ok(()),
            lacking => Err(Reason::Features(lacking)),
        }
    }

    fn owner(&self) -> Owner {
        Owner { entity: self.peer.entity.clone(), global_id: self.peer.global_id }
    }

    fn session_reconnect(&mut self, reconnect: Reconnect) -> Result<(), Reason> {
        let again = self.session.server_cookie != 0 && self.session.server_cookie == reconnect.server_cookie;
        let resume = Resume {
            server_cookie: reconnect.server_cookie,
            client_cookie: reconnect.client_cookie,
            entity: self.peer.entity.clone(),
            global_id: self.peer.global_id,
            addrs: reconnect.addrs.clone(),
        };
        let acceptor = self.acceptor();
        acceptor.reconnect = reconnect;
        match (acceptor.lossy, again) {
            (true, _) => self.resume_session(None),
            // We hold it already: the client counted too low the first time.
            (false, true) => {
                let session = std::mem::take(&mut self.session);
                self.resume_session(Some(session));
            }
            (false, false) => {
                self.state = State::Resuming;
                self.event(Event::Resume(resume));
            }
        }
        Ok(())
    }

    /// Resumes `session`, or tells the client to try again on this connection.
    pub(crate) fn resume_session(&mut self, session: Option<Session>) {
        let asked = self.acceptor().reconnect.clone();
        let owner = self.owner();
        let fits = |s: &Session| s.owner.as_ref() == Some(&owner) && s.client_cookie == asked.client_cookie;
        let Some(mut session) = session.filter(fits) else {
            // The client is to drop all that it knows of the session.
            return self.tx.control(tag::SESSION_RESET, &1u8);
        };
        let waiting = std::mem::take(&mut self.session);
        waiting.out.into_iter().for_each(|(_, msg)| session.push(msg));
        self.session = session;
        if self.session.global_seq > asked.global_seq {
            let newest = self.session.global_seq;
            return self.tx.control(tag::SESSION_RETRY_GLOBAL, &newest);
        }
        if self.session.connect_seq > asked.connect_seq {
            let newest = self.session.connect_seq;
            return self.tx.control(tag::SESSION_RETRY, &newest);
        }
        (self.session.global_seq, self.session.connect_seq) = (asked.global_seq, asked.connect_seq);
        self.session.rewind(asked.msg_seq);
        self.session.unacknowledged = None;
        let in_seq = self.session.in_seq;
        self.tx.control(tag::SESSION_RECONNECT_OK, &in_seq);
        self.ready(FEATURES, true);
    }
}
