//! Object operations: a vector of them is one atomic step (docs/protocol.md 5.4).
//!
//! Execution is in two parts. [`Loads::of`] says what of the object's stored state a vector looks at; once
//! that is loaded, [`execute`] is a pure function from state and vector to results and store operations.
//! Reads within a vector see data, xattrs and omap as they were before it, but existence and size as its
//! earlier operations left them, which is what Ceph's OSDs do.

mod copy;
mod data_read;
mod data_write;
mod guard;
mod load;
mod omap;
mod snap;
#[cfg(test)]
mod tests;
mod watch;
mod xattr;
mod xxhash;

pub use copy::{Copied, CopySource};
pub(crate) use load::OmapEntry;
pub use load::{Loaded, Loads};
pub use snap::{Preserved, Source, info_op};

use crate::cls::{self, MethodStop, Need};
use crate::object::ObjectInfo;
use crate::watch::{Effect, Stored, Watches};
use maps::{EVersion, SnapId};
use msgs::op::{op_flag, watch_op};
use msgs::{Op, OpCode, OpResult, OsdOp, SubOp, osd_flag};
use stdx::{Bufs, Wall};
use store::{ObjectKey, TxnOp};
use wire::{EntityAddr, EntityId, Errno, Utime};

/// Limits that Ceph's OSDs have as options.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of an object (`osd_max_object_size`).
    pub object_size: u64,
    /// Bytes of a request's data (`osd_max_write_size`).
    pub write_size: u64,
    /// Bytes of an object's name (`osd_max_object_name_len`).
    pub name_len: usize,
    /// Bytes of a namespace (`osd_max_object_namespace_len`).
    pub namespace_len: usize,
    /// Bytes of an xattr's name (`osd_max_attr_name_len`).
    pub attr_name_len: usize,
    /// Bytes of an xattr's value.
    pub attr_size: usize,
    /// Entries of an omap reply (`osd_max_omap_entries_per_request`).
    pub omap_entries: usize,
    /// Bytes of an omap reply.
    pub omap_bytes: usize,
    /// Bytes of a read's reply: what a client's frame may hold.
    pub read_size: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            object_size: 128 << 20,
            write_size: 90 << 20,
            name_len: 2048,
            namespace_len: 256,
            attr_name_len: 100,
            attr_size: 64 << 10,
            omap_entries: 1024,
            omap_bytes: 16 << 20,
            read_size: 128 << 20,
        }
    }
}

/// Maximum bytes that an operation of a writing vector may return (`osd_max_write_op_reply_len`): they are
/// logged, so that a repetition gets the same answer.
pub const MAX_WRITE_OUTPUT: usize = 64;

/// What an operation returns when it succeeds.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpOutput {
    /// The number beside the data. It is 0 for most operations; methods of classes choose theirs.
    pub(crate) rval: u16,
    pub(crate) data: Bufs,
}

impl OpOutput {
    /// Data, and 0.
    fn of(data: impl Into<Bufs>) -> Self {
        Self { rval: 0, data: data.into() }
    }
}

/// Why an operation returns no output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpStop {
    /// It fails.
    Fail(Errno),
    /// CMPEXT fails: the object's data differs from its own at this offset.
    Differs { at: i32 },
    /// The vector has to be executed anew once what [`Exec`] has noted is loaded.
    NeedsData,
}

impl OpStop {
    /// The number in the operation's result. Nobody sees that of an operation that is executed anew.
    fn to_result_code(self) -> i32 {
        match self {
            Self::Fail(errno) => errno.to_result_code(),
            Self::Differs { at } => (-Errno::MAX).saturating_sub(at),
            Self::NeedsData => Errno::EIO.to_result_code(),
        }
    }
}

impl From<Errno> for OpStop {
    fn from(errno: Errno) -> Self {
        Self::Fail(errno)
    }
}

impl From<MethodStop> for OpStop {
    fn from(stop: MethodStop) -> Self {
        match stop {
            MethodStop::Fail(errno) => Self::Fail(errno),
            MethodStop::NeedsData => Self::NeedsData,
        }
    }
}

/// The caller, and knowledge about the object beyond its stored state.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The client that asks.
    pub who: EntityId,
    /// Address of the client.
    pub addr: EntityAddr,
    /// True for a request of the OSD itself, which ends a watch whose client was silent for too long.
    pub expired: bool,
    /// Time of execution.
    pub now: Wall,
    /// Version of the change, if it is one.
    pub version: EVersion,
    /// Id of a notification by the first operation; those of later operations follow.
    pub notify_id: u64,
    /// Watches of the object's PG.
    pub watches: &'a Watches,
}

/// True if a vector may change its object. A watch's ping changes nothing; methods of classes declare whether
/// they write.
pub fn may_write(request: &OsdOp) -> bool {
    request.ops.iter().any(|sub| match &sub.op {
        Op::Watch { op: watch_op::PING, .. } => false,
        Op::Call { class, method, .. } => cls::find(class, method).is_ok_and(|m| m.writes),
        op => op.code().writes(),
    })
}

