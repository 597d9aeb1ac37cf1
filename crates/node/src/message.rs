//! A message with its transaction id: a client-visible one or one between our own daemons.

use stdx::Hold;
use wire::{DecodeError, RawMsg};

/// A decoded message.
#[derive(Clone, PartialEq, Debug)]
pub struct Msg {
    /// The sender's transaction id; a reply carries that of its request. 0 for kinds without one.
    pub tid: u64,
    /// The message itself.
    pub body: Body,
    /// Memory reserved for the message by its sender or by the world. A request comes with a reservation for
    /// its answer: a role that moves it to the answer keeps it reserved until the answer is sent or its
    /// connection is closed. It is never sent itself.
    pub hold: Hold,
}

/// Either family of messages. Numbers from [`peer::FIRST_KIND`] on are ours.
#[derive(Clone, PartialEq, Debug)]
pub enum Body {
    /// Ceph's client protocol.
    Client(msgs::Body),
    /// Between our own daemons.
    Peer(peer::Body),
}

impl Msg {
    /// A message with a tid.
    pub fn new(tid: u64, body: impl Into<Body>) -> Self {
        Self { tid, body: body.into(), hold: Hold::NONE }
    }

    /// Most bytes of memory that the answer may take; 0 if that is too little to count.
    pub fn largest_answer(&self) -> u64 {
        match &self.body {
            Body::Client(msgs::Body::OsdOp(op)) => op.largest_answer(),
            _ => 0,
        }
    }

    /// The message type's number.
    pub fn kind(&self) -> u16 {
        match &self.body {
            Body::Client(body) => body.kind(),
            Body::Peer(body) => body.kind(),
        }
    }

    /// True if it may overtake messages of other connections: heartbeats decide whether an OSD counts as
    /// alive, however busy it is.
    pub fn is_urgent(&self) -> bool {
        matches!(self.body, Body::Peer(peer::Body::OsdPing(_)))
    }

    /// The raw form that the messenger carries.
    pub fn to_raw(&self) -> RawMsg {
        match &self.body {
            Body::Client(body) => body.to_raw(self.tid),
            Body::Peer(body) => body.to_raw(self.tid),
        }
    }

    /// Decodes an untrusted message.
    pub fn from_raw(raw: RawMsg) -> Result<Self, DecodeError> {
        if raw.kind >= peer::FIRST_KIND {
            let (tid, body) = peer::Body::from_raw(raw)?;
            return Ok(Self::new(tid, body));
        }
        let (tid, body) = msgs::Body::from_raw(raw)?;
        Ok(Self::new(tid, body))
    }
}

impl From<msgs::Body> for Body {
    fn from(body: msgs::Body) -> Self {
        Self::Client(body)
    }
}

impl From<peer::Body> for Body {
    fn from(body: peer::Body) -> Self {
        Self::Peer(body)
    }
}
