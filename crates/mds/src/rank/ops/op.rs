//! One running operation.

use crate::page::Page;
use crate::rank::sessions::Asked;
use crate::types::{ClientId, Need, OpId};
use fsfmt::InodeKey;
use msgs::{ClientRequest, FileLockArgs, FilePath, MdsOp, lock_kind, lock_rule};
use std::collections::{BTreeMap, BTreeSet};
use stdx::Instant;
use wire::Errno;

/// A client's request until it is answered. It is in the table of operations, or taken out of it for a step.
pub(super) struct Op {
    pub id: OpId,
    pub client: ClientId,
    pub tid: u64,
    /// Time at which it came.
    pub began: Instant,
    pub request: ClientRequest,
    /// Needs that it waits for.
    pub needs: BTreeSet<Need>,
    /// Inodes that it revokes bits of or waits on.
    pub touched: BTreeSet<InodeKey>,
    /// Inodes that turned out not to exist (`ESTALE`), or can't be read.
    pub missing: BTreeMap<InodeKey, Errno>,
    /// How often it has waited for these until all ranks had stored what they had.
    pub sought: BTreeMap<InodeKey, u32>,
    /// True if an entry or a page that it needs can't be read.
    pub is_on_damage: bool,
    /// Parts of directories that are cached without gaps since its last run.
    pub pages: Vec<Page>,
    /// Its last run.
    pub last_run: u64,
}

impl Op {
    pub fn new(began: Instant, id: OpId, client: ClientId, tid: u64, request: ClientRequest) -> Self {
        Self {
            id,
            client,
            tid,
            began,
            request,
            needs: BTreeSet::new(),
            touched: BTreeSet::new(),
            missing: BTreeMap::new(),
            sought: BTreeMap::new(),
            is_on_damage: false,
            pages: Vec::new(),
            last_run: 0,
        }
    }

    /// What it is, for the one who measures how long it takes.
    pub fn asked(&self) -> Asked {
        Asked { op: self.request.op, at: self.began }
    }

    /// True if entries loaded for it must stay in the cache.
    pub fn waits_for_loads(&self) -> bool {
        self.needs.iter().any(|n| matches!(n, Need::Dentry(..) | Need::Page(..) | Need::Inode(_)))
    }

    /// The first run on whose loads it relies: its last run may not have examined all of a page.
    pub fn needs_since(&self) -> u64 {
        self.pages.iter().map(|p| p.since).min().unwrap_or(self.last_run).min(self.last_run)
    }

    /// True if a client's request about a file interrupts this one, which waits for a lock.
    pub fn is_interrupted_by(&self, client: ClientId, (path, asked): (&FilePath, &FileLockArgs)) -> bool {
        let args: FileLockArgs = self.request.args.get();
        self.client == client
            && self.request.op == MdsOp::SETFILELOCK
            && self.request.path == *path
            && args.wait != 0
            && args.kind != lock_kind::UNLOCK
            && asked.rule.checked_sub(lock_rule::INTERRUPT) == Some(args.rule)
            && (args.owner, args.pid, args.start, args.length)
                == (asked.owner, asked.pid, asked.start, asked.length)
    }

    /// The operation for people.
    pub fn describe(&self) -> serde_json::Value {
        let path = String::from_utf8_lossy(&self.request.path.path).into_owned();
        serde_json::json!({
            "client": self.client.0,
            "tid": self.tid,
            "op": self.request.op.to_string(),
            "path": format!("#{:x}/{path}", self.request.path.ino),
            "waits_for": self.needs.iter().map(|n| format!("{n:?}")).collect::<Vec<_>>(),
        })
    }
}

/// The lock named by a request that interrupts another one.
pub(super) fn interrupts(request: &ClientRequest) -> Option<FileLockArgs> {
    let asked: FileLockArgs = request.args.get();
    let rules = [lock_rule::FCNTL, lock_rule::FLOCK].map(|rule| rule + lock_rule::INTERRUPT);
    (request.op == MdsOp::SETFILELOCK && rules.contains(&asked.rule)).then_some(asked)
}
