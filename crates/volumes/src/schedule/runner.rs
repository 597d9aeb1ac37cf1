//! Takes the snapshots that are due, and removes those that are not kept.

use super::book::{Book, Entry};
use super::prune;
use crate::failure::{Done, Failure};
use crate::place::SNAPDIR;
use crate::tree::{Tree, join};
use wire::Errno;

/// Does what is due in `(after, now]`. Returns true if the book has changed.
pub(crate) fn run(tree: &Tree, book: &mut Book, after: u64, now: u64) -> Done<bool> {
    let mut changed = false;
    for (path, entry) in &mut book.paths {
        let due: Vec<usize> =
            (0..entry.schedules.len()).filter(|at| entry.schedules[*at].due(after, now).is_some()).collect();
        if due.is_empty() {
            continue;
        }
        changed = true;
        match take(tree, path, entry, &due, now) {
            Err(Failure { errno: Errno::ENOENT, .. }) => {
                tracing::warn!(
                    path,
                    "a directory with a snapshot schedule is gone: the schedule is deactivated"
                );
                due.iter().for_each(|at| entry.schedules[*at].active = false);
            }
            Err(failure) if failure.errno == Errno::ENOTCONN => return Err(failure),
            Err(failure) => tracing::warn!(path, error = failure.text, "no scheduled snapshot"),
            Ok(()) => {}
        }
    }
    Ok(changed)
}

/// True if something is due in `(after, now]`.
pub(crate) fn is_due(book: &Book, after: u64, now: u64) -> bool {
    let mut all = book.paths.values().flat_map(|entry| &entry.schedules);
    all.any(|schedule| schedule.due(after, now).is_some())
}

fn take(tree: &Tree, path: &str, entry: &mut Entry, due: &[usize], now: u64) -> Done<()> {
    let snapdir = join(path, SNAPDIR);
    match tree.mkdir(&join(&snapdir, &prune::name(now)), 0o755) {
        Ok(_) | Err(Errno::EEXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    due.iter().for_each(|at| entry.schedules[*at].taken(now));
    let superfluous = prune::superfluous(&tree.names(&snapdir)?, &entry.retention);
    for name in &superfluous {
        tree.rmdir(&join(&snapdir, name))?;
    }
    if let (Some(at), false) = (due.first(), superfluous.is_empty()) {
        entry.schedules[*at].pruned(now, superfluous.len() as u64);
    }
    Ok(())
}
