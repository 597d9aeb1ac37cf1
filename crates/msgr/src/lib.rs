//! A msgr2.1 connection as a state machine without I/O (docs/protocol.md 1). The runtime asks [`Conn::want`]
//! for the next read and its destination, reports with [`Conn::filled`] the number of bytes read, writes the
//! bytes of [`Conn::poll_write`], and takes [`Event`]s from [`Conn::poll_event`]. This crate knows no message
//! body, and in crc mode it copies no payload except the few bytes that arrive together with a header.
//!
//! ```text
//! loop {
//!     match conn.want() {
//!         Want::Read(memory) => conn.filled(socket.read(memory), now),
//!         Want::Budget(bytes) => conn.grant(budget.reserve(bytes)) or wait,
//!         Want::Nothing => wait for a call that changes that,
//!     }
//!     while let Some(event) = conn.poll_event() { .. }
//!     while let Some(bytes) = conn.poll_write() { socket.write(bytes) }
//! }
//! ```

mod acceptor;
mod config;
mod conn;
mod control;
mod event;
mod frame;
mod gcm;
mod handshake;
mod initiator;
mod messages;
mod rx;
mod session;
mod tx;

#[cfg(test)]
mod replay_tests;

pub use config::{AcceptConfig, Auth, Common, ConnectConfig, FEATURES, REQUIRED_FEATURES};
pub use conn::{Conn, Want};
pub use event::{Event, Ready, Reason};
pub use session::{Claim, Resume, Session, SessionTable};
