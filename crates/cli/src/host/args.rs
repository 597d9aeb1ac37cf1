//! Options that commands of hosts share.

use super::{Host, HostPaths, Osd, choose};
use crate::cluster::hostname;
use crate::device;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::PathBuf;

/// What a host brings into a cluster, and under which name.
#[derive(Args)]
pub(crate) struct HostArgs {
    /// A disk, a partition, a file, or a directory in which a file is made, to store on; can be repeated
    /// [default: asks for each unused disk].
    #[arg(long = "disk", value_name = "PATH")]
    pub(crate) disks: Vec<PathBuf>,
    /// The size of a file that is made in a directory given with --disk.
    #[arg(long, default_value = "16G", value_parser = crate::cmd::terminal::size)]
    pub(crate) disk_size: u64,
    /// Store nothing on this host.
    #[arg(long, conflicts_with = "disks")]
    pub(crate) no_disks: bool,
    /// The name of this host in the cluster [default: the machine's].
    #[arg(long)]
    pub(crate) hostname: Option<String>,
    /// The rack that it is in, for CRUSH.
    #[arg(long)]
    pub(crate) rack: Option<String>,
    /// Take all unused disks without asking.
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    /// Stay in the foreground afterwards and run the daemons, as `nacre run` does.
    #[arg(long)]
    pub(crate) run: bool,
    /// A directory in place of `/` for all files.
    #[arg(long, default_value = "/")]
    pub(crate) root: PathBuf,
}

/// How a member of a cluster changes what it runs.
#[derive(Args)]
pub(crate) struct MemberArgs {
    /// Do it without asking.
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    /// A keyring with the administrator's key [default: that of this host].
    #[arg(long, short = 'k')]
    pub(crate) keyring: Option<PathBuf>,
    /// A directory in place of `/` for all files.
    #[arg(long, default_value = "/")]
    pub(crate) root: PathBuf,
}

impl HostArgs {
    /// The name of the host.
    pub(crate) fn hostname(&self) -> Result<String> {
        let name = match &self.hostname {
            Some(name) => name.clone(),
            None => hostname().split('.').next().unwrap_or_default().to_owned(),
        };
        check_name("host", "--hostname", &name)?;
        self.rack.as_ref().map_or(Ok(()), |rack| check_name("rack", "--rack", rack))?;
        if self.rack.as_ref() == Some(&name) {
            bail!("`{name}` can't be the name of both the host and its rack");
        }
        Ok(name)
    }

    /// The OSDs that this host is to have: on the disks that were given, or on those that a person agrees to.
    /// Each is empty and not in use.
    pub(crate) fn choose_osds(&self) -> Result<Vec<Osd>> {
        if self.no_disks {
            return Ok(Vec::new());
        }
        let targets = if self.disks.is_empty() { choose(self.yes)? } else { self.disks.clone() };
        prepare(&targets, self.disk_size, &[])
    }

    /// Refuses what contradicts the record of an attempt that was cut short.
    pub(crate) fn check_against(&self, host: &Host, paths: &HostPaths) -> Result<()> {
        let name = self.hostname()?;
        if host.hostname != name {
            bail!(
                "this host has begun to join as `{}`, not `{name}`: give --hostname {}, or remove {} to \
                 begin anew",
                host.hostname,
                host.hostname,
                paths.record().display()
            );
        }
        Ok(())
    }
}

/// Makes targets ready for OSDs; `taken` are devices of other OSDs of the host.
pub(crate) fn prepare(targets: &[PathBuf], size: u64, taken: &[Osd]) -> Result<Vec<Osd>> {
    let mut osds: Vec<Osd> = Vec::new();
    for target in targets {
        let path = device::prepare(target, size, false)?;
        let path = path.canonicalize().with_context(|| format!("cannot use {}", path.display()))?;
        if osds.iter().chain(taken).any(|osd| osd.device == path) {
            bail!("{} is given twice, or has an OSD already: give each disk once", path.display());
        }
        osds.push(Osd::new(path));
    }
    Ok(osds)
}

/// Refuses names that CRUSH and daemons can't have.
fn check_name(what: &str, option: &str, name: &str) -> Result<()> {
    let sound = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if name.is_empty() || name.len() > 63 || !sound || name.parse::<i64>().is_ok() {
        bail!(
            "`{name}` can't be the name of a {what}: it has letters, digits, - and _, and is no number; give \
             another with {option}"
        );
    }
    if ["localhost", "default"].contains(&name) {
        bail!("`{name}` can't be the name of a {what}, others may have the same: give one with {option}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn names_are_those_that_buckets_and_daemons_can_have() {
        for name in ["h1", "node-3", "rack_b"] {
            check_name("host", "--hostname", name).expect("sound");
        }
        for name in ["", "a b", "h1.example.org", "7", "localhost", "default", &"x".repeat(64)] {
            check_name("host", "--hostname", name).expect_err("not sound");
        }
    }
}
