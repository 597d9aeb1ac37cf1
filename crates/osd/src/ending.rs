//! The end of an OSD: asked for, begun, reached.

/// How far an OSD is from its end.
///
/// Invariant: a stopped OSD stays so, and begins nothing any more.
#[derive(Debug, Default)]
pub struct Ending {
    /// A command asked it to end.
    asked: bool,
    /// It only shuts its store down.
    closing: bool,
    stopped: bool,
}

impl Ending {
    /// A command asks the OSD to end.
    pub fn ask(&mut self) {
        self.asked = true;
    }

    /// True if a command has asked for the end since the last call.
    pub fn take_asked(&mut self) -> bool {
        std::mem::take(&mut self.asked)
    }

    /// From now on the OSD only shuts its store down.
    pub fn begin_close(&mut self) {
        assert!(!self.stopped, "a stopped OSD has no store to shut down");
        self.closing = true;
    }

    /// True if the OSD only shuts its store down.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// The OSD stops. False if it has stopped before.
    pub fn stop(&mut self) -> bool {
        !std::mem::replace(&mut self.stopped, true)
    }

    /// True if the OSD has stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }
}
