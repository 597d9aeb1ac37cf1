//! Answers to clients, with the capabilities that accompany them.

use crate::cache::Cache;
use crate::ops::{Extra, Reply};
use crate::rank::caps::Caps;
use crate::rank::env::Env;
use crate::rank::sessions::Sessions;
use crate::rank::stat;
use crate::types::ClientId;
use fsfmt::{Ino, InodeKey};
use msgs::readdir_flag::{FRAG_COMPLETE, FRAG_END};
use msgs::{ClientReply, ClientRequest, MdsOp, ReplyDentry, ReplyTrace};
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
    (request, reply): (&ClientRequest, &Reply),
) -> ClientReply {
    let mut trace = ReplyTrace::default();
    if let Some((dir, key)) = &reply.dentry {
        let (dir_stat, lease) = (stat::dir_stat(dir.frag), stat::no_lease());
        let dir = caps.issue(env, cache, sessions, dir.inode(), client, 0);
        trace.dentry = Some(Box::new(ReplyDentry { dir, dir_stat, name: key.name.clone(), lease }));
    }
    if let Some(ino) = reply.target {
        trace.target = Some(Box::new(caps.issue(env, cache, sessions, ino, client, reply.want)));
    }
    let extra = match &reply.extra {
        Extra::None => Vec::new(),
        Extra::Created(ino) => Writer::encode(&ino.0),
        Extra::Bytes(bytes) => bytes.clone(),
        Extra::Listing { frag, entries, flags, max_bytes } => {
            let mut w = Writer::new();
            w.put(&stat::dir_stat(*frag));
            let part = (entries.as_slice(), *flags, *max_bytes);
            listing(env, cache, sessions, caps, client, part, &mut w);
            w.into_vec()
        }
    };
    let has_inode = trace.target.is_some() || trace.dentry.is_some();
    ClientReply {
        result: reply.result,
        trace,
        extra,
        snap_trace: if has_inode { cache.realm_trace(Ino::ROOT) } else { Vec::new() },
        ..empty(env, request.op)
    }
}

/// Entries of a directory with their inodes. Capabilities go with them only while the cache has space: a
/// listing of a huge directory must not pin it whole.
fn listing(
    env: &mut Env,
    cache: &mut Cache,
    sessions: &mut Sessions,
    caps: &mut Caps,
    client: ClientId,
    (entries, mut flags, max_bytes): (&[(Vec<u8>, InodeKey)], u16, usize),
    w: &mut Writer,
) {
    let mut body = Writer::new();
    let mut count = 0;
    for (name, ino) in entries {
        let has_space = cache.stats().inodes * 4 < env.cfg().options.cache_inodes * 3;
        let listed = &cache.inodes[ino];
        let inode = if has_space || listed.caps.contains_key(client) {
            caps.issue(env, cache, sessions, *ino, client, 0)
        } else {
            stat::inode_stat(*ino, listed, client, cache.realm_of(listed))
        };
        let mut one = Writer::new();
        one.put(&msgs::ReaddirEntry { name: name.clone(), lease: stat::no_lease(), inode });
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