/// Outcome of a vector.
#[derive(Debug)]
pub struct Outcome {
    /// What the reply carries: the number that the last operation returned, or the result code of the one
    /// that failed.
    pub result: i32,
    /// Result of each operation.
    pub ops: Vec<OpResult>,
    /// Changes to the object, without its [`ObjectInfo`]; empty if the vector failed or changed nothing.
    pub txn: Vec<TxnOp>,
    /// True if it changed the object, even by a step without effect, such as CREATE of an existing object.
    pub modified: bool,
    /// True if clients should see a new version.
    pub user_modified: bool,
    /// True if the object exists afterwards.
    pub exists: bool,
    /// Its size afterwards.
    pub size: u64,
    /// Its info afterwards; the caller sets versions and mtime.
    pub info: ObjectInfo,
    /// Effects on watches, to be carried out once all this is durable.
    pub effects: Vec<Effect>,
    /// If not empty, this outcome is void: the vector is executed again once these are loaded.
    pub needs: Vec<Need>,
    /// Likewise: objects to be read for an operation.
    pub copies: Vec<(usize, CopySource)>,
    /// Set for a copy: version and time of the source.
    pub copied: Option<(u64, Utime)>,
}

/// The state that operations work on.
pub(crate) struct Exec<'a> {
    pub(crate) key: &'a ObjectKey,
    limits: &'a Limits,
    pub(crate) loaded: &'a Loaded,
    pub(crate) caller: Caller<'a>,
    pub(crate) exists: bool,
    size: u64,
    info: ObjectInfo,
    watches: Stored,
    pub(crate) txn: Vec<TxnOp>,
    modified: bool,
    pub(crate) user_modified: bool,
    effects: Vec<Effect>,
    pub(crate) needs: Vec<Need>,
    copies: Vec<(usize, CopySource)>,
    copied: Option<(u64, Utime)>,
}

/// Executes a vector on the state that was loaded for it.
pub fn execute(
    request: &OsdOp,
    key: &ObjectKey,
    loaded: &Loaded,
    limits: &Limits,
    caller: Caller<'_>,
) -> Outcome {
    let mut exec = Exec {
        key,
        limits,
        loaded,
        exists: loaded.exists,
        size: loaded.size,
        info: loaded.info.clone(),
        watches: loaded.watches.clone(),
        caller,
        txn: Vec::new(),
        modified: false,
        user_modified: false,
        effects: Vec::new(),
        needs: Vec::new(),
        copies: Vec::new(),
        copied: None,
    };
    let mut ops: Vec<OpResult> = request
        .ops
        .iter()
        .map(|sub| OpResult { raw: sub.op.to_raw(sub.flags).0, ..OpResult::default() })
        .collect();
    let shown = loaded.exists || loaded.stored && request.snapid == SnapId::DIR;
    if !may_write(request) && !shown {
        return exec.finish(Errno::ENOENT.to_result_code(), ops);
    }
    let mut result = 0;
    for (i, sub) in request.ops.iter().enumerate() {
        let step = exec.step(i, sub);
        if !exec.needs.is_empty() || !exec.copies.is_empty() {
            return exec.finish(Errno::EIO.to_result_code(), ops);
        }
        result = 0;
        match step {
            Ok(output) => {
                result = output.rval.into();
                (ops[i].rval, ops[i].data) = (result, output.data);
                exec.user_modified |= is_visible(&sub.op);
            }
            Err(stop) => {
                ops[i].rval = stop.to_result_code();
                if sub.flags & op_flag::FAILOK == 0 {
                    return exec.finish(stop.to_result_code(), ops);
                }
            }
        }
    }
    if exec.modified && request.flags & osd_flag::RETURNVEC != 0 {
        for op in ops.iter_mut().filter(|op| op.data.len() > MAX_WRITE_OUTPUT) {
            result = Errno::EOVERFLOW.to_result_code();
            (op.rval, op.data) = (result, Bufs::new());
        }
    }
    exec.finish(result, ops)
}

/// True if a successful operation gives the object a new version for clients.
fn is_visible(op: &Op) -> bool {
    op.code().writes() && !matches!(op, Op::Watch { .. } | Op::CopyFrom { .. } | Op::CopyFrom2 { .. })
}

impl Outcome {
    /// The outcome of a refused vector.
    pub fn refused(request: &OsdOp, loaded: &Loaded, errno: Errno) -> Self {
        let op = |sub: &SubOp| OpResult { raw: sub.op.to_raw(sub.flags).0, ..OpResult::default() };
        Self {
            result: errno.to_result_code(),
            ops: request.ops.iter().map(op).collect(),
            txn: Vec::new(),
            modified: false,
            exists: loaded.exists,
            size: loaded.size,
            info: loaded.info.clone(),
            user_modified: false,
            effects: Vec::new(),
            needs: Vec::new(),
            copies: Vec::new(),
            copied: None,
        }
    }
}

