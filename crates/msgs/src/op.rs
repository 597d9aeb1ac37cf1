//! Object operations: the 38-byte form of the wire, decoded into [`Op`] with each operation's input attached.

mod code;
pub mod input;
pub mod scrub;

pub use code::OpCode;

use maps::SnapId;
use stdx::Bufs;
use wire::{Decode, DecodeError, Reader, Sample, Writer, wire_structs};

/// Flags of one operation in a vector.
pub mod op_flag {
    /// CREATE fails if the object exists.
    pub const EXCL: u32 = 1;
    /// The vector goes on if this operation fails.
    pub const FAILOK: u32 = 2;
    /// Access is random.
    pub const FADVISE_RANDOM: u32 = 4;
    /// Access is sequential.
    pub const FADVISE_SEQUENTIAL: u32 = 8;
    /// Will be read again soon.
    pub const FADVISE_WILLNEED: u32 = 0x10;
    /// Will not be read again soon.
    pub const FADVISE_DONTNEED: u32 = 0x20;
    /// Keep out of caches.
    pub const FADVISE_NOCACHE: u32 = 0x40;
}

wire_structs! {
    /// A byte range with the truncation that must have happened before it is used.
    #[derive(Copy, Eq)]
    pub struct Extent[plain] {
        /// First byte.
        pub off: u64,
        /// Number of bytes; for reads 0 means to the end.
        pub len: u64,
        /// Size at truncation `truncate_seq`.
        pub truncate_size: u64,
        /// Counts truncations of the file; 0 if there were none.
        pub truncate_seq: u32,
    }
}

impl Extent {
    /// A range without truncation.
    pub fn new(off: u64, len: u64) -> Self {
        Self { off, len, ..Self::default() }
    }

    /// The newest truncation that the client knows, as (number, size); (0, 0) without one. CephFS's files
    /// begin with number 1 and no size, and the kernel's client sends these in each request (seen of Linux
    /// 6.1 and 7.2): that is no truncation either. docs/protocol.md 5.4 explains truncations.
    pub fn truncation(&self) -> (u32, u64) {
        match (self.truncate_seq, self.truncate_size) {
            (1, u64::MAX) => (0, 0),
            known => known,
        }
    }
}

/// The fixed part of an operation without the length of its data, as requests carry and replies repeat it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RawOp {
    /// Number.
    pub code: OpCode,
    /// [`op_flag`] bits.
    pub flags: u32,
    /// The 28 bytes whose meaning depends on the code.
    pub args: [u8; 28],
}

impl RawOp {
    /// The size on the wire, the length of the data included.
    pub const SIZE: usize = 38;

    /// Writes it with the length of its data.
    pub fn encode(&self, data_len: usize, w: &mut Writer) {
        w.put(&self.code.0);
        w.put(&self.flags);
        w.raw(&self.args);
        w.count(data_len);
    }

    /// Reads it and the length of its data.
    pub fn decode(r: &mut Reader<'_>) -> Result<(Self, usize), DecodeError> {
        let raw = Self { code: OpCode(r.get()?), flags: r.get()?, args: r.array()? };
        Ok((raw, r.get::<u32>()? as usize))
    }
}

/// One operation of a vector.
#[derive(Clone, PartialEq, Debug)]
pub struct SubOp {
    /// [`op_flag`] bits.
    pub flags: u32,
    /// The operation.
    pub op: Op,
}

impl From<Op> for SubOp {
    fn from(op: Op) -> Self {
        Self { flags: 0, op }
    }
}

/// Comparison operators of CMPXATTR and OMAP_CMP.
pub mod cmp_op {
    /// Equal.
    pub const EQ: u8 = 1;
    /// Not equal.
    pub const NE: u8 = 2;
    /// Greater.
    pub const GT: u8 = 3;
    /// Greater or equal.
    pub const GTE: u8 = 4;
    /// Less.
    pub const LT: u8 = 5;
    /// Less or equal.
    pub const LTE: u8 = 6;
    /// Compare strings.
    pub const MODE_STRING: u8 = 1;
    /// Compare unsigned integers.
    pub const MODE_U64: u8 = 2;
}

