//! The reads that a vector needs, and their results.

use super::called::{Cached, Need, OmapEntry};
use super::limits::Limits;
use super::result::input;
use super::source::{Copied, Source};
use crate::object::{INFO_ATTR, ObjectInfo, client_attr};
use crate::watch::{self, WATCH_ATTR};
use msgs::op::input::{OmapAssertions, OmapGetKeys, OmapGetVals, OmapKeys};
use msgs::{Op, OsdOp};
use std::collections::BTreeMap;
use stdx::Bufs;
use store::{ObjectKey, ObjectView, OmapRange, Read, ReadReply};
use wire::Errno;

/// The reads of one vector. The first returns existence, xattrs and plain data; each further one belongs to
/// one operation.
#[derive(Debug)]
pub struct Loads {
    /// Reads for the store, with their purposes.
    pub reads: Vec<(For, Read)>,
    /// Operation that each data range of the first read belongs to.
    ranges: Vec<usize>,
}

/// Purpose of a read.
#[derive(Clone, Debug)]
pub enum For {
    /// For all operations.
    Vector,
    /// For one operation.
    Op(usize),
    /// For methods of classes.
    Called(Need),
}

/// The state of an object as far as a vector needs it.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// True if clients see an object.
    pub exists: bool,
    /// True if the store has one; clients do not see whiteouts.
    pub stored: bool,
    /// Size in bytes.
    pub size: u64,
    /// Versions and truncation.
    pub info: ObjectInfo,
    /// Xattrs set by clients.
    pub attrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Watches on the object.
    pub watches: watch::Stored,
    /// Header of the omap.
    pub omap_header: Vec<u8>,
    /// Data, by operation.
    pub data: BTreeMap<usize, Bufs>,
    /// Written extents, by operation.
    pub extents: BTreeMap<usize, Vec<(u64, u64)>>,
    /// Omap entries, by operation, and whether more follow.
    pub omap: BTreeMap<usize, (Vec<OmapEntry>, bool)>,
    /// Data that methods of classes asked for.
    pub called: Cached,
    /// Objects that are to be copied, by operation.
    pub copies: BTreeMap<usize, Result<Copied, Errno>>,
    /// Target of each ROLLBACK, by operation.
    pub sources: BTreeMap<usize, Source>,
}

impl Loads {
    /// The reads that `request` needs of the object `key`.
    pub fn of(request: &OsdOp, key: &ObjectKey, limits: &Limits) -> Self {
        let (mut data, mut ranges, mut more) = (Vec::new(), Vec::new(), Vec::new());
        let mut omap_header = false;
        for (i, sub) in request.ops.iter().enumerate() {
            let mut range = |off: u64, len: u64| {
                data.push((off, if len == 0 { limits.read_size } else { len.min(limits.read_size) }));
                ranges.push(i);
            };
            match &sub.op {
                Op::Read(e) | Op::SyncRead(e) | Op::SparseRead(e) => range(e.off, e.len),
                Op::CmpExt { extent, .. } if extent.len > 0 => range(extent.off, extent.len),
                Op::Checksum { off, len, .. } => range(*off, *len),
                Op::OmapGetHeader => omap_header = true,
                _ => {}
            }
            if let Some(read) = own_read(&sub.op, key, limits) {
                more.push((For::Op(i), read));
            }
        }
        let first = Read::Object {
            key: key.clone(),
            attrs: true,
            data,
            omap_header,
            omap_keys: Vec::new(),
            omap_range: None,
        };
        let reads = std::iter::once((For::Vector, first)).chain(more).collect();
        Self { reads, ranges }
    }

    /// The reads that methods of classes asked for.
    pub fn called(needs: Vec<Need>, key: &ObjectKey, limits: &Limits) -> Self {
        let reads = needs.into_iter().map(|need| {
            let read = called_read(&need, key, limits);
            (For::Called(need), read)
        });
        Self { reads: reads.collect(), ranges: Vec::new() }
    }

    /// Reads only existence and metadata, which tell which clone to read.
    pub fn of_head(key: &ObjectKey) -> Self {
        Self { reads: vec![(For::Vector, Read::attrs_of(key))], ranges: Vec::new() }
    }

