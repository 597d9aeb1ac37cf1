//! Journals events and applies them, live and at replay by the same code.

use super::effect::Effect;
use super::env::{Due, Env};
use super::sessions::Sessions;
use crate::cache::Cache;
use crate::types::{ClientId, Lsn, Origin};
use fsfmt::{Event, InodeData, Update};

/// Journals an event and applies it. No message that shows it may leave before it is durable.
pub(super) fn commit(
    env: &mut Env,
    cache: &mut Cache,
    sessions: &mut Sessions,
    what: &str,
    updates: Vec<Update>,
) -> Lsn {
    commit_for(env, cache, sessions, None, what, updates)
}

/// Journals an event whose author repeats its request if a crash loses the event, and applies it. The author
/// alone may be shown it before it is durable.
pub(super) fn commit_for(
    env: &mut Env,
    cache: &mut Cache,
    sessions: &mut Sessions,
    author: Option<ClientId>,
    what: &str,
    updates: Vec<Update>,
) -> Lsn {
    let updates = cache.preserve(updates);
    let event = Event { stamp: env.stamp(), what: what.to_owned(), updates };
    let (lsn, segment) = env.append(&event);
    apply(env, cache, sessions, event, Origin { lsn, segment, author });
    lsn
}

/// Applies a live or replayed event.
pub(super) fn apply(env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, event: Event, origin: Origin) {
    let segment = origin.segment;
    let applied = cache.apply(event, origin);
    applied.inodes.into_iter().for_each(|ino| env.due(Due::InodeChanged(ino)));
    for update in applied.tables {
        match update {
            Update::InoNext { next } => env.due(Due::InodeNumbersUsed { next, segment }),
            // The partition has records of its own since.
            Update::Subtrees { .. } => {}
            Update::InoFree { .. }
            | Update::Locks { .. }
            | Update::Prepare { .. }
            | Update::Commit { .. }
            | Update::Abort { .. }
            | Update::Refragment { .. }
            | Update::Header { .. }
            | Update::Pack { .. } => {
                let text =
                    format!("the journal has {}, which this version does not carry out", update.name());
                env.effect(Effect::Fail(text));
            }
            Update::Snapshot { .. } | Update::SnapHead { .. } | Update::Border { .. } => {
                unreachable!("the cache has the table")
            }
            of_a_session => sessions.apply(env, of_a_session, origin),
        }
    }
}

/// Journals an inode that changed without moving; with an author as [`commit_for`] has it.
pub(super) fn commit_inode(
    env: &mut Env,
    cache: &mut Cache,
    sessions: &mut Sessions,
    author: Option<ClientId>,
    what: &str,
    mut data: InodeData,
    mut more: Vec<Update>,
) -> Lsn {
    data.version += 1;
    more.insert(0, cache.update(data));
    commit_for(env, cache, sessions, author, what, more)
}
