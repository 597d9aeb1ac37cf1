//! What sub-machines ask of the network, and how they share a node's connection numbers.

use node::{ConnId, Msg, Output, Target};

/// Connection numbers of one sub-machine of a node: each has a space of its own, so that none needs to know the others'.
#[derive(Clone, Debug)]
pub struct ConnSpace {
    space: u8,
    next: u64,
}

/// Where the number of the space begins; the top bit is that of accepted connections.
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

    /// Whether a connection has a number of this space.
    pub fn owns(&self, conn: ConnId) -> bool {
        conn.0 >> SHIFT == u64::from(self.space)
    }
}

/// What the owner carries out as an [`Output`] of the node.
#[derive(Debug)]
pub enum Net {
    /// [`Output::Connect`].
    Connect {
        /// The new connection.
        conn: ConnId,
        /// Where to.
        to: Box<Target>,
    },
    /// [`Output::Send`].
    Send {
        /// Where.
        conn: ConnId,
        /// What.
        msg: Msg,
    },
    /// [`Output::Close`].
    Close {
        /// Which.
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
