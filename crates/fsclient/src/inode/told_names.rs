//! Names of a directory that local callers believe without asking, and taking that belief back.

use std::collections::BTreeSet;
use std::hash::BuildHasherDefault;
use std::time::Duration;
use stdx::{ConstDefault, FastSet, Instant};

/// The time for which a name is told.
const TOLD_FOR: Duration = Duration::from_secs(1);
/// A name that was told less long ago is believed for a while yet.
const FRESH_FOR: Duration = Duration::from_millis(500);
/// Callers count from the moment in which they take an answer in: after this time nobody believes a name.
const BELIEVED_AT_MOST: Duration = Duration::from_secs(2);
/// The time in which no names are told in a directory that several change.
const SHARED_FOR: Duration = Duration::from_secs(5);
/// The longest such time, in one that others go on to change.
const SHARED_AT_MOST: Duration = Duration::from_secs(320);
/// A change that follows another caller's so soon has waited for it.
const AT_ONCE: Duration = Duration::from_millis(1);
/// The time that a revocation waits for callers to forget names.
pub(crate) const PATIENCE: Duration = Duration::from_millis(20);

/// Names of one directory that were told for a time. They may be believed only under the directory's `Fs`;
/// `has_right` says if it is held now.
///
/// Callers can forget a name only while no operation of theirs holds the directory, and such an operation may
/// wait for the MDS, which waits for the revocation. So a revocation waits for a short time only. After that
/// the directory is *guarded*: its attributes, without which no caller looks a name up in it, are not told
/// until the names are forgotten or have run out.
///
/// An operation that holds the directory may itself ask for its attributes. To keep it from waiting for a
/// guard, a caller whose operation in the directory was answered during the withdrawal is let through once,
/// and no names are told in a directory that several callers change at once: those wait for one another.
/// A caller that was answered just before can't be told from one that holds nothing: it waits for the guard
/// to end. So that this is rare, no names are told after a withdrawal, for twice as long each time if others
/// go on to change the directory.
///
/// Invariant: `recent`, `older` and the withdrawal hold every name that callers may believe.
#[derive(PartialEq, Debug, Default)]
pub(crate) struct ToldNames {
    /// Names that were told since `turned_at`.
    recent: FastSet<Box<[u8]>>,
    /// Names that were told in the [`BELIEVED_AT_MOST`] before `turned_at`, or longer ago.
    older: FastSet<Box<[u8]>>,
    turned_at: Instant,
    /// No names are told before this instant.
    silent_until: Instant,
    /// The time for which no names are told after the last withdrawal.
    silence: Duration,
    withdrawal: Option<Withdrawal>,
    /// The last local caller (a thread) that has changed the directory, and when.
    last_change: Option<(u32, Instant)>,
    /// The right was lost since, although it may be back, or it is about to be given up.
    unsure: bool,
}

/// How the right stands under which names are believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Right {
    /// It is held: names are withdrawn because several local callers change the directory.
    Held,
    /// It is being revoked, because others change the directory.
    Revoked,
    /// It is given back already.
    GivenBack,
}

#[derive(PartialEq, Debug)]
struct Withdrawal {
    id: u64,
    phase: Phase,
    names: FastSet<Box<[u8]>>,
    /// Callers (threads) that may get past the guard once.
    let_through: BTreeSet<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// A revocation of the right waits.
    Patient,
    /// The directory's attributes are not told before this instant.
    Guarded(Instant),
    /// The names have run out.
    Lapsed,
}

impl ConstDefault for ToldNames {
    fn const_default() -> &'static Self {
        const {
            &Self {
                recent: FastSet::with_hasher(BuildHasherDefault::new()),
                older: FastSet::with_hasher(BuildHasherDefault::new()),
                turned_at: Instant(0),
                silent_until: Instant(0),
                silence: Duration::ZERO,
                withdrawal: None,
                last_change: None,
                unsure: false,
            }
        }
    }
}

