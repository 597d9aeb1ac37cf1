//! Stored formats of the metadata server, each with a version header (docs/design.md, decisions 9 and 10).
//!
//! A directory fragment is one object of the metadata pool, `INO.FRAG` in hex, whose omap holds a [`Dentry`]
//! for each name under a key that sorts as `readdir` pages ([`DentryKey`]). Inodes are embedded in their
//! primary dentry. The journal is a row of objects with framed [`Event`]s ([`journal`]). Tables are small
//! objects of their own ([`tables`]). `tests/golden` has a sample of each structure.

mod dentry;
mod event;
mod frag;
mod ino;
mod inode;
pub mod journal;
mod journal_scan;
mod keys;
pub mod names;
mod parts;
mod pending;
mod pending_tables;
pub mod ranges;
mod refragment;
mod shard;
mod snapshot;
mod sparse;
mod subject;
mod subtree;
pub mod tables;
mod txn;

pub use dentry::{Dentry, Fnode, Link};
pub use event::{Event, PreparedTxn, Subtree, Update};
pub use frag::{Frag, FragTree};
pub use ino::{Ino, InoRange, InodeKey, mode};
pub use inode::InodeData;
pub use journal_scan::{JournalScan, Scanned, ScannedEvent};
pub use keys::{DentryKey, DirFrag};
pub use parts::{
    Ancestor, BackPointer, ClientRange, Counted, DirStat, NestStat, PackRecord, PackedData, Pin, Quota,
};
pub use pending::Pending;
pub use pending_tables::PendingTables;
pub use refragment::Refragment;
pub use snapshot::{OldInode, Realm, SnapInfo, SnapRecord, SnapTable, snap_key, snap_state};
pub use subtree::{
    PrefixEntry, SubtreeRecord, border_key, parse_border_key, parse_replica_key, parse_subtree_key,
    replica_key, subtree_key,
};
pub use txn::{TxnId, txn_key};
