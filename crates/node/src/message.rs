//! A message with its transaction id: a client-visible one or one between our own daemons.

use stdx::Hold;
use wire::{DecodeError, RawMsg};

/// A decoded message.
#[derive(Clone, PartialEq, Debug)]
pub struct Msg {
    /// The sender's transaction id; a reply carries that of its request. 0 where the kind has none.
    pub tid: u64,
    /// What.
    pub body: Body,
    /// Memory that its sender or the world holds for it. A request comes with what its answer may take: who gives that to the answer has
    /// it held until the answer has left or its connection is gone. Nothing of it is sent.
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

    /// How much memory its answer may take, in bytes; 0 where that is so little that nobody counts it.
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

    /// Whether it may overtake messages of other connections: by heartbeats an OSD is judged, however much it has to do.
    pub fn is_urgent(&self) -> bool {
        matches!(self.body, Body::Peer(peer::Body::OsdPing(_)))
    }

    /// As the messenger carries it.
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
