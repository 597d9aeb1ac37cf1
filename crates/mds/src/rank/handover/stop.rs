//! The end of a rank beyond `max_mds`: it hands over all that it has, closes its sessions, and writes
//! everything back. What it leaves is an empty journal, and its range of inode numbers.

use super::Rank;
use crate::authority::{Auth, Hold};
use crate::rank::effect::{Effect, Stage};
use crate::rank::env::Due;
use crate::rank::migration::Stopping;
use crate::types::{ClientId, Need};
use fsfmt::Ino;
use node::Level;
use stdx::Now;

impl Rank {
    /// Begins to stop, as the map says.
    pub fn stop(&mut self, now: Now) {
        self.env.set_now(now);
        if self.is_active() && self.migration.stopping.is_none() {
            self.env.log(Level::Info, "rank_stops", "hands over all that it has".to_owned());
            self.migration.stopping = Some(Stopping::HandOver);
            self.migration.look_at = now.mono;
        }
    }

    /// True if it opens no sessions any more.
    pub(in crate::rank) fn is_closing(&self) -> bool {
        matches!(self.migration.stopping, Some(Stopping::Close | Stopping::Flush))
    }

    /// Goes on with stopping once nothing is on its way.
    pub(super) fn advance_stop(&mut self) {
        let is_idle = self.migration.is_idle(&self.cache) && !self.migration.is_fencing(&self.cache);
        let Some(step) = self.migration.stopping.filter(|_| is_idle) else { return };
        if !self.return_replicas() {
            return;
        }
        let mut left = self.subtrees_left().peekable();
        if left.peek().is_some() && !stdx::mutants::is_active("mds_stops_with_what_it_has") {
            let next = left.find(|root| !self.migration.stays(*root, self.env.now()));
            drop(left);
            self.migration.stopping = Some(Stopping::HandOver);
            return next.into_iter().for_each(|root| self.leave(root));
        }
        drop(left);
        self.migration.stopping = Some(match step {
            Stopping::HandOver => Stopping::Close,
            Stopping::Close if self.close_sessions() => {
                self.flush_journal();
                Stopping::Flush
            }
            Stopping::Flush if self.is_flushed() && self.sessions.is_quiet() => {
                self.env.enter(Stage::Stopped);
                return self.env.effect(Effect::Reached(Stage::Stopped));
            }
            step => step,
        });
    }

    /// What this rank still has the authority over.
    fn subtrees_left(&self) -> impl Iterator<Item = Ino> {
        let own = self.cache.subtrees.iter().filter(|(_, hold, _)| !matches!(hold, Hold::Foreign(_)));
        let strays = self.own_strays();
        let has_strays = self.cache.subtrees.hold(strays).is_none();
        own.map(|(root, ..)| root).chain(has_strays.then_some(strays))
    }

    /// Hands a subtree over to the rank that it is pinned to, to that of the directory above, or to the
    /// first.
    fn leave(&mut self, root: Ino) {
        if !self.cache.inodes.contains_key(&root.head()) {
            return self.env.due(Due::Load(Need::Inode(root.head()), None));
        }
        let subtrees = &self.cache.subtrees;
        let around = subtrees.record(root).map(|record| self.cache.authority(subtrees.around(root, record)));
        let around = match around {
            Some(Ok(Auth::Rank(rank))) => Some(rank),
            _ => None,
        };
        let others = self.migration.ranks.keys().copied();
        let pinned = self.cache.pinned_to(root, &self.migration.takers(&self.env));
        let mut wanted = pinned.into_iter().chain(around).chain(others);
        let Some(to) = wanted.find(|rank| self.migration.takes_subtrees(*rank)) else { return };
        if let Err(why) = self.start_export_in_parts(root, to) {
            let text = format!("subtree {root} can't be handed over to rank {to}: {why}");
            self.env.log(Level::Info, "export_refused", text);
            self.migration.stay.insert(root, self.env.now() + super::STAY);
        }
    }

    /// Closes the sessions; true if there is none any more.
    fn close_sessions(&mut self) -> bool {
        if self.has_absent_clients() || !self.ops.is_empty() {
            return false;
        }
        let is_done =
            |client: &ClientId| !self.sessions.is_evicting(*client) && self.sessions.held(*client).is_empty();
        for client in self.sessions.clients().into_iter().filter(is_done).collect::<Vec<_>>() {
            self.close_session(client);
        }
        self.sessions.clients().is_empty()
    }
}
