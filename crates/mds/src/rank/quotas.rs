//! What clients know of trees with quotas: those that have a capability on a tree's directory are told when
//! its recursive statistics come nearer to the limits.

use super::effect::Stage;
use super::env::Env;
use super::sessions::Sessions;
use super::stat::timespec;
use crate::cache::{Cache, Inode};
use fsfmt::{InodeData, InodeKey, Quota};
use msgs::{ClientQuota, QuotaInfo};
use std::collections::{BTreeMap, BTreeSet};

/// A part of the distance to a limit: clients are told of changes that are larger.
const NOTICEABLE: u64 = 16;

/// The last thing that clients were told of a tree.
#[derive(Clone, PartialEq, Debug)]
struct Told {
    quota: Quota,
    bytes: u64,
    entries: u64,
}

impl Told {
    fn of(data: &InodeData) -> Self {
        let entries = data.rstat.rfiles.saturating_add(data.rstat.rsubdirs);
        Self { quota: (*data.quota).clone(), bytes: data.rstat.rbytes, entries }
    }

    /// True if clients have to hear of the state `now`.
    fn is_outdated(&self, now: &Self) -> bool {
        self.quota != now.quota
            || differs(self.bytes, now.bytes, now.quota.max_bytes)
            || differs(self.entries, now.entries, now.quota.max_files)
    }
}

fn differs(told: u64, now: u64, limit: u64) -> bool {
    let is_near = now >= limit || told.abs_diff(limit) / NOTICEABLE < told.abs_diff(now);
    limit > 0 && told != now && is_near
}

/// Trees with quotas.
///
/// Invariant: of each cached directory with a quota the last thing told is known.
#[derive(Default)]
pub(super) struct Quotas {
    told: BTreeMap<InodeKey, Told>,
    /// Directories to be looked at.
    changed: BTreeSet<InodeKey>,
}

impl Quotas {
    /// Notes that an inode was changed or loaded.
    pub fn note(&mut self, ino: InodeKey, inode: &Inode) {
        if inode.data.quota.is_enabled() || self.told.contains_key(&ino) {
            self.changed.insert(ino);
        }
    }

    /// Tells clients what has changed.
    pub fn advance(&mut self, env: &mut Env, cache: &Cache, sessions: &mut Sessions) {
        if self.changed.is_empty() || env.stage() != Stage::Active {
            return;
        }
        for ino in std::mem::take(&mut self.changed) {
            let Some(inode) = cache.inodes.get(&ino) else {
                // Nobody has a capability on it.
                self.told.remove(&ino);
                continue;
            };
            let now = Told::of(&inode.data);
            if self.told.get(&ino).is_some_and(|told| !told.is_outdated(&now)) {
                continue;
            }
            let message = message(&inode.data);
            for client in inode.caps.iter().filter_map(|(holder, _)| holder.client()) {
                sessions.send(env, client, inode.change.before(client), 0, message.clone());
            }
            if now.quota.is_enabled() {
                self.told.insert(ino, now);
            } else {
                self.told.remove(&ino);
            }
        }
        if self.told.len() > cache.inodes.len() {
            self.told.retain(|ino, _| cache.inodes.contains_key(ino));
        }
    }
}

fn message(data: &InodeData) -> ClientQuota {
    ClientQuota {
        ino: data.ino.0,
        rctime: timespec(data.rstat.rctime),
        rbytes: data.rstat.rbytes,
        rfiles: data.rstat.rfiles,
        rsubdirs: data.rstat.rsubdirs,
        quota: QuotaInfo { max_bytes: data.quota.max_bytes as i64, max_files: data.quota.max_files as i64 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_hear_of_more_the_nearer_a_limit_is() {
        assert!(!differs(0, 50, 1000) && differs(0, 63, 1000));
        assert!(!differs(900, 906, 1000) && differs(900, 907, 1000));
        assert!(differs(999, 1000, 1000) && differs(1000, 999, 1000) && differs(5, 2000, 1000));
        assert!(!differs(5, 1000, 0) && !differs(1000, 1000, 1000));
    }
}
