//! The file system client role: names, attributes and data of a file system, as capabilities allow; and the
//! objects and monitor commands that a library offers beside it.
//!
//! [`Client`] is one node with one table of operations (`client.rs`, `op.rs`). Its owners: `cache.rs` with
//! `inode/` (inodes, names and the rights by which they are believed), `sessions/` (one session for each
//! rank of the metadata cluster), `services.rs` (monitors and OSDs), `handles.rs` (open files) with
//! `file_locks.rs`. The operations: `namespace.rs` with `acls.rs`, `asynchronous.rs`,
//! `snapshots.rs`, `data.rs`, `directories.rs`, `locks.rs`, `sync.rs`, `objects.rs`.
//!
//! Absent: a cache of file data for reading (the kernel's page cache above is that, by the right of `Fc`),
//! capabilities of several ranks on one inode.

mod acl;
mod acls;
mod api;
mod asynchronous;
mod buffer;
mod by_number;
mod cache;
mod client;
mod comeback;
mod config;
mod copy;
mod data;
mod deadlines;
mod dir_handle;
mod directories;
mod dirty;
mod file_locks;
mod gathered;
mod handles;
mod inode;
mod key;
mod layout_json;
mod locks;
mod mds_request;
mod mode;
mod names;
mod namespace;
mod numbers;
mod objects;
mod op;
mod partition;
mod privileges;
mod promise;
mod quotas;
mod realms;
mod references;
mod releases;
mod requests;
mod search;
mod seek;
mod services;
mod session;
mod sessions;
mod settle;
mod snapshots;
mod statfs;
mod sync;
mod transfer;
mod unwanted;
mod window;
mod xattrs;

pub use api::*;
pub use client::Client;
pub use config::{ClientConfig, ClientOptions};
pub use numbers::{inode_in_snapshot, number_in_snapshot};
pub use rados::SnapContext;
pub use wire::Errno;
