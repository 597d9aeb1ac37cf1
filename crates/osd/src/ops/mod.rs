//! Object operations: a vector of them is one atomic step (docs/protocol.md 5.4).
//!
//! Execution is in two parts. [`Loads::of`] says what of the object's stored state a vector looks at; once
//! that is loaded, [`execute`] is a pure function from state and vector to results and store operations.
//! Reads within a vector see data, xattrs and omap as they were before it, but existence and size as its
//! earlier operations left them, which is what Ceph's OSDs do.

mod called;
mod copy;
mod data_read;
mod data_write;
mod exec;
mod guard;
mod limits;
mod load;
mod omap;
mod outcome;
mod result;
mod snap;
mod source;
#[cfg(test)]
mod tests;
mod watch;
mod xattr;
mod xxhash;

pub use called::Need;
pub(crate) use called::OmapEntry;
pub use exec::Caller;
pub(crate) use exec::Exec;
pub use limits::Limits;
pub use load::{Loaded, Loads};
pub use outcome::Outcome;
pub use snap::{Preserved, info_op};
pub use source::{Copied, CopySource, Source};

use crate::cls::{self, MethodStop};
use maps::SnapId;
use msgs::op::{op_flag, watch_op};
use msgs::{Op, OpCode, OpResult, OsdOp, SubOp, osd_flag};
use result::{OpOutput, OpStop};
use stdx::Bufs;
use store::ObjectKey;
use wire::Errno;

/// Maximum bytes that an operation of a writing vector may return (`osd_max_write_op_reply_len`): they are
/// logged, so that a repetition gets the same answer.
pub const MAX_WRITE_OUTPUT: usize = 64;

impl From<MethodStop> for OpStop {
    fn from(stop: MethodStop) -> Self {
        match stop {
            MethodStop::Fail(errno) => Self::Fail(errno),
            MethodStop::NeedsData => Self::NeedsData,
        }
    }
}

/// True if a vector may change its object. A watch's ping changes nothing; methods of classes declare whether
/// they write.
pub fn may_write(request: &OsdOp) -> bool {
    request.ops.iter().any(|sub| match &sub.op {
        Op::Watch { op: watch_op::PING, .. } => false,
        Op::Call { class, method, .. } => cls::find(class, method).is_ok_and(|m| m.access.writes),
        op => op.code().writes(),
    })
}

/// Executes a vector on the state that was loaded for it.
pub fn execute(
    request: &OsdOp,
    key: &ObjectKey,
    loaded: &Loaded,
    limits: &Limits,
    caller: Caller<'_>,
) -> Outcome {
    let mut exec = Exec::new(key, loaded, limits, caller);
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

impl Exec<'_> {
    fn step(&mut self, i: usize, sub: &SubOp) -> Result<OpOutput, OpStop> {
        match &sub.op {
            Op::CmpExt { extent, data } => self.cmp_ext(i, extent, data),
            Op::Call { class, method, input } => {
                let method = cls::find(class, method)?;
                let mut object = cls::Object::new(self, method.access, i, input);
                let output = (method.run)(&mut object, &input.to_buf())?;
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
}