impl ToldNames {
    /// Tells a name that is believed here under the right. Returns the time for which callers may believe it.
    pub(super) fn tell(&mut self, now: Instant, name: &[u8]) -> Duration {
        if self.withdrawal.is_some() || self.unsure || now < self.silent_until {
            return Duration::ZERO;
        }
        self.note(now, name);
        TOLD_FOR
    }

    /// Notes that callers believe a name, because they have moved it here.
    pub(super) fn note(&mut self, now: Instant, name: &[u8]) {
        self.drop_expired(now);
        self.recent.insert(name.into());
    }

    /// The time after which [`Self::drop_expired`] drops a name that is told now.
    pub(super) const KEPT: Duration = Duration::from_secs(2 * BELIEVED_AT_MOST.as_secs());

    /// Drops names that nobody believes any more.
    pub(super) fn drop_expired(&mut self, now: Instant) {
        let age = now.since(self.turned_at);
        if age >= BELIEVED_AT_MOST {
            self.older = std::mem::take(&mut self.recent);
            self.turned_at = now;
        }
        if age >= Self::KEPT {
            self.older.clear();
            self.unsure &= self.is_told();
        }
    }

    /// True if callers may believe a name.
    pub(super) fn has(&self, name: &[u8]) -> bool {
        let is_withdrawn = self.withdrawal.as_ref().is_some_and(|w| w.names.contains(name));
        is_withdrawn || self.recent.contains(name) || self.older.contains(name)
    }

    /// True if callers believe a name for [`FRESH_FOR`] yet. Of names that were told in the last seconds this
    /// knows only some.
    pub(super) fn is_fresh(&self, now: Instant, name: &[u8]) -> bool {
        let is_sure = self.withdrawal.is_none() && !self.unsure;
        is_sure && now < self.turned_at + FRESH_FOR && self.recent.contains(name)
    }

    /// The caller `pid` is about to change the directory.
    pub(super) fn change_begins(&mut self, now: Instant, pid: u32) {
        if self.last_change.is_some_and(|(last, at)| last != pid && now < at + AT_ONCE) {
            self.silent_until = self.silent_until.max(now + SHARED_FOR);
            self.unsure |= self.is_told();
        }
    }

    /// The caller `pid` has changed the directory, or failed to.
    pub(super) fn change_ends(&mut self, now: Instant, pid: u32) {
        self.last_change = Some((pid, now));
        self.used(pid);
    }

    /// The caller `pid` gets an answer about a name: it may hold the directory.
    pub(super) fn used(&mut self, pid: u32) {
        if let Some(withdrawal) = &mut self.withdrawal {
            withdrawal.let_through.insert(pid);
        }
    }

    /// Callers have forgotten the directory, and with it every name in it.
    pub(super) fn forget(&mut self) {
        self.recent.clear();
        self.older.clear();
        self.unsure = false;
    }

    /// Notes that the right may have changed.
    pub(super) fn note_right(&mut self, has_right: bool) {
        self.unsure |= self.is_told() && !has_right;
    }

    /// True if callers may believe names.
    pub(super) fn is_told(&self) -> bool {
        !forgets_what_it_told() && (!self.recent.is_empty() || !self.older.is_empty())
    }

    /// True if names are believed that may be stale, and no withdrawal is under way.
    pub(super) fn is_stale(&self, has_right: bool) -> bool {
        self.is_told() && self.withdrawal.is_none() && (self.unsure || !has_right)
    }

    /// True if a revocation of the right has to wait.
    pub(super) fn delays_revocation(&self, has_right: bool) -> bool {
        let is_patient = self.withdrawal.as_ref().is_some_and(|w| w.phase == Phase::Patient);
        is_patient || self.is_told() && !has_right
    }

    pub(super) fn is_withdrawing(&self) -> bool {
        self.withdrawal.is_some()
    }

