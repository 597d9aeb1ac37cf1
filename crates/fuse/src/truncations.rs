//! Truncations that the kernel waits for, and notices to drop pages meanwhile.
//!
//! Until its request to set a file's size is answered, Linux writes none of the file's pages back
//! (`fuse_set_nowrite`), and a notice to drop the pages waits until the mapped ones that were changed are
//! written. The answer may in turn wait for the notice: the MDS revokes the right to keep pages first. So no
//! notice is waited for while its file is truncated; what it is about is dropped after the answer. In the
//! meantime programs on this mount may read a page that another mount has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The files that are being truncated, and the notices under way. `D` is what tells, by being dropped, that
/// a notice has been carried out.
///
/// Invariant: of a file that is being truncated no notice is waited for.
#[derive(Debug)]
pub(crate) struct Truncations<D>(Arc<Mutex<State<D>>>);

#[derive(Debug)]
struct State<D> {
    /// How many requests set the size of a file, by its inode number.
    under_way: BTreeMap<u64, u32>,
    /// Notices that are waited for, by the number that they got here: their inode, and who waits.
    notices: BTreeMap<u64, (u64, D)>,
    last_notice: u64,
    /// Files whose pages are to be dropped after the truncation.
    put_off: BTreeSet<u64>,
}

impl<D> Clone for Truncations<D> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<D> Default for Truncations<D> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State {
            under_way: BTreeMap::new(),
            notices: BTreeMap::new(),
            last_notice: 0,
            put_off: BTreeSet::new(),
        })))
    }
}

impl<D> Truncations<D> {
    fn state(&self) -> MutexGuard<'_, State<D>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request to set the size of `ino` comes.
    pub(crate) fn begin(&self, ino: u64) {
        let mut state = self.state();
        *state.under_way.entry(ino).or_default() += 1;
        let given_up: Vec<(u64, (u64, D))> = state.notices.extract_if(.., |_, (of, _)| *of == ino).collect();
        if !given_up.is_empty() {
            state.put_off.insert(ino);
        }
        drop(state);
        drop(given_up);
    }

    /// A request to set the size of `ino` has been answered. Returns true if its pages are to be dropped now.
    pub(crate) fn end(&self, ino: u64) -> bool {
        let mut state = self.state();
        if let Some(count) = state.under_way.get_mut(&ino)
            && *count > 1
        {
            *count -= 1;
            return false;
        }
        state.under_way.remove(&ino);
        state.put_off.remove(&ino)
    }

    /// The pages of `ino` are to be dropped. Returns the number of the notice; `None` if it has to be put
    /// off.
    pub(crate) fn notice(&self, ino: u64, done: D) -> Option<u64> {
        let mut state = self.state();
        if state.under_way.contains_key(&ino) {
            state.put_off.insert(ino);
            drop(state);
            drop(done);
            return None;
        }
        state.last_notice += 1;
        let number = state.last_notice;
        state.notices.insert(number, (ino, done));
        Some(number)
    }

    /// A notice has been carried out.
    pub(crate) fn carried_out(&self, number: u64) {
        let done = self.state().notices.remove(&number);
        drop(done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

    /// A notice, and what tells that nobody waits for it.
    fn notice(truncations: &Truncations<Sender<()>>, ino: u64) -> (Option<u64>, Receiver<()>) {
        let (done, waits) = channel();
        (truncations.notice(ino, done), waits)
    }

    fn is_over(waits: &Receiver<()>) -> bool {
        waits.try_recv() == Err(TryRecvError::Disconnected)
    }

    #[test]
    fn a_notice_is_waited_for_until_it_is_carried_out() {
        let truncations = Truncations::default();
        let ((first, waits), (second, waits_too)) = (notice(&truncations, 7), notice(&truncations, 7));
        truncations.carried_out(second.expect("no truncation"));
        assert!(is_over(&waits_too) && !is_over(&waits));
        truncations.carried_out(first.expect("no truncation"));
        assert!(is_over(&waits));
    }

    #[test]
    fn a_truncation_waits_for_no_notice_and_drops_the_pages_at_its_end() {
        let truncations = Truncations::default();
        let (first, waits) = notice(&truncations, 7);
        let (other, waits_for_other) = notice(&truncations, 8);
        truncations.begin(7);
        assert!(is_over(&waits) && !is_over(&waits_for_other), "only the one of this file");
        truncations.begin(7);
        assert!(!truncations.end(7), "another one is under way");
        assert!(truncations.end(7) && !truncations.end(7), "once");
        // The kernel carries the notice out late: that is not the end of the next one.
        let (_, waits) = notice(&truncations, 7);
        truncations.carried_out(first.expect("no truncation yet"));
        assert!(!is_over(&waits));
        truncations.carried_out(other.expect("no truncation"));
        assert!(is_over(&waits_for_other));
    }

    #[test]
    fn a_notice_during_a_truncation_is_put_off() {
        let truncations = Truncations::default();
        truncations.begin(7);
        let (number, waits) = notice(&truncations, 7);
        assert!(number.is_none() && is_over(&waits));
        let (number, _waits) = notice(&truncations, 8);
        assert!(number.is_some(), "of another file");
        assert!(truncations.end(7));
        truncations.begin(7);
        assert!(!truncations.end(7), "nothing was to be dropped");
    }
}
