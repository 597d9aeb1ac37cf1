//! Everything that a mount needs to know, from the command line, `-o` and the source. What the latter two say
//! counts more.

use super::args::MountArgs;
use super::daemon::KEY_INPUT;
use super::options::{Options, Secret};
use super::source;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Where the configuration is looked for if a source is given. Not in the working directory, as without one:
/// root may mount what fstab says while in somebody else's directory.
const CONF: &str = "/etc/ceph/ceph.conf";

/// The option that gives a key as text.
const SECRET: &str = "the value of `secret`";

/// What a mount needs to know.
pub(super) struct Settings {
    /// The mount point, absolute.
    pub(super) point: PathBuf,
    pub(super) log: Option<PathBuf>,
    /// Seconds to wait for the cluster.
    pub(super) timeout: u64,
    pub(super) parsed: Options,
    args: MountArgs,
    source: Option<String>,
}

impl Settings {
    /// Reads arguments only; nothing is looked at. The error names what is wrong with them.
    pub(super) fn new(args: &MountArgs) -> Result<Self, String> {
        let (source, point) = match &args.paths[..] {
            [source, point] => {
                let text = source.to_str();
                let text = text.ok_or_else(|| format!("the source {} is no text", source.display()))?;
                (Some(text.to_owned()), point)
            }
            [point] => (None, point),
            _ => return Err("a mount point is needed".into()),
        };
        let mut parsed = Options::default();
        args.options.iter().try_for_each(|text| parsed.take(text, args.sloppy))?;
        source.iter().try_for_each(|source| source::take(source, &mut parsed))?;
        Ok(Self {
            point: std::path::absolute(point).map_err(|e| format!("{}: {e}", point.display()))?,
            log: parsed.log.clone().or_else(|| args.log.clone()),
            timeout: parsed.timeout.unwrap_or(args.timeout),
            parsed,
            args: args.clone(),
            source,
        })
    }

    /// The options of the mount itself.
    pub(super) fn fuse(&self) -> fuse::Options {
        let mut flags = self.parsed.flags;
        flags.read_only |= self.args.read_only;
        flags.allow_other |= self.args.allow_other || rustix::process::geteuid().is_root();
        fuse::Options {
            source: self.source.clone().unwrap_or_else(|| "nacre".into()),
            root: self.parsed.root.clone().unwrap_or_else(|| "/".into()),
            flags,
        }
    }

    /// The options of the client; reads the file with the key, and asks for the addresses of hosts.
    pub(super) fn client(&self) -> Result<client::Options> {
        let parsed = &self.parsed;
        let mons = source::resolve(&parsed.mons).map_err(anyhow::Error::msg)?;
        let mut options = match self.conf(!mons.is_empty())? {
            Some(conf) => client::Options::new(conf),
            None => client::Options::of_mons(Vec::new()),
        };
        options.mons = mons;
        options.name = parsed.name.clone().unwrap_or_else(|| self.args.client.name.clone());
        options.keyring = parsed.keyring.clone().or_else(|| self.args.client.keyring.clone());
        options.key = self.key()?;
        options.fsid = parsed.fsid;
        options.mode = parsed.mode;
        options.hostname = crate::cluster::hostname();
        options.mount = true;
        options.mount_point = self.point.display().to_string();
        let limits = &mut options.limits;
        limits.dirty_bytes = parsed.dirty.unwrap_or(self.args.dirty);
        limits.idle_inodes = parsed.inodes.unwrap_or(limits.idle_inodes);
        limits.fs_name.clone_from(&parsed.fs_name);
        limits.asynchronous = parsed.asynchronous;
        limits.root = self.fuse().root;
        limits.snapdir = parsed.snapdir.clone().unwrap_or_else(|| std::mem::take(&mut limits.snapdir));
        Ok(options)
    }

    /// The configuration file. There may be none if the monitors are known.
    fn conf(&self, knows_mons: bool) -> Result<Option<PathBuf>> {
        if let Some(conf) = self.parsed.conf.as_ref().or(self.args.client.conf.as_ref()) {
            return Ok(Some(conf.clone()));
        }
        if self.source.is_none() && !knows_mons {
            return self.args.client.conf_path().map(Some);
        }
        let conf = std::env::var_os("CEPH_CONF").map_or_else(|| PathBuf::from(CONF), PathBuf::from);
        match conf.is_file() {
            true => Ok(Some(conf)),
            false if knows_mons => Ok(None),
            false => Err(anyhow::anyhow!("no monitors: there is no {CONF}; give mon_addr=IP or conf=FILE")),
        }
    }

