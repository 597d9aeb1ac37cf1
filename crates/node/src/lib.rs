//! The contract between a role (monitor, OSD, MDS, file system client) and the world that runs it: `runtime`
//! with real sockets, disks and clocks, or `sim` with none of them.
//!
//! A role is a [`Node`]: it handles one [`Input`] at a time and appends [`Output`]s. Between inputs all its
//! invariants hold; it never blocks, and it knows the time only from the input. Each variant states what a
//! world must guarantee and a role may rely on.

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
    /// A connection as the node sees it; never reused within an incarnation of the node. The world numbers
    /// accepted connections with the top bit set; the node numbers the connections that it opens, with the
    /// top bit clear.
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
    /// Requests of local callers; [`Never`] for daemons.
    type Request;
    /// Replies to local callers.
    type Reply;

    /// Takes one input and appends what follows from it. The first input is [`Input::Start`].
    fn handle(&mut self, now: Now, input: Input<Self::Request>, out: &mut Vec<Output<Self::Reply>>);

    /// All inputs that had arrived are handled: the node does the work that it deferred in order to do it
    /// once for several inputs. The world calls this before it waits, and again after carrying out the
    /// outputs, until there are none. So latency-critical outputs leave first, and deferred work runs while
    /// the devices are busy.
    fn batch_ended(&mut self, now: Now, out: &mut Vec<Output<Self::Reply>>) {
        let _ = (now, out);
    }

    /// The time at which the node wants [`Input::Timer`], if nothing else happens. The world asks again after
    /// each input.
    fn deadline(&self) -> Option<Instant>;

    /// Asks the node to shut down. A node that has to leave something consistent goes on handling inputs;
    /// every node emits [`Output::Stop`] when it is done. The world may kill it before that, as a crash
    /// would.
    fn shut_down(&mut self, now: Now, out: &mut Vec<Output<Self::Reply>>) {
        let _ = now;
        out.push(Output::Stop(Ok(())));
    }
}

/// The request type of a node that has no local callers.
#[derive(Clone, Copy, Debug)]
pub enum Never {}

/// An input of a node.
#[derive(Debug)]
pub enum Input<Request> {
    /// The first input of an incarnation: its disks and listening sockets are ready.
    Start,
    /// Its deadline has passed.
    Timer,
    /// A connection is authenticated and ready: accepted, or asked for by [`Output::Connect`].
    Connected {
        /// The opened or accepted connection.
        conn: ConnId,
        /// The peer at the other end.
        peer: Box<Peer>,
    },
    /// A message, complete and decoded. On one connection messages arrive in the order in which they were
    /// sent, each once.
    Message {
        /// The connection that it came on.
        conn: ConnId,
        /// The received message.
        msg: Msg,
    },
    /// The connection is closed, and no more input comes from it; unanswered messages on it are lost. A
    /// connection that could not be opened ends in the same way. A lossless session (client and MDS) survives
    /// a broken socket unnoticed, and is closed only when it can't be resumed.
    Closed {
        /// The connection that ended.
        conn: ConnId,
        /// Reason of the end.
        reason: CloseReason,
    },
    /// A disk operation has ended.
    Disk {
        /// The completed operation.
        id: DiskOpId,
        /// Its result.
        result: DiskResult,
    },
    /// How busy it is, and its host. Metadata servers and OSDs get this every few seconds.
    Load(Load),
    /// A command from the daemon's admin socket.
    Admin {
        /// Number to use in [`Output::AdminReply`].
        id: AdminId,
        /// JSON object with `prefix` and arguments, as `ceph daemon` sends it.
        command: String,
    },
    /// A local caller's request.
    Request {
        /// Number to use in [`Output::Reply`].
        id: RequestId,
        /// The local caller's request.
        request: Request,
    },
}

/// Processor time that was used since the last [`Input::Load`], in thousandths of a core, and memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Load {
    /// Used by the thread of this node: at 1000 it can do no more.
    pub busy: u32,
    /// Used by nobody on the host.
    pub idle: u32,
    /// Used by anybody on the host.
    pub host_busy: u32,
    /// The host's memory, if it tells.
    pub memory: Option<Memory>,
    /// The memory of this process, if the host tells.
    pub resident: Option<Resident>,
    /// What was used from the start on.
    pub total: Used,
}

/// Memory that a process has, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Resident {
    /// All of it.
    pub all: u64,
    /// What of it is in no file.
    pub anonymous: u64,
}

/// What a node has used since it began. Of processor time only its process is known: nodes share threads.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Used {
    /// The process that it is in.
    pub pid: u32,
    /// Processor time of the process, in milliseconds.
    pub process_cpu_ms: u64,
    /// Bytes that its sockets have received and sent.
    pub net_bytes: (u64, u64),
    /// Bytes read from its disks, but for what the host keeps of them in memory, and written to them.
    pub disk_bytes: (u64, u64),
}

/// Memory of a host, or of the control group that a process may use no more than, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Memory {
    /// All of it.
    pub total: u64,
    /// What programs could still take without anything being swapped out or killed.
    pub available: u64,
}

