//! Has umount(8) find its helper. Unless libmount knows options of a mount that the kernel does not (it keeps
//! them in `/run/mount/utab`), umount(8) takes the type from statfs(2), which is `fuse` for all file systems
//! of FUSE, and looks for no helper of ours.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The helper, by the type that the kernel shows.
const HELPER: &str = "/sbin/umount.fuse.nacre";
/// An option that nobody reads.
const OPTION: &str = "x-nacre";

/// A mount of which libmount knows. It is to be dropped when it is unmounted.
pub(super) struct Registered {
    point: PathBuf,
}

impl Registered {
    /// Has libmount note an option of a mount. `None` if there is no helper, or no privilege to note
    /// anything.
    pub(super) fn new(source: &str, point: &Path) -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() || !Path::new(HELPER).exists() {
            return Ok(None);
        }
        // It only notes: `-f`. No helper: `-i`.
        let mut command = Command::new("mount");
        command.args(["-i", "-f", "--no-canonicalize", "-t", "fuse.nacre", "-o", OPTION, "--", source]);
        carry_out(command.arg(point)).context("umount will not wait until everything is saved")?;
        Ok(Some(Self { point: point.to_owned() }))
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut command = Command::new("umount");
        command.args(["-i", "--fake", "--no-canonicalize", "--"]).arg(&self.point);
        // umount(8) may have removed the note already; one that stays has no effect.
        let _ = carry_out(&mut command);
    }
}

fn carry_out(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    let out =
        command.stdin(std::process::Stdio::null()).output().with_context(|| format!("cannot run {name}"))?;
    if !out.status.success() {
        let args = command.get_args().collect::<Vec<_>>().join(OsStr::new(" "));
        bail!("`{name} {}`: {}", args.display(), String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(())
}
