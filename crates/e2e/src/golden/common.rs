//! What writing and listing share: clients of a cluster, and text.

use crate::cluster::Cluster;
use crate::mount::Mount;

pub(super) fn mounted(cluster: &Cluster) -> Mount {
    Mount::new(cluster, "mnt")
}

pub(super) fn connected(cluster: &Cluster) -> client::Cluster {
    let options = client::Options::new(cluster.conf());
    client::Cluster::connect(&options, std::time::Duration::from_secs(60)).expect("connects")
}

/// Text that differs from line to line, and packs well.
pub(super) fn text(of: &str, len: usize) -> Vec<u8> {
    let lines = (0..).flat_map(|n| format!("{n} of {of}, which nobody may change\n").into_bytes());
    lines.take(len).collect()
}
