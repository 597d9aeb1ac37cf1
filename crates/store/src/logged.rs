//! Transactions as the log holds them: as they were submitted, but for large writes, of which the log holds
//! only where the data went and its checksums.

use crate::alloc::Run;
use crate::api::{ObjectKey, Transaction, TxnOp};
use crate::config::Refusal;
use crate::key;
use crate::onode::INLINE_DATA;
use stdx::{BLOCK, Bufs};
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// The largest size of an object in bytes.
pub const MAX_OBJECT_BYTES: u64 = 1 << 48;

/// One step as it is logged and carried out.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Step {
    Op(TxnOp),
    Bulk(Bulk),
}

/// A write of whole blocks that went to their place directly.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Bulk {
    pub key: ObjectKey,
    /// First block of the object.
    pub block: u64,
    /// The blocks of the device.
    pub runs: Vec<Run>,
    /// Raw crc32c of each block.
    pub crcs: Vec<u32>,
}

/// The tag of [`Bulk`]; those of [`TxnOp`] are smaller.
const BULK: u8 = 64;

impl Encode for Step {
    fn encode(&self, w: &mut Writer) {
        match self {
            Self::Op(op) => w.put(op),
            Self::Bulk(bulk) => {
                w.put(&BULK);
                w.put(&bulk.key);
                w.put(&bulk.block);
                w.put(&bulk.runs);
                w.put(&bulk.crcs);
            }
        }
    }
}

impl Decode for Step {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if r.clone().get::<u8>()? != BULK {
            return r.get().map(Self::Op);
        }
        r.get::<u8>()?;
        let bulk = Bulk { key: r.get()?, block: r.get()?, runs: r.get()?, crcs: r.get()? };
        let blocks = bulk.runs.iter().try_fold(0u64, |sum, run| sum.checked_add(run.1));
        let end = bulk.block.checked_add(bulk.crcs.len() as u64).and_then(|b| b.checked_mul(BLOCK as u64));
        if blocks != Some(bulk.crcs.len() as u64) || end.is_none_or(|end| end > MAX_OBJECT_BYTES) {
            return Err(r.error("a large write whose places and checksums differ in number"));
        }
        Ok(Self::Bulk(bulk))
    }
}

/// A transaction with its number, counted since the store was created.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Logged {
    pub seq: u64,
    pub steps: Vec<Step>,
}

impl Encode for Logged {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.seq);
            w.put(&self.steps);
        });
    }
}

impl Decode for Logged {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned(1, |_, r| Ok(Self { seq: r.get()?, steps: r.get()? }))
    }
}

/// A step before large writes have a place.
pub(crate) enum Draft {
    Op(TxnOp),
    /// Key, first block, whole blocks.
    Bulk(ObjectKey, u64, Bufs),
}

/// Takes large writes apart into whole blocks, which go to their place, and the rest, which goes through the
/// log.
pub(crate) fn draft(txn: Transaction, direct_bytes: usize) -> Vec<Draft> {
    let mut out = Vec::with_capacity(txn.ops.len());
    for op in txn.ops {
        match op {
            TxnOp::Write(key, offset, data) if whole(offset, data.len()).len() * BLOCK >= direct_bytes => {
                let blocks = whole(offset, data.len());
                let head = (blocks.start as u64 * BLOCK as u64 - offset) as usize;
                let tail = head + blocks.len() * BLOCK;
                if head > 0 {
                    out.push(Draft::Op(TxnOp::Write(key.clone(), offset, data.slice(0..head))));
                }
                out.push(Draft::Bulk(key.clone(), blocks.start as u64, data.slice(head..tail)));
                if tail < data.len() {
                    let rest = data.slice(tail..data.len());
                    out.push(Draft::Op(TxnOp::Write(key, offset + tail as u64, rest)));
                }
            }
            op => out.push(Draft::Op(op)),
        }
    }
    out
}

/// The whole blocks of a range.
fn whole(offset: u64, len: usize) -> std::ops::Range<usize> {
    let (first, end) = (offset.div_ceil(BLOCK as u64), (offset + len as u64) / BLOCK as u64);
    first as usize..end.max(first) as usize
}

