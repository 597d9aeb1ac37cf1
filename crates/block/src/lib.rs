//! Block-device images in the format of Ceph's `rbd` (format 2), and the protocol by which machines use them
//! as disks (NBD). State machines without sockets, threads or clocks: a program drives them with a client of
//! the cluster.
//!
//! - [`Image`] is an open image (`image/`): data, lock, snapshots, size.
//! - [`list`], [`info`], [`create`], [`clone()`] are flows about images that are not open
//!   (`maintain/pool.rs`), run by [`Script`].
//! - [`nbd`] is the server's end of a connection.
//!
//! Below these: `script.rs` is how flows of several steps are written; `call.rs` is what they ask of the
//! world; `header.rs`, `layer.rs` (parents), `map.rs` (object maps), `lock.rs` and `notify.rs` are the parts
//! of the format; `change.rs` is a change of one data object.
//!
//! Absent: journals, mirroring, encryption, migration, images of format 1, a cache.

mod call;
mod change;
mod error;
#[cfg(test)]
mod fake;
mod format;
mod header;
mod image;
mod layer;
mod lock;
mod maintain;
mod map;
pub mod nbd;
mod notify;
mod operation;
mod script;

pub use call::{Answer, Call, ObjectCall, Place};
pub use error::Error;
pub use format::{ChildSpec, ParentSpec, SnapInfo, SnapNamespace, feature};
pub use header::{Header, Snap};
pub use image::{Access, Image, Input, Opened, Output, Request, Spec};
pub use maintain::{Listed, NewImage, clone, create, info, list, remove_remains};
pub use operation::{Operation, Reply};
pub use script::{Cx, Flow, Progress, Script, Stop};
