//! What the metadata server stores in RADOS, each format with a version header (DESIGN, decisions 9 and 10).
//!
//! A directory fragment is one object of the metadata pool, `INO.FRAG` in hex, whose omap holds a [`Dentry`] for each
//! name under a key that sorts as `readdir` pages ([`DentryKey`]). Inodes are embedded in their primary dentry. The
//! journal is a row of objects with framed [`Event`]s ([`journal`]). Tables are small objects of their own
//! ([`tables`]). All of it can be read by `inspect`.

mod dentry;
mod event;
mod frag;
mod inode;
pub mod journal;
mod keys;
pub mod names;
pub mod tables;

pub use dentry::{Dentry, DentryKey, Fnode, Link};
pub use event::{Event, Update};
pub use frag::{Frag, FragTree};
pub use inode::{BackPointer, ClientRange, DirStat, Ino, InodeData, NestStat, Quota, mode};
pub use keys::{DirFrag, InodeKey};
