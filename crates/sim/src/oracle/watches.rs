//! Checker `watches_told`: no watch is lost silently. For each notification, either the watcher receives it,
//! or the notifier is told that the watcher missed it, or the watcher is told that its watch is broken.
//! Nobody is reported to have acknowledged a notification falsely, and nobody receives one that was not sent.

use super::linear::Judgement;
use msgs::op::input::NotifyReply;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wire::Errno;

/// A watch of one incarnation of a client; cookies are unique over all of them.
#[derive(Clone, Debug, Default)]
struct Watch {
    object: String,
    /// Step of the call.
    called: u64,
    /// The time for which an OSD keeps the watch without hearing of the client.
    timeout: Duration,
    /// The client's id as notifiers know it, once the watch was answered.
    gid: Option<u64>,
    /// Step at which its registration was acknowledged.
    registered: Option<u64>,
    /// Step at which its client ended it or died.
    ended: Option<u64>,
    /// True if its client died after such a long silence that an OSD may have ended the watch, and may have
    /// told so a client that it could not reach.
    unreached: bool,
    /// Step at which its client was told that the watch is broken.
    broken: Option<u64>,
    /// Notifications that it heard, by the OSD's number.
    heard: BTreeMap<u64, usize>,
    /// Acknowledgements that it sent.
    answers: BTreeSet<Vec<u8>>,
}

impl Watch {
    fn is_believed_in(&self, at: u64) -> bool {
        let not_yet = |step: Option<u64>| step.is_none_or(|step| step > at);
        self.registered.is_some_and(|step| step < at) && not_yet(self.ended) && not_yet(self.broken)
    }

    /// Reports whether its object may have been deleted since it began.
    fn may_be_deleted(&self, deletes: &[(String, Option<u64>)]) -> bool {
        deletes.iter().any(|(object, at)| *object == self.object && at.is_none_or(|at| at > self.called))
    }

    fn describe(&self, cookie: u64, number: usize) -> String {
        let ids: Vec<_> = self.heard.iter().filter(|(_, n)| **n == number).map(|(id, _)| *id).collect();
        let Self { gid, registered, ended, broken, .. } = self;
        format!(
            "watch {cookie} of client {gid:?} (registered at {registered:?}, ended at {ended:?}, \
             broken at {broken:?}, heard it as {ids:?})"
        )
    }
}

#[derive(Clone, Debug)]
struct Notify {
    object: String,
    called: u64,
    /// Sent without faults: every watcher has to answer.
    last: bool,
    ended: Option<Ended>,
}

#[derive(Clone, Debug)]
struct Ended {
    at: u64,
    result: Result<(), Errno>,
    reply: NotifyReply,
    attempts: u32,
}

/// The clients' operations and notifications, in order.
#[derive(Clone, Debug, Default)]
pub struct History {
    step: u64,
    watches: BTreeMap<u64, Watch>,
    notifies: Vec<Notify>,
    /// Deletions of objects, and the step at which each was answered.
    deletes: Vec<(String, Option<u64>)>,
    /// The watchers of each object at the end, and the step of that listing.
    listed: BTreeMap<String, (u64, BTreeSet<u64>)>,
    wrong: Option<String>,
}

impl History {
    fn next(&mut self) -> u64 {
        self.step += 1;
        self.step
    }

    fn watch(&mut self, cookie: u64) -> &mut Watch {
        self.watches.entry(cookie).or_default()
    }

