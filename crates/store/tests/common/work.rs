//! Random transactions and reads, over few objects so that they meet.

use super::model::Model;
use super::{Bench, key};
use stdx::{Buf, Bufs, Rng};
use store::{ObjectKey, OmapRange, Read, ReadReply, StoreError, Transaction, TxnOp};

/// How large things get.
#[derive(Clone, Copy)]
pub struct Scale {
    pub objects: u64,
    pub size: u64,
    pub write: u64,
    pub omap_keys: u64,
    pub value: u64,
}

pub const SMALL: Scale = Scale { objects: 6, size: 120_000, write: 50_000, omap_keys: 40, value: 200 };

pub fn any_key(rng: &mut Rng, scale: Scale) -> ObjectKey {
    key(&format!("object-{}", rng.below(scale.objects)))
}

fn offset(rng: &mut Rng, scale: Scale) -> u64 {
    let at = rng.below(scale.size);
    match rng.below(5) {
        0 | 1 => at / 4096 * 4096,
        // Where an object that lies in the index begins, ends, or ceases to.
        2 => at % 2500,
        _ => at,
    }
}

fn len(rng: &mut Rng, scale: Scale) -> u64 {
    match rng.below(6) {
        0 => 0,
        1 => rng.below(100),
        2 => 4096 * rng.below(scale.write / 4096 + 1),
        _ => rng.below(scale.write),
    }
}

fn data(rng: &mut Rng, len: u64) -> Bufs {
    let whole = Buf::pattern(rng.below(1000), len as usize);
    if len > 2 && rng.chance(1, 3) {
        let cut = 1 + rng.below(len - 1) as usize;
        let mut out = Bufs::from(whole.slice(0..cut));
        out.push(whole.slice(cut..len as usize));
        return out;
    }
    whole.into()
}

fn omap_key(rng: &mut Rng, scale: Scale) -> Vec<u8> {
    match rng.below(20) {
        0 => vec![],
        1 => vec![b'z'; 1000],
        _ => format!("{}-{}", rng.below(3), rng.below(scale.omap_keys)).into_bytes(),
    }
}

fn value(rng: &mut Rng, scale: Scale) -> Vec<u8> {
    let len = if rng.chance(1, 10) { rng.below(6000) } else { rng.below(scale.value) };
    Buf::pattern(rng.below(1000), len as usize).to_vec()
}

pub fn any_op(rng: &mut Rng, scale: Scale) -> TxnOp {
    let key = any_key(rng, scale);
    match rng.below(24) {
        0 => TxnOp::Touch(key),
        1..=7 => {
            let len = len(rng, scale);
            TxnOp::Write(key, offset(rng, scale), data(rng, len))
        }
        8 => TxnOp::Zero(key, offset(rng, scale), len(rng, scale)),
        9 => TxnOp::Truncate(key, offset(rng, scale)),
        10 => TxnOp::Remove(key),
        11 => TxnOp::Clone(key, any_key(rng, scale)),
        12 | 13 => {
            let (from, mut to) = (offset(rng, scale), offset(rng, scale));
            if rng.chance(1, 2) {
                to = to / 4096 * 4096 + from % 4096;
            }
            TxnOp::CloneRange(key, any_key(rng, scale), from, len(rng, scale), to)
        }
        14 => TxnOp::Rename(key, any_key(rng, scale)),
        15 | 16 => TxnOp::SetAttr(key, omap_key(rng, scale), value(rng, scale)),
        17 => TxnOp::RemoveAttr(key, omap_key(rng, scale)),
        18..=20 => {
            let n = rng.below(8);
            TxnOp::OmapSet(key, (0..n).map(|_| (omap_key(rng, scale), value(rng, scale))).collect())
        }
        21 => TxnOp::OmapRemove(key, (0..rng.below(6)).map(|_| omap_key(rng, scale)).collect()),
        22 => match rng.below(4) {
            0 => TxnOp::OmapClear(key),
            _ => TxnOp::OmapRemoveRange(key, omap_key(rng, scale), omap_key(rng, scale)),
        },
        _ => TxnOp::OmapSetHeader(key, value(rng, scale)),
    }
}

pub fn any_txn(rng: &mut Rng, scale: Scale) -> Transaction {
    let n = 1 + rng.below(4);
    Transaction { ops: (0..n).map(|_| any_op(rng, scale)).collect() }
}

pub fn any_read(rng: &mut Rng, scale: Scale) -> Read {
    if rng.chance(1, 8) {
        let (from, to) = (any_key(rng, scale), any_key(rng, scale));
        return Read::List { from, to, max: rng.below(6) as usize };
    }
    Read::Object {
        key: any_key(rng, scale),
        attrs: rng.chance(1, 2),
        data: (0..rng.below(3)).map(|_| (offset(rng, scale), len(rng, scale))).collect(),
        omap_header: rng.chance(1, 2),
        omap_keys: (0..rng.below(4)).map(|_| omap_key(rng, scale)).collect(),
        omap_range: rng.chance(1, 2).then(|| OmapRange {
            after: rng.chance(1, 2).then(|| omap_key(rng, scale)),
            prefix: if rng.chance(1, 3) { b"1-".to_vec() } else { vec![] },
            max: 1 + rng.below(30) as usize,
            max_bytes: 1 + rng.below(3000) as usize,
        }),
    }
}

/// The whole state of a store.
pub fn state(bench: &mut Bench) -> Model {
    let (model, damaged) = try_state(bench).unwrap_or_else(|error| panic!("lists: {error}"));
    assert_eq!(damaged, Vec::new(), "all can be read");
    model
}

/// What can be read of a store, and what can't; an error where not even the names can.
pub fn try_state(bench: &mut Bench) -> Result<(Model, Vec<(ObjectKey, String)>), StoreError> {
    let (from, to) = (ObjectKey::first_at(i64::MIN, -128, 0), ObjectKey::first_at(i64::MAX, 127, u32::MAX));
    let ReadReply::List(keys) = bench.read(Read::List { from, to, max: usize::MAX })? else {
        panic!("a list");
    };
    let (mut model, mut damaged) = (Model::default(), Vec::new());
    for key in keys {
        let all = Read::Object {
            key: key.clone(),
            attrs: true,
            data: vec![(0, u64::MAX)],
            omap_header: true,
            omap_keys: vec![],
            omap_range: Some(OmapRange { max: usize::MAX, max_bytes: usize::MAX, ..OmapRange::default() }),
        };
        let view = match bench.read(all) {
            Ok(ReadReply::Object(Some(view))) => view,
            Err(StoreError::Corrupt(what)) => {
                damaged.push((key, what));
                continue;
            }
            other => panic!("{key:?} is there, not {other:?}"),
        };
        let object = super::model::Object {
            data: view.data[0].to_vec(),
            attrs: view.attrs.into_iter().collect(),
            header: view.omap_header,
            omap: view.omap_entries.into_iter().collect(),
        };
        assert_eq!(object.data.len() as u64, view.size);
        model.objects.insert(key, object);
    }
    Ok((model, damaged))
}
