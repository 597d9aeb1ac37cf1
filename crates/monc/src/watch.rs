//! Liveness of the monitor at the other end. A host that was cut off breaks no connection, and the world
//! gives the connection up only half a minute later. So the monitor is asked for its map, the cheapest
//! question that every monitor answers by itself. Any message from it is a sign of life.

use std::time::Duration;
use stdx::Instant;

/// While the owner waits for something, a monitor that has been silent for this long is asked …
const QUICK: Duration = Duration::from_millis(500);
/// … but only at the beginning: not every wait has an end.
const QUICK_FOR: Duration = Duration::from_secs(30);
/// Otherwise daemons, whose own reports must arrive, ask after this long …
const DAEMON: Duration = Duration::from_secs(2);
/// … and clients, who may be many, as Ceph's do.
const CLIENT: Duration = Duration::from_secs(10);
/// A monitor that does not answer the question within this time is given up.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Each monitor given up doubles that, so that a slow link or busy monitors do not send everybody from one to
/// the next …
const MAX_PATIENCE: Duration = Duration::from_secs(24);
/// … until none was given up for this long.
const CALM: Duration = Duration::from_secs(60);
/// A timer that is later than this means that this process stood still: answers may be unread.
const LATE: Duration = Duration::from_millis(500);

/// The owner's wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// No question is outstanding.
    Nothing,
    /// An answer that will come, however long it takes.
    Answer,
    /// A newer map, since then; it may never come.
    News(Instant),
}

/// The next action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// The monitor is alive.
    Fine,
    /// Ask the monitor for a sign of life.
    Ask,
    /// The monitor is given up.
    Silent,
}

/// The watch over one session, and how patient earlier ones have made it.
#[derive(Debug)]
pub(crate) struct Watch {
    is_client: bool,
    /// Time of the monitor's last message.
    heard: Instant,
    /// Time of the unanswered question.
    asked: Option<Instant>,
    patience: Duration,
    /// Time at which a monitor was last given up.
    gave_up: Option<Instant>,
}

impl Watch {
    pub(crate) fn new(is_client: bool) -> Self {
        Self { is_client, heard: Instant(0), asked: None, patience: PATIENCE, gave_up: None }
    }

    /// The monitor has sent a message.
    pub(crate) fn heard(&mut self, now: Instant) {
        (self.heard, self.asked) = (now, None);
        if self.gave_up.is_some_and(|at| now.since(at) >= CALM) {
            (self.patience, self.gave_up) = (PATIENCE, None);
        }
    }

    /// The time at which [`Self::look`] has something to do.
    pub(crate) fn deadline(&self, wait: Wait) -> Instant {
        if let Some(asked) = self.asked {
            return asked + self.patience;
        }
        let slow = self.heard + if self.is_client { CLIENT } else { DAEMON };
        let quick = self.heard + QUICK;
        match wait {
            Wait::Nothing => slow,
            Wait::Answer => quick,
            Wait::News(since) if quick <= since + QUICK_FOR => quick,
            Wait::News(_) => slow,
        }
    }

    /// Time has passed.
    pub(crate) fn look(&mut self, now: Instant, wait: Wait) -> Look {
        let due = self.deadline(wait);
        if now < due {
            return Look::Fine;
        }
        if self.asked.is_none() || now.since(due) >= LATE {
            self.asked = Some(now);
            return Look::Ask;
        }
        self.asked = None;
        self.patience = (self.patience * 2).min(MAX_PATIENCE);
        self.gave_up = Some(now);
        Look::Silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    #[test]
    fn it_asks_often_only_while_something_is_waited_for() {
        let mut watch = Watch::new(false);
        watch.heard(at(1000));
        assert_eq!(watch.deadline(Wait::Nothing), at(3000));
        assert_eq!(watch.deadline(Wait::Answer), at(1500));
        assert_eq!(watch.deadline(Wait::News(at(900))), at(1500));
        watch.heard(at(60_000));
        assert_eq!(watch.deadline(Wait::News(at(900))), at(62_000), "what never comes is asked for slowly");
        assert_eq!(Watch::new(true).deadline(Wait::Nothing), at(10_000), "there may be many clients");
    }

    #[test]
    fn a_question_is_asked_once_and_its_silence_ends_the_session() {
        let mut watch = Watch::new(false);
        watch.heard(at(1000));
        assert_eq!(watch.look(at(1400), Wait::Answer), Look::Fine);
        assert_eq!(watch.look(at(1500), Wait::Answer), Look::Ask);
        assert_eq!(watch.look(at(1600), Wait::Answer), Look::Fine);
        assert_eq!(watch.deadline(Wait::Answer), at(3000));
        watch.heard(at(1700));
        assert_eq!(watch.look(at(3000), Wait::Nothing), Look::Fine, "it was answered");
        assert_eq!(watch.look(at(3700), Wait::Nothing), Look::Ask);
        assert_eq!(watch.look(at(5200), Wait::Nothing), Look::Silent);
    }

    #[test]
    fn silence_makes_patient_until_it_is_long_past() {
        let mut watch = Watch::new(false);
        let mut now = at(0);
        for patience_ms in [1500, 3000, 6000, 12_000, 24_000, 24_000] {
            watch.heard(now);
            now = watch.deadline(Wait::Answer);
            assert_eq!(watch.look(now, Wait::Answer), Look::Ask);
            assert_eq!(watch.deadline(Wait::Answer), now + Duration::from_millis(patience_ms));
            now = watch.deadline(Wait::Answer);
            assert_eq!(watch.look(now, Wait::Answer), Look::Silent);
        }
        watch.heard(now + CALM);
        assert_eq!(watch.patience, PATIENCE);
    }

    #[test]
    fn who_stood_still_himself_asks_again_before_he_judges() {
        let mut watch = Watch::new(false);
        watch.heard(at(0));
        assert_eq!(watch.look(at(500), Wait::Answer), Look::Ask);
        assert_eq!(watch.look(at(9000), Wait::Answer), Look::Ask, "the answer may lie unread");
        assert_eq!(watch.look(at(10_500), Wait::Answer), Look::Silent);
    }
}
