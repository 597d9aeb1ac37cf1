//! The payloads of control frames and the header of a message (docs/protocol.md 1.2).

use wire::{AddrVec, EntityAddr, EntityType, Timespec, wire_structs};

/// The first bytes of either end.
pub(crate) const BANNER: &[u8; 8] = b"ceph v2\n";
/// msgr2.1, which is all that we speak: revision 0 is older than any client in range.
pub(crate) const REVISION_1: u64 = 1;
/// In CLIENT_IDENT and SERVER_IDENT: what is in flight is lost with the connection.
pub(crate) const FLAG_LOSSY: u64 = 1;
/// Complete and without checksums of its own, as userland marks its messages.
pub(crate) const MESSAGE_FLAGS: u8 = 3;

wire_structs! {
    pub(crate) struct Hello[plain] {
        pub entity_type: EntityType,
        /// The receiver's address as the sender sees it.
        pub peer_addr: EntityAddr,
    }

    pub(crate) struct AuthRequest[plain] {
        pub method: u32,
        pub modes: Vec<u32>,
        pub payload: Vec<u8>,
    }

    pub(crate) struct AuthBadMethod[plain] {
        pub method: u32,
        pub result: i32,
        pub methods: Vec<u32>,
        pub modes: Vec<u32>,
    }

    pub(crate) struct AuthDone[plain] {
        pub global_id: u64,
        pub mode: u32,
        pub payload: Vec<u8>,
    }

    pub(crate) struct ClientIdent[plain] {
        pub addrs: AddrVec,
        pub target: EntityAddr,
        pub num: i64,
        pub global_seq: u64,
        pub supported: u64,
        pub required: u64,
        pub flags: u64,
        pub cookie: u64,
    }

    pub(crate) struct ServerIdent[plain] {
        pub addrs: AddrVec,
        pub num: i64,
        pub global_seq: u64,
        pub supported: u64,
        pub required: u64,
        pub flags: u64,
        pub cookie: u64,
    }

    pub(crate) struct Reconnect[plain] {
        pub addrs: AddrVec,
        pub client_cookie: u64,
        pub server_cookie: u64,
        pub global_seq: u64,
        pub connect_seq: u64,
        /// The last message that the client has.
        pub msg_seq: u64,
    }

    pub(crate) struct Keepalive[plain] {
        pub stamp: Timespec,
    }

    pub(crate) struct Header[plain] {
        pub seq: u64,
        pub tid: u64,
        pub kind: u16,
        pub priority: u16,
        pub version: u16,
        pub data_padding: u32,
        pub data_off: u16,
        pub ack_seq: u64,
        pub flags: u8,
        pub compat: u16,
        pub reserved: u16,
    }
}
