//! Golden clusters: stopped clusters that earlier builds have written, kept in `tests/golden`. A later build
//! must start on them and read everything; `tests/golden.rs` tries it.
//!
//! `NAME.tar.xz` holds the files of the daemons, `NAME.txt` what must be read, one line for each file, object
//! and row. `cargo xtask golden NAME` makes both, with the program of this tree or with `$NACRE_BIN`.

mod common;
mod content;
mod listing;
mod objects;

use crate::cluster::{Cluster, Options};
use crate::run::run;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Monitors are known by their addresses, so a kept cluster has one that nobody else uses, at any time.
const AT: ([u8; 4], u16) = ([127, 103, 0, 1], 3300);
/// Stands for the cluster's directory in the packed configuration.
const DIR: &str = "@DIR@";
/// What daemons keep; logs, sockets and process ids are not packed.
const PACKED: [&str; 6] = ["ceph.conf", "keyring", "mon.a", "osd.0", "osd.1", "mds.a"];

/// The directory of golden clusters.
pub fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The names of all golden clusters, the oldest first.
pub fn names() -> Vec<String> {
    let packed = |name: String| name.strip_suffix(".tar.xz").map(str::to_owned);
    crate::mount::names(&dir()).into_iter().filter_map(packed).collect()
}

/// Makes one: `DIR/NAME.tar.xz` and `DIR/NAME.txt`.
pub fn make(to: &Path, name: &str) {
    let mut cluster = start(temporary());
    content::write(&cluster, "first");
    let listing = listing::of(&cluster);
    assert_eq!(cluster.stop(), Some(0), "it ends in order");

    let conf = std::fs::read_to_string(cluster.conf()).expect("a configuration");
    let conf = conf.replace(&cluster.dir().display().to_string(), DIR);
    std::fs::write(cluster.conf(), conf).expect("writes");
    let pack = to.join(format!("{name}.tar.xz"));
    let mut tar = Command::new("tar");
    tar.args(["--sparse", "--owner=0", "--group=0", "-cJf"]).arg(&pack);
    run(tar.arg("-C").arg(cluster.dir()).args(PACKED)).ok();
    std::fs::write(to.join(format!("{name}.txt")), listing).expect("writes");
}

/// A golden cluster, running again.
pub struct Golden {
    /// The cluster.
    pub cluster: Cluster,
    listing: Vec<String>,
}

impl Golden {
    /// Unpacks one, and starts the program under test on it.
    pub fn open(name: &str) -> Self {
        let to = temporary();
        let pack = dir().join(format!("{name}.tar.xz"));
        run(Command::new("tar").arg("-xJf").arg(&pack).arg("-C").arg(to.path())).ok();
        let conf = to.path().join("ceph.conf");
        let text = std::fs::read_to_string(&conf).expect("a configuration");
        std::fs::write(&conf, text.replace(DIR, &to.path().display().to_string())).expect("writes");
        let text = std::fs::read_to_string(dir().join(format!("{name}.txt"))).expect("a listing");
        Self { cluster: start(to), listing: text.lines().map(str::to_owned).collect() }
    }

    /// Fails unless all that was read before is there as it was; new things may have come.
    pub fn check(&self) {
        let found = listing::of(&self.cluster);
        let found: std::collections::BTreeSet<&str> = found.lines().collect();
        let missing: Vec<_> = self.listing.iter().filter(|line| !found.contains(line.as_str())).collect();
        let named = |line: &str| line.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>();
        let instead = |line: &str| found.iter().find(|other| named(other) == named(line));
        let shown: Vec<_> =
            missing.iter().take(10).map(|line| format!("- {line}\n+ {:?}", instead(line))).collect();
        assert!(missing.is_empty(), "{} lines differ:\n{}", missing.len(), shown.join("\n"));
    }

    /// Writes as much again beside it, which must be there from now on.
    pub fn write(&mut self) {
        content::write(&self.cluster, "again");
        self.listing = listing::of(&self.cluster).lines().map(str::to_owned).collect();
    }
}

fn temporary() -> TempDir {
    tempfile::Builder::new().prefix("nacre-golden-").tempdir().expect("a temporary directory")
}

fn start(dir: TempDir) -> Cluster {
    let at = Some(SocketAddr::from(AT));
    Cluster::start_in(dir, Options { osds: 2, osd_size: "1G", at, ..Options::default() })
}
