//! Profiles: the part of the cluster that a run exercises.

/// The part of the cluster that a run is about. A seed means another run in each profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// Everything, as the seed draws it.
    Any,
    /// Objects, OSDs and the monitor.
    Objects,
    /// The file system and its server.
    Files,
    /// One PG, whose primary is cut off together with one of its clients, or dies with updates that it alone
    /// has.
    Primary,
    /// Disks that lose their power with writes in flight, while maps change.
    Commits,
    /// Snapshots, as OSDs die with and without their power.
    Snapshots,
    /// Three or five monitors, and commands that each client gives to any of them.
    Monitors,
    /// Bit rot on the disk of one OSD, under scrubs that come every few seconds.
    Decay,
    /// Objects and their snapshots on 3 to 12 OSDs, with every fault of OSDs, monitors, networks and disks.
    /// Some runs have disks that are nearly full, others have one that rots.
    Rados,
    /// The file system with 1 to 4 ranks, whose number changes, and subtrees that move between them.
    Ranks,
    /// Block-device images that several clients use, which pass the lock on, die and are cut off.
    Images,
}

impl Profile {
    /// All profiles, in order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Any,
        Self::Objects,
        Self::Files,
        Self::Primary,
        Self::Commits,
        Self::Snapshots,
        Self::Monitors,
        Self::Decay,
        Self::Rados,
        Self::Ranks,
        Self::Images,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Objects => "objects",
            Self::Files => "files",
            Self::Primary => "primary",
            Self::Commits => "commits",
            Self::Snapshots => "snapshots",
            Self::Monitors => "monitors",
            Self::Decay => "decay",
            Self::Rados => "rados",
            Self::Ranks => "ranks",
            Self::Images => "images",
        }
    }

    /// True if a run is about nothing but files.
    pub fn is_about_files(self) -> bool {
        matches!(self, Self::Files | Self::Ranks)
    }

    /// Says if clients work on files; `None` if the seed draws it.
    pub fn has_files(self) -> Option<bool> {
        match self {
            Self::Any => None,
            other => Some(other.is_about_files()),
        }
    }

    /// The chance with which a seed of this profile has each of the profile's faults, as a fraction.
    pub(super) fn fault_chance(self) -> (u64, u64) {
        match self {
            Self::Any | Self::Images => (1, 3),
            Self::Objects | Self::Snapshots | Self::Monitors => (1, 2),
            Self::Rados => (1, 4),
            Self::Files | Self::Ranks | Self::Primary | Self::Commits | Self::Decay => (1, 1),
        }
    }
}
