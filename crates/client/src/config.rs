//! Finding a cluster: the configuration file and the keyring that Ceph's own clients use.

use auth::{ConMode, Credentials, Key, Keyring};
use decl::Conf;
use fsclient::{ClientConfig, ClientOptions};
use std::path::{Path, PathBuf};
use wire::{EntityAddr, EntityName, Errno, Uuid};

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
    /// The configuration file; without one the monitors are to be given.
    pub conf: Option<PathBuf>,
    /// The monitors, in place of the file's.
    pub mons: Vec<EntityAddr>,
    /// The cluster, in place of the file's.
    pub fsid: Option<Uuid>,
    /// The key, in place of a keyring's.
    pub key: Option<Key>,
    /// The only mode of connections; `None` for both.
    pub mode: Option<ConMode>,
    /// `client.admin` by default.
    pub name: EntityName,
    /// A keyring other than the configuration's.
    pub keyring: Option<PathBuf>,
    /// The mount point that `session ls` shows.
    pub mount_point: String,
    /// True if the file system is wanted.
    pub mount: bool,
    /// True if commands are to be given to metadata servers.
    pub tells: bool,
    /// The host name for the monitors' log.
    pub hostname: String,
    /// Limits.
    pub limits: ClientOptions,
}

impl Options {
    /// The cluster of a configuration file, as `client.admin`.
    pub fn new(conf: impl Into<PathBuf>) -> Self {
        Self { conf: Some(conf.into()), ..Self::of_mons(Vec::new()) }
    }

    /// The cluster of these monitors, as `client.admin`.
    pub fn of_mons(mons: Vec<EntityAddr>) -> Self {
        Self {
            conf: None,
            mons,
            fsid: None,
            key: None,
            mode: None,
            name: EntityName::new(wire::EntityType::CLIENT, "admin"),
            keyring: None,
            mount_point: String::new(),
            mount: false,
            tells: false,
            hostname: "localhost".into(),
            limits: ClientOptions::default(),
        }
    }

    /// Reads the files. Returns the configuration of a client node.
    pub fn read(&self) -> Result<ClientConfig, Error> {
        let conf = match &self.conf {
            Some(path) => Conf::parse(&read(path, "--conf")?).map_err(|e| self.in_conf(&e))?,
            None => Conf::default(),
        };
        Ok(ClientConfig {
            credentials: Credentials { name: self.name.clone(), key: self.find_key(&conf)? },
            mons: match self.mons.is_empty() {
                true => conf.mon_hosts(&self.name).map_err(|e| self.in_conf(&e))?,
                false => self.mons.clone(),
            },
            fsid: self.find_fsid(&conf)?,
            mount: self.mount,
            tells: self.tells,
            hostname: self.hostname.clone(),
            mount_point: self.mount_point.clone(),
            options: self.find_limits(&conf)?,
        })
    }

    /// The limits that were given; those that have their defaults are the file's.
    fn find_limits(&self, conf: &Conf) -> Result<ClientOptions, Error> {
        let (mut limits, default) = (self.limits.clone(), ClientOptions::default());
        if let Some(snapdir) =
            conf.get(&self.name, "client_snapdir").filter(|_| limits.snapdir == default.snapdir)
        {
            limits.snapdir = snapdir;
        }
        let inodes = conf.get(&self.name, "client_cache_size");
        if let Some(text) = inodes.filter(|_| limits.idle_inodes == default.idle_inodes) {
            let wrong = || self.in_conf(&format!("`client_cache_size = {text}` is not a number of inodes"));
            limits.idle_inodes = text.parse().map_err(|_| wrong())?;
        }
        Ok(limits)
    }

    fn in_conf(&self, error: &impl std::fmt::Display) -> Error {
        match &self.conf {
            Some(path) => Error::Config(format!("{}: {error}", path.display())),
            None => Error::Config(error.to_string()),
        }
    }

    /// The fsid of the file is that of the monitors in it, and not of others.
    fn find_fsid(&self, conf: &Conf) -> Result<Option<Uuid>, Error> {
        let text = conf.get(&self.name, "fsid").filter(|_| self.fsid.is_none() && self.mons.is_empty());
        let Some(text) = text else { return Ok(self.fsid) };
        let fsid = Uuid::parse(&text);
        fsid.map(Some).ok_or_else(|| self.in_conf(&format!("`fsid = {text}` is not a UUID")))
    }

    fn find_key(&self, conf: &Conf) -> Result<Option<Key>, Error> {
        if !conf.uses_cephx(&self.name) {
            return Ok(None);
        }
        if let Some(key) = &self.key {
            return Ok(Some(key.clone()));
        }
        let path = match (&self.keyring, conf.get(&self.name, "keyring")) {
            (Some(path), _) => path.clone(),
            (None, Some(path)) => PathBuf::from(path),
            (None, None) => PathBuf::from(format!("/etc/ceph/ceph.{}.keyring", self.name)),
        };
        if self.conf.is_none() && self.keyring.is_none() && !path.exists() {
            // Nobody said whether the cluster asks for keys: its monitors will.
            return Ok(None);
        }
        let ring = Keyring::parse(&read(&path, "--keyring")?)
            .map_err(|e| Error::Config(format!("{}: {e}", path.display())))?;
        let missing = || {
            let what = format!("{} has no key for {}", path.display(), self.name);
            Error::Config(format!("{what}: choose another --name or --keyring"))
        };
        ring.key(&self.name).cloned().map(Some).ok_or_else(missing)
    }
}

fn read(path: &Path, option: &'static str) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|error| Error::File { path: path.to_owned(), error, option })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_the_files_unless_they_were_given() {
        let find = |options: &Options, text: &str| options.find_limits(&Conf::parse(text).expect("a file"));
        let mut options = Options::of_mons(Vec::new());
        let text = "[client]\nclient_cache_size = 5\nclient_snapdir = .s\n";
        let limits = find(&options, text).expect("both are right");
        assert_eq!((limits.idle_inodes, limits.snapdir.as_str()), (5, ".s"));
        options.limits.idle_inodes = 7;
        assert_eq!(find(&options, text).expect("as before").idle_inodes, 7);
        assert_eq!(find(&options, "").expect("nothing is wrong").snapdir, ".snap");
        let wrong = find(&Options::of_mons(Vec::new()), "[client]\nclient_cache_size = many\n");
        assert!(wrong.expect_err("no number").to_string().contains("client_cache_size = many"));
    }
}
