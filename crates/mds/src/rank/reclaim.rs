//! Clients that come back after a crash and want the sessions of their predecessors ended at once, which
//! nobody would renew any more (`ceph_start_reclaim`; NFS-Ganesha). A client is known by the uuid that it
//! gives itself.
//!
//! It is an eviction that a client asks for, instead of an administrator or the clock. The answer says that
//! it is complete: the OSDs refuse the predecessor, and the end of its session is durable. Nothing of a
//! reclaim is stored. A client that gets no answer, because the rank changed hands, asks again; by then its
//! predecessor is gone, or is evicted again.

use super::env::Env;
use super::sessions::Sessions;
use crate::types::{ClientId, Lsn};
use msgs::{ClientReclaim, ClientReclaimReply, reclaim_flag};
use node::Level;
use std::collections::{BTreeMap, BTreeSet};
use wire::{AddrVec, Errno};

/// The answer that a client waits for.
struct Asked {
    /// Sessions that have to end before.
    predecessors: BTreeSet<ClientId>,
    /// Their addresses.
    addrs: AddrVec,
}

/// The reclaims under way.
///
/// Invariants: whoever asked has a session; each predecessor has one too, which is being evicted.
#[derive(Default)]
pub(super) struct Reclaims {
    asked: BTreeMap<ClientId, Asked>,
}

impl Reclaims {
    /// Handles a client's message about its predecessor.
    pub fn ask(&mut self, env: &mut Env, sessions: &mut Sessions, client: ClientId, m: &ClientReclaim) {
        if m.flags == reclaim_flag::FINISH || sessions.get(client).is_none() {
            // An end needs nothing: a session that is to be ended leaves nothing to be taken.
            return;
        }
        if m.uuid.is_empty() || m.flags != reclaim_flag::RESET {
            return refuse(env, sessions, client, Errno::EINVAL);
        }
        let predecessors: BTreeSet<ClientId> = sessions.with_uuid(&m.uuid, client).into_iter().collect();
        // A uuid is no secret, so it gives no right to end sessions of other keys.
        let name = |of: ClientId| sessions.get(of).map(|s| s.record().name.as_str());
        if predecessors.iter().any(|other| name(*other) != name(client)) {
            let text = format!("{client} asks for the end of a session of another key");
            env.log(Level::Info, "reclaim_refused", text);
            return refuse(env, sessions, client, Errno::EPERM);
        }
        let records = predecessors.iter().filter_map(|other| sessions.get(*other));
        let addrs = AddrVec(records.flat_map(|s| s.record().addrs.0.iter().copied()).collect());
        for other in &predecessors {
            sessions.evict(env, *other, &format!("its successor {client} has come"));
        }
        self.asked.insert(client, Asked { predecessors, addrs });
        let lsn = env.journal().last();
        self.answer_if_done(env, sessions, client, lsn);
    }

    /// Notes that a session has ended with an event.
    pub fn session_ended(&mut self, env: &mut Env, sessions: &mut Sessions, ended: ClientId, lsn: Lsn) {
        self.asked.remove(&ended);
        let all = self.asked.iter_mut();
        let waited: Vec<ClientId> =
            all.filter_map(|(client, asked)| asked.predecessors.remove(&ended).then_some(*client)).collect();
        waited.into_iter().for_each(|client| self.answer_if_done(env, sessions, client, lsn));
    }

    /// Answers a client, once event `lsn` is durable, unless it waits for the end of a further session.
    fn answer_if_done(&mut self, env: &mut Env, sessions: &mut Sessions, client: ClientId, lsn: Lsn) {
        if self.asked.get(&client).is_some_and(|asked| asked.predecessors.is_empty())
            && let Some(Asked { addrs, .. }) = self.asked.remove(&client)
        {
            let reply = ClientReclaimReply { result: 0, epoch: env.cfg().osd_epoch, addrs };
            sessions.send(env, client, lsn, 0, reply);
        }
    }

    /// Asserts what holds between inputs.
    pub fn check(&self, sessions: &Sessions) {
        for (client, asked) in &self.asked {
            assert!(
                sessions.get(*client).is_some(),
                "{client} has a session and waits for its predecessor's end"
            );
            assert!(!asked.predecessors.is_empty(), "{client} waits for something");
            let is_ending = |other: &ClientId| sessions.is_evicting(*other);
            assert!(asked.predecessors.iter().all(is_ending), "each predecessor is being evicted");
        }
    }
}

fn refuse(env: &mut Env, sessions: &mut Sessions, client: ClientId, errno: Errno) {
    let result = errno.to_result_code();
    sessions.send(env, client, 0, 0, ClientReclaimReply { result, ..ClientReclaimReply::default() });
}
