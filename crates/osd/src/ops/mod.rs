//! Object operations: a vector of them is one atomic step (PROTOCOL.md 5.4).
//!
//! Execution is in two parts. [`Loads::of`] says what of the object's stored state a vector looks at; once that is
//! loaded, [`execute`] is a pure function from state and vector to results and store operations. Reads within a
//! vector see data, xattrs and omap as they were before it, but existence and size as its earlier operations left them,
//! which is what Ceph's OSDs do.

mod data_read;
mod data_write;
mod guard;
mod load;
mod omap;
#[cfg(test)]
mod tests;
mod xattr;
mod xxhash;

pub use load::{Loaded, Loads};

use crate::object::ObjectInfo;
use msgs::errno::{EINVAL, ENOENT, EOPNOTSUPP};
use msgs::op::op_flag;
use msgs::{Op, OpResult, OsdOp, SubOp};
use stdx::Bufs;
use store::{ObjectKey, TxnOp};

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

/// What an operation returns when it fails: a positive errno.
pub type OpError = i32;
/// What an operation returns: its rval and output.
pub type OpOutput = (i32, Bufs);

/// What a vector did.
#[derive(Debug)]
pub struct Outcome {
    /// 0, or the negative errno of the operation that failed.
    pub result: i32,
    /// One for each operation.
    pub ops: Vec<OpResult>,
    /// Changes to the object, without its [`ObjectInfo`]; empty where the vector failed or changed nothing.
    pub txn: Vec<TxnOp>,
    /// Whether it changed the object (also by a step that left everything as it was, as CREATE of an existing object).
    pub modified: bool,
    /// Whether the object exists afterwards.
    pub exists: bool,
    /// Its size afterwards.
    pub size: u64,
    /// Its info afterwards; versions and mtime are the caller's to set.
    pub info: ObjectInfo,
}

/// The state that operations work on.
pub(crate) struct Exec<'a> {
    key: &'a ObjectKey,
    limits: &'a Limits,
    loaded: &'a Loaded,
    exists: bool,
    size: u64,
    info: ObjectInfo,
    txn: Vec<TxnOp>,
    modified: bool,
}

/// Executes a vector on the state that was loaded for it.
pub fn execute(request: &OsdOp, key: &ObjectKey, loaded: &Loaded, limits: &Limits) -> Outcome {
    let mut exec = Exec {
        key,
        limits,
        loaded,
        exists: loaded.exists,
        size: loaded.size,
        info: loaded.info.clone(),
        txn: Vec::new(),
        modified: false,
    };
    let mut ops: Vec<OpResult> = request
        .ops
        .iter()
        .map(|sub| OpResult { raw: sub.op.to_raw(sub.flags).0, ..OpResult::default() })
        .collect();
    if !request.may_write() && !loaded.exists {
        return exec.finish(-ENOENT, ops);
    }
    for (i, sub) in request.ops.iter().enumerate() {
        match exec.step(i, sub) {
            Ok((rval, data)) => (ops[i].rval, ops[i].data) = (rval, data),
            Err(errno) => {
                ops[i].rval = -errno;
                if sub.flags & op_flag::FAILOK == 0 {
                    return exec.finish(-errno, ops);
                }
            }
        }
    }
    exec.finish(0, ops)
}

impl Exec<'_> {
    fn finish(self, result: i32, ops: Vec<OpResult>) -> Outcome {
        let Self { exists, size, info, txn, modified, loaded, .. } = self;
        if result < 0 {
            let (exists, size, info) = (loaded.exists, loaded.size, loaded.info.clone());
            return Outcome { result, ops, txn: Vec::new(), modified: false, exists, size, info };
        }
        Outcome { result, ops, txn, modified, exists, size, info }
    }

    fn step(&mut self, i: usize, sub: &SubOp) -> Result<OpOutput, OpError> {
        match &sub.op {
            Op::Read(e) | Op::SyncRead(e) => self.read(i, e),
            Op::SparseRead(e) => self.sparse_read(i, e),
            Op::MapExt(e) => self.map_ext(i, e),
            Op::Stat => self.stat(),
            Op::CmpExt { extent, data } => self.cmp_ext(i, extent, data),
            Op::Checksum { off, len, chunk_size, kind, data } => {
                self.checksum(i, (*off, *len), *chunk_size, *kind, data)
            }
            Op::AssertVer { ver } => self.assert_ver(*ver),
            Op::ListWatchers => self.list_watchers(),
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
            // Snapshots, watches, classes and copies come with the issue that completes RADOS.
            _ => Err(EOPNOTSUPP),
        }
    }

    /// Makes the object exist, if it does not.
    fn ensure_exists(&mut self) {
        if !self.exists {
            self.exists = true;
            self.txn.push(TxnOp::Touch(self.key.clone()));
        }
        self.modified = true;
    }

    fn must_exist(&self) -> Result<(), OpError> {
        if self.exists { Ok(()) } else { Err(ENOENT) }
    }
}

/// Decodes an operation's input; a bad one is the operation's error, not the connection's.
fn input<T: wire::Decode>(data: &Bufs) -> Result<T, OpError> {
    msgs::op::input::read(data).map_err(|_| EINVAL)
}

fn done() -> Result<OpOutput, OpError> {
    Ok((0, Bufs::new()))
}

fn output<T: wire::Encode>(value: &T) -> Result<OpOutput, OpError> {
    Ok((0, msgs::op::input::write(value)))
}