    /// True if the directory's attributes may not be told to the caller `pid` at all.
    pub(super) fn is_guarded_from(&mut self, pid: u32) -> bool {
        let guarded = self.withdrawal.as_mut().filter(|w| matches!(w.phase, Phase::Guarded(_)));
        guarded.is_some_and(|w| !w.let_through.remove(&pid))
    }

    /// Begins withdrawal `id`. Returns the names that callers have to forget; without any, there is no
    /// withdrawal. If the right is given back already, the directory is guarded at once.
    pub(super) fn start(&mut self, now: Instant, id: u64, right: Right) -> Vec<Vec<u8>> {
        assert!(self.withdrawal.is_none(), "one withdrawal at a time");
        self.drop_expired(now);
        self.unsure = false;
        let mut names = std::mem::take(&mut self.older);
        names.extend(self.recent.drain());
        let mut to_forget: Vec<Vec<u8>> = names.iter().map(|name| name.to_vec()).collect();
        to_forget.sort_unstable();
        if !names.is_empty() {
            let phase = match right {
                Right::GivenBack => Phase::Guarded(now + BELIEVED_AT_MOST),
                Right::Held | Right::Revoked => Phase::Patient,
            };
            self.withdrawal = Some(Withdrawal { id, phase, names, let_through: BTreeSet::new() });
            self.be_silent(now, right);
        }
        to_forget
    }

    /// Names are withdrawn: tells none for a while. That is twice the last time if others change the
    /// directory and names were told for no longer than that since.
    fn be_silent(&mut self, now: Instant, right: Right) {
        let goes_on = right != Right::Held && now < self.silent_until + self.silence;
        self.silence = if goes_on { (self.silence * 2).min(SHARED_AT_MOST) } else { SHARED_FOR };
        self.silent_until = self.silent_until.max(now + self.silence);
    }

    /// Withdrawal `id` takes long: a revocation waits no more, and after that nobody believes the names any
    /// more. Returns the time after which this is to be called again.
    pub(super) fn overdue(&mut self, now: Instant, id: u64, has_right: bool) -> Option<Duration> {
        let withdrawal = self.withdrawal.as_mut().filter(|w| w.id == id)?;
        let (phase, rest) = match withdrawal.phase {
            Phase::Patient if has_right => (Phase::Patient, Some(PATIENCE)),
            Phase::Patient => (Phase::Guarded(now + BELIEVED_AT_MOST), Some(BELIEVED_AT_MOST)),
            Phase::Guarded(until) if now < until => (Phase::Guarded(until), Some(until.since(now))),
            Phase::Guarded(_) | Phase::Lapsed => (Phase::Lapsed, None),
        };
        withdrawal.phase = phase;
        rest
    }

    /// Callers have forgotten the names of withdrawal `id`. Returns false if that is not the one under way.
    pub(super) fn finish(&mut self, id: u64) -> bool {
        self.withdrawal.take_if(|w| w.id == id).is_some()
    }

    /// Asserts the invariants.
    pub(super) fn check(&self) {
        assert!(self.is_told() || !self.unsure, "doubt about names that nobody believes");
    }
}

