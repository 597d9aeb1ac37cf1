//! The options of a mount.

use fuser::{Config, MountOption, SessionACL};

/// What a mount is, and what may be done there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The name of what is mounted, for `/proc/mounts`.
    pub source: String,
    /// The directory of the file system that is mounted.
    pub root: String,
    /// What may be done there, and how.
    pub flags: Flags,
}

/// What may be done in a mount, by whom, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flags {
    /// Refuse writes.
    pub read_only: bool,
    /// Admit other users (needs root or `user_allow_other`).
    pub allow_other: bool,
    /// Heed the bits set-user-ID and set-group-ID, and capabilities of files.
    pub suid: bool,
    /// Heed device files.
    pub dev: bool,
    /// Let programs be run.
    pub exec: bool,
    /// Every write waits until it is durable.
    pub sync: bool,
    /// Every change of a directory waits until it is durable.
    pub dirsync: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { source: "nacre".into(), root: "/".into(), flags: Flags::default() }
    }
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            read_only: false,
            allow_other: false,
            suid: true,
            dev: true,
            exec: true,
            sync: false,
            dirsync: false,
        }
    }
}

impl Options {
    pub(crate) fn config(&self) -> Config {
        use MountOption as M;
        let Flags { read_only, allow_other, suid, dev, exec, sync, dirsync } = self.flags;
        let mut config = Config::default();
        let mut source = self.source.clone();
        if !rustix::process::geteuid().is_root() {
            // `fusermount3` mounts, whose options are separated by commas.
            source = source.replace('\\', "\\\\").replace(',', "\\,");
        }
        config.mount_options = vec![
            M::FSName(source),
            // Not `Subtype`: the kernel does not get that one where this process mounts by itself.
            M::CUSTOM("subtype=nacre".into()),
            M::DefaultPermissions,
            M::NoAtime,
            if suid { M::Suid } else { M::NoSuid },
            if dev { M::Dev } else { M::NoDev },
            if exec { M::Exec } else { M::NoExec },
            if read_only { M::RO } else { M::RW },
        ];
        config.mount_options.extend(sync.then_some(M::Sync));
        config.mount_options.extend(dirsync.then_some(M::DirSync));
        config.acl = if allow_other { SessionACL::All } else { SessionACL::Owner };
        config
    }
}
