//! After a host has become a member: its daemons are started.

use super::{HostPaths, hand_over, supervise};
use anyhow::Result;

/// Runs the daemons in the foreground if that is wanted, has systemd run them where it is, or says how.
pub(crate) fn go_on(paths: &HostPaths, run: bool) -> Result<()> {
    if run {
        return supervise(paths);
    }
    if hand_over(paths)? {
        say!("nacre: systemd runs the daemons of this host (nacre.service), now and from each boot on");
        return Ok(());
    }
    say!("Start the daemons of this host, here and after each boot:\n  nacre run{}", paths.option());
    Ok(())
}
