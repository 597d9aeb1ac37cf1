//! The options of `-o`, as `mount.ceph`, `ceph-fuse` and mount(8) name them. The tables at the end list those
//! that are taken and do nothing here; docs/mount.md says why.

use auth::ConMode;
use fuse::Flags;
use std::path::PathBuf;
use wire::{EntityName, EntityType, Uuid};

/// Where a key is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Secret {
    /// In the options.
    Text(String),
    /// In a file.
    File(PathBuf),
}

/// What `-o` and the source of a mount ask for. `None`: they say nothing about it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Options {
    pub(super) name: Option<EntityName>,
    pub(super) conf: Option<PathBuf>,
    pub(super) keyring: Option<PathBuf>,
    pub(super) secret: Option<Secret>,
    /// Addresses or names of hosts.
    pub(super) mons: Vec<String>,
    pub(super) fsid: Option<Uuid>,
    pub(super) fs_name: Option<String>,
    /// The directory of the file system that is mounted.
    pub(super) root: Option<String>,
    pub(super) mode: Option<ConMode>,
    pub(super) snapdir: Option<String>,
    /// Seconds to wait for the cluster.
    pub(super) timeout: Option<u64>,
    /// Limit of buffered writes in bytes.
    pub(super) dirty: Option<u64>,
    /// Inodes that are kept although nobody uses them.
    pub(super) inodes: Option<usize>,
    pub(super) log: Option<PathBuf>,
    /// Creates and unlinks may be answered before a metadata server has done them.
    pub(super) asynchronous: bool,
    pub(super) flags: Flags,
    /// Options that are taken, though what they ask for is not done.
    pub(super) notes: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: None,
            conf: None,
            keyring: None,
            secret: None,
            mons: Vec::new(),
            fsid: None,
            fs_name: None,
            root: None,
            mode: None,
            snapdir: None,
            timeout: None,
            dirty: None,
            inodes: None,
            log: None,
            asynchronous: true,
            flags: Flags::default(),
            notes: Vec::new(),
        }
    }
}

