//! `nacre mount`: the file system through FUSE; `nacre umount`; and `mount.nacre` and `umount.nacre`, by
//! which mount(8) and umount(8) call them.

mod args;
mod daemon;
mod elsewhere;
mod helper;
mod options;
mod remount;
mod serve;
mod settings;
mod source;
mod umount;
mod utab;

pub(crate) use args::MountArgs;
pub(crate) use umount::{UmountArgs, run as umount};

use anyhow::{Result, bail};
use settings::Settings;
use std::path::PathBuf;
use std::process::ExitCode;

/// The helper of mount(8) or umount(8) that this process is called as: for the type that fstab has, and for
/// that of `/proc/mounts`.
pub(crate) fn called_helper() -> Option<fn() -> ExitCode> {
    let called = PathBuf::from(std::env::args_os().next()?);
    match called.file_name()?.to_str()? {
        "mount.nacre" | "mount.fuse.nacre" => Some(helper::main),
        "umount.nacre" | "umount.fuse.nacre" => Some(umount::main),
        _ => None,
    }
}

pub(crate) fn run(args: &MountArgs) -> Result<()> {
    let settings = Settings::new(args).map_err(anyhow::Error::msg)?;
    if !args.fork {
        return serve::run(&settings, args.detached);
    }
    let (said, status) = daemon::start(args)?;
    if said.is_empty() {
        bail!("the mount process ended: {status:?}");
    }
    print!("{said}");
    Ok(())
}
