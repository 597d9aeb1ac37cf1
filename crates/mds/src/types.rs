//! Ids and small types that all of the metadata server shares.

use fsfmt::{DentryKey, DirFrag, Ino, InodeKey};
use maps::{MdsRank, SnapId};
use std::num::NonZeroU64;
use wire::Errno;

stdx::ids! {
    /// A client, by its global id.
    pub struct ClientId(u64) = "client.{}";
    /// A running operation.
    pub struct OpId(u64) = "op{}";
    /// An object operation in flight.
    pub struct IoId(u64) = "io{}";
}

impl OpId {
    /// The fence around changes of the table of snapshots, which revokes bits as operations do: no client's
    /// operation has this number.
    pub const FENCE: Self = Self(0);
    /// Replicas of directories, which withhold bits as operations do.
    pub const REPLICA: Self = Self(u64::MAX);
}

/// Another rank of the file system, as a message of it comes in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RankPeer {
    /// Number of the rank.
    pub rank: MdsRank,
    /// Number of servers that have held it.
    pub incarnation: i32,
}

/// The sequence number of a journal event; 0 before the first.
pub type Lsn = u64;
/// The number of a journal object.
pub type Segment = u64;

/// An event's place in the journal, and its author.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Its number.
    pub lsn: Lsn,
    /// The journal object that it is in.
    pub segment: Segment,
    /// The client that asked for it and repeats the request if a crash loses the event.
    pub author: Option<ClientId>,
}

/// The events that changed an item last; none if it was only loaded. A client may be shown an event of its
/// own before it is durable, for it repeats the request if a crash loses the event; what others did it is
/// shown only when a crash can't undo it. Hence the newest event by anybody else is kept beside the newest
/// one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LastChange {
    lsn: Lsn,
    /// No client has the id 0; one that says so counts as nobody.
    author: Option<NonZeroU64>,
    by_others: Lsn,
}

impl LastChange {
    /// An item that an event made.
    pub fn new(origin: Origin) -> Self {
        Self { lsn: origin.lsn, author: origin.author.and_then(author), by_others: 0 }
    }

    /// Notes a newer event.
    pub fn note(&mut self, origin: Origin) {
        let author = origin.author.and_then(author);
        if author.is_none() || author != self.author {
            self.by_others = self.lsn;
        }
        (self.lsn, self.author) = (origin.lsn, author);
    }

    /// The last change of two items that become one.
    pub fn joined(self, other: Self) -> Self {
        let (newer, older) = if self.lsn >= other.lsn { (self, other) } else { (other, self) };
        let seen = newer.author.map_or(older.lsn, |author| older.before(ClientId(author.get())));
        Self { by_others: newer.by_others.max(seen), ..newer }
    }

    /// True if the newest event is known to be a client's.
    pub fn is_by(self, client: ClientId) -> bool {
        self.author.is_some() && self.author == author(client)
    }

    /// The newest event.
    pub fn lsn(self) -> Lsn {
        self.lsn
    }

    /// The event that must be durable before `client` is shown the item.
    pub fn before(self, client: ClientId) -> Lsn {
        if self.is_by(client) { self.by_others } else { self.lsn }
    }
}

fn author(client: ClientId) -> Option<NonZeroU64> {
    NonZeroU64::new(client.0)
}

/// The snapshots that a write to an inode must preserve.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SnapContext {
    /// The newest snapshot that changed the realm.
    pub seq: SnapId,
    /// The snapshots, newest first.
    pub snaps: Vec<SnapId>,
}

/// Place of a dentry: the directory's fragment, and the key in it.
pub type Place = (DirFrag, DentryKey);

/// A holder of a capability: a client, or a rank that keeps a replica of the inode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Holder {
    /// A client's session.
    Client(ClientId),
    /// A rank; there is none yet that keeps replicas.
    Rank(MdsRank),
}

impl Holder {
    /// The client, if it is one.
    pub fn client(self) -> Option<ClientId> {
        match self {
            Self::Client(client) => Some(client),
            Self::Rank(_) => None,
        }
    }
}

impl From<ClientId> for Holder {
    fn from(client: ClientId) -> Self {
        Self::Client(client)
    }
}

