//! Class `lock`: advisory locks on an object, each with a name.

use std::collections::BTreeMap;
use wire::{EntityAddr, EntityId, Utime, wire_structs};

/// Kinds of locks.
pub mod kind {
    /// One holder at a time.
    pub const EXCLUSIVE: u8 = 1;
    /// Several holders, who give the same tag.
    pub const SHARED: u8 = 2;
    /// Exclusive; the object is deleted with the lock.
    pub const EPHEMERAL: u8 = 3;

    /// True for a kind that there is.
    pub fn is_known(kind: u8) -> bool {
        matches!(kind, EXCLUSIVE | SHARED | EPHEMERAL)
    }
}

wire_structs! {
    /// Holder of a lock.
    #[derive(Eq, PartialOrd, Ord)]
    pub struct LockerId[v 1/1] {
        /// The client that holds it.
        pub client: EntityId,
        /// The client's name for the lock.
        pub cookie: Vec<u8>,
    }

    /// What a lock records about a holder.
    pub struct Locker[v 1/1] {
        /// Time at which it expires; zero for never.
        pub expiration: Utime,
        /// Address of the client.
        pub addr: EntityAddr,
        /// Description given by the client.
        pub description: Vec<u8>,
    }

    /// A lock; also what `get_info` gives.
    pub struct LockInfo[v 1/1] {
        /// The holders of the lock.
        pub lockers: BTreeMap<LockerId, Locker>,
        /// One of [`kind`].
        pub kind: u8,
        /// A shared lock is shared only by those who give this tag.
        pub tag: Vec<u8>,
    }

    /// The input of `lock`.
    pub struct LockOp[v 1/1] {
        /// The lock.
        pub name: Vec<u8>,
        /// One of [`kind`].
        pub kind: u8,
        /// The client's name for it.
        pub cookie: Vec<u8>,
        /// See [`LockInfo::tag`].
        pub tag: Vec<u8>,
        /// Shown to people.
        pub description: Vec<u8>,
        /// Time after which it expires; zero for never.
        pub duration: Utime,
        /// 1: a holder may take it again; 2: only a holder may.
        pub flags: u8,
    }

    /// The input of `unlock`.
    pub struct UnlockOp[v 1/1] {
        /// The lock.
        pub name: Vec<u8>,
        /// The client's name for it.
        pub cookie: Vec<u8>,
    }

    /// The input of `break_lock`.
    pub struct BreakOp[v 1/1] {
        /// The lock.
        pub name: Vec<u8>,
        /// The holder that loses it.
        pub locker: EntityId,
        /// The holder's name for it.
        pub cookie: Vec<u8>,
    }

    /// The input of `get_info`.
    pub struct GetInfoOp[v 1/1] {
        /// The lock.
        pub name: Vec<u8>,
    }

    /// What `list_locks` gives.
    pub struct ListLocksReply[v 1/1] {
        /// Names of locks.
        pub locks: Vec<Vec<u8>>,
    }

    /// The input of `assert_locked`.
    pub struct AssertOp[v 1/1] {
        /// The lock.
        pub name: Vec<u8>,
        /// One of [`kind`].
        pub kind: u8,
        /// The client's name for it.
        pub cookie: Vec<u8>,
        /// See [`LockInfo::tag`].
        pub tag: Vec<u8>,
    }

    /// The input of `set_cookie`.
    pub struct SetCookieOp[v 1/1] {
        /// The lock.
        pub name: Vec<u8>,
        /// One of [`kind`].
        pub kind: u8,
        /// The client's name for it.
        pub cookie: Vec<u8>,
        /// See [`LockInfo::tag`].
        pub tag: Vec<u8>,
        /// The client's name for it from now on.
        pub new_cookie: Vec<u8>,
    }
}
