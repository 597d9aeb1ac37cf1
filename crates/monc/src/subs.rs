//! Subscriptions: what is wanted, from which epoch on.

use msgs::{MonSubscribe, SUBSCRIBE_ONCE, SubscribeItem};
use std::collections::BTreeMap;

/// Everything that is subscribed.
#[derive(Debug, Default)]
pub(crate) struct Subs(BTreeMap<String, SubscribeItem>);

impl Subs {
    /// Wants `what` from `start` on. Returns the message for an open session; `None` where nothing is new.
    pub(crate) fn want(
        &mut self,
        what: &str,
        start: u64,
        once: bool,
        hostname: &str,
    ) -> Option<MonSubscribe> {
        let item = SubscribeItem { start, flags: if once { SUBSCRIBE_ONCE } else { 0 } };
        match self.0.get(what) {
            Some(old) if *old == item => return None,
            // A lasting subscription is not weakened by a wish that it serves already.
            Some(old) if once && old.flags == 0 && old.start <= start => return None,
            _ => {}
        }
        self.0.insert(what.to_owned(), item);
        Some(message([(what.to_owned(), item)].into(), hostname))
    }

    /// Wants `what` no more. The monitor is not told: it forgets with the session.
    pub(crate) fn forget(&mut self, what: &str) {
        self.0.remove(what);
    }

    /// `epoch` of `what` has arrived; a new session asks for what comes after it.
    pub(crate) fn got(&mut self, what: &str, epoch: u64) {
        if let Some(item) = self.0.get_mut(what)
            && item.start <= epoch
        {
            if item.flags & SUBSCRIBE_ONCE != 0 {
                self.0.remove(what);
            } else {
                item.start = epoch + 1;
            }
        }
    }

    /// As [`Self::got`], for a map that is subscribed under its plain name or that of one file system.
    pub(crate) fn got_mdsmap(&mut self, epoch: u64) {
        let names: Vec<String> = self.0.keys().filter(|what| what.starts_with("mdsmap")).cloned().collect();
        names.iter().for_each(|what| self.got(what, epoch));
    }

    /// The message for a new session.
    pub(crate) fn all(&self, hostname: &str) -> Option<MonSubscribe> {
        (!self.0.is_empty()).then(|| message(self.0.clone(), hostname))
    }
}

fn message(what: BTreeMap<String, SubscribeItem>, hostname: &str) -> MonSubscribe {
    MonSubscribe { what, hostname: hostname.to_owned() }
}
