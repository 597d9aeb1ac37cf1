//! Ctrl-C and the signals that ask a process to end.

use anyhow::{Context, Result};
use runtime::Notice;
use std::sync::mpsc::Sender;

/// Reports each such signal as [`Notice::Signal`].
pub(crate) fn watch(notices: Sender<Notice>) -> Result<()> {
    let report = move || {
        // Nobody listens any more if the process is ending.
        let _ = notices.send(Notice::Signal);
    };
    ctrlc::set_handler(report).context("cannot watch for signals")
}
