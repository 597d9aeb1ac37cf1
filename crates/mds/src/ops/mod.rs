//! The metadata operations, one file each. `prepare` reads and decides; it changes nothing and may be
//! restarted any number of times. Its result is a [`Plan`]: after-images for one journal event, and the
//! answer.

mod context;
mod draft;
mod getattr;
mod link;
mod lock;
mod lookup;
mod make;
mod open;
mod readdir;
mod rename;
mod setattr;
mod snap;
mod unlink;
mod xattr;

pub use context::{Cx, max_size_step};
pub use draft::{Draft, shift};

use crate::types::{Place, Stop};
use fsfmt::{Frag, Ino, InodeKey, Update};
use maps::MdsRank;
use msgs::MdsOp;
use std::collections::BTreeMap;
use wire::Errno;

/// The changes and the answer of an operation.
#[derive(Default, Debug)]
pub struct Plan {
    /// This rank's changes, journaled as one event.
    pub local: Vec<Update>,
    /// Changes under other ranks' authority. With any, the operation becomes a transaction of all of them;
    /// with one rank there are none.
    pub remote: BTreeMap<MdsRank, Vec<Update>>,
    /// The inode that it creates, or 0.
    pub created: Ino,
    /// The client's answer.
    pub reply: Reply,
    /// Inodes whose caps must be evaluated again.
    pub touched: Vec<InodeKey>,
    /// A file lock to set.
    pub lock: Option<LockChange>,
}

/// The content of an answer.
#[derive(Default, Debug)]
pub struct Reply {
    /// 0, or a negative errno that comes with a trace.
    pub result: i32,
    /// Directory and name that the client learns of.
    pub dentry: Option<Place>,
    /// Inode that it learns of.
    pub target: Option<InodeKey>,
    /// Cap bits of the target that it wants from now on.
    pub want: u32,
    /// Further content that depends on the operation.
    pub extra: Extra,
}

/// The part of an answer that depends on the operation.
#[derive(Default, Debug)]
pub enum Extra {
    /// No further content.
    #[default]
    None,
    /// The created inode.
    Created(Ino),
    /// Content that is already encoded.
    Bytes(Vec<u8>),
    /// Entries of a directory.
    Listing {
        /// The listed fragment.
        frag: Frag,
        /// Names and inodes.
        entries: Vec<(Vec<u8>, InodeKey)>,
        /// Bits of `readdir_flag`.
        flags: u16,
        /// Bytes that the answer may have.
        max_bytes: usize,
    },
}

/// A file lock that is set or freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockChange {
    /// The file concerned.
    pub ino: InodeKey,
    /// True for fcntl, false for flock.
    pub posix: bool,
    /// Shared, exclusive or free.
    pub kind: u8,
    /// Its number within the client.
    pub owner: u64,
    /// Process that locks.
    pub pid: u64,
    /// First byte of the range.
    pub start: u64,
    /// Bytes; 0 to the end.
    pub length: u64,
}

/// Decides an operation.
pub fn prepare(cx: &Cx<'_>) -> Result<Plan, Stop> {
    // Locks are not in the journal: a lock requested again is set again.
    if let Some(created) = cx.done.filter(|_| cx.request.op != MdsOp::SETFILELOCK) {
        return replayed(cx, created);
    }
    cx.check_access()?;
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
        MdsOp::SETATTR => setattr::prepare(cx),
        MdsOp::READDIR => readdir::prepare(cx),
        MdsOp::SETXATTR => xattr::set(cx),
        MdsOp::RMXATTR => xattr::remove(cx),
        MdsOp::GETVXATTR => xattr::get_virtual(cx),
        MdsOp::SETFILELOCK => lock::set(cx),
        MdsOp::GETFILELOCK => lock::get(cx),
        MdsOp::LSSNAP => snap::list(cx),
        MdsOp::LOOKUPSNAP => Err(Errno::ENOENT.into()),
        MdsOp::MKSNAP | MdsOp::RMSNAP | MdsOp::RENAMESNAP => Err(Errno::EPERM.into()),
        _ => Err(Errno::EOPNOTSUPP.into()),
    }
}

/// Answers a request that was executed before, but whose answer was lost with an earlier incarnation. The
/// answer describes the present state, which others may have changed since. It never fails.
fn replayed(cx: &Cx<'_>, created: Ino) -> Result<Plan, Stop> {
    let mut reply = match what_is_left(cx, created) {
        Err(Stop::Fail(_)) => Reply::default(),
        other => other?,
    };
    if created.0 != 0 {
        reply.extra = Extra::Created(created);
    }
    Ok(Plan { reply, ..Plan::default() })
}

/// The inode that an executed request made or changed, and its name if that still leads there.
fn what_is_left(cx: &Cx<'_>, created: Ino) -> Result<Reply, Stop> {
    let op = cx.request.op;
    let mut reply = Reply::default();
    if cx.request.path.path.is_empty() {
        reply.target = Some(cx.resolve(&cx.request.path)?.ino);
    } else {
        let made = match op {
            MdsOp::LINK => Some(cx.resolve(&cx.request.path2)?.ino),
            _ if created.0 != 0 => Some(created.head()),
            _ => None,
        };
        if let Some(ino) = made {
            cx.inode(ino)?;
            reply.target = made;
        }
        match named(cx) {
            // The name may lead to a successor of what was removed or renamed.
            Ok((place, found)) if made.is_none() || made == found => {
                (reply.dentry, reply.target) = (Some(place), found);
            }
            Ok(_) | Err(Stop::Fail(_)) => {}
            Err(need) => return Err(need),
        }
    }
    if let Some(ino) = reply.target
        && matches!(op, MdsOp::CREATE | MdsOp::OPEN)
        && cx.inode(ino)?.data.is_file()
    {
        reply.want = open::wanted(cx.request.args.get::<msgs::OpenArgs>().flags);
    }
    Ok(reply)
}

/// The request's name, and the inode that it leads to.
fn named(cx: &Cx<'_>) -> Result<(Place, Option<InodeKey>), Stop> {
    let (dir, key) = cx.parent(&cx.request.path)?;
    let found = cx.entry(dir, &key)?.inode();
    if let Some(ino) = found {
        cx.inode(ino)?;
    }
    Ok(((dir, key), found))
}