    fn key(&self) -> Result<Option<auth::Key>> {
        let (text, from) = match &self.parsed.secret {
            None => return Ok(None),
            Some(Secret::Text(text)) => (text.clone(), SECRET.to_owned()),
            Some(Secret::File(path)) if self.args.detached && path == Path::new(KEY_INPUT) => {
                (read(path)?, SECRET.to_owned())
            }
            Some(Secret::File(path)) => (read(path)?, path.display().to_string()),
        };
        let key = auth::Key::from_base64(&text).with_context(|| format!("{from} is no key"))?;
        Ok(Some(key))
    }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    const KEY: &str = "AQAAAAAAAAAAABAAAAECAwQFBgcICQoLDA0ODw==";
    const FSID: &str = "07fe3187-00d9-42a3-814b-72a4d5e7d5be";

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: MountArgs,
    }

    fn settings(line: &[&str]) -> Settings {
        let line = ["mount"].iter().chain(line);
        Settings::new(&Line::parse_from(line).args).expect("arguments")
    }

    #[test]
    fn what_is_given_counts_more_than_the_configuration() {
        let dir = tempfile::tempdir().expect("a directory");
        let (conf, keyring) = (dir.path().join("conf"), dir.path().join("keyring"));
        let text = format!("[global]\nfsid = {FSID}\nmon host = 10.0.0.1\nkeyring = {}\n", keyring.display());
        std::fs::write(&conf, text).expect("writes");
        std::fs::write(&keyring, format!("[client.admin]\nkey = {KEY}\n[client.me]\nkey = {KEY}\n"))
            .expect("writes");
        let conf = format!("conf={}", conf.display());
        let read = |line: &[&str]| settings(line).client().expect("options").read().expect("reads");
        let shown = |mons: &[wire::EntityAddr]| {
            mons.iter().filter_map(|mon| mon.addr).map(|addr| addr.to_string()).collect::<Vec<_>>()
        };

        let config = read(&["/mnt", "-o", &conf]);
        assert_eq!(shown(&config.mons), ["10.0.0.1:3300"]);
        assert_eq!(config.fsid.map(|fsid| fsid.to_string()).as_deref(), Some(FSID));
        assert_eq!(config.credentials.name.to_string(), "client.admin");
        assert!(config.mount && config.options.asynchronous && config.options.fs_name.is_none());

        let config = read(&["me@.fs=/a", "/mnt", "-o", &conf, "-o", "mon_addr=10.0.0.2/10.0.0.3:1,wsync"]);
        assert_eq!(shown(&config.mons), ["10.0.0.2:3300", "10.0.0.3:1"]);
        assert_eq!(config.fsid, None, "that of the file is that of other monitors");
        assert_eq!(config.credentials.name.to_string(), "client.me");
        assert_eq!((config.options.fs_name.as_deref(), &config.options.root[..]), (Some("fs"), "/a"));
        assert!(!config.options.asynchronous && config.credentials.key.is_some());

        let config = read(&["10.0.0.2:/", "/mnt", "-n", "client.you", "-o", &format!("{conf},secret={KEY}")]);
        assert_eq!(config.credentials.key.map(|key| key.to_base64()).as_deref(), Some(KEY));
        assert_eq!(config.credentials.name.to_string(), "client.you", "a keyring has no key of it");
    }

    #[test]
    fn the_mount_gets_its_source_and_flags() {
        let fuse = settings(&["me@.fs=/a", "/mnt", "-o", "ro,user,sync", "--allow-other"]).fuse();
        let wanted = fuse::Options {
            source: "me@.fs=/a".into(),
            root: "/a".into(),
            flags: fuse::Flags {
                read_only: true,
                allow_other: true,
                suid: false,
                dev: false,
                exec: false,
                sync: true,
                dirsync: false,
            },
        };
        assert_eq!(fuse, wanted);
        let settings = settings(&["mnt", "-o", "mount_timeout=3,log=/l"]);
        let plain = settings.fuse();
        assert_eq!((&plain.source[..], &plain.root[..], plain.flags.read_only), ("nacre", "/", false));
        assert!(settings.point.is_absolute() && settings.timeout == 3);
        assert_eq!(settings.log.as_deref(), Some(Path::new("/l")));
    }
}
