//! The metadata operations, one file each. `prepare` reads and decides; it changes nothing and may be
//! restarted any number of times. Its result is a [`Plan`]: after-images for one journal event, and the
//! answer.
//!
//! This file only chooses the operation. The operations import the view (`context.rs`), the plan (`plan.rs`)
//! and one another's helpers, never this file.

mod context;
mod directory;
mod draft;
mod flags;
mod getattr;
mod layout;
mod link;
mod lock;
mod lookup;
mod make;
mod open;
mod open_flags;
mod path;
mod pin;
mod plan;
mod promises;
mod quota;
mod readdir;
mod rename;
mod replayed;
mod setattr;
mod snap;
mod store;
mod unlink;
mod view;
mod xattr;

pub use context::{AsyncWork, Cx, max_size_step, may_all_write};
pub use draft::{Draft, count, shift};
pub use flags::{is_async, is_replay};
pub use path::base;
pub use pin::shown as shown_pin;
pub use plan::{Extra, Listed, Plan, RealmChange, Reply, Snapped, View};
pub use promises::{Promise, Promises};

use crate::types::Stop;
use msgs::MdsOp;
use wire::Errno;

/// Decides an operation.
pub fn prepare(cx: &Cx<'_>) -> Result<Plan, Stop> {
    // Locks are not in the journal: a lock requested again is set again.
    if let Some(created) = cx.done.filter(|_| cx.request.op != MdsOp::SETFILELOCK) {
        return replayed::prepare(cx, created);
    }
    cx.check_access()?;
    if view::is_of_snapshot(cx) {
        return view::prepare(cx);
    }
    match cx.request.op {
        MdsOp::LOOKUP => lookup::by_path(cx),
        MdsOp::LOOKUPINO => lookup::by_ino(cx),
        MdsOp::LOOKUPPARENT => lookup::parent(cx),
        MdsOp::LOOKUPNAME => lookup::name(cx),
        MdsOp::GETATTR => getattr::prepare(cx),
        MdsOp::OPEN => open::open(cx),
        MdsOp::CREATE => open::create(cx),
        MdsOp::MKNOD | MdsOp::MKDIR | MdsOp::SYMLINK => make::prepare(cx),
        MdsOp::LINK => link::prepare(cx),
        MdsOp::UNLINK | MdsOp::RMDIR => unlink::prepare(cx),
        MdsOp::RENAME => rename::prepare(cx),
        MdsOp::RENAME_FLAGS => rename::with_flags(cx),
        MdsOp::STORE_DATA => store::prepare(cx),
        MdsOp::SETATTR => setattr::prepare(cx),
        MdsOp::READDIR => readdir::prepare(cx),
        MdsOp::SETXATTR => xattr::set(cx),
        MdsOp::RMXATTR => xattr::remove(cx),
        MdsOp::SETLAYOUT | MdsOp::SETDIRLAYOUT => layout::set_whole(cx),
        MdsOp::GETVXATTR => xattr::get_virtual(cx),
        MdsOp::SETFILELOCK => lock::set(cx),
        MdsOp::GETFILELOCK => lock::get(cx),
        MdsOp::LSSNAP => snap::list(cx),
        MdsOp::LOOKUPSNAP => snap::lookup(cx),
        MdsOp::MKSNAP => snap::make(cx),
        MdsOp::RMSNAP => snap::remove(cx),
        MdsOp::RENAMESNAP => snap::rename(cx),
        _ => Err(Errno::EOPNOTSUPP.into()),
    }
}
