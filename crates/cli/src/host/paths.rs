//! Where a host keeps what belongs to its cluster: Ceph's paths, below a root that is `/` but in tests.

use crate::cluster::{PATIENCE, Place, advise};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use wire::EntityName;

/// The paths of a host.
#[derive(Clone, Debug)]
pub(crate) struct HostPaths {
    root: PathBuf,
}

impl HostPaths {
    /// Paths below `root`, which is made if it is missing.
    pub(crate) fn new(root: &Path) -> Result<Self> {
        std::fs::create_dir_all(root).map_err(|e| advise("create", root, e))?;
        let root = root.canonicalize().with_context(|| format!("cannot use {}", root.display()))?;
        Ok(Self { root })
    }

    /// True if it is the whole machine, and not a part of one as in tests.
    pub(crate) fn is_machine(&self) -> bool {
        self.root == Path::new("/")
    }

    /// `--root DIR` as a command line has it, with a blank before it; nothing for `/`.
    pub(crate) fn option(&self) -> String {
        if self.is_machine() { String::new() } else { format!(" --root {}", self.root.display()) }
    }

    /// `/etc/ceph`.
    pub(crate) fn etc(&self) -> PathBuf {
        self.root.join("etc/ceph")
    }

    /// The configuration file of clients and daemons.
    pub(crate) fn conf(&self) -> PathBuf {
        self.etc().join("ceph.conf")
    }

    /// The administrator's keyring.
    pub(crate) fn admin_keyring(&self) -> PathBuf {
        self.etc().join("ceph.client.admin.keyring")
    }

    /// `/var/lib/ceph`.
    pub(crate) fn lib(&self) -> PathBuf {
        self.root.join("var/lib/ceph")
    }

    /// The record of this host's daemons.
    pub(crate) fn record(&self) -> PathBuf {
        self.lib().join("host.json")
    }

    /// A daemon's directory: `/var/lib/ceph/osd/ceph-0`.
    pub(crate) fn daemon(&self, name: &EntityName) -> PathBuf {
        self.lib().join(name.ty.name()).join(format!("ceph-{}", name.id))
    }

    /// Process ids and admin sockets.
    pub(crate) fn run_dir(&self) -> PathBuf {
        self.root.join("run/ceph")
    }

    /// Logs of daemons that `nacre init` runs for a moment.
    pub(crate) fn log_dir(&self) -> PathBuf {
        self.root.join("var/log/ceph")
    }

    /// The files of the daemons' processes; their logs go where this process's does.
    pub(crate) fn place(&self) -> Place {
        Place { conf: self.conf(), run_dir: self.run_dir(), log_dir: None }
    }

    /// Connects as the administrator, by the host's own files unless another keyring is given.
    pub(crate) fn administer(&self, keyring: Option<&Path>) -> Result<client::Cluster> {
        let own = self.admin_keyring();
        let keyring = keyring.unwrap_or(&own);
        if !keyring.exists() {
            bail!(
                "this host has no key of the administrator ({} is missing): copy that of a host with a \
                 monitor, and name it with --keyring",
                keyring.display()
            );
        }
        let mut options = client::Options::new(self.conf());
        options.keyring = Some(keyring.to_owned());
        options.hostname = crate::cluster::hostname();
        Ok(client::Cluster::connect(&options, PATIENCE)?)
    }

    /// Refuses a host that has the configuration file of a cluster.
    pub(crate) fn check_unused(&self) -> Result<()> {
        let conf = self.conf();
        if conf.exists() {
            bail!(
                "{} is there already, so this host belongs to a cluster: move it away if that one is gone",
                conf.display()
            );
        }
        Ok(())
    }

    /// Makes the directories that are missing.
    pub(crate) fn create(&self) -> Result<()> {
        [self.etc(), self.lib(), self.run_dir(), self.log_dir()]
            .iter()
            .try_for_each(|dir| std::fs::create_dir_all(dir).map_err(|e| advise("create", dir, e)))
    }
}