    fn blame(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    /// Records a client's request to watch an object.
    pub fn watch_called(&mut self, cookie: u64, object: &str, timeout: Duration) {
        let called = self.next();
        let watch = self.watch(cookie);
        (watch.object, watch.timeout, watch.called) = (object.to_owned(), timeout, called);
    }

    /// Records a client's deletion of an object. Returns its number.
    pub fn delete_called(&mut self, object: &str) -> usize {
        self.deletes.push((object.to_owned(), None));
        self.deletes.len() - 1
    }

    /// Records the answer to a deletion: it has happened or never will.
    pub fn delete_answered(&mut self, number: usize) {
        self.deletes[number].1 = Some(self.next());
    }

    /// Records the answer to a watch: the client's id, or an error.
    pub fn watch_answered(&mut self, cookie: u64, result: Result<(), Errno>, gid: u64) {
        let now = self.next();
        // After a refusal an earlier attempt may still be carried out: that watch ends with its timeout.
        if result.is_ok() {
            let watch = self.watch(cookie);
            (watch.registered, watch.gid) = (Some(now), Some(gid));
        }
    }

    /// Records a client's death, this long after it last heard anything for this watch.
    pub fn died(&mut self, cookie: u64, unheard: Duration) {
        self.ended(cookie);
        let watch = self.watch(cookie);
        watch.unreached = unheard >= watch.timeout;
    }

    /// Records that a client ends its watch.
    pub fn ended(&mut self, cookie: u64) {
        let now = self.next();
        self.watch(cookie).ended.get_or_insert(now);
    }

    /// Records that a client was told that its watch is broken, `unheard` after an OSD last heard of it.
    pub fn broken(&mut self, cookie: u64, unheard: Duration) {
        let now = self.next();
        let watch = self.watches.entry(cookie).or_default();
        watch.broken.get_or_insert(now);
        let deleted = watch.may_be_deleted(&self.deletes);
        // Clocks drift.
        if !deleted && unheard + Duration::from_secs(1) < watch.timeout {
            let what =
                format!("watch {cookie} of {:?} is broken after {unheard:?} for no reason", watch.object);
            self.blame(what);
        }
    }

    /// Records a notification. Returns its number, which is its payload.
    pub fn notify_called(&mut self, object: &str, last: bool) -> usize {
        let called = self.next();
        self.notifies.push(Notify { object: object.to_owned(), called, last, ended: None });
        self.notifies.len() - 1
    }

    /// Records the end of a notification.
    pub fn notify_ended(
        &mut self,
        number: usize,
        result: Result<(), Errno>,
        reply: &NotifyReply,
        attempts: u32,
    ) {
        let at = self.next();
        self.notifies[number].ended = Some(Ended { at, result, reply: reply.clone(), attempts });
    }

    /// Records that a watcher hears a notification. Returns its number if the watcher may hear it.
    pub fn heard(&mut self, cookie: u64, id: u64, payload: &[u8]) -> Option<usize> {
        let number = std::str::from_utf8(payload).ok().and_then(|text| text.parse::<usize>().ok());
        let Some(number) = number.filter(|n| *n < self.notifies.len()) else {
            self.blame(format!("watch {cookie} heard of a notification that nobody made: {payload:?}"));
            return None;
        };
        let object = self.notifies[number].object.clone();
        let watch = self.watch(cookie);
        let before = watch.heard.insert(id, number).filter(|before| *before != number);
        let theirs = watch.object.clone();
        if theirs != object {
            self.blame(format!("watch {cookie} of {theirs:?} heard of notification {number} of {object}"));
        }
        if let Some(before) = before {
            self.blame(format!("watch {cookie} heard of notifications {before} and {number}, both {id}"));
        }
        Some(number)
    }

    /// Records a watcher's acknowledgement.
    pub fn answers(&mut self, cookie: u64, answer: &[u8]) {
        self.watch(cookie).answers.insert(answer.to_vec());
    }

    /// The acknowledgement of a watcher to a notification.
    pub fn answer(cookie: u64, id: u64, number: usize) -> Vec<u8> {
        format!("{cookie} {id} {number}").into_bytes()
    }

    /// Records the cookies of all watchers of an object at the end.
    pub fn listed(&mut self, object: &str, cookies: impl IntoIterator<Item = u64>) {
        let now = self.next();
        self.listed.insert(object.to_owned(), (now, cookies.into_iter().collect()));
    }

    /// Checks the history.
    pub fn check(&self) -> Judgement {
        let histories = self.notifies.len() as u64;
        let found = self.wrong.clone().or_else(|| {
            let mut all = (0..self.notifies.len()).filter_map(|number| self.wrong_with(number));
            all.next().or_else(|| self.wrong_with_lists())
        });
        Judgement { histories, undecided: 0, wrong: found }
    }

    fn of<'a>(&'a self, object: &'a str) -> impl Iterator<Item = (&'a u64, &'a Watch)> {
        self.watches.iter().filter(move |(_, watch)| watch.object == object)
    }

