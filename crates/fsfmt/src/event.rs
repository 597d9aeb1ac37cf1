//! A journal event: everything that one operation changed, as after-images, so that replay applies it again
//! without knowing the operation and without harm when it was already applied.

use crate::tables::{LockRecord, SessionRecord};
use crate::{
    Counted, Dentry, DentryKey, DirFrag, Fnode, Ino, InoRange, InodeData, InodeKey, PackRecord, SnapRecord,
    SnapTable, TxnId,
};
use maps::{MdsRank, SnapId};
use stdx::Rng;
use wire::{Decode, DecodeError, Encode, Reader, Sample, Utime, Writer};

wire::wire_structs! {
    /// The authority over a subtree: all fragments below this one, down to the next subtree.
    #[derive(Copy, Eq)]
    pub struct Subtree[v 1/1] {
        /// Its root.
        pub dir: DirFrag,
        /// The rank that has the authority.
        pub rank: MdsRank,
        /// The rank that gets it or gave it, while a migration is not decided. Filled by migration of
        /// subtrees.
        pub other: Option<MdsRank>,
    }
}

/// Declares [`Update`]: number, variant, fields in the order of their encoding.
macro_rules! updates {
    ($( $(#[$meta:meta])* $number:literal = $name:ident {
        $( $(#[$fmeta:meta])* $field:ident : $type:ty ),* $(,)?
    } )*) => {
        /// One change.
        #[derive(Clone, PartialEq, Debug)]
        pub enum Update {$(
            $(#[$meta])*
            $name {$(
                $(#[$fmeta])*
                $field: $type
            ),*},
        )*}

        impl Update {
            const NUMBERS: &'static [u8] = &[$( $number ),*];

            /// The variant's name.
            pub fn name(&self) -> &'static str {
                match self { $( Self::$name { .. } => stringify!($name), )* }
            }

            fn decode_fields(number: u8, r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                match number {
                    $( $number => Ok(Self::$name { $( $field: r.get()? ),* }), )*
                    other => Err(r.error(format!("update kind {other}"))),
                }
            }

            fn sample_fields(number: u8, rng: &mut Rng) -> Self {
                match number {
                    $( $number => Self::$name { $( $field: <$type as Sample>::sample(rng) ),* }, )*
                    _ => unreachable!("one of NUMBERS"),
                }
            }
        }

        impl Encode for Update {
            fn encode(&self, w: &mut Writer) {
                match self {$(
                    Self::$name { $( $field ),* } => {
                        w.put(&{ const NUMBER: u8 = $number; NUMBER });
                        $( w.put($field); )*
                    }
                )*}
            }
        }
    };
}

updates! {
    /// An entry is now this, or gone.
    1 = Dentry {
        /// The directory's fragment.
        dir: DirFrag,
        /// The name, and the last snapshot that this entry is in.
        key: DentryKey,
        /// The entry, inode included.
        value: Option<Box<Dentry>>,
    }
    /// An inode without a dentry (a root, a rank's own directory) is now this.
    2 = Base {
        /// The inode.
        inode: Box<InodeData>,
    }
    /// This inode is gone for good; with the live inode its index entry goes as well.
    3 = Forget {
        /// The inode.
        inode: InodeKey,
    }
    /// Inode numbers below this are in use.
    4 = InoNext {
        /// The first free number.
        next: u64,
    }
    /// A client's session is open.
    5 = SessionOpen {
        /// Its global id.
        client: u64,
        /// The session.
        record: Box<SessionRecord>,
    }
    /// A client's session has ended.
    6 = SessionClose {
        /// Its global id.
        client: u64,
    }
    /// This event carries out a client's request.
    7 = Completed {
        /// Its global id.
        client: u64,
        /// The request's tid.
        tid: u64,
        /// The inode it made, or 0.
        ino: Ino,
    }
    /// This event carries out a client's flush of dirty attributes.
    8 = Flushed {
        /// Its global id.
        client: u64,
        /// The flush's tid.
        tid: u64,
    }
    /// The subtrees that this rank knows the authority of.
    9 = Subtrees {
        /// All of them.
        subtrees: Vec<Subtree>,
    }
    /// The rank goes on, or went on, without these clients: their cached state is in doubt, that of all
    /// others is not.
    10 = Absent {
        /// Their global ids.
        clients: Vec<u64>,
    }
    /// The inode numbers that a client's session has.
    11 = InoRanges {
        /// Its global id.
        client: u64,
        /// Reserved for its creates.
        preallocated: Vec<InoRange>,
        /// Its own to use.
        delegated: Vec<InoRange>,
    }
    /// The free numbers below the next one are now these. Filled by delegated inode numbers.
    12 = InoFree {
        /// All of them.
        free: Vec<InoRange>,
    }
    /// The file locks of a client on an inode are now these. Filled by locks that survive a restart of the
    /// rank.
    13 = Locks {
        /// Its global id.
        client: u64,
        /// The file.
        ino: Ino,
        /// All of them.
        locks: Vec<LockRecord>,
    }
    /// An entry of the table of snapshots is now this, or gone. Filled by snapshots.
    14 = Snapshot {
        /// Its id.
        snap: SnapId,
        /// The entry.
        record: Option<Box<SnapRecord>>,
    }
    /// This rank's part of a transaction is prepared. Filled by operations over several ranks, as the next
    /// two are.
    15 = Prepare {
        /// The transaction.
        txn: TxnId,
        /// This rank's part.
        part: Box<PreparedTxn>,
    }
    /// A prepared part takes effect.
    16 = Commit {
        /// The transaction.
        txn: TxnId,
    }
    /// A prepared part is dropped.
    17 = Abort {
        /// The transaction.
        txn: TxnId,
    }
    /// The fragments of a directory change: entries move between objects. Filled by splitting directories.
    18 = Refragment {
        /// The fragment that is split, or into which its parts are joined.
        dir: DirFrag,
        /// Bits by which it is split; negative if its parts are joined.
        bits: i8,
        /// False when it begins, true when all entries have moved.
        is_done: bool,
    }
    /// The header of a fragment is now this. Filled by fragments on several ranks, and by snapshots, which
    /// purge the entries of removed ones.
    19 = Header {
        /// The fragment.
        dir: DirFrag,
        /// Its header.
        fnode: Box<Fnode>,
    }
    /// The head of the table of snapshots is now this. Filled by snapshots.
    20 = SnapHead {
        /// The head.
        table: Box<SnapTable>,
    }
    /// A pack of small files is now this, or gone. Filled by packed small files.
    21 = Pack {
        /// Its number.
        pack: u64,
        /// Its record.
        record: Option<PackRecord>,
    }
    /// The directory above a subtree of another rank counts this of it.
    22 = Border {
        /// The root of the subtree.
        root: Ino,
        /// Its statistics.
        counted: Counted,
    }
}

impl Update {
    const TRANSACTIONS: std::ops::RangeInclusive<u8> = 15..=17;

    /// Decodes an update of a prepared part, which holds no transactions.
    fn decode_prepared(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number = r.get()?;
        if Self::TRANSACTIONS.contains(&number) {
            return Err(r.error(format!("update kind {number} in a transaction")));
        }
        Self::decode_fields(number, r)
    }

    /// A random update of a prepared part.
    fn sample_prepared(rng: &mut Rng) -> Self {
        let allowed: Vec<u8> =
            Self::NUMBERS.iter().copied().filter(|n| !Self::TRANSACTIONS.contains(n)).collect();
        Self::sample_fields(allowed[rng.below(allowed.len() as u64) as usize], rng)
    }
}

impl Decode for Update {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number = r.get()?;
        Self::decode_fields(number, r)
    }
}

impl Sample for Update {
    fn sample(rng: &mut Rng) -> Self {
        Self::sample_fields(Self::NUMBERS[rng.below(Self::NUMBERS.len() as u64) as usize], rng)
    }
}

/// One rank's part of a transaction, prepared and not yet decided. Filled by operations over several ranks.
///
/// Each participant journals its part with [`Update::Prepare`]; the part takes effect with
/// [`Update::Commit`], or never with [`Update::Abort`].
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PreparedTxn {
    /// All ranks that have a part, the coordinator included.
    pub participants: Vec<MdsRank>,
    /// This rank's changes; none of them is about a transaction.
    pub updates: Vec<Update>,
    /// True at the coordinator once it is decided that the transaction takes effect.
    pub is_committed: bool,
    /// At the coordinator: participants that have not confirmed the decision.
    pub unconfirmed: Vec<MdsRank>,
}

impl Encode for PreparedTxn {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.participants);
            w.put(&self.updates);
            w.put(&self.is_committed);
            w.put(&self.unconfirmed);
        });
    }
}

