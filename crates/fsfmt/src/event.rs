//! A journal event: everything that one operation changed, as after-images, so that replay applies it again without
//! knowing the operation and without harm when it was already applied.

use crate::tables::SessionRecord;
use crate::{Dentry, DentryKey, DirFrag, Ino, InodeData};
use stdx::Rng;
use wire::{Decode, DecodeError, Encode, Reader, Sample, Utime, Writer};

/// One change.
#[derive(Clone, PartialEq, Debug)]
pub enum Update {
    /// An entry is now this, or gone.
    Dentry {
        /// The directory's fragment.
        dir: DirFrag,
        /// The name.
        key: DentryKey,
        /// The entry, inode included.
        value: Option<Box<Dentry>>,
    },
    /// An inode without a dentry (a root, a rank's own directory) is now this.
    Base(Box<InodeData>),
    /// This inode is gone for good: its index entry goes as well.
    Forget(Ino),
    /// Inode numbers below this are in use.
    InoNext(u64),
    /// A client's session is open.
    SessionOpen {
        /// Its global id.
        client: u64,
        /// What is known of it.
        record: Box<SessionRecord>,
    },
    /// A client's session has ended.
    SessionClose {
        /// Its global id.
        client: u64,
    },
    /// This event is what a client's request did.
    Completed {
        /// Its global id.
        client: u64,
        /// The request's tid.
        tid: u64,
        /// The inode it made, or 0.
        ino: Ino,
    },
    /// This event is what a client's flush of dirty attributes did.
    Flushed {
        /// Its global id.
        client: u64,
        /// The flush's tid.
        tid: u64,
    },
    /// The subtrees of this rank: (root, rank).
    Subtrees(Vec<(DirFrag, i32)>),
    /// The rank goes on, or went on, without these clients, and what they believe is in doubt; of all others it is not.
    Missing {
        /// Their global ids.
        clients: Vec<u64>,
    },
}

impl Encode for Update {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Dentry { dir, key, value } => {
                w.put(&1u8);
                w.put(dir);
                w.put(key);
                w.put(value);
            }
            Self::Base(inode) => {
                w.put(&2u8);
                w.put(&**inode);
            }
            Self::Forget(ino) => {
                w.put(&3u8);
                w.put(ino);
            }
            Self::InoNext(next) => {
                w.put(&4u8);
                w.put(next);
            }
            Self::SessionOpen { client, record } => {
                w.put(&5u8);
                w.put(client);
                w.put(&**record);
            }
            Self::SessionClose { client } => {
                w.put(&6u8);
                w.put(client);
            }
            Self::Completed { client, tid, ino } => {
                w.put(&7u8);
                w.put(client);
                w.put(tid);
                w.put(ino);
            }
            Self::Flushed { client, tid } => {
                w.put(&8u8);
                w.put(client);
                w.put(tid);
            }
            Self::Subtrees(map) => {
                w.put(&9u8);
                w.put(map);
            }
            Self::Missing { clients } => {
                w.put(&10u8);
                w.put(clients);
            }
        }
    }
}

impl Decode for Update {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match r.get::<u8>()? {
            1 => Self::Dentry { dir: r.get()?, key: r.get()?, value: r.get()? },
            2 => Self::Base(r.get()?),
            3 => Self::Forget(r.get()?),
            4 => Self::InoNext(r.get()?),
            5 => Self::SessionOpen { client: r.get()?, record: r.get()? },
            6 => Self::SessionClose { client: r.get()? },
            7 => Self::Completed { client: r.get()?, tid: r.get()?, ino: r.get()? },
            8 => Self::Flushed { client: r.get()?, tid: r.get()? },
            9 => Self::Subtrees(r.get()?),
            10 => Self::Missing { clients: r.get()? },
            other => return Err(r.error(format!("update kind {other}"))),
        })
    }
}

impl Sample for Update {
    fn sample(rng: &mut Rng) -> Self {
        let client = rng.u64();
        match rng.below(10) {
            0 => Self::Dentry {
                dir: Sample::sample(rng),
                key: Sample::sample(rng),
                value: Sample::sample(rng),
            },
            1 => Self::Base(Sample::sample(rng)),
            2 => Self::Forget(Sample::sample(rng)),
            3 => Self::InoNext(Sample::sample(rng)),
            4 => Self::SessionOpen { client, record: Sample::sample(rng) },
            5 => Self::SessionClose { client },
            6 => Self::Completed { client, tid: Sample::sample(rng), ino: Sample::sample(rng) },
            7 => Self::Flushed { client, tid: Sample::sample(rng) },
            8 => Self::Missing { clients: Sample::sample(rng) },
            _ => Self::Subtrees(vec![(Sample::sample(rng), 0)]),
        }
    }
}

wire::wire_structs! {
    /// One atomic change of the file system's metadata.
    pub struct Event[v 1/1] {
        /// When.
        pub stamp: Utime,
        /// The operation, for people.
        pub what: String,
        /// Its changes, in order.
        pub updates: Vec<Update>,
    }
}
