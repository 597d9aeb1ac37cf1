//! `nacre mount`: the file system through FUSE; and `mount.nacre`, by which mount(8) calls it.

mod args;
mod daemon;
mod helper;
mod options;
mod serve;
mod settings;
mod source;

pub(crate) use args::MountArgs;
pub(crate) use helper::{is_called, main};

use anyhow::{Result, bail};
use settings::Settings;

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
