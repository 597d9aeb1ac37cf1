//! The connection: what to read, what to write, what happened.

use crate::{AcceptConfig, ConnectConfig, Event, Reason, Session};
use stdx::{Bufs, Instant, Now, Reservation, Rng};
use wire::RawMsg;

/// What a connection needs from its socket.
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
#[derive(Debug)]
pub struct Conn {}

impl Conn {
    /// The accepting end of a new socket.
    pub fn accept(_config: AcceptConfig, _now: Now, _rng: Rng) -> Self { Self {} }
    /// The connecting end of a new socket; with the session of an earlier connection to the same peer it goes on with that.
    pub fn connect(_config: ConnectConfig, _session: Option<Session>, _now: Now, _rng: Rng) -> Self { Self {} }
    /// What to read. Call it again after every other call.
    pub fn want(&mut self) -> Want<'_> { Want::Nothing }
    /// `n` bytes were read into what [`Self::want`] gave; 0 is the end of the stream.
    pub fn filled(&mut self, _n: usize, _now: Now) {}
    /// The answer to [`Want::Budget`]; `None` where nobody counts.
    pub fn grant(&mut self, _reservation: Option<Reservation>, _now: Now) {}
    /// The answer to [`Event::Resume`].
    pub fn resume(&mut self, _session: Option<Session>, _now: Now) {}
    /// Sends a message once the connection is ready; before, it waits.
    pub fn send(&mut self, _msg: RawMsg) {}
    /// The next bytes for the socket, several frames at once; what is not written must be kept by the caller.
    pub fn poll_write(&mut self) -> Option<Bufs> { None }
    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> { None }
    /// When [`Self::tick`] is to be called at the latest.
    pub fn deadline(&self) -> Option<Instant> { None }
    /// Time has passed.
    pub fn tick(&mut self, _now: Now) {}
    /// Ends the connection; what waits is dropped. `Closed` follows as an event.
    pub fn close(&mut self, _reason: Reason) {}
    /// Whether it has ended.
    pub fn is_closed(&self) -> bool { true }
    /// Bytes of messages that wait to be sent or acknowledged.
    pub fn queued(&self) -> usize { 0 }
    /// The session, to park it or to go on with it on a new connection; closes this one.
    pub fn take_session(&mut self) -> Option<Session> { None }
}
