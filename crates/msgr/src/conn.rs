//! A connection's reads, writes and events. The two sides of the handshake are in `acceptor` and `initiator`,
//! messages in `messages`.

use crate::config::Common;
use crate::control::{self, Hello};
use crate::frame::tag;
use crate::gcm::Gcm;
use crate::handshake::{Acceptor, Initiating, Peer, Side, State};
use crate::rx::{Frame, Item, Rx};
use crate::tx::Tx;
use crate::{AcceptConfig, ConnectConfig, Event, Ready, Reason, Session};
use auth::{ConMode, Key, Secret};
use std::collections::VecDeque;
use stdx::{Bufs, Instant, Now, Reservation, Rng};
use wire::{Decode, EntityAddr, EntityName, EntityType, RawMsg, Reader, Timespec};

/// A connection's demand on its socket.
#[derive(Debug)]
pub enum Want<'a> {
    /// Read at least one byte into this memory, then call [`Conn::filled`].
    Read(&'a mut [u8]),
    /// A message of this length comes: reserve it, then call [`Conn::grant`]. Until then nothing is read.
    Budget(u64),
    /// Nothing to read: closed, or waiting for [`Conn::resume`].
    Nothing,
}

/// One connection, at either end.
///
/// Both ends go through: banner, HELLO, authentication, AUTH_SIGNATURE (encrypted from there on in secure
/// mode), identification or reconnection, and then `Open`. Each input is processed completely before the call
/// returns.
#[derive(Debug)]
pub struct Conn {
    pub(crate) common: Common,
    pub(crate) side: Side,
    pub(crate) state: State,
    pub(crate) rx: Rx,
    pub(crate) tx: Tx,
    pub(crate) rng: Rng,
    pub(crate) session: Session,
    pub(crate) peer: Peer,
    events: VecDeque<Event>,
    now: Now,
    opened: Instant,
    last_heard: Instant,
    last_keepalive: Instant,
}

impl Conn {
    /// The accepting end of a new socket.
    pub fn accept(config: AcceptConfig, now: Now, rng: Rng) -> Self {
        let session = Session { lossless: !config.lossy, ..Session::default() };
        let side = Side::Acceptor(Acceptor::new(config.auth, config.lossy));
        Self::new(config.common, side, session, now, rng)
    }

    /// The connecting end of a new socket. It resumes `session` if that is given, an earlier connection's to
    /// the same peer.
    pub fn connect(config: ConnectConfig, session: Option<Session>, now: Now, mut rng: Rng) -> Self {
        let mut session = session.unwrap_or_else(|| Session {
            lossless: !config.lossy,
            client_cookie: if config.lossy { 0 } else { rng.u64().max(1) },
            ..Session::default()
        });
        if session.server_cookie != 0 {
            session.connect_seq += 1;
        }
        let side =
            Side::Initiator(Initiating::new(config.auth, config.peer_type, config.target, config.lossy));
        Self::new(config.common, side, session, now, rng)
    }

    fn new(common: Common, side: Side, session: Session, now: Now, rng: Rng) -> Self {
        let mut conn = Self {
            common,
            side,
            state: State::Banner,
            rx: Rx::new(),
            tx: Tx::new(),
            rng,
            session,
            peer: Peer {
                ty: EntityType::default(),
                entity: EntityName::default(),
                global_id: 0,
                caps: String::new(),
                seen_as: EntityAddr::default(),
                mode: ConMode::Crc,
                tickets: None,
            },
            events: VecDeque::new(),
            now,
            opened: now.mono,
            last_heard: now.mono,
            last_keepalive: now.mono,
        };
        let mut w = wire::Writer::new();
        w.raw(control::BANNER);
        w.put(&16u16);
        w.put(&control::REVISION_1);
        w.put(&control::REVISION_1);
        conn.tx.raw(w.as_slice());
        conn
    }

