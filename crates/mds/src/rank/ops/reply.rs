//! Answers to clients, with the capabilities that accompany them.

use crate::cache::{Cache, Slot};
use crate::ops::{Extra, Listed, Reply, Snapped, View, may_all_write};
use crate::rank::caps::Caps;
use crate::rank::env::Env;
use crate::rank::sessions::{DELEG_INO, Sessions};
use crate::rank::stat;
use crate::types::ClientId;
use fsfmt::{DentryKey, DirFrag, Ino, InoRange, InodeKey};
use maps::IntervalSet;
use msgs::readdir_flag::{FRAG_COMPLETE, FRAG_END};
use msgs::{
    ClientReply, ClientRequest, CreatedInode, InodeStat, MdsOp, ReaddirEntry, ReplyDentry, ReplyTrace, cap,
};
use wire::Writer;

/// An answer with only the result 0.
pub(in crate::rank) fn empty(env: &Env, op: MdsOp) -> ClientReply {
    ClientReply { op, mdsmap_epoch: env.cfg().map_epoch, safe: true, ..ClientReply::default() }
}

/// The answer to an executed request.
pub(super) fn build(
    env: &mut Env,
    cache: &mut Cache,
    sessions: &mut Sessions,
    caps: &mut Caps,
    client: ClientId,
    (request, reply, delegated): (&ClientRequest, &Reply, &[InoRange]),
) -> ClientReply {
    let mut trace = ReplyTrace::default();
    let realm = realm_of(cache, reply);
    if let Some(view) = &reply.view {
        trace = view_trace(cache, client, view);
    }
    // Of the directory in which it has changed something, and of one that it has made.
    let gains = gains(env, cache, sessions, client, (request.op, reply));
    if let Some((dir, key)) = &reply.dentry {
        let slot = cache.slot(*dir, key);
        let is_primary = slot.is_some_and(Slot::is_primary);
        let (dir_stat, lease) = (stat::dir_stat(cache, *dir, client), stat::no_lease(is_primary));
        let dir = issue_known(env, cache, sessions, caps, (dir.inode(), client, gains), realm);
        trace.dentry = Some(Box::new(ReplyDentry { dir, dir_stat, name: key.name.to_vec(), lease }));
    }
    if let Some(ino) = reply.target {
        if reply.is_assumed {
            caps.assume(cache, sessions, ino, client);
        }
        trace.target = Some(Box::new(caps.issue(env, cache, sessions, ino, client, (reply.want, gains))));
    }
    let extra = match &reply.extra {
        Extra::None => Vec::new(),
        Extra::Created(ino) => created(sessions, client, *ino, delegated),
        Extra::Bytes(bytes) => bytes.clone(),
        Extra::Listing { frag, entries, flags, max_bytes } => {
            let mut w = Writer::new();
            let dir = DirFrag { ino: reply.target.map_or(Ino(0), |key| key.ino), frag: *frag };
            w.put(&stat::dir_stat(cache, dir, client));
            let part = (entries.as_slice(), *flags, *max_bytes);
            listing(env, cache, sessions, caps, (client, realm, dir), part, &mut w);
            w.into_vec()
        }
        Extra::Snapped { frag, entries, flags, max_bytes } => {
            let mut w = Writer::new();
            let dir = reply.view.as_ref().and_then(|view| view.target).map_or(Ino(0), |key| key.ino);
            w.put(&stat::dir_stat(cache, DirFrag { ino: dir, frag: *frag }, client));
            snapped_listing(cache, client, (entries, *flags, *max_bytes), &mut w);
            w.into_vec()
        }
    };
    let has_inode = trace.target.is_some() || trace.dentry.is_some();
    ClientReply {
        result: reply.result,
        trace,
        extra,
        snap_trace: if has_inode { cache.realm_trace(realm) } else { Vec::new() },
        ..empty(env, request.op)
    }
}

/// `Fx` for who adds or removes a name in a directory, if whoever asks there may change it, since nobody is
/// asked then. Without it Ceph's library gives `Fs` back with each change, and then has to look up the next
/// name before it makes it.
fn gains(
    env: &Env,
    cache: &Cache,
    sessions: &Sessions,
    client: ClientId,
    (op, reply): (MdsOp, &Reply),
) -> u32 {
    use MdsOp as Op;
    let makes = matches!(op, Op::CREATE | Op::MKNOD | Op::MKDIR | Op::SYMLINK | Op::LINK);
    if !makes && !matches!(op, Op::UNLINK | Op::RMDIR | Op::RENAME | Op::RENAME_FLAGS) {
        return 0;
    }
    let Some(((dir, _), session)) = reply.dentry.as_ref().zip(sessions.get(client)) else { return 0 };
    if may_all_write(cache, &env.cfg().fs_name, session.auth(), dir.inode()) { cap::FILE_EXCL } else { 0 }
}