/// The most that a transaction may need.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cost {
    /// Blocks of data.
    pub blocks: u64,
    /// Bytes in the log.
    pub log: u64,
    /// Bytes that the index may grow by …
    pub index: u64,
    /// … of which so many by whole clones.
    pub cloned: u64,
    /// Objects that are cloned whole; how much that takes depends on the object.
    pub clones: u64,
    /// The class, which decides how much of the reserve it may use.
    pub class: Class,
}

/// The effect of a transaction on the space in use, from the largest to the smallest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Class {
    /// Brings data or much metadata.
    Grows,
    /// Brings a little metadata.
    #[default]
    Small,
    /// The same, but removes something too.
    Frees,
    /// Only removes.
    Removes,
}

/// Metadata of a transaction up to this many bytes still fits a full store.
const SMALL: u64 = 16 << 10;

/// Bytes that an omap entry takes besides its key and value, with the name of its object.
const ENTRY_BESIDE: u64 = 200;

impl Cost {
    /// Of a transaction, and of an entry of an omap with so many bytes that will be set in it too, if any.
    pub fn of(txn: &Transaction, beside: Option<u64>, direct_bytes: usize) -> Result<Self, Refusal> {
        let mut cost = Self { log: 64, index: 256, ..Self::default() };
        for op in &txn.ops {
            cost.add_op(op, direct_bytes)?;
        }
        if let Some(bytes) = beside {
            cost.log += bytes + 2 * ENTRY_BESIDE;
            cost.index += bytes + bytes / 8 + 4 * ENTRY_BESIDE;
        }
        let classes = || txn.ops.iter().map(class_of).chain(beside.map(|_| Class::Small));
        cost.class = match classes().min() {
            None => Class::Small,
            Some(Class::Removes) => Class::Removes,
            Some(Class::Grows) => Class::Grows,
            Some(_) if cost.log > SMALL => Class::Grows,
            Some(_) if classes().any(|class| class >= Class::Frees) => Class::Frees,
            Some(_) => Class::Small,
        };
        Ok(cost)
    }

    /// Adds space that a transaction may need.
    pub fn add(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.index += other.index;
        self.cloned += other.cloned;
    }

    /// Subtracts space that was added and is not needed any more.
    pub fn subtract(&mut self, other: Self) {
        self.blocks -= other.blocks;
        self.index -= other.index;
        self.cloned -= other.cloned;
    }

    fn add_op(&mut self, op: &TxnOp, direct_bytes: usize) -> Result<(), Refusal> {
        let mut range = (0, 0);
        let mut payload = 0;
        match op {
            TxnOp::Write(object, offset, data) => {
                let (len, direct) = (data.len() as u64, whole(*offset, data.len()).len());
                let direct = if direct * BLOCK >= direct_bytes { direct as u64 } else { 0 };
                range = (*offset, len);
                self.blocks += len / BLOCK as u64 + 3;
                // It may become three steps, each with the name, and each block a place of its own.
                self.log += direct * 20 + 200 + 2 * key::object_len(object) as u64;
                self.index += (len / BLOCK as u64 + 2) * 8 + 200;
                if offset.saturating_add(len) <= INLINE_DATA {
                    self.index += INLINE_DATA;
                }
                payload = len - direct * BLOCK as u64;
            }
            TxnOp::Zero(_, offset, len) => {
                range = (*offset, *len);
                self.blocks += 3;
            }
            TxnOp::Truncate(_, size) => {
                range = (*size, 0);
                self.blocks += 2;
            }
            TxnOp::CloneRange(_, _, source, len, destination) => {
                range = (*destination.max(source), *len);
                let aligned = source % BLOCK as u64 == destination % BLOCK as u64;
                self.blocks += 6 + if aligned { 0 } else { len / BLOCK as u64 };
                self.index += 8 * (len / BLOCK as u64) + 1024;
            }
            TxnOp::Clone(..) => self.clones += 1,
            TxnOp::SetAttr(_, name, value) => {
                name_fits(name)?;
                payload = (name.len() + value.len()) as u64;
            }
            TxnOp::OmapSet(_, entries) => {
                entries.iter().try_for_each(|(name, _)| name_fits(name))?;
                payload = entries.iter().map(|(k, v)| (k.len() + v.len() + 100) as u64).sum();
            }
            TxnOp::OmapRemove(_, keys) => payload = keys.iter().map(|k| k.len() as u64 + 100).sum(),
            TxnOp::RemoveAttr(_, name) => payload = name.len() as u64,
            TxnOp::OmapRemoveRange(_, from, to) => payload = (from.len() + to.len()) as u64,
            TxnOp::OmapSetHeader(_, header) => payload = header.len() as u64,
            TxnOp::Touch(_) | TxnOp::Remove(_) | TxnOp::Rename(..) | TxnOp::OmapClear(_) => {}
        }
        if range.0.checked_add(range.1).is_none_or(|end| end > MAX_OBJECT_BYTES) {
            return Err(Refusal::ObjectTooLarge);
        }
        for object in objects(op) {
            let len = key::object_len(object) as u64;
            if len > key::KEY_MAX as u64 {
                return Err(Refusal::NameTooLong);
            }
            self.log += len + 64;
            self.index += len + 300;
        }
        self.log += payload + 64;
        if !matches!(op, TxnOp::Write(..)) {
            self.index += payload + payload / 8;
        }
        Ok(())
    }
}

