//! Tools as clients: the choice of a cluster and a name, and commands to its monitors.

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use stdx::Bufs;
use wire::EntityName;

/// The cluster and the name to use.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClientArgs {
    /// The cluster's configuration file [default: $CEPH_CONF, ./nacre-data/ceph.conf or /etc/ceph/ceph.conf].
    #[arg(long, short = 'c')]
    pub(crate) conf: Option<PathBuf>,
    /// The name to authenticate as.
    #[arg(long, short = 'n', default_value = "client.admin", value_parser = entity)]
    pub(crate) name: EntityName,
    /// The file with the key [default: `keyring` of the configuration].
    #[arg(long, short = 'k')]
    pub(crate) keyring: Option<PathBuf>,
}

fn entity(text: &str) -> Result<EntityName, String> {
    EntityName::parse(text).ok_or_else(|| format!("`{text}` is no name: give TYPE.ID, such as client.admin"))
}

impl ClientArgs {
    /// The options for the client library, which reads the files.
    pub(crate) fn options(&self) -> Result<client::Options> {
        let mut options = client::Options::new(self.conf_path()?);
        options.name = self.name.clone();
        options.keyring.clone_from(&self.keyring);
        options.hostname = super::hostname();
        Ok(options)
    }

    /// The configuration file, given or where it usually is.
    pub(crate) fn conf_path(&self) -> Result<PathBuf> {
        if let Some(path) = &self.conf {
            return Ok(path.clone());
        }
        if let Some(path) = std::env::var_os("CEPH_CONF") {
            return Ok(path.into());
        }
        let usual = ["nacre-data/ceph.conf", "/etc/ceph/ceph.conf"].map(PathBuf::from);
        let found = usual.into_iter().find(|path| path.is_file());
        found.context(
            "no cluster here: give its configuration file with --conf (`nacre dev DIR` writes DIR/ceph.conf)",
        )
    }
}

/// The time within which monitors must let a tool in.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the output of a monitor command, or its error in the monitor's words.
pub(crate) fn ask(cluster: &client::Cluster, command: &Value) -> Result<Vec<u8>> {
    ask_with(cluster, command, Bufs::new())
}

/// The same for a command with an input file.
pub(crate) fn ask_with(cluster: &client::Cluster, command: &Value, input: Bufs) -> Result<Vec<u8>> {
    let reply = cluster.command(&command.to_string(), input)?;
    if let Err(errno) = reply.result {
        bail!("{} (error {})", reply.status, errno.to_result_code());
    }
    Ok(reply.output.to_vec())
}