/// Sub-operations of WATCH.
pub mod watch_op {
    /// End a watch.
    pub const UNWATCH: u8 = 0;
    /// Begin one, old form.
    pub const LEGACY_WATCH: u8 = 1;
    /// Begin one.
    pub const WATCH: u8 = 3;
    /// Take up an existing one on a new connection.
    pub const RECONNECT: u8 = 5;
    /// Still there.
    pub const PING: u8 = 7;
}

/// An object operation with its input. Inputs that are structures of their own (omap keys, cursors) stay
/// encoded and are read by the types of [`input`], so that a bad one fails the operation and not the
/// connection.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum Op {
    Read(Extent),
    SyncRead(Extent),
    SparseRead(Extent),
    MapExt(Extent),
    Stat,
    /// Fails unless the object's user version is this.
    AssertVer {
        ver: u64,
    },
    ListWatchers,
    ListSnaps,
    /// Compares a range with `data`; fails with `-(Errno::MAX + offset)` of the first difference.
    CmpExt {
        extent: Extent,
        data: Bufs,
    },
    /// Checksums of a range: seed and results as [`input`] describes.
    Checksum {
        off: u64,
        len: u64,
        chunk_size: u32,
        kind: u8,
        data: Bufs,
    },
    Write {
        extent: Extent,
        data: Bufs,
    },
    WriteFull {
        extent: Extent,
        data: Bufs,
    },
    Append {
        extent: Extent,
        data: Bufs,
    },
    /// Writes `data` again and again over `len` bytes.
    WriteSame {
        off: u64,
        len: u64,
        data: Bufs,
    },
    /// Sets the size to `extent.off`.
    Truncate(Extent),
    Zero(Extent),
    Delete,
    /// Truncates to `extent.truncate_size` if its `truncate_seq` is new.
    TrimTrunc(Extent),
    SetTrunc(Extent),
    Create {
        data: Bufs,
    },
    Rollback {
        snap: SnapId,
    },
    /// `op` is one of [`watch_op`].
    Watch {
        cookie: u64,
        ver: u64,
        op: u8,
        generation: u32,
        timeout: u32,
    },
    Notify {
        cookie: u64,
        data: Bufs,
    },
    NotifyAck {
        cookie: u64,
        data: Bufs,
    },
    SetAllocHint {
        object_size: u64,
        write_size: u64,
        flags: u32,
    },
    GetXattr {
        name: Vec<u8>,
    },
    GetXattrs,
    /// `op` and `mode` are of [`cmp_op`].
    CmpXattr {
        name: Vec<u8>,
        value: Bufs,
        op: u8,
        mode: u8,
    },
    SetXattr {
        name: Vec<u8>,
        value: Bufs,
    },
    RmXattr {
        name: Vec<u8>,
    },
    OmapGetKeys {
        data: Bufs,
    },
    OmapGetVals {
        data: Bufs,
    },
    OmapGetHeader,
    OmapGetValsByKeys {
        data: Bufs,
    },
    OmapCmp {
        data: Bufs,
    },
    OmapSetVals {
        data: Bufs,
    },
    OmapSetHeader {
        data: Bufs,
    },
    OmapClear,
    OmapRmKeys {
        data: Bufs,
    },
    OmapRmKeyRange {
        data: Bufs,
    },
    /// Copies another object here: `data` holds its name and locator.
    CopyFrom {
        snap: SnapId,
        src_version: u64,
        flags: u8,
        src_fadvise: u32,
        data: Bufs,
    },
    /// Like [`Op::CopyFrom`], with truncation in `data`.
    CopyFrom2 {
        snap: SnapId,
        src_version: u64,
        flags: u8,
        src_fadvise: u32,
        data: Bufs,
    },
    /// A method of an object class.
    Call {
        class: String,
        method: String,
        input: Bufs,
    },
    /// Lists a PG's objects: `data` is the cursor.
    PgNls {
        max: u64,
        start_epoch: u32,
        data: Bufs,
    },
    /// Like [`Op::PgNls`] with a filter after the cursor.
    PgNlsFilter {
        max: u64,
        start_epoch: u32,
        data: Bufs,
    },
    /// An operation that is not known, or known with arguments that make no sense.
    Other {
        raw: RawOp,
        data: Bufs,
    },
}

/// Reads and writes the 28 bytes.
struct Args([u8; 28]);

impl Args {
    fn build(body: impl FnOnce(&mut Writer)) -> [u8; 28] {
        let mut w = Writer::new();
        body(&mut w);
        let mut out = [0; 28];
        out[..w.len()].copy_from_slice(w.as_slice());
        out
    }