    /// Takes the answer to read number `at`. `false` if the object's own metadata is damaged.
    #[must_use]
    pub fn take(&self, at: usize, reply: ReadReply, into: &mut Loaded) -> bool {
        match (&self.reads[at].0, reply) {
            (For::Vector, ReadReply::Object(Some(view))) => return into.take_first(&self.ranges, view),
            (For::Op(i), ReadReply::Object(Some(view))) => {
                let entries = if view.omap_values.is_empty() { view.omap_entries } else { view.omap_values };
                into.omap.insert(*i, (entries, view.omap_more));
            }
            (For::Op(i), ReadReply::Extents(Some(extents))) => {
                into.extents.insert(*i, extents);
            }
            (For::Called(need), ReadReply::Object(view)) => {
                into.take_called(need.clone(), view.unwrap_or_default());
            }
            _ => {}
        }
        true
    }
}

impl Loaded {
    fn take_called(&mut self, need: Need, view: ObjectView) {
        let called = &mut self.called;
        match need {
            Need::Values(keys) => {
                let found: BTreeMap<_, _> = view.omap_values.into_iter().collect();
                called.values.extend(keys.into_iter().map(|k| (k.clone(), found.get(&k).cloned())));
            }
            need @ Need::Range { .. } => {
                called.ranges.insert(need, (view.omap_entries, view.omap_more));
            }
            Need::Header => called.header = Some(view.omap_header),
            Need::Data(off, len) => {
                called.data.insert((off, len), view.data.into_iter().next().unwrap_or_default());
            }
        }
    }

    fn take_first(&mut self, ranges: &[usize], view: ObjectView) -> bool {
        self.stored = true;
        self.size = view.size;
        self.omap_header = view.omap_header;
        self.data = ranges.iter().copied().zip(view.data).collect();
        let (mut info, mut sound) = (None, true);
        for (name, value) in view.attrs {
            if name == INFO_ATTR {
                info = ObjectInfo::parse(&value);
            } else if name == WATCH_ATTR {
                let watches = watch::parse(&value);
                sound &= watches.is_some();
                self.watches = watches.unwrap_or_default();
            } else if let Some(client) = client_attr(&name) {
                self.attrs.insert(client.to_vec(), value);
            }
        }
        sound &= info.is_some();
        self.info = info.unwrap_or_default();
        self.exists = !self.info.whiteout;
        sound
    }
}

/// The read that a method of a class needs.
fn called_read(need: &Need, key: &ObjectKey, limits: &Limits) -> Read {
    let (mut data, mut omap_keys, mut omap_range) = (Vec::new(), Vec::new(), None);
    match need {
        Need::Values(keys) => omap_keys.clone_from(keys),
        Need::Range { after, prefix, max } => {
            let (after, prefix, max_bytes) = (Some(after.clone()), prefix.clone(), limits.omap_bytes);
            omap_range = Some(OmapRange { after, prefix, max: *max, max_bytes });
        }
        Need::Header => {}
        Need::Data(off, len) => data.push((*off, (*len).min(limits.read_size))),
    }
    let omap_header = *need == Need::Header;
    Read::Object { key: key.clone(), attrs: false, data, omap_header, omap_keys, omap_range }
}

/// The read that one operation needs for itself.
fn own_read(op: &Op, key: &ObjectKey, limits: &Limits) -> Option<Read> {
    let omap = |omap_keys: Vec<Vec<u8>>, omap_range: Option<OmapRange>| Read::Object {
        key: key.clone(),
        attrs: false,
        data: Vec::new(),
        omap_header: false,
        omap_keys,
        omap_range,
    };
    let range = |after: Vec<u8>, prefix: Vec<u8>, max: u64| {
        let max = usize::try_from(max).unwrap_or(usize::MAX).min(limits.omap_entries);
        omap(Vec::new(), Some(OmapRange { after: Some(after), prefix, max, max_bytes: limits.omap_bytes }))
    };
    match op {
        Op::SparseRead(e) | Op::MapExt(e) => {
            let len = if e.len == 0 { limits.read_size } else { e.len };
            Some(Read::Extents { key: key.clone(), offset: e.off, len })
        }
        Op::OmapGetKeys { data } => {
            let args: OmapGetKeys = input(data).ok()?;
            Some(range(args.start_after, Vec::new(), args.max))
        }
        Op::OmapGetVals { data } => {
            let args: OmapGetVals = input(data).ok()?;
            Some(range(args.start_after, args.prefix, args.max))
        }
        Op::OmapGetValsByKeys { data } => {
            Some(omap(input::<OmapKeys>(data).ok()?.into_iter().collect(), None))
        }
        Op::OmapCmp { data } => Some(omap(input::<OmapAssertions>(data).ok()?.into_keys().collect(), None)),
        _ => None,
    }
}
