//! The object store: a state machine over disk operations.
//!
//! Transactions over objects with data, xattrs and omap are made durable by one write-ahead log with group
//! commit. What they change is kept in a table in memory until a checkpoint merges it into a copy-on-write
//! tree on the device; what is stored is in `docs/format.md`. Reading path: [`api`](Transaction), `store`
//! (the loop and its stages), `commit`, `plan` with `steps` and `extents` (what a transaction does), `table`
//! and `tree` (where entries are), `checkpoint` with `merge`, `open`; [`inspect`](mod@inspect) says what
//! must agree with what.
//!
//! Memory is bounded by [`Config`] and the log's size, not by the number of objects; the map of free blocks
//! takes 1 bit for each 4 KiB of the device.

mod ages;
mod alloc;
mod api;
mod apply;
mod cache;
mod checkpoint;
mod commit;
mod config;
mod core;
mod crc;
mod extents;
mod inspect;
mod io;
mod key;
mod logged;
mod merge;
mod olds;
mod onode;
mod open;
mod page;
mod plan;
mod read;
mod retired;
mod ring;
mod share;
mod space_map;
mod stop;
mod store;
mod superblock;
mod table;
mod tree;
mod trim;

pub use api::*;
pub use config::{Config, Identity, Memory, MkfsInfo, Refusal};
pub use inspect::{Depth, ReadAt, Report, identify, inspect};
pub use logged::MAX_OBJECT_BYTES;
pub use store::Store;