    fn wrong_with(&self, number: usize) -> Option<String> {
        let notify = &self.notifies[number];
        let ended = notify.ended.as_ref()?;
        let named = |what: &str| {
            format!(
                "{number}th notification of {}, called at {}: {what}; {ended:?}",
                notify.object, notify.called
            )
        };
        if !matches!(ended.result, Ok(()) | Err(Errno::ETIMEDOUT | Errno::ENOENT)) {
            return Some(named("it failed"));
        }
        if (ended.result == Err(Errno::ETIMEDOUT)) == ended.reply.missed.is_empty() {
            return Some(named("who is missing makes it late, and nothing else does"));
        }
        for ((gid, cookie), answer) in &ended.reply.acks {
            let watch = self.watches.get(cookie).filter(|w| w.object == notify.object);
            let Some(watch) = watch.filter(|w| w.gid.is_none_or(|g| g == *gid)) else {
                return Some(named(&format!("watch {cookie} of client {gid} is not of this object")));
            };
            let of_this = |id: u64| watch.heard.get(&id) == Some(&number);
            let sent = watch.answers.contains(answer)
                && (watch.heard.keys())
                    .any(|id| of_this(*id) && Self::answer(*cookie, *id, number) == *answer);
            if !sent {
                return Some(named(&format!("watch {cookie} did not acknowledge that")));
            }
        }
        for (gid, cookie) in &ended.reply.missed {
            let watch = self.watches.get(cookie).filter(|w| w.object == notify.object);
            if watch.is_none_or(|w| w.gid.is_some_and(|g| g != *gid)) {
                return Some(named(&format!(
                    "watch {cookie} of client {gid} is missing, and never was there"
                )));
            }
        }
        self.passed_over(number, notify, ended).map(|what| named(&what))
    }

    /// A watch that a notification missed.
    fn passed_over(&self, number: usize, notify: &Notify, ended: &Ended) -> Option<String> {
        let acked: BTreeSet<u64> = ended.reply.acks.iter().map(|((_, cookie), _)| *cookie).collect();
        let missed: BTreeSet<u64> = ended.reply.missed.iter().map(|(_, cookie)| *cookie).collect();
        for (cookie, watch) in self.of(&notify.object) {
            let ids = watch.heard.values().filter(|heard| **heard == number).count();
            if ids > ended.attempts as usize {
                return Some(format!("watch {cookie} heard of it under {ids} numbers"));
            }
            if !watch.is_believed_in(notify.called) || watch.ended.is_some_and(|at| at < ended.at) {
                continue;
            }
            if notify.last && !acked.contains(cookie) {
                return Some(format!(
                    "nothing fails any more, and it did not reach {}",
                    watch.describe(*cookie, number)
                ));
            }
            // `ENOENT` says nothing about an object's watchers, which are told otherwise.
            let is_named = acked.contains(cookie) || missed.contains(cookie);
            // A client that ends a watch, or dies, is not told that the watch was already gone.
            let may_be_gone = || watch.unreached || watch.may_be_deleted(&self.deletes);
            let is_told = watch.broken.is_some() || watch.ended.is_some() && may_be_gone();
            if !is_named && ended.result != Err(Errno::ENOENT) && !is_told {
                return Some(format!(
                    "it passed over {}, which was not told either",
                    watch.describe(*cookie, number)
                ));
            }
        }
        None
    }

