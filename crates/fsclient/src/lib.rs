//! The file system client role: names, attributes and data of a file system, as capabilities allow; and the objects and
//! monitor commands that a library offers beside it.
//!
//! [`Client`] is one node with one request table. Entry points: `client.rs` (the table and how it settles), `namespace.rs`, `io.rs`
//! and `dir.rs` (the operations), `caps.rs` and `mds.rs` (the MDS's side).
//!
//! Absent: a cache of file data for reading (the kernel's page cache above is that, by the right of `Fc`), snapshots, quotas,
//! asynchronous creates, several active ranks.

mod api;
mod cache;
mod caps;
mod client;
mod config;
mod dir;
mod dirty;
mod inode;
mod io;
mod mds;
mod namespace;
mod objects;

pub use api::*;
pub use client::Client;
pub use config::{ClientConfig, ClientOptions};
pub use rados::SnapContext;
