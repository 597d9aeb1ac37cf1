//! The store's interface: keys, transactions, reads, and their results.
//!
//! The store is a sub-machine: its owner calls it and carries out the [`StoreOut`]s. Everything submitted is
//! visible to reads at once (read your writes) but durable only when [`StoreOut::Committed`] says so; commits
//! come in order of submission.

use std::cmp::Ordering;
use stdx::{Bufs, Rng};
use wire::{Decode, DecodeError, Encode, Reader, Sample, Writer, wire_structs};

/// The identity and order of an object (docs/design.md, decision 4): pool, shard, **bit-reversed** hash,
/// namespace, locator key, name, snapshot, generation. A PG is a set of hash ranges of this order, so
/// listing, backfill and splits are range scans.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ObjectKey {
    /// Pool id; negative pools are the owner's private ones (superblock, PG metadata, a monitor's log).
    pub pool: i64,
    /// Erasure-code shard, -1 for replicated.
    pub shard: i8,
    /// The object's placement hash, **not** reversed.
    pub hash: u32,
    /// Namespace.
    pub namespace: Vec<u8>,
    /// Locator key, empty where the name is hashed.
    pub locator: Vec<u8>,
    /// Name.
    pub name: Vec<u8>,
    /// Snapshot id, [`ObjectKey::HEAD`] for the newest version.
    pub snap: u64,
    /// For rollback of erasure-coded writes; [`ObjectKey::NO_GENERATION`] otherwise.
    pub generation: u64,
}

impl ObjectKey {
    /// The snapshot id of the head, as Ceph's CEPH_NOSNAP.
    pub const HEAD: u64 = u64::MAX - 1;
    /// No generation.
    pub const NO_GENERATION: u64 = u64::MAX;

    /// The head of a replicated object.
    pub fn head(pool: i64, hash: u32, namespace: &[u8], locator: &[u8], name: &[u8]) -> Self {
        Self {
            pool,
            shard: -1,
            hash,
            namespace: namespace.to_vec(),
            locator: locator.to_vec(),
            name: name.to_vec(),
            snap: Self::HEAD,
            generation: Self::NO_GENERATION,
        }
    }

    /// An object of a private pool, found by name alone.
    pub fn private(pool: i64, name: &str) -> Self {
        assert!(pool < 0, "private pools are negative");
        Self::head(pool, 0, b"", b"", name.as_bytes())
    }

    /// The smallest key of (pool, shard) whose reversed hash is at least `reversed`.
    pub fn first_at(pool: i64, shard: i8, reversed: u32) -> Self {
        Self { shard, snap: 0, generation: 0, ..Self::head(pool, reversed.reverse_bits(), b"", b"", b"") }
    }
}

