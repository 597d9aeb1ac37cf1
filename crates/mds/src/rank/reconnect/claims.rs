//! Claims of reconnecting clients, and the return to normal service.

use super::unflushed::Unflushed;
use super::{Reconnect, Resumed, Waiting, release_presumed};
use crate::cache::{Cache, Inode};
use crate::cap::{Cap, Moved};
use crate::locks::Style;
use crate::rank::caps::{Caps, send_cap, send_import};
use crate::rank::effect::{Effect, Stage};
use crate::rank::env::{Due, Env};
use crate::rank::sessions::{SessionState, Sessions};
use crate::rank::snaps;
use crate::types::{ClientId, Need};
use auth::MdsCap;
use fsfmt::{Ino, InodeKey};
use msgs::{CapReconnect, ClientReconnect, ClientSession, FileLock, RefusedLock, cap_op, session_op};
use node::Level;
use std::collections::BTreeSet;
use wire::Reader;

/// Upper bound of capability ids: no rank gives out as many, so a higher number in a claim is forged.
const CAP_IDS_END: u64 = 1 << 62;

impl Reconnect {
    /// Handles a client's claims.
    pub fn client_reconnect(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        caps: &mut Caps,
        client: ClientId,
        m: ClientReconnect,
    ) {
        let is_absent = sessions.get(client).is_some_and(|s| s.state() == SessionState::Absent);
        let is_waited_for = self.absent.get(&client).is_some_and(|a| !a.has_claimed);
        let is_open = sessions.get(client).is_some_and(|s| s.state() == SessionState::Open);
        if env.stage() == Stage::Active && is_open {
            // Something came here from another rank. The client has no connection yet, and can't tell whether
            // this is a successor of the one that took it.
            return sessions.take_unasked(env, client);
        }
        if env.stage() < Stage::Reconnecting || !is_absent || !is_waited_for {
            let close = ClientSession::of(session_op::CLOSE, 0);
            return env.effect(Effect::Send(client, 0, close.into()));
        }
        let (mut loading, mut refused) = (0, Vec::new());
        let absent = self.absent.get_mut(&client);
        let unflushed = absent.map(|absent| std::mem::take(&mut absent.unflushed)).unwrap_or_default();
        for (ino, claim) in m.caps {
            if claim.cap_id < CAP_IDS_END {
                caps.reserve_id(claim.cap_id);
            }
            let ino = Ino(ino).head();
            match cache.missing_for_claim(ino) {
                None => refused.extend(claim_cap(env, cache, sessions, client, ino, (&claim, &unflushed))),
                Some(missing) => {
                    loading += 1;
                    self.wait_for(env, missing, Waiting { client, ino, claim });
                }
            }
        }
        if let Some(absent) = self.absent.get_mut(&client) {
            absent.loading += loading;
            absent.refused.extend(refused);
            absent.has_claimed = !m.more;
            absent.unflushed = unflushed;
        }
        self.note_if_reconnected(client);
    }

    fn note_if_reconnected(&mut self, client: ClientId) {
        if self.absent.get(&client).is_some_and(|a| a.has_claimed && a.loading == 0) {
            self.reconnected.push_back(client);
        }
    }

    fn wait_for(&mut self, env: &mut Env, missing: InodeKey, waiting: Waiting) {
        self.claims.entry(missing).or_default().push(waiting);
        env.due(Due::Load(Need::Inode(missing), None));
    }

    /// Decides the claims that waited for an inode that was loaded, or does not exist.
    pub fn resume_claims(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        loaded: InodeKey,
    ) {
        for waiting in self.claims.remove(&loaded).unwrap_or_default() {
            // What can't be loaded is damaged or gone.
            if let Some(missing) = cache.missing_for_claim(waiting.ino).filter(|missing| *missing != loaded) {
                self.wait_for(env, missing, waiting);
                continue;
            }
            let Waiting { client, ino, claim } = waiting;
            let Some(absent) = self.absent.get_mut(&client) else { continue };
            absent.loading -= 1;
            if cache.inodes.contains_key(&ino) {
                let refused = claim_cap(env, cache, sessions, client, ino, (&claim, &absent.unflushed));
                absent.refused.extend(refused);
            } else {
                absent.missing.push((ino, claim));
            }
            self.note_if_reconnected(client);
        }
    }

    /// The next client that has claimed everything.
    pub fn next_reconnected(&mut self) -> Option<ClientId> {
        self.reconnected.pop_front()
    }

    /// Resumes a client that has claimed everything. Unless that `is_all` that it may hold, other ranks may
    /// hand over more.
    pub fn resume(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        client: ClientId,
        is_all: bool,
    ) -> Resumed {
        let Some(absent) = self.absent.get_mut(&client) else { return Default::default() };
        let (was_absent, refused) = (absent.was_absent, std::mem::take(&mut absent.refused));
        let imported = std::mem::take(&mut absent.imported);
        sessions.reopen(env, client);
        tell_imported(env, cache, sessions, imported);
        // Before it may rely on its cache again.
        if env.stage() == Stage::Active || was_absent {
            self.revoke_outdated(env, cache, sessions, client, was_absent);
        }
        // Nothing new may be made in a full cluster. Where the client is not recorded, others may have been
        // let look since the restart.
        let is_full = env.cfg().full;
        let which = |dir: &Inode| is_full || !dir.is_recorded(client);
        Caps::revoke_directories(env, cache, sessions, client, which);
        sessions.send_reopened(env, client, &refused);
        snaps::tell_again(env, cache, sessions, client);
        let absent = self.remove(client).expect("it was absent");
        let held = release_presumed(cache, sessions, client);
        if !is_all {
            self.unclaimed.add(cache, client, &held);
        }
        Resumed { said: absent.said, held, missing: absent.missing }
    }