    fn get<T: Decode>(&self, at: usize) -> Result<T, DecodeError> {
        Reader::new(&self.0[at..]).get()
    }
}

/// The largest object, and the most that one read returns, in bytes.
const LARGEST_READ: u64 = 128 << 20;
/// The assumed reply of an operation that usually returns little, in bytes.
const SOME: u64 = 16 << 10;
/// The assumed reply of an operation that returns many entries, in bytes for each.
const ENTRY: u64 = 1 << 10;
const ENTRIES: u64 = 1 << 20;

impl Op {
    /// Bytes of memory that it may take at the OSD in addition to its own message. For data it is the
    /// requested length, since the real one is known only later; for replies without a requested length
    /// (omap, xattrs, class methods) it is a guess, corrected when the answer is there. 0 if it need not be
    /// counted.
    pub fn largest_answer(&self) -> u64 {
        let data = |len: u64| if len == 0 { LARGEST_READ } else { len.min(LARGEST_READ) };
        match self {
            Self::Read(e) | Self::SyncRead(e) => data(e.len),
            Self::SparseRead(e) => data(e.len).saturating_add(SOME),
            Self::CmpExt { data, .. } => data.len() as u64,
            Self::Checksum { len, .. } => data(*len),
            // Longer ones are refused.
            Self::WriteSame { len, .. } => (*len).min(LARGEST_READ),
            Self::OmapGetKeys { .. } | Self::OmapGetVals { .. } => ENTRIES,
            Self::OmapGetValsByKeys { data } => {
                (ENTRY.saturating_mul(data.len() as u64 / 8)).clamp(SOME, ENTRIES)
            }
            Self::PgNls { .. } | Self::PgNlsFilter { .. } => 4 * SOME,
            Self::GetXattrs | Self::GetXattr { .. } | Self::OmapGetHeader => SOME,
            Self::MapExt(_) | Self::Call { .. } => SOME,
            _ => 0,
        }
    }

    /// The operation's number.
    pub fn code(&self) -> OpCode {
        match self {
            Self::Other { raw, .. } => raw.code,
            _ => self.parts().0,
        }
    }

    /// The fixed part and the data, as the wire has them.
    pub fn to_raw(&self, flags: u32) -> (RawOp, Bufs) {
        if let Self::Other { raw, data } = self {
            return (RawOp { flags, ..*raw }, data.clone());
        }
        let (code, args, data) = self.parts();
        (RawOp { code, flags, args }, data)
    }