impl Default for ObjectKey {
    fn default() -> Self {
        Self::head(0, 0, b"", b"", b"")
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |k: &Self| (k.pool, k.shard, k.hash.reverse_bits());
        (rank(self), &self.namespace, &self.locator, &self.name, self.snap, self.generation).cmp(&(
            rank(other),
            &other.namespace,
            &other.locator,
            &other.name,
            other.snap,
            other.generation,
        ))
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

wire_structs! {
    /// A transaction: applied whole or not at all, also across power loss, and in order with all others of
    /// the store.
    pub struct Transaction[v 1/1] {
        /// Applied one after another; each sees the effect of those before it.
        pub ops: Vec<TxnOp>,
    }
}

/// One step of a transaction. Steps other than `Remove`, `OmapRemove*` and the like create the object where
/// it is absent.
#[derive(Clone, PartialEq, Debug)]
pub enum TxnOp {
    /// Make the object exist.
    Touch(ObjectKey),
    /// Overwrite `data.len()` bytes at `offset`, extending the object; a gap reads as zeros.
    Write(ObjectKey, u64, Bufs),
    /// Make a range read as zeros, extending the object to its end: (offset, length).
    Zero(ObjectKey, u64, u64),
    /// Set the size.
    Truncate(ObjectKey, u64),
    /// Remove data, xattrs and omap. Absent is no error.
    Remove(ObjectKey),
    /// Replace the second object by a copy of the first (data, xattrs, omap); shares extents. Where the first
    /// is absent nothing happens.
    Clone(ObjectKey, ObjectKey),
    /// Copy a data range: from, to, source offset, length, destination offset. Beyond the source's end reads
    /// as zeros.
    CloneRange(ObjectKey, ObjectKey, u64, u64, u64),
    /// Rename, replacing the second. Where the first is absent nothing happens.
    Rename(ObjectKey, ObjectKey),
    /// Set an xattr.
    SetAttr(ObjectKey, Vec<u8>, Vec<u8>),
    /// Remove an xattr. Absent is no error.
    RemoveAttr(ObjectKey, Vec<u8>),
    /// Set omap keys.
    OmapSet(ObjectKey, Vec<(Vec<u8>, Vec<u8>)>),
    /// Remove omap keys. Absent is no error.
    OmapRemove(ObjectKey, Vec<Vec<u8>>),
    /// Remove omap keys from the first, inclusive, to the second, exclusive.
    OmapRemoveRange(ObjectKey, Vec<u8>, Vec<u8>),
    /// Remove all omap keys and the header.
    OmapClear(ObjectKey),
    /// Set the omap header.
    OmapSetHeader(ObjectKey, Vec<u8>),
}

/// A read. All of one `Read` sees one state of the object: what was submitted before the read, and nothing
/// later.
#[derive(Clone, PartialEq, Debug)]
pub enum Read {
    /// Parts of one object.
    Object {
        /// The object.
        key: ObjectKey,
        /// All xattrs.
        attrs: bool,
        /// Data ranges (offset, length), each cut off at the object's size.
        data: Vec<(u64, u64)>,
        /// The omap header.
        omap_header: bool,
        /// Values of these omap keys.
        omap_keys: Vec<Vec<u8>>,
        /// Omap entries in order.
        omap_range: Option<OmapRange>,
    },
    /// The written extents of a range: what is not in one is a hole.
    Extents {
        /// The object.
        key: ObjectKey,
        /// First byte.
        offset: u64,
        /// Length in bytes.
        len: u64,
    },
    /// Keys in order, from the first (inclusive) to the second (exclusive), at most `max`.
    List {
        /// The first key, inclusive.
        from: ObjectKey,
        /// The end, exclusive.
        to: ObjectKey,
        /// At most this many; more follow where exactly so many came.
        max: usize,
    },
}

impl Read {
    /// The object that it reads; `None` for a list.
    pub fn object(&self) -> Option<&ObjectKey> {
        match self {
            Self::Object { key, .. } | Self::Extents { key, .. } => Some(key),
            Self::List { .. } => None,
        }
    }

    /// True if an object exists, its size and xattrs.
    pub fn attrs_of(key: &ObjectKey) -> Self {
        Self::Object {
            key: key.clone(),
            attrs: true,
            data: Vec::new(),
            omap_header: false,
            omap_keys: Vec::new(),
            omap_range: None,
        }
    }
}

/// The class of a read, by which reads share the device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum ReadClass {
    /// A client waits: its reads, and those that its requests need.
    #[default]
    Client,
    /// Recovery: objects that other OSDs lack.
    Recovery,
    /// Comparing copies: data comes from the device even where a cache has it, to find what has decayed
    /// there.
    Scrub,
    /// Nobody waits: removal, trimming.
    Background,
}

impl ReadClass {
    /// The number of classes.
    pub const COUNT: usize = 4;
}

/// Omap entries in order of key.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OmapRange {
    /// Only keys **greater** than this one; `None` from the beginning.
    pub after: Option<Vec<u8>>,
    /// Only keys with this prefix.
    pub prefix: Vec<u8>,
    /// At most this many entries.
    pub max: usize,
    /// At most this many bytes of keys and values, but at least one entry.
    pub max_bytes: usize,
}

/// The result of a read.
#[derive(Clone, PartialEq, Debug)]
pub enum ReadReply {
    /// Of [`Read::Object`]; `None` where there is no such object.
    Object(Option<ObjectView>),
    /// Of [`Read::Extents`]: (offset, length) in order; `None` where there is no such object.
    Extents(Option<Vec<(u64, u64)>>),
    /// Of [`Read::List`].
    List(Vec<ObjectKey>),
}

/// The parts of an object that were asked for; the rest is empty.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ObjectView {
    /// Bytes; always given.
    pub size: u64,
    /// In order of name.
    pub attrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// One for each range asked for.
    pub data: Vec<Bufs>,
    /// Empty where there is none.
    pub omap_header: Vec<u8>,
    /// For the keys asked for that exist, in order.
    pub omap_values: Vec<(Vec<u8>, Vec<u8>)>,
    /// Entries of the range asked for.
    pub omap_entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// True if entries follow after the last of `omap_entries`.
    pub omap_more: bool,
}

stdx::ids! {
    /// A submitted transaction, counting up from 1 in each incarnation of the store.
    pub struct TxnId(u64) = "txn{}";
    /// A read in progress.
    pub struct ReadId(u64) = "read{}";
}

/// Space, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Size of the device.
    pub total: u64,
    /// Free for data.
    pub available: u64,
    /// Logical bytes of objects' data.
    pub data: u64,
    /// Bytes of the device that data takes.
    pub allocated: u64,
    /// Bytes of omap keys and values.
    pub omap: u64,
    /// Bytes of the store's own structures.
    pub metadata: u64,
    /// Objects.
    pub objects: u64,
}