/// The effect of one step on the space in use.
fn class_of(op: &TxnOp) -> Class {
    match op {
        TxnOp::Write(..) | TxnOp::CloneRange(..) | TxnOp::Clone(..) => Class::Grows,
        TxnOp::Touch(_)
        | TxnOp::SetAttr(..)
        | TxnOp::OmapSet(..)
        | TxnOp::OmapSetHeader(..)
        | TxnOp::Rename(..) => Class::Small,
        // They may have to write parts of blocks anew, or make the object.
        TxnOp::Zero(..) | TxnOp::Truncate(..) | TxnOp::OmapClear(_) => Class::Frees,
        TxnOp::Remove(_) | TxnOp::RemoveAttr(..) | TxnOp::OmapRemove(..) | TxnOp::OmapRemoveRange(..) => {
            Class::Removes
        }
    }
}

fn name_fits(name: &[u8]) -> Result<(), Refusal> {
    if name.len() + key::ATTR_NAME_AT > key::KEY_MAX { Err(Refusal::NameTooLong) } else { Ok(()) }
}

/// The objects that a step reads or changes.
pub(crate) fn objects(op: &TxnOp) -> impl Iterator<Item = &ObjectKey> {
    let (first, second) = match op {
        TxnOp::Touch(key)
        | TxnOp::Write(key, ..)
        | TxnOp::Zero(key, ..)
        | TxnOp::Truncate(key, _)
        | TxnOp::Remove(key)
        | TxnOp::SetAttr(key, ..)
        | TxnOp::RemoveAttr(key, _)
        | TxnOp::OmapSet(key, _)
        | TxnOp::OmapRemove(key, _)
        | TxnOp::OmapRemoveRange(key, ..)
        | TxnOp::OmapClear(key)
        | TxnOp::OmapSetHeader(key, _) => (key, None),
        TxnOp::Clone(from, to) | TxnOp::CloneRange(from, to, ..) | TxnOp::Rename(from, to) => {
            (from, Some(to))
        }
    };
    std::iter::once(first).chain(second)
}

impl Step {
    /// The objects that it reads or changes.
    pub fn objects(&self) -> impl Iterator<Item = &ObjectKey> {
        let (of_op, of_bulk) = match self {
            Self::Op(op) => (Some(objects(op)), None),
            Self::Bulk(bulk) => (None, Some(&bulk.key)),
        };
        of_op.into_iter().flatten().chain(of_bulk)
    }

