//! What clients are told of the ranks that a rank may hand something over to.

use maps::MdsMap;

/// Ranks of which each is told to clients as one that any other may hand something over to. Clients open
/// sessions with all of them.
const MOST_TARGETS: usize = 16;

/// Names for each rank those that it may hand something over to. A client that is told so opens sessions with
/// them ahead, and after the death of one claims what came to it, whether or not it had heard of that.
pub fn name_targets(fs: &mut MdsMap) {
    let ranks = if fs.r#in.len() <= MOST_TARGETS { fs.r#in.clone() } else { Default::default() };
    for (rank, gid) in &fs.up {
        if let Some(info) = fs.mds_info.get_mut(gid) {
            info.export_targets = ranks.iter().copied().filter(|other| other != rank).collect();
        }
    }
}
