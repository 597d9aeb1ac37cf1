//! Finding a cluster: the configuration file and the keyring that Ceph's own clients use.

use auth::{Credentials, Keyring};
use decl::Conf;
use fsclient::{ClientConfig, ClientOptions};
use std::path::{Path, PathBuf};
use wire::{EntityName, Errno, Uuid};

/// The reason that a cluster can't be reached or used: one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file can't be read.
    #[error("cannot read {path}: {error}; give another with {option}")]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
        /// The option that chooses another.
        option: &'static str,
    },
    /// The configuration or keyring lacks something, or has it wrong.
    #[error("{0}")]
    Config(String),
    /// No monitor answered, or none accepted our key.
    #[error("{0}")]
    Connect(String),
    /// The client has ended.
    #[error("the client has stopped")]
    Gone,
    /// An operation failed.
    #[error("{what}: {}", std::io::Error::from_raw_os_error(errno.get()))]
    Errno {
        /// The object or operation.
        what: String,
        /// The error.
        errno: Errno,
    },
}

/// The cluster to connect to, and the name to use.
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration file.
    pub conf: PathBuf,
    /// `client.admin` by default.
    pub name: EntityName,
    /// A keyring other than the configuration's.
    pub keyring: Option<PathBuf>,
    /// The mount point that `session ls` shows.
    pub mount_point: String,
    /// True if the file system is wanted.
    pub mount: bool,
    /// The host name for the monitors' log.
    pub hostname: String,
    /// Limits.
    pub limits: ClientOptions,
}

impl Options {
    /// The cluster of a configuration file, as `client.admin`.
    pub fn new(conf: impl Into<PathBuf>) -> Self {
        Self {
            conf: conf.into(),
            name: EntityName::new(wire::EntityType::CLIENT, "admin"),
            keyring: None,
            mount_point: String::new(),
            mount: false,
            hostname: "localhost".into(),
            limits: ClientOptions::default(),
        }
    }

    /// Reads the files. Returns the configuration of a client node.
    pub fn read(&self) -> Result<ClientConfig, Error> {
        let conf = Conf::parse(&read(&self.conf, "--conf")?)
            .map_err(|e| Error::Config(format!("{}: {e}", self.conf.display())))?;
        let in_conf = |e: decl::ConfError| Error::Config(format!("{}: {e}", self.conf.display()));
        let fsid = match conf.get(&self.name, "fsid") {
            Some(text) => Some(Uuid::parse(&text).ok_or_else(|| {
                Error::Config(format!("{}: `fsid = {text}` is not a UUID", self.conf.display()))
            })?),
            None => None,
        };
        let key = if conf.uses_cephx(&self.name) { Some(self.key(&conf)?) } else { None };
        Ok(ClientConfig {
            credentials: Credentials { name: self.name.clone(), key },
            mons: conf.mon_hosts(&self.name).map_err(in_conf)?,
            fsid,
            mount: self.mount,
            hostname: self.hostname.clone(),
            mount_point: self.mount_point.clone(),
            options: match conf.get(&self.name, "client_snapdir") {
                Some(snapdir) => ClientOptions { snapdir, ..self.limits.clone() },
                None => self.limits.clone(),
            },
        })
    }

    fn key(&self, conf: &Conf) -> Result<auth::Key, Error> {
        let path = match (&self.keyring, conf.get(&self.name, "keyring")) {
            (Some(path), _) => path.clone(),
            (None, Some(path)) => PathBuf::from(path),
            (None, None) => PathBuf::from(format!("/etc/ceph/ceph.{}.keyring", self.name)),
        };
        let ring = Keyring::parse(&read(&path, "--keyring")?)
            .map_err(|e| Error::Config(format!("{}: {e}", path.display())))?;
        let missing = || {
            let what = format!("{} has no key for {}", path.display(), self.name);
            Error::Config(format!("{what}: choose another --name or --keyring"))
        };
        ring.key(&self.name).cloned().ok_or_else(missing)
    }
}

fn read(path: &Path, option: &'static str) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|error| Error::File { path: path.to_owned(), error, option })
}