    /// Revokes bits that a late client can no longer hold because the inode has changed without it. Its write
    /// and exclusive bits were kept. Revocations since its claims are sent now. If an earlier incarnation of
    /// the rank went on without the client, anything may have changed.
    fn revoke_outdated(
        &self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        client: ClientId,
        was_absent: bool,
    ) {
        for ino in sessions.held(client) {
            let has_changed = was_absent || self.changed.contains(&ino);
            let Some(inode) = cache.inodes.get_mut(&ino) else { continue };
            let is_outdated = has_changed && !inode.is_recorded(client);
            let Some(cap) = inode.caps.get_mut(client) else { continue };
            let was_revoked = cap.is_revoking() && cap.seq > 0;
            if is_outdated && cap.give(msgs::cap::PIN, env.now()) || was_revoked {
                send_cap(env, cache, sessions, cap_op::REVOKE, ino, client);
            }
        }
    }
}

/// Tells a client that is not absent any more what other ranks have handed over of it meanwhile, unless it
/// has claimed that.
fn tell_imported(env: &mut Env, cache: &Cache, sessions: &mut Sessions, imported: Vec<(InodeKey, Moved)>) {
    for (ino, moved) in imported {
        let cap = cache.inodes.get(&ino).and_then(|inode| inode.caps.get(moved.client));
        if cap.is_some_and(|cap| cap.migrate_seq > 0) && !cache.is_fixed(ino) {
            send_import(env, cache, sessions, ino, &moved);
        }
    }
}

/// The same for one that has opened a new session, and what was revoked of that.
pub(in crate::rank) fn tell_new_session(
    env: &mut Env,
    cache: &Cache,
    sessions: &mut Sessions,
    client: ClientId,
    imported: Vec<(InodeKey, Moved)>,
) {
    let inodes: BTreeSet<InodeKey> = imported.iter().map(|(ino, _)| *ino).collect();
    tell_imported(env, cache, sessions, imported);
    for ino in inodes {
        let cap = cache.inodes.get(&ino).and_then(|inode| inode.caps.get(client));
        if cap.is_some_and(Cap::is_revoking) && !cache.is_fixed(ino) {
            send_cap(env, cache, sessions, cap_op::REVOKE, ino, client);
        }
    }
}

/// Gives a client the capability that it claims, and until its flush is carried out the bits under which it
/// changed what is `unflushed`. It can't have had a directory for itself in which its key does not let it
/// write: others would wait for it there. Returns the locks that it claims and can't have.
pub(in crate::rank) fn claim_cap(
    env: &mut Env,
    cache: &mut Cache,
    sessions: &mut Sessions,
    client: ClientId,
    ino: InodeKey,
    (claim, unflushed): (&CapReconnect, &Unflushed),
) -> BTreeSet<RefusedLock> {
    let path = cache.path_of(ino).ok().flatten();
    let auth = sessions.get(client).map(|s| s.auth());
    let is_forbidden = |path: Vec<u8>, auth: &MdsCap| {
        let may_write = auth.lets_somebody_write(&env.cfg().fs_name, &String::from_utf8_lossy(&path));
        !auth.is_allow_all() && !may_write
    };
    let is_forged = path.zip(auth).is_some_and(|(path, auth)| is_forbidden(path, auth));
    let Some(inode) = cache.inodes.get_mut(&ino) else { return BTreeSet::new() };
    let mut held = claim.issued;
    if inode.data.is_dir() {
        held &= if is_forged { !msgs::cap::DIR_ASYNC } else { u32::MAX };
        sessions.note_wanted_of_dir(client, claim.wanted);
    }
    let changed = if inode.is_recorded(client) { unflushed.bits(ino, claim.cap_id) } else { 0 };
    let cap = Cap::claimed(claim.cap_id, held, claim.wanted).until_flushed(changed, env.now());
    inode.caps.insert(client, cap);
    if inode.data.is_file() && held & msgs::cap::FILE_WR != 0 {
        inode.under_way.edit(|at| at.untold.insert(client.into()));
    }
    sessions.hold(client, ino);
    if cache.is_fixed(ino) {
        env.due(Due::HeldElsewhere(ino));
    }
    claim_locks(env, cache, client, ino, &claim.flock)
}

/// Restores the file locks that a client claims. Those that can't be decoded count as not claimed. Returns
/// those that it can't have.
fn claim_locks(
    env: &mut Env,
    cache: &mut Cache,
    client: ClientId,
    ino: InodeKey,
    bytes: &[u8],
) -> BTreeSet<RefusedLock> {
    let mut r = Reader::new(bytes);
    let (Ok(posix), Ok(flock)) = (r.get::<Vec<FileLock>>(), r.get::<Vec<FileLock>>()) else {
        return BTreeSet::new();
    };
    if stdx::mutants::is_active("mds_forgets_locks_that_are_claimed") {
        return BTreeSet::new();
    }
    let refused = cache.locks.claim(client, ino, (&posix, &flock));
    if !refused.is_empty() {
        let count = refused.len();
        let text = format!("{client} claims {count} locks on {ino} that it can't hold; it is told so");
        env.log(Level::Warn, "claimed_locks_refused", text);
    }
    let of_owner = |(style, lock): (Style, FileLock)| RefusedLock {
        ino: ino.ino.0,
        rule: style.rule(),
        owner: lock.owner,
    };
    refused.into_iter().map(of_owner).collect()
}
