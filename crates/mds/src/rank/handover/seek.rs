//! Inodes that are not found where the inode index says, because another rank has made or moved them, and has
//! that in its journal only. A hard link leads to one, or a client that asks by number, or claims what it
//! held before a restart. All other ranks store what they have; then the index is right.

use super::{ASKED_AGAIN_AFTER, Rank};
use crate::authority::Hold;
use crate::io::{IoWhy, ObjOp};
use crate::rank::effect::Effect;
use crate::rank::migration::{Read, Sought};
use fsfmt::{Ino, InodeData, names};
use maps::MdsRank;
use peer::MdsStore;
use std::collections::BTreeSet;

impl Rank {
    /// An operation, or a claim, does not find an inode. What was stored for others before may be older than
    /// what it needs.
    pub(in crate::rank) fn seek(&mut self, ino: Ino) {
        self.migration.last_seek += 1;
        let asked = self.migration.ranks.keys().copied().collect();
        let id = self.migration.last_seek;
        let sought = Sought { id, asked, next: self.env.now(), roots: None };
        self.migration.sought.insert(ino, sought);
        self.migration.look_at = self.migration.look_at.min(self.env.now());
    }

    /// Goes on with what is sought: asks the other ranks, then renews copies. True if one may be found now.
    pub(super) fn repeat_seeks(&mut self) -> bool {
        let (mut is_found, passes_on) = (false, self.passes_on());
        let ranks = self.migration.ranks.clone();
        for ino in self.migration.sought.keys().copied().collect::<Vec<_>>() {
            let sought = self.migration.sought.get_mut(&ino).expect("just listed");
            // One that has stopped has stored all.
            sought.asked.retain(|rank| ranks.contains_key(rank));
            match (sought.asked.is_empty(), &sought.roots) {
                (false, _) => self.ask_to_store(ino),
                (true, None) => {
                    let roots = self.read_foreign_roots(ino);
                    self.migration.sought.get_mut(&ino).expect("just listed").roots = Some(roots);
                }
                (true, Some(roots)) if roots.is_empty() && !passes_on => {
                    self.migration.sought.remove(&ino);
                    // What is cached of their directories is older.
                    self.cache.drop_copies();
                    self.partition_changed(false);
                    self.ops.all_is_stored(ino.head());
                    self.client_replay.all_is_stored(&mut self.env, &self.cache, ino.head());
                    is_found = true;
                }
                (true, Some(_)) => {}
            }
        }
        is_found
    }

    fn ask_to_store(&mut self, ino: Ino) {
        let now = self.env.now();
        let Some(sought) = self.migration.sought.get_mut(&ino).filter(|sought| now >= sought.next) else {
            return;
        };
        sought.next = now + ASKED_AGAIN_AFTER;
        let m = MdsStore { id: sought.id, is_done: false };
        for rank in sought.asked.iter().copied() {
            self.env.effect(Effect::SendRank(rank, m.clone().into()));
        }
    }

    /// Reads the roots of other ranks' subtrees of which there are copies: their fragments may have changed.
    fn read_foreign_roots(&mut self, ino: Ino) -> BTreeSet<Ino> {
        let foreign = self.cache.subtrees.iter().filter(|(_, hold, _)| matches!(hold, Hold::Foreign(_)));
        // The root of the file system is rank 0's.
        let top = (self.env.cfg().rank != 0).then_some(Ino::ROOT);
        let foreign = foreign.map(|(root, ..)| root).chain(top);
        let roots: BTreeSet<Ino> =
            foreign.filter(|root| self.cache.inodes.contains_key(&root.head())).collect();
        for root in roots.iter().copied() {
            let whole = vec![ObjOp::Read { offset: 0, len: 0 }];
            let id = self.env.start_metadata_io(names::base_object(root), whole, IoWhy::PartitionRead);
            self.migration.reads.insert(id, Read::Root(root, ino));
        }
        roots
    }

    /// The root of another rank's subtree was read, for an inode that is not found.
    pub(super) fn foreign_root_read(&mut self, root: Ino, ino: Ino, data: Option<InodeData>) {
        if let Some(data) = data {
            self.cache.renew_copy(data);
        }
        if let Some(sought) = self.migration.sought.get_mut(&ino) {
            sought.roots.iter_mut().for_each(|roots| roots.retain(|other| *other != root));
        }
        self.migration.look_at = self.env.now();
    }

    /// Another rank asks for this, or has done it.
    pub(super) fn stored(&mut self, from: MdsRank, m: &MdsStore) {
        if m.is_done {
            let sought = self.migration.sought.values_mut().find(|sought| sought.id == m.id);
            sought.into_iter().for_each(|sought| sought.asked.retain(|rank| *rank != from));
        } else if !self.migration.storing_for.contains_key(&(from, m.id)) {
            let last = self.write_back.flush(&mut self.env);
            self.migration.storing_for.insert((from, m.id), last);
        }
        self.migration.look_at = self.env.now();
    }

    /// Tells those who have waited for it that everything is stored.
    pub(super) fn tell_stored(&mut self) {
        let oldest = self.env.journal().oldest();
        let stored = self.migration.storing_for.extract_if(.., |_, last| *last < oldest);
        for ((rank, id), _) in stored.collect::<Vec<_>>() {
            self.env.effect(Effect::SendRank(rank, MdsStore { id, is_done: true }.into()));
        }
    }
}
