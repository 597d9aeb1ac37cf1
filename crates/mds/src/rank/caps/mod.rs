//! Grants and revokes capabilities (docs/protocol.md 6.5). There are no lock states: a client's bits follow
//! from the wants of all clients ([`crate::cap::policy`]), from bits that running operations revoke, and from
//! bits that others still hold.

mod flush;
mod holders;
mod messages;
mod small_files;

use super::env::{Due, Env};
use super::sessions::Sessions;
use super::stat;
use crate::cache::{Cache, Inode, Revocation};
use crate::cap::{Cap, Moved, STRONG};
use crate::types::{ClientId, OpId};
use fsfmt::InodeKey;
use holders::Holders;
pub(super) use messages::record_writers;
use msgs::{ClientCaps, InodeStat, cap, cap_op};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use stdx::Instant;

/// Bits that a client gets unasked, because they save it a round trip and cost nobody anything.
const UNASKED_BITS: u32 = cap::PIN | cap::ANY_SHARED;
/// Bits under which a client keeps a file's data.
const DATA_BITS: u32 = cap::FILE_CACHE | cap::FILE_RD;
/// The time for which a client may keep write and exclusive bits that it does not want: Ceph's clients give
/// them back after `client_caps_release_delay`, 5 s, themselves.
const UNWANTED_FOR: Duration = Duration::from_secs(5);

/// The time for which a directory counts as shared after a client that worked in it alone had to give it up:
/// clients that use a directory in turn are not worth a revocation each time.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// Capability numbers, and deferred work on capabilities. The capabilities themselves are in the cached
/// inodes.
///
/// Invariants: an inode is in the set of a client's session exactly if the client has a capability on it;
/// capability numbers are never given twice.
#[derive(Default)]
pub(super) struct Caps {
    /// The last number given.
    last_id: u64,
    /// Clients that hold write or exclusive bits without wanting them, with the time since when.
    unwanted: VecDeque<(Instant, InodeKey, ClientId)>,
    /// Directories that count as shared, with the time since when.
    shared: VecDeque<(Instant, InodeKey)>,
    /// True while nobody is given a directory to work in it alone.
    withholds_directories: bool,
    /// Small files whose data were taken into the journal since the start.
    small_files: u64,
    /// Flushes of inodes that are being loaded.
    late_flushes: BTreeMap<InodeKey, Vec<(ClientId, u64, ClientCaps)>>,
}

impl Caps {
    /// Small files whose data were taken into the journal since the start.
    pub fn small_files(&self) -> u64 {
        self.small_files
    }

    /// Reserves a number that the predecessor has given.
    pub fn reserve_id(&mut self, id: u64) {
        self.last_id = self.last_id.max(id);
    }

    /// While clients repeat requests, nobody gets a directory alone: those that have not begun may be about
    /// names in it, which only the client that has it would know.
    pub fn withhold_directories(&mut self, withhold: bool) {
        self.withholds_directories = withhold;
    }

    /// A client has a capability on an inode that it has made asynchronously, under the number that it
    /// assumes for it.
    pub fn assume(&self, cache: &mut Cache, sessions: &mut Sessions, ino: InodeKey, client: ClientId) {
        let Some(inode) = cache.inodes.get_mut(&ino) else { return };
        inode.caps.get_or_insert_with(client, || {
            sessions.hold(client, ino);
            Cap::new(cap::ASSUMED_ID)
        });
    }

