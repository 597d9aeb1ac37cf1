//! Network outputs of sub-machines, and the division of a node's connection numbers among them.

use node::{ConnId, Msg, Output, Target};

/// The connection numbers of one sub-machine of a node. Each has a space of its own, so none needs to know
/// the others'.
#[derive(Clone, Debug)]
pub struct ConnSpace {
    space: u8,
    next: u64,
}

/// Position of the space's number; the top bit is that of accepted connections.
const SHIFT: u32 = 56;

impl ConnSpace {
    /// Space `space`, at most 127.
    pub fn new(space: u8) -> Self {
        assert!(space < 128, "the top bit of a connection number is not ours");
        Self { space, next: 0 }
    }

    /// A new connection.
    pub fn next_id(&mut self) -> ConnId {
        self.next += 1;
        ConnId(u64::from(self.space) << SHIFT | self.next)
    }

    /// True if a connection's number is in this space.
    pub fn owns(&self, conn: ConnId) -> bool {
        conn.0 >> SHIFT == u64::from(self.space)
    }
}

/// A network output, which the owner carries out as an [`Output`] of the node.
#[derive(Debug)]
pub enum Net {
    /// [`Output::Connect`].
    Connect {
        /// The new connection.
        conn: ConnId,
        /// Target.
        to: Box<Target>,
    },
    /// [`Output::Send`].
    Send {
        /// The connection to send on.
        conn: ConnId,
        /// The message to send.
        msg: Msg,
    },
    /// [`Output::Close`].
    Close {
        /// The connection to close.
        conn: ConnId,
    },
}

impl<Reply> From<Net> for Output<Reply> {
    fn from(net: Net) -> Self {
        match net {
            Net::Connect { conn, to } => Self::Connect { conn, to },
            Net::Send { conn, msg } => Self::Send { conn, msg },
            Net::Close { conn } => Self::Close { conn },
        }
    }
}
