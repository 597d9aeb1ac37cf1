//! All file systems, and the MDSs that serve none.

use crate::{CompatSet, Epoch, Fscid, Gid, MdsInfo, MdsMap};
use std::collections::{BTreeMap, BTreeSet};
use stdx::Rng;
use wire::{Decode, DecodeError, Encode, Reader, Sample, Uuid, Writer};

wire::wire_structs! {
    /// One file system of [`FsMapUser`].
    pub struct FsInfo[v 1/1] {
        /// Number.
        pub fscid: Fscid,
        /// Name.
        pub name: String,
    }

    /// `FSMapUser`: the names of file systems, for clients that mount by name.
    pub struct FsMapUser[v 1/1] {
        /// Of the FSMap.
        pub epoch: Epoch,
        /// The default.
        pub legacy_client_fscid: Fscid,
        /// All.
        pub filesystems: Vec<FsInfo>,
    }

    /// A file system that another cluster mirrors to.
    pub struct MirrorInfo[v 1/1] {
        /// True if it is mirrored.
        pub mirrored: bool,
        /// Its mirrors.
        pub peers: BTreeSet<MirrorPeer>,
    }
}

/// A mirror's other end.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct MirrorPeer {
    /// A uuid in text form.
    pub uuid: String,
    /// Client of the other cluster.
    pub client_name: String,
    /// Name of the other cluster.
    pub cluster_name: String,
    /// File system there.
    pub fs_name: String,
}

impl Encode for MirrorPeer {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.uuid);
            w.versioned(1, 1, |w| {
                w.put(&self.client_name);
                w.put(&self.cluster_name);
                w.put(&self.fs_name);
            });
        });
    }
}

impl Decode for MirrorPeer {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned(1, |_, r| {
            let uuid = r.get()?;
            r.versioned(1, |_, r| {
                Ok(Self { uuid, client_name: r.get()?, cluster_name: r.get()?, fs_name: r.get()? })
            })
        })
    }
}

impl Sample for MirrorPeer {
    fn sample(rng: &mut Rng) -> Self {
        Self {
            uuid: Uuid::sample(rng).to_string(),
            client_name: Sample::sample(rng),
            cluster_name: Sample::sample(rng),
            fs_name: Sample::sample(rng),
        }
    }
}

/// `Filesystem`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Filesystem {
    /// Number.
    pub fscid: Fscid,
    /// Its map.
    pub mds_map: MdsMap,
    /// Mirroring, which is never ours.
    pub mirror_info: MirrorInfo,
}

impl Encode for Filesystem {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.put(&self.fscid);
            w.sized(|w| w.put(&self.mds_map));
            w.put(&self.mirror_info);
        });
    }
}

impl Decode for Filesystem {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned(2, |v, r| {
            Ok(Self {
                fscid: r.get()?,
                mds_map: r.sub()?.get()?,
                mirror_info: if v >= 2 { r.get()? } else { MirrorInfo::default() },
            })
        })
    }
}

impl Sample for Filesystem {
    fn sample(rng: &mut Rng) -> Self {
        Self { fscid: Sample::sample(rng), mds_map: Sample::sample(rng), mirror_info: Sample::sample(rng) }
    }
}

/// `FSMap`.
#[derive(Clone, PartialEq, Debug)]
pub struct FsMap {
    /// Of this map.
    pub epoch: Epoch,
    /// The number of the next file system.
    pub next_fscid: u64,
    /// The file system of clients that name none; -1 for none.
    pub legacy_client_fscid: Fscid,
    /// Features of a new file system.
    pub default_compat: CompatSet,
    /// True if there may be several file systems.
    pub enable_multiple: bool,
    /// By number.
    pub filesystems: BTreeMap<Fscid, Filesystem>,
    /// The file system of each MDS, -1 for a standby.
    pub mds_roles: BTreeMap<Gid, Fscid>,
    /// MDSs without a file system.
    pub standby_daemons: BTreeMap<Gid, MdsInfo>,
    /// Epoch of each standby's last change.
    pub standby_epochs: BTreeMap<Gid, Epoch>,
    /// True if there ever were several.
    pub ever_enabled_multiple: bool,
}

