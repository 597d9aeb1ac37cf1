//! What an owner asks for: a mode on a range of a file.

use crate::types::ClientId;
use fsfmt::InodeKey;
use msgs::{FileLock, FileLockArgs, lock_kind, lock_rule};
use wire::Errno;

/// Holder of a lock: client, owner within the client, and process.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// The client that locks.
    pub client: ClientId,
    /// Its number within the client.
    pub owner: u64,
    /// Its process, shown to others; part of the identity only if `owner` is of the old kind (top bit clear).
    pub pid: u64,
}

/// What tells owners apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Identity(ClientId, u64, u64);

impl Identity {
    /// The client of the owner.
    pub(super) fn client(self) -> ClientId {
        self.0
    }
}

impl Owner {
    const NEW_KIND: u64 = 1 << 63;

    pub(super) fn identity(&self) -> Identity {
        let pid = if self.owner & Self::NEW_KIND == 0 { self.pid } else { 0 };
        Identity(self.client, self.owner, pid)
    }
}

/// The call that sets a lock. The two kinds of locks do not see each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// fcntl(2), on byte ranges.
    Posix,
    /// flock(2), on whole files.
    Flock,
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// A lock beside other shared ones.
    Shared,
    /// A lock beside no other.
    Exclusive,
    /// No lock.
    Free,
}

impl Mode {
    fn of(kind: u8) -> Option<Self> {
        match kind {
            lock_kind::SHARED => Some(Self::Shared),
            lock_kind::EXCLUSIVE => Some(Self::Exclusive),
            lock_kind::UNLOCK => Some(Self::Free),
            _ => None,
        }
    }

    pub(super) fn to_wire(self) -> u8 {
        match self {
            Self::Shared => lock_kind::SHARED,
            Self::Exclusive => lock_kind::EXCLUSIVE,
            Self::Free => lock_kind::UNLOCK,
        }
    }
}

/// A mode that an owner asks for on a range of a file.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// The file.
    pub ino: InodeKey,
    /// The call.
    pub style: Style,
    /// Who asks.
    pub owner: Owner,
    /// What is asked for.
    pub mode: Mode,
    /// First byte of the range.
    pub first: u64,
    /// Last byte of the range.
    pub last: u64,
}

impl Style {
    /// The number of the call in requests.
    pub fn rule(self) -> u8 {
        match self {
            Self::Posix => lock_rule::FCNTL,
            Self::Flock => lock_rule::FLOCK,
        }
    }
}

impl Ask {
    /// The lock of a request; an interrupt is none.
    pub fn new(ino: InodeKey, client: ClientId, args: &FileLockArgs) -> Result<Self, Errno> {
        let style = match args.rule {
            lock_rule::FCNTL => Style::Posix,
            lock_rule::FLOCK => Style::Flock,
            _ => return Err(Errno::EINVAL),
        };
        let mode = Mode::of(args.kind).ok_or(Errno::EINVAL)?;
        let owner = Owner { client, owner: args.owner, pid: args.pid };
        let (first, last) = ends(args.start, args.length);
        Ok(Self { ino, style, owner, mode, first, last })
    }

    /// The lock that a client claims to hold; `None` if it names no mode that can be held.
    pub(super) fn claimed(ino: InodeKey, client: ClientId, style: Style, lock: &FileLock) -> Option<Self> {
        let mode = Mode::of(lock.kind).filter(|mode| *mode != Mode::Free)?;
        let owner = Owner { client, owner: lock.owner, pid: lock.pid };
        let (first, last) = ends(lock.start, lock.length);
        Some(Self { ino, style, owner, mode, first, last })
    }
}

/// First and last byte of a range of the protocol, where length 0 reaches to the end.
fn ends(start: u64, length: u64) -> (u64, u64) {
    (start, if length == 0 { u64::MAX } else { start.saturating_add(length - 1) })
}
