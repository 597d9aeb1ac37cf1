//! What makes subtrees move: operations that need two of them, and pins.

use super::import::drop_base;
use super::{ASKED_AGAIN_AFTER, Rank, STAY};
use crate::authority::{Auth, Hold};
use crate::pins::Pinned;
use crate::rank::effect::Effect;
use crate::rank::env::Due;
use crate::rank::migration::{BUSY, Recall, Write, own, passes};
use crate::types::Need;
use fsfmt::{DirFrag, Ino};
use maps::MdsRank;
use node::Level;
use peer::MdsRecall;
use std::time::Duration;

/// The time after which a subtree is not asked for any more that no operation has needed since.
const WANTED_FOR: Duration = Duration::from_secs(5);

/// Roots of this rank's subtrees that are loaded at once, to look what is around them.
const MOST_LOADED: usize = 16;

impl Rank {
    /// An operation needs two subtrees under one authority. Of two ranks the lower one gets both, so that two
    /// that need the same do not take them from one another without end. Where the first can't leave because
    /// of a promise, the other comes.
    pub(in crate::rank) fn bring_together(&mut self, here: Ino, there: Ino, is_promised: bool) {
        let holder = match self.cache.subtrees.hold(there) {
            Some(Hold::Own) => return self.start_merge(there),
            Some(Hold::Foreign(rank)) => rank,
            Some(Hold::Settling | Hold::Leaving | Hold::Arriving) => return,
            None => MdsRank(there.owner() as i32),
        };
        let own = own(&self.env);
        // Each rank needs its own directory of strays, which another may have since it stopped, or needed it.
        let is_ours = own < holder && self.migration.stopping.is_none();
        let is_ours = is_ours || is_promised || there == self.own_strays();
        if !is_ours {
            // If it can't be now, the operation asks again when something has changed.
            if let Err(why) = self.start_export(here, holder)
                && !passes(why)
            {
                let text = format!("subtree {here} is needed at rank {holder} with {there}: {why}");
                self.env.log(Level::Info, "export_refused", text);
            }
            return;
        }
        let now = self.env.now();
        let recall = self.migration.recalls.entry(there).or_insert(Recall { wanted_at: now, next: now });
        recall.wanted_at = now;
        self.migration.look_at = self.migration.look_at.min(now);
    }

    pub(super) fn repeat_recalls(&mut self) {
        let now = self.env.now();
        for (root, recall) in self.migration.recalls.clone() {
            let is_wanted = now.since(recall.wanted_at) < WANTED_FOR;
            let holder = match self.cache.authority(root) {
                Ok(Auth::Rank(rank)) if is_wanted => rank,
                Ok(Auth::Frozen(_)) if self.cache.subtrees.hold(root) == Some(Hold::Arriving) => continue,
                _ => {
                    self.migration.recalls.remove(&root);
                    self.partition_changed(false);
                    continue;
                }
            };
            if now >= recall.next {
                let next = now + ASKED_AGAIN_AFTER;
                self.migration.recalls.insert(root, Recall { next, ..recall });
                self.env.effect(Effect::SendRank(holder, MdsRecall { root: root.0 }.into()));
            }
        }
    }

    /// Another rank needs a subtree of this one.
    pub(super) fn recalled(&mut self, from: MdsRank, root: Ino) {
        match self.cache.subtrees.hold(root) {
            Some(Hold::Settling | Hold::Leaving | Hold::Arriving) => {}
            hold if hold == Some(Hold::Own) || hold.is_none() && root == self.own_strays() => {
                if let Err(why) = self.start_export(root, from)
                    && !passes(why)
                {
                    let text = format!("rank {from} needs subtree {root}, which can't be handed over: {why}");
                    self.env.log(Level::Info, "recall_refused", text);
                }
            }
            Some(_) | None => self.tell_authority_to(root, from),
        }
    }

    /// A subtree of this rank becomes part of the one around it, if that is this rank's too; otherwise that
    /// one has to be brought here first.
    fn start_merge(&mut self, root: Ino) {
        let is_busy = self.migration.exports.contains_key(&root) || self.migration.merges.contains_key(&root);
        let Some(dir) = self
            .cache
            .subtrees
            .record(root)
            .map(|r| self.cache.subtrees.around(root, r))
            .filter(|_| !is_busy)
        else {
            return;
        };
        match self.cache.authority(dir) {
            Ok(Auth::Here) => {}
            Ok(Auth::Rank(_)) => {
                if let Ok(around) = self.cache.root_of(dir) {
                    self.bring_together(root, around, false);
                }
                return;
            }
            Ok(Auth::Frozen(_)) | Err(_) => return,
        }
        self.cache.subtrees.set(root, Hold::Arriving);
        let lsn = self.embed(root);
        self.env.want_durable(lsn);
        self.migration.merges.insert(root, Some(lsn));
        self.migration.look_at = self.env.now();
    }

    pub(super) fn advance_merges(&mut self) -> bool {
        let durable = self.env.journal().durable();
        for (root, lsn) in self.migration.merges.clone() {
            if lsn.is_some_and(|lsn| lsn <= durable) {
                self.migration.merges.insert(root, None);
                self.write_record(root, None, Write::Merge);
            }
        }
        false
    }

