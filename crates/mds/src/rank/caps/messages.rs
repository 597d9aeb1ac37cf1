//! Clients' messages about capabilities: updates and releases.

use super::{Caps, send_cap};
use crate::cache::Cache;
use crate::cap::{Cap, STRONG};
use crate::ops::max_size_step;
use crate::rank::commit::commit_inode;
use crate::rank::env::{Due, Env};
use crate::rank::sessions::Sessions;
use crate::types::{ClientId, Need};
use fsfmt::{ClientRange, Ino, InodeKey};
use msgs::{CapReleaseItem, ClientCapRelease, ClientCaps, DentryRelease, cap, cap_op};

impl Caps {
    /// Handles a message about one capability.
    pub fn client_caps(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        client: ClientId,
        tid: u64,
        m: &ClientCaps,
    ) {
        let ino = Ino(m.ino).head();
        if sessions.get(client).is_none() {
            return;
        }
        sessions.forget_flushed(client, m.oldest_flush_tid);
        match m.op {
            cap_op::FLUSHSNAP => return self.ack_snap_flush(env, cache, sessions, client, tid, m),
            cap_op::UPDATE | cap_op::FLUSH | cap_op::DROP | cap_op::RELEASE => {}
            _ => return,
        }
        // What comes too late is repeated to the rank that has the authority now.
        if cache.inodes.contains_key(&ino) && cache.is_fixed(ino) {
            return;
        }
        let of_replica = cache.has_replica(ino);
        if of_replica && m.dirty.0 != 0 {
            return;
        }
        if m.dirty.0 != 0 {
            if !cache.inodes.contains_key(&ino) {
                // A repeated flush after our restart, from a client that holds nothing of the inode any more.
                self.late_flushes.entry(ino).or_default().push((client, tid, m.clone()));
                return env.due(Due::Load(Need::Inode(ino), None));
            }
            self.flush(env, cache, sessions, client, tid, m);
        }
        if cap_of(cache, ino, client, m.cap_id).is_none() {
            return;
        }
        let may_write = !of_replica && may_write(env, cache, sessions, ino, client);
        let given = cache.inodes.get(&ino).and_then(|inode| cache.given_around(inode));
        let wanted = if may_write { m.wanted.0 } else { m.wanted.0 & !STRONG };
        let inode = cache.inodes.get_mut(&ino).expect("it has a capability");
        let is_file = inode.data.is_file();
        if inode.data.is_dir() {
            sessions.note_wanted_of_dir(client, wanted);
        }
        let c = inode.caps.get_mut(client).expect("found above");
        c.confirm(m.seq, m.caps.0 | cap::PIN);
        if m.issue_seq == c.issue_seq {
            c.wanted = wanted;
        } else {
            // It may not know of newer grants: only believe that it wants more.
            c.wanted |= wanted;
        }
        if c.wanted & STRONG == 0 && c.pending & STRONG != 0 {
            self.unwanted.push_back((env.now(), ino, client));
        }
        inode.note_told(client.into());
        let is_recorded = cache.inodes[&ino].is_recorded(client);
        if let Some(dir) = given.filter(|_| wanted & STRONG != 0 && !is_recorded) {
            // It is recorded once the replicas have come back.
            env.due(Due::Alone(dir));
        } else if is_file && wanted & STRONG != 0 {
            grow_range(env, cache, sessions, ino, client, m.file().max_size);
        }
        remove_range(env, cache, sessions, ino, client);
        env.due(Due::CapsChanged(ino));
    }

    /// Handles capabilities given up outside of any request.
    pub fn client_release(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        client: ClientId,
        m: &ClientCapRelease,
    ) {
        for CapReleaseItem { ino, cap_id, seq, .. } in &m.caps {
            let ino = Ino(*ino).head();
            let Some(c) = cap_of(cache, ino, client, *cap_id).filter(|_| !cache.is_fixed(ino)) else {
                continue;
            };
            if *seq >= c.issue_seq {
                // Without a capability nobody could claim them after a restart.
                if cache.locks.release(client, ino) {
                    env.due(Due::Wake(ino));
                }
                self.remove(env, cache, sessions, ino, client);
                remove_range(env, cache, sessions, ino, client);
                continue;
            }
            // A newer answer with the capability is on its way to the client: only what came before that is
            // given back. No other confirmation of it will come.
            if let Some(c) = cache.inodes.get_mut(&ino).and_then(|i| i.caps.get_mut(client)) {
                c.confirm(*seq, cap::PIN);
            }
            env.due(Due::CapsChanged(ino));
        }
    }

