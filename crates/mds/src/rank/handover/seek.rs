//! Inodes that are not found where the inode index says, because another rank has made or moved them, and has
//! that in its journal only. A hard link leads to one, or a client that asks by number. All other ranks store
//! what they have; then the index is right.

use super::{ASKED_AGAIN_AFTER, Rank};
use crate::rank::effect::Effect;
use crate::rank::migration::Sought;
use fsfmt::Ino;
use maps::MdsRank;
use peer::MdsStore;

impl Rank {
    /// An operation does not find an inode.
    pub(in crate::rank) fn seek(&mut self, ino: Ino) {
        let asked = self.migration.ranks.keys().copied().collect();
        self.migration.sought.entry(ino).or_insert(Sought { asked, next: self.env.now() });
        self.migration.look_at = self.migration.look_at.min(self.env.now());
    }

    /// Asks those that have not answered. True if all have answered for an inode.
    pub(super) fn repeat_seeks(&mut self) -> bool {
        let (now, passes_on, mut is_found) = (self.env.now(), self.passes_on(), false);
        for ino in self.migration.sought.keys().copied().collect::<Vec<_>>() {
            let sought = self.migration.sought.get_mut(&ino).expect("just listed");
            // One that has stopped has stored all.
            sought.asked.retain(|rank| self.migration.ranks.contains_key(rank));
            if sought.asked.is_empty() && !passes_on {
                self.migration.sought.remove(&ino);
                // What is cached of their directories is older.
                self.cache.drop_copies();
                self.cache.subtrees.note_stored(ino);
                self.partition_changed(false);
                is_found = true;
            } else if now >= sought.next {
                sought.next = now + ASKED_AGAIN_AFTER;
                for rank in sought.asked.clone() {
                    let m = MdsStore { ino: ino.0, is_done: false };
                    self.env.effect(Effect::SendRank(rank, m.into()));
                }
            }
        }
        is_found
    }

    /// Another rank asks for this, or has done it.
    pub(super) fn stored(&mut self, from: MdsRank, m: &MdsStore) {
        let ino = Ino(m.ino);
        if m.is_done
            && let Some(sought) = self.migration.sought.get_mut(&ino)
        {
            sought.asked.remove(&from);
        } else if !m.is_done && self.migration.storing_for.insert((from, ino)) {
            self.flush_journal();
        }
        self.migration.look_at = self.env.now();
    }

    /// Tells those who have waited for it that everything is stored.
    pub(super) fn tell_stored(&mut self) {
        if self.is_flushed() {
            for (rank, ino) in std::mem::take(&mut self.migration.storing_for) {
                let m = MdsStore { ino: ino.0, is_done: true };
                self.env.effect(Effect::SendRank(rank, m.into()));
            }
        }
    }
}
