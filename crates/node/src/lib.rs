//! The contract between a role (monitor, OSD, MDS, file system client) and the world that runs it: `runtime` with real
//! sockets, disks and clocks, or `sim` with none of them.
//!
//! A role is a [`Node`]: it is given one [`Input`] at a time and appends [`Output`]s. It holds no invariant broken between
//! inputs, blocks on nothing and knows the time only from the input. What a world must guarantee, and a role may rely on,
//! is written at each variant.

mod disk;
mod event;
mod message;

pub use disk::{DiskError, DiskId, DiskInfo, DiskOp, DiskResult};
pub use event::{Event, Level};
pub use message::{Body, Msg};

use std::fmt;
use std::sync::Arc;
use stdx::{Instant, Now};
use wire::{AddrVec, EntityAddr, EntityId, EntityName, EntityType};

stdx::ids! {
    /// A connection as the node sees it; never reused within the life of a node. Accepted connections are numbered by
    /// the world with the top bit set, connections that the node opens are numbered by the node itself, without it.
    pub struct ConnId(u64) = "conn{}";
    /// A disk operation, numbered by the node.
    pub struct DiskOpId(u64) = "io{}";
    /// A local request (file system operation, library call), numbered by the world.
    pub struct RequestId(u64) = "req{}";
    /// An admin command from the admin socket, numbered by the world.
    pub struct AdminId(u64) = "admin{}";
}

impl ConnId {
    /// The bit that numbers given by the world carry.
    pub const ACCEPTED: u64 = 1 << 63;
}

/// A role as a deterministic state machine.
pub trait Node {
    /// What local callers ask of it; [`Never`] for daemons.
    type Request;
    /// What it answers them.
    type Reply;

    /// Takes one input and appends what follows from it. The first input is [`Input::Start`].
    fn handle(&mut self, now: Now, input: Input<Self::Request>, out: &mut Vec<Output<Self::Reply>>);

    /// All inputs that had arrived have been handled: what the node put off, so as to do it once for several of them, is to be
    /// done now. Called before the world waits for something, and again, when what it wants was carried out, until it wants nothing
    /// more: so what others wait for comes first, and the rest is done while they are at work.
    fn batch_ended(&mut self, now: Now, out: &mut Vec<Output<Self::Reply>>) {
        let _ = (now, out);
    }

    /// When it wants [`Input::Timer`] next, if nothing else happens. Asked again after each input.
    fn deadline(&self) -> Option<Instant>;

    /// The process was asked to end. A node that has something to bring to rest goes on taking inputs until then; all say
    /// [`Output::Stop`] when they are done. The world may lose patience and end it before, as a crash would.
    fn wind_up(&mut self, now: Now, out: &mut Vec<Output<Self::Reply>>) {
        let _ = now;
        out.push(Output::Stop(Ok(())));
    }
}

/// The request type of a node that has no local callers.
#[derive(Clone, Copy, Debug)]
pub enum Never {}

/// What happens to a node.
#[derive(Debug)]
pub enum Input<Request> {
    /// The first input of a node's life: its disks and listening sockets are there.
    Start,
    /// Its deadline has passed.
    Timer,
    /// A connection is authenticated and ready: accepted, or asked for by [`Output::Connect`].
    Connected {
        /// Which.
        conn: ConnId,
        /// Who is at the other end.
        peer: Box<Peer>,
    },
    /// A message, complete and decoded. On one connection messages arrive in the order they were sent, each once.
    Message {
        /// From where.
        conn: ConnId,
        /// What.
        msg: Msg,
    },
    /// The connection is gone, with everything sent on it that was not answered; nothing comes from it any more.
    /// A connection that could not be made ends so as well. A lossless session (client and MDS) survives a broken
    /// socket unnoticed and ends only when it can't be resumed.
    Closed {
        /// Which.
        conn: ConnId,
        /// Why.
        reason: CloseReason,
    },
    /// A disk operation has ended.
    Disk {
        /// Which.
        id: DiskOpId,
        /// How.
        result: DiskResult,
    },
    /// A command from the daemon's admin socket.
    Admin {
        /// To be answered by [`Output::AdminReply`].
        id: AdminId,
        /// JSON object with `prefix` and arguments, as `ceph daemon` sends it.
        command: String,
    },
    /// A local caller's request.
    Request {
        /// To be answered by [`Output::Reply`].
        id: RequestId,
        /// What.
        request: Request,
    },
}

