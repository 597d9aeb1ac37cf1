//! Limits of a node's connections in memory and time.

use auth::ConMode;
use std::time::Duration;

/// Limits of a node's connections in memory and time.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of large messages from clients that were read and not completed; beyond it nothing more is read.
    /// A single message may be larger.
    pub client_bytes: u64,
    /// The same for other daemons, separate so that daemons never wait for one another's clients.
    pub daemon_bytes: u64,
    /// OSDs: bytes of answers to clients that were requested and have not left; beyond it no large request is
    /// served. Small answers and one answer of any size are not counted in it.
    pub answer_bytes: u64,
    /// OSDs: what one connection may have of that.
    pub answer_share: u64,
    /// Bytes that wait for a client to read them, in addition to answers; a connection with more is not read.
    pub unread_bytes: usize,
    /// Bytes that wait for a peer to read them; one with more is closed.
    pub queued_bytes: usize,
    /// Time for a dialled socket to open.
    pub connect_timeout: Duration,
    /// Time for the handshake.
    pub handshake_timeout: Duration,
    /// Time without a byte after which a dialled connection is dead; keepalives are sent at a third of it.
    pub idle_timeout: Duration,
    /// Time for which a peer may leave our output unread.
    pub stall_timeout: Duration,
    /// Time for which a lossless session waits for its client.
    pub session_timeout: Duration,
    /// Connections at once.
    pub connections: usize,
    /// The only mode of dialled connections; `None` for both, as the other end prefers. Where nobody
    /// authenticates there are no keys, and only [`ConMode::Crc`] is possible.
    pub mode: Option<ConMode>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            client_bytes: 64 << 20,
            daemon_bytes: 64 << 20,
            answer_bytes: 16 << 20,
            answer_share: 12 << 20,
            unread_bytes: 128 << 20,
            queued_bytes: 256 << 20,
            connect_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(20),
            idle_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(60),
            session_timeout: Duration::from_secs(600),
            connections: 10_000,
            mode: None,
        }
    }
}

impl Limits {
    /// Limits of an OSD. Its clients lose nothing with a connection, and its answers are counted one by one.
    /// With full caches of 16 MiB each, now 12, it had 73 to 79 MiB (`docs/performance.md`) and may have 96
    /// and a message: the difference is left for large messages, in either direction. With three copies,
    /// twice the bytes of clients' writes come from other OSDs, so daemons have twice the budget of clients;
    /// a larger one for clients would only fill with writes that wait for members without memory.
    ///
    /// The parts are fixed, not one pot. A client's write is held until its members have it, and they may be
    /// waiting for our memory for theirs. Messages of OSDs are held until our own disk has them, which waits
    /// for nobody, so their memory becomes free whatever clients do. Answers are held until clients read
    /// them, which must not stop writes.
    ///
    /// Only clients send an OSD much more at once: the data of an update beyond 4 MiB comes from its primary
    /// in parts of 1 MiB. A larger message of a daemon is from an older version, or has a large omap or log,
    /// and is read alone.
    pub fn of_osd() -> Self {
        Self { client_bytes: 8 << 20, daemon_bytes: 16 << 20, unread_bytes: 1 << 20, ..Self::default() }
    }
}
