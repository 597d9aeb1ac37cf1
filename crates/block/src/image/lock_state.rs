//! How the lock of an image stands, as this client sees it.

use stdx::Instant;

/// How the lock stands.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) enum State {
    /// The image has none, or is only read.
    #[default]
    NotNeeded,
    /// It is not ours, and is not tried for before this time.
    Free {
        not_before: Option<Instant>,
    },
    /// It is being tried for.
    Taking,
    Held,
    /// It is being given back.
    Leaving,
}

/// The lock as this client sees it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Lock {
    pub(super) state: State,
    /// Another client wants it.
    pub(super) wanted: bool,
    /// The owner that was last asked.
    pub(super) owner: Option<String>,
    /// It has been taken for something that has not begun: until then it is not given away. Otherwise three
    /// clients could pass it on for ever without doing anything.
    turn: bool,
}

impl Lock {
    /// Says if the image has a lock at all.
    pub(super) fn is_needed(&mut self, needed: bool) {
        self.state = if needed { State::Free { not_before: None } } else { State::NotNeeded };
    }

    /// True if it is ours, or there is none.
    pub(super) fn is_usable(&self) -> bool {
        let ignored = stdx::mutants::is_active("block_writes_without_lock");
        ignored || matches!(self.state, State::NotNeeded) || self.is_held() && (!self.wanted || self.turn)
    }

    /// It is ours.
    pub(super) fn taken(&mut self) {
        *self = Self { state: State::Held, wanted: false, owner: None, turn: true };
    }

    /// Something begins that must not be interrupted.
    pub(super) fn begin_turn(&mut self) {
        self.turn = true;
    }

    /// What it was taken for has begun.
    pub(super) fn end_turn(&mut self) {
        self.turn = false;
    }

    /// True if it is to be given away once nothing is under way.
    pub(super) fn is_due(&self) -> bool {
        self.is_held() && self.wanted && !self.turn
    }

    /// It is being given back.
    pub(super) fn leave(&mut self) {
        if self.is_held() {
            self.state = State::Leaving;
        }
    }

    pub(super) fn is_held(&self) -> bool {
        self.state == State::Held
    }

    /// True if there is one, and it is not ours.
    pub(super) fn is_free(&self) -> bool {
        matches!(self.state, State::Free { .. } | State::Leaving)
    }

    /// True while a script takes it or gives it back.
    pub(super) fn is_moving(&self) -> bool {
        matches!(self.state, State::Taking | State::Leaving)
    }

    pub(super) fn retry_at(&self) -> Option<Instant> {
        if let State::Free { not_before } = self.state { not_before } else { None }
    }

    /// Another client asks for it. Returns true if it will be given back.
    pub(super) fn ask(&mut self) -> bool {
        self.wanted |= self.is_held();
        matches!(self.state, State::Held | State::Leaving)
    }

    /// It has become free: it is tried for at once.
    pub(super) fn try_now(&mut self) {
        if let State::Free { not_before } = &mut self.state {
            *not_before = None;
        }
    }
}