    /// The object that it writes, and which blocks of it: from, to.
    pub fn written(&self) -> Option<(&ObjectKey, u64, u64)> {
        let block = BLOCK as u64;
        match self {
            Self::Op(TxnOp::Write(key, offset, data)) => {
                Some((key, offset / block, (offset + data.len() as u64).div_ceil(block)))
            }
            Self::Bulk(bulk) => Some((&bulk.key, bulk.block, bulk.block + bulk.crcs.len() as u64)),
            Self::Op(_) => None,
        }
    }

    /// The object whose omap it changes, and the names of the entries.
    pub fn omap_names(&self) -> Option<(&ObjectKey, impl Iterator<Item = &[u8]>)> {
        let (key, set, removed) = match self {
            Self::Op(TxnOp::OmapSet(key, entries)) => (key, &entries[..], &[][..]),
            Self::Op(TxnOp::OmapRemove(key, names)) => (key, &[][..], &names[..]),
            _ => return None,
        };
        Some((key, set.iter().map(|(name, _)| &name[..]).chain(removed.iter().map(|name| &name[..]))))
    }

    /// The object that it clones.
    pub fn cloned(&self) -> Option<&ObjectKey> {
        match self {
            Self::Op(TxnOp::Clone(from, to)) if from != to => Some(from),
            _ => None,
        }
    }

    /// True if it touches `object`.
    pub fn touches(&self, object: &ObjectKey) -> bool {
        self.objects().any(|o| o == object)
    }
}

impl Draft {
    /// The objects that it reads or changes; the step that is made of it has the same.
    pub fn objects(&self) -> impl Iterator<Item = &ObjectKey> {
        let (of_op, of_bulk) = match self {
            Self::Op(op) => (Some(objects(op)), None),
            Self::Bulk(key, ..) => (None, Some(key)),
        };
        of_op.into_iter().flatten().chain(of_bulk)
    }

    /// True if it touches `object`.
    pub fn touches(&self, object: &ObjectKey) -> bool {
        self.objects().any(|o| o == object)
    }
}

impl Logged {
    /// The objects that its steps read or change, one step after another.
    pub fn objects(&self) -> impl Iterator<Item = &ObjectKey> {
        self.steps.iter().flat_map(Step::objects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crc::block_crcs;
    use stdx::{Buf, Rng};
    use wire::Sample;

    #[test]
    fn logged_transactions_survive_their_encoding_and_damage_is_an_error() {
        let mut rng = Rng::from_seed(8);
        let object = ObjectKey::private(-1, "o");
        for _ in 0..300 {
            let bulk =
                Bulk { key: object.clone(), block: 3, runs: vec![(9, 1), (20, 2)], crcs: vec![1, 2, 3] };
            let mut steps = vec![Step::Bulk(bulk)];
            steps.extend(Transaction::sample(&mut rng).ops.into_iter().map(Step::Op));
            let logged = Logged { seq: rng.u64(), steps };
            let bytes = Writer::encode(&logged);
            assert_eq!(Reader::new(&bytes).get::<Logged>().expect("own encoding"), logged);
            let cut = rng.below(bytes.len() as u64) as usize;
            assert!(Reader::new(&bytes[..cut]).get::<Logged>().is_err());
        }
    }

    #[test]
    fn large_writes_are_taken_apart_at_blocks() {
        let key = ObjectKey::private(-1, "o");
        let data = Bufs::from(Buf::pattern(1, 100_000));
        let txn = Transaction { ops: vec![TxnOp::Write(key.clone(), 1000, data.clone())] };
        let parts = draft(txn.clone(), 64 << 10);
        let [Draft::Op(head), Draft::Bulk(_, block, bulk), Draft::Op(tail)] = &parts[..] else {
            panic!("three parts");
        };
        assert_eq!(*head, TxnOp::Write(key.clone(), 1000, data.slice(0..3096)));
        assert_eq!((*block, bulk.clone()), (1, data.slice(3096..3096 + 23 * 4096)));
        assert_eq!(*tail, TxnOp::Write(key, 24 * 4096, data.slice(3096 + 23 * 4096..100_000)));
        assert_eq!(block_crcs(bulk), block_crcs(&bulk.to_buf().into()));
        assert!(matches!(&draft(txn, 1 << 20)[..], [Draft::Op(_)]), "small enough for the log");
    }
}