/// An output of a node. The world carries outputs out in their order.
#[derive(Debug)]
pub enum Output<Reply> {
    /// Open a connection; ends in [`Input::Connected`] or [`Input::Closed`]. Messages may be sent at once:
    /// they wait.
    Connect {
        /// The new connection, numbered by the node.
        conn: ConnId,
        /// Target of the connection.
        to: Box<Target>,
    },
    /// Send a message, in order, at most once. Ignored if the connection is closed.
    Send {
        /// The connection to send on.
        conn: ConnId,
        /// The message to send.
        msg: Msg,
    },
    /// Close a connection after what was sent on it has left. No [`Input::Closed`] follows.
    Close {
        /// The connection to close.
        conn: ConnId,
    },
    /// Use these credentials from now on when a lossless connection is dialled again: the ticket that it was
    /// opened with expires.
    Renew {
        /// The lossless connection.
        conn: ConnId,
        /// Our half of the authentication.
        auth: Box<auth::Initiator>,
    },
    /// Announce another nonce from now on: for the cluster this is another client, which an entry on the
    /// blocklist does not concern. Only a node that listens nowhere asks for it, after it has closed all its
    /// connections, which keep the nonce that they were opened with.
    Rebind,
    /// Start a disk operation; ends in [`Input::Disk`].
    Disk {
        /// The node's number for it.
        id: DiskOpId,
        /// The operation to start.
        op: DiskOp,
    },
    /// Answer an [`Input::Admin`].
    AdminReply {
        /// The command to answer.
        id: AdminId,
        /// 0 or a negative errno.
        code: i32,
        /// JSON, or an error text if `code` is negative.
        output: String,
    },
    /// Answer an [`Input::Request`].
    Reply {
        /// The request; 0 for a notice to all local callers.
        id: RequestId,
        /// The answer.
        reply: Reply,
    },
    /// From now on introduce yourself on new connections by this number: a metadata server is `mds.RANK`,
    /// whatever its name is, and clients compare.
    Number(u32),
    /// From now on authenticate accepted connections with these keys. Until the first one, none is accepted.
    Keys(Arc<auth::ServerKeys>),
    /// Monitors: further global ids that may be given to clients (committed before this output;
    /// docs/design.md, decision 12).
    GlobalIds(std::ops::Range<u64>),
    /// Something worth a trace line and a counter.
    Event(Event),
    /// The daemon is ready for clients: a monitor in quorum, an OSD that is up in the map, an MDS that
    /// has a rank or stands by for one, a client with maps.
    Ready,
    /// End this node; the process exits with status 0 for `Ok`, 1 and the text for `Err`.
    Stop(Result<(), String>),
    /// End this node and start it again, as if its process had been restarted: with its disks, a new nonce
    /// and no memory. For a daemon whose place the cluster has given away while it was silent; the text gives
    /// the reason.
    Restart(String),
    /// Shut the node down by [`Node::shut_down`], as on a signal to the process: an administrator's command
    /// asked for it.
    ShutDown,
}

/// Target of a connection, and the credentials to use.
#[derive(Debug)]
pub struct Target {
    /// Kind of daemon there.
    pub service: EntityType,
    /// Its address. If the address has a nonce, the peer must present the same.
    pub addr: EntityAddr,
    /// True if a broken socket is resumed (client to MDS), false if it ends the connection (all others).
    pub lossless: bool,
    /// Our half of the authentication.
    pub auth: Box<auth::Initiator>,
}

/// The peer at the other end of a connection.
#[derive(Debug)]
pub struct Peer {
    /// Its authenticated name; for daemons that we connect to, the service and an empty id.
    pub name: EntityName,
    /// Numbered name: `client.GLOBAL_ID` for clients; daemons give their own number in their first message.
    pub id: EntityId,
    /// Never reused; for connections that we opened to a monitor, the id that it gave **us**.
    pub global_id: u64,
    /// All addresses that it announces, with its nonce (its incarnation). A client's is the address seen on
    /// the socket, with the announced nonce.
    pub addrs: AddrVec,
    /// The address of its end of the socket.
    pub socket_addr: EntityAddr,
    /// Our own address as it knows us, with our nonce: the blocklist would name it.
    pub ours: EntityAddr,
    /// The feature bits that both sides have.
    pub features: u64,
    /// Accepted connections: what the peer's key allows on our kind of daemon, unparsed.
    pub caps: String,
    /// Connections that we opened to a monitor: our global id and tickets.
    pub tickets: Option<Box<auth::Tickets>>,
}

impl Peer {
    /// The role in which it acts. Whoever announces itself as a client is one, no matter whose key it uses; a
    /// manager uses the key of the metadata server in whose process it runs.
    pub fn role(&self) -> EntityType {
        match self.id.ty {
            announced @ (EntityType::CLIENT | EntityType::MGR) => announced,
            _ => self.name.ty,
        }
    }
}

/// Reason for which a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseReason {
    /// The other end closed it, or the network broke.
    Lost,
    /// Nobody listens at the address: the process is dead (docs/design.md, decision 7).
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