    /// Grants `client` its bits of an inode, in a reply, and returns the inode as the client will see it.
    /// `want` are bits that it wants from now on, `gains` such as are of use to it now. Conflicting bits of
    /// others are revoked first.
    pub fn issue(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        ino: InodeKey,
        client: ClientId,
        (want, gains): (u32, u32),
    ) -> InodeStat {
        if cache.is_fixed(ino) {
            // Another rank gives capabilities on it.
            let inode = &cache.inodes[&ino];
            return stat::inode_stat(ino, inode, client, cache.realm_of(inode));
        }
        let inode = cache.inodes.get_mut(&ino).expect("replies are about cached inodes");
        let id = if inode.caps.contains_key(client) { 0 } else { self.next_id() };
        let cap = inode.caps.get_or_insert_with(client, || {
            sessions.hold(client, ino);
            Cap::new(id)
        });
        cap.wanted |= want;
        self.eval(env, cache, sessions, ino, Some(client));
        let inode = cache.inodes.get_mut(&ino).expect("eval removes no inode");
        let (grantable, may_gain) = (inode.grantable(client), inode.may_be_exclusive(client));
        let cap = inode.caps.get_mut(client).expect("eval removes no capability");
        // A directory is given to whoever is recorded to work in it alone. One that is given without a record
        // promises nothing that a successor has to know.
        let withholds = env.cfg().full || self.withholds_directories;
        let (asked, gained) = match (inode.data.is_dir(), withholds) {
            (true, true) => (cap.wanted & !cap::DIR_ASYNC, 0),
            (true, false) => (cap.wanted | cap::DIR_ASYNC, if may_gain { gains } else { 0 }),
            (false, _) => (cap.wanted, 0),
        };
        let bits = cap.pending | (grantable & (UNASKED_BITS | asked)) | gained;
        if bits & !cap.pending & STRONG != 0 {
            env.due(Due::InodeChanged(ino));
        }
        if id == 0 && cap.seq == 0 {
            // Claimed. The client may have dropped it since, and takes 1 for a capability that is new.
            cap.seq = 1;
        }
        cap.give(bits, env.now());
        cap.issue_seq = cap.seq;
        let inode = &cache.inodes[&ino];
        let mut answer = stat::inode_stat(ino, inode, client, cache.realm_of(inode));
        if cache.is_replica(inode) {
            // Whoever wants more asks the authority.
            answer.cap.flags &= !stat::cap_flag::AUTH;
        }
        answer
    }

    /// Tells a client the OSD map that it must have before it accesses data, if it does not know yet: an
    /// answer that gives it capabilities or a lock can't say it. Any capability of its serves for that. The
    /// first answer of a session finds none; clients open no file with it.
    pub fn tell_barrier(env: &mut Env, cache: &Cache, sessions: &mut Sessions, client: ClientId) {
        if !sessions.lacks_barrier(client) {
            return;
        }
        let cap = |ino: &&InodeKey| cache.inodes.get(*ino).and_then(|inode| inode.caps.get(client));
        let mut held = sessions.get(client).into_iter().flat_map(|s| s.inodes());
        let may_tell = |ino: &&InodeKey| cap(ino).is_some_and(|c| !c.is_revoking()) && !cache.is_fixed(**ino);
        let some = held.find(may_tell).copied();
        if let Some(ino) = some {
            send_cap(env, cache, sessions, cap_op::GRANT, ino, client);
        }
    }

    /// Revokes bits that clients must no longer have, and grants those that waiting clients may now have;
    /// `skip` gets no grant, because a reply will carry it.
    pub fn eval(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        ino: InodeKey,
        skip: Option<ClientId>,
    ) {
        if cache.is_fixed(ino) {
            return;
        }
        let is_fenced = cache.snaps.is_fenced() && cache.global.contains(&ino);
        cache.withhold_for_replicas(ino);
        let Some(inode) = cache.inodes.get_mut(&ino) else { return };
        if is_fenced && !inode.caps.is_empty() {
            let from_all = vec![Revocation { except: None, mask: STRONG }];
            inode.under_way.edit(|at| at.revocations.insert(OpId::FENCE, from_all));
        }
        let clients: Vec<ClientId> = inode.caps.clients().collect();
        let mut holders = Holders::of(inode);
        for client in &clients {
            revoke(env, cache, sessions, &mut holders, ino, *client);
        }
        for client in clients.into_iter().filter(|c| Some(*c) != skip) {
            grant(env, cache, sessions, &mut holders, ino, client);
        }
    }

    /// The number of a capability that another rank has handed over.
    pub fn next_id(&mut self) -> u64 {
        self.last_id = self.last_id.max(cap::ASSUMED_ID) + 1;
        self.last_id
    }

    /// Removes a client's capability.
    pub fn remove(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        ino: InodeKey,
        client: ClientId,
    ) {
        sessions.release(client, ino);
        let Some(inode) = cache.inodes.get_mut(&ino) else { return };
        if inode.caps.remove(client).is_some() {
            inode.note_told(client.into());
            env.due(Due::CapsChanged(ino));
        }
    }

    /// A client has removed the last names of those of these inodes that have none, and knows it.
    pub fn note_removed(cache: &mut Cache, client: ClientId, inodes: &[InodeKey]) {
        for ino in inodes {
            if let Some(inode) = cache.inodes.get_mut(ino).filter(|inode| inode.data.nlink == 0)
                && let Some(cap) = inode.caps.get_mut(client)
            {
                cap.is_removed_by_client = true;
            }
        }
    }

