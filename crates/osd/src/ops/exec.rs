//! The state that the operations of a vector, and the methods of classes, work on.

use super::called::Need;
use super::limits::Limits;
use super::load::Loaded;
use super::outcome::Outcome;
use super::source::CopySource;
use crate::object::ObjectInfo;
use crate::watch::{Effect, Stored, Watches};
use maps::EVersion;
use msgs::OpResult;
use stdx::Wall;
use store::{ObjectKey, TxnOp};
use wire::{EntityAddr, EntityId, Errno, Utime};

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

/// The state that operations work on.
pub(crate) struct Exec<'a> {
    pub(crate) key: &'a ObjectKey,
    pub(super) limits: &'a Limits,
    pub(crate) loaded: &'a Loaded,
    pub(crate) caller: Caller<'a>,
    pub(crate) exists: bool,
    pub(crate) size: u64,
    pub(super) info: ObjectInfo,
    pub(crate) watches: Stored,
    pub(crate) txn: Vec<TxnOp>,
    pub(super) modified: bool,
    pub(crate) user_modified: bool,
    pub(super) effects: Vec<Effect>,
    pub(crate) needs: Vec<Need>,
    pub(super) copies: Vec<(usize, CopySource)>,
    pub(super) copied: Option<(u64, Utime)>,
}

impl<'a> Exec<'a> {
    /// The state of an object as it was loaded.
    pub(super) fn new(
        key: &'a ObjectKey,
        loaded: &'a Loaded,
        limits: &'a Limits,
        caller: Caller<'a>,
    ) -> Self {
        Self {
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
        }
    }

    /// What has come of it.
    pub(super) fn finish(self, result: i32, ops: Vec<OpResult>) -> Outcome {
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

    /// Makes the object exist, if it does not.
    pub(crate) fn ensure_exists(&mut self) {
        if !self.exists {
            self.exists = true;
            self.txn.push(TxnOp::Touch(self.key.clone()));
        }
        self.modified = true;
    }

    pub(super) fn must_exist(&self) -> Result<(), Errno> {
        if self.exists { Ok(()) } else { Err(Errno::ENOENT) }
    }
}
