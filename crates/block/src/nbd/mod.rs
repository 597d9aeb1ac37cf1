//! The server's end of NBD connections: fixed newstyle negotiation, then requests.
//!
//! [`Connection`] says how many bytes it wants next ([`Connection::wants`]), takes exactly these, and says
//! what is to be sent or done. The world's bytes are not trusted: whatever they are, they end in an answer or
//! in the end of the connection.
//!
//! Facts: the description of the protocol by the NBD project. Where TLS is demanded it is begun
//! before anything else (`FORCEDTLS`). Absent: metadata contexts, extended headers, resizing.

mod connection;
mod handshake;
mod number;
mod transmission;
mod types;

pub use connection::Connection;
pub use transmission::Form;
pub use types::{Answer, Command, Event, Export, MAX_PAYLOAD, Tls, Violation, What};

#[cfg(test)]
mod tests;