    /// Revokes bits for an operation, and withholds them from all clients but one until it ends.
    pub fn revoke_for(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        op: OpId,
        (ino, revocation): (InodeKey, Revocation),
    ) {
        let Some(inode) = cache.inodes.get_mut(&ino) else { return };
        inode.under_way.edit(|at| {
            let list = at.revocations.entry(op).or_default();
            if !list.contains(&revocation) {
                list.push(revocation);
            }
            at.waiters.insert(op);
        });
        if inode.data.is_dir()
            && revocation.mask & inode.held_by_others(revocation.except) & cap::FILE_EXCL != 0
        {
            inode.under_way.edit(|at| at.shared_at = Some(env.now()));
            self.shared.push_back((env.now(), ino));
        }
        self.eval(env, cache, sessions, ino, None);
    }

    /// Lets clients work alone again in directories that others have not used for a while.
    pub fn end_sharing(&mut self, env: &Env, cache: &mut Cache) {
        while let Some((since, ino)) = self.shared.pop_front_if(|(at, _)| env.now().since(*at) >= SHARED_FOR)
        {
            let inode = cache.inodes.get_mut(&ino).filter(|inode| inode.under_way.shared_at == Some(since));
            inode.into_iter().for_each(|inode| inode.under_way.edit(|at| at.shared_at = None));
        }
    }

    /// Takes back those directories that a client has for itself which `which` chooses.
    pub fn revoke_directories(
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        client: ClientId,
        which: impl Fn(&Inode) -> bool,
    ) {
        for ino in sessions.held(client) {
            if cache.is_fixed(ino) {
                continue;
            }
            let Some(inode) = cache.inodes.get_mut(&ino).filter(|i| i.data.is_dir() && which(i)) else {
                continue;
            };
            let Some(c) = inode.caps.get_mut(client).filter(|c| c.pending & cap::FILE_EXCL != 0) else {
                continue;
            };
            c.give(c.pending & !cap::DIR_ASYNC, env.now());
            send_cap(env, cache, sessions, cap_op::REVOKE, ino, client);
        }
    }

    /// Ends an operation's revocations: the bits may be granted again.
    pub fn end_revocations(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        op: OpId,
        inodes: impl IntoIterator<Item = InodeKey>,
    ) {
        for ino in inodes {
            let Some(inode) = cache.inodes.get_mut(&ino) else { continue };
            let had_revoked = inode.under_way.edit(|at| {
                at.waiters.remove(&op);
                at.revocations.remove(&op).is_some()
            });
            if had_revoked {
                self.eval(env, cache, sessions, ino, None);
            }
            env.due(Due::Wake(ino));
        }
    }

    /// Revokes write and exclusive bits that were not wanted for a while, so that a dying client blocks few
    /// files. It may keep its cached data.
    pub fn revoke_unwanted(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions) {
        let now = env.now();
        while let Some((since, ino, client)) = self.unwanted.front().copied()
            && now.since(since) >= UNWANTED_FOR
        {
            self.unwanted.pop_front();
            if cache.is_fixed(ino) {
                continue;
            }
            let Some(inode) = cache.inodes.get_mut(&ino) else { continue };
            let (grantable, is_dir) = (inode.grantable(client), inode.data.is_dir());
            let Some(c) = inode.caps.get_mut(client).filter(|c| !c.is_presumed) else { continue };
            if c.wanted & STRONG != 0 || c.pending & STRONG == 0 {
                continue;
            }
            let kept = if is_dir { c.pending & !cap::DIR_OPS } else { c.pending | grantable & DATA_BITS };
            c.give(kept & !STRONG, now);
            send_cap(env, cache, sessions, cap_op::REVOKE, ino, client);
        }
    }

    /// Asserts what holds between inputs.
    pub fn check(&self) {
        let (first, last) = (self.unwanted.front(), self.unwanted.back());
        assert!(first.map(|(at, ..)| at) <= last.map(|(at, ..)| at), "unwanted bits in order of time");
        assert!(self.late_flushes.values().all(|late| !late.is_empty()), "late flushes that wait for a load");
    }

    /// Asserts by a walk over all inodes that sessions and inodes agree on who holds what.
    pub fn check_all(cache: &Cache, sessions: &Sessions) {
        for (client, session) in sessions.iter() {
            for ino in session.inodes() {
                let has_cap = cache.inodes.get(ino).is_some_and(|i| i.caps.contains_key(client));
                assert!(has_cap, "{client} holds {ino}");
            }
        }
        for (ino, inode) in &cache.inodes {
            for client in inode.caps.clients() {
                let is_held = sessions.get(client).is_some_and(|s| s.inodes().contains(ino));
                assert!(is_held, "the capability of {client} on {ino} belongs to a session");
            }
        }
    }
}

