//! The outcome of a vector.

use super::called::Need;
use super::load::Loaded;
use super::source::CopySource;
use crate::object::ObjectInfo;
use crate::watch::Effect;
use msgs::{OpResult, OsdOp, SubOp};
use store::TxnOp;
use wire::{Errno, Utime};

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
