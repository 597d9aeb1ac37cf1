//! The files of a large subtree go ahead of it, while operations in it go on: these are to wait for no more
//! than what has changed since. Of each file that has gone ahead its state is remembered. When the subtree
//! is handed over, files that are in another state then are sent once more, and those that are not in it any
//! more are named (`MdsHandOver::changed`). Directories are few, and change all the time: they do not go
//! ahead.

use super::Rank;
use super::content::{Sent, entry_of};
use crate::rank::effect::Effect;
use crate::rank::migration::SentAhead;
use fsfmt::{Ino, InodeKey};
use maps::MdsRank;
use peer::MdsHandAhead;
use std::time::Duration;

/// How often what has come to be meanwhile goes ahead too.
const MOST_ROUNDS: u32 = 4;
/// The time after which a receiver drops what came ahead of nothing.
const KEPT_FOR: Duration = Duration::from_secs(30);

impl Rank {
    /// Sends a part of a subtree ahead; true if few files are left, or there are not many.
    pub(super) fn send_ahead(&mut self, root: Ino, to: MdsRank) -> bool {
        let next = self.migration.last_ahead + 1;
        let begun = self.migration.sent_ahead.remove(&root);
        let mut ahead = begun.unwrap_or_else(|| SentAhead { id: next, ..SentAhead::default() });
        self.migration.last_ahead = self.migration.last_ahead.max(ahead.id);
        let most = self.env.cfg().options.handover_part;
        if ahead.left.is_empty() {
            let is_new = |ino: &InodeKey| {
                let inode = self.cache.inodes.get(ino).filter(|inode| !inode.data.is_dir());
                inode.is_some_and(|inode| !inode.caps.is_empty()) && !ahead.sent.contains_key(ino)
            };
            ahead.left = self.cache.subtree(root).into_iter().filter(is_new).collect();
            ahead.rounds += 1;
            if ahead.left.len() <= most || ahead.rounds > MOST_ROUNDS {
                self.migration.sent_ahead.extend((ahead.parts > 0).then_some((root, ahead)));
                return true;
            }
        }
        let mut m = MdsHandAhead { root: root.0, ahead: ahead.id, part: ahead.parts, ..Default::default() };
        let count = ahead.left.len().min(most);
        for ino in ahead.left.drain(..count) {
            let Some(inode) = self.cache.inodes.get(&ino) else { continue };
            let state = Sent::new(inode);
            m.entries.extend(entry_of(&self.cache, inode));
            m.caps.extend_from_slice(&state.caps);
            ahead.sent.insert(ino, state);
        }
        ahead.parts += 1;
        self.env.effect(Effect::SendRank(to, m.into()));
        self.migration.sent_ahead.insert(root, ahead);
        self.migration.exports.get_mut(&root).expect("it is under way").since = self.env.now();
        false
    }

    /// Drops what has come ahead of subtrees that have not followed.
    pub(super) fn drop_old_ahead(&mut self) {
        let now = self.env.now();
        self.migration.ahead.retain(|_, ahead| now.since(ahead.at) < KEPT_FOR);
    }
}
