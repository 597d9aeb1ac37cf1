//! fsync(2), syncfs(2), and leaving: waiting until everything is durable.

use crate::api::{Answer, Fh};
use crate::cache::Cache;
use crate::handles::Handles;
use crate::op::{Attempt, Stage, Step, done, fail};
use crate::sessions::Sessions;
use wire::Errno;

/// Waits until everything that was answered unsafely is safe; fails with EIO if some of it is lost.
pub(crate) fn wait_for_journal(sessions: &mut Sessions, attempt: &mut Attempt<'_>) -> Step {
    let op = attempt.op();
    if sessions.wait_for_journal(op, attempt.out()) {
        return Step::Wait;
    }
    if sessions.take_lost() { fail(Errno::EIO) } else { done(Answer::Done) }
}

/// Waits until a file's data and attributes are durable; of the attributes only the size if `data_only`.
pub(crate) fn fsync(
    cache: &mut Cache,
    sessions: &mut Sessions,
    attempt: &mut Attempt<'_>,
    (handles, fh): (&mut Handles, Fh),
    data_only: bool,
) -> Step {
    let (key, op) = match handles.usable(fh) {
        Ok(file) => (file.key(), attempt.op()),
        Err(errno) => return fail(errno),
    };
    let inode = cache.open_inode(key);
    if data_only && inode.caps().has_durable_size() {
        if !inode.data().dirty().is_empty() {
            inode.wait_for_data(op);
            cache.settle_later(key);
            return Step::Wait;
        }
    } else if inode.has_unwritten() {
        inode.wait_for_fsync(op);
        cache.settle_later(key);
        return Step::Wait;
    } else {
        inode.end_sync();
    }
    match handles.take_error(fh, inode) {
        Some(errno) => fail(errno),
        None => wait_for_journal(sessions, attempt),
    }
}

/// Waits until everything is durable. Fails if something was lost that nobody was told of, such as data of a
/// file that was closed before they were written back.
pub(crate) fn sync_all(cache: &mut Cache, sessions: &mut Sessions, attempt: &mut Attempt<'_>) -> Step {
    if cache.wait_for_all(attempt.op()) {
        return Step::Wait;
    }
    match wait_for_journal(sessions, attempt) {
        Step::Done(reply) => {
            let untold = cache.take_untold_error();
            Step::Done(reply.and_then(|answer| untold.map_or(Ok(answer), Err)))
        }
        Step::Wait => Step::Wait,
    }
}

/// Writes everything back, then closes the sessions; the operation is answered when they are closed.
pub(crate) fn leave(cache: &mut Cache, sessions: &mut Sessions, attempt: &mut Attempt<'_>) -> Step {
    if !cache.wait_for_all(attempt.op()) && !sessions.is_closing() {
        let now = attempt.now();
        sessions.close(now, attempt.out());
    }
    attempt.wait_at(Stage::Leaving)
}
