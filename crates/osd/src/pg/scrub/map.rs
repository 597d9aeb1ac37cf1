//! The content of a copy between two keys, for scrub: an OSD reads its own objects one after the other. A
//! light scrub reads size, xattrs and versions; a deep one also reads data and omap from the device, past all
//! caches, and computes their checksums.

use crate::pg::member;
use crate::pg::scrub::finding::Scanned;
use msgs::op::scrub::shard_error;
use std::collections::VecDeque;
use stdx::crc32c;
use store::{ObjectKey, OmapRange, Read, ReadReply, StoreError};
use wire::Writer;

/// The most objects that one look may be about; the primary asks for far fewer.
pub(super) const LIMIT: usize = 20_000;
/// Omap entries and bytes read at once.
const OMAP: (usize, usize) = (1024, 512 << 10);
/// Checksums begin with this, as Ceph's.
const SEED: u32 = u32::MAX;

/// Recipient of the result.
#[derive(Clone, Copy, Debug)]
pub enum Asker {
    /// We as primary, in the check of this number.
    Ourselves(u64),
    /// The primary, by connection and number of its question.
    Primary(member::Asker),
}

/// A look that is under way.
#[derive(Debug)]
pub struct Scan {
    pub(super) asker: Asker,
    pub(super) deep: bool,
    pub(super) keys: Option<VecDeque<ObjectKey>>,
    pub(super) done: Vec<Scanned>,
    pub(super) at: Option<Reading>,
}

/// The object that is looked at.
#[derive(Debug)]
pub(super) struct Reading {
    object: Scanned,
    offset: u64,
    omap_after: Option<Vec<u8>>,
    data: u32,
    omap: u32,
    /// True if size and xattrs are known.
    known: bool,
    /// Something could not be read: only size and xattrs are looked at, whatever can be had of them.
    broken: bool,
}

impl Scan {
    /// True if it belongs to this check of our own.
    pub fn is_for(&self, check: u64) -> bool {
        matches!(self.asker, Asker::Ourselves(tid) if tid == check)
    }
}

impl Reading {
    pub(super) fn of(key: ObjectKey) -> Self {
        Self {
            object: Scanned { key, ..Scanned::default() },
            offset: 0,
            omap_after: None,
            data: SEED,
            omap: SEED,
            known: false,
            broken: false,
        }
    }

    pub(super) fn next(&self, deep: bool, stride: u64) -> Read {
        if !deep || self.broken {
            return Read::attrs_of(&self.object.key);
        }
        let omap =
            OmapRange { after: self.omap_after.clone(), prefix: Vec::new(), max: OMAP.0, max_bytes: OMAP.1 };
        Read::Object {
            key: self.object.key.clone(),
            attrs: !self.known,
            data: vec![(self.offset, stride)],
            omap_header: !self.known,
            omap_keys: Vec::new(),
            omap_range: Some(omap),
        }
    }
}

impl Scan {
    /// Takes what was read of the present object, and leaves it when that was all.
    pub(super) fn take(&mut self, result: Result<ReadReply, StoreError>) {
        let Some(mut at) = self.at.take() else { return };
        let view = match result {
            Ok(ReadReply::Object(Some(view))) => view,
            // It has gone since it was listed, which only a copy out of order can.
            Ok(_) => return,
            Err(_) if at.known || at.broken => {
                at.object.errors |= if at.known { shard_error::READ } else { shard_error::STAT };
                return self.done.push(at.object);
            }
            Err(_) => {
                at.broken = true;
                at.object.errors |= if self.deep { shard_error::READ } else { shard_error::STAT };
                if self.deep {
                    self.at = Some(at);
                } else {
                    self.done.push(at.object);
                }
                return;
            }
        };
        if !at.known {
            (at.object.size, at.object.attrs, at.known) = (view.size, view.attrs, true);
            at.omap = crc32c::update(at.omap, &view.omap_header);
        }
        if !self.deep || at.broken {
            return self.done.push(at.object);
        }
        for data in &view.data {
            at.data = data.crc32c(at.data);
            at.offset += data.len() as u64;
        }
        for (key, value) in &view.omap_entries {
            let mut w = Writer::new();
            w.put(key);
            w.put(value);
            at.omap = crc32c::update(at.omap, w.as_slice());
        }
        if let Some((last, _)) = view.omap_entries.last() {
            at.omap_after = Some(last.clone());
        }
        if at.offset < view.size || view.omap_more {
            self.at = Some(at);
            return;
        }
        (at.object.data_digest, at.object.omap_digest) = (Some(at.data), Some(at.omap));
        self.done.push(at.object);
    }
}