    fn wrong_with_lists(&self) -> Option<String> {
        self.listed.iter().find_map(|(object, (at, listed))| {
            let believed: BTreeSet<u64> =
                self.of(object).filter(|(_, w)| w.is_believed_in(*at)).map(|(cookie, _)| *cookie).collect();
            let differs = *listed != believed;
            differs.then(|| format!("{object} is watched by {listed:?}, and these believe it: {believed:?}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(acks: &[(u64, u64, &[u8])], missed: &[(u64, u64)]) -> NotifyReply {
        let acks = acks.iter().map(|(gid, cookie, answer)| ((*gid, *cookie), answer.to_vec()));
        NotifyReply { acks: acks.collect(), missed: missed.to_vec() }
    }

    /// Watches 1 and 2 of clients 11 and 12.
    fn two() -> History {
        let mut h = History::default();
        for cookie in [1, 2] {
            h.watch_called(cookie, "o", Duration::from_secs(10));
            h.watch_answered(cookie, Ok(()), cookie + 10);
        }
        h
    }

    fn says(h: &mut History, cookie: u64, id: u64, number: usize) -> Vec<u8> {
        assert_eq!(h.heard(cookie, id, number.to_string().as_bytes()), Some(number));
        let answer = History::answer(cookie, id, number);
        h.answers(cookie, &answer);
        answer
    }

    #[test]
    fn who_has_answered_or_is_named_as_missing_or_was_told_is_not_passed_over() {
        let mut h = two();
        let n = h.notify_called("o", false);
        let one = says(&mut h, 1, 5, n);
        h.notify_ended(n, Err(Errno::ETIMEDOUT), &reply(&[(11, 1, &one)], &[(12, 2)]), 1);
        assert_eq!(h.check().wrong, None);
        let n = h.notify_called("o", false);
        let one = says(&mut h, 1, 6, n);
        h.notify_ended(n, Ok(()), &reply(&[(11, 1, &one)], &[]), 1);
        assert!(h.check().wrong.is_some_and(|w| w.contains("passed over watch 2")));
        let mut dies = h.clone();
        dies.died(2, Duration::from_secs(9));
        assert!(dies.check().wrong.is_some(), "it would have been told");
        let mut dies = h.clone();
        dies.died(2, Duration::from_secs(10));
        assert_eq!(dies.check().wrong, None);
        h.broken(2, Duration::from_secs(12));
        assert_eq!(h.check().wrong, None);
        h.listed("o", [1]);
        assert_eq!(h.check().wrong, None);
        h.listed("o", [1, 2]);
        assert!(h.check().wrong.is_some());
    }

    #[test]
    fn what_nobody_answered_is_no_acknowledgement() {
        let mut h = two();
        let n = h.notify_called("o", false);
        let one = says(&mut h, 1, 5, n);
        h.heard(2, 5, b"0");
        let two = History::answer(2, 5, n);
        h.notify_ended(n, Ok(()), &reply(&[(11, 1, &one), (12, 2, &two)], &[]), 1);
        assert!(h.check().wrong.is_some_and(|w| w.contains("watch 2 did not acknowledge")));
        h.answers(2, &two);
        assert_eq!(h.check().wrong, None);
    }

    #[test]
    fn at_the_end_all_must_answer() {
        let mut h = two();
        let n = h.notify_called("o", true);
        let one = says(&mut h, 1, 5, n);
        h.notify_ended(n, Err(Errno::ETIMEDOUT), &reply(&[(11, 1, &one)], &[(12, 2)]), 1);
        assert!(h.check().wrong.is_some_and(|w| w.contains("did not reach watch 2")));
    }

    #[test]
    fn a_watch_breaks_when_nobody_has_heard_of_its_client_or_the_object_goes() {
        let mut h = two();
        h.broken(1, Duration::from_secs(3));
        assert!(h.check().wrong.is_some_and(|w| w.contains("no reason")));
        let mut h = History::default();
        let long_ago = h.delete_called("o");
        h.delete_answered(long_ago);
        h.watch_called(1, "o", Duration::from_secs(10));
        h.watch_answered(1, Ok(()), 11);
        let n = h.delete_called("o");
        h.broken(1, Duration::from_secs(3));
        h.delete_answered(n);
        assert_eq!(h.check().wrong, None);
    }

    #[test]
    fn nobody_hears_of_what_is_not_for_it() {
        let mut h = two();
        let n = h.notify_called("other", false);
        h.heard(1, 5, n.to_string().as_bytes());
        assert!(h.check().wrong.is_some());
        let mut h = two();
        assert_eq!(h.heard(1, 5, b"7"), None);
        assert!(h.check().wrong.is_some());
    }
}