impl Default for FsMap {
    fn default() -> Self {
        Self {
            epoch: Epoch(0),
            next_fscid: 1,
            legacy_client_fscid: Fscid::NONE,
            default_compat: CompatSet::mds_default(),
            enable_multiple: true,
            filesystems: BTreeMap::new(),
            mds_roles: BTreeMap::new(),
            standby_daemons: BTreeMap::new(),
            standby_epochs: BTreeMap::new(),
            ever_enabled_multiple: false,
        }
    }
}

impl FsMap {
    /// The file system with this name.
    pub fn by_name(&self, name: &str) -> Option<&Filesystem> {
        self.filesystems.values().find(|fs| fs.mds_map.fs_name == name)
    }

    /// The map as it would be without the file systems that `keep` does not want.
    #[must_use]
    pub fn only(&self, keep: impl Fn(&str) -> bool) -> Self {
        let mut map = self.clone();
        map.filesystems.retain(|_, fs| keep(&fs.mds_map.fs_name));
        let known: BTreeSet<Fscid> = map.filesystems.keys().copied().collect();
        map.mds_roles.retain(|_, fs| *fs == Fscid::NONE || known.contains(fs));
        if !known.contains(&map.legacy_client_fscid) {
            map.legacy_client_fscid = Fscid::NONE;
        }
        map
    }

    /// The names for clients.
    pub fn user_map(&self) -> FsMapUser {
        let info = |fs: &Filesystem| FsInfo { fscid: fs.fscid, name: fs.mds_map.fs_name.clone() };
        FsMapUser {
            epoch: self.epoch,
            legacy_client_fscid: self.legacy_client_fscid,
            filesystems: self.filesystems.values().map(info).collect(),
        }
    }
}

impl Encode for FsMap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(7, 6, |w| {
            w.put(&self.epoch);
            w.put(&self.next_fscid);
            w.put(&self.legacy_client_fscid);
            w.put(&self.default_compat);
            w.put(&self.enable_multiple);
            w.count(self.filesystems.len());
            self.filesystems.values().for_each(|fs| w.put(fs));
            w.put(&self.mds_roles);
            w.put(&self.standby_daemons);
            w.put(&self.standby_epochs);
            w.put(&self.ever_enabled_multiple);
        });
    }
}

impl Decode for FsMap {
    const MIN_SIZE: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned(7, |v, r| {
            Ok(Self {
                epoch: r.get()?,
                next_fscid: r.get()?,
                legacy_client_fscid: r.get()?,
                default_compat: r.get()?,
                enable_multiple: r.get()?,
                filesystems: r.get::<Vec<Filesystem>>()?.into_iter().map(|fs| (fs.fscid, fs)).collect(),
                mds_roles: r.get()?,
                standby_daemons: r.get()?,
                standby_epochs: r.get()?,
                ever_enabled_multiple: if v >= 7 { r.get()? } else { false },
            })
        })
    }
}

impl Sample for FsMap {
    fn sample(rng: &mut Rng) -> Self {
        let filesystems: Vec<Filesystem> = Sample::sample(rng);
        Self {
            epoch: Sample::sample(rng),
            next_fscid: Sample::sample(rng),
            legacy_client_fscid: Sample::sample(rng),
            default_compat: Sample::sample(rng),
            enable_multiple: Sample::sample(rng),
            filesystems: filesystems.into_iter().map(|fs| (fs.fscid, fs)).collect(),
            mds_roles: Sample::sample(rng),
            standby_daemons: Sample::sample(rng),
            standby_epochs: Sample::sample(rng),
            ever_enabled_multiple: Sample::sample(rng),
        }
    }
}
