//! A msgr2.1 connection as a state machine without I/O (PROTOCOL.md 1): the runtime asks [`Conn::want`] what to
//! read and where to, tells with [`Conn::filled`] how much came, writes what [`Conn::poll_write`] gives, and takes
//! [`Event`]s from [`Conn::poll_event`]. No message body is known here, and payload is never copied in crc mode
//! but for the few bytes that came along with a header.
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