    /// The next read. To be called again after every other call.
    pub fn want(&mut self) -> Want<'_> {
        match self.state {
            State::Closed | State::Resuming => Want::Nothing,
            _ => match self.rx.budget() {
                Some(bytes) => Want::Budget(bytes),
                None => Want::Read(self.rx.space()),
            },
        }
    }

    /// `n` bytes were read into what [`Self::want`] gave; 0 is the end of the stream.
    pub fn filled(&mut self, n: usize, now: Now) {
        if n == 0 {
            return self.close(Reason::Eof);
        }
        (self.now, self.last_heard) = (now, now.mono);
        self.rx.filled(n);
        self.process();
    }

    /// The answer to [`Want::Budget`]; `None` without a budget.
    pub fn grant(&mut self, reservation: Option<Reservation>, now: Now) {
        (self.now, self.last_heard) = (now, now.mono);
        self.rx.grant(reservation);
        self.process();
    }

    /// The answer to [`Event::Resume`]. If the session does not fit the client's claims, the client is told
    /// to try again on this connection.
    pub fn resume(&mut self, session: Option<Session>, now: Now) {
        self.now = now;
        if self.state == State::Resuming {
            self.state = State::Ident;
            self.resume_session(session);
            self.process();
        }
    }

    /// Sends a message once the connection is ready; before, it waits.
    pub fn send(&mut self, msg: RawMsg) {
        if self.state == State::Closed {
            return;
        }
        self.session.push(msg);
        if self.session.queued() > self.common.max_queued {
            self.close(Reason::QueueFull);
        }
    }

    /// The next bytes for the socket, several frames at once. The caller keeps the bytes that the socket did
    /// not take.
    pub fn poll_write(&mut self) -> Option<Bufs> {
        if self.state == State::Open {
            self.write_messages();
        }
        self.tx.take()
    }

    /// True if [`Self::poll_write`] would return bytes.
    pub fn has_output(&self) -> bool {
        let waits = self.session.has_next() || self.session.must_acknowledge(self.now.mono);
        self.tx.len() > 0 || self.state == State::Open && waits
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The latest time for the next call of [`Self::tick`].
    pub fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Closed => None,
            State::Open => [self.idle_deadline(), self.session.acknowledge_at()].into_iter().flatten().min(),
            _ => Some(self.opened + self.common.handshake_timeout),
        }
    }

    /// The time at which a keepalive is due, or the peer has been silent for too long.
    fn idle_deadline(&self) -> Option<Instant> {
        let idle = self.common.idle_timeout?;
        let dead = self.last_heard + idle;
        Some(if self.sends_keepalives() { dead.min(self.last_keepalive + idle / 3) } else { dead })
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Now) {
        self.now = now;
        if self.rx.budget().is_some() {
            // The peer may have sent a lot: it is this end that does not read.
            self.last_heard = now.mono;
        }
        match (&self.state, self.common.idle_timeout) {
            (State::Closed, _) | (State::Open, None) => {}
            (State::Open, Some(idle)) => {
                if now.mono >= self.last_heard + idle {
                    self.close(Reason::Idle);
                } else if self.sends_keepalives() && now.mono >= self.last_keepalive + idle / 3 {
                    self.last_keepalive = now.mono;
                    self.tx.control(tag::KEEPALIVE2, &Timespec::from(now.wall));
                }
            }
            _ if now.mono >= self.opened + self.common.handshake_timeout => {
                self.close(Reason::HandshakeTimeout)
            }
            _ => {}
        }
    }

    fn sends_keepalives(&self) -> bool {
        matches!(self.side, Side::Initiator(_))
    }

    /// Closes the connection. Waiting output is dropped, except handshake frames that give the reason.
    /// `Closed` follows.
    pub fn close(&mut self, reason: Reason) {
        if self.state != State::Closed {
            self.state = State::Closed;
            self.events.push_back(Event::Closed(reason));
        }
    }

    /// True if the connection is closed.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// At the acceptor, who has proven itself: known before the connection is ready.
    pub fn proven(&self) -> Option<&EntityName> {
        let accepts = matches!(self.side, Side::Acceptor(_));
        Some(&self.peer.entity).filter(|name| accepts && **name != EntityName::default())
    }

    /// Bytes of messages that wait to be sent or acknowledged.
    pub fn queued(&self) -> usize {
        self.session.queued()
    }

    /// The client's name for the session, for [`crate::SessionTable::live`].
    pub fn client_cookie(&self) -> u64 {
        self.session.client_cookie
    }

    /// Takes the session, to park it or to resume it on a new connection, and closes this one. `None` if the
    /// connection is lossy or, at an acceptor, was never established. An initiator's session keeps its cookie
    /// and the messages that wait to be sent. Events that were not polled yet count as received: poll them.
    pub fn take_session(&mut self) -> Option<Session> {
        let begun = self.session.server_cookie != 0 || matches!(self.side, Side::Initiator(_));
        let kept = self.session.lossless && begun;
        self.close(Reason::Replaced);
        kept.then(|| std::mem::take(&mut self.session))
    }

    /// Works off everything that was read.
    fn process(&mut self) {
        while !matches!(self.state, State::Closed | State::Resuming) {
            let done = match self.rx.next() {
                Ok(None) => return,
                Ok(Some(Item::Banner)) => self.banner(),
                Ok(Some(Item::Frame(frame))) => self.frame(frame),
                Err(reason) => Err(reason),
            };
            if let Err(reason) = done {
                self.close(reason);
            }
        }
    }

    fn banner(&mut self) -> Result<(), Reason> {
        self.state = State::Hello;
        let hello = Hello { entity_type: self.common.entity_type, peer_addr: self.common.peer_addr };
        self.tx.control(tag::HELLO, &hello);
        Ok(())
    }

    fn frame(&mut self, frame: Frame) -> Result<(), Reason> {
        match (&self.state, frame.tag) {
            (State::Hello, tag::HELLO) => self.hello(&decode(&frame)?),
            (State::Signature(expected), tag::AUTH_SIGNATURE) => {
                let expected = *expected;
                self.signature(&expected, &frame.control)
            }
            (State::Open, _) => self.open_frame(frame),
            (State::Auth | State::Ident, _) => match self.side {
                Side::Acceptor(_) => self.accept_frame(&frame),
                Side::Initiator(_) => self.initiate_frame(&frame),
            },
            _ => Err(Reason::Unexpected(frame.tag)),
        }
    }

    fn hello(&mut self, hello: &Hello) -> Result<(), Reason> {
        (self.peer.ty, self.peer.seen_as) = (hello.entity_type, hello.peer_addr);
        self.state = State::Auth;
        match self.side {
            Side::Acceptor(_) => Ok(()),
            Side::Initiator(_) => self.start_auth(),
        }
    }

    /// AUTH_DONE has passed: signs what was received, expects what was sent, and encrypts from here on.
    pub(crate) fn start_signatures(&mut self, key: &Key, secret: &Secret) -> Result<(), Reason> {
        let ours = key.sign(&self.rx.take_record());
        let theirs = key.sign(&self.tx.take_record());
        if self.peer.mode == ConMode::Secure {
            let (down, up) = Gcm::pair(secret).ok_or(Reason::Frame("a short connection secret"))?;
            let (send, receive) = match self.side {
                Side::Acceptor(_) => (down, up),
                Side::Initiator(_) => (up, down),
            };
            self.tx.encrypt(send);
            self.rx.decrypt(receive);
        }
        self.tx.frame(tag::AUTH_SIGNATURE, &ours, &[], &[], &Bufs::new());
        self.state = State::Signature(theirs);
        Ok(())
    }

    fn signature(&mut self, expected: &[u8; 32], got: &[u8]) -> Result<(), Reason> {
        let differ = expected.iter().zip(got).fold(0, |d, (a, b)| d | (a ^ b));
        if differ != 0 || got.len() != expected.len() {
            return Err(Reason::Signature);
        }
        self.state = State::Ident;
        match self.side {
            Side::Acceptor(_) => Ok(()),
            Side::Initiator(_) => self.identify(),
        }
    }

    /// Checks that the peer's role is the one that it proved. Only a client may use any name, as the tools do
    /// with `--name mon.`. A manager has the name of the metadata server whose process it shares.
    pub(crate) fn check_role(&self) -> Result<(), Reason> {
        let (role, proven) = (self.peer.ty, self.peer.entity.ty);
        let is_hosted = role == EntityType::MGR && proven == EntityType::MDS;
        match role == EntityType::CLIENT || role == proven || is_hosted {
            true => Ok(()),
            false => Err(Reason::WrongPeer("it claims another role than its key has")),
        }
    }

    /// The handshake is complete.
    pub(crate) fn ready(&mut self, features: u64, resumed: bool) {
        if let Side::Initiator(_) = self.side {
            self.peer.entity = EntityName::new(self.peer.ty, self.session.num.to_string());
        }
        self.state = State::Open;
        self.rx.messages = true;
        self.last_keepalive = self.now.mono;
        let ready = Ready {
            peer_type: self.peer.ty,
            entity: self.peer.entity.clone(),
            num: self.session.num,
            global_id: self.peer.global_id,
            caps: std::mem::take(&mut self.peer.caps),
            addrs: self.session.addrs.clone(),
            seen_as: self.peer.seen_as,
            features: features & crate::FEATURES,
            mode: self.peer.mode,
            lossy: !self.session.lossless,
            cookie: self.session.server_cookie,
            resumed,
            tickets: self.peer.tickets.take(),
        };
        self.event(Event::Ready(Box::new(ready)));
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.events.push_back(event);
    }

    pub(crate) fn now(&self) -> Now {
        self.now
    }
}

/// The payload of a control frame; bytes that follow are a newer peer's.
pub(crate) fn decode<T: Decode>(frame: &Frame) -> Result<T, Reason> {
    Ok(Reader::new(&frame.control).get()?)
}
