//! statfs(2): the space of a mount and the files in it.

use crate::api::{Answer, Ino, Reply, Statfs};
use crate::cache::Cache;
use crate::inode::Attributes;
use crate::mds_request;
use crate::op::{Attempt, Stage, Step, done};
use crate::services::Services;
use crate::sessions::Sessions;
use msgs::{Body, Paxos, StatfsReply, cap};

/// The units of an answer in bytes: as Ceph's clients report, and for small quotas.
const BLOCK: u64 = 4 << 20;
const SMALL_BLOCK: u64 = 4096;

/// statfs(2) of a mount of the directory `root`. The MDS is asked what is in there first. Then that is the
/// answer if the directory has a quota of bytes; otherwise a monitor is asked for the space in the data pool.
pub(crate) fn statfs(
    cache: &Cache,
    (sessions, services): (&mut Sessions, &mut Services),
    attempt: &mut Attempt<'_>,
    root: Ino,
) -> Step {
    let key = cache.key(root);
    match attempt.take_stage() {
        Stage::New => {
            let message = mds_request::look_at_some(key.ino(), cap::PIN | cap::FILE_SHARED);
            sessions.ask(attempt, cache, message)
        }
        // Whether it could tell or not: what is known is better than nothing.
        Stage::Answered(_) => match cache.inode(key) {
            Some(root) if root.attrs().quota().max_bytes > 0 => done(of_quota(root.attrs())),
            _ => ask_mon(services, attempt, sessions.map().data_pools.first().copied()),
        },
        stage => attempt.wait_at(stage),
    }
}

fn ask_mon(services: &mut Services, attempt: &mut Attempt<'_>, data_pool: Option<i64>) -> Step {
    let fsid = services.cluster().monc().fsid();
    let (now, op) = (attempt.now(), attempt.op());
    services.ask_mon(now, op, attempt.out(), |monc, token, outs| {
        let body = |_tid| Body::from(msgs::Statfs { paxos: Paxos::default(), fsid, data_pool });
        monc.request(token, body, outs);
    });
    attempt.wait_at(Stage::Elsewhere)
}

/// The answer for a directory with a quota of bytes: that, and what is used of it.
fn of_quota(root: &Attributes) -> Answer {
    let most = root.quota().max_bytes;
    let block = if most < BLOCK { SMALL_BLOCK } else { BLOCK };
    let (blocks, used) = (most / block, root.rbytes() / block);
    let (files, free_files) = files(root, most.saturating_sub(root.rbytes()));
    let free = blocks.saturating_sub(used);
    Answer::Statfs(Statfs { block: block as u32, blocks, free, files, free_files })
}

/// The answer for another directory, with the space that a monitor tells.
pub(crate) fn of_pool(cache: &Cache, root: Option<Ino>, reply: &StatfsReply) -> Reply {
    let blocks = |kb: u64| kb * 1024 / BLOCK;
    let (free, root) = (reply.st.kb_avail, root.and_then(|root| cache.inode(cache.key(root))));
    let (files, free_files) = root.map_or((0, 0), |root| files(root.attrs(), free.saturating_mul(1024)));
    let (block, blocks, free) = (BLOCK as u32, blocks(reply.st.kb), blocks(free));
    Ok(Answer::Statfs(Statfs { block, blocks, free, files, free_files }))
}

/// The files below a directory together with the free ones, and the free ones, of which so many bytes are.
fn files(root: &Attributes, free_bytes: u64) -> (u64, u64) {
    let (used, most) = (root.recursive_entries(), root.quota().max_files);
    let free = if most > 0 { most.saturating_sub(used) } else { free_bytes / SMALL_BLOCK };
    (used.saturating_add(free), free)
}