    /// Handles capabilities given up with a request. The caller evaluates the inode after the request.
    pub fn release_embedded(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        client: ClientId,
        r: &DentryRelease,
    ) {
        let ino = Ino(r.ino).head();
        if cap_of(cache, ino, client, r.cap_id).is_none() || cache.is_fixed(ino) {
            return;
        }
        let Some(inode) = cache.inodes.get_mut(&ino) else { return };
        if inode.data.is_dir() {
            sessions.note_wanted_of_dir(client, r.wanted);
        }
        let Some(c) = inode.caps.get_mut(client) else { return };
        c.confirm(r.seq, r.caps | cap::PIN);
        if r.issue_seq == c.issue_seq {
            c.wanted = r.wanted;
        } else {
            c.wanted |= r.wanted;
        }
        env.due(Due::Wake(ino));
    }
}

/// Records the clients that want to write a file, and may, and are not recorded: they claimed so, and what
/// asked the predecessor for it died with that. They do not ask again.
pub fn record_writers(env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, ino: InodeKey) {
    let Some(inode) = cache.inodes.get(&ino).filter(|inode| inode.data.is_file()) else { return };
    if cache.is_replica(inode) || cache.given_around(inode).is_some() {
        return;
    }
    let wants = |client: &ClientId| inode.caps.get(*client).is_some_and(|c| c.wanted & STRONG != 0);
    let unrecorded = |client: &ClientId| wants(client) && !inode.is_recorded(*client);
    for client in inode.caps.clients().filter(unrecorded).collect::<Vec<_>>() {
        if may_write(env, cache, sessions, ino, client) {
            grow_range(env, cache, sessions, ino, client, 0);
        }
    }
}

fn cap_of(cache: &Cache, ino: InodeKey, client: ClientId, id: u64) -> Option<&Cap> {
    cache.inodes.get(&ino)?.caps.get(client).filter(|c| c.id == id)
}

/// True if a client may be given write and exclusive bits: the inode records it for them, as its opening
/// request was permitted, or its key lets it write here.
fn may_write(env: &Env, cache: &Cache, sessions: &Sessions, ino: InodeKey, client: ClientId) -> bool {
    let Some(auth) = sessions.get(client).map(|s| s.auth()) else { return false };
    let recorded = cache.inodes.get(&ino).is_some_and(|i| i.is_recorded(client));
    let path = || cache.path_of(ino).ok().flatten().unwrap_or_default();
    let here = || auth.lets_somebody_write(&env.cfg().fs_name, &String::from_utf8_lossy(&path()));
    auth.is_allow_all() || recorded || here()
}

/// Extends a writer's granted size, if it asks for more or has none yet.
fn grow_range(
    env: &mut Env,
    cache: &mut Cache,
    sessions: &mut Sessions,
    ino: InodeKey,
    client: ClientId,
    asks: u64,
) {
    let inode = &cache.inodes[&ino];
    let data = &inode.data;
    let has = data.ranges.get(&client.0).map_or(0, |r| r.max_size);
    let max_size = max_size_step(data.size, asks, env.cfg().max_file_size);
    if (has == 0 || asks > has) && max_size > has {
        let mut next = data.clone();
        next.ranges.insert(client.0, ClientRange { max_size, ..ClientRange::default() });
        next.max_size_ever = next.max_size_ever.max(max_size);
        let tells = has > 0 || inode.caps.get(client).is_some_and(|c| c.pending & cap::FILE_WR != 0);
        commit_inode(env, cache, sessions, None, "grow range", next, Vec::new());
        if tells {
            send_range(env, cache, sessions, ino, client);
        }
    } else if asks > 0 && has > 0 {
        // It has the range and asks: a predecessor granted it and died before it said so.
        send_range(env, cache, sessions, ino, client);
    }
}

fn send_range(env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, ino: InodeKey, client: ClientId) {
    if let Some(c) = cache.inodes.get_mut(&ino).and_then(|i| i.caps.get_mut(client)) {
        c.give(c.pending, env.now());
    }
    send_cap(env, cache, sessions, cap_op::GRANT, ino, client);
}

/// Removes the record of a client that neither holds nor wants write and exclusive bits, nor a lock.
fn remove_range(env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, ino: InodeKey, client: ClientId) {
    let Some(inode) = cache.inodes.get(&ino) else { return };
    let holds = inode.caps.get(client).is_some_and(|c| (c.held() | c.wanted) & STRONG != 0);
    let locks = cache.locks.holds(client, ino);
    let Some(range) = inode.data.ranges.get(&client.0) else { return };
    // The record of a directory goes with the next change by another client: this one may work in it again.
    if holds || locks || range.bits != 0 {
        return;
    }
    let mut data = inode.data.clone();
    data.ranges.remove(&client.0);
    let first_range = max_size_step(0, 0, env.cfg().max_file_size);
    let was_cut = data.truncate_seq > 1;
    if data.ranges.is_empty() && !was_cut && data.max_size_ever <= first_range {
        // Every writer has told how far it wrote: a purge need not look for objects beyond. Those of a longer
        // range it does look for: a writer that was killed may have written what it does not tell.
        // Truncations leave empty objects.
        data.max_size_ever = data.size;
    }
    // Its client need not know: it holds nothing of what the record is for.
    commit_inode(env, cache, sessions, Some(client), "remove range", data, Vec::new());
}
