//! The connecting side of the handshake.

use crate::config::{FEATURES, REQUIRED_FEATURES};
use crate::conn::{Conn, decode};
use crate::control::{AuthBadMethod, AuthDone, AuthRequest, ClientIdent, FLAG_LOSSY, Reconnect, ServerIdent};
use crate::frame::tag;
use crate::handshake::{Initiating, Side, State};
use crate::rx::Frame;
use crate::{Reason, Session};
use auth::{AuthError, ConMode, InitiatorStep, Method};
use wire::Errno;

/// The most times that a server may send us back to the start.
const MAX_RETRIES: u32 = 8;

impl From<AuthError> for Reason {
    fn from(e: AuthError) -> Self {
        Self::Auth(Box::new(e.into()))
    }
}

impl Conn {
    fn initiating(&mut self) -> &mut Initiating {
        match &mut self.side {
            Side::Initiator(initiating) => initiating,
            Side::Acceptor(_) => unreachable!("only called at the connecting end"),
        }
    }

    /// HELLO has come.
    pub(crate) fn start_auth(&mut self) -> Result<(), Reason> {
        let ty = self.initiating().peer_type;
        if self.peer.ty != ty {
            return Err(Reason::WrongPeer("another role answers at this address"));
        }
        let (now, mut rng) = (self.now(), self.rng.fork());
        let (method, payload) = self.initiating().auth.start(now, &mut rng)?;
        let modes = match method {
            Method::None => vec![ConMode::Crc as u32],
            Method::Cephx => self.common.con_modes.iter().map(|m| *m as u32).collect(),
        };
        self.tx.control(tag::AUTH_REQUEST, &AuthRequest { method: method as u32, modes, payload });
        Ok(())
    }

    pub(crate) fn initiate_frame(&mut self, frame: &Frame) -> Result<(), Reason> {
        match (&self.state, frame.tag) {
            (State::Auth, tag::AUTH_BAD_METHOD) => {
                let bad: AuthBadMethod = decode(frame)?;
                let errno = Errno::from_result_code(bad.result).unwrap_or(Errno::EACCES);
                Err(Reason::Refused { errno, methods: bad.methods })
            }
            (State::Auth, tag::AUTH_REPLY_MORE) => {
                let payload: Vec<u8> = decode(frame)?;
                let (now, mut rng) = (self.now(), self.rng.fork());
                let InitiatorStep::More(answer) =
                    self.initiating().auth.reply_more(&payload, now, &mut rng)?
                else {
                    return Err(Reason::Unexpected(frame.tag));
                };
                self.tx.control(tag::AUTH_REQUEST_MORE, &answer);
                Ok(())
            }
            (State::Auth, tag::AUTH_DONE) => self.auth_done(&decode(frame)?),
            (State::Ident, tag::SERVER_IDENT) => self.server_ident(decode(frame)?),
            (State::Ident, tag::IDENT_MISSING_FEATURES) => Err(Reason::Features(decode(frame)?)),
            (State::Ident, tag::SESSION_RECONNECT_OK) => self.reconnect_ok(decode(frame)?),
            (State::Ident, tag::SESSION_RESET) => self.session_reset(),
            (State::Ident, tag::SESSION_RETRY) => {
                self.session.connect_seq = decode::<u64>(frame)?.saturating_add(1);
                self.retry()
            }
            (State::Ident, tag::SESSION_RETRY_GLOBAL) => {
                let newest: u64 = decode(frame)?;
                self.common.global_seq = self.common.global_seq.max(newest.saturating_add(1));
                self.retry()
            }
            (State::Ident, tag::WAIT) => Err(Reason::Wait),
            _ => Err(Reason::Unexpected(frame.tag)),
        }
    }

    fn auth_done(&mut self, done: &AuthDone) -> Result<(), Reason> {
        let mode = ConMode::from_wire(done.mode).filter(|m| self.common.con_modes.contains(m));
        let mode = mode.ok_or(Reason::Frame("a mode that was not offered"))?;
        self.peer.mode = mode;
        let now = self.now();
        let result = self.initiating().auth.done(done.global_id, mode, &done.payload, now)?;
        self.peer.global_id = done.global_id;
        self.peer.tickets = result.tickets;
        self.start_signatures(&result.session_key, &result.connection_secret)
    }

    /// The signatures are in order: CLIENT_IDENT, or SESSION_RECONNECT with an earlier session.
    pub(crate) fn identify(&mut self) -> Result<(), Reason> {
        self.session.sent = 0;
        if self.session.server_cookie != 0 {
            let frame = Reconnect {
                addrs: self.our_addrs(),
                client_cookie: self.session.client_cookie,
                server_cookie: self.session.server_cookie,
                global_seq: self.common.global_seq,
                connect_seq: self.session.connect_seq,
                msg_seq: self.session.in_seq,
            };
            self.tx.control(tag::SESSION_RECONNECT, &frame);
            return Ok(());
        }
        let ident = ClientIdent {
            addrs: self.our_addrs(),
            target: self.initiating().target,
            // A client's number is its global id.
            num: if self.common.num < 0 { self.peer.global_id as i64 } else { self.common.num },
            global_seq: self.common.global_seq,
            supported: FEATURES,
            required: REQUIRED_FEATURES,
            flags: if self.initiating().lossy { FLAG_LOSSY } else { 0 },
            cookie: self.session.client_cookie,
        };
        self.tx.control(tag::CLIENT_IDENT, &ident);
        Ok(())
    }

    /// Our addresses, with the IP address that the peer sees if we do not know our own.
    fn our_addrs(&self) -> wire::AddrVec {
        let mut addrs = self.common.addrs.clone();
        if let Some(seen) = self.peer.seen_as.addr {
            for addr in &mut addrs.0 {
                let port = addr.addr.map_or(0, |a| a.port());
                if addr.addr.is_none_or(|a| a.ip().is_unspecified()) {
                    addr.addr = Some(std::net::SocketAddr::new(seen.ip(), port));
                }
            }
        }
        addrs
    }

    fn server_ident(&mut self, ident: ServerIdent) -> Result<(), Reason> {
        let missing = REQUIRED_FEATURES & !ident.supported | ident.required & !FEATURES;
        if missing != 0 {
            return Err(Reason::Features(missing));
        }
        self.session.lossless = ident.flags & FLAG_LOSSY == 0;
        self.session.server_cookie = if self.session.lossless { ident.cookie } else { 0 };
        (self.session.num, self.session.addrs) = (ident.num, ident.addrs);
        self.ready(ident.supported, false);
        Ok(())
    }

    fn reconnect_ok(&mut self, peer_has: u64) -> Result<(), Reason> {
        if self.session.server_cookie == 0 {
            return Err(Reason::Unexpected(tag::SESSION_RECONNECT_OK));
        }
        self.session.rewind(peer_has);
        self.session.unacknowledged = None;
        self.ready(FEATURES, true);
        Ok(())
    }

    /// The server does not know the session any more: all that belonged to it is dropped.
    fn session_reset(&mut self) -> Result<(), Reason> {
        let cookie = self.rng.u64().max(1);
        self.session = Session { lossless: true, client_cookie: cookie, ..Session::default() };
        self.retry()
    }

    fn retry(&mut self) -> Result<(), Reason> {
        let initiating = self.initiating();
        initiating.retries += 1;
        if initiating.retries > MAX_RETRIES {
            return Err(Reason::Frame("too many session retries"));
        }
        self.identify()
    }
}
