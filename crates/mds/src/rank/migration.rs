//! The state of migrations: subtrees on their way, other ranks, pins. What is done with it is in `handover/`.

use super::env::Env;
use crate::cache::{Cache, Inode};
use crate::types::{IoId, Lsn};
use fsfmt::{Ino, InodeKey};
use maps::MdsRank;
use peer::{HandedCap, MdsHead, TakenCap};
use std::collections::{BTreeMap, BTreeSet};
use stdx::Instant;

/// The reason why a subtree can't be handed over yet.
pub(super) const BUSY: &str = "another one is on its way";

/// Another rank of the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RankStatus {
    /// Number of servers that have held it.
    pub incarnation: i32,
    /// It serves clients.
    pub is_active: bool,
}

/// The write that a migration waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Write {
    /// The record that names both ranks.
    Leave,
    /// The root's inode.
    Root,
    /// The record that names the new rank only, or its removal.
    Arrive,
    /// The removal of the record of a subtree that is this rank's anyhow.
    Merge,
}

/// Migrations, and what makes them.
///
/// Invariants: a subtree leaves, arrives or is merged, one of them at a time; each write under way belongs to
/// such a subtree.
#[derive(Default)]
pub(super) struct Migration {
    pub ranks: BTreeMap<MdsRank, RankStatus>,
    pub exports: BTreeMap<Ino, Export>,
    pub imports: BTreeMap<Ino, Import>,
    /// Subtrees of this rank that become part of the one around them again, with the event that must be
    /// durable before, until it is.
    pub merges: BTreeMap<Ino, Option<Lsn>>,
    pub recalls: BTreeMap<Ino, Recall>,
    pub writes: BTreeMap<IoId, (Ino, Write)>,
    /// Cached directories with a pin.
    pub pinned: BTreeSet<Ino>,
    /// Subtrees that operations needed here: until this instant they stay.
    pub stay: BTreeMap<Ino, Instant>,
    /// Capabilities as they were taken, in case that the answer was lost.
    pub taken: BTreeMap<Ino, Vec<TakenCap>>,
    /// The subtree of which inodes are being loaded because it was handed over once more.
    pub loaded_for: Option<Ino>,
    pub look_at: Instant,
    pub last_tid: u64,
}

impl Migration {
    /// True if no subtree is on its way.
    pub fn is_idle(&self) -> bool {
        self.exports.is_empty() && self.imports.is_empty() && self.merges.is_empty()
    }

    /// Time of the next look.
    pub fn deadline(&self) -> Option<Instant> {
        (!self.is_idle() || !self.recalls.is_empty()).then_some(self.look_at)
    }

    /// True while nobody is given a directory alone, because it may be about to leave.
    pub fn withholds_directories(&self) -> bool {
        self.exports.values().any(Export::is_quieting)
    }

    /// Notes a directory that was changed or loaded.
    pub fn note(&mut self, ino: InodeKey, inode: &Inode) {
        if inode.data.pin.rank.is_some() {
            self.pinned.insert(ino.ino);
        }
    }

    /// Notes that the last event has changed an inode.
    pub fn note_change(&mut self, env: &Env, cache: &Cache, ino: InodeKey) {
        if self.exports.is_empty() {
            return;
        }
        if let Ok(root) = cache.root_of(ino.ino)
            && let Some(export) = self.exports.get_mut(&root)
        {
            export.touched(env.journal().last());
        }
    }

    /// True if a rank serves clients.
    pub fn is_active(&self, rank: MdsRank) -> bool {
        self.ranks.get(&rank).is_some_and(|status| status.is_active)
    }

    pub fn head(&mut self, env: &Env) -> MdsHead {
        self.last_tid += 1;
        MdsHead { from: own(env), epoch: env.cfg().map_epoch, tid: self.last_tid }
    }
}

/// This rank.
pub(super) fn own(env: &Env) -> MdsRank {
    MdsRank(env.cfg().rank as i32)
}

/// How far a subtree is on its way to another rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ExportStep {
    /// Clients give up directories that they have alone: they could not be made to wait for anything else.
    Quiet,
    /// Operations wait until nothing is revoked, all is stored, and the journal has nothing of it any more.
    /// The last event that is about it.
    Settle(Lsn),
    /// The record is being written.
    Record,
    /// The other rank has to take it. The time of the next message.
    Hand(Instant),
}

/// A subtree on its way to another rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Export {
    pub to: MdsRank,
    pub step: ExportStep,
    pub since: Instant,
    /// What it waits for, for people.
    pub waits_for: &'static str,
}

impl Export {
    pub fn is_quieting(&self) -> bool {
        matches!(self.step, ExportStep::Quiet | ExportStep::Settle(_))
    }

    pub fn is_handing(&self) -> bool {
        matches!(self.step, ExportStep::Hand(_))
    }

    /// An event has changed something in it.
    pub fn touched(&mut self, lsn: Lsn) {
        if let ExportStep::Settle(last) = &mut self.step {
            *last = lsn;
        }
    }
}

/// How far a subtree is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ImportStep {
    /// This event must be durable.
    Journal(Lsn),
    /// The root or the record is being written.
    Write,
}

/// A subtree on its way to this rank.
#[derive(Debug)]
pub(super) struct Import {
    pub from: MdsRank,
    /// It becomes part of the subtree around it.
    pub is_merged: bool,
    pub step: ImportStep,
    pub caps: Vec<HandedCap>,
    pub taken: Vec<TakenCap>,
}

/// A subtree that operations need here, and which another rank has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recall {
    pub wanted_at: Instant,
    /// The time of the next message.
    pub next: Instant,
}