/// Revokes bits that a client must no longer have.
fn revoke(
    env: &mut Env,
    cache: &mut Cache,
    sessions: &mut Sessions,
    holders: &mut Holders,
    ino: InodeKey,
    client: ClientId,
) {
    let inode = cache.inodes.get_mut(&ino).expect("the inode that is being evaluated");
    let allowed = holders.allowed(inode, client, inode.caps.get(client).expect("one of its capabilities"));
    let cap = inode.caps.get_mut(client).expect("one of its capabilities");
    if cap.pending & !allowed == 0 {
        return;
    }
    let before = cap.held();
    cap.give(cap.pending & allowed, env.now());
    if loses_revocation() {
        cap.confirm(cap.seq, cap.pending);
    }
    holders.update(before, cap.held());
    if !loses_revocation() {
        send_cap(env, cache, sessions, cap_op::REVOKE, ino, client);
    }
}

/// Planted fault: a revocation counts as confirmed and is not sent.
fn loses_revocation() -> bool {
    stdx::mutants::is_active("mds_loses_revocation")
}

/// Grants bits that a client waits for, if it may have them now.
fn grant(
    env: &mut Env,
    cache: &mut Cache,
    sessions: &mut Sessions,
    holders: &mut Holders,
    ino: InodeKey,
    client: ClientId,
) {
    let inode = cache.inodes.get_mut(&ino).expect("the inode that is being evaluated");
    let (is_dir, has_name) = (inode.data.is_dir(), inode.data.nlink > 0);
    if is_dir && has_name || !sessions.is_open(client) {
        return;
    }
    let grantable =
        holders.grantable(inode, client, inode.caps.get(client).expect("one of its capabilities"));
    let cap = inode.caps.get_mut(client).expect("one of its capabilities");
    // Nothing is granted of a directory that has no name, but for what follows.
    let (wanted, unasked) = if is_dir { (0, 0) } else { (cap.wanted, UNASKED_BITS) };
    // What has lost its last name is purged when nobody holds it: whoever only has it cached is told, unless
    // it has done that itself.
    let wanted = match (has_name, cap.is_removed_by_client) {
        (true, _) => wanted,
        (false, false) => wanted | cap::LINK_SHARED,
        (false, true) => wanted & !cap::LINK_SHARED,
    };
    if wanted & grantable & !cap.pending == 0 {
        return;
    }
    let bits = cap.pending | (grantable & (unasked | wanted));
    if bits & !cap.pending & STRONG != 0 {
        env.due(Due::InodeChanged(ino));
    }
    let before = cap.held();
    cap.give(bits, env.now());
    holders.update(before, cap.held());
    send_cap(env, cache, sessions, cap_op::GRANT, ino, client);
}

/// Sends a client's present capability with the inode's state.
pub(super) fn send_cap(
    env: &mut Env,
    cache: &Cache,
    sessions: &mut Sessions,
    op: u32,
    ino: InodeKey,
    client: ClientId,
) {
    let Some(inode) = cache.inodes.get(&ino) else { return };
    let Some(cap) = inode.caps.get(client) else { return };
    let mut message = stat::caps_message(op, &inode.data, client, cap, cache.realm_of(inode));
    message.osd_epoch_barrier = sessions.tell_barrier(client);
    sessions.send(env, client, inode.change.before(client), 0, message);
}

/// Tells a client that its capability on an inode is here from now on.
pub(super) fn send_import(
    env: &mut Env,
    cache: &Cache,
    sessions: &mut Sessions,
    ino: InodeKey,
    &Moved { client, id, former }: &Moved,
) {
    let Some(inode) = cache.inodes.get(&ino) else { return };
    let Some(cap) = inode.caps.get(client).filter(|cap| cap.id == id) else { return };
    let realm = cache.realm_of(inode);
    // As it has come: who was absent hears afterwards of what was revoked since.
    let message = ClientCaps {
        former,
        snap_trace: cache.realm_trace(realm),
        caps: msgs::Caps(cap.held()),
        seq: cap.issue_seq,
        issue_seq: cap.issue_seq,
        ..stat::caps_message(cap_op::IMPORT, &inode.data, client, cap, realm)
    };
    sessions.send(env, client, 0, 0, message);
    env.due(Due::CapsChanged(ino));
}