    /// Interprets the wire form. Arguments that contradict the data give [`Op::Other`].
    pub fn from_raw(raw: RawOp, data: Bufs) -> Self {
        Self::parse(&raw, &data).unwrap_or(Self::Other { raw: RawOp { flags: 0, ..raw }, data })
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each operation")]
    fn parts(&self) -> (OpCode, [u8; 28], Bufs) {
        let extent = |e: &Extent| Args::build(|w| w.put(e));
        let none = Bufs::new;
        let zero = [0; 28];
        match self {
            Self::Read(e) => (OpCode::READ, extent(e), none()),
            Self::SyncRead(e) => (OpCode::SYNC_READ, extent(e), none()),
            Self::SparseRead(e) => (OpCode::SPARSE_READ, extent(e), none()),
            Self::MapExt(e) => (OpCode::MAPEXT, extent(e), none()),
            Self::Stat => (OpCode::STAT, zero, none()),
            Self::AssertVer { ver } => (OpCode::ASSERT_VER, Args::build(|w| w.put(&(0u64, *ver))), none()),
            Self::ListWatchers => (OpCode::LIST_WATCHERS, zero, none()),
            Self::ListSnaps => (OpCode::LIST_SNAPS, zero, none()),
            Self::CmpExt { extent: e, data } => (OpCode::CMPEXT, extent(e), data.clone()),
            Self::Checksum { off, len, chunk_size, kind, data } => {
                let args = Args::build(|w| {
                    w.put(&(*off, *len));
                    w.put(&(*chunk_size, *kind));
                });
                (OpCode::CHECKSUM, args, data.clone())
            }
            Self::Write { extent: e, data } => (OpCode::WRITE, extent(e), data.clone()),
            Self::WriteFull { extent: e, data } => (OpCode::WRITEFULL, extent(e), data.clone()),
            Self::Append { extent: e, data } => (OpCode::APPEND, extent(e), data.clone()),
            Self::WriteSame { off, len, data } => {
                let args = Args::build(|w| {
                    w.put(&(*off, *len));
                    w.put(&(data.len() as u64));
                });
                (OpCode::WRITESAME, args, data.clone())
            }
            Self::Truncate(e) => (OpCode::TRUNCATE, extent(e), none()),
            Self::Zero(e) => (OpCode::ZERO, extent(e), none()),
            Self::Delete => (OpCode::DELETE, zero, none()),
            Self::TrimTrunc(e) => (OpCode::TRIMTRUNC, extent(e), none()),
            Self::SetTrunc(e) => (OpCode::SETTRUNC, extent(e), none()),
            Self::Create { data } => (OpCode::CREATE, zero, data.clone()),
            Self::Rollback { snap } => (OpCode::ROLLBACK, Args::build(|w| w.put(snap)), none()),
            Self::Watch { cookie, ver, op, generation, timeout } => {
                let args = Args::build(|w| {
                    w.put(&(*cookie, *ver));
                    w.put(op);
                    w.put(&(*generation, *timeout));
                });
                (OpCode::WATCH, args, none())
            }
            Self::Notify { cookie, data } => (OpCode::NOTIFY, Args::build(|w| w.put(cookie)), data.clone()),
            Self::NotifyAck { cookie, data } => {
                (OpCode::NOTIFY_ACK, Args::build(|w| w.put(cookie)), data.clone())
            }
            Self::SetAllocHint { object_size, write_size, flags } => {
                let args = Args::build(|w| {
                    w.put(&(*object_size, *write_size));
                    w.put(flags);
                });
                (OpCode::SETALLOCHINT, args, none())
            }
            Self::GetXattr { name } => xattr(OpCode::GETXATTR, name, &none(), 0, 0),
            Self::GetXattrs => (OpCode::GETXATTRS, zero, none()),
            Self::CmpXattr { name, value, op, mode } => xattr(OpCode::CMPXATTR, name, value, *op, *mode),
            Self::SetXattr { name, value } => xattr(OpCode::SETXATTR, name, value, 0, 0),
            Self::RmXattr { name } => xattr(OpCode::RMXATTR, name, &none(), 0, 0),
            Self::OmapGetKeys { data } => with_len(OpCode::OMAPGETKEYS, data),
            Self::OmapGetVals { data } => with_len(OpCode::OMAPGETVALS, data),
            Self::OmapGetHeader => (OpCode::OMAPGETHEADER, zero, none()),
            Self::OmapGetValsByKeys { data } => with_len(OpCode::OMAPGETVALSBYKEYS, data),
            Self::OmapCmp { data } => with_len(OpCode::OMAP_CMP, data),
            Self::OmapSetVals { data } => with_len(OpCode::OMAPSETVALS, data),
            Self::OmapSetHeader { data } => with_len(OpCode::OMAPSETHEADER, data),
            Self::OmapClear => (OpCode::OMAPCLEAR, zero, none()),
            Self::OmapRmKeys { data } => with_len(OpCode::OMAPRMKEYS, data),
            Self::OmapRmKeyRange { data } => with_len(OpCode::OMAPRMKEYRANGE, data),
            Self::CopyFrom { snap, src_version, flags, src_fadvise, data } => {
                (OpCode::COPY_FROM, copy_from(*snap, *src_version, *flags, *src_fadvise), data.clone())
            }
            Self::CopyFrom2 { snap, src_version, flags, src_fadvise, data } => {
                (OpCode::COPY_FROM2, copy_from(*snap, *src_version, *flags, *src_fadvise), data.clone())
            }
            Self::Call { class, method, input } => call(class, method, input),
            Self::PgNls { max, start_epoch, data } => {
                (OpCode::PGNLS, Args::build(|w| w.put(&(*max, *start_epoch))), data.clone())
            }
            Self::PgNlsFilter { max, start_epoch, data } => {
                (OpCode::PGNLS_FILTER, Args::build(|w| w.put(&(*max, *start_epoch))), data.clone())
            }
            Self::Other { raw, data } => (raw.code, raw.args, data.clone()),
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each operation")]
    fn parse(raw: &RawOp, data: &Bufs) -> Option<Self> {
        let args = Args(raw.args);
        let extent = args.get::<Extent>(0).ok()?;
        let data = data.clone();
        Some(match raw.code {
            OpCode::READ => Self::Read(extent),
            OpCode::SYNC_READ => Self::SyncRead(extent),
            OpCode::SPARSE_READ => Self::SparseRead(extent),
            OpCode::MAPEXT => Self::MapExt(extent),
            OpCode::STAT => Self::Stat,
            OpCode::ASSERT_VER => Self::AssertVer { ver: args.get(8).ok()? },
            OpCode::LIST_WATCHERS => Self::ListWatchers,
            OpCode::LIST_SNAPS => Self::ListSnaps,
            OpCode::CMPEXT => Self::CmpExt { extent, data },
            OpCode::CHECKSUM => Self::Checksum {
                off: extent.off,
                len: extent.len,
                chunk_size: args.get(16).ok()?,
                kind: args.get(20).ok()?,
                data,
            },
            OpCode::WRITE => Self::Write { extent, data },
            OpCode::WRITEFULL => Self::WriteFull { extent, data },
            OpCode::APPEND => Self::Append { extent, data },
            OpCode::WRITESAME if extent.truncate_size == data.len() as u64 => {
                Self::WriteSame { off: extent.off, len: extent.len, data }
            }
            OpCode::TRUNCATE => Self::Truncate(extent),
            OpCode::ZERO => Self::Zero(extent),
            OpCode::DELETE => Self::Delete,
            OpCode::TRIMTRUNC => Self::TrimTrunc(extent),
            OpCode::SETTRUNC => Self::SetTrunc(extent),
            OpCode::CREATE => Self::Create { data },
            OpCode::ROLLBACK => Self::Rollback { snap: SnapId(extent.off) },
            OpCode::WATCH => Self::Watch {
                cookie: extent.off,
                ver: extent.len,
                op: args.get(16).ok()?,
                generation: args.get(17).ok()?,
                timeout: args.get(21).ok()?,
            },
            OpCode::NOTIFY => Self::Notify { cookie: extent.off, data },
            OpCode::NOTIFY_ACK => Self::NotifyAck { cookie: extent.off, data },
            OpCode::SETALLOCHINT => Self::SetAllocHint {
                object_size: extent.off,
                write_size: extent.len,
                flags: args.get(16).ok()?,
            },
            OpCode::GETXATTR | OpCode::CMPXATTR | OpCode::SETXATTR | OpCode::RMXATTR => {
                return parse_xattr(raw.code, &args, &data);
            }
            OpCode::GETXATTRS => Self::GetXattrs,
            OpCode::OMAPGETKEYS => Self::OmapGetKeys { data },
            OpCode::OMAPGETVALS => Self::OmapGetVals { data },
            OpCode::OMAPGETHEADER => Self::OmapGetHeader,
            OpCode::OMAPGETVALSBYKEYS => Self::OmapGetValsByKeys { data },
            OpCode::OMAP_CMP => Self::OmapCmp { data },
            OpCode::OMAPSETVALS => Self::OmapSetVals { data },
            OpCode::OMAPSETHEADER => Self::OmapSetHeader { data },
            OpCode::OMAPCLEAR => Self::OmapClear,
            OpCode::OMAPRMKEYS => Self::OmapRmKeys { data },
            OpCode::OMAPRMKEYRANGE => Self::OmapRmKeyRange { data },
            OpCode::COPY_FROM => Self::CopyFrom {
                snap: SnapId(extent.off),
                src_version: extent.len,
                flags: args.get(16).ok()?,
                src_fadvise: args.get(17).ok()?,
                data,
            },
            OpCode::COPY_FROM2 => Self::CopyFrom2 {
                snap: SnapId(extent.off),
                src_version: extent.len,
                flags: args.get(16).ok()?,
                src_fadvise: args.get(17).ok()?,
                data,
            },
            OpCode::CALL => return parse_call(&args, &data),
            OpCode::PGNLS => Self::PgNls { max: extent.off, start_epoch: args.get(8).ok()?, data },
            OpCode::PGNLS_FILTER => {
                Self::PgNlsFilter { max: extent.off, start_epoch: args.get(8).ok()?, data }
            }
            _ => return None,
        })
    }
}

/// Operations on omap repeat the length of their data in the place of a range's length, as clients do.
fn with_len(code: OpCode, data: &Bufs) -> (OpCode, [u8; 28], Bufs) {
    (code, Args::build(|w| w.put(&Extent::new(0, data.len() as u64))), data.clone())
}

fn xattr(code: OpCode, name: &[u8], value: &Bufs, op: u8, mode: u8) -> (OpCode, [u8; 28], Bufs) {
    let args = Args::build(|w| {
        w.count(name.len());
        w.count(value.len());
        w.put(&op);
        w.put(&mode);
    });
    let mut data = Bufs::from(name.to_vec());
    data.append(value.clone());
    (code, args, data)
}

fn parse_xattr(code: OpCode, args: &Args, data: &Bufs) -> Option<Op> {
    let (name_len, value_len): (u32, u32) = args.get(0).ok()?;
    let (op, mode): (u8, u8) = args.get(8).ok()?;
    let (name_len, value_len) = (name_len as usize, value_len as usize);
    if name_len.checked_add(value_len)? > data.len() {
        return None;
    }
    let name = data.slice(0..name_len).to_vec();
    // An integer to compare with travels with value_len set to its 8 bytes as any other value.
    let value = data.slice(name_len..name_len + value_len);
    Some(match code {
        OpCode::GETXATTR => Op::GetXattr { name },
        OpCode::CMPXATTR => Op::CmpXattr { name, value, op, mode },
        OpCode::SETXATTR => Op::SetXattr { name, value },
        _ => Op::RmXattr { name },
    })
}

fn call(class: &str, method: &str, input: &Bufs) -> (OpCode, [u8; 28], Bufs) {
    let short = |s: &str| u8::try_from(s.len()).expect("names of classes and methods are short");
    let args = Args::build(|w| {
        w.put(&short(class));
        w.put(&short(method));
        w.put(&0u8);
        w.count(input.len());
    });
    let mut data = Bufs::from(format!("{class}{method}").into_bytes());
    data.append(input.clone());
    (OpCode::CALL, args, data)
}

fn parse_call(args: &Args, data: &Bufs) -> Option<Op> {
    let (class_len, method_len): (u8, u8) = args.get(0).ok()?;
    let input_len = args.get::<u32>(3).ok()? as usize;
    let (a, b) = (usize::from(class_len), usize::from(class_len) + usize::from(method_len));
    if b.checked_add(input_len)? > data.len() {
        return None;
    }
    let text = |from: usize, to: usize| String::from_utf8(data.slice(from..to).to_vec()).ok();
    Some(Op::Call { class: text(0, a)?, method: text(a, b)?, input: data.slice(b..b + input_len) })
}

fn copy_from(snap: SnapId, src_version: u64, flags: u8, src_fadvise: u32) -> [u8; 28] {
    Args::build(|w| {
        w.put(&(snap, src_version));
        w.put(&(flags, src_fadvise));
    })
}

/// Reads the data of all operations of a vector out of the data segment, in their order.
pub(crate) fn split_data(raws: Vec<(RawOp, usize)>, data: &Bufs) -> Result<Vec<(RawOp, Bufs)>, DecodeError> {
    let mut at = 0usize;
    raws.into_iter()
        .map(|(raw, len)| {
            let end = at.checked_add(len).filter(|end| *end <= data.len()).ok_or_else(|| DecodeError {
                offset: at,
                what: format!("{:?} announces {len} bytes of data, {} are left", raw.code, data.len() - at),
                is_newer: false,
            })?;
            let part = data.slice(at..end);
            at = end;
            Ok((raw, part))
        })
        .collect()
}

impl Sample for SubOp {
    fn sample(rng: &mut stdx::Rng) -> Self {
        let code = *rng.pick(OpCode::ALL);
        let mut args = [0; 28];
        rng.fill(&mut args[..20]);
        let op = match code {
            OpCode::CALL => Op::Call {
                class: Sample::sample(rng),
                method: Sample::sample(rng),
                input: Sample::sample(rng),
            },
            OpCode::SETXATTR => Op::SetXattr { name: Sample::sample(rng), value: Sample::sample(rng) },
            _ => Op::from_raw(RawOp { code, flags: 0, args }, Sample::sample(rng)),
        };
        // Fields that an operation does not use are lost: take the form that encodes to itself.
        let (raw, data) = op.to_raw(0);
        Self { flags: Sample::sample(rng), op: Op::from_raw(raw, data) }
    }
}