impl Options {
    /// Takes the options of one `-o`; of those that contradict each other the last one counts. With `sloppy`
    /// unknown ones are ignored.
    pub(super) fn take(&mut self, text: &str, sloppy: bool) -> Result<(), String> {
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (name, value) = match item.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (item, None),
            };
            if !self.take_flag(name)
                && !self.take_value(name, value)?
                && !self.take_note(name, value)?
                && !is_ignored(name)
                && !sloppy
            {
                return Err(format!("unknown mount option `{name}`"));
            }
        }
        Ok(())
    }

    /// Takes an option that is only set or not. Returns false if it is none.
    fn take_flag(&mut self, name: &str) -> bool {
        let Flags { read_only, allow_other, suid, dev, exec, sync, dirsync } = &mut self.flags;
        match name {
            "ro" => *read_only = true,
            "rw" => *read_only = false,
            "suid" | "nosuid" => *suid = name == "suid",
            "dev" | "nodev" => *dev = name == "dev",
            "exec" | "noexec" => *exec = name == "exec",
            "sync" | "async" => *sync = name == "sync",
            "dirsync" => *dirsync = true,
            "defaults" => {
                (*suid, *dev, *exec) = (true, true, true);
                (*read_only, *sync) = (false, false);
            }
            // Whoever mounts it is not root, and must not become root by what is in it.
            "user" | "users" => (*suid, *dev, *exec) = (false, false, false),
            "owner" | "group" => (*suid, *dev) = (false, false),
            "allow_other" => *allow_other = true,
            "wsync" | "nowsync" => self.asynchronous = name == "nowsync",
            _ => return false,
        }
        true
    }

    /// Takes an option with a value. Returns false if it is none.
    fn take_value(&mut self, name: &str, value: Option<&str>) -> Result<bool, String> {
        let given = || value.filter(|v| !v.is_empty()).ok_or_else(|| format!("`{name}` needs a value"));
        match name {
            "name" | "ceph.id" | "ceph.name" => self.set_name(client(given()?)?)?,
            "conf" | "ceph.conf" => self.conf = Some(given()?.into()),
            "keyring" | "ceph.keyring" => self.keyring = Some(given()?.into()),
            "secret" => self.secret = Some(Secret::Text(given()?.to_owned())),
            "secretfile" | "ceph.keyfile" => self.secret = Some(Secret::File(given()?.into())),
            "mon_addr" | "ceph.mon_host" => {
                let items = given()?.split(['/', ';', ' ']).filter(|item| !item.is_empty());
                self.mons = items.map(str::to_owned).collect();
            }
            "fsid" => self.set_fsid(uuid(given()?)?)?,
            "fs" | "mds_namespace" | "ceph.client_fs" | "ceph.client_mds_namespace" => {
                self.set_fs(given()?)?;
            }
            "ceph.client_mountpoint" => self.root = Some(given()?.to_owned()),
            "ms_mode" => self.mode = mode(given()?)?,
            "snapdirname" | "ceph.client_snapdir" => self.snapdir = Some(given()?.to_owned()),
            "mount_timeout" => self.timeout = Some(number(name, given()?)?),
            "ceph.client_cache_size" => self.inodes = Some(number(name, given()?)? as usize),
            "dirty" => self.dirty = Some(super::super::terminal::size(given()?)?),
            "log" => self.log = Some(given()?.into()),
            "remount" | "bind" | "rbind" | "move" => {
                return Err(format!("`{name}` is not possible: unmount it and mount it anew"));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes an option that asks for what is not done here, and notes that. Returns false if it is none.
    fn take_note(&mut self, name: &str, value: Option<&str>) -> Result<bool, String> {
        let note = match (name, value) {
            ("recover_session", Some("clean")) => return Ok(true),
            ("recover_session", Some("no")) => {
                "recover_session=no: a mount that the cluster has evicted comes back by itself all the same"
            }
            ("recover_session", _) => return Err("`recover_session` is `no` or `clean`".into()),
            ("rbytes", _) => "rbytes: directories show no recursive sizes; see the xattr ceph.dir.rbytes",
            ("dirstat", _) => "dirstat: directories cannot be read as files; see the xattrs ceph.dir.*",
            ("ip", _) => "ip: the system chooses the address of this client",
            ("noacl", _) => "noacl: ACLs stay in force",
            ("ino32", _) => "ino32: inode numbers have 64 bits",
            _ if name.starts_with("ceph.") => {
                self.notes.push(format!("{name}: it is an option of ceph-fuse and does nothing here"));
                return Ok(true);
            }
            _ => return Ok(false),
        };
        self.notes.push(note.to_owned());
        Ok(true)
    }

    /// Sets the name of the client, unless another was given.
    pub(super) fn set_name(&mut self, name: EntityName) -> Result<(), String> {
        set_once("name", &mut self.name, name)
    }

    pub(super) fn set_fsid(&mut self, fsid: Uuid) -> Result<(), String> {
        set_once("fsid", &mut self.fsid, fsid)
    }

    pub(super) fn set_fs(&mut self, name: &str) -> Result<(), String> {
        set_once("fs", &mut self.fs_name, name.to_owned())
    }
}

/// Source and options may both say it, but not differ.
fn set_once<T: PartialEq + std::fmt::Display>(
    what: &str,
    at: &mut Option<T>,
    value: T,
) -> Result<(), String> {
    if let Some(other) = at.as_ref().filter(|other| **other != value) {
        return Err(format!("`{what}` is both `{other}` and `{value}`"));
    }
    *at = Some(value);
    Ok(())
}

/// The name of a client: `admin` or `client.admin`.
pub(super) fn client(text: &str) -> Result<EntityName, String> {
    let id = text.strip_prefix("client.").unwrap_or(text);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if id.is_empty() || !id.chars().all(plain) {
        return Err(format!("`{text}` is no name of a client"));
    }
    Ok(EntityName::new(EntityType::CLIENT, id))
}

pub(super) fn uuid(text: &str) -> Result<Uuid, String> {
    Uuid::parse(text).ok_or_else(|| format!("the fsid `{text}` is not a UUID"))
}

fn mode(text: &str) -> Result<Option<ConMode>, String> {
    match text {
        "crc" => Ok(Some(ConMode::Crc)),
        "secure" => Ok(Some(ConMode::Secure)),
        // The other end chooses: monitors secure connections, the others crc.
        "prefer-crc" | "prefer-secure" => Ok(None),
        "legacy" => Err("`ms_mode=legacy` is msgr v1, which Nacre does not speak: give crc or secure".into()),
        _ => Err(format!("`ms_mode={text}`: give crc, secure, prefer-crc or prefer-secure")),
    }
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{name}={text}` is no number"))
}

/// True for options that do nothing here, with or without a value.
fn is_ignored(name: &str) -> bool {
    name.starts_with("x-") || name.starts_with("X-") || IGNORED.contains(&name)
}

/// What these ask for is so in any case, or is another program's business, or tunes what Nacre tunes itself.
const IGNORED: &[&str] = &[
    // Of mount(8), systemd and other readers of fstab.
    "auto",
    "noauto",
    "nofail",
    "nouser",
    "nousers",
    "noowner",
    "nogroup",
    "_netdev",
    "_rnetdev",
    "comment",
    "helper",
    "uhelper",
    "silent",
    "loud",
    // Access times are not kept.
    "atime",
    "noatime",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "diratime",
    "nodiratime",
    "lazytime",
    "nolazytime",
    "iversion",
    "noiversion",
    "mand",
    "nomand",
    // Of FUSE: so in any case.
    "default_permissions",
    "nonempty",
    "big_writes",
    "noforget",
    // Of mount.ceph: so in any case.
    "acl",
    "norbytes",
    "nodirstat",
    "noshare",
    "share",
    "crc",
    "nocrc",
    "dcache",
    "nodcache",
    "asyncreaddir",
    "noasyncreaddir",
    "copyfrom",
    "nocopyfrom",
    "quotadf",
    "noquotadf",
    "noino32",
    "require_active_mds",
    "norequire_active_mds",
    "tcp_nodelay",
    "notcp_nodelay",
    "fsc",
    "nofsc",
    "pagecache",
    "sparseread",
    "nosparseread",
    "abort_on_full",
    // Of mount.ceph: sizes and times of Linux's client.
    "rasize",
    "rsize",
    "wsize",
    "readdir_max_bytes",
    "readdir_max_entries",
    "write_congestion_kb",
    "congestion_kb",
    "caps_wanted_delay_min",
    "caps_wanted_delay_max",
    "caps_max",
    "cap_release_safety",
    "osdtimeout",
    "osd_request_timeout",
    "osdkeepalive",
    "osdkeepalivetimeout",
    "osd_idle_ttl",
    // Of mount.ceph: which copy is read.
    "crush_location",
    "read_from_replica",
];

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