/// What a node wants done. Outputs are carried out in their order.
#[derive(Debug)]
pub enum Output<Reply> {
    /// Open a connection; ends in [`Input::Connected`] or [`Input::Closed`]. Messages may be sent at once, they wait.
    Connect {
        /// The new connection, numbered by the node.
        conn: ConnId,
        /// Where to, as whom.
        to: Box<Target>,
    },
    /// Send a message, in order, at most once. Ignored where the connection is closed.
    Send {
        /// Where.
        conn: ConnId,
        /// What.
        msg: Msg,
    },
    /// Close a connection after what was sent on it has left. No [`Input::Closed`] follows.
    Close {
        /// Which.
        conn: ConnId,
    },
    /// A lossless connection that is dialled again proves itself so from now on: the ticket that it began with ends.
    Renew {
        /// Which.
        conn: ConnId,
        /// Our half of the authentication.
        auth: Box<auth::Initiator>,
    },
    /// Start a disk operation; ends in [`Input::Disk`].
    Disk {
        /// The node's number for it.
        id: DiskOpId,
        /// What to do.
        op: DiskOp,
    },
    /// Answer an [`Input::Admin`].
    AdminReply {
        /// Which.
        id: AdminId,
        /// 0 or a negative errno.
        code: i32,
        /// Output: JSON, or an error text where `code` is negative.
        output: String,
    },
    /// Answer an [`Input::Request`].
    Reply {
        /// Which; 0 where nobody asked (a notice to all local callers).
        id: RequestId,
        /// The answer.
        reply: Reply,
    },
    /// From now on authenticate accepted connections with these keys. Until the first one, none is accepted.
    Keys(Arc<auth::ServerKeys>),
    /// Monitors: further global ids that may be given to clients (committed before this output; DESIGN, decision 12).
    GlobalIds(std::ops::Range<u64>),
    /// Something worth a trace line and a counter.
    Event(Event),
    /// The daemon is ready for its clients (a monitor in quorum, an OSD up in the map, an MDS active, a client with maps).
    Ready,
    /// End this node; the process exits with status 0 for `Ok`, 1 and the text for `Err`.
    Stop(Result<(), String>),
    /// End this node and start it anew, as if its process had been started again: with its disks, another nonce, and no memory.
    /// For a daemon whose place the cluster has given away while it was silent; the text says so.
    Restart(String),
    /// Somebody has told the node to end: the world asks it to ([`Node::wind_up`]), as it would for the whole process.
    WindUp,
}

/// Where a connection goes, and as whom.
#[derive(Debug)]
pub struct Target {
    /// Kind of daemon there.
    pub service: EntityType,
    /// Its address; the peer must present the same nonce where the address has one.
    pub addr: EntityAddr,
    /// Whether a broken socket is to be resumed (client to MDS) or is the end of the connection (all others).
    pub lossless: bool,
    /// Our half of the authentication.
    pub auth: Box<auth::Initiator>,
}

/// Who is at the other end of a connection.
#[derive(Debug)]
pub struct Peer {
    /// Its authenticated name; for daemons that we connect to, the service and an empty id.
    pub name: EntityName,
    /// Numbered name: `client.GLOBAL_ID` for clients; daemons say their own number in their first message.
    pub id: EntityId,
    /// Never reused; for connections that we opened to a monitor, the id that it gave **us**.
    pub global_id: u64,
    /// All addresses it announces, with its nonce (its incarnation); for clients the address seen on the socket with
    /// the announced nonce.
    pub addrs: AddrVec,
    /// The address of its end of the socket.
    pub socket_addr: EntityAddr,
    /// The feature bits that both sides have.
    pub features: u64,
    /// Accepted connections: what the peer's key allows on our kind of daemon, unparsed.
    pub caps: String,
    /// Connections that we opened to a monitor: our global id and tickets.
    pub tickets: Option<Box<auth::Tickets>>,
}

/// Why a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseReason {
    /// The other end closed it, or the network broke.
    Lost,
    /// Nobody listens there: the process is dead (DESIGN, decision 7).
    Refused,
    /// No answer in time.
    TimedOut,
    /// The other end does not accept our key, or we not its proof.
    Denied,
    /// The other end spoke nonsense; the world has counted why.
    Protocol,
    /// The lossless session can't be resumed: the other end has forgotten it.
    Reset,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost => "connection lost",
            Self::Refused => "connection refused",
            Self::TimedOut => "timed out",
            Self::Denied => "permission denied",
            Self::Protocol => "protocol error",
            Self::Reset => "session reset",
        })
    }
}
