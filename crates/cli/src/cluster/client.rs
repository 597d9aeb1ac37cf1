//! Tools as clients: which cluster they mean, as whom, and a session to its monitors.

use super::{CommandReply, Commander};
use anyhow::{Context, Result, bail};
use auth::{Credentials, Keyring};
use clap::Args;
use decl::Conf;
use runtime::{EventLoop, Handle, Limits, NodeSpec, Notice};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;
use wire::{EntityAddr, EntityName, Uuid};

/// Which cluster, as whom.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClientArgs {
    /// The cluster's configuration file [default: $CEPH_CONF, ./nacre-data/ceph.conf or /etc/ceph/ceph.conf].
    #[arg(long, short = 'c')]
    pub(crate) conf: Option<PathBuf>,
    /// Who to be.
    #[arg(long, short = 'n', default_value = "client.admin", value_parser = entity)]
    pub(crate) name: EntityName,
    /// The file with the key [default: `keyring` of the configuration].
    #[arg(long, short = 'k')]
    pub(crate) keyring: Option<PathBuf>,
}

fn entity(text: &str) -> Result<EntityName, String> {
    EntityName::parse(text).ok_or_else(|| format!("`{text}` is no name: give TYPE.ID, such as client.admin"))
}

/// What a client must know of its cluster.
pub(crate) struct ClusterConf {
    /// Who, with which key.
    pub(crate) credentials: Credentials,
    /// The monitors.
    pub(crate) mons: Vec<EntityAddr>,
    /// The cluster's identity, where the file says it.
    pub(crate) fsid: Option<Uuid>,
    /// The file.
    #[expect(dead_code, reason = "for clients with options of their own")]
    pub(crate) conf: Conf,
}

impl ClientArgs {
    /// Reads the configuration and the key.
    pub(crate) fn read(&self) -> Result<ClusterConf> {
        let path = self.conf_path()?;
        let shown = path.display();
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {shown}; give another with --conf"))?;
        let conf = Conf::parse(&text).with_context(|| shown.to_string())?;
        let mons = conf.mon_hosts(&self.name).with_context(|| shown.to_string())?;
        let fsid = conf.get(&self.name, "fsid").and_then(|f| Uuid::parse(&f));
        let key = conf.uses_cephx(&self.name).then(|| self.key(&conf)).transpose()?;
        Ok(ClusterConf { credentials: Credentials { name: self.name.clone(), key }, mons, fsid, conf })
    }

    /// The same for the client library, which reads the files itself.
    pub(crate) fn options(&self) -> Result<client::Options> {
        let mut options = client::Options::new(self.conf_path()?);
        options.name = self.name.clone();
        options.keyring.clone_from(&self.keyring);
        options.hostname = super::hostname();
        Ok(options)
    }

    fn key(&self, conf: &Conf) -> Result<auth::Key> {
        let from_conf = || conf.get(&self.name, "keyring").map(PathBuf::from);
        let path = self.keyring.clone().or_else(from_conf);
        let path = path.unwrap_or_else(|| format!("/etc/ceph/ceph.{}.keyring", self.name).into());
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!("cannot read the keyring {}; give another with --keyring", path.display())
        })?;
        let ring = Keyring::parse(&text).with_context(|| path.display().to_string())?;
        let key = ring.key(&self.name);
        key.cloned().with_context(|| {
            format!("{} has no key for {}; give another with --keyring", path.display(), self.name)
        })
    }

    fn conf_path(&self) -> Result<PathBuf> {
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

/// A client's session to the monitors.
pub(crate) struct Session {
    handle: Handle<String, CommandReply>,
    _on: EventLoop,
    _notices: mpsc::Receiver<Notice>,
}

/// How long monitors may take to answer a tool.
const PATIENCE: Duration = Duration::from_secs(30);

impl Session {
    /// Starts one; the first question waits for it.
    pub(crate) fn open(args: &ClientArgs) -> Result<Self> {
        let conf = args.read()?;
        let on = EventLoop::start("client").context("cannot start a thread")?;
        let (tx, notices) = mpsc::channel();
        let handle = spawn(&on, conf, tx);
        Ok(Self { handle, _on: on, _notices: notices })
    }

    /// The output of a command, or its error as the monitor words it.
    pub(crate) fn ask(&self, command: &Value) -> Result<Vec<u8>> {
        ask(&self.handle, command)
    }
}

/// Runs a session's node.
pub(crate) fn spawn(
    on: &EventLoop,
    conf: ClusterConf,
    notices: mpsc::Sender<Notice>,
) -> Handle<String, CommandReply> {
    let spec = NodeSpec {
        name: conf.credentials.name.clone(),
        number: None,
        listener: None,
        nonce: runtime::nonce(),
        disks: Vec::new(),
        admin_socket: None,
        limits: Limits::default(),
    };
    on.spawn(spec, move || Commander::new(conf.credentials, conf.mons, conf.fsid, runtime::rng()), notices)
}

/// Sends a command and waits for its answer.
pub(crate) fn ask(admin: &Handle<String, CommandReply>, command: &Value) -> Result<Vec<u8>> {
    let (tx, rx) = mpsc::sync_channel(1);
    admin.submit(command.to_string(), move |reply| {
        // The caller may have lost its patience.
        let _ = tx.send(reply);
    });
    let Ok(reply) = rx.recv_timeout(PATIENCE) else {
        bail!("no answer from the monitors within {} s: is the cluster running?", PATIENCE.as_secs());
    };
    let reply = reply?;
    if reply.code != 0 {
        bail!("{} (error {})", reply.status, reply.code);
    }
    Ok(reply.data.to_vec())
}