impl Decode for PreparedTxn {
    const MIN_SIZE: usize = 19;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned(1, |_, r| {
            let participants = r.get()?;
            let count = r.count(1)?;
            let mut updates = Vec::new();
            for _ in 0..count {
                // Not `Update::decode`, which would let bytes nest transactions as deep as they like.
                updates.push(Update::decode_prepared(r)?);
            }
            Ok(Self { participants, updates, is_committed: r.get()?, unconfirmed: r.get()? })
        })
    }
}

impl Sample for PreparedTxn {
    fn sample(rng: &mut Rng) -> Self {
        let updates = (0..rng.below(3)).map(|_| Update::sample_prepared(rng)).collect();
        Self {
            participants: Sample::sample(rng),
            updates,
            is_committed: Sample::sample(rng),
            unconfirmed: Sample::sample(rng),
        }
    }
}

wire::wire_structs! {
    /// One atomic change of the file system's metadata.
    pub struct Event[v 1/1] {
        /// Time of the change.
        pub stamp: Utime,
        /// Name of the operation, for people.
        pub what: String,
        /// Its changes, in order.
        pub updates: Vec<Update>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_within_a_transaction_is_refused() {
        let txn = TxnId::default();
        let inner = Update::Prepare { txn, part: Box::default() };
        for nested in [inner, Update::Commit { txn }, Update::Abort { txn }] {
            let part = PreparedTxn { updates: vec![nested.clone()], ..PreparedTxn::default() };
            let bytes = Writer::encode(&Update::Prepare { txn, part: Box::new(part) });
            assert!(Reader::new(&bytes).get::<Update>().is_err(), "{}", nested.name());
        }
    }
}