    /// The record of a subtree is gone that is part of the one around it.
    pub(super) fn merged(&mut self, root: Ino) {
        self.migration.merges.remove(&root);
        self.cache.subtrees.remove(root);
        drop_base(&mut self.env, &mut self.cache, root);
        self.env.due(Due::InodeLoaded(root.head()));
        self.migration.stay.insert(root, self.env.now() + STAY);
        self.balance.rest(self.env.now(), root);
        self.tell_authority(root);
        self.release_joined(root);
        self.partition_changed(false);
    }

    /// Joins subtrees of this rank to those around them that are its own too: one was about to leave when the
    /// other came, and stayed.
    pub(in crate::rank) fn join_own(&mut self) {
        if !self.is_active() {
            return;
        }
        let own = self.cache.subtrees.iter().filter(|(_, hold, _)| *hold == Hold::Own);
        let own = own.filter_map(|(root, _, record)| Some((root, self.cache.subtrees.around(root, record?))));
        let mut loads = 0;
        for (root, dir) in own.filter(|(root, _)| !root.is_base()).collect::<Vec<_>>() {
            match self.cache.authority(dir) {
                Ok(Auth::Here) => self.start_merge(root),
                Ok(_) => {}
                Err(_) if loads < MOST_LOADED => {
                    loads += 1;
                    self.env.due(Due::Load(Need::Inode(root.head()), None));
                }
                Err(_) => {}
            }
        }
    }

    /// Hands directories over to the ranks that they are pinned to.
    pub(in crate::rank) fn migrate_pinned(&mut self) {
        let now = self.env.now();
        self.migration.drop_stays(now);
        self.migration.has_more_pinned = false;
        if !self.is_active() || self.migration.stopping.is_some() {
            return;
        }
        let ranks = self.migration.takers(&self.env);
        for ino in self.migration.pinned.clone() {
            let Some(rank) = self.cache.pinned_to(ino, &ranks) else {
                self.migration.pinned.remove(&ino);
                continue;
            };
            let is_here = matches!(self.cache.authority(ino), Ok(Auth::Here));
            if is_here && rank != own(&self.env) && !self.migration.stays(ino, now) {
                self.migration.has_more_pinned |= self.start_export_in_parts(ino, rank) == Err(BUSY);
            }
        }
    }

    /// Notes the children of directories that are to be distributed.
    pub(in crate::rank) fn note_distributed(&mut self) {
        let Self { cache, migration, .. } = self;
        let is_wanted = |dir: &Ino| cache.inodes.get(&dir.head()).is_some_and(|i| i.data.pin.is_distributed);
        migration.distributed.retain(is_wanted);
        for dir in &migration.distributed {
            let slots = cache.dirs.range(DirFrag::all_of(*dir)).flat_map(|(_, d)| &d.slots);
            let children = slots.filter(|(key, _)| key.is_head());
            let children = children.filter_map(|(key, slot)| Some(slot.link(key).inode()?.ino));
            migration.pinned.extend(children.filter(|ino| cache.pin_of(*ino).is_some()));
        }
    }

    /// The subtrees for people, as `get subtrees` shows them.
    pub fn subtree_list(&self) -> serde_json::Value {
        let own = own(&self.env).0;
        let ranks = self.migration.takers(&self.env);
        let one = |(root, hold, path): (Ino, Option<Hold>, String)| {
            let (first, second) = match hold {
                Some(Hold::Foreign(rank)) => (rank.0, -2),
                Some(Hold::Leaving) => {
                    (own, self.cache.subtrees.record(root).map_or(-2, |record| record.rank.0))
                }
                Some(Hold::Arriving) => (own, own),
                Some(Hold::Own | Hold::Settling) => (own, -2),
                None => (0, -2),
            };
            let pinned = self.cache.pin_of(root);
            let export_pin = if let Some(Pinned::To(rank)) = pinned { rank.0 } else { -1 };
            serde_json::json!({
                "is_auth": first == own,
                "auth_first": first,
                "auth_second": second,
                "export_pin": export_pin,
                "distributed_ephemeral_pin": pinned == Some(Pinned::Distributed),
                "random_ephemeral_pin": pinned == Some(Pinned::Random),
                "export_pin_target": self.cache.pinned_to(root, &ranks).map_or(-1, |rank| rank.0),
                "dir": { "path": path, "dirfrag": dirfrag(root) },
            })
        };
        let path = |root: Ino, record: &fsfmt::SubtreeRecord| {
            if root.is_stray() {
                return format!("~mds{}/stray0", root.owner());
            }
            let names = record.prefix.iter().map(|entry| &entry.name).filter(|name| !name.is_empty());
            let names = names
                .chain(Some(&record.name).filter(|_| !root.is_shard()))
                .map(|name| String::from_utf8_lossy(name).into_owned());
            names.map(|name| format!("/{name}")).collect::<String>()
        };
        let all = self.cache.subtrees.iter();
        let roots = all.filter_map(|(root, hold, record)| Some((root, Some(hold), path(root, record?))));
        let top = (Ino::ROOT, None, String::new());
        [top].into_iter().chain(roots).map(one).collect()
    }
}

/// A subtree's root as Ceph shows it: the number of a directory, and of a shard the bits that the hashes of
/// its names begin with.
fn dirfrag(root: Ino) -> String {
    match root.as_shard() {
        None => format!("0x{:x}", root.0),
        Some(DirFrag { ino, frag }) => {
            let bit = |n: u32| if frag.value() >> (23 - n) & 1 == 1 { '1' } else { '0' };
            format!("0x{:x}.{}*", ino.0, (0..frag.bits()).map(bit).collect::<String>())
        }
    }
}
