//! Key usages: a key of type 2 derives its ciphers from what they are for, so that what was sealed for one
//! purpose opens for no other (RFC 3961 section 3; Ceph's numbers).

/// What a ciphertext is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Usage {
    /// A monitor connection's secret, under the session key of the AUTH ticket.
    ConnectionSecret = 0x03,
    /// A ticket's session key and validity for its holder: of the AUTH ticket under the principal's key, of
    /// the others under the session key of the AUTH ticket.
    SessionKey = 0x04,
    /// A renewed AUTH ticket, under its predecessor's session key.
    TicketBlob = 0x05,
    /// The proof in an authorizer, under the ticket's session key.
    Authorize = 0x10,
    /// A service's challenge, under the ticket's session key.
    AuthorizeChallenge = 0x11,
    /// A service's answer to an authorizer, under the ticket's session key.
    AuthorizeReply = 0x12,
    /// Rotating keys on their way to a daemon, under its own key.
    RotatingSecret = 0x20,
    /// What a ticket says to its service, under the service's rotating key.
    TicketInfo = 0x30,
}