/// Lookups of objects for reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lookups {
    /// Those whose entry of the index was in memory.
    pub hits: u64,
    /// Those for which the index was read from the device.
    pub misses: u64,
}

/// The space of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogSpace {
    /// Its size in bytes.
    pub total: u64,
    /// Bytes of records that are still needed.
    pub used: u64,
}

/// An error of the store. After [`StoreOut::Failed`] it does nothing any more: its owner must stop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreError {
    /// Bytes read are not the bytes written; names the object or structure.
    Corrupt(String),
    /// The device reported an error.
    Io(node::DiskError),
    /// The device does not hold a store, or one of another kind; says what was found.
    NotAStore(String),
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Corrupt(what) => write!(f, "damaged: {what}"),
            Self::Io(error) => write!(f, "{error}"),
            Self::NotAStore(what) => write!(f, "not a store: {what}"),
        }
    }
}

impl std::error::Error for StoreError {}

/// A request or report of the store to its owner.
#[derive(Debug)]
pub enum StoreOut {
    /// Carry out a disk operation and report its result to `Store::disk_done`.
    Disk(node::DiskOpId, node::DiskOp),
    /// It is open; reads and transactions may be submitted.
    Opened,
    /// This transaction and all before it are durable.
    Committed(TxnId),
    /// A read's result. May come from within the call that asked for it.
    Read(ReadId, Result<ReadReply, StoreError>),
    /// The store has stopped for good, or could not be opened.
    Failed(StoreError),
}

macro_rules! txn_ops {
    ($($tag:literal $name:ident($($field:ident),*);)*) => {
        impl Encode for TxnOp {
            fn encode(&self, w: &mut Writer) {
                match self {
                    $( Self::$name($($field),*) => { w.put(&($tag as u8)); $( w.put($field); )* } )*
                }
            }
        }
        impl Decode for TxnOp {
            fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                match r.get::<u8>()? {
                    $( $tag => { $( let $field = r.get()?; )* Ok(Self::$name($($field),*)) } )*
                    tag => Err(r.error(format!("transaction step {tag}"))),
                }
            }
        }
        impl Sample for TxnOp {
            fn sample(rng: &mut Rng) -> Self {
                let tags = [$($tag),*];
                match *rng.pick(&tags) {
                    $( $tag => { $( let $field = Sample::sample(rng); )* Self::$name($($field),*) } )*
                    _ => unreachable!("picked from the list"),
                }
            }
        }
    };
}

txn_ops! {
    1 Touch(key);
    2 Write(key, offset, data);
    3 Zero(key, offset, len);
    4 Truncate(key, size);
    5 Remove(key);
    6 Clone(from, to);
    7 CloneRange(from, to, source, len, destination);
    8 Rename(from, to);
    9 SetAttr(key, name, value);
    10 RemoveAttr(key, name);
    11 OmapSet(key, entries);
    12 OmapRemove(key, keys);
    13 OmapRemoveRange(key, from, to);
    14 OmapClear(key);
    15 OmapSetHeader(key, header);
}

impl Encode for ObjectKey {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.pool);
        w.put(&self.shard);
        w.put(&self.hash);
        w.put(&self.namespace);
        w.put(&self.locator);
        w.put(&self.name);
        w.put(&self.snap);
        w.put(&self.generation);
    }
}

impl Decode for ObjectKey {
    const MIN_SIZE: usize = 41;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            pool: r.get()?,
            shard: r.get()?,
            hash: r.get()?,
            namespace: r.get()?,
            locator: r.get()?,
            name: r.get()?,
            snap: r.get()?,
            generation: r.get()?,
        })
    }
}

impl Sample for ObjectKey {
    fn sample(rng: &mut Rng) -> Self {
        let name: Vec<u8> = Sample::sample(rng);
        Self::head(rng.below(4) as i64, rng.u32(), b"", b"", &name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_by_reversed_hash_then_name() {
        let key = |hash: u32, name: &[u8]| ObjectKey::head(1, hash, b"", b"", name);
        assert!(key(0x8000_0000, b"b") < key(1, b"a"), "1 reversed is the largest half");
        assert!(key(5, b"a") < key(5, b"b"));
        assert!(ObjectKey::first_at(1, -1, 5u32.reverse_bits()) < key(5, b""));
    }

    #[test]
    fn transactions_survive_their_encoding() {
        let mut rng = Rng::from_seed(4);
        for _ in 0..200 {
            let txn = Transaction::sample(&mut rng);
            let bytes = Writer::encode(&txn);
            assert_eq!(Reader::new(&bytes).get::<Transaction>().expect("own encoding"), txn);
        }
    }
}
