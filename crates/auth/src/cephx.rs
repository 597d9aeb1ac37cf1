//! The structures of cephx (docs/protocol.md 2.2) and the challenge's answer.

use crate::sealed::proof;
use crate::{Key, Secret};
use wire::{EntityName, Utime, Writer, wire_structs};

pub(crate) const GET_AUTH_SESSION_KEY: u16 = 0x0100;
pub(crate) const GET_PRINCIPAL_SESSION_KEY: u16 = 0x0200;
pub(crate) const GET_ROTATING_KEY: u16 = 0x0400;

/// First byte of an AUTH_REQUEST's payload: a ticket for a service.
pub(crate) const MODE_AUTHORIZER: u8 = 1;
/// First byte of an AUTH_REQUEST's payload: a principal at a monitor.
pub(crate) const MODE_MON: u8 = 10;

wire_structs! {
    /// A ticket as its holder carries it: sealed under a rotating key that only the service knows.
    pub struct TicketBlob[u8 1] {
        /// Number of the service's rotating key.
        pub secret_id: u64,
        /// Ciphertext of the ticket.
        pub blob: Vec<u8>,
    }

    pub(crate) struct ServerChallenge[u8 1] {
        pub server_challenge: u64,
    }

    pub(crate) struct Authenticate[u8 3] {
        pub client_challenge: u64,
        pub key: u64,
        pub old_ticket: TicketBlob,
        pub other_keys: u32 = since 2,
    }

    pub(crate) struct ChallengeBlob[plain] {
        pub server_challenge: u64,
        pub client_challenge: u64,
    }

    pub(crate) struct ServiceTicket[u8 1] {
        pub session_key: Key,
        /// A duration.
        pub validity: Utime,
    }

    pub(crate) struct CapsInfo[u8 1] {
        pub allow_all: bool,
        /// The encoding of a string.
        pub caps: Vec<u8>,
    }

    pub(crate) struct AuthTicket[u8 2] {
        pub name: EntityName,
        pub global_id: u64,
        /// Long unused; all bits set.
        pub auid: u64,
        pub created: Utime,
        pub expires: Utime,
        pub caps: CapsInfo,
        pub flags: u32,
    }

    pub(crate) struct ServiceTicketInfo[u8 1] {
        pub ticket: AuthTicket,
        pub session_key: Key,
    }

    pub(crate) struct Authorize[u8 2] {
        pub nonce: u64,
        pub have_challenge: bool = since 2,
        pub challenge_plus_one: u64 = since 2,
    }

    pub(crate) struct AuthorizeChallenge[u8 1] {
        pub server_challenge: u64,
    }

    pub(crate) struct AuthorizeReply[u8 2] {
        pub nonce_plus_one: u64,
        pub connection_secret: Secret = since 2,
    }

    pub(crate) struct ServiceTicketRequest[u8 1] {
        pub keys: u32,
    }
}

impl CapsInfo {
    pub(crate) fn new(text: &str) -> Self {
        Self { allow_all: false, caps: Writer::encode(text) }
    }

    /// The capability string; unreadable ones grant nothing.
    pub(crate) fn text(&self) -> String {
        match self.allow_all {
            true => "allow *".to_owned(),
            false => wire::Reader::new(&self.caps).get().unwrap_or_default(),
        }
    }
}

/// The proof of possession of the principal's key: the xor of the whole little-endian u64 words of
/// [`proof`], without the odd bytes at its end.
pub(crate) fn challenge_answer(key: &Key, server_challenge: u64, client_challenge: u64) -> u64 {
    let proof = proof(key, &ChallengeBlob { server_challenge, client_challenge });
    proof.chunks_exact(8).fold(0, |x, word| x ^ u64::from_le_bytes(word.try_into().expect("8 bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_that_of_a_real_client() {
        // From a connection of Ceph 16.2.15's `rados` to its monitor, with that throw-away cluster's key.
        let key = Key::from_base64("AQAr8AFrPdktMBAArXJExl8pKfBsXeGHtvv8WA==").expect("a key");
        let server = u64::from_le_bytes([0x3d, 0x9c, 0x10, 0x38, 0x0a, 0xe6, 0xef, 0x38]);
        let client = u64::from_le_bytes([0xc9, 0x69, 0x12, 0x94, 0xb8, 0x66, 0x1d, 0x80]);
        let answer = u64::from_le_bytes([0x54, 0x14, 0x31, 0x35, 0x0e, 0xcc, 0xf2, 0x62]);
        assert_eq!(challenge_answer(&key, server, client), answer);
        // From one of 20.2.4 with a key of type 2.
        let key = "AgC/ZQxrrdByISAAuUtY5jSCHyOMAbXV6zHFKFs3EQGL6l0ZeJEp9qMbuc4=";
        let key = Key::from_base64(key).expect("a key");
        let server = u64::from_le_bytes([0x19, 0x9e, 0x90, 0x42, 0x14, 0xba, 0x7d, 0x14]);
        let client = u64::from_le_bytes([0xe7, 0xde, 0xe5, 0x9c, 0x71, 0xaf, 0x64, 0xf9]);
        let answer = u64::from_le_bytes([0xd0, 0x03, 0x7f, 0x88, 0xbd, 0x4e, 0x1a, 0xf8]);
        assert_eq!(challenge_answer(&key, server, client), answer);
    }
}