/// The number of a created inode, with numbers for asynchronous creates if the client knows of such.
fn created(sessions: &Sessions, client: ClientId, ino: Ino, delegated: &[InoRange]) -> Vec<u8> {
    if !sessions.get(client).is_some_and(|s| s.has_feature(DELEG_INO)) {
        return Writer::encode(&ino.0);
    }
    let mut set = IntervalSet::new();
    delegated.iter().for_each(|range| set.insert(range.first.0, range.count));
    Writer::encode(&CreatedInode { ino: ino.0, delegated: set })
}

/// The realm that an answer describes: that of its inode, or else of the directory.
fn realm_of(cache: &Cache, reply: &Reply) -> Ino {
    let shown = reply.target.or_else(|| reply.dentry.as_ref().map(|(dir, _)| dir.inode()));
    shown.and_then(|ino| cache.inodes.get(&ino)).map_or(Ino::ROOT, |inode| cache.realm_of(inode))
}

/// An inode with a capability. A client that does not have one yet gets none if the answer does not describe
/// the inode's realm: it would not know which snapshots its writes must preserve.
fn issue_known(
    env: &mut Env,
    cache: &mut Cache,
    sessions: &mut Sessions,
    caps: &mut Caps,
    (ino, client, gains): (InodeKey, ClientId, u32),
    described: Ino,
) -> InodeStat {
    let inode = &cache.inodes[&ino];
    let realm = cache.realm_of(inode);
    if inode.caps.contains_key(client) || cache.is_realm_around(realm, described) {
        return caps.issue(env, cache, sessions, ino, client, (0, gains));
    }
    stat::inode_stat(ino, inode, client, realm)
}

/// States of a snapshot. They never change, so clients may keep them without being recorded.
fn view_trace(cache: &Cache, client: ClientId, view: &View) -> ReplyTrace {
    let stat_of = |key: InodeKey| stat::snapped_stat(cache, key, client, view.snap);
    let dentry = view.dentry.as_ref().map(|(dir, name)| {
        let (dir_stat, lease) =
            (stat::dir_stat(cache, DirFrag::whole(dir.ino), client), stat::no_lease(false));
        Box::new(ReplyDentry { dir: stat_of(*dir), dir_stat, name: name.clone(), lease })
    });
    ReplyTrace { dentry, target: view.target.map(|key| Box::new(stat_of(key))) }
}

/// Entries of a directory as of snapshots.
fn snapped_listing(
    cache: &Cache,
    client: ClientId,
    (entries, flags, max_bytes): (&[Snapped], u16, usize),
    w: &mut Writer,
) {
    let with_states = entries.iter().map(|(name, key, snap)| {
        let inode = stat::snapped_stat(cache, *key, client, *snap);
        ReaddirEntry { name: name.clone(), lease: stat::no_lease(false), inode }
    });
    put_page(with_states, flags, max_bytes, w);
}

/// Entries of a directory with their inodes. Capabilities go with them as long as clients hold no more of the
/// cache than they may keep: a listing of a huge directory must not pin it whole. What nobody holds makes
/// room.
fn listing(
    env: &mut Env,
    cache: &mut Cache,
    sessions: &mut Sessions,
    caps: &mut Caps,
    (client, realm, dir): (ClientId, Ino, DirFrag),
    (entries, flags, max_bytes): (&[Listed], u16, usize),
    w: &mut Writer,
) {
    let mut room = sessions.room_of_listings(cache);
    if room < entries.len() {
        sessions.recall(env, cache);
    }
    let with_inodes = entries.iter().map(|(name, ino)| {
        let listed = &cache.inodes[ino];
        let is_here = |(at, key): &(DirFrag, DentryKey)| *at == dir && key.name == *name;
        let lease = stat::no_lease(listed.place.as_ref().is_some_and(is_here));
        let holds = listed.caps.contains_key(client);
        let inode = if room > 0 || holds {
            room = room.saturating_sub(usize::from(!holds));
            issue_known(env, cache, sessions, caps, (*ino, client, 0), realm)
        } else {
            stat::inode_stat(*ino, listed, client, cache.realm_of(listed))
        };
        ReaddirEntry { name: name.to_vec(), lease, inode }
    });
    put_page(with_inodes, flags, max_bytes, w);
}

/// Encodes as many entries as fit, at least one. Those behind them are not drawn from `entries`.
fn put_page(entries: impl Iterator<Item = ReaddirEntry>, mut flags: u16, max_bytes: usize, w: &mut Writer) {
    let mut body = Writer::new();
    let mut count = 0;
    for entry in entries {
        let mut one = Writer::new();
        one.put(&entry);
        if count > 0 && body.len() + one.len() > max_bytes {
            flags &= !(FRAG_END | FRAG_COMPLETE);
            break;
        }
        body.raw(one.as_slice());
        count += 1;
    }
    w.count(count);
    w.put(&flags);
    w.raw(body.as_slice());
}
