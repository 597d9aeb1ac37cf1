//! Subscriptions: the maps to follow, and the epochs from which on.

use msgs::{MonSubscribe, SUBSCRIBE_ONCE, SubscribeItem};
use std::collections::BTreeMap;
use stdx::Instant;

/// Everything that is subscribed.
#[derive(Debug, Default)]
pub(crate) struct Subs {
    items: BTreeMap<String, SubscribeItem>,
    /// Maps of which the owner expects a newer epoch, and since when.
    expected: BTreeMap<String, Instant>,
}

impl Subs {
    /// Subscribes to `what` from epoch `start` on. Returns the message for an open session; `None` if nothing
    /// changes.
    pub(crate) fn want(
        &mut self,
        what: &str,
        start: u64,
        once: bool,
        hostname: &str,
    ) -> Option<MonSubscribe> {
        let item = SubscribeItem { start, flags: if once { SUBSCRIBE_ONCE } else { 0 } };
        match self.items.get(what) {
            Some(old) if *old == item => return None,
            // A one-time subscription does not weaken a lasting one that covers it.
            Some(old) if once && old.flags == 0 && old.start <= start => return None,
            _ => {}
        }
        self.items.insert(what.to_owned(), item);
        Some(message([(what.to_owned(), item)].into(), hostname))
    }

    /// Drops a subscription. The monitor is not told: it forgets it with the session.
    pub(crate) fn forget(&mut self, what: &str) {
        self.items.remove(what);
        self.expected.remove(what);
    }

    /// A newer `what` is waited for from now on.
    pub(crate) fn expect(&mut self, now: Instant, what: &str) {
        self.expected.insert(what.to_owned(), now);
    }

    /// The time since which a newer map is expected: that of the latest request for one.
    pub(crate) fn expected_since(&self) -> Option<Instant> {
        self.expected.values().max().copied()
    }

    /// `epoch` of `what` has arrived; a new session asks for what comes after it.
    pub(crate) fn got(&mut self, what: &str, epoch: u64) {
        self.expected.remove(what);
        if let Some(item) = self.items.get_mut(what)
            && item.start <= epoch
        {
            if item.flags & SUBSCRIBE_ONCE != 0 {
                self.items.remove(what);
            } else {
                item.start = epoch + 1;
            }
        }
    }

    /// Like [`Self::got`], for a map that is subscribed under its plain name or under that of one file
    /// system.
    pub(crate) fn got_mdsmap(&mut self, epoch: u64) {
        let names: Vec<String> =
            self.items.keys().filter(|what| what.starts_with("mdsmap")).cloned().collect();
        names.iter().for_each(|what| self.got(what, epoch));
    }

    /// The message for a new session.
    pub(crate) fn all(&self, hostname: &str) -> Option<MonSubscribe> {
        (!self.items.is_empty()).then(|| message(self.items.clone(), hostname))
    }
}

fn message(what: BTreeMap<String, SubscribeItem>, hostname: &str) -> MonSubscribe {
    MonSubscribe { what, hostname: hostname.to_owned() }
}
