//! Start and shutdown of a monitor: opens, checks and closes its store.

use crate::consensus::VoterId;
use crate::entry::Change;
use crate::mon::{Mon, Out, Phase};
use crate::quorum::proxies::is_proxy;
use crate::raft_log::{Ident, LogEvent};
use crate::storage::Storage;
use auth::{EntityAuth, RotatingKeys};
use node::Output;
use stdx::Now;
use wire::{EntityName, EntityType};

/// Validity of the unused keys, see [`Mon::spare_keys`].
const SPARE_LIFE: std::time::Duration = std::time::Duration::from_secs(72 * 3600);

impl<S: Storage> Mon<S> {
    /// Adds advice to the error of a failed store.
    pub(super) fn advise(&self, why: &str) -> String {
        let (file, name) = (&self.config.store_path, &self.config.name);
        let others = self.known_monmap().mons.len().max(self.config.monmap.mons.len()) > 1;
        let what = match others {
            true => format!(
                "to rebuild it, `mv {file} {file}.damaged` and start mon.{name} again: it fetches everything from the other monitors"
            ),
            false => format!(
                "restore {file} from a copy: there is no other monitor that mon.{name} could be rebuilt from"
            ),
        };
        format!("{why} (file {file}); {what}")
    }

    /// Adds advice to the error of a store that has no space for what it must write.
    pub(super) fn advise_space(&self, why: &str) -> String {
        let (file, name) = (&self.config.store_path, &self.config.name);
        format!("{why} (file {file}): make it larger, `truncate -s +4G {file}`, and start mon.{name} again")
    }

    pub(super) fn opened(&mut self, now: Now, ident: Option<Ident>, out: &mut Vec<Out>) {
        let (name, fsid) = (self.config.name.clone(), self.config.monmap.fsid);
        match &ident {
            Some(found) if found.fsid != fsid => {
                let why = format!(
                    "the store belongs to cluster {}, the configuration says {fsid}: check `fsid` or the directory",
                    found.fsid
                );
                return self.stop(why, out);
            }
            Some(found) if found.name != name => {
                let why = format!(
                    "the store belongs to mon.{}, this is mon.{name}: check --id or the directory",
                    found.name
                );
                return self.stop(why, out);
            }
            _ => {}
        }
        let level = self.log.stored_level();
        if let Some(why) = self.config.build.levels.refusal_of_store(&format!("mon.{name}"), level) {
            return self.stop(format!("{why} (file {})", self.config.store_path), out);
        }
        if self.log.is_blank()
            && let Some(joined) = &self.config.joined
        {
            let (store, end) = (&self.config.store_path, "remove that file and a new, empty cluster begins");
            if self.config.monmap.ranks.iter().all(|other| *other == name) {
                let why = format!(
                    "the store {store} is empty, but {joined} says that mon.{name} was in a cluster. Where no \
                     monitor has its state any more, {end}"
                );
                return self.stop(why, out);
            }
            let what = format!(
                "the store {store} is new or was emptied: mon.{name} takes the cluster's state from the other \
                 monitors, of which {joined} tells. Where none has it any more, {end}"
            );
            out.push(Output::Event(node::Event::new(node::Level::Info, "waits_for_others", what)));
        }
        let store = ident.map(|found| found.store).filter(|store| *store != 0);
        let drawn = match stdx::mutants::is_active("mon_takes_a_new_store_for_its_old_one") {
            true => name.bytes().fold(1, |sum, byte| sum * 256 + u64::from(byte)),
            false => self.rng.u64().max(1),
        };
        let own = VoterId(store.unwrap_or(drawn));
        if store.is_none() {
            self.log.set_ident(Ident::new(fsid, &name, own));
        }
        self.spare_keys = RotatingKeys::default().rotated(now.wall, SPARE_LIFE, &mut self.rng);
        let rng = self.rng.fork();
        self.log.begin(now.mono, own, &name, rng);
        self.phase = Phase::Electing;
        self.publish_keys(now.mono, out);
    }

    /// Daemons that were added to the keyring since the last start and have no key here get theirs: an OSD
    /// that is new in the directory comes up without a further step.
    pub(super) fn take_new_daemons(&mut self, now: Now) {
        let known = self.log.tail().auth.clone();
        let is_daemon = |name: &EntityName| matches!(name.ty, EntityType::OSD | EntityType::MDS);
        let new =
            self.config.keyring.0.iter().filter(|(name, _)| is_daemon(name) && !known.contains_key(name));
        let sound = new.filter(|(_, e)| e.caps.iter().all(|(s, c)| auth::check_caps(s, c).is_ok()));
        let changes: Vec<Change> = sound
            .map(|(name, e)| {
                let auth = EntityAuth { key: e.key.clone(), caps: e.caps.clone() };
                Change::Auth(name.clone(), Some(auth))
            })
            .collect();
        if !changes.is_empty() {
            self.log.propose(now.wall, changes);
        }
    }

    /// True if the cluster has removed this monitor.
    pub(super) fn is_removed(&self) -> bool {
        let state = self.log.state();
        !state.is_empty()
            && !state.monmap.mons.contains_key(&self.config.name)
            && !self.log.raft().is_some_and(|r| r.is_leader() || r.is_voter())
    }

    /// Closes all connections, then shuts the store down.
    pub(super) fn close(&mut self, now: Now, out: &mut Vec<Out>) {
        self.phase = Phase::Closing;
        let mut events = Vec::new();
        self.log.resign(now, &mut events);
        self.log_events(now, events, out);
        let sessions = self.sessions.conns().into_iter().filter(|conn| !is_proxy(*conn));
        out.extend(sessions.chain(self.links.take_all()).map(|conn| Output::Close { conn }));
        let mut events = Vec::new();
        self.log.close(now, &mut events);
        self.closing(now, events, out);
    }

    /// Goes on with that.
    pub(super) fn closing(&mut self, now: Now, events: Vec<LogEvent>, out: &mut Vec<Out>) {
        // The remaining monitors report anything committed meanwhile.
        let own =
            |event: &LogEvent| matches!(event, LogEvent::Disk(..) | LogEvent::Failed(_) | LogEvent::Newer(_));
        self.log_events(now, events.into_iter().filter(own).collect(), out);
        if self.phase == Phase::Closing && self.log.is_closed() {
            self.phase = Phase::Stopped;
            out.push(Output::Stop(Ok(())));
        }
    }
}