impl From<MdsRank> for Holder {
    fn from(rank: MdsRank) -> Self {
        Self::Rank(rank)
    }
}

impl From<&ClientId> for Holder {
    fn from(client: &ClientId) -> Self {
        Self::Client(*client)
    }
}

/// Something that an operation lacks for its decision.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Need {
    /// One entry of a fragment.
    Dentry(DirFrag, DentryKey),
    /// The entries of a fragment after an omap key.
    Page(DirFrag, Vec<u8>),
    /// An inode, found through the inode index.
    Inode(InodeKey),
    /// All holders but one must give up cap bits of an inode.
    Revoke {
        /// The inode concerned.
        ino: InodeKey,
        /// The holder that may keep them.
        except: Option<Holder>,
        /// Bits to be given back.
        mask: u32,
    },
    /// The truncation of a file's objects must end.
    Truncated(InodeKey),
    /// A file's data that are in the journal only must be stored in its objects.
    Stored(InodeKey),
    /// A file lock must become free.
    Lock(InodeKey),
    /// A new snapshot id, from the monitors.
    SnapId,
    /// Clients that have not returned since the restart: what they may write is not known.
    Absent,
    /// A repeated request that another client was told had succeeded must have been carried out.
    Promised,
    /// An earlier asynchronous request of the same client must have been carried out.
    Earlier(OpId),
    /// Another rank has the authority: the client asks that one.
    Remote(MdsRank),
    /// The subtree of this root must have been handed over.
    Thaw(Ino),
    /// Clients must know that what they hold of an inode has come to this rank.
    Announced(InodeKey),
    /// The operation needs all of two subtrees, of which this rank has one: they must be together.
    Together {
        /// The root of the one that this rank has.
        here: Ino,
        /// The root of the other.
        there: Ino,
    },
    /// Other ranks must give their replicas of a directory back.
    Alone(Ino),
    /// The other ranks must wait for a change of the table of snapshots.
    Fence,
    /// An inode that is not found: other ranks must have stored what they have in their journals.
    Sought(InodeKey),
}

impl Need {
    /// True if it may be met by any change of the partition.
    pub fn is_of_ranks(&self) -> bool {
        matches!(self, Self::Remote(_) | Self::Together { .. } | Self::Thaw(_) | Self::Alone(_))
    }
}

/// Something stored that can be damaged.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Damaged {
    /// A fragment: none of its entries is known.
    Frag(DirFrag),
    /// An entry.
    Entry(DirFrag, DentryKey),
    /// An inode that is stored alone, or an inode's statistics.
    Inode(InodeKey),
    /// An inode's place in the inode index.
    BackTrace(InodeKey),
}

/// A damaged item, and what is wrong with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The item.
    pub item: Damaged,
    /// What is wrong.
    pub why: String,
}

impl Damage {
    /// An item that is damaged.
    pub fn new(item: Damaged, why: impl Into<String>) -> Self {
        Self { item, why: why.into() }
    }
}

/// The reason why an operation is not decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// It lacks something.
    Need(Vec<Need>),
    /// The operation fails.
    Fail(Errno),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Fail(errno)
    }
}

impl From<Need> for Stop {
    fn from(need: Need) -> Self {
        Self::Need(vec![need])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two items that are joined show what each of them shows.
    #[test]
    fn a_joined_change_waits_for_both() {
        let origin = |lsn, author: u64| Origin { lsn, segment: 1, author: Some(ClientId(author)) };
        let item = |events: &[(Lsn, u64)]| {
            let mut change = LastChange::default();
            events.iter().for_each(|(lsn, author)| change.note(origin(*lsn, *author)));
            change
        };
        let items = [&[][..], &[(1, 4)], &[(2, 5)], &[(3, 4), (6, 5)], &[(4, 5), (7, 5)], &[(5, 0), (8, 4)]];
        for (a, b) in items.iter().flat_map(|a| items.iter().map(move |b| (item(a), item(b)))) {
            let both = a.joined(b);
            assert_eq!((both, both.lsn()), (b.joined(a), a.lsn().max(b.lsn())));
            for client in [ClientId(4), ClientId(5), ClientId(6)] {
                assert_eq!(both.before(client), a.before(client).max(b.before(client)), "{a:?} {b:?}");
            }
        }
    }
}