impl Exec<'_> {
    fn finish(self, result: i32, ops: Vec<OpResult>) -> Outcome {
        let loaded = self.loaded;
        let mut outcome = Outcome {
            result,
            ops,
            txn: self.txn,
            modified: self.modified,
            user_modified: self.user_modified,
            exists: self.exists,
            size: self.size,
            info: self.info,
            effects: self.effects,
            needs: self.needs,
            copies: self.copies,
            copied: self.copied,
        };
        if result < 0 {
            outcome.txn.clear();
            outcome.effects.clear();
            (outcome.modified, outcome.user_modified, outcome.copied) = (false, false, None);
            (outcome.exists, outcome.size, outcome.info) = (loaded.exists, loaded.size, loaded.info.clone());
        }
        outcome
    }

    fn step(&mut self, i: usize, sub: &SubOp) -> Result<OpOutput, OpStop> {
        match &sub.op {
            Op::CmpExt { extent, data } => self.cmp_ext(i, extent, data),
            Op::Call { class, method, input } => {
                let method = cls::find(class, method)?;
                let output = (method.run)(&mut cls::Object::new(self, method, i), &input.to_buf())?;
                Ok(OpOutput { rval: output.rval, data: output.data.into() })
            }
            Op::CopyFrom { snap, src_version, data, .. } => {
                self.copy_from(i, (*snap, *src_version), None, data)
            }
            Op::CopyFrom2 { snap, src_version, flags, data, .. } => {
                self.copy_from(i, (*snap, *src_version), Some(*flags), data)
            }
            _ => Ok(self.simple_step(i, sub)?),
        }
    }

    /// An operation that needs nothing but what was loaded for it, and that fails with an error number.
    fn simple_step(&mut self, i: usize, sub: &SubOp) -> Result<OpOutput, Errno> {
        match &sub.op {
            Op::Read(e) | Op::SyncRead(e) => self.read(i, e),
            Op::SparseRead(e) => self.sparse_read(i, e),
            Op::MapExt(e) => self.map_ext(i, e),
            Op::Stat => self.stat(),
            Op::Checksum { off, len, chunk_size, kind, data } => {
                self.checksum(i, (*off, *len), *chunk_size, *kind, data)
            }
            Op::AssertVer { ver } => self.assert_ver(*ver),
            Op::ListWatchers => self.list_watchers(),
            Op::Watch { cookie, op, timeout, .. } => self.watch(*cookie, *op, *timeout),
            Op::Notify { cookie, data } => self.notify(i, *cookie, data),
            Op::NotifyAck { cookie, data } => self.notify_ack(*cookie, data),
            Op::ListSnaps => self.list_snaps(),
            Op::Write { extent, data } => self.write(extent, data),
            Op::WriteFull { extent, data } => self.write_full(extent, data),
            Op::Append { extent, data } => self.append(extent, data),
            Op::WriteSame { off, len, data } => self.write_same(*off, *len, data),
            Op::Truncate(e) => self.truncate(e.off, e),
            Op::TrimTrunc(e) => self.truncate(e.truncate_size, e),
            Op::Zero(e) => self.zero(e),
            Op::Delete => self.delete(),
            Op::Create { .. } => self.create(sub.flags & op_flag::EXCL != 0),
            Op::SetAllocHint { .. } => self.set_alloc_hint(),
            Op::Rollback { .. } => self.rollback(i),
            Op::GetXattr { name } => self.get_xattr(name),
            Op::GetXattrs => self.get_xattrs(),
            Op::CmpXattr { name, value, op, mode } => self.cmp_xattr(name, value, *op, *mode),
            Op::SetXattr { name, value } => self.set_xattr(name, value),
            Op::RmXattr { name } => self.rm_xattr(name),
            Op::OmapGetKeys { data } => self.omap_get_keys(i, data),
            Op::OmapGetVals { data } => self.omap_get_vals(i, data),
            Op::OmapGetHeader => self.omap_get_header(),
            Op::OmapGetValsByKeys { data } => self.omap_get_vals_by_keys(i, data),
            Op::OmapCmp { data } => self.omap_cmp(i, data),
            Op::OmapSetVals { data } => self.omap_set_vals(data),
            Op::OmapSetHeader { data } => self.omap_set_header(data),
            Op::OmapClear => self.omap_clear(),
            Op::OmapRmKeys { data } => self.omap_rm_keys(data),
            Op::OmapRmKeyRange { data } => self.omap_rm_key_range(data),
            // Arguments that contradict one another.
            Op::Other { raw, .. } if raw.code == OpCode::WRITESAME => Err(Errno::EINVAL),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Makes the object exist, if it does not.
    pub(crate) fn ensure_exists(&mut self) {
        if !self.exists {
            self.exists = true;
            self.txn.push(TxnOp::Touch(self.key.clone()));
        }
        self.modified = true;
    }

    fn must_exist(&self) -> Result<(), Errno> {
        if self.exists { Ok(()) } else { Err(Errno::ENOENT) }
    }
}

/// Decodes an operation's input; an invalid one fails the operation, not the connection.
fn input<T: wire::Decode>(data: &Bufs) -> Result<T, Errno> {
    msgs::op::input::read(data).map_err(|_| Errno::EINVAL)
}

fn done() -> Result<OpOutput, Errno> {
    Ok(OpOutput::default())
}

fn output<T: wire::Encode>(value: &T) -> Result<OpOutput, Errno> {
    Ok(OpOutput::of(msgs::op::input::write(value)))
}
