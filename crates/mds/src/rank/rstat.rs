//! Recursive statistics travel up the tree a step at a time, some seconds late: each inode remembers which part of its
//! own its parent already counts (`accounted`).

use super::Rank;
use crate::ops::Draft;
use crate::types::{Need, Stop};
use fsfmt::{Ino, InodeKey, NestStat};

/// Inodes whose statistics move in one event.
const BATCH: usize = 200;

/// Adds `new - old` to `total`.
pub(crate) fn shift(total: &mut NestStat, old: &NestStat, new: &NestStat) {
    let move_by = |t: u64, o: u64, n: u64| t.wrapping_add(n).wrapping_sub(o);
    total.rbytes = move_by(total.rbytes, old.rbytes, new.rbytes);
    total.rfiles = move_by(total.rfiles, old.rfiles, new.rfiles);
    total.rsubdirs = move_by(total.rsubdirs, old.rsubdirs, new.rsubdirs);
    total.rsnaps = move_by(total.rsnaps, old.rsnaps, new.rsnaps);
    total.rctime = total.rctime.max(new.rctime);
}

impl Rank {
    /// Moves statistics one level up.
    pub(super) fn propagate_stats(&mut self) {
        if self.stage != super::Stage::Active
            || self.journal.is_full()
            || self.draining
            || self.unaccounted.is_empty()
        {
            return;
        }
        let some: Vec<InodeKey> = self.unaccounted.iter().take(BATCH).copied().collect();
        let mut done = Vec::new();
        let updates = {
            let mut draft = Draft::new(&self.cache, self.stamp());
            for ino in some {
                match Self::account(&mut draft, &self.cache, ino) {
                    Ok(()) | Err(Stop::Fail(_)) => done.push(ino),
                    Err(Stop::Need(needs)) => {
                        for need in needs {
                            if matches!(need, Need::Inode(_)) {
                                done.push(ino);
                            }
                        }
                    }
                }
            }
            draft.finish_quietly()
        };
        for ino in done {
            self.unaccounted.remove(&ino);
        }
        if !updates.is_empty() {
            self.commit_event("account", updates);
        }
    }

    fn account(draft: &mut Draft<'_>, cache: &crate::cache::Cache, ino: InodeKey) -> Result<(), Stop> {
        let place = cache.inodes.get(&ino).and_then(|i| i.place.clone());
        let Some((dir, _)) = place.filter(|(dir, _)| !dir.ino.is_base() || dir.ino == Ino::ROOT) else {
            return Ok(());
        };
        // A parent that is not cached counts it when it is used next: its child is then looked at again.
        cache.inode(dir.inode())?;
        let inode = draft.inode(ino)?;
        if inode.rstat == inode.accounted {
            return Ok(());
        }
        let (old, new) = (inode.accounted.clone(), inode.rstat.clone());
        inode.accounted = new.clone();
        shift(&mut draft.inode(dir.inode())?.rstat, &old, &new);
        Ok(())
    }
}
