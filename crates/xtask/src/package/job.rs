//! What is packaged, and what a package says about it.

use super::build::Target;
use super::files::Program;
use super::symbols::Needs;
use std::path::PathBuf;

/// What the makers of the formats are given.
pub struct Job {
    pub target: Target,
    pub version: Version,
    pub needs: Needs,
    pub program: Program,
    /// All files get this time at most, so that the same source gives the same bytes.
    pub epoch: u64,
    pub fast: bool,
    pub out: PathBuf,
}

/// A version as packages order them: a pre-release (`0.2.0~rc.1`) comes before the release.
pub struct Version(pub String);

/// The package's own revision: it counts changes of the packaging between two releases.
pub const REVISION: u32 = 1;

pub const MAINTAINER: &str = "Nacre developers <nacre@nacre.invalid>";
pub const SUMMARY: &str = "distributed storage that speaks Ceph's protocol";
pub const DESCRIPTION: [&str; 4] = [
    "Objects, block devices and a POSIX file system, replicated over ordinary",
    "disks of several hosts: monitors, object storage daemons, metadata servers,",
    "the mount and the tools in one program. Ceph's clients are its clients. After",
    "the installation: nacre init, or nacre join TOKEN.",
];

impl Version {
    /// Of a version as cargo writes it.
    pub fn new(cargo: &str) -> Self {
        Self(cargo.replacen('-', "~", 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pre_release_sorts_before_its_release() {
        assert_eq!(Version::new("0.2.0-rc.1").0, "0.2.0~rc.1");
        assert_eq!(Version::new("0.2.0").0, "0.2.0");
    }
}