/// A planted fault: names that callers believe are not withdrawn.
fn forgets_what_it_told() -> bool {
    stdx::mutants::is_active("client_forgets_what_it_told")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(1_000_000_000_000) + Duration::from_millis(ms)
    }

    #[test]
    fn a_name_is_remembered_for_as_long_as_it_may_be_believed() {
        let mut told = ToldNames::default();
        for ms in (0..20_000).step_by(100) {
            assert_eq!(told.tell(at(ms), format!("{ms}").as_bytes()), TOLD_FOR);
            let young = ms.saturating_sub(2000)..=ms;
            assert!(young.step_by(100).all(|ms| told.has(format!("{ms}").as_bytes())), "at {ms}");
            assert!(told.recent.len() + told.older.len() <= 41, "and not for ever");
        }
        let names = told.start(at(20_500), 1, Right::Revoked);
        assert!(names.len() >= 15 && names.contains(&b"18500".to_vec()));
        assert_eq!(told.tell(at(20_500), b"a"), Duration::ZERO, "not during a withdrawal");
        assert!(told.finish(1) && !told.finish(1));
        assert_eq!(told.tell(at(25_400), b"a"), Duration::ZERO, "nor soon after one");
        assert_eq!(told.tell(at(25_500), b"a"), TOLD_FOR);
        assert!(
            told.start(at(40_000), 2, Right::Revoked).is_empty() && !told.is_withdrawing(),
            "it has run out"
        );
    }

    #[test]
    fn a_name_is_fresh_until_shortly_before_it_runs_out() {
        let mut told = ToldNames::default();
        told.tell(at(0), b"a");
        assert!(told.is_fresh(at(499), b"a") && !told.is_fresh(at(499), b"b"));
        assert!(!told.is_fresh(at(500), b"a"));
        told.note_right(false);
        assert!(!told.is_fresh(at(0), b"a"), "it may be stale");
    }

    #[test]
    fn a_revocation_waits_a_while_and_then_the_directory_is_guarded() {
        let mut told = ToldNames::default();
        told.tell(at(0), b"a");
        told.note_right(false);
        assert!(told.is_stale(true) && told.delays_revocation(false));
        assert_eq!(told.start(at(1), 7, Right::Revoked), [b"a"]);
        assert!(told.delays_revocation(false) && !told.is_guarded_from(1));
        assert_eq!(told.overdue(at(21), 6, false), None, "of another withdrawal");
        assert_eq!(told.overdue(at(21), 7, true), Some(PATIENCE), "nobody waits");
        assert_eq!(told.overdue(at(41), 7, false), Some(BELIEVED_AT_MOST));
        assert!(!told.delays_revocation(false) && told.is_guarded_from(1));
        told.used(2);
        assert!(!told.is_guarded_from(2), "it may hold the directory");
        assert!(told.is_guarded_from(2), "once");
        assert_eq!(told.overdue(at(1041), 7, false), Some(TOLD_FOR));
        assert_eq!(told.overdue(at(2041), 7, false), None);
        assert!(!told.is_guarded_from(1) && told.is_withdrawing());
        assert!(told.finish(7));
    }

    #[test]
    fn names_in_a_directory_that_others_go_on_to_change_are_told_ever_more_rarely() {
        let mut told = ToldNames::default();
        let mut now = at(0);
        // Somebody else changes it every tenth of a second.
        let mut withdrawals = 0;
        for id in 0..6000 {
            now = now + Duration::from_millis(100);
            told.tell(now, b"a");
            withdrawals += usize::from(!told.start(now, id, Right::Revoked).is_empty());
            told.finish(id);
        }
        assert_eq!(withdrawals, 7, "in ten minutes: at 0, 5, 15, 35, 75, 155 and 315 s");
        now = now + 2 * SHARED_AT_MOST;
        for id in 0..100 {
            // And every half a minute now.
            now = now + Duration::from_secs(30);
            assert_eq!(told.tell(now, b"a"), TOLD_FOR, "{id}");
            told.start(now + Duration::from_secs(1), id, Right::Revoked);
            told.finish(id);
        }
    }

    #[test]
    fn names_are_withdrawn_from_a_directory_that_several_change_at_once() {
        let mut told = ToldNames::default();
        told.tell(at(0), b"a");
        for (ms, pid) in [(1, 1), (2, 1), (8, 2), (9, 2)] {
            told.change_begins(at(ms), pid);
            told.change_ends(at(ms), pid);
        }
        assert!(!told.is_stale(true), "one after the other");
        told.change_ends(at(10), 2);
        told.change_begins(at(10), 1);
        assert!(told.is_stale(true));
        assert_eq!(told.start(at(10), 1, Right::Held), [b"a"]);
        told.finish(1);
        assert_eq!(told.tell(at(5009), b"a"), Duration::ZERO);
        assert_eq!(told.tell(at(5010), b"a"), TOLD_FOR);
    }
}
