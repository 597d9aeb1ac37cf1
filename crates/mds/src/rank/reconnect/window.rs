//! The reconnect window: the wait for the predecessor's clients, and the record of those that did not come.

use super::Reconnect;
use crate::cache::Cache;
use crate::rank::commit::commit;
use crate::rank::effect::{Effect, Stage};
use crate::rank::env::Env;
use crate::rank::sessions::Sessions;
use crate::types::ClientId;
use fsfmt::Update;
use node::Level;
use std::time::Duration;
use stdx::Instant;

/// Time that clients have to reconnect after a restart: Ceph's `mds_reconnect_timeout`.
const RECONNECT_WINDOW: Duration = Duration::from_secs(45);
/// The rank waits this long for all of them before it goes on with those that came. Clients that get the
/// monitors' map at once reconnect within milliseconds; any further wait delays everybody.
const GRACE: Duration = Duration::from_millis(500);

/// The most missing clients that an event names.
const NAMED: usize = 20;

impl Reconnect {
    /// Opens the window: clients may reconnect.
    pub fn open_window(&mut self, now: Instant) {
        self.opened = Some(now);
        self.go_on = Some(now + GRACE);
        self.until = Some(now + RECONNECT_WINDOW);
    }

    /// The end of the reconnect window.
    pub fn deadline(&self) -> Option<Instant> {
        self.go_on
    }

    /// Ends the reconnect stage when all have come or the grace is over, and evicts those that have not come
    /// in time.
    pub fn check_window(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions) {
        if env.stage() < Stage::Reconnecting {
            return;
        }
        if self.until.is_some_and(|at| env.now() >= at) {
            self.evict_late(env, sessions);
        }
        let has_waited = self.go_on.is_some_and(|at| env.now() >= at);
        if env.stage() != Stage::Reconnecting || self.has_absent() && !has_waited {
            return;
        }
        self.go_on = None;
        if self.has_absent() {
            let named: Vec<String> = self.absent.keys().take(NAMED).map(ToString::to_string).collect();
            let more = self.absent.len() - named.len();
            let more = if more > 0 { format!(" and {more} others") } else { String::new() };
            let text = format!("not back yet: {}{more}", named.join(", "));
            env.log(Level::Info, "clients_missing", text);
            // Journaled before all changes made without them.
            let absent = &self.absent;
            let in_doubt = |client, was| was || absent.contains_key(&client);
            record_absent(env, cache, sessions, in_doubt);
        }
        env.enter(Stage::Rejoined);
        env.effect(Effect::Reached(Stage::Rejoined));
    }

    /// Evicts those that have not come in time. NFS-Ganesha asks for more of it, until it is started again.
    fn evict_late(&mut self, env: &mut Env, sessions: &mut Sessions) {
        self.until = None;
        let Some(opened) = self.opened else { return };
        for (client, _) in self.absent.iter().filter(|(_, a)| !a.has_claimed) {
            let patience = sessions.get(*client).and_then(|s| s.patience(env.cfg()));
            let until = opened + patience.unwrap_or_default().max(RECONNECT_WINDOW);
            if until <= env.now() {
                sessions.evict(env, *client, "it did not come back");
            } else {
                self.until = Some(self.until.map_or(until, |other| other.min(until)));
            }
        }
    }

    /// Handles a client's renewal: once it has confirmed all revocations, its cached state is no longer in
    /// doubt.
    pub fn settle_doubts(&self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, client: ClientId) {
        let is_in_doubt = sessions.get(client).is_some_and(|s| s.record().was_absent);
        let is_here = env.stage() == Stage::Active && !self.absent.contains_key(&client);
        if is_in_doubt && is_here && !sessions.is_revoking(cache, client) {
            record_absent(env, cache, sessions, |other, was| was && other != client);
        }
    }
}

/// Journals the clients whose cached state may be stale, because the rank went on without them.
fn record_absent(
    env: &mut Env,
    cache: &mut Cache,
    sessions: &mut Sessions,
    is_in_doubt: impl Fn(ClientId, bool) -> bool,
) {
    let in_doubt = sessions.iter().filter(|(client, s)| is_in_doubt(*client, s.record().was_absent));
    let clients = in_doubt.map(|(client, _)| client.0).collect();
    commit(env, cache, sessions, "clients missing", vec![Update::Absent { clients }]);
}
